package table_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/cputest"
	"tokitai/lower/cpu/machine"
	"tokitai/lower/cpu/table"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial/randdef"
)

var gather = def.Must(def.Gather("rows", def.GatherForm{Index: "index", Table: "table", Out: "out"}))

var scatters = []*def.Definition{
	def.Must(def.ScatterAdd("sums", def.ScatterForm{Index: "index", Rows: "rows", Result: "result"})),
	def.Must(def.ScatterAdd("sums.accumulate", def.ScatterForm{Index: "index", Rows: "rows", Result: "result", Accumulate: true})),
}

// pairs are the formats of rows and result.
var pairs = [][2]num.DType{
	{num.F16, num.F16}, {num.F16, num.F32}, {num.BF16, num.BF16}, {num.BF16, num.F32}, {num.F32, num.F32},
}

// sets returns the instruction sets to test.
func sets(t testing.TB) []machine.Set {
	var s []machine.Set
	for _, set := range machine.Available() {
		if set == machine.AVX2 || set == machine.AVX512 {
			s = append(s, set)
		}
	}
	if len(s) == 0 {
		t.Skip("skipped: no AVX2 or AVX-512 " + machine.Note())
	}
	return s
}

var programs sync.Map // by definition, formats and set

func compile(t testing.TB, d *def.Definition, dtypes []num.DType, set machine.Set) lowercpu.Program {
	t.Helper()
	key := fmt.Sprint(d.Name, dtypes, set)
	if p, ok := programs.Load(key); ok {
		return p.(lowercpu.Program)
	}
	p, err := table.Compile(d, dtypes, set)
	if err != nil {
		t.Fatal(err)
	}
	programs.Store(key, p)
	return p
}

// compare compares the programs of all sets with the reference and with lower/cpu.
func compare(t *testing.T, c *randdef.Case, workers int, g *gen.Generator) *randdef.Case {
	t.Helper()
	dtypes := cputest.DTypesOf(c.Operands)
	want := c.Clone()
	if err := reference.Run(want.Definition, want.Operands, reference.Options{}); err != nil {
		t.Fatal(err)
	}
	plain, err := lowercpu.Compile(c.Definition, dtypes, lowercpu.Short)
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, p lowercpu.Program) {
		t.Helper()
		got := c.Clone()
		cputest.Execute(p, cputest.CallOf(got), workers, g)
		if text := randdef.Diff(got, want); text != "" {
			o := c.Operands
			t.Fatalf("%s: %s %v, %d×%d of %d×%d, %d workers: %s", name, c.Definition.Name, dtypes, o[1].Rows, o[1].Cols, o[2].Rows, o[2].Cols, workers, text)
		}
	}
	check("plain", plain)
	for _, set := range sets(t) {
		check(set.String(), compile(t, c.Definition, dtypes, set))
	}
	return want
}

func newCase(g *gen.Generator, d *def.Definition, a, b num.DType, q, v, cols int) *randdef.Case {
	return randdef.NewCase(g, d, []num.DType{num.I32, a, b}, map[string]int{"Q": q, "V": v, "D": cols})
}

func TestGather(t *testing.T) {
	g := gen.New("gather")
	for _, dtype := range num.FloatDTypes {
		sizes := [][3]int{{1, 1, 1}, {5, 3, 7}, {40, 4, 9}, {3, 70, 513}, {200, 2, 1}, {2, 2, 40000}, {3, 3, 131_073}}
		for cols := 1; cols <= 300; cols++ {
			sizes = append(sizes, [3]int{1 + g.Below(9), 1 + g.Below(9), cols})
		}
		for _, s := range sizes {
			c := newCase(g, gather, dtype, dtype, s[0], s[1], s[2])
			for r := range c.Operands[1].Rows { // any patterns: NaN payloads must be kept
				for k := range c.Operands[1].Cols {
					c.Operands[1].SetBits(r, k, uint32(g.Next()))
				}
			}
			want := c.Clone()
			if err := reference.Run(gather, want.Operands, reference.Options{}); err != nil {
				t.Fatal(err)
			}
			for _, set := range sets(t) {
				got := c.Clone()
				cputest.Execute(compile(t, gather, []num.DType{num.I32, dtype, dtype}, set), cputest.CallOf(got), 2, g)
				for q := range s[0] {
					if string(got.Operands[2].Row(q)) != string(want.Operands[2].Row(q)) {
						t.Fatalf("%s: %s: row %d of %v differs: index %d", set, dtype, q, s, c.Operands[0].Int(q, 0))
					}
				}
				if text := randdef.Diff(got, want); text != "" {
					t.Fatalf("%s: %s %v: %s", set, dtype, s, text)
				}
			}
		}
	}
}

func TestScatterAdd(t *testing.T) {
	g := gen.New("scatter")
	for _, d := range scatters {
		for _, dtypes := range pairs {
			t.Run(fmt.Sprintf("%s/%v", d.Name, dtypes), func(t *testing.T) {
				sizes := [][3]int{ // Q, V, D
					{1, 1, 1}, {7, 3, 2}, {63, 1, 3}, {64, 1, 3}, {65, 1, 3}, {127, 1, 2}, {128, 1, 2}, {129, 1, 2}, {200, 2, 3},
					{300, 3, 7}, {40, 33, 5}, {9, 70, 515}, {5, 2, 1025}, {2, 100, 1}, {90, 1, 4097}, {140, 2, 5000}, {5000, 2, 70}, {9000, 1, 3},
				}
				for cols := 1; cols <= 300; cols++ {
					sizes = append(sizes, [3]int{1 + g.Below(20), 1 + g.Below(9), cols})
				}
				for _, s := range sizes {
					compare(t, newCase(g, d, dtypes[0], dtypes[1], s[0], s[1], s[2]), 1+g.Below(4), g)
				}
			})
		}
	}
}

// TestSortTogether has so many queries that the workers sort them together.
func TestSortTogether(t *testing.T) {
	g := gen.New("together")
	for _, workers := range []int{1, 2, 3, 20} {
		for _, d := range scatters {
			compare(t, newCase(g, d, num.F32, num.F32, 40_000, 1000, 2), workers, g)
		}
	}
}

// TestAnyFormats sums any patterns, NaN with every payload among them, from every format
// into every format.
func TestAnyFormats(t *testing.T) {
	g := gen.New("formats")
	for _, d := range scatters {
		for _, rows := range num.FloatDTypes {
			for _, result := range num.FloatDTypes {
				c := newCase(g, d, rows, result, 60, 30, 203)
				for _, a := range c.Operands[1:] {
					for r := range a.Rows {
						for k := range a.Cols {
							a.SetBits(r, k, uint32(g.Next()))
							if g.Below(4) == 0 { // the largest NaN
								a.SetBits(r, k, 0xffff_ffff)
							}
						}
					}
				}
				compare(t, c, 2, g)
			}
		}
	}
}

// TestLightAndHeavy has rows with every number of queries around the limit between both
// ways of summing.
func TestLightAndHeavy(t *testing.T) {
	g := gen.New("heavy")
	const cols = 4096 // a limit of 64
	counts := []int{0, 1, 63, 64, 65, 0, 129}
	queries := 0
	for _, n := range counts {
		queries += n
	}
	for i, dtypes := range pairs {
		for k, d := range scatters {
			if testlevel.Current() == testlevel.Smoke && i%2 != k {
				continue
			}
			c := newCase(g, d, dtypes[0], dtypes[1], queries, len(counts), cols)
			q := 0
			for v, n := range counts {
				for range n {
					c.Operands[0].SetBits((q*7919)%queries, 0, uint32(v))
					q++
				}
			}
			compare(t, c, 3, g)
		}
	}
}

// TestStream writes results with non-temporal stores, and with others where the
// addresses do not allow them.
func TestStream(t *testing.T) {
	defer table.SetStreamed(0)()
	g := gen.New("stream")
	for _, set := range sets(t) {
		for cols := 1; cols <= 300; cols++ {
			dtypes := pairs[cols%len(pairs)]
			stride := (cols + 31) &^ 31
			c := newCase(g, scatters[0], dtypes[0], dtypes[1], 12, 9, cols)
			for _, shift := range []int{0, 1, 16, 32} {
				compareStream(t, set, c, stride, shift, 2, g)
			}
			compareStream(t, set, c, cols, 0, 2, g)
			c = newCase(g, gather, dtypes[0], dtypes[0], 7, 5, cols)
			for _, shift := range []int{0, 1, 32} {
				compareStream(t, set, c, stride, shift, 2, g)
			}
			d := randdef.GatherSum(g)
			c = randdef.NewCase(g, d, randdef.DTypes(g, d), map[string]int{"Q": 7, "V": 5, "D": cols, "S": 1 + cols%5})
			for _, shift := range []int{0, 1, 32} {
				compareStream(t, set, c, stride, shift, 2, g)
			}
		}
	}
}

// compareStream runs a case whose result begins shift elements after an address that is
// aligned to 64 bytes.
func compareStream(t *testing.T, set machine.Set, c *randdef.Case, stride, shift, workers int, g *gen.Generator) {
	t.Helper()
	dtypes := cputest.DTypesOf(c.Operands)
	plain, err := lowercpu.Compile(c.Definition, dtypes, lowercpu.Short)
	if err != nil {
		t.Fatal(err)
	}
	last := len(dtypes) - 1
	size := dtypes[last].Size()
	run := func(p lowercpu.Program) num.Array {
		call := cputest.CallOf(c)
		data := aligned((c.Operands[last].Rows*stride+shift)*size + 64)
		for i := range data {
			data[i] = 0xa5
		}
		out := c.Operands[last]
		out.Stride, out.Data = stride, data[shift*size:]
		call.Operands[last].Array = out
		cputest.Execute(p, call, workers, g)
		return out
	}
	want, got := run(plain), run(compile(t, c.Definition, dtypes, set))
	for r := range want.Rows {
		for k := range want.Stride {
			if g, w := num.Canonical(dtypes[last], got.Bits(r, k)), num.Canonical(dtypes[last], want.Bits(r, k)); g != w {
				t.Fatalf("%s: %s %v, stride %d, shift %d: [%d,%d] is %#x, want %#x", set, c.Definition.Name, dtypes, stride, shift, r, k, g, w)
			}
		}
	}
}

func TestScatterF16KnownAnswers(t *testing.T) {
	for _, test := range cputest.ScatterAnswers() {
		for _, cols := range []int{1, 40} {
			d := scatters[len(test.Old)]
			g := gen.New(test.Name)
			c := newCase(g, d, num.F16, test.Result, len(test.Values), 2, cols)
			for q, v := range test.Values {
				c.Operands[0].SetBits(q, 0, 1)
				for k := range cols {
					c.Operands[1].Set(q, k, float32(v))
				}
			}
			for _, v := range test.Old {
				for k := range cols {
					c.Operands[2].Set(1, k, float32(v))
				}
			}
			want := compare(t, c, 2, g)
			if bits := num.Canonical(test.Result, want.Operands[2].Bits(1, 0)); bits != test.Want {
				t.Errorf("%s: got 0x%x, want 0x%x", test.Name, bits, test.Want)
			}
		}
	}
}

// TestScatterF16OldValues adds exact sums to old f32 values that are no multiples of
// 2^-24, at every distance between the two.
func TestScatterF16OldValues(t *testing.T) {
	g := gen.New("old values")
	for range 40 {
		c := newCase(g, scatters[1], num.F16, num.F32, 70, 3, 20)
		for r := range 3 {
			for k := range 20 {
				c.Operands[2].Set(r, k, g.Exponents(-60, 45))
			}
		}
		compare(t, c, 2, g)
	}
}

// TestParallel runs jobs of one program at the same time, each with two workers, while
// the garbage collector runs.
func TestParallel(t *testing.T) {
	stop := make(chan struct{})
	var collector sync.WaitGroup
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
	defer collector.Wait()
	defer close(stop)
	for _, set := range sets(t) {
		g := gen.New("parallel")
		p := compile(t, scatters[0], []num.DType{num.I32, num.F32, num.F32}, set)
		c := newCase(g, scatters[0], num.F32, num.F32, 3000, 40, 300)
		want := c.Clone()
		if err := reference.Run(want.Definition, want.Operands, reference.Options{}); err != nil {
			t.Fatal(err)
		}
		var jobs sync.WaitGroup
		for range 4 {
			jobs.Go(func() {
				for range testlevel.Pick(5, 50, 500) {
					got := c.Clone()
					job := p.Bind(cputest.CallOf(got), 2)
					for {
						items, ok := job.Next()
						if !ok {
							break
						}
						var all sync.WaitGroup
						for w := range 2 {
							all.Go(func() {
								for item := w; item < items; item += 2 {
									job.Do(w, item)
								}
							})
						}
						all.Wait()
					}
					job.Release()
					if text := randdef.Diff(got, want); text != "" {
						t.Errorf("%s: %s", set, text)
						return
					}
				}
			})
		}
		jobs.Wait()
	}
}

// TestAllocations checks that a second call allocates nothing.
func TestAllocations(t *testing.T) {
	if isRaceEnabled {
		t.Skip("under the race detector a sync.Pool forgets on purpose")
	}
	g := gen.New("allocations")
	for _, set := range sets(t) {
		for _, d := range []*def.Definition{gather, scatters[0], scatters[1]} {
			c := newCase(g, d, num.F16, num.F16, 300, 20, 50)
			p := compile(t, d, []num.DType{num.I32, num.F16, num.F16}, set)
			call := cputest.CallOf(c)
			n := testing.AllocsPerRun(20, func() {
				job := p.Bind(call, 2)
				for {
					items, ok := job.Next()
					if !ok {
						break
					}
					for item := range items {
						job.Do(item%2, item)
					}
				}
				job.Release()
			})
			if n >= 1 {
				t.Errorf("%s: %s: %v allocations per call, want none", set, d.Name, n)
			}
		}
	}
}

// TestListing checks that programs list their code.
func TestListing(t *testing.T) {
	f32 := []num.DType{num.I32, num.F32, num.F32}
	for _, set := range sets(t) {
		for d, want := range map[*def.Definition]string{gather: "; gather: non-temporal stores", scatters[1]: "; scatter-add of f32 into f32: stores through the caches"} {
			if got := compile(t, d, f32, set).String(); !strings.Contains(got, want) || !strings.Contains(got, "vzeroupper\n") {
				t.Errorf("%s: no %q in the listing:\n%s", set, want, got)
			}
		}
	}
}

func TestCompileErrors(t *testing.T) {
	f32 := []num.DType{num.I32, num.F32, num.F32}
	if _, err := table.Compile(gather, f32, machine.Plain); err == nil {
		t.Error("tables for plain Go: want an error")
	}
	if _, err := table.Compile(gather, f32[:2], sets(t)[0]); err == nil {
		t.Error("two formats: want an error")
	}
	if _, err := table.Compile(scatters[0], []num.DType{num.I32, num.I32, num.I32}, sets(t)[0]); err == nil {
		t.Error("sums of int32: want an error")
	}
}

// aligned returns n bytes at an address that is a multiple of 64.
func aligned(n int) []byte {
	b := make([]byte, n+64)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & 63
	return b[skip:][:n]
}
