package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/op/all"
)

func TestExplore(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	shapes := []string{"", "1", "2", "3", "1x1", "2x2", "2x3", "3x2", "1x3", "3x1", "2x2x2", "2x1x3", "0", "1x0", "2x2x3", "6", "4"}
	dtypes := []string{"f16", "bf16", "f32", "i32"}
	vals := []string{"0", "1", "-1", "2", "-100", "2147483647", "-2147483648"}
	fv := []string{"0", "nan", "inf", "-inf", "1", "-3"}
	pv := []string{"", "0", "1", "-1", "nan", "inf", "1e999", "true", "false", "f32", "same", "f16", "bf16", "i32", "master", "stochastic", "inplace", "3", "2147483648", "9223372036854775807", "18446744073709551615"}
	codes := map[int]int{}
	seen := map[string]bool{}
	for n := range 30000 {
		o := all.Operations[r.IntN(len(all.Operations))]
		var ts []string
		names := map[string]bool{}
		for _, d := range o.Definitions {
			for _, x := range d.Operands {
				names[x.Name] = true
			}
		}
		same := shapes[r.IntN(len(shapes))]
		sd := dtypes[r.IntN(4)]
		for name := range names {
			if r.IntN(8) == 0 { continue }
			if strings.HasPrefix(o.Name, "adamw.step_all") { name = "l." + name }
			sh, dt := same, sd
			if r.IntN(3) == 0 { sh = shapes[r.IntN(len(shapes))] }
			if r.IntN(3) == 0 { dt = dtypes[r.IntN(4)] }
			if (name == "label" || name == "index") && r.IntN(10) > 0 { dt = "i32" }
			v := fv[r.IntN(len(fv))]
			if dt == "i32" { v = vals[r.IntN(len(vals))] }
			e := fmt.Sprintf("%s:%s:%s=%s", name, dt, sh, v)
			if _, err := parseTensor(e); err != nil { t.Fatal(err) }
			ts = append(ts, e)
		}
		writeFile(t, in, ts...)
		args := []string{"run", o.Name, "--in", in, "--out", out, "--admission", "off"}
		for _, p := range o.Params {
			if r.IntN(3) > 0 && (p.Default != "" ) { continue }
			v := pv[r.IntN(len(pv))]
			if r.IntN(2) == 0 { v = "1" }
			args = append(args, "--param", p.Name+"="+v)
		}
		if r.IntN(2) == 0 { args = append(args, "--bad-index", "skip") }
		if r.IntN(3) == 0 { args = append(args, "--lowering", "cpu.reference") }
		var errs strings.Builder
		func() {
			defer func() {
				if p := recover(); p != nil {
					k := fmt.Sprint(o.Name, p)
					if !seen[k] { seen[k] = true; t.Errorf("panic %v: %v %v", p, args, ts) }
				}
			}()
			code := execute(context.Background(), args, io.Discard, &errs)
			codes[code]++
			if code == 1 {
				k := o.Name + errs.String()
				if !seen[k] && !strings.Contains(k, "adamw mode") { seen[k] = true; t.Logf("%s %v", errs.String(), args[5:]) }
			}
			if _, err := os.Stat(out); (err == nil) != (code == 0) { t.Errorf("code %d, out %v", code, err) }
			os.Remove(out)
		}()
		_ = n
	}
	t.Log(codes)
}
