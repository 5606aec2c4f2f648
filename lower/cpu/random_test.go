package cpu_test

import (
	"fmt"
	"sync"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/cputest"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial/randdef"
)

// answer returns the case with the reference's outputs.
func answer(t testing.TB, c *randdef.Case) *randdef.Case {
	t.Helper()
	want := c.Clone()
	if err := reference.Run(want.Definition, want.Operands, reference.Options{Params: want.Params}); err != nil {
		t.Fatalf("reference: %v", err)
	}
	return want
}

var workerCounts = []int{1, 2, 3, 7}

// compareRandom makes one definition and a few cases of different sizes, and compares
// the programs of all contenders with the reference, out of place and in place.
// One program runs all cases, so that it reuses its scratch memory.
func compareRandom(t testing.TB, g *gen.Generator, steps, work int) {
	t.Helper()
	d, err := randdef.Sized(g, steps)
	if err != nil {
		t.Fatalf("the generator made a definition that is refused: %v", err)
	}
	dtypes := randdef.DTypes(g, d)
	var programs []lowercpu.Program
	for i, k := range contenders {
		programs = append(programs, k.compile(t, d, dtypes))
		if programs[i].String() == "" {
			t.Fatal("the program lists nothing")
		}
	}
	for range 3 {
		c := randdef.NewCase(g, d, dtypes, randdef.Sizes(g, d, work))
		want := answer(t, c)
		for i, k := range contenders {
			workers := workerCounts[g.Below(len(workerCounts))]
			got := c.Clone()
			cputest.Execute(programs[i], cputest.CallOf(got), workers, g)
			report(t, got, want, programs[i], "%s, %d workers", k.name, workers)
		}
		if got, ok := c.InPlace(g); ok {
			i := g.Below(len(contenders))
			cputest.Execute(programs[i], cputest.CallOf(got), 2, g)
			report(t, got, want, programs[i], "%s, in place", contenders[i].name)
		}
	}
}

// report fails the test with everything needed to understand a difference.
func report(t testing.TB, got, want *randdef.Case, p lowercpu.Program, format string, args ...any) {
	t.Helper()
	if text := randdef.Diff(got, want); text != "" {
		t.Fatalf("%s: %s\n%s\n%s\nparams %v", fmt.Sprintf(format, args...), text, want.Definition.Text(), p, want.Params)
	}
}

func TestRandomDefinitions(t *testing.T) {
	count, work := testlevel.Pick(60, 600, 20_000), 60_000
	for seed := range count {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			g := gen.Seeded(uint64(seed))
			limit := work
			if seed%50 == 0 {
				limit = 40 * work // rows beyond 65,536 columns, column sums beyond their lanes
			}
			compareRandom(t, g, 1+g.Below(1+g.Below(randdef.MaxSteps)), limit)
		})
	}
}

func FuzzRandomDefinitions(f *testing.F) {
	f.Add(uint64(1), uint8(1), uint16(1))
	f.Add(uint64(2), uint8(9), uint16(100))
	f.Add(uint64(3), uint8(60), uint16(1000))
	f.Fuzz(func(t *testing.T, seed uint64, steps uint8, work uint16) {
		compareRandom(t, gen.Seeded(seed), 1+int(steps)%randdef.MaxSteps, 100*int(work))
	})
}

// TestConcurrentRuns runs one program on several cases at once.
func TestConcurrentRuns(t *testing.T) {
	for seed := range uint64(12) {
		g := gen.Seeded(1000 + seed)
		d, err := randdef.Sized(g, 25)
		if err != nil {
			t.Fatal(err)
		}
		dtypes := randdef.DTypes(g, d)
		for _, k := range contenders {
			p := k.compile(t, d, dtypes)
			var all sync.WaitGroup
			for range 4 {
				c := randdef.NewCase(g, d, dtypes, randdef.Sizes(g, d, 100_000))
				want := answer(t, c)
				all.Go(func() {
					for range 3 {
						got := c.Clone()
						cputest.ExecuteParallel(p, cputest.CallOf(got), 3)
						if text := randdef.Diff(got, want); text != "" {
							t.Errorf("seed %d, %s: %s\n%s", seed, k.name, text, d.Text())
							return
						}
					}
				})
			}
			all.Wait()
		}
	}
}

// sums has one of each sum, on top of a row reduction.
var sums = def.Must(def.Rowwise("sums", func(b *def.Builder) {
	x := b.In("x")
	top := def.RowMax(x).As("top")
	b.OutRow("row", def.RowSum(x.Sub(top)), def.Only(num.F32))
	b.OutCol("col", def.ColSum(x.Mul(top)), def.Only(num.F32))
	b.OutScalar("total", def.TotalSum(x.Sub(top)), def.Only(num.F32))
}))

var flatSum = def.Must(def.Rowwise("flat_sum", func(b *def.Builder) {
	b.OutScalar("total", def.TotalSum(b.In("x")), def.Only(num.F32))
}))

// TestSumShapes sums matrices on both sides of every number of lanes.
func TestSumShapes(t *testing.T) {
	for _, d := range []*def.Definition{sums, flatSum} {
		var shapes [][2]int
		for _, c := range []int{1, 255, 256, 257, 511, 513, 2047, 2048, 2049, 8191, 8192, 8193, num.FlatRow - 1, num.FlatRow, num.FlatRow + 1} {
			shapes = append(shapes, [2]int{2, c})
		}
		for _, c := range []int{1, 256, 257, 2049} { // lanes of column sums
			shapes = append(shapes, [2]int{num.ColLanes(c) + 1, c})
		}
		shapes = append(shapes, [2]int{2*num.ColLanes(7) + 3, 7}, [2]int{num.FlatRow + 1, 1}, [2]int{3, 2 * num.FlatRow / 3})
		shapes = testlevel.Pick(shapes[:8], shapes)
		g := gen.New("sum shapes")
		for _, s := range shapes {
			c := randdef.NewCase(g, d, dtypesOf(d, num.F16), map[string]int{"R": s[0], "C": s[1]})
			want := answer(t, c)
			for _, k := range contenders {
				p, got := k.compile(t, d, dtypesOf(d, num.F16)), c.Clone()
				cputest.Execute(p, cputest.CallOf(got), 3, g)
				report(t, got, want, p, "%s %v, %s", d.Name, s, k.name)
			}
		}
	}
}

// dtypesOf returns formats: the given one where the rules leave a choice.
func dtypesOf(d *def.Definition, dtype num.DType) []num.DType {
	var all []num.DType
	for _, o := range d.Operands {
		chosen := dtype
		if len(o.DTypes.Allowed) == 1 && o.DTypes.Like == "" {
			chosen = o.DTypes.Allowed[0]
		}
		all = append(all, chosen)
	}
	return all
}
