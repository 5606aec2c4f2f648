package valu

import (
	"math"
	"math/big"
	"strings"

	"tokitai/amdgpu/isa"
)

// oracle computes a result and the lane's bit of the mask by other means than the package.
type oracle func(m machine, a, b, c uint64) (uint64, bool)

// plain makes an oracle of a function without a mask.
func plain(f func(m machine, a, b, c uint64) uint64) oracle {
	return func(m machine, a, b, c uint64) (uint64, bool) { return f(m, a, b, c), false }
}

// oracleOf returns the oracle of an instruction, or nil.
func oracleOf(family isa.Family, name string) oracle {
	base := strings.TrimPrefix(name, "v_")
	if o := integerOracles[base]; o != nil {
		return o
	}
	if rest, ok := strings.CutPrefix(base, "cmpx_"); ok {
		return comparisonOracle(rest)
	}
	if rest, ok := strings.CutPrefix(base, "cmp_"); ok {
		return comparisonOracle(rest)
	}
	if rest, ok := strings.CutPrefix(base, "pk_"); ok {
		return packedOracle(family, rest)
	}
	if o := conversionOracles[base]; o != nil {
		return o
	}
	i := strings.LastIndexByte(base, '_')
	if i < 0 {
		return nil
	}
	return floatOracle(base[:i], base[i+1:])
}

// packedOracle computes both halves of a packed instruction without modifiers.
func packedOracle(family isa.Family, base string) oracle {
	if base == "mov_b32" {
		return plain(func(_ machine, a, b, _ uint64) uint64 { return a&math.MaxUint32 | b<<32 })
	}
	width, one := uint(16), base
	switch {
	case strings.HasSuffix(base, "f32"):
		width = 32
	case family == isa.GFX11 && (strings.HasPrefix(base, "add_u") || strings.HasPrefix(base, "add_i") || strings.HasPrefix(base, "sub_")):
		one = base[:4] + "nc_" + base[4:]
	case base == "fmac_f16":
		one = "fma_f16"
	}
	scalar := oracleOf(family, "v_"+one)
	if scalar == nil {
		return nil
	}
	field := uint64(1)<<width - 1
	return plain(func(m machine, a, b, c uint64) uint64 {
		lo, _ := scalar(m, a&field, b&field, c&field)
		hi, _ := scalar(m, a>>width&field, b>>width&field, c>>width&field)
		return lo | hi<<width
	})
}

// comparisonOracle compares fractions or integers.
func comparisonOracle(base string) oracle {
	relation, suffix, _ := strings.Cut(base, "_")
	if relation == "class" {
		y := layoutOf(suffix)
		return func(_ machine, a, b, _ uint64) (uint64, bool) {
			v := y.decode(a, false)
			var class string
			switch {
			case v.nan && v.signaling:
				class = "signaling NaN"
			case v.nan:
				class = "quiet NaN"
			case v.inf:
				class = "infinity"
			case v.zero:
				class = "zero"
			case v.subnormal:
				class = "subnormal"
			default:
				class = "normal"
			}
			if !v.nan && v.negative {
				class = "-" + class
			}
			for i, name := range []string{"signaling NaN", "quiet NaN", "-infinity", "-normal", "-subnormal", "-zero",
				"zero", "subnormal", "normal", "infinity"} {
				if name == class {
					return 0, b>>i&1 != 0
				}
			}
			return 0, false
		}
	}
	var order func(m machine, a, b uint64) (int, bool) // and whether it has one
	switch suffix[0] {
	case 'f':
		y := layoutOf(suffix)
		order = func(m machine, a, b uint64) (int, bool) {
			x, z := m.decode(y, a), m.decode(y, b)
			if x.nan || z.nan {
				return 0, false
			}
			return compareValues(x, z), true
		}
	case 'i', 'u':
		width := map[string]uint{"16": 16, "32": 32, "64": 64}[suffix[1:]]
		order = func(_ machine, a, b uint64) (int, bool) {
			x, z := new(big.Int).SetUint64(a), new(big.Int).SetUint64(b)
			for _, v := range []*big.Int{x, z} {
				if suffix[0] == 'i' && v.Bit(int(width-1)) == 1 {
					v.Sub(v, new(big.Int).Lsh(big.NewInt(1), width))
				}
			}
			return x.Cmp(z), true
		}
	}
	holds := map[string]func(order int, ordered bool) bool{
		"f":   func(int, bool) bool { return false },
		"lt":  func(c int, o bool) bool { return o && c < 0 },
		"eq":  func(c int, o bool) bool { return o && c == 0 },
		"le":  func(c int, o bool) bool { return o && c <= 0 },
		"gt":  func(c int, o bool) bool { return o && c > 0 },
		"lg":  func(c int, o bool) bool { return o && c != 0 },
		"ne":  func(c int, o bool) bool { return c != 0 },
		"ge":  func(c int, o bool) bool { return o && c >= 0 },
		"o":   func(c int, o bool) bool { return o },
		"u":   func(c int, o bool) bool { return !o },
		"nge": func(c int, o bool) bool { return !(o && c >= 0) },
		"nlg": func(c int, o bool) bool { return !(o && c != 0) },
		"ngt": func(c int, o bool) bool { return !(o && c > 0) },
		"nle": func(c int, o bool) bool { return !(o && c <= 0) },
		"neq": func(c int, o bool) bool { return !(o && c == 0) },
		"nlt": func(c int, o bool) bool { return !(o && c < 0) },
		"t":   func(int, bool) bool { return true },
		"tru": func(int, bool) bool { return true },
	}[relation]
	if holds == nil || order == nil {
		return nil
	}
	return func(m machine, a, b, _ uint64) (uint64, bool) {
		c, ordered := order(m, a, b)
		return 0, holds(c, ordered)
	}
}

// word makes an oracle of a function of 32-bit integers whose result is taken modulo 2**32.
func word(f func(a, b, c int64) int64) oracle {
	return plain(func(_ machine, a, b, c uint64) uint64 {
		return uint64(uint32(f(int64(a), int64(b), int64(c))))
	})
}

// short is word for 16 bits.
func short(f func(a, b, c int64) int64) oracle {
	return plain(func(_ machine, a, b, c uint64) uint64 {
		return uint64(uint16(f(int64(a), int64(b), int64(c))))
	})
}

// s returns a pattern of n bits as a signed integer.
func s(x int64, n uint) int64 {
	x &= 1<<n - 1
	if x >= 1<<(n-1) {
		x -= 1 << n
	}
	return x
}

// carrying makes an oracle of a sum whose carry is that it leaves 32 bits.
func carrying(f func(a, b, carry int64) int64) oracle {
	return func(m machine, a, b, _ uint64) (uint64, bool) {
		var carry int64
		if m.in {
			carry = 1
		}
		v := f(int64(a), int64(b), carry)
		return uint64(uint32(v)), v != int64(uint32(v))
	}
}

func middle(a, b, c int64) int64 {
	switch {
	case a <= b && b <= c || c <= b && b <= a:
		return b
	case b <= a && a <= c || c <= a && a <= b:
		return a
	}
	return c
}

func abs(v int64) int64 { return max(v, -v) }

// fields adds up a function of the fields of a and b.
func fields(a, b int64, width int, f func(x, y int64) int64) int64 {
	var sum int64
	for i := 0; i < 32; i += width {
		sum += f(a>>i&(1<<width-1), b>>i&(1<<width-1))
	}
	return sum
}

func bitPosition(bitsFromFirst func(i int) bool) int64 {
	for i := range 32 {
		if bitsFromFirst(i) {
			return int64(i)
		}
	}
	return -1
}

func dotOracle(width int, signed bool) oracle {
	return word(func(a, b, c int64) int64 {
		return c + fields(a, b, width, func(x, y int64) int64 {
			if signed {
				return s(x, uint(width)) * s(y, uint(width))
			}
			return x * y
		})
	})
}

var integerOracles = map[string]oracle{
	"mov_b32":           word(func(a, _, _ int64) int64 { return a }),
	"accvgpr_read_b32":  word(func(a, _, _ int64) int64 { return a }),
	"accvgpr_write_b32": word(func(a, _, _ int64) int64 { return a }),
	"accvgpr_mov_b32":   word(func(a, _, _ int64) int64 { return a }),
	"mov_b16":           short(func(a, _, _ int64) int64 { return a }),
	"mov_b64":           plain(func(_ machine, a, _, _ uint64) uint64 { return a }),
	"not_b32":           word(func(a, _, _ int64) int64 { return -1 - a }),
	"not_b16":           short(func(a, _, _ int64) int64 { return -1 - a }),
	"bfrev_b32": word(func(a, _, _ int64) int64 {
		var r int64
		for i := range 32 {
			r |= a >> i & 1 << (31 - i)
		}
		return r
	}),
	"and_b32":     word(func(a, b, _ int64) int64 { return a & b }),
	"and_b16":     short(func(a, b, _ int64) int64 { return a & b }),
	"or_b32":      word(func(a, b, _ int64) int64 { return a + b - a&b }),
	"or_b16":      short(func(a, b, _ int64) int64 { return a + b - a&b }),
	"xor_b32":     word(func(a, b, _ int64) int64 { return a + b - 2*(a&b) }),
	"xor_b16":     short(func(a, b, _ int64) int64 { return a + b - 2*(a&b) }),
	"xnor_b32":    word(func(a, b, _ int64) int64 { return -1 - (a + b - 2*(a&b)) }),
	"lshlrev_b32": word(func(a, b, _ int64) int64 { return b * (1 << (a % 32)) }),
	"lshrrev_b32": word(func(a, b, _ int64) int64 { return b / (1 << (a % 32)) }),
	"ashrrev_i32": word(func(a, b, _ int64) int64 { return floorDiv(s(b, 32), 1<<(a%32)) }),
	"lshlrev_b16": short(func(a, b, _ int64) int64 { return b * (1 << (a % 16)) }),
	"lshrrev_b16": short(func(a, b, _ int64) int64 { return b / (1 << (a % 16)) }),
	"ashrrev_i16": short(func(a, b, _ int64) int64 { return floorDiv(s(b, 16), 1<<(a%16)) }),
	"lshlrev_b64": plain(func(_ machine, a, b, _ uint64) uint64 { return b * (1 << (a % 64)) }),
	"lshrrev_b64": plain(func(_ machine, a, b, _ uint64) uint64 { return b / (1 << (a % 64)) }),
	"ashrrev_i64": plain(func(_ machine, a, b, _ uint64) uint64 {
		q, _ := new(big.Int).DivMod(big.NewInt(int64(b)), new(big.Int).Lsh(big.NewInt(1), uint(a%64)), new(big.Int))
		return uint64(q.Int64())
	}),
	"bfm_b32": word(func(a, b, _ int64) int64 { return (1<<(a%32) - 1) * (1 << (b % 32)) }),
	"bfi_b32": word(func(a, b, c int64) int64 { return a&b + (math.MaxUint32-a)&c }),
	"bfe_u32": word(func(a, b, c int64) int64 { return a / (1 << (b % 32)) % (1 << (c % 32)) }),
	"bfe_i32": word(func(a, b, c int64) int64 {
		if c%32 == 0 {
			return 0
		}
		return s(floorDiv(s(a, 32), 1<<(b%32)), uint(c%32))
	}),
	"alignbit_b32":  word(func(a, b, c int64) int64 { return b>>(c%32) + a<<(32-c%32) }),
	"alignbyte_b32": word(func(a, b, c int64) int64 { return b>>(c%4*8) + a<<(32-c%4*8) }),
	"perm_b32": word(func(a, b, c int64) int64 {
		data := []int64{b & 255, b >> 8 & 255, b >> 16 & 255, b >> 24, a & 255, a >> 8 & 255, a >> 16 & 255, a >> 24}
		var r int64
		for i := range 4 {
			switch sel := c >> (8 * i) & 255; {
			case sel < 8:
				r += data[sel] << (8 * i)
			case sel < 12:
				r += data[2*(sel-8)+1] >> 7 * 255 << (8 * i)
			case sel > 12:
				r += 255 << (8 * i)
			}
		}
		return r
	}),
	"and_or_b32":   word(func(a, b, c int64) int64 { return a&b | c }),
	"or3_b32":      word(func(a, b, c int64) int64 { return a | b | c }),
	"xor3_b32":     word(func(a, b, c int64) int64 { return a ^ b ^ c }),
	"lshl_or_b32":  word(func(a, b, c int64) int64 { return a*(1<<(b%32)) | c }),
	"add3_u32":     word(func(a, b, c int64) int64 { return a + b + c }),
	"lshl_add_u32": word(func(a, b, c int64) int64 { return a*(1<<(b%32)) + c }),
	"add_lshl_u32": word(func(a, b, c int64) int64 { return (a + b) % (1 << 32) * (1 << (c % 32)) }),
	"xad_u32":      word(func(a, b, c int64) int64 { return a + b - 2*(a&b) + c }),
	"lshl_add_u64": plain(func(_ machine, a, b, c uint64) uint64 { return a*(1<<(b%8)) + c }),
	"bcnt_u32_b32": word(func(a, b, _ int64) int64 { return int64(strings.Count(big.NewInt(a).Text(2), "1")) + b }),
	"ffbh_u32":     word(func(a, _, _ int64) int64 { return bitPosition(func(i int) bool { return a>>(31-i)&1 == 1 }) }),
	"clz_i32_u32":  word(func(a, _, _ int64) int64 { return bitPosition(func(i int) bool { return a>>(31-i)&1 == 1 }) }),
	"ffbl_b32":     word(func(a, _, _ int64) int64 { return bitPosition(func(i int) bool { return a>>i&1 == 1 }) }),
	"ctz_i32_b32":  word(func(a, _, _ int64) int64 { return bitPosition(func(i int) bool { return a>>i&1 == 1 }) }),
	"ffbh_i32":     word(func(a, _, _ int64) int64 { return bitPosition(func(i int) bool { return a>>(31-i)&1 != a>>31 }) }),
	"cls_i32":      word(func(a, _, _ int64) int64 { return bitPosition(func(i int) bool { return a>>(31-i)&1 != a>>31 }) }),
	"cndmask_b32":  plain(chooseOracle),
	"cndmask_b16":  plain(chooseOracle),

	"add_u32":          word(func(a, b, _ int64) int64 { return a + b }),
	"add_nc_u32":       word(func(a, b, _ int64) int64 { return a + b }),
	"add_i32":          word(func(a, b, _ int64) int64 { return a + b }),
	"add_nc_i32":       word(func(a, b, _ int64) int64 { return a + b }),
	"sub_u32":          word(func(a, b, _ int64) int64 { return a - b }),
	"sub_nc_u32":       word(func(a, b, _ int64) int64 { return a - b }),
	"sub_i32":          word(func(a, b, _ int64) int64 { return a - b }),
	"sub_nc_i32":       word(func(a, b, _ int64) int64 { return a - b }),
	"subrev_u32":       word(func(a, b, _ int64) int64 { return b - a }),
	"subrev_nc_u32":    word(func(a, b, _ int64) int64 { return b - a }),
	"add_co_u32":       carrying(func(a, b, _ int64) int64 { return a + b }),
	"sub_co_u32":       carrying(func(a, b, _ int64) int64 { return a - b }),
	"subrev_co_u32":    carrying(func(a, b, _ int64) int64 { return b - a }),
	"addc_co_u32":      carrying(func(a, b, c int64) int64 { return a + b + c }),
	"add_co_ci_u32":    carrying(func(a, b, c int64) int64 { return a + b + c }),
	"subb_co_u32":      carrying(func(a, b, c int64) int64 { return a - b - c }),
	"sub_co_ci_u32":    carrying(func(a, b, c int64) int64 { return a - b - c }),
	"subbrev_co_u32":   carrying(func(a, b, c int64) int64 { return b - a - c }),
	"subrev_co_ci_u32": carrying(func(a, b, c int64) int64 { return b - a - c }),

	"mul_lo_u32":     plain(func(_ machine, a, b, _ uint64) uint64 { return a * b % (1 << 32) }),
	"mul_hi_u32":     plain(func(_ machine, a, b, _ uint64) uint64 { return a * b / (1 << 32) }),
	"mul_hi_i32":     word(func(a, b, _ int64) int64 { return floorDiv(s(a, 32)*s(b, 32), 1<<32) }),
	"mul_u32_u24":    word(func(a, b, _ int64) int64 { return a % (1 << 24) * (b % (1 << 24)) }),
	"mul_hi_u32_u24": word(func(a, b, _ int64) int64 { return a % (1 << 24) * (b % (1 << 24)) / (1 << 32) }),
	"mul_i32_i24":    word(func(a, b, _ int64) int64 { return s(a, 24) * s(b, 24) }),
	"mul_hi_i32_i24": word(func(a, b, _ int64) int64 { return floorDiv(s(a, 24)*s(b, 24), 1<<32) }),
	"mad_u32_u24":    word(func(a, b, c int64) int64 { return a%(1<<24)*(b%(1<<24)) + c }),
	"mad_i32_i24":    word(func(a, b, c int64) int64 { return s(a, 24)*s(b, 24) + c }),
	"mad_u32_u16":    word(func(a, b, c int64) int64 { return a*b + c }),
	"mad_i32_i16":    word(func(a, b, c int64) int64 { return s(a, 16)*s(b, 16) + c }),
	"mad_u64_u32": func(_ machine, a, b, c uint64) (uint64, bool) {
		v := new(big.Int).Mul(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b))
		v.Add(v, new(big.Int).SetUint64(c))
		return a*b + c, v.Bit(64) == 1
	},
	"mad_i64_i32": func(_ machine, a, b, c uint64) (uint64, bool) {
		v := new(big.Int).Mul(big.NewInt(s(int64(a), 32)), big.NewInt(s(int64(b), 32)))
		v.Add(v, big.NewInt(int64(c)))
		return uint64(s(int64(a), 32)*s(int64(b), 32)) + c, v.Sign() < 0 // bit 64 of the sum in two's complement
	},

	"min_i32":    word(func(a, b, _ int64) int64 { return min(s(a, 32), s(b, 32)) }),
	"max_i32":    word(func(a, b, _ int64) int64 { return max(s(a, 32), s(b, 32)) }),
	"min_u32":    word(func(a, b, _ int64) int64 { return min(a, b) }),
	"max_u32":    word(func(a, b, _ int64) int64 { return max(a, b) }),
	"min3_i32":   word(func(a, b, c int64) int64 { return min(s(a, 32), s(b, 32), s(c, 32)) }),
	"max3_i32":   word(func(a, b, c int64) int64 { return max(s(a, 32), s(b, 32), s(c, 32)) }),
	"min3_u32":   word(func(a, b, c int64) int64 { return min(a, b, c) }),
	"max3_u32":   word(func(a, b, c int64) int64 { return max(a, b, c) }),
	"med3_i32":   word(func(a, b, c int64) int64 { return middle(s(a, 32), s(b, 32), s(c, 32)) }),
	"med3_u32":   word(middle),
	"maxmin_i32": word(func(a, b, c int64) int64 { return min(max(s(a, 32), s(b, 32)), s(c, 32)) }),
	"minmax_i32": word(func(a, b, c int64) int64 { return max(min(s(a, 32), s(b, 32)), s(c, 32)) }),
	"maxmin_u32": word(func(a, b, c int64) int64 { return min(max(a, b), c) }),
	"minmax_u32": word(func(a, b, c int64) int64 { return max(min(a, b), c) }),

	"min_i16":        short(func(a, b, _ int64) int64 { return min(s(a, 16), s(b, 16)) }),
	"max_i16":        short(func(a, b, _ int64) int64 { return max(s(a, 16), s(b, 16)) }),
	"min_u16":        short(func(a, b, _ int64) int64 { return min(a, b) }),
	"max_u16":        short(func(a, b, _ int64) int64 { return max(a, b) }),
	"min3_i16":       short(func(a, b, c int64) int64 { return min(s(a, 16), s(b, 16), s(c, 16)) }),
	"max3_i16":       short(func(a, b, c int64) int64 { return max(s(a, 16), s(b, 16), s(c, 16)) }),
	"min3_u16":       short(func(a, b, c int64) int64 { return min(a, b, c) }),
	"max3_u16":       short(func(a, b, c int64) int64 { return max(a, b, c) }),
	"med3_i16":       short(func(a, b, c int64) int64 { return middle(s(a, 16), s(b, 16), s(c, 16)) }),
	"med3_u16":       short(middle),
	"add_u16":        short(func(a, b, _ int64) int64 { return a + b }),
	"add_i16":        short(func(a, b, _ int64) int64 { return a + b }),
	"add_nc_u16":     short(func(a, b, _ int64) int64 { return a + b }),
	"add_nc_i16":     short(func(a, b, _ int64) int64 { return a + b }),
	"sub_u16":        short(func(a, b, _ int64) int64 { return a - b }),
	"sub_i16":        short(func(a, b, _ int64) int64 { return a - b }),
	"sub_nc_u16":     short(func(a, b, _ int64) int64 { return a - b }),
	"sub_nc_i16":     short(func(a, b, _ int64) int64 { return a - b }),
	"subrev_u16":     short(func(a, b, _ int64) int64 { return b - a }),
	"mul_lo_u16":     short(func(a, b, _ int64) int64 { return a * b }),
	"mad_u16":        short(func(a, b, c int64) int64 { return a*b + c }),
	"mad_i16":        short(func(a, b, c int64) int64 { return a*b + c }),
	"mad_legacy_u16": short(func(a, b, c int64) int64 { return a*b + c }),
	"mad_legacy_i16": short(func(a, b, c int64) int64 { return a*b + c }),

	"sad_u8":    word(func(a, b, c int64) int64 { return c + fields(a, b, 8, absoluteDifference) }),
	"sad_hi_u8": word(func(a, b, c int64) int64 { return c + fields(a, b, 8, absoluteDifference)<<16 }),
	"sad_u16":   word(func(a, b, c int64) int64 { return c + fields(a, b, 16, absoluteDifference) }),
	"sad_u32":   word(func(a, b, c int64) int64 { return c + fields(a, b, 32, absoluteDifference) }),
	"msad_u8":   word(func(a, b, c int64) int64 { return c + fields(a, b, 8, maskedDifference) }),
	"lerp_u8": word(func(a, b, c int64) int64 {
		var r int64
		for i := 0; i < 32; i += 8 {
			r += (a>>i%256 + b>>i%256 + c>>i%2) / 2 << i
		}
		return r
	}),
	"qsad_pk_u16_u8":  plain(qsadOracle(absoluteDifference)),
	"mqsad_pk_u16_u8": plain(qsadOracle(maskedDifference)),

	"dot4_u32_u8":   dotOracle(8, false),
	"dot8_u32_u4":   dotOracle(4, false),
	"dot2_u32_u16":  dotOracle(16, false),
	"dot4_i32_i8":   dotOracle(8, true),
	"dot8_i32_i4":   dotOracle(4, true),
	"dot2_i32_i16":  dotOracle(16, true),
	"dot4c_i32_i8":  dotOracle(8, true),
	"dot8c_i32_i4":  dotOracle(4, true),
	"dot2c_i32_i16": dotOracle(16, true),
	"dot4_i32_iu8":  dotOracle(8, false), // without neg, both are unsigned
	"dot8_i32_iu4":  dotOracle(4, false),
}

func absoluteDifference(x, y int64) int64 { return abs(x - y) }

func maskedDifference(x, y int64) int64 {
	if y == 0 {
		return 0
	}
	return abs(x - y)
}

func qsadOracle(difference func(x, y int64) int64) func(_ machine, a, b, c uint64) uint64 {
	return func(_ machine, a, b, c uint64) uint64 {
		var r uint64
		for i := range 4 {
			sum := fields(int64(uint32(a>>(8*i))), int64(b), 8, difference)
			r += uint64(uint16(sum)+uint16(c>>(16*i))) << (16 * i)
		}
		return r
	}
}

func chooseOracle(m machine, a, b, _ uint64) uint64 {
	return map[bool]uint64{false: a, true: b}[m.in]
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}
