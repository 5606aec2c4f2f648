package matmul_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/cputest"
	"tokitai/lower/cpu/machine"
	"tokitai/lower/cpu/matmul"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial/randdef"
)

var workerCounts = []int{1, 2, 3}

// eachSet runs a test for each instruction set that this machine has.
func eachSet(t *testing.T, test func(t *testing.T, set machine.Set)) {
	for _, set := range sets(t) {
		t.Run(set.String(), func(t *testing.T) { test(t, set) })
	}
}

func sets(t testing.TB) []machine.Set {
	all := machine.Available()
	if all[0] == machine.Plain {
		t.Skip("skipped: " + machine.Note())
	}
	return all[:len(all)-1]
}

var formats = [][]num.DType{
	{num.F32, num.F32, num.F32},
	{num.F16, num.F16, num.F16}, {num.F16, num.F16, num.F32},
	{num.BF16, num.BF16, num.BF16}, {num.BF16, num.BF16, num.F32},
}

func compile(t testing.TB, d *def.Definition, dtypes []num.DType, set machine.Set) lowercpu.Program {
	t.Helper()
	p, err := matmul.Compile(d, dtypes, set)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// compare holds a program against the reference on one case: once with the blocks that it
// has, and once with small ones.
func compare(t *testing.T, g *gen.Generator, c *randdef.Case, set machine.Set) {
	t.Helper()
	want := c.Clone()
	if err := reference.Run(want.Definition, want.Operands, reference.Options{}); err != nil {
		t.Fatal(err)
	}
	p := compile(t, c.Definition, cputest.DTypesOf(c.Operands), set)
	for range 2 {
		got, workers := c.Clone(), workerCounts[g.Below(len(workerCounts))]
		cputest.ExecuteParallel(p, cputest.CallOf(got), workers)
		report(t, got, want, workers)
		matmul.DrawBlocking(g, p)
	}
}

func report(t testing.TB, got, want *randdef.Case, workers int) {
	t.Helper()
	if text := randdef.Diff(got, want); text != "" {
		a, c := got.Operands[0], got.Operands[2]
		t.Fatalf("%s %v, left [%d %d], result [%d %d], %d workers: %s\n%s", got.Definition.Name, cputest.DTypesOf(got.Operands),
			a.Rows, a.Cols, c.Rows, c.Cols, workers, text, got.Definition.Text())
	}
}

func sizes(m, n, k int) map[string]int { return map[string]int{"M": m, "N": n, "K": k} }

// TestSizes has every size from 1 to 300 of one dimension, the others odd.
func TestSizes(t *testing.T) {
	all := cputest.Products()
	eachSet(t, func(t *testing.T, set machine.Set) {
		g := gen.New("sizes")
		others := [][2]int{{1, 3}, {5, 1}, {17, 9}, {33, 2}}
		for n := 1; n <= 300; n++ {
			for range testlevel.Pick(1, 8) {
				o := others[g.Below(len(others))]
				for _, s := range [][3]int{{n, o[0], o[1]}, {o[0], n, o[1]}, {o[0], o[1], n}} {
					d, dtypes := all[g.Below(len(all))], formats[g.Below(len(formats))]
					compare(t, g, randdef.NewCase(g, d, dtypes, sizes(s[0], s[1], s[2])), set)
				}
			}
		}
	})
}

// TestForms has all forms in all formats, of sizes around the register blocks.
func TestForms(t *testing.T) {
	eachSet(t, func(t *testing.T, set machine.Set) {
		g := gen.New("forms")
		for _, d := range cputest.Products() {
			for _, dtypes := range formats {
				for range testlevel.Pick(6, 60) {
					size := func() int { return 1 + g.Below(1+g.Below(70)) }
					compare(t, g, randdef.NewCase(g, d, dtypes, sizes(size(), size(), size())), set)
				}
			}
		}
	})
}

// TestAxes has batch axes and groups: matrices between the rows of others, broadcast ones,
// groups of any size.
func TestAxes(t *testing.T) {
	eachSet(t, func(t *testing.T, set machine.Set) {
		g := gen.New("axes")
		for range testlevel.Pick(300, 3000) {
			d := randdef.Product(g)
			c := randdef.NewCase(g, d, randdef.DTypes(g, d), randdef.ProductSizes(g, d, []int{4, 20, 80}[g.Below(3)]))
			compare(t, g, c, set)
		}
	})
}

// TestScaled has scales, of factors in FP8 and in others.
func TestScaled(t *testing.T) {
	eachSet(t, func(t *testing.T, set machine.Set) {
		g := gen.New("scaled")
		for range testlevel.Pick(200, 2000) {
			d := randdef.Scaled(g)
			c := randdef.NewCase(g, d, randdef.DTypes(g, d), randdef.ProductSizes(g, d, []int{4, 20, 80}[g.Below(3)]))
			compare(t, g, c, set)
		}
	})
}

// TestLarge compares products that have several tiles and regions with the packed
// contraction in plain Go, which tests of its own compare with the reference.
func TestLarge(t *testing.T) {
	shapes := [][3]int{{350, 330, 300}, {120, 700, 450}, {1200, 90, 330}, {1, 3000, 500}, {1500, 3, 700}, {15, 1000, 2100}, {40, 40, 5000}}
	shared := [3]int{520, 530, 540} // its operands are packed for all workers
	eachSet(t, func(t *testing.T, set machine.Set) {
		g := gen.New("large")
		all := cputest.Products()
		for range testlevel.Pick(1, 8) {
			for _, s := range append(shapes, shared) {
				d, dtypes := all[g.Below(len(all))], formats[g.Below(len(formats))]
				if s == shared {
					dtypes = formats[1] // in which the twin is fastest
				}
				want := randdef.NewCase(g, d, dtypes, sizes(s[0], s[1], s[2]))
				got, workers := want.Clone(), workerCounts[g.Below(len(workerCounts))]
				twin, err := lowercpu.Compile(d, dtypes, lowercpu.Short)
				if err != nil {
					t.Fatal(err)
				}
				cputest.ExecuteParallel(twin, cputest.CallOf(want), 2)
				cputest.ExecuteParallel(compile(t, d, dtypes, set), cputest.CallOf(got), workers)
				report(t, got, want, workers)
			}
		}
	})
}

// hard are patterns whose products are not exact, overflow or underflow halfway, or cancel,
// and those that are no numbers.
var hard = map[num.DType][]uint32{
	num.F32: {
		0, 1, 0x007fffff, 0x00800000, 0x00400001, 0x3f800000, 0x3f800001, 0x33800000, 0x39800001, 0x397fffff, 0x7f7fffff, 0x5f800000,
		0x5f000000, 0x1a000001, 0x1a7fffff, 0x7f800000, 0x7fc00000, 0x7f800001,
	},
	num.BF16: {0, 1, 0x007f, 0x0080, 0x3f80, 0x3f81, 0x7f7f, 0x5f80, 0x5f00, 0x1a01, 0x1a7f, 0x7f80, 0x7fc0, 0x7f81},
	num.F16:  {0, 1, 0x03ff, 0x0400, 0x3c00, 0x3c01, 0x7bff, 0x7c00, 0x7e00, 0x7c01},
}

// TestHardValues multiplies hard values of both signs, mostly without infinities and NaN.
func TestHardValues(t *testing.T) {
	eachSet(t, func(t *testing.T, set machine.Set) {
		g := gen.New("hard values")
		for _, d := range cputest.Products() {
			for _, dtypes := range formats {
				for i := range testlevel.Pick(4, 40) {
					c := randdef.NewCase(g, d, dtypes, sizes(1+g.Below(40), 1+g.Below(40), 1+g.Below(20)))
					for _, a := range c.Operands {
						values := hard[a.DType]
						if i%2 == 0 {
							values = values[:len(values)-3]
						}
						for r := range a.Rows {
							for col := range a.Cols {
								a.SetBits(r, col, values[g.Below(len(values))]|uint32(g.Below(2))<<(8*a.DType.Size()-1))
							}
						}
					}
					compare(t, g, c, set)
				}
			}
		}
	})
}

// TestAllocations runs products without and with shared operands, again and again.
func TestAllocations(t *testing.T) {
	if isRaceEnabled {
		t.Skip("skipped: the race detector makes pools forget")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties pools
	d := cputest.Products()[0]
	for _, set := range sets(t) {
		for _, n := range []int{20, 330} {
			p := compile(t, d, formats[1], set)
			call := cputest.Call(d, []num.Array{num.NewArray(num.F16, n, n), num.NewArray(num.F16, n, n), num.NewArray(num.F16, n, n)}, nil)
			once := func() { cputest.ExecuteInTurn(p, call, 1) }
			once()
			if allocations := testing.AllocsPerRun(5, once); allocations != 0 {
				t.Errorf("%s, %d³: %v allocations", set, n, allocations)
			}
		}
	}
}

// TestConcurrentJobs has several goroutines run programs at the same time, while the
// garbage collector runs.
func TestConcurrentJobs(t *testing.T) {
	all := cputest.Products()
	eachSet(t, func(t *testing.T, set machine.Set) {
		stop := make(chan struct{})
		var collector, callers sync.WaitGroup
		collector.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					runtime.GC()
				}
			}
		})
		for i := range 4 {
			callers.Go(func() {
				g := gen.Seeded(uint64(i))
				for range testlevel.Pick(10, 100) {
					d := all[g.Below(len(all))]
					want := randdef.NewCase(g, d, formats[i%len(formats)], sizes(1+g.Below(60), 1+g.Below(60), 1+g.Below(60)))
					got := want.Clone()
					p := compile(t, d, formats[i%len(formats)], set)
					matmul.DrawBlocking(g, p)
					cputest.ExecuteParallel(p, cputest.CallOf(got), 2)
					if err := reference.Run(d, want.Operands, reference.Options{}); err != nil {
						t.Error(err)
						return
					}
					if text := randdef.Diff(got, want); text != "" {
						t.Error(text)
						return
					}
				}
			})
		}
		callers.Wait()
		close(stop)
		collector.Wait()
	})
}

func TestString(t *testing.T) {
	eachSet(t, func(t *testing.T, set machine.Set) {
		text := compile(t, cputest.Products()[0], formats[1], set).String()
		fma := map[machine.Set]string{machine.AVX512: "vfmadd231ps zmm", machine.AVX2: "vfmadd231ps ymm", machine.NEON: "fmla"}[set]
		for _, want := range []string{set.String(), "contraction product of f16 to f16", "rule fma", "multiply", fma} {
			if !strings.Contains(text, want) {
				t.Errorf("the program does not mention %q", want)
			}
		}
	})
}

func TestCompileErrors(t *testing.T) {
	product := cputest.Products()[0]
	gather := def.Must(def.Gather("rows", def.GatherForm{Index: "index", Table: "table", Out: "out"}))
	for _, test := range []struct {
		name   string
		d      *def.Definition
		dtypes []num.DType
		set    machine.Set
		want   string
	}{
		{"another kind", gather, formats[0], machine.AVX2, "kind"},
		{"too few formats", product, formats[0][:2], machine.AVX2, "got operands of"},
		{"mixed formats", product, []num.DType{num.F16, num.F32, num.F32}, machine.AVX2, "got operands of"},
		{"a narrower result", product, []num.DType{num.F32, num.F32, num.F16}, machine.AVX2, "got operands of"},
		{"no instruction set", product, formats[0], machine.Plain, "no code for the instruction set plain"},
	} {
		p, err := matmul.Compile(test.d, test.dtypes, test.set)
		if p != nil || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, %v, want an error with %q", test.name, p, err, test.want)
		}
	}
}

func BenchmarkProduct(b *testing.B) {
	d := cputest.Products()[0]
	for _, set := range sets(b) {
		for _, dtypes := range formats {
			for _, n := range []int{16, 64, 256} {
				b.Run(fmt.Sprintf("dtype=%v,%v/shape=%dx%dx%d/set=%s", dtypes[0], dtypes[2], n, n, n, set), func(b *testing.B) {
					c := randdef.NewCase(gen.New("benchmark"), d, dtypes, sizes(n, n, n))
					p := compile(b, d, dtypes, set)
					b.ReportAllocs()
					for b.Loop() {
						cputest.ExecuteParallel(p, cputest.CallOf(c), 1)
					}
					b.ReportMetric(2e-9*float64(n*n*n)*float64(b.N)/b.Elapsed().Seconds(), "GFLOP/s")
				})
			}
		}
	}
}
