package truthtest

import (
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"hash"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/accuracy"
	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/promise"
	"tokitai/trial/randdef"
	"tokitai/truth"
)

var update = flag.Bool("update", false, "write the hashes of the sets anew")

// manners has options under which sets are computed in different ways.
var manners = []struct {
	name string
	o    truth.StableOptions
}{
	{"plain", truth.StableOptions{}},
	{"steps", truth.StableOptions{CountSteps: true, Order: def.Order{Kind: def.Pairwise}}},
	{"flush", truth.StableOptions{Declares: promise.Declaration{FlushesSubnormals: true, RawParams: true}, FunctionULP: 3}},
	{"per-x", truth.StableOptions{Errors: func(string) promise.Error { return promise.Error{ULPs: 1, ULPsPerX: 1.16, Absolute: 0x1p-40} }}},
}

// writeSets writes the sets of every element at several heights, with errors and exact results.
func writeSets(w hash.Hash, d *def.Definition, operands []num.Array, s *truth.Stable) {
	number := func(x float64) {
		if x != x {
			x = -1 // a NaN has many patterns
		}
		binary.Write(w, binary.LittleEndian, x)
	}
	for i, o := range d.Operands {
		if !o.IsOut {
			continue
		}
		for r := range operands[i].Rows {
			for c := range operands[i].Cols {
				b := s.At(i, r, c)
				number(b.Mid)
				number(b.Rad)
				binary.Write(w, binary.LittleEndian, s.Known(i, r, c))
				for _, height := range []int{0, 3, math.MaxInt} {
					lo, hi := s.Between(i, r, c, height)
					binary.Write(w, binary.LittleEndian, [2]uint32{lo, hi})
					number(s.Error(i, r, c, height))
				}
				if o.IsInt() {
					binary.Write(w, binary.LittleEndian, s.Ints(i, r, c))
				}
			}
		}
	}
}

// mustBeTruth compares the exact enclosure that sets come with with that of Enclose.
func mustBeTruth(t *testing.T, d *def.Definition, operands []num.Array, params []float64, s *truth.Stable) {
	t.Helper()
	got := s.Exact()
	if got == nil {
		return
	}
	want, err := truth.Enclose(d, operands, truth.Options{Params: params})
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range d.Operands {
		if !o.IsOut {
			continue
		}
		for r := range operands[i].Rows {
			for c := range operands[i].Cols {
				if a, b := got.At(i, r, c), want.At(i, r, c); a != b && (a.Known() || b.Known()) {
					t.Fatalf("%s: %s[%d,%d] is %v, want %v", d.Name, o.Name, r, c, a, b)
				}
			}
		}
	}
}

// TestStableComesWithTruth is about definitions that are not rowwise.
func TestStableComesWithTruth(t *testing.T) {
	for seed := range 60 {
		g := gen.New(fmt.Sprint(t.Name(), seed))
		d := randdef.Product(g)
		if seed%2 == 0 {
			d = randdef.Scaled(g)
		}
		k := randdef.NewCase(g, d, randdef.DTypes(g, d), randdef.ProductSizes(g, d, 6))
		s, err := truth.EncloseStable(d, k.Operands, truth.StableOptions{Params: k.Params})
		if err != nil {
			t.Fatal(err)
		}
		mustBeTruth(t, d, k.Operands, k.Params, s)
	}
}

// TestStableSets compares the sets of promise stable with committed hashes: of operations, of the
// forms in which they are usually computed, and of random definitions. The code that finds the
// sets may become faster, but the sets stay the same to the last bit, on every machine. -update
// rewrites the file after an intended change.
func TestStableSets(t *testing.T) {
	var lines []string
	add := func(name string, write func(w hash.Hash, o truth.StableOptions) error) {
		for _, m := range manners {
			w := sha256.New()
			if err := write(w, m.o); err != nil {
				fmt.Fprint(w, err)
			}
			lines = append(lines, fmt.Sprintf("%s %s %x", name, m.name, w.Sum(nil)[:8]))
		}
	}
	for _, run := range runs(t) {
		data := run.Data
		data.Sizes["C"] = min(data.Sizes["C"], 300)
		run, ok := accuracy.NewRun(run.Operation, data, run.DType)
		if !ok {
			t.Fatal(data.Definition.Name)
		}
		for _, d := range append([]*def.Definition{data.Definition}, data.Definition.UsualForms()...) {
			add(d.Name+"/"+data.Name, func(w hash.Hash, o truth.StableOptions) error {
				o.Params = data.Params
				s, err := truth.EncloseStable(d, run.Operands, o)
				if err == nil {
					writeSets(w, d, run.Operands, s)
					mustBeTruth(t, d, run.Operands, data.Params, s)
				}
				return err
			})
		}
	}
	const group = 20
	for first := 0; first < 200; first += group {
		add(fmt.Sprintf("random/%d", first), func(w hash.Hash, o truth.StableOptions) error {
			for seed := range group {
				g := gen.New(fmt.Sprint("stable sets ", first+seed))
				d, err := randdef.New(g)
				if err != nil {
					return err
				}
				k := randdef.NewCase(g, d, randdef.DTypes(g, d), randdef.Sizes(g, d, 300))
				o.Params = k.Params
				s, err := truth.EncloseStable(d, k.Operands, o)
				if err != nil { // a function without a name, say
					fmt.Fprint(w, err)
					continue
				}
				writeSets(w, d, k.Operands, s)
				mustBeTruth(t, d, k.Operands, k.Params, s)
			}
			return nil
		})
	}
	file := filepath.Join("testdata", "stable_sets.txt")
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wants := strings.Split(strings.TrimSpace(string(want)), "\n")
	if len(wants) != len(lines) {
		t.Fatalf("%s has %d lines, want %d", file, len(wants), len(lines))
	}
	for i, line := range lines {
		if line != wants[i] {
			t.Errorf("sets are %s, want %s", line, wants[i])
		}
	}
}
