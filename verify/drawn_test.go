package verify_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/op/embedding"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// shapesOf lists the shapes of plain cases.
func shapesOf(x *verify.Target, o verify.Options) map[string]bool {
	shapes := map[string]bool{}
	for _, c := range verify.CasesUnder(x, o) {
		if c.Check == "" {
			shapes[fmt.Sprint(c.Sizes)] = true
		}
	}
	return shapes
}

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
		for _, c := range verify.CasesUnder(x, verify.Options{Level: verify.Quick, Seed: 7}) {
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
			if n <= 1<<16 {
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
	for _, c := range verify.CasesUnder(target(gemm.ForwardDefinition, num.F32, bitwise(honest)), verify.Options{Level: verify.Full}) {
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

// TestShapesDependOnTheSeed checks that every level has shapes that another seed does not have, and
// that a kernel that is right only on the shapes of one seed is rejected under another.
func TestShapesDependOnTheSeed(t *testing.T) {
	t.Parallel()
	for level, least := range map[verify.Level]int{verify.Smoke: 6, verify.Quick: 80, verify.Full: 1200} {
		x := target(softmax.ForwardDefinition, num.F16, bitwise(honest))
		one, two := shapesOf(x, verify.Options{Level: level, Seed: 1}), shapesOf(x, verify.Options{Level: level, Seed: 2})
		only := maps.Clone(two)
		maps.DeleteFunc(only, func(s string, _ bool) bool { return one[s] })
		if len(only) < least {
			t.Errorf("%s: %d of %d shapes are new under another seed, want %d", level, len(only), len(two), least)
		}
		if again := shapesOf(x, verify.Options{Level: level, Seed: 1}); !maps.Equal(one, again) {
			t.Errorf("%s: seed 1 has other shapes the second time", level)
		}
	}
	type shape [2]int
	var known sync.Map // launches may be concurrent
	learning := wrongIf(func(l *engine.Launch) bool {
		known.Store(shape{l.Operands[0].Rows, l.Operands[0].Cols}, true)
		return false
	})
	if r := run(t, target(softmax.ForwardDefinition, num.F16, learning), verify.Options{Seed: 1}).Report; r.Verdict != evidence.Accepted {
		t.Fatal(r.Verdict, r.Reason)
	}
	table := wrongIf(func(l *engine.Launch) bool {
		_, isKnown := known.Load(shape{l.Operands[0].Rows, l.Operands[0].Cols})
		return !isKnown
	})
	for seed, want := range map[uint64]evidence.Verdict{1: evidence.Accepted, 2: evidence.Rejected, 3: evidence.Rejected} {
		if r := run(t, target(softmax.ForwardDefinition, num.F16, table), verify.Options{Seed: seed}).Report; r.Verdict != want {
			t.Errorf("a table of the shapes of seed 1, seed %d: %s %s, want %s", seed, r.Verdict, r.Reason, want)
		}
	}
}

// TestAlignedRows checks that level quick has, whatever the seed, cases in which the rows of each
// operand of a product begin at multiples of 64 elements, with a gap between them.
func TestAlignedRows(t *testing.T) {
	t.Parallel()
	x := target(gemm.ForwardDefinition, num.F32, bitwise(honest))
	for seed := range uint64(20) {
		isAligned := map[string]bool{}
		for _, c := range verify.CasesUnder(x, verify.Options{Level: verify.Quick, Seed: seed}) {
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
			for _, c := range verify.CasesUnder(x, verify.Options{Level: verify.Quick, Seed: seed}) {
				for _, s := range c.Sizes {
					if c.Check == "" {
						longest[c.Pattern] = max(longest[c.Pattern], s.N)
					}
					if c.Check == "" && x.Definition.Product() != nil && s.Letter == x.Definition.SummedOver() {
						summed = max(summed, s.N)
					}
				}
			}
			names, _ := verify.PatternNames(x)
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

// TestHardPatternOnALongAxis checks a kernel that loses subnormals after column 5000, which cases
// with subnormals once did not reach.
func TestHardPatternOnALongAxis(t *testing.T) {
	t.Parallel()
	k := bitwise(damaged(func(l *engine.Launch, out []num.Array) {
		x := l.Operands[0].Array
		tiny := float32(math.Ldexp(1, -14))
		for r := range x.Rows {
			for c := 4000; c < x.Cols; c++ {
				if v := x.At(r, c); v != 0 && v < tiny && v > -tiny {
					out[1].SetBits(r, c, out[1].Bits(r, c)^1)
				}
			}
		}
	}))
	x := target(softmax.ForwardDefinition, num.F16, k)
	var long string
	for _, c := range verify.CasesUnder(x, verify.Options{Level: verify.Quick, Seed: 1}) {
		if c.Pattern == "subnormal" && c.Check == "" && slices.ContainsFunc(c.Sizes, func(s verify.Size) bool { return s.N >= 4096 }) {
			long = verify.CaseName(x, c)
		}
	}
	expectRejected(t, x, long, "differs", evidence.Bits)
}

// TestModelShapes checks that level quick has the widths of well-known models.
func TestModelShapes(t *testing.T) {
	t.Parallel()
	for _, dtype := range []num.DType{num.F16, num.F32} {
		cols := lengths(target(softmax.ForwardDefinition, dtype, bitwise(honest)), verify.Quick, "C")
		inner := lengths(target(gemm.ForwardDefinition, dtype, bitwise(honest)), verify.Quick, "K")
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

// TestOwnShapes checks that the user's shapes are run with every pattern and every check that takes
// any shape, and that invalid shapes are refused.
func TestOwnShapes(t *testing.T) {
	t.Parallel()
	x := target(layernorm.ForwardDefinition, num.BF16, bitwise(honest))
	shape, err := verify.ParseShape("R=3,C=4321")
	if err != nil || shape.String() != "C=4321,R=3" {
		t.Fatal(shape, err)
	}
	patterns, checks, formats := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range verify.CasesUnder(x, verify.Options{Seed: 1, Shapes: []verify.Shape{shape}}) {
		if fmt.Sprint(c.Sizes) == "[R=3 C=4321]" {
			patterns[c.Pattern], checks[c.Check], formats[fmt.Sprint(c.Formats)] = true, true, true
		}
	}
	names, _ := verify.PatternNames(x)
	for _, p := range names {
		if !patterns[p] && !strings.HasPrefix(p, "every") {
			t.Errorf("pattern %s does not meet the shape", p)
		}
	}
	for _, tier := range verify.ChecksOf(x) {
		for _, k := range tier {
			if !checks[k] && k != "endure" {
				t.Errorf("check %s does not meet the shape", k)
			}
		}
	}
	if len(formats) < 2 {
		t.Errorf("only the formats %v meet the shape", formats)
	}
	wrong := target(softmax.ForwardDefinition, num.F16, wrongIf(func(l *engine.Launch) bool { return l.Operands[0].Cols == 4321 }))
	for _, own := range [][]verify.Shape{nil, {{"R": 3, "C": 4321}}} {
		want := map[bool]evidence.Verdict{false: evidence.Accepted, true: evidence.Rejected}[own != nil]
		if r := run(t, wrong, verify.Options{Seed: 1, Shapes: own}).Report; r.Verdict != want {
			t.Errorf("wrong with 4321 columns, shapes %v: %s %s, want %s", own, r.Verdict, r.Reason, want)
		}
	}
	for text, want := range map[string]string{
		"":                  `"" is no size, want letter=length`,
		"R":                 `"R" is no size`,
		"R=0,C=1":           `R is "0", want 1 to`,
		"R=-2,C=1":          `R is "-2"`,
		"R=x,C=1":           `R is "x"`,
		"R=1,R=2":           "size R is given twice",
		"R=99999999999,C=1": `R is "99999999999"`,
	} {
		if _, err := verify.ParseShape(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	for want, s := range map[string]verify.Shape{
		"there is no size M; layernorm.forward has R, C":    {"R": 1, "C": 1, "M": 2},
		"size C is missing; layernorm.forward has R, C":     {"R": 1},
		"C is -1, want at least 1; layernorm.forward has R": {"R": 1, "C": -1},
		"x would have 4294967296×4 elements":                {"R": 1 << 32, "C": 4},
	} {
		if _, err := verify.Run(t.Context(), x, verify.Options{Shapes: []verify.Shape{s}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", s, err, want)
		}
	}
}

// TestFarOffsets checks kernels that compute offsets in too small integers, and so read another row
// if rows are far apart.
func TestFarOffsets(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what  string
		far   int
		wraps func(offset int) bool
	}{
		{"binary32", 24, func(offset int) bool { return int(float32(offset)) != offset }},
		{"int32 elements", 31, func(offset int) bool { return int(int32(offset)) != offset }},
		{"int32 bytes", 31, func(offset int) bool { return int(int32(2*offset)) != 2*offset }},
		{"uint32 elements", 32, func(offset int) bool { return int(uint32(offset)) != offset }},
	} {
		k := bitwise(damaged(func(l *engine.Launch, out []num.Array) {
			x := l.Operands[0].Array
			for r := range x.Rows {
				for c := range x.Cols {
					if test.wraps(x.Index(r, c)) {
						out[1].SetBits(r, c, out[1].Bits(r, c)^1)
					}
				}
			}
		}))
		x := target(softmax.ForwardDefinition, num.F16, k)
		if r := run(t, x, verify.Options{Seed: 1}).Report; r.Verdict != evidence.Accepted {
			t.Errorf("%s: %s %s: no offset is large at level smoke", test.what, r.Verdict, r.Reason)
		}
		name := fmt.Sprintf("normal/R=4,C=5/gap=3/far=%d", test.far)
		r := run(t, x, verify.Options{Case: name, Seed: 1}).Report
		if r.Verdict == evidence.Skipped {
			t.Skip(r.Reason)
		}
		if r.Verdict != evidence.Rejected || !strings.Contains(r.Reason, "differs") {
			t.Errorf("%s: %s: %s %s", test.what, name, r.Verdict, r.Reason)
		}
		if test.far == 24 {
			if !slices.ContainsFunc(verify.CasesUnder(x, verify.Options{Level: verify.Quick}), func(c *verify.Case) bool { return c.Far == test.far }) {
				t.Errorf("no case of level quick has far=%d", test.far)
			}
		}
	}
	expectAccepted(t, target(softmax.BackwardDefinition, num.F32, bitwise(honest)), "normal/R=3,C=7/far=33/dx=dy")
}

// TestShippedKernelsFar runs the CPU's kernels on rows that are far apart, as level full does.
func TestShippedKernelsFar(t *testing.T) {
	t.Parallel()
	for _, x := range someOf(cpuTargets()) {
		for _, c := range verify.CasesUnder(x, verify.Options{Level: verify.Full, Seed: 1}) {
			if c.Far == 0 {
				continue
			}
			name := verify.CaseName(x, c)
			if r := run(t, x, verify.Options{Case: name, Seed: 1}).Report; r.Verdict != evidence.Accepted && r.Verdict != evidence.Skipped {
				t.Errorf("%s %s: %s: %s %s", x.ID(), x.DType, name, r.Verdict, r.Reason)
			}
		}
	}
}
