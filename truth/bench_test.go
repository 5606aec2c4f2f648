package truth_test

import (
	"fmt"
	"testing"

	"tokitai/accuracy"
	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/truth"
)

// BenchmarkEnclose counts elements of the first operand.
func BenchmarkEnclose(b *testing.B) {
	for _, mode := range []truth.Mode{truth.Exact, truth.Rounded} {
		b.Run(fmt.Sprintf("def=softmax/mode=%v", mode), func(b *testing.B) {
			x, y := num.NewArray(num.F16, 64, 1024), num.NewArray(num.F16, 64, 1024)
			g := gen.New(b.Name())
			for r := range x.Rows {
				for c := range x.Cols {
					x.Set(r, c, g.Normal())
				}
			}
			for b.Loop() {
				if _, err := truth.Enclose(softmax, []num.Array{x, y}, truth.Options{Mode: mode}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*64*1024/b.Elapsed().Seconds()/1e6, "Melem/s")
		})
		b.Run(fmt.Sprintf("def=product/mode=%v", mode), func(b *testing.B) {
			left, right, result := num.NewArray(num.F16, 32, 1024), num.NewArray(num.F16, 1024, 32), num.NewArray(num.F16, 32, 32)
			for b.Loop() {
				if _, err := truth.Enclose(product, []num.Array{left, right, result}, truth.Options{Mode: mode}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*32*32*1024/b.Elapsed().Seconds()/1e6, "Mmac/s")
		})
	}
}

// BenchmarkEncloseContraction counts multiply-adds, on one core.
func BenchmarkEncloseContraction(b *testing.B) {
	const M, N, K = 128, 128, 1024
	for _, dtype := range num.FloatDTypes {
		left, right, result := num.NewArray(dtype, M, K), num.NewArray(dtype, K, N), num.NewArray(dtype, M, N)
		g := gen.New(b.Name())
		for _, a := range []num.Array{left, right} {
			for r := range a.Rows {
				for c := range a.Cols {
					a.Set(r, c, g.Normal())
				}
			}
		}
		for _, test := range []struct {
			name string
			o    truth.Options
		}{
			{"mode=exact", truth.Options{}},
			{"mode=rounded/order=pairwise", truth.Options{Mode: truth.Rounded, Order: &def.Order{Kind: def.Pairwise}}},
			{"mode=rounded", truth.Options{Mode: truth.Rounded}},
		} {
			b.Run(fmt.Sprintf("dtype=%v/%s", dtype, test.name), func(b *testing.B) {
				for b.Loop() {
					if _, err := truth.Enclose(product, []num.Array{left, right, result}, test.o); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)*M*N*K/b.Elapsed().Seconds()/1e9, "GMAC/s")
			})
		}
	}
}

// BenchmarkStable compares the sets of promise stable with the exact enclosures that they come
// with.
func BenchmarkStable(b *testing.B) {
	for _, run := range runs(b) {
		data := run.Data
		data.Sizes["R"], data.Sizes["C"] = 16, 1024
		run, ok := accuracy.NewRun(run.Operation, data, run.DType)
		if !ok {
			b.Fatal(data.Definition.Name)
		}
		elements := float64(16 * 1024)
		name := fmt.Sprintf("def=%s/data=%s", data.Definition.Name, data.Name)
		b.Run(name+"/exact", func(b *testing.B) {
			for b.Loop() {
				if _, err := truth.Enclose(data.Definition, run.Operands, truth.Options{Params: data.Params}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*elements/b.Elapsed().Seconds()/1e6, "Melem/s")
		})
		b.Run(name+"/stable", func(b *testing.B) {
			for b.Loop() {
				if _, err := truth.EncloseStable(data.Definition, run.Operands, truth.StableOptions{Params: data.Params}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*elements/b.Elapsed().Seconds()/1e6, "Melem/s")
		})
	}
}
