package verify_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/verify"
	"tokitai/verify/cases"
)

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
			if !slices.ContainsFunc(verify.CasesUnder(x, verify.Options{Level: verify.Quick}), func(c *cases.Case) bool { return c.Far == test.far }) {
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
		if c.Pattern == "subnormal" && c.Check == "" && slices.ContainsFunc(c.Sizes, func(s cases.Size) bool { return s.N >= 4096 }) {
			long = c.Name(x.Cases())
		}
	}
	expectRejected(t, x, long, "differs", evidence.Bits)
}
