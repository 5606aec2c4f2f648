package verify_test

import (
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// flips flips the last bit of every output of some calls.
func flips(is func(l *engine.Launch) bool) *engine.Lowering {
	return flipWhere(func(l *engine.Launch, _, _ int) bool { return is(l) })
}

// TestWhen checks the conditions that are reported for kernels that fail under known conditions.
func TestWhen(t *testing.T) {
	t.Parallel()
	rows := func(l *engine.Launch) int { return l.Operands[0].Rows }
	cols := func(l *engine.Launch) int { return l.Operands[0].Cols }
	inPlace := func(l *engine.Launch) bool {
		return &l.Operands[0].Data[0] == &l.Operands[1].Data[0]
	}
	for i, test := range []struct {
		what string
		d    *def.Definition
		l    *engine.Lowering
		want string // "" for nothing
	}{
		{"always", softmax.ForwardDefinition, flips(func(*engine.Launch) bool { return true }), "almost always: "},
		{"odd K", gemm.ForwardDefinition, flips(func(l *engine.Launch) bool { return cols(l)%2 == 1 }), "only where K is odd: "},
		{"K no multiple of 8", gemm.ForwardDefinition, flips(func(l *engine.Launch) bool { return cols(l)%8 != 0 }), "only where K is not a multiple of 8: "},
		{"many columns", softmax.ForwardDefinition, flips(func(l *engine.Launch) bool { return cols(l) > 1024 }), "only where C > 1024: "},
		{"a boundary between cases", softmax.ForwardDefinition, flips(func(l *engine.Launch) bool { return cols(l) > 300 }), "only where C > 300: "},
		{"few columns", softmax.ForwardDefinition, flips(func(l *engine.Launch) bool { return cols(l) < 20 }), "only where C < 20: "},
		{"odd and long", softmax.ForwardDefinition, flips(func(l *engine.Launch) bool { return cols(l)%2 == 1 && cols(l) > 16 }), "only where C is odd and C ≥ 17 (the nearest that passes is 1"},
		{"gaps", softmax.ForwardDefinition, flips(func(l *engine.Launch) bool { return l.Operands[0].Stride > cols(l) }), "rows have gaps"},
		{"in place", softmax.ForwardDefinition, flips(inPlace), "only where an output is in the place of an input: all "},
		{"square", softmax.ForwardDefinition, flips(func(l *engine.Launch) bool { return rows(l) == cols(l) && rows(l) > 1 }), "only where R > 1 and R = C: "},
		{"two causes", softmax.ForwardDefinition, flips(func(l *engine.Launch) bool { return inPlace(l) || cols(l) > 1024 }), "where an output is in the place of an input ("},
		{"NaN", softmax.ForwardDefinition, flipWhere(func(l *engine.Launch, r, _ int) bool {
			for c := range l.Operands[0].Cols {
				if x := l.Operands[0].At(r, c); x != x {
					return true
				}
			}
			return false
		}), ""}, // a flipped NaN is a NaN
		{"rows with a NaN somewhere", softmax.ForwardDefinition, flips(func(l *engine.Launch) bool {
			for r := range rows(l) {
				for c := range cols(l) {
					if x := l.Operands[0].At(r, c); x != x {
						return true
					}
				}
			}
			return false
		}), "a NaN is among the inputs"},
	} {
		if !isTried(i, 5) {
			continue
		}
		t.Run(test.what, func(t *testing.T) {
			f := run(t, target(test.d, num.F16, test.l), verify.Options{Seed: 1}).Report.Failure
			switch {
			case f == nil && test.want == "":
			case f == nil:
				t.Fatal("it is not rejected")
			default:
				if !strings.Contains(f.When, test.want) {
					t.Errorf("got %q, want %q", f.When, test.want)
				}
			}
		})
	}
}
