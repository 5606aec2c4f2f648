package truthtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tokitai/accuracy"
	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/truth"
)

// BenchmarkEnclose measures elements of the first operand per second.
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

// BenchmarkEncloseContraction measures multiply-adds per second on one core.
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
// with: x-truth is what the derivatives, and all else that makes sets of the exact results, cost
// besides these, in units of what the exact results cost; x-forms is the same for the definition and
// all its usual forms together, in units of what their exact results cost. Times are medians, and
// are taken in turns.
func BenchmarkStable(b *testing.B) {
	for _, run := range runs(b) {
		data := run.Data
		if data.Definition.IsExact() {
			continue // which has no such sets
		}
		data.Sizes["R"], data.Sizes["C"] = 16, 1024
		run, ok := accuracy.NewRun(run.Operation, data, run.DType)
		if !ok {
			b.Fatal(data.Definition.Name)
		}
		forms := append([]*def.Definition{data.Definition}, data.Definition.UsualForms()...)
		b.Run(fmt.Sprintf("def=%s/data=%s", data.Definition.Name, data.Name), func(b *testing.B) {
			exact := make([][]time.Duration, len(forms))
			stable := make([][]time.Duration, len(forms))
			took := func(compute func() error) time.Duration {
				start := cpuTime()
				if err := compute(); err != nil {
					b.Fatal(err)
				}
				return cpuTime() - start
			}
			for b.Loop() {
				for k, d := range forms {
					exact[k] = append(exact[k], took(func() error {
						_, err := truth.Enclose(d, run.Operands, truth.Options{Params: data.Params})
						return err
					}))
					stable[k] = append(stable[k], took(func() error {
						_, err := truth.EncloseStable(d, run.Operands, truth.StableOptions{Params: data.Params})
						return err
					}))
				}
			}
			var allExact, allStable float64
			b.ReportMetric(0, "ns/op")
			for k := range forms {
				slices.Sort(exact[k])
				slices.Sort(stable[k])
				t, s := float64(exact[k][b.N/2])/(16*1024), float64(stable[k][b.N/2])/(16*1024)
				if allExact, allStable = allExact+t, allStable+s; k == 0 {
					b.ReportMetric(t, "truth-ns/elem")
					b.ReportMetric(s, "stable-ns/elem")
					b.ReportMetric(s/t-1, "x-truth")
				}
			}
			b.ReportMetric(allStable/allExact-1, "x-forms")
		})
	}
}
