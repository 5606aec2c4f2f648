//go:build unix

package kernelserver

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"tokitai/device"
	"tokitai/engine"
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
		dev := map[string]device.Device{"inline": engine.CPU().Device(), "shared": d, "resident": d.Resident()}[memory]
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprintf("memory=%s/callers=%d", memory, callers), func(b *testing.B) {
				b.ReportAllocs()
				var work sync.WaitGroup
				for i := range callers {
					x, y := benchTensor(b, dev, 1, 16), benchTensor(b, dev, 1, 16)
					if i == 0 {
						if err := softmax.Forward(engine.CPU(), y, x, Isolated(d)); err != nil {
							b.Fatal(err)
						}
						b.ResetTimer()
					}
					q := engine.CPU().With(Isolated(d))
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
	here := engine.CPU().Device()
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
			q := engine.CPU().With(c.opts...)
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
