package valu

import (
	"math"
	"strings"
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

func lessU32(c *Call, x, y int) (out uint64) {
	a := c.Source[x][0][:c.Lanes]
	b := c.Source[y][0][:len(a)]
	for i, v := range a {
		out |= bit(v < b[i]) << (i & 63)
	}
	return out
}

func lessI32(c *Call, x, y int) (out uint64) {
	a := c.Source[x][0][:c.Lanes]
	b := c.Source[y][0][:len(a)]
	for i, v := range a {
		out |= bit(int32(v) < int32(b[i])) << (i & 63)
	}
	return out
}

func equalB32(c *Call, x, y int) (out uint64) {
	a := c.Source[x][0][:c.Lanes]
	b := c.Source[y][0][:len(a)]
	for i, v := range a {
		out |= bit(v == b[i]) << (i & 63)
	}
	return out
}

func lessU64(c *Call, x, y int) (out uint64) {
	a := c.Source[x][0][:c.Lanes]
	b, aHigh, bHigh := c.Source[y][0][:len(a)], c.Source[x][1][:len(a)], c.Source[y][1][:len(a)]
	for i, v := range a {
		out |= bit(uint64(aHigh[i])<<32|uint64(v) < uint64(bHigh[i])<<32|uint64(b[i])) << (i & 63)
	}
	return out
}

func lessI64(c *Call, x, y int) (out uint64) {
	a := c.Source[x][0][:c.Lanes]
	b, aHigh, bHigh := c.Source[y][0][:len(a)], c.Source[x][1][:len(a)], c.Source[y][1][:len(a)]
	for i, v := range a {
		out |= bit(int64(uint64(aHigh[i])<<32|uint64(v)) < int64(uint64(bHigh[i])<<32|uint64(b[i]))) << (i & 63)
	}
	return out
}

func equalB64(c *Call, x, y int) (out uint64) {
	a := c.Source[x][0][:c.Lanes]
	b, aHigh, bHigh := c.Source[y][0][:len(a)], c.Source[x][1][:len(a)], c.Source[y][1][:len(a)]
	for i, v := range a {
		out |= bit(v == b[i] && aHigh[i] == bHigh[i]) << (i & 63)
	}
	return out
}

func lessF32(c *Call, x, y int) (out uint64) {
	a := c.Source[x][0][:c.Lanes]
	b := c.Source[y][0][:len(a)]
	for i, v := range a {
		out |= bit(math.Float32frombits(v) < math.Float32frombits(b[i])) << (i & 63)
	}
	return out
}

func lessEqualF32(c *Call, x, y int) (out uint64) {
	a := c.Source[x][0][:c.Lanes]
	b := c.Source[y][0][:len(a)]
	for i, v := range a {
		out |= bit(math.Float32frombits(v) <= math.Float32frombits(b[i])) << (i & 63)
	}
	return out
}

func equalF32(c *Call, x, y int) (out uint64) {
	a := c.Source[x][0][:c.Lanes]
	b := c.Source[y][0][:len(a)]
	for i, v := range a {
		out |= bit(math.Float32frombits(v) == math.Float32frombits(b[i])) << (i & 63)
	}
	return out
}

func differF32(c *Call, x, y int) (out uint64) {
	a := c.Source[x][0][:c.Lanes]
	b := c.Source[y][0][:len(a)]
	for i, v := range a {
		p, q := math.Float32frombits(v), math.Float32frombits(b[i])
		out |= (bit(p < q) | bit(p > q)) << (i & 63)
	}
	return out
}

// fastComparisons has a loop for each comparison's name, by how it is made of a relation.
var fastComparisons = func() map[string]struct {
	relation           func(c *Call, x, y int) uint64
	exchanged, negated bool
	isFloat            bool
} {
	type comparison = struct {
		relation           func(c *Call, x, y int) uint64
		exchanged, negated bool
		isFloat            bool
	}
	m := map[string]comparison{}
	for _, t := range []struct {
		suffix      string
		less, equal func(c *Call, x, y int) uint64
	}{
		{"u32", lessU32, equalB32}, {"i32", lessI32, equalB32}, {"u64", lessU64, equalB64}, {"i64", lessI64, equalB64},
	} {
		m["lt_"+t.suffix] = comparison{relation: t.less}
		m["ge_"+t.suffix] = comparison{relation: t.less, negated: true}
		m["gt_"+t.suffix] = comparison{relation: t.less, exchanged: true}
		m["le_"+t.suffix] = comparison{relation: t.less, exchanged: true, negated: true}
		m["eq_"+t.suffix] = comparison{relation: t.equal}
		m["ne_"+t.suffix] = comparison{relation: t.equal, negated: true}
	}
	for _, r := range []struct {
		name, negated string
		relation      func(c *Call, x, y int) uint64
		exchanged     bool
	}{
		{"lt", "nlt", lessF32, false},
		{"gt", "ngt", lessF32, true},
		{"le", "nle", lessEqualF32, false},
		{"ge", "nge", lessEqualF32, true},
		{"eq", "neq", equalF32, false},
		{"lg", "nlg", differF32, false},
	} {
		m[r.name+"_f32"] = comparison{r.relation, r.exchanged, false, true}
		m[r.negated+"_f32"] = comparison{r.relation, r.exchanged, true, true}
	}
	return m
}()

func (t *table) addFastComparisons() {
	for name, op := range t.ops {
		short, ok := strings.CutPrefix(name, "v_cmp_")
		if !ok {
			short, _ = strings.CutPrefix(name, "v_cmpx_")
		}
		r, ok := fastComparisons[short]
		if !ok {
			continue
		}
		x, y, invert := 0, 1, uint64(0)
		if r.exchanged {
			x, y = 1, 0
		}
		if r.negated {
			invert = ^uint64(0)
		}
		op.fast = func(c *Call) bool {
			if r.isFloat && c.Mode.Denorm32&1 == 0 {
				return false
			}
			c.Out = (r.relation(c, x, y) ^ invert) & (^uint64(0) >> (64 - c.Lanes))
			return true
		}
	}
}
