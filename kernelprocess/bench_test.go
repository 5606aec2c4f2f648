//go:build unix

package kernelprocess

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/op/adamw"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

func benchDevice(b *testing.B) *Device {
	p, err := NewPool(Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close() })
	d, err := p.Open("cpu", "")
	if err != nil {
		b.Fatal(err)
	}
	return d
}

func benchTensor(b *testing.B, dev device.Device, shape ...int) *tensor.Tensor {
	return randomTensor(b, dev, rand.New(rand.NewPCG(1, 1)), shape...)
}

// BenchmarkTiny is calls of 16 elements through one process.
func BenchmarkTiny(b *testing.B) {
	d := benchDevice(b)
	for _, memory := range []string{"inline", "shared", "resident"} {
		dev := map[string]device.Device{"inline": cpu.Queue().Device(), "shared": d, "resident": d.Resident()}[memory]
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprintf("memory=%s/callers=%d", memory, callers), func(b *testing.B) {
				b.ReportAllocs()
				var work sync.WaitGroup
				for i := range callers {
					x, y := benchTensor(b, dev, 1, 16), benchTensor(b, dev, 1, 16)
					if i == 0 {
						if err := softmax.Forward(cpu.Queue(), y, x, Isolated(d)); err != nil {
							b.Fatal(err)
						}
						b.ResetTimer()
					}
					q := cpu.Queue().With(Isolated(d))
					work.Go(func() {
						for range (b.N + callers - 1 - i) / callers {
							if err := softmax.Forward(q, y, x); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				work.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
			})
		}
	}
}

// BenchmarkLarge is softmax of 64 MiB.
func BenchmarkLarge(b *testing.B) {
	d := benchDevice(b)
	here := cpu.Queue().Device()
	for _, c := range []struct {
		name string
		dev  device.Device
		opts []engine.Option
	}{{"in-process", here, nil}, {"shared", d, []engine.Option{Isolated(d)}}, {"resident", d.Resident(), []engine.Option{Isolated(d)}}, {"staged", here, []engine.Option{Isolated(d)}}} {
		b.Run("memory="+c.name, func(b *testing.B) {
			const rows, cols = 4096, 4096
			x, y := benchTensor(b, c.dev, rows, cols), benchTensor(b, c.dev, rows, cols)
			defer x.Close()
			defer y.Close()
			q := cpu.Queue().With(c.opts...)
			if err := softmax.Forward(q, y, x); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(2 * 4 * rows * cols)
			b.ResetTimer()
			for range b.N {
				if err := softmax.Forward(q, y, x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRatio alternates calls here and in a process, and compares the best of each: on
// a machine that others use too only that says something.
func BenchmarkRatio(b *testing.B) {
	d := benchDevice(b)
	here := cpu.Queue().Device()
	timed := func(f func() error) time.Duration {
		began := time.Now()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	compare := func(b *testing.B, inProcess, isolated func() error) {
		shortest := [2]time.Duration{math.MaxInt64, math.MaxInt64}
		for range b.N {
			for i, f := range []func() error{inProcess, isolated} {
				shortest[i] = min(shortest[i], timed(f))
			}
		}
		b.ReportMetric(float64(shortest[0])/float64(shortest[1]), "of-in-process")
	}
	for _, dev := range []*Device{d, d.Resident()} {
		memory := map[bool]string{false: "shared", true: "resident"}[dev.isResident]
		b.Run("call=softmax/memory="+memory, func(b *testing.B) {
			var calls []func() error
			for _, dev := range []device.Device{here, dev} {
				x, y := benchTensor(b, dev, 4096, 4096), benchTensor(b, dev, 4096, 4096)
				defer x.Close()
				defer y.Close()
				q := cpu.Queue()
				if dev != here {
					q = q.With(Isolated(d))
				}
				calls = append(calls, func() error { return softmax.Forward(q, y, x) })
			}
			compare(b, calls[0], calls[1])
		})
		b.Run("call=adamw.step_all/memory="+memory, func(b *testing.B) {
			var calls []func() error
			for _, dev := range []device.Device{here, dev} {
				q, err := engine.NewQueue(dev)
				if err != nil {
					b.Fatal(err)
				}
				var parameters []adamw.Parameter
				var grads []*tensor.Tensor
				for range 40 {
					w, g := benchTensor(b, dev, 512, 512), benchTensor(b, dev, 512, 512)
					defer w.Close()
					defer g.Close()
					parameters = append(parameters, adamw.Parameter{Weight: w, LRScale: 1})
					grads = append(grads, g)
				}
				h := adamw.DefaultHyper
				h.LR = 1e-3
				o, err := adamw.New(q, adamw.Options{Hyper: h}, parameters)
				if err != nil {
					b.Fatal(err)
				}
				defer o.Close()
				calls = append(calls, func() error { return o.StepAll(q, grads) })
			}
			compare(b, calls[0], calls[1])
		})
	}
}
