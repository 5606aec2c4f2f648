package gpu_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/lower/gpu"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/crossentropy"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
)

var update = flag.Bool("update", false, "rewrite the golden sources")

// TestGoldenSources compares generated sources with committed ones: a change of the
// generator shows what it does to kernels.
func TestGoldenSources(t *testing.T) {
	for _, x := range []struct {
		d       *def.Definition
		format  num.DType
		variant gpu.Variant
	}{
		{softmax.ForwardDefinition, num.F16, gpu.Vector},
		{softmax.ForwardDefinition, num.F16, gpu.Element},
		{layernorm.BackwardDefinition, num.F16, gpu.Vector},
		{adamw.StochasticDefinition, num.BF16, gpu.Vector},
		{crossentropy.Definition, num.F32, gpu.Vector},
	} {
		file := filepath.Join("testdata", x.d.Name+"."+x.format.String()+"."+x.variant.String()+".cu")
		t.Run(filepath.Base(file), func(t *testing.T) {
			var dtypes []num.DType
			for _, c := range x.d.Formats() {
				if x.d.Format(c) == x.format {
					dtypes = c
					break
				}
			}
			k, err := gpu.Compile(x.d, dtypes, x.variant)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(file, []byte(k.Source.Text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got := k.Source.Text; got != string(want) {
				g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
				for i := range min(len(g), len(w)) {
					if g[i] != w[i] {
						t.Fatalf("line %d:\ngot  %s\nwant %s\nif the change is meant: go test ./lower/gpu -run TestGoldenSources -update", i+1, g[i], w[i])
					}
				}
				t.Fatalf("got %d lines, want %d", len(g), len(w))
			}
		})
	}
}

// TestSourcesAreStable compiles twice.
func TestSourcesAreStable(t *testing.T) {
	for _, d := range shipped {
		for _, dtypes := range d.Formats() {
			for _, v := range variants {
				a, err := gpu.Compile(d, dtypes, v)
				if err != nil {
					t.Fatal(err)
				}
				b, err := gpu.Compile(d, dtypes, v)
				if err != nil {
					t.Fatal(err)
				}
				if a.Source.Text != b.Source.Text {
					t.Errorf("%s %v %s: two compilations give two sources", d.Name, dtypes, v)
				}
				for _, e := range a.Source.Entries {
					if !strings.HasPrefix(e, a.Source.Name) || !strings.Contains(a.Source.Text, "KERNEL("+e+",") && !strings.Contains(a.Source.Text, "KERNEL_BLOCKS("+e+",") {
						t.Errorf("%s: entry %s is not in the source, or does not begin with %s", d.Name, e, a.Source.Name)
					}
				}
			}
		}
	}
}
