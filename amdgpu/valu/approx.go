package valu

import (
	"hash/fnv"
	"math"

	"tokitai/amdgpu/isa"
)

// Instructions that AMD documents only within an error. The hardware's value is not known, so
// a run takes one of those that the document allows, chosen by a hash of the seed, the
// instruction and the operand: a kernel whose bits depend on the choice gives other bits with
// another seed. Seed 0 takes the value nearest to binary64's.
//
//	format    instructions               documented error
//	binary16  rcp sqrt rsq exp log       0.51 units in the last place; subnormal numbers are kept
//	binary16  sin cos                    none documented: taken as 1 unit
//	binary32  rcp sqrt rsq exp log       1 unit; subnormal operands and results are flushed in any mode
//	binary32  sin cos                    none documented: taken as 1 unit; subnormal numbers are kept
//	binary64  rcp sqrt rsq               2**29 units; subnormal numbers are kept
//
// A result that binary16 or binary32 holds exactly is never varied.

// varied chooses the result of an instruction whose exact value is v, or as near to it as
// binary64 gets.
func (l *lane) varied(f *format, op, operand uint64, v float64) uint64 {
	if v != v {
		return f.nan()
	}
	nearest := f.round(v, toNearest)
	if l.seed == 0 || f.float(nearest) == v && f != double || f.isInf(nearest) || v == 0 {
		return nearest
	}
	h := chance(l.seed, op, operand)
	if f == double {
		// Units double at the end of a binade, so half as many are within the error everywhere.
		const units = 1 << 28
		offset := h%(2*units-1) - (units - 1) // modulo 2**64
		if moved := nearest + offset; moved&double.sign == nearest&double.sign && !f.isNaN(moved) && !f.isInf(moved) {
			return moved
		}
		return nearest
	}
	other := nearest + 1 // on the other side of v
	if math.Abs(f.float(nearest)) > math.Abs(v) {
		other = nearest - 1
	}
	if f == half {
		// Within 0.51 units there is a second value only near the middle between two.
		x, y := f.float(nearest), f.float(other)
		if (v-x)/(y-x) < 0.49 {
			return nearest
		}
	}
	if h&1 == 0 {
		return nearest
	}
	return other
}

// chance returns the random bits of an operand.
func chance(seed, op, operand uint64) uint64 { return mix(seed ^ mix(op^mix(operand))) }

// mix is a hash of 64 bits (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// nameHash tells instructions apart.
func nameHash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// approximation returns the function of an instruction of the format that computes function.
func approximation(op uint64, f *format, function func(float64) float64) laneFunc {
	return func(l *lane, a, _, _ uint64) uint64 {
		a = l.operand(f, a)
		if f.isNaN(a) {
			return a | f.quiet
		}
		return l.result(f, l.varied(f, op, a, function(f.float(a))))
	}
}

// addFlushing adds an instruction that approximates a function of binary32, flushing subnormal
// operands and results; op is the hash of its name.
func (t *table) addFlushing(name string, op uint64, function func(float64) float64) {
	single := func(seed uint64, x uint32) uint32 {
		const sign, inf, quiet = 1 << 31, 0xff << 23, 1 << 22
		if x&inf == 0 {
			x &= sign
		}
		if x&^sign > inf {
			return x | quiet
		}
		v := function(float64(math.Float32frombits(x)))
		if v != v {
			return inf | quiet
		}
		nearest := float32(v)
		r := math.Float32bits(nearest)
		if e := float64(nearest); seed != 0 && e != v && r&^sign != inf && chance(seed, op, uint64(x))&1 != 0 {
			if math.Abs(e) > math.Abs(v) {
				r--
			} else {
				r++
			}
		}
		if r&inf == 0 {
			r &= sign
		}
		return r
	}
	t.add(name, F32, []Type{F32}, func(l *lane, a, _, _ uint64) uint64 { return uint64(single(l.seed, uint32(a))) }).fast = func(c *Call) bool {
		a, d := words1(c)
		for i, x := range a {
			d[i] = single(c.Seed, x)
		}
		return true
	}
}

func reciprocal(x float64) float64 { return 1 / x }

// reciprocalRoot returns 1/√x; of -0 it is -Inf.
func reciprocalRoot(x float64) float64 {
	if x == 0 {
		return 1 / x
	}
	return 1 / math.Sqrt(x)
}

// turns returns the sine or the cosine of x turns. Beyond 256 turns it is that of 0.
func turns(x float64, cosine bool) float64 {
	if math.IsInf(x, 0) {
		return math.NaN()
	}
	if math.Abs(x) > 256 {
		x = 0
	}
	r := x - math.RoundToEven(x) // exact, in [-1/2, 1/2]
	if cosine {
		switch math.Abs(r) {
		case 0.25:
			return 0
		case 0.5:
			return -1
		}
		return math.Cos(2 * math.Pi * r)
	}
	switch r {
	case 0, 0.5, -0.5:
		return math.Copysign(0, x)
	case 0.25, -0.25:
		return 4 * r
	}
	return math.Sin(2 * math.Pi * r)
}

func (t *table) defineApproximations() {
	for _, f := range []struct {
		suffix string
		format *format
		typ    Type
	}{{"f16", half, F16}, {"f32", single, F32}, {"f64", double, F64}} {
		define := func(name string, flush bool, function func(float64) float64) {
			name = "v_" + name + "_" + f.suffix
			if flush {
				t.addFlushing(name, nameHash(name), function)
				return
			}
			t.add(name, f.typ, []Type{f.typ}, approximation(nameHash(name), f.format, function))
		}
		flush := f.format == single
		define("rcp", flush, reciprocal)
		define("rsq", flush, reciprocalRoot)
		define("sqrt", flush, math.Sqrt)
		if f.format == double {
			continue
		}
		define("exp", flush, math.Exp2)
		define("log", flush, math.Log2)
		define("sin", false, func(x float64) float64 { return turns(x, false) })
		define("cos", false, func(x float64) float64 { return turns(x, true) })
	}
	if t.family == isa.GFX9 {
		t.addFlushing("v_exp_legacy_f32", nameHash("v_exp_legacy_f32"), math.Exp2)
		t.addFlushing("v_log_legacy_f32", nameHash("v_log_legacy_f32"), math.Log2)
	}
	t.addFlushing("v_rcp_iflag_f32", nameHash("v_rcp_f32"), reciprocal)
}
