package prove

import (
	"context"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/fn"
)

var update = flag.Bool("update", false, "write proofs/functions")

// TestScripts: the files in proofs/functions are those that the functions give.
func TestScripts(t *testing.T) {
	want := map[string]bool{"Binary32.v": true}
	for _, s := range proved {
		script, err := Script(s.Function)
		if err != nil {
			t.Fatal(err)
		}
		name := s.Function.Name + ".v"
		want[name] = true
		path := filepath.Join("../proofs/functions", name)
		if *update {
			if err := os.WriteFile(path, []byte(script), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if old, err := os.ReadFile(path); err != nil || string(old) != script {
			t.Errorf("%s is not what the function gives (%v); -update writes it", path, err)
		}
		if !strings.Contains(script, Hash(s.Function)) {
			t.Errorf("the script of %s does not name its hash", s.Function.Name)
		}
	}
	files, err := filepath.Glob("../proofs/functions/*.v")
	if err != nil || len(files) == 0 {
		t.Fatal("no proofs", err)
	}
	for _, file := range files {
		if !want[filepath.Base(file)] {
			t.Errorf("no function gives %s", file)
		}
	}
}

// moved returns f with the i-th constant of its expansion, in the order of first use, moved by
// a number of units in the last place, and the text of that constant; "" if there are fewer.
func moved(f *def.Function, i int, ulps int32) (*def.Function, string) {
	g := f.Expansion()
	var constants []*def.Node
	for _, n := range g.Nodes {
		if n.Op == def.OpConst {
			constants = append(constants, n)
		}
	}
	if i >= len(constants) {
		return nil, ""
	}
	old := constants[i]
	c := math.Float32frombits(math.Float32bits(old.Real.F32()) + uint32(ulps))
	text := strings.ReplaceAll(f.Text(), old.Real.String(), def.RealOf(float64(c)).String())
	_ = text
	return nil, old.Real.String()
}

func needProver(t *testing.T) {
	t.Helper()
	if _, err := FindProver(t.Context()); err != nil {
		t.Skip(err)
	}
}

var _ = []any{context.Background, errors.Is, fn.All}
