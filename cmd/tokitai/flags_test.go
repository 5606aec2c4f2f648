package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// valueOf returns a valid value of a flag.
func valueOf(f *pflag.Flag, dir string) string {
	if value := map[string]string{
		"dtype": "f32", "level": "smoke", "promise": "stable", "profile": "torch", "declare": "ftz", "waive": "softmax.forward.C4", "shape": "R=5,C=4", "case": "normal/R=3,C=257",
		"out": dir + "/out", "html": dir + "/page.html", "batch": dir, "launch": "grid=R block=32 args=x,y,C", "in": dir + "/x.safetensors", "tensor": "x=x", "param": "policy=fast",
		"device": "sim", "emit": "header", "shapes": "C % 16 == 0",
	}[f.Name]; value != "" {
		return value
	}
	return map[string]string{"bool": "true", "duration": "1m", "int": "1", "int64": "1"}[f.Value.Type()]
}

// Every flag of check is taken by a way to name a kernel, or refused by name: none is ignored.
func TestCheckFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir+"/x.safetensors", "x:f32:1x2=0")
	writeFile(t, dir+"/y.safetensors", "y:f32:1x2=0.5")
	isWay := func(name string) bool {
		return slices.ContainsFunc(kernelWays, func(w *kernelWay) bool { return w.flag == name })
	}
	for _, w := range kernelWays {
		newCheck().Flags().VisitAll(func(f *pflag.Flag) {
			_, isListed := waysOf[f.Name]
			mustRefuse := isListed && !slices.Contains(waysOf[f.Name], w.flag) || w.judge != nil && !isListed && !slices.Contains(ofGiven, f.Name)
			if isWay(f.Name) || f.Name == "emit" || w.judge != nil && f.Name == "in" || !mustRefuse && w.judge == nil {
				return // --emit is below; what kernels are run with has tests of its own
			}
			args := []string{"check", "softmax.forward"}
			if w.judge != nil {
				args = append(args, "--in", dir+"/x.safetensors", "--got", dir+"/y.safetensors")
			} else {
				args = append(args, "--"+w.flag, "nothing")
			}
			switch value := valueOf(f, dir); {
			case value == "" && f.Value.Type() != "string":
				t.Errorf("--%s: no value is known for this test", f.Name)
			default:
				args = append(args, "--"+f.Name+"="+value)
			}
			if args[len(args)-1] == "--"+f.Name+"=" {
				args[len(args)-1] += "something"
			}
			code, _, stderr := program(t.Context(), args...)
			switch {
			case mustRefuse && (code != exitWrongUse || !strings.Contains(stderr, "--"+f.Name)):
				t.Errorf("%s: exit code %d, %s\nwant --%s refused by name", strings.Join(args, " "), code, stderr, f.Name)
			case !mustRefuse && f.Name != "help" && strings.Contains(stderr, "--"+f.Name+" "):
				t.Errorf("%s: exit code %d, %s\nwant it taken", strings.Join(args, " "), code, stderr)
			}
		})
	}
	for _, file := range []string{"page.html", "out/index.md"} { // of --got
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Errorf("a flag of check --got was ignored: %v", err)
		}
	}
	for _, line := range []string{"check softmax.forward --emit header", "check --emit header --exec true", "check --emit header --json"} {
		if code, _, stderr := program(t.Context(), strings.Fields(line)...); code != exitWrongUse || !strings.Contains(stderr, "--emit") {
			t.Errorf("%s: exit code %d, %s", line, code, stderr)
		}
	}
}

// Flags that another flag makes pointless are refused by name, never ignored.
func TestPointlessFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, flag string }{
		{"evidence DIR --device cpu", "--device"},
		{"explain --dtype f16", "--dtype"},
		{"explain --emit cuda", "--emit"},
		{"explain --of x", "--of"},
		{"explain softmax.forward --of x", "--of"},
		{"verify --resume", "--resume"},
		{"verify --case x --budget 1s", "--budget"},
		{"check softmax.forward --exec true --bench-shape R=1,C=1", "--bench-shape"},
		{"run softmax.forward --in x.safetensors --out DIR/y.safetensors --shard-size 1GB", "--shard-size"},
		{"bench --peer torch", "--peer"},
		{"bench --peers --lowering cpu.rowwise", "--lowering"},
		{"bench --peers --tensors 3", "--tensors"},
	} {
		code, _, stderr := program(t.Context(), strings.Fields(strings.ReplaceAll(c.line, "DIR", t.TempDir()))...)
		if code != exitWrongUse || !strings.Contains(stderr, c.flag) {
			t.Errorf("%s: exit code %d, %s\nwant 2, and a line about %s", c.line, code, stderr, c.flag)
		}
	}
	newVerify().Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(probeFlags, f.Name) {
			return
		}
		value := valueOf(f, t.TempDir())
		if value == "" {
			value = "sample"
		}
		if f.Name == "seed" || f.Name == "interpret" && value == "true" {
			return
		}
		code, _, stderr := program(t.Context(), "verify", probeName, "--device", "cpu", "--"+f.Name+"="+value)
		if code != exitWrongUse || !strings.Contains(stderr, "--"+f.Name) {
			t.Errorf("verify mma --%s: exit code %d, %s", f.Name, code, stderr)
		}
	})
}
