package amdemu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"tokitai/device/gpu"
	"tokitai/device/gpu/gputest"
	"tokitai/num"
)

// expression is a computation in C that clang makes instructions of, many of them for some, and
// the same in Go. Operands and result are words of 64 bits.
type expression struct {
	c    string
	inGo func(a, b, c uint64) uint64
}

func f32(x uint64) float32    { return math.Float32frombits(uint32(x)) }
func of32(x float32) uint64   { return uint64(math.Float32bits(x)) }
func f64(x uint64) float64    { return math.Float64frombits(x) }
func of64(x float64) uint64   { return math.Float64bits(x) }
func f16(x uint64) float32    { return num.F16ToF32(uint16(x)) }
func of16(x float32) uint64   { return uint64(num.F32ToF16(x)) }
func truth(b bool) (r uint64) { return map[bool]uint64{true: 1}[b] }

// inside reports whether C defines the conversion to an integer.
func inside(x float64, limit float64) bool { return x > -limit && x < limit }

// division is correctly rounded with any reciprocal that AMD documents, but for a denominator
// whose significand is all ones.
const division = "bits(F(a) / F(b))"

var expressions = []expression{
	// Integers.
	{"(unsigned)b ? (unsigned)a / (unsigned)b : 7", func(a, b, _ uint64) uint64 {
		if uint32(b) == 0 {
			return 7
		}
		return uint64(uint32(a) / uint32(b))
	}},
	{"(unsigned)b ? (unsigned)a % (unsigned)b : 7", func(a, b, _ uint64) uint64 {
		if uint32(b) == 0 {
			return 7
		}
		return uint64(uint32(a) % uint32(b))
	}},
	{"(int)b && (int)b != -1 ? (unsigned)((int)a / (int)b) : 7u", func(a, b, _ uint64) uint64 {
		if int32(b) == 0 || int32(b) == -1 {
			return 7
		}
		return uint64(uint32(int32(a) / int32(b)))
	}},
	{"b ? a / b : 7", func(a, b, _ uint64) uint64 {
		if b == 0 {
			return 7
		}
		return a / b
	}},
	{"b && b != -1ull ? (unsigned long long)((long long)a % (long long)b) : 7", func(a, b, _ uint64) uint64 {
		if b == 0 || int64(b) == -1 {
			return 7
		}
		return uint64(int64(a) % int64(b))
	}},
	{"(unsigned long long)((unsigned __int128)a * b >> 64)", func(a, b, _ uint64) uint64 {
		hi, _ := bits.Mul64(a, b)
		return hi
	}},
	{"(unsigned long long)((__int128)(long long)a * (long long)b >> 64)", func(a, b, _ uint64) uint64 {
		hi, _ := bits.Mul64(a, b)
		return hi - uint64(int64(a)>>63)&b - uint64(int64(b)>>63)&a
	}},
	{"a * b + c", func(a, b, c uint64) uint64 { return a*b + c }},
	{"a + b < a ? 1 : 0", func(a, b, _ uint64) uint64 { return truth(a+b < a) }},
	{"a - b - (c & 1)", func(a, b, c uint64) uint64 { return a - b - c&1 }},
	{"__builtin_popcountll(a) + 64 * __builtin_popcount((unsigned)b)", func(a, b, _ uint64) uint64 {
		return uint64(bits.OnesCount64(a) + 64*bits.OnesCount32(uint32(b)))
	}},
	{"a ? __builtin_clzll(a) : 64", func(a, _, _ uint64) uint64 { return uint64(bits.LeadingZeros64(a)) }},
	{"(unsigned)a ? __builtin_ctz((unsigned)a) : 32", func(a, _, _ uint64) uint64 { return uint64(bits.TrailingZeros32(uint32(a))) }},
	{"__builtin_bitreverse64(a)", func(a, _, _ uint64) uint64 { return bits.Reverse64(a) }},
	{"__builtin_bswap64(a)", func(a, _, _ uint64) uint64 { return bits.ReverseBytes64(a) }},
	{"__builtin_rotateleft32((unsigned)a, (unsigned)b & 31)", func(a, b, _ uint64) uint64 { return uint64(bits.RotateLeft32(uint32(a), int(b&31))) }},
	{"__builtin_rotateleft64(a, b & 63)", func(a, b, _ uint64) uint64 { return bits.RotateLeft64(a, int(b&63)) }},
	{"(unsigned long long)((long long)a >> (b & 63))", func(a, b, _ uint64) uint64 { return uint64(int64(a) >> (b & 63)) }},
	{"a << (b & 63) | a >> (c & 63)", func(a, b, c uint64) uint64 { return a<<(b&63) | a>>(c&63) }},
	{"(unsigned)((int)((unsigned)a << 9) >> 17)", func(a, _, _ uint64) uint64 { return uint64(uint32(int32(uint32(a)<<9) >> 17)) }},
	{"__builtin_elementwise_add_sat((unsigned)a, (unsigned)b)", func(a, b, _ uint64) uint64 { return min(a&math.MaxUint32+b&math.MaxUint32, math.MaxUint32) }},
	{"(unsigned)__builtin_elementwise_sub_sat((int)a, (int)b)", func(a, b, _ uint64) uint64 {
		return uint64(uint32(max(math.MinInt32, min(math.MaxInt32, int64(int32(a))-int64(int32(b))))))
	}},
	{"(unsigned short)__builtin_elementwise_add_sat((short)a, (short)b)", func(a, b, _ uint64) uint64 {
		return uint64(uint16(max(math.MinInt16, min(math.MaxInt16, int64(int16(a))+int64(int16(b))))))
	}},
	{"(unsigned)((int)a < -100 ? -100 : (int)a > (int)(b & 0xffff) ? (int)(b & 0xffff) : (int)a)", func(a, b, _ uint64) uint64 {
		return uint64(uint32(max(-100, min(int32(b&0xffff), int32(a)))))
	}},
	{"(unsigned)((int)(a << 40 >> 40) * 3 + (int)((unsigned)b & 0xffffff) * ((unsigned)c & 0xffffff))", func(a, b, c uint64) uint64 {
		return uint64(uint32(a&0xffffff)*3 + uint32(b&0xffffff)*uint32(c&0xffffff))
	}},
	{"(unsigned char)(a >> 8) + (unsigned short)((unsigned char)b * (unsigned char)c)", func(a, b, c uint64) uint64 {
		return uint64(uint8(a>>8)) + uint64(uint8(b))*uint64(uint8(c))
	}},
	{"(long long)a < (long long)b ? c : (a > b) + 2ull * (a == c)", func(a, b, c uint64) uint64 {
		if int64(a) < int64(b) {
			return c
		}
		return truth(a > b) + 2*truth(a == c)
	}},

	// binary32.
	{"bits(F(a) + F(b))", func(a, b, _ uint64) uint64 { return of32(f32(a) + f32(b)) }},
	{"bits(F(a) - F(b) * F(c))", func(a, b, c uint64) uint64 { return of32(f32(a) - float32(f32(b)*f32(c))) }},
	{"bits(__builtin_sqrtf(F(a)))", func(a, _, _ uint64) uint64 { return of32(num.Sqrt(f32(a))) }},
	{division, func(a, b, _ uint64) uint64 { return of32(f32(a) / f32(b)) }},
	{"bits(__builtin_fmaf(F(a), F(b), F(c)))", func(a, b, c uint64) uint64 { return of32(num.FMA(f32(a), f32(b), f32(c))) }},
	{"bits(__builtin_floorf(F(a)) + __builtin_truncf(F(b)))", func(a, b, _ uint64) uint64 {
		return of32(float32(math.Floor(float64(f32(a)))) + float32(math.Trunc(float64(f32(b)))))
	}},
	{"bits(__builtin_ceilf(F(a)))", func(a, _, _ uint64) uint64 { return of32(float32(math.Ceil(float64(f32(a))))) }},
	{"bits(__builtin_rintf(F(a)))", func(a, _, _ uint64) uint64 { return of32(num.Rint(f32(a))) }},
	{"bits(__builtin_copysignf(F(a), F(b)))", func(a, b, _ uint64) uint64 { return a&math.MaxInt32 | b&(1<<31) }},
	{"bits(__builtin_ldexpf(F(a), (int)(b % 300) - 150))", func(a, b, _ uint64) uint64 {
		return of32(float32(math.Ldexp(float64(f32(a)), int(int32(b%300)-150))))
	}},
	{"(F(a) < F(b)) + 2 * (F(a) >= F(c)) + 4 * (F(b) != F(c)) + 8 * __builtin_isunordered(F(a), F(b))", func(a, b, c uint64) uint64 {
		x, y, z := f32(a), f32(b), f32(c)
		return truth(x < y) + 2*truth(x >= z) + 4*truth(y != z) + 8*truth(x != x || y != y)
	}},
	{"__builtin_isnan(F(a)) + 2 * __builtin_isinf(F(b)) + 4 * __builtin_isnormal(F(c))", func(a, b, c uint64) uint64 {
		exponent := c >> 23 & 0xff
		return truth(f32(a) != f32(a)) + 2*truth(b&math.MaxInt32 == 0xff<<23) + 4*truth(exponent != 0 && exponent != 0xff)
	}},
	{"bits((float)(int)a) ^ bits((float)(unsigned)b)", func(a, b, _ uint64) uint64 { return of32(float32(int32(a))) ^ of32(float32(uint32(b))) }},
	{"bits((float)a) ^ bits((float)(long long)b)", func(a, b, _ uint64) uint64 { return of32(float32(a)) ^ of32(float32(int64(b))) }},
	{"inside(F(a), 0x1p31f) ? (unsigned)(int)F(a) : 7u", func(a, _, _ uint64) uint64 {
		if !inside(float64(f32(a)), 0x1p31) {
			return 7
		}
		return uint64(uint32(int32(f32(a))))
	}},
	{"inside(F(a), 0x1p63f) ? (unsigned long long)(long long)F(a) : 7", func(a, _, _ uint64) uint64 {
		if !inside(float64(f32(a)), 0x1p63) {
			return 7
		}
		return uint64(int64(f32(a)))
	}},

	// binary64.
	{"bits(D(a) + D(b) * D(c))", func(a, b, c uint64) uint64 { return of64(f64(a) + float64(f64(b)*f64(c))) }},
	{"bits(__builtin_sqrt(D(a)))", func(a, _, _ uint64) uint64 { return of64(math.Sqrt(f64(a))) }},
	{"bits(D(a) / D(b))", func(a, b, _ uint64) uint64 { return of64(f64(a) / f64(b)) }},
	{"bits(__builtin_fma(D(a), D(b), D(c)))", func(a, b, c uint64) uint64 { return of64(math.FMA(f64(a), f64(b), f64(c))) }},
	{"bits(__builtin_floor(D(a)) - __builtin_rint(D(b)))", func(a, b, _ uint64) uint64 { return of64(math.Floor(f64(a)) - math.RoundToEven(f64(b))) }},
	{"bits(__builtin_ldexp(D(a), (int)(b % 2300) - 1150))", func(a, b, _ uint64) uint64 { return of64(math.Ldexp(f64(a), int(b%2300)-1150)) }},
	{"bits((float)D(a))", func(a, _, _ uint64) uint64 { return of32(float32(f64(a))) }},
	{"bits((double)F(a))", func(a, _, _ uint64) uint64 { return of64(float64(f32(a))) }},
	{"bits((double)a) ^ bits((double)(int)b)", func(a, b, _ uint64) uint64 { return of64(float64(a)) ^ of64(float64(int32(b))) }},
	{"inside(D(a), 0x1p63) ? (unsigned long long)(long long)D(a) : 7", func(a, _, _ uint64) uint64 {
		if !inside(f64(a), 0x1p63) {
			return 7
		}
		return uint64(int64(f64(a)))
	}},
	{"(D(a) < D(b)) + 2 * (D(a) == D(a)) + 4 * (D(b) > D(c))", func(a, b, c uint64) uint64 {
		return truth(f64(a) < f64(b)) + 2*truth(f64(a) == f64(a)) + 4*truth(f64(b) > f64(c))
	}},

	// binary16, one and two at a time.
	{"bits((_Float16)(H(a) + H(b)))", func(a, b, _ uint64) uint64 { return of16(f16(a) + f16(b)) }},
	{"bits((_Float16)(H(a) * H(b)))", func(a, b, _ uint64) uint64 { return of16(f16(a) * f16(b)) }},
	{"bits((_Float16)(H(a) / H(b)))", func(a, b, _ uint64) uint64 { return of16(f16(a) / f16(b)) }},
	{"bits((_Float16)F(a))", func(a, _, _ uint64) uint64 { return of16(f32(a)) }},
	{"bits((_Float16)D(a))", func(a, _, _ uint64) uint64 { return uint64(num.F64ToF16(f64(a))) }},
	{"bits((float)H(a) - (float)H(b))", func(a, b, _ uint64) uint64 { return of32(f16(a) - f16(b)) }},
	{"(H(a) < H(b)) + 2 * (H(a) != H(c))", func(a, b, c uint64) uint64 { return truth(f16(a) < f16(b)) + 2*truth(f16(a) != f16(c)) }},
	{"bits(H2(a) + H2(b))", func(a, b, _ uint64) uint64 { return of16(f16(a)+f16(b)) | of16(f16(a>>16)+f16(b>>16))<<16 }},
	{"bits(H2(a) * -H2(b).yx)", func(a, b, _ uint64) uint64 { return of16(f16(a)*-f16(b>>16)) | of16(f16(a>>16)*-f16(b))<<16 }},
	{"bits(S2(a) * S2(b) + S2(c))", func(a, b, c uint64) uint64 {
		return uint64(uint16(a)*uint16(b)+uint16(c)) | uint64(uint16(a>>16)*uint16(b>>16)+uint16(c>>16))<<16
	}},
	{"bits(S2(a) >> (S2(b) & (unsigned short)15))", func(a, b, _ uint64) uint64 {
		return uint64(uint16(a)>>(b&15)) | uint64(uint16(a>>16)>>(b>>16&15))<<16
	}},
}

// arithmeticSource returns a kernel that computes the expression that a parameter selects.
func arithmeticSource() string {
	text := `struct Params { unsigned long long *y, *x; unsigned long long n; unsigned mode; float a; };
typedef _Float16 half2 __attribute__((ext_vector_type(2)));
typedef unsigned short short2 __attribute__((ext_vector_type(2)));
#define F(x) __builtin_bit_cast(float, (unsigned)(x))
#define D(x) __builtin_bit_cast(double, x)
#define H(x) __builtin_bit_cast(_Float16, (unsigned short)(x))
#define H2(x) __builtin_bit_cast(half2, (unsigned)(x))
#define S2(x) __builtin_bit_cast(short2, (unsigned)(x))
#define inside(x, limit) ((x) > -(limit) && (x) < (limit))
static __device__ unsigned long long bits(float x) { return __builtin_bit_cast(unsigned, x); }
static __device__ unsigned long long bits(double x) { return __builtin_bit_cast(unsigned long long, x); }
static __device__ unsigned long long bits(_Float16 x) { return __builtin_bit_cast(unsigned short, x); }
static __device__ unsigned long long bits(half2 x) { return __builtin_bit_cast(unsigned, x); }
static __device__ unsigned long long bits(short2 x) { return __builtin_bit_cast(unsigned, x); }
#pragma clang fp contract(off)
extern "C" __global__ void arithmetic(const Params p) {
    unsigned i = BX * 64 + X;
    if (i >= p.n) return;
    unsigned long long a = p.x[3 * i], b = p.x[3 * i + 1], c = p.x[3 * i + 2], r = 0;
    switch (p.mode) {
`
	for i, e := range expressions {
		text += fmt.Sprintf("    case %d: r = %s; break;\n", i, e.c)
	}
	return text + "    }\n    p.y[i] = r;\n}\n"
}

// TestArithmetic computes in C, compiled for the GPU and emulated, and in Go.
func TestArithmetic(t *testing.T) {
	interesting := []uint64{0, 1, 2, 3, 10, 0x7f, 0x80, 0x3c00, 0x7bff, 0x7c00, 0x8001, 0x7fffffff, 0x80000000, 0xffffffff, 0x3f800000, 0x3f7fffff,
		0x00800000, 0x00000001, 0x807fffff, 0x7f7fffff, 0x7f800000, 0xff800000, 0x4effffff, 0xcf000000, 0x100000000, 1 << 63, 1<<63 - 1, math.MaxUint64,
		0x3ff0000000000000, 0x7fefffffffffffff, 0x0010000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x000fffffffffffff, 0x40e1234580000000}
	r := rand.New(rand.NewPCG(21, 22))
	const n = 1000
	var x []uint32
	operands := make([][3]uint64, n)
	for i := range operands {
		for k := range operands[i] {
			v := r.Uint64()
			switch r.IntN(6) {
			case 0, 1:
				v = interesting[r.IntN(len(interesting))]
			case 2:
				v = of64((r.Float64() - 0.5) * 1000)
			case 3:
				v = of32((r.Float32()-0.5)*1000) | v<<32
			case 4:
				v = of16((r.Float32()-0.5)*100) | of16((r.Float32()-0.5)*0.001)<<16
			}
			operands[i][k] = v
			x = append(x, uint32(v), uint32(v>>32))
		}
	}
	for _, test := range []struct{ architecture, seed string }{{"gfx1100", "0"}, {"gfx1100", "1"}, {"gfx942", "0"}, {"gfx942", "2"}} {
		t.Run(test.architecture+" seed "+test.seed, func(t *testing.T) {
			t.Setenv("TOKITAI_AMDEMU_SEED", test.seed)
			r := &rig{t: t, Device: gputest.NeedsAMDEmulator(t, test.architecture)}
			var err error
			if r.queue, err = r.NewQueueWith(gpu.QueueOptions{}); err != nil {
				t.Fatal(err)
			}
			if r.module, err = r.Load(source(arithmeticSource()), "arithmetic"); err != nil {
				t.Fatal(err)
			}
			in, out := r.buffer(x...), r.buffer(make([]uint32, 2*n)...)
			for mode, e := range expressions {
				if err := r.launch("arithmetic", [3]uint32{(n + 63) / 64, 1, 1}, [3]uint32{64, 1, 1}, 0, params{y: out, x: in, n: n, mode: uint32(mode)}.bytes()); err != nil {
					t.Fatal(err)
				}
				data := make([]byte, out.Bytes())
				if err := out.CopyOut(0, data); err != nil {
					t.Fatal(err)
				}
				for i, v := range operands {
					if e.c == division && test.seed != "0" && v[1]&0x7fffff == 0x7fffff {
						continue
					}
					got, want := binary.LittleEndian.Uint64(data[8*i:]), e.inGo(v[0], v[1], v[2])
					if got != want && !bothNaN(e.c, got, want) {
						t.Errorf("%s of %#x: got %#x, want %#x", e.c, v, got, want)
						break
					}
				}
			}
		})
	}
}

// bothNaN reports whether two results are NaNs of the expression's format: Go's NaNs are not
// those of AMD. Of packed numbers, each half is looked at.
func bothNaN(c string, x, y uint64) bool {
	isNaN16 := func(v uint64) bool { return v&0x7fff > 0x7c00 }
	switch {
	case !strings.HasPrefix(c, "bits("):
		return false
	case strings.Contains(c, "H2("):
		for _, shift := range []uint{0, 16} {
			p, q := x>>shift&0xffff, y>>shift&0xffff
			if p != q && !(isNaN16(p) && isNaN16(q)) {
				return false
			}
		}
		return true
	case strings.HasPrefix(c, "bits((_Float16)"):
		return isNaN16(x) && isNaN16(y)
	case strings.Contains(c, "S2("):
		return false
	case x>>32 == 0 && y>>32 == 0:
		return f32(x) != f32(x) && f32(y) != f32(y)
	}
	return f64(x) != f64(x) && f64(y) != f64(y)
}
