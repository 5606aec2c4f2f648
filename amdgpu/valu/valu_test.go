package valu

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tokitai/amdgpu/isa"
	"tokitai/internal/testlevel"
)

// plainMode is that of compiled kernels.
var plainMode = Mode{Denorm32: 3, Denorm64: 3, IEEE: true, DX10Clamp: true}

// otherModes vary the rounding, the subnormal numbers and IEEE's rules.
var otherModes = []Mode{
	{Round32: 1, Round64: 1, Denorm32: 3, Denorm64: 3},
	{Round32: 2, Round64: 2, Denorm32: 3, Denorm64: 3, IEEE: true},
	{Round32: 3, Round64: 3, Denorm32: 3, Denorm64: 3, IEEE: true},
	{Denorm32: 0, Denorm64: 0},
	{Denorm32: 1, Denorm64: 2, IEEE: true},
	{Round32: 1, Round64: 2, Denorm32: 2, Denorm64: 1},
}

// families has both, by the names of tests.
var families = map[string]isa.Family{"gfx9": isa.GFX9, "gfx11": isa.GFX11}

// specials returns values of a type where something changes.
func specials(t Type) []uint64 {
	floats := func(y layout) []uint64 {
		one := (uint64(1)<<(y.exponent-1) - 1) << y.fraction
		unit := uint64(1) << y.fraction
		var v []uint64
		for _, x := range []uint64{
			0, 1, unit / 2, unit - 1, unit, unit + 1, // zero, subnormal numbers, the least normal ones
			one - unit, one - 1, one, one + 1, one + unit/2, one + unit, // around 1
			one + unit*uint64(y.fraction-1) + 1, one + unit*uint64(y.fraction), one + unit*uint64(y.fraction+1) - 1, // integers end
			y.infinity() - unit, y.infinity() - 1, y.infinity(), // the largest
			y.infinity() | 1, y.infinity() | y.quietBit(), y.infinity() | y.quietBit() | 3, // NaNs
		} {
			v = append(v, x, x|y.signBit())
		}
		return v
	}
	integers := func(width uint) []uint64 {
		top := uint64(1) << (width - 1)
		v := []uint64{0, 1, 2, 7, 31, 0x55, top - 1, top, top + 1, top - 1 + top, top + top/2}
		if width > 16 {
			v = append(v, 0xffff, 0x10000, 0x7fffff, 0x800000, 0xffffff, 0x01000000, 0x89abcdef)
		}
		return v
	}
	twice := func(v []uint64, width uint) []uint64 {
		var r []uint64
		for i, x := range v {
			r = append(r, x|v[(i*7+3)%len(v)]<<width)
		}
		return r
	}
	switch t {
	case F16:
		return floats(layout16)
	case F32, Mix:
		return floats(layout32)
	case F64:
		return floats(layout64)
	case PKF16:
		return twice(floats(layout16), 16)
	case PKF32:
		return twice(floats(layout32), 32)
	case B16, I16, U16:
		return integers(16)
	case B64, I64, U64, PKB32:
		return append(integers(64), 0xffffffff, 0x100000000, 0x80000000)
	case PKB16, PKI16, PKU16:
		return twice(integers(16), 16)
	}
	return integers(32)
}

// randomOf returns a random value of a type: for numbers, of a moderate magnitude as often as of
// any.
func randomOf(r *rand.Rand, t Type) uint64 {
	x := r.Uint64()
	moderate := func(y layout, x uint64) uint64 {
		bias := uint64(1)<<(y.exponent-1) - 1
		e := bias - 3 + r.Uint64N(7)
		return x&(y.signBit()|(1<<y.fraction-1)) | e<<y.fraction
	}
	if r.IntN(2) == 0 {
		switch t {
		case F16:
			return moderate(layout16, x&0xffff)
		case F32, Mix:
			return moderate(layout32, x&0xffffffff)
		case F64:
			return moderate(layout64, x)
		case PKF16:
			return moderate(layout16, x&0xffff) | moderate(layout16, x>>16&0xffff)<<16
		case PKF32:
			return moderate(layout32, x&0xffffffff) | moderate(layout32, x>>32)<<32
		}
	}
	switch {
	case t.Is16():
		return x & 0xffff
	case t.Words() == 2:
		return x
	}
	return x & 0xffffffff
}

// sourceTypes returns the types of all values that an operation reads as Call.Source.
func sourceTypes(op *Op) []Type {
	types := slices.DeleteFunc(slices.Clone(op.Sources), func(t Type) bool { return t == Mask })
	if op.ReadsResult {
		types = append(types, op.Result)
	}
	return types
}

// inputs returns what an operation is tried with: all values of one operand of 16 bits (some at
// level smoke), otherwise special and random ones.
func inputs(op *Op, r *rand.Rand, most int) [][3]uint64 {
	types := sourceTypes(op)
	var all [][3]uint64
	if len(types) == 1 && types[0].Is16() {
		for x := uint64(0); x < 1<<16; x += testlevel.Pick[uint64](23, 1) {
			all = append(all, [3]uint64{x})
		}
		if testlevel.Current() > testlevel.Smoke {
			return all
		}
	}
	special := make([][]uint64, len(types))
	product := 1
	for i, t := range types {
		special[i] = specials(t)
		product *= len(special[i])
	}
	pick := func(number int) (v [3]uint64) {
		for i := range types {
			v[i] = special[i][number%len(special[i])]
			number /= len(special[i])
		}
		return v
	}
	if product <= most {
		for i := range product {
			all = append(all, pick(i))
		}
	} else {
		for range most {
			all = append(all, pick(r.IntN(product)))
		}
	}
	for range most {
		var v [3]uint64
		for i, t := range types {
			v[i] = randomOf(r, t)
			if i == 1 && strings.HasPrefix(op.Name, "v_ldexp") { // an exponent that leads to a subnormal number as often as not
				y := layoutOf(op.Name[len("v_ldexp_"):])
				v[1] = uint64(int64(2-r.IntN(int(y.fraction)+3)) - int64(v[0]>>y.fraction&(1<<y.exponent-1)))
				if v[1] &= math.MaxUint32; t.Is16() {
					v[1] &= math.MaxUint16
				}
			}
			if i > 0 && r.IntN(8) == 0 { // equal operands, and numbers that cancel
				v[i] = v[i-1]
			}
		}
		all = append(all, v)
	}
	return all
}

// execution runs a bound function on rows of operands, as many lanes at a time as the
// family has.
type execution struct {
	family isa.Family
	op     *Op
	run    Func
	mode   Mode
	seed   uint64
}

// results calls check with each row's result and mask bit. The registers of the result are
// others than those of the operands, the same, or overlap with them.
func (e execution) results(rows [][3]uint64, in func(row int) bool, check func(row int, result uint64, out bool)) {
	lanes := e.family.Lanes()
	types := sourceTypes(e.op)
	for first := 0; first < len(rows); first += lanes {
		var words [3][2]Register
		var spare [2]Register
		c := Call{Lanes: lanes, Mode: e.mode, Seed: e.seed}
		for k, t := range types {
			for w := range t.Words() {
				c.Source[k][w] = &words[k][w]
			}
		}
		c.Result = [2]*Register{&spare[0], &spare[1]}
		switch overlap := (first/lanes + int(e.mode.Round32+e.mode.Denorm32)) % 3; {
		case overlap == 1: // the registers of the first operand
			for w := range min(types[0].Words(), e.op.Result.Words()) {
				c.Result[w] = c.Source[0][w]
			}
		case overlap == 2 && types[0].Words() == 2: // shifted by one
			c.Result[0] = c.Source[0][1]
			if len(types) > 1 && e.op.Result.Words() == 2 {
				c.Result[1] = c.Source[1][0]
			}
		}
		for i := range lanes {
			row := rows[(first+i)%len(rows)]
			for k := range types {
				words[k][0][i], words[k][1][i] = uint32(row[k]), uint32(row[k]>>32)
				if types[k].Is16() {
					words[k][0][i] |= 0xabcd0000 // what the upper half holds does not matter
				}
			}
			if in((first + i) % len(rows)) {
				c.In |= 1 << i
			}
		}
		c.Out = 0xfeed << 40
		e.run(&c)
		for i := 0; i < lanes && first+i < len(rows); i++ {
			var r uint64
			switch e.op.Result.Words() {
			case 2:
				r = uint64(c.Result[1][i]) << 32
				fallthrough
			case 1:
				r |= uint64(c.Result[0][i])
			}
			check(first+i, r, c.Out>>i&1 != 0)
		}
		if lanes == 32 && (e.op.Result == Mask || e.op.Carry) && c.Out>>32 != 0 {
			check(-1, c.Out, true)
		}
	}
}

// instructionOf returns an instruction with the operation's name and no modifiers.
func instructionOf(op *Op) *isa.Instruction {
	in := &isa.Instruction{Name: op.Name, Encoding: isa.VOP3}
	if op.lane == nil {
		in.Encoding, in.OpSelHi = isa.VOP3P, 7
		if op.Sources[0] == Mix {
			in.OpSelHi = 0
		}
		if op.Name == "v_pk_mov_b32" {
			in.OpSel = 0
		}
	}
	return in
}

// TestOperations compares every operation of the tables with a result computed another way.
func TestOperations(t *testing.T) {
	most := testlevel.Pick(100, 1000, 20000)
	for label, family := range families {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			for _, name := range slices.Sorted(maps.Keys(tables[family])) {
				if isApproximation(name) {
					continue // TestApproximations
				}
				op := tables[family][name]
				want := oracleOf(family, name)
				if want == nil {
					t.Errorf("%s: no second computation", name)
					continue
				}
				run, err := op.Bind(instructionOf(op))
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				r := rand.New(rand.NewPCG(uint64(len(name)), 7))
				rows := inputs(op, r, most)
				compareRows(t, execution{family, op, run, plainMode, 0}, rows, want)
				r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
				for _, mode := range otherModes {
					compareRows(t, execution{family, op, run, mode, 0}, rows[:min(len(rows), most)], want)
				}
			}
		})
	}
}

// compareRows reports the first row whose results differ.
func compareRows(t *testing.T, e execution, rows [][3]uint64, want oracle) {
	t.Helper()
	failed := false
	in := func(row int) bool { return row%3 == 1 }
	e.results(rows, in, func(row int, result uint64, out bool) {
		if failed {
			return
		}
		if row < 0 {
			t.Errorf("%s: mask %#x has bits beyond the wave's lanes", e.op.Name, result)
			failed = true
			return
		}
		m := machine{e.family, e.mode, in(row)}
		r, o := want(m, rows[row][0], rows[row][1], rows[row][2])
		hasMask := e.op.Result == Mask || e.op.Carry
		if r != result || hasMask && o != out {
			t.Errorf("%s %#x, carry %t, %+v:\n\tgot  %#x, mask %t\n\twant %#x, mask %t",
				e.op.Name, rows[row][:len(sourceTypes(e.op))], in(row), e.mode, result, out, r, o)
			failed = true
		}
	})
}
