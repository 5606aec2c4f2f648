package truth_test

import (
	"fmt"
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

// BenchmarkStable compares the time for the sets of promise stable, which include exact enclosures,
// with that for exact enclosures alone: x-truth is the ratio for the definition, and x-forms the
// ratio for all its usual forms. The two are measured in turns.
func BenchmarkStable(b *testing.B) {
	for _, run := range runs(b) {
		data := run.Data
		data.Sizes["R"], data.Sizes["C"] = 16, 1024
		run, ok := accuracy.NewRun(run.Operation, data, run.DType)
		if !ok {
			b.Fatal(data.Definition.Name)
		}
		forms := append([]*def.Definition{data.Definition}, data.Definition.UsualForms()...)
		b.Run(fmt.Sprintf("def=%s/data=%s", data.Definition.Name, data.Name), func(b *testing.B) {
			var times [3]time.Duration
			for b.Loop() {
				for k, compute := range []func() error{
					func() error {
						_, err := truth.Enclose(data.Definition, run.Operands, truth.Options{Params: data.Params})
						return err
					},
					func() error {
						_, err := truth.EncloseStable(data.Definition, run.Operands, truth.StableOptions{Params: data.Params})
						return err
					},
					func() error {
						_, err := truth.EncloseStableForms(forms, run.Operands, truth.StableOptions{Params: data.Params})
						return err
					},
				} {
					start := cpuTime()
					if err := compute(); err != nil {
						b.Fatal(err)
					}
					times[k] += cpuTime() - start
				}
			}
			elements := float64(b.N) * 16 * 1024
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(times[0])/elements, "truth-ns/elem")
			b.ReportMetric(float64(times[1])/elements, "stable-ns/elem")
			b.ReportMetric(float64(times[1])/float64(times[0]), "x-truth")
			b.ReportMetric(float64(times[2])/float64(times[0]), "x-forms")
		})
	}
}
