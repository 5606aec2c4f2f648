package cases_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/op/embedding"
	"tokitai/op/gemm"
	"tokitai/op/norm"
	"tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/verify"
	"tokitai/verify/cases"
)

// TestCountersOf16Bits checks that, from level quick on, every axis of a definition without batch
// axes is longer than 2^16 in some case, that of a table's rows by a third, and also on a grid if
// terms are added; and that level full has a matrix product with more than 2^23 results.
func TestCountersOf16Bits(t *testing.T) {
	t.Parallel()
	seen := map[*def.Definition]bool{}
	for _, x := range verify.Targets(all.Operations, cpu.Backend) {
		d := x.Definition
		if d.HasAxes() || seen[d] {
			continue
		}
		seen[d] = true
		longest, shapes := map[string]int{}, map[string]bool{}
		for _, c := range x.Cases().List(&cases.Request{Level: cases.Quick, Seed: 7}) {
			for _, s := range c.Sizes {
				longest[s.Letter] = max(longest[s.Letter], s.N)
				if s.N > 1<<16 && c.Check == "" {
					shapes[c.Pattern+" "+s.Letter] = true
				}
			}
		}
		if n, isTable := longest["V"]; isTable && n < 1<<16+1<<15 {
			t.Errorf("%s: a table has at most %d rows: few queries ask for one beyond 2^16", d.Name, n)
		}
		for letter, n := range longest {
			if n <= 1<<16 && isLarge(d, letter) {
				t.Errorf("%s: axis %s has at most %d elements", d.Name, letter, n)
			}
		}
		for _, want := range map[*def.Definition][]string{
			gemm.ForwardDefinition: {"plus-minus-one K"}, embedding.BackwardDefinition: {"integers Q"}, norm.SquareSumDefinition: {"plus-minus-one R", "plus-minus-one C"}, norm.TotalDefinition: {"plus-minus-one C"},
		}[d] {
			if !shapes[want] {
				t.Errorf("%s: no case of %s beyond 2^16, only %v", d.Name, want, slices.Sorted(maps.Keys(shapes)))
			}
		}
	}
	most := 0
	for _, c := range target(gemm.ForwardDefinition, num.F32, kernel(promise.Bits)).Cases().List(&cases.Request{Level: cases.Full}) {
		results := 1
		for _, s := range c.Sizes {
			if s.Letter != "K" {
				results *= s.N
			}
		}
		most = max(most, results)
	}
	if most <= 1<<23 {
		t.Errorf("a product has at most %d results at level full", most)
	}
}

// TestAlignedRows checks that level quick has, whatever the seed, cases in which the rows of each
// operand of a product begin at multiples of 64 elements, with a gap between them.
func TestAlignedRows(t *testing.T) {
	t.Parallel()
	x := target(gemm.ForwardDefinition, num.F32, kernel(promise.Bits))
	for seed := range uint64(20) {
		isAligned := map[string]bool{}
		for _, c := range x.Cases().List(&cases.Request{Level: cases.Quick, Seed: seed}) {
			for _, s := range c.Sizes {
				isAligned[s.Letter] = isAligned[s.Letter] || c.Gap > 0 && c.Uneven == 0 && (s.N+c.Gap)%64 == 0
			}
		}
		if !isAligned["K"] || !isAligned["N"] { // rows of A, of B and C
			t.Errorf("seed %d: rows of length K begin at multiples of 64: %v, of length N: %v", seed, isAligned["K"], isAligned["N"])
		}
	}
}

// TestLongAxes checks that level quick has every pattern on an axis of at least 4096, whatever the
// seed, and that definitions that sum over rows or terms have some long sums.
func TestLongAxes(t *testing.T) {
	t.Parallel()
	for _, x := range cpuTargets() {
		for seed := range uint64(2) {
			longest, summed := map[string]int{}, 0
			for _, c := range quick(x, seed) {
				keys := 1 // in a table of pages
				for _, s := range c.Sizes {
					if c.Check == "" {
						longest[c.Pattern] = max(longest[c.Pattern], s.N)
					}
					if stream := x.Definition.Stream(); c.Check == "" && stream != nil && stream.IsPaged() && (s.Letter == "N" || s.Letter == "M") {
						keys *= s.N
						longest[c.Pattern] = max(longest[c.Pattern], keys)
					}
					if c.Check == "" && x.Definition.Product() != nil && s.Letter == x.Definition.SummedOver() {
						summed = max(summed, s.N)
					}
				}
			}
			names, _ := patternNames(x)
			for _, p := range names {
				if longest[p] < 4096 && !strings.HasPrefix(p, "every") {
					t.Errorf("%s %s, seed %d: pattern %s has no axis longer than %d", x.ID(), x.DType, seed, p, longest[p])
				}
			}
			if x.Definition.Product() != nil && summed < 4096 {
				t.Errorf("%s %s, seed %d: no sum has more than %d terms", x.ID(), x.DType, seed, summed)
			}
		}
	}
}

// TestModelShapes checks that level quick has the widths of well-known models.
func TestModelShapes(t *testing.T) {
	t.Parallel()
	for _, dtype := range []num.DType{num.F16, num.F32} {
		cols := lengths(quick(target(softmax.ForwardDefinition, dtype, kernel(promise.Bits)), 0), "C")
		inner := lengths(quick(target(gemm.ForwardDefinition, dtype, kernel(promise.Bits)), 0), "K")
		for _, n := range []int{768, 1024, 2048, 3072, 4096, 5120, 8192, 11008, 14336} {
			if !cols[n] || !inner[n] {
				t.Errorf("%s: no case with a width of %d: %t, %t", dtype, n, cols[n], inner[n])
			}
		}
		for _, n := range []int{32000, 50257, 128256} {
			if !cols[n] {
				t.Errorf("%s: no case with a vocabulary of %d", dtype, n)
			}
		}
	}
}

// TestRepeatedMatricesAreSeveral checks that whatever the seed, a check that repeats the matrices of
// an operand has at least two of them along every batch axis, and that kernels which promise no
// order have the check too.
func TestRepeatedMatricesAreSeveral(t *testing.T) {
	t.Parallel()
	for _, l := range []*engine.Lowering{kernel(promise.Bits), kernel(promise.Ordered)} {
		x := target(gemm.BatchedForwardDefinition, num.F32, l)
		for seed := range uint64(6) {
			for _, level := range []cases.Level{cases.Smoke, cases.Quick} {
				n := 0
				for _, c := range x.Cases().List(&cases.Request{Level: level, Seed: seed}) {
					operand, isRepeat := strings.CutPrefix(c.Check, "repeat-")
					if !isRepeat {
						continue
					}
					n++
					o := x.Definition.Operands[x.Definition.Operand(operand)]
					for _, s := range c.Sizes {
						if slices.Contains(o.BatchDims(), s.Letter) && s.N < 2 {
							t.Errorf("seed %d: %s has one matrix", seed, c.Name(x.Cases()))
						}
					}
				}
				if n == 0 {
					t.Errorf("seed %d, %s: nothing repeats matrices", seed, level)
				}
			}
		}
	}
}

// isLarge reports whether an axis gets large sizes: those beyond the first three stay small.
func isLarge(d *def.Definition, letter string) bool {
	axes := d.MatrixAxes()
	return slices.ContainsFunc(axes[:min(3, len(axes))], func(a def.Axis) bool { return a.Letter == letter })
}

// TestPopularShapes checks that level quick has a shape whose axes all have at least 256 elements,
// whatever the seed, and level full one of 4096 by 4096.
func TestPopularShapes(t *testing.T) {
	t.Parallel()
	isLong := func(d *def.Definition) func(c *cases.Case) bool {
		return func(c *cases.Case) bool {
			return c.Check == "" && !slices.ContainsFunc(c.Sizes, func(s cases.Size) bool { return s.N < 256 && isLarge(d, s.Letter) })
		}
	}
	seen := map[*def.Definition]bool{}
	for _, x := range verify.Targets(all.Operations, cpu.Backend) {
		d := x.Definition
		if d.HasAxes() || d.Accumulates() || seen[d] {
			continue
		}
		seen[d] = true
		for seed := range uint64(2) {
			if !slices.ContainsFunc(x.Cases().List(&cases.Request{Level: cases.Quick, Seed: seed}), isLong(d)) {
				t.Errorf("%s %s, seed %d: no case of level quick has 256 elements along every axis", x.ID(), x.DType, seed)
			}
		}
		if d.Expression() == nil && d.Product() == nil {
			continue
		}
		if !slices.ContainsFunc(x.Cases().List(&cases.Request{Level: cases.Full}), func(c *cases.Case) bool {
			n := 0
			for _, s := range c.Sizes {
				if s.N == 4096 {
					n++
				}
			}
			return n >= 2
		}) {
			t.Errorf("%s: no case of level full is 4096 by 4096", x.ID())
		}
	}
}

// TestBusyLaunches checks that every target's check concurrent has a case of at least 400
// elements at level smoke.
func TestBusyLaunches(t *testing.T) {
	t.Parallel()
	seen := map[*def.Definition]bool{}
	for _, x := range verify.Targets(all.Operations, cpu.Backend) {
		if seen[x.Definition] {
			continue
		}
		seen[x.Definition] = true
		most := int64(0)
		for _, c := range x.Cases().List(&cases.Request{Level: cases.Smoke}) {
			if c.Check == "concurrent" {
				most = max(most, c.Largest(x.Definition))
			}
		}
		if most < 400 {
			t.Errorf("%s: the largest operand of check concurrent has %d elements", x.ID(), most)
		}
	}
}

// TestBatchChecks checks that level quick checks every output that is indexed by rows in batches of
// every size.
func TestBatchChecks(t *testing.T) {
	t.Parallel()
	want := slices.Concat([]int{3}, around(8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096))
	for _, x := range cpuTargets() {
		d := x.Definition
		hasRows := false
		for i := range d.Operands {
			use, why := d.BatchUse(i)
			hasRows = hasRows || d.Operands[i].IsOut && use != def.WholeBatch
			if (use == def.OwnRow) != (why == "") && d.Operands[i].IsOut {
				t.Errorf("%s: %s is %s because it %q", d.Name, d.Operands[i].Name, use, why)
			}
		}
		name := "batch-" + d.BatchAxis()
		if has := slices.ContainsFunc(x.Cases().Checks(), func(k cases.Check) bool { return k.Name == name }); has != hasRows {
			t.Errorf("%s has check %s: %v, want %v", d.Name, name, has, hasRows)
		}
		if !hasRows || d.HasAxes() {
			continue
		}
		var sizes []int
		for _, c := range quick(x, 0) {
			for _, s := range c.Sizes {
				if c.Check == name && s.Letter == d.BatchAxis() {
					sizes = append(sizes, s.N)
				}
			}
		}
		for _, n := range want {
			if !slices.Contains(sizes, n) {
				t.Errorf("%s %s: no batch of %d rows, only of %v", x.ID(), x.DType, n, sizes)
			}
		}
	}
}
