package valu

import (
	"math"
	"strings"

	"tokitai/num"
)

// Loops for comparisons. A comparison is one of a few relations, with operands exchanged or
// the result inverted.

// bit returns 1 if b is true.
func bit(b bool) uint64 {
	var r uint64
	if b {
		r = 1
	}
	return r
}

func lessU32(n int, x, y [2]*Register) (out uint64) {
	a := x[0][:n]
	b := y[0][:len(a)]
	for i, v := range a {
		out |= bit(v < b[i]) << (i & 63)
	}
	return out
}

func lessI32(n int, x, y [2]*Register) (out uint64) {
	a := x[0][:n]
	b := y[0][:len(a)]
	for i, v := range a {
		out |= bit(int32(v) < int32(b[i])) << (i & 63)
	}
	return out
}

func equalB32(n int, x, y [2]*Register) (out uint64) {
	a := x[0][:n]
	b := y[0][:len(a)]
	for i, v := range a {
		out |= bit(v == b[i]) << (i & 63)
	}
	return out
}

func lessU64(n int, x, y [2]*Register) (out uint64) {
	a := x[0][:n]
	b, aHigh, bHigh := y[0][:len(a)], x[1][:len(a)], y[1][:len(a)]
	for i, v := range a {
		out |= bit(uint64(aHigh[i])<<32|uint64(v) < uint64(bHigh[i])<<32|uint64(b[i])) << (i & 63)
	}
	return out
}

func lessI64(n int, x, y [2]*Register) (out uint64) {
	a := x[0][:n]
	b, aHigh, bHigh := y[0][:len(a)], x[1][:len(a)], y[1][:len(a)]
	for i, v := range a {
		out |= bit(int64(uint64(aHigh[i])<<32|uint64(v)) < int64(uint64(bHigh[i])<<32|uint64(b[i]))) << (i & 63)
	}
	return out
}

func equalB64(n int, x, y [2]*Register) (out uint64) {
	a := x[0][:n]
	b, aHigh, bHigh := y[0][:len(a)], x[1][:len(a)], y[1][:len(a)]
	for i, v := range a {
		out |= bit(v == b[i] && aHigh[i] == bHigh[i]) << (i & 63)
	}
	return out
}

func lessF32(n int, x, y [2]*Register) (out uint64) {
	a := x[0][:n]
	b := y[0][:len(a)]
	for i, v := range a {
		out |= bit(math.Float32frombits(v) < math.Float32frombits(b[i])) << (i & 63)
	}
	return out
}

func lessEqualF32(n int, x, y [2]*Register) (out uint64) {
	a := x[0][:n]
	b := y[0][:len(a)]
	for i, v := range a {
		out |= bit(math.Float32frombits(v) <= math.Float32frombits(b[i])) << (i & 63)
	}
	return out
}

func equalF32(n int, x, y [2]*Register) (out uint64) {
	a := x[0][:n]
	b := y[0][:len(a)]
	for i, v := range a {
		out |= bit(math.Float32frombits(v) == math.Float32frombits(b[i])) << (i & 63)
	}
	return out
}

func differF32(n int, x, y [2]*Register) (out uint64) {
	a := x[0][:n]
	b := y[0][:len(a)]
	for i, v := range a {
		p, q := math.Float32frombits(v), math.Float32frombits(b[i])
		out |= (bit(p < q) | bit(p > q)) << (i & 63)
	}
	return out
}

// relation compares the operands of n lanes.
type relation func(n int, x, y [2]*Register) uint64

// fastComparison says how a comparison is made of a relation.
type fastComparison struct {
	relation           relation
	exchanged, negated bool
	float              Type // F16 or F32 of floating-point numbers
}

// fastComparisons has the comparisons that have a loop, by name.
var fastComparisons = func() map[string]fastComparison {
	m := map[string]fastComparison{}
	for _, t := range []struct {
		suffix      string
		less, equal relation
	}{
		{"_u32", lessU32, equalB32}, {"_i32", lessI32, equalB32}, {"_u64", lessU64, equalB64}, {"_i64", lessI64, equalB64},
	} {
		m["lt"+t.suffix] = fastComparison{relation: t.less}
		m["ge"+t.suffix] = fastComparison{relation: t.less, negated: true}
		m["gt"+t.suffix] = fastComparison{relation: t.less, exchanged: true}
		m["le"+t.suffix] = fastComparison{relation: t.less, exchanged: true, negated: true}
		m["eq"+t.suffix] = fastComparison{relation: t.equal}
		m["ne"+t.suffix] = fastComparison{relation: t.equal, negated: true}
	}
	for _, r := range []struct {
		name, negated string
		relation      relation
		exchanged     bool
	}{
		{"lt", "nlt", lessF32, false},
		{"gt", "ngt", lessF32, true},
		{"le", "nle", lessEqualF32, false},
		{"ge", "nge", lessEqualF32, true},
		{"eq", "neq", equalF32, false},
		{"lg", "nlg", differF32, false},
	} {
		for suffix, float := range map[string]Type{"_f16": F16, "_f32": F32} {
			m[r.name+suffix] = fastComparison{r.relation, r.exchanged, false, float}
			m[r.negated+suffix] = fastComparison{r.relation, r.exchanged, true, float}
		}
	}
	return m
}()

func (t *table) addFastComparisons() {
	for name, op := range t.ops {
		short, ok := strings.CutPrefix(name, "v_cmp_")
		if !ok {
			short = strings.TrimPrefix(name, "v_cmpx_")
		}
		if r, ok := fastComparisons[short]; ok {
			op.fast = r.compare
		}
	}
}

func (r fastComparison) compare(c *Call) bool {
	x, y := c.Source[0], c.Source[1]
	switch r.float {
	case F16:
		if c.Mode.Denorm64&1 == 0 {
			return false
		}
		a, b := &c.scratch[0], &c.scratch[1]
		widen(a[:c.Lanes], x[0])
		widen(b[:c.Lanes], y[0])
		x[0], y[0] = a, b
	case F32:
		if c.Mode.Denorm32&1 == 0 {
			return false
		}
	}
	if r.exchanged {
		x, y = y, x
	}
	out := r.relation(c.Lanes, x, y)
	if r.negated {
		out = ^out
	}
	c.Out = out & (^uint64(0) >> (64 - c.Lanes))
	return true
}

// widen converts binary16 to binary32.
func widen(to []uint32, from *Register) {
	for i, x := range from[:len(to)] {
		to[i] = math.Float32bits(num.F16ToF32(uint16(x)))
	}
}
