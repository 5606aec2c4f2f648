package valu

import (
	"math"

	"tokitai/amdgpu/isa"
)

// firstNaN returns the first NaN among the operands, made quiet.
func firstNaN(f *format, operands ...uint64) (uint64, bool) {
	for _, x := range operands {
		if f.isNaN(x) {
			return x | f.quiet, true
		}
	}
	return 0, false
}

// fma returns (a·b + c)·2**n with one rounding.
func (l *lane) fma(f *format, a, b, c uint64, n int) uint64 {
	a, b, c = l.operand(f, a), l.operand(f, b), l.operand(f, c)
	if x, ok := firstNaN(f, a, b, c); ok {
		return x
	}
	x, y, z, mode := f.float(a), f.float(b), f.float(c), l.rounding(f)
	var r float64
	if f == double {
		r = fma64(x, y, z, n, mode)
	} else {
		p := float64(x * y) // exact
		r = oddSum(p, z)
		if r == 0 {
			r = zeroSum(math.Signbit(p), math.Signbit(z), mode)
		}
		r = math.Ldexp(r, n) // exact: |n| is at most 64
	}
	return l.finish(f, r, mode)
}

// finish rounds r to the format, replacing a NaN by the default one.
func (l *lane) finish(f *format, r float64, mode uint8) uint64 {
	if r != r {
		return f.nan()
	}
	return l.result(f, f.round(r, mode))
}

func (l *lane) add(f *format, a, b uint64) uint64 {
	a, b = l.operand(f, a), l.operand(f, b)
	if x, ok := firstNaN(f, a, b); ok {
		return x
	}
	x, y, mode := f.float(a), f.float(b), l.rounding(f)
	var r float64
	if f == double {
		r = fma64(x, 1, y, 0, mode)
	} else if r = oddSum(x, y); r == 0 {
		r = zeroSum(math.Signbit(x), math.Signbit(y), mode)
	}
	return l.finish(f, r, mode)
}

func (l *lane) mul(f *format, a, b uint64) uint64 {
	a, b = l.operand(f, a), l.operand(f, b)
	if x, ok := firstNaN(f, a, b); ok {
		return x
	}
	x, y, mode := f.float(a), f.float(b), l.rounding(f)
	if f == double {
		return l.finish(f, mul64(x, y, mode), mode)
	}
	return l.finish(f, float64(x*y), mode)
}

// negate returns x with its sign changed, NaN or not.
func negate(f *format, x uint64) uint64 { return x ^ f.sign }

// less compares numbers; -0 is less than +0.
func less(f *format, a, b uint64) bool {
	key := func(x uint64) int64 {
		if x&f.sign != 0 {
			return -int64(x&^f.sign) - 1
		}
		return int64(x)
	}
	return key(a) < key(b)
}

// minmax returns the smaller operand, or the larger one. A NaN is left out, unless it signals
// in IEEE mode. Of two NaNs gfx9 returns the second and gfx11 the first.
func (l *lane) minmax(f *format, family isa.Family, larger bool, a, b uint64) uint64 {
	a, b = l.operand(f, a), l.operand(f, b)
	if l.mode.IEEE {
		if f.isSignaling(a) {
			return a | f.quiet
		}
		if f.isSignaling(b) {
			return b | f.quiet
		}
	}
	var r uint64
	switch aNaN, bNaN := f.isNaN(a), f.isNaN(b); {
	case aNaN && bNaN:
		if family == isa.GFX9 {
			return b
		}
		return a
	case aNaN:
		r = b
	case bNaN:
		r = a
	case less(f, a, b) != larger:
		r = a
	default:
		r = b
	}
	return l.result(f, r)
}

func (l *lane) min3max3(f *format, family isa.Family, larger bool, a, b, c uint64) uint64 {
	return l.minmax(f, family, larger, l.minmax(f, family, larger, a, b), c)
}

// med3 returns the operand in the middle, or the smallest number if there is a NaN.
func (l *lane) med3(f *format, family isa.Family, a, b, c uint64) uint64 {
	if _, ok := firstNaN(f, a, b, c); ok {
		return l.min3max3(f, family, false, a, b, c)
	}
	a, b, c = l.operand(f, a), l.operand(f, b), l.operand(f, c)
	largest := f.float(l.min3max3(f, family, true, a, b, c))
	switch {
	case largest == f.float(a):
		return l.minmax(f, family, true, b, c)
	case largest == f.float(b):
		return l.minmax(f, family, true, a, c)
	}
	return l.minmax(f, family, true, a, b)
}

// integral returns a function that rounds to an integer by the given function.
func integral(f *format, round func(float64) float64) laneFunc {
	return func(l *lane, a, _, _ uint64) uint64 {
		a = l.operand(f, a)
		if f.isNaN(a) {
			return a | f.quiet
		}
		return f.round(round(f.float(a)), toNearest)
	}
}

// fract returns x - floor(x), which is less than 1: where the difference rounds to 1, it is
// the number before it.
func fract(f *format) laneFunc {
	return func(l *lane, a, _, _ uint64) uint64 {
		a = l.operand(f, a)
		if f.isNaN(a) {
			return a | f.quiet
		}
		x := f.float(a)
		if math.IsInf(x, 0) {
			return f.nan()
		}
		mode := l.rounding(f)
		r := oddSum(x, -math.Floor(x))
		if f == double {
			r = fma64(x, 1, -math.Floor(x), 0, mode)
		}
		return l.result(f, min(f.round(math.Abs(r), mode), f.one-1))
	}
}

// frexpMantissa returns the significand in [1/2, 1) with the operand's sign.
func frexpMantissa(f *format) laneFunc {
	return func(l *lane, a, _, _ uint64) uint64 {
		a = l.operand(f, a)
		if f.isNaN(a) {
			return a | f.quiet
		}
		m, _ := math.Frexp(f.float(a))
		return f.round(m, toNearest)
	}
}

// frexpExponent returns the exponent to frexpMantissa's significand: 0 of zeros, infinities
// and NaNs.
func frexpExponent(f *format) laneFunc {
	return func(l *lane, a, _, _ uint64) uint64 {
		a = l.operand(f, a)
		if f.isNaN(a) || f.isInf(a) {
			return 0
		}
		_, e := math.Frexp(f.float(a))
		if f == half {
			return uint64(uint16(e))
		}
		return uint64(uint32(e))
	}
}

// ldexp returns a·2**n.
func (l *lane) ldexp(f *format, a uint64, n int) uint64 {
	a = l.operand(f, a)
	if f.isNaN(a) {
		return a | f.quiet
	}
	x, mode := f.float(a), l.rounding(f)
	if x == 0 || math.IsInf(x, 0) {
		return a
	}
	n = max(-4200, min(4200, n))
	switch {
	case f == double && mode == toNearest:
		return l.result(f, math.Float64bits(math.Ldexp(x, n)))
	case f == double:
		exact := exactly(x, 1, 0)
		return l.finish(f, round64(exact.SetMantExp(exact, n), mode), mode)
	}
	return l.finish(f, math.Ldexp(x, max(-600, min(600, n))), mode)
}

// defineFloat adds the arithmetic of one format.
func (t *table) defineFloat(suffix string, f *format, typ Type) {
	fam := t.family
	one, two, three := []Type{typ}, []Type{typ, typ}, []Type{typ, typ, typ}
	fma := func(l *lane, a, b, c uint64) uint64 { return l.fma(f, a, b, c, 0) }

	t.add("v_add_"+suffix, typ, two, func(l *lane, a, b, _ uint64) uint64 { return l.add(f, a, b) })
	t.add("v_mul_"+suffix, typ, two, func(l *lane, a, b, _ uint64) uint64 { return l.mul(f, a, b) })
	t.add("v_fma_"+suffix, typ, three, fma)
	if f == single || f == half && fam == isa.GFX11 || f == double && fam == isa.GFX9 {
		t.add("v_fmac_"+suffix, typ, two, fma).ReadsResult = true
	}
	for _, m := range []struct {
		name   string
		larger bool
	}{{"min", false}, {"max", true}} {
		t.add("v_"+m.name+"_"+suffix, typ, two, func(l *lane, a, b, _ uint64) uint64 { return l.minmax(f, fam, m.larger, a, b) })
	}
	t.add("v_trunc_"+suffix, typ, one, integral(f, math.Trunc))
	t.add("v_ceil_"+suffix, typ, one, integral(f, math.Ceil))
	t.add("v_floor_"+suffix, typ, one, integral(f, math.Floor))
	t.add("v_rndne_"+suffix, typ, one, integral(f, math.RoundToEven))
	t.add("v_fract_"+suffix, typ, one, fract(f))
	t.add("v_frexp_mant_"+suffix, typ, one, frexpMantissa(f))
	switch f {
	case half:
		t.add("v_frexp_exp_i16_f16", I16, one, frexpExponent(f))
		t.add("v_ldexp_f16", typ, []Type{typ, I16}, func(l *lane, a, n, _ uint64) uint64 { return l.ldexp(f, a, int(int16(n))) })
	default:
		t.add("v_frexp_exp_i32_"+suffix, I32, one, frexpExponent(f))
		t.add("v_ldexp_"+suffix, typ, []Type{typ, I32}, func(l *lane, a, n, _ uint64) uint64 { return l.ldexp(f, a, int(int32(n))) })
	}
	t.defineDivision(suffix, f, typ)
	t.defineComparisons(suffix, typ, f)
	if f == double {
		return
	}

	t.add("v_sub_"+suffix, typ, two, func(l *lane, a, b, _ uint64) uint64 { return l.add(f, a, negate(f, b)) })
	t.add("v_subrev_"+suffix, typ, two, func(l *lane, a, b, _ uint64) uint64 { return l.add(f, b, negate(f, a)) })
	if f == single || fam == isa.GFX11 {
		t.add("v_fmaak_"+suffix, typ, three, fma)
		t.add("v_fmamk_"+suffix, typ, three, fma)
	}
	for _, m := range []struct {
		name   string
		larger bool
	}{{"min3", false}, {"max3", true}} {
		t.add("v_"+m.name+"_"+suffix, typ, three, func(l *lane, a, b, c uint64) uint64 {
			return l.min3max3(f, fam, m.larger, a, b, c)
		})
	}
	t.add("v_med3_"+suffix, typ, three, func(l *lane, a, b, c uint64) uint64 { return l.med3(f, fam, a, b, c) })
	if fam == isa.GFX11 {
		t.add("v_maxmin_"+suffix, typ, three, func(l *lane, a, b, c uint64) uint64 {
			return l.minmax(f, fam, false, l.minmax(f, fam, true, a, b), c)
		})
		t.add("v_minmax_"+suffix, typ, three, func(l *lane, a, b, c uint64) uint64 {
			return l.minmax(f, fam, true, l.minmax(f, fam, false, a, b), c)
		})
	}
}

// legacyMul is the product in which 0 times anything is +0.
func legacyMul(l *lane, a, b, _ uint64) uint64 {
	if single.isZero(l.operand(single, a)) || single.isZero(l.operand(single, b)) {
		return 0
	}
	return l.mul(single, a, b)
}

// legacyFMA is the sum of c and legacyMul's product, with one rounding.
func legacyFMA(l *lane, a, b, c uint64) uint64 {
	if single.isZero(l.operand(single, a)) || single.isZero(l.operand(single, b)) {
		return l.result(single, l.operand(single, c))
	}
	return l.fma(single, a, b, c, 0)
}

// mad16 rounds the product, then the sum.
func mad16(l *lane, a, b, c uint64) uint64 { return l.add(half, l.mul(half, a, b), c) }

// mad32 is mad16 for binary32, which flushes subnormal numbers in any mode.
func mad32(l *lane, a, b, c uint64) uint64 {
	flushing := *l
	flushing.mode.Denorm32 = 0
	return flushing.add(single, flushing.mul(single, a, b), c)
}

// legacyMAD is the sum of c and legacyMul's product, each rounded.
func legacyMAD(l *lane, a, b, c uint64) uint64 {
	flushing := *l
	flushing.mode.Denorm32 = 0
	return flushing.add(single, legacyMul(&flushing, a, b, 0), c)
}

// defineFloats adds the arithmetic of all formats.
func (t *table) defineFloats() {
	t.defineFloat("f16", half, F16)
	t.defineFloat("f32", single, F32)
	t.defineFloat("f64", double, F64)
	t.add("v_trig_preop_f64", F64, []Type{F64, U32}, trigPreop)
	two, three := []Type{F32, F32}, []Type{F32, F32, F32}
	if t.family == isa.GFX11 {
		t.add("v_mul_dx9_zero_f32", F32, two, legacyMul)
		t.add("v_fma_dx9_zero_f32", F32, three, legacyFMA)
		t.add("v_fmac_dx9_zero_f32", F32, two, legacyFMA).ReadsResult = true
		return
	}
	t.add("v_mul_legacy_f32", F32, two, legacyMul)
	t.add("v_mad_legacy_f32", F32, three, legacyMAD)
	for _, name := range []string{"v_mad_f32", "v_madak_f32", "v_madmk_f32"} {
		t.add(name, F32, three, mad32)
	}
	t.add("v_mac_f32", F32, two, mad32).ReadsResult = true
	two, three = []Type{F16, F16}, []Type{F16, F16, F16}
	for _, name := range []string{"v_mad_f16", "v_mad_legacy_f16", "v_madak_f16", "v_madmk_f16"} {
		t.add(name, F16, three, mad16)
	}
	t.add("v_mac_f16", F16, two, mad16).ReadsResult = true
	t.add("v_fma_legacy_f16", F16, three, t.ops["v_fma_f16"].lane)
	t.add("v_div_fixup_legacy_f16", F16, three, t.ops["v_div_fixup_f16"].lane)
}
