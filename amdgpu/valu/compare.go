package valu

import "tokitai/amdgpu/isa"

// Comparisons: each is one of three relations and its variants.

// floatRelations has the comparisons of floating-point numbers by what they are true of:
// less, equal, greater and unordered.
var floatRelations = []struct {
	name                         string
	less, equal, more, unordered bool
}{
	{"f", false, false, false, false},
	{"lt", true, false, false, false},
	{"eq", false, true, false, false},
	{"le", true, true, false, false},
	{"gt", false, false, true, false},
	{"lg", true, false, true, false},
	{"ge", false, true, true, false},
	{"o", true, true, true, false},
	{"u", false, false, false, true},
	{"nge", true, false, false, true},
	{"nlg", false, true, false, true},
	{"ngt", true, true, false, true},
	{"nle", false, false, true, true},
	{"neq", true, false, true, true},
	{"nlt", false, true, true, true},
	{"t", true, true, true, true},
	{"tru", true, true, true, true}, // as gfx9 calls t
}

var integerRelations = []struct {
	name              string
	less, equal, more bool
}{
	{"f", false, false, false},
	{"lt", true, false, false},
	{"eq", false, true, false},
	{"le", true, true, false},
	{"gt", false, false, true},
	{"ne", true, false, true},
	{"ge", false, true, true},
	{"t", true, true, true},
}

// addComparison adds v_cmp and v_cmpx.
func (t *table) addComparison(name string, sources []Type, holds func(l *lane, a, b uint64) bool) {
	compare := func(l *lane, a, b, _ uint64) uint64 {
		l.out = holds(l, a, b)
		return 0
	}
	t.add("v_cmp_"+name, Mask, sources, compare)
	t.add("v_cmpx_"+name, Mask, sources, compare).WritesExec = true
}

func (t *table) defineComparisons(suffix string, typ Type, f *format) {
	two := []Type{typ, typ}
	for _, r := range floatRelations {
		if r.name == "t" && t.family == isa.GFX9 || r.name == "tru" && t.family == isa.GFX11 {
			continue
		}
		t.addComparison(r.name+"_"+suffix, two, func(l *lane, a, b uint64) bool {
			a, b = l.operand(f, a), l.operand(f, b)
			if f.isNaN(a) || f.isNaN(b) {
				return r.unordered
			}
			switch x, y := f.float(a), f.float(b); {
			case x < y:
				return r.less
			case x > y:
				return r.more
			}
			return r.equal
		})
	}
	classes := B32
	if f == half {
		classes = B16
	}
	t.addComparison("class_"+suffix, []Type{typ, classes}, func(_ *lane, a, b uint64) bool { return b>>f.class(a)&1 != 0 })
}

// class returns the bit of a value in v_cmp_class's mask.
func (f *format) class(x uint64) uint {
	if f.isSignaling(x) {
		return 0
	}
	if f.isNaN(x) {
		return 1
	}
	var c uint // of a negative number
	switch {
	case f.isInf(x):
		c = 2
	case f.isZero(x):
		c = 5
	case f.isSubnormal(x):
		c = 4
	default:
		c = 3
	}
	if x&f.sign == 0 {
		return 11 - c
	}
	return c
}

func (t *table) defineIntegerComparisons() {
	for _, typ := range []struct {
		name   string
		typ    Type
		signed func(uint64) int64 // nil where unsigned
	}{
		{"i16", I16, func(x uint64) int64 { return int64(int16(x)) }},
		{"u16", U16, nil},
		{"i32", I32, func(x uint64) int64 { return int64(int32(x)) }},
		{"u32", U32, nil},
		{"i64", I64, func(x uint64) int64 { return int64(x) }},
		{"u64", U64, nil},
	} {
		for _, r := range integerRelations {
			if (r.name == "f" || r.name == "t") && typ.typ.Is16() && t.family == isa.GFX11 {
				continue
			}
			t.addComparison(r.name+"_"+typ.name, []Type{typ.typ, typ.typ}, func(_ *lane, a, b uint64) bool {
				less := a < b
				if typ.signed != nil {
					less = typ.signed(a) < typ.signed(b)
				}
				switch {
				case a == b:
					return r.equal
				case less:
					return r.less
				}
				return r.more
			})
		}
	}
}
