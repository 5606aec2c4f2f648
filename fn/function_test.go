package fn

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"

	"tokitai/def"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/num/ball"
)

// subject is what the tests know of a function.
type subject struct {
	f *def.Function

	// isInDomain is f.Domain, for finite arguments.
	isInDomain func(x float32) bool

	// truth encloses the mathematics at an argument in the domain.
	truth func(x ball.Ball) ball.Ball

	// values are arguments with results that are stated exactly.
	values []value

	// isNaN is where f.Outside states NaN. A NaN gives NaN everywhere.
	isNaN func(x float32) bool
}

type value struct{ x, y float32 }

var (
	inf      = float32(math.Inf(1))
	negInf   = float32(math.Inf(-1))
	nan      = float32(math.NaN())
	negZero  = float32(math.Copysign(0, -1))
	smallest = float32(math.SmallestNonzeroFloat32)
)

func always(float32) bool { return true }
func never(float32) bool  { return false }

// trueExp is unknown above 709, where every result counts as infinite anyway.
func trueExp(x ball.Ball) ball.Ball {
	x.Mid = min(x.Mid, 700)
	return x.Exp()
}

// trueExp2 likewise above 1023.
func trueExp2(x ball.Ball) ball.Ball {
	x.Mid = min(x.Mid, 1000)
	return x.Exp2()
}

func isPlusInfinity(x float32) bool { return x == inf }

// exp2ShortValues hold for every degree: powers of two are exact, and what is below 2^-126.5 is
// lost.
var exp2ShortValues = []value{
	{0, 1}, {negZero, 1}, {smallest, 1}, {-smallest, 1}, {-1, 0.5}, {-125, 0x1p-125}, {-126, 0x1p-126}, {127, 0x1p127},
	{-126.5, 0}, {-126.75, 0}, {-127, 0}, {-127.5, 0}, {-149, 0}, {-1e30, 0}, {-math.MaxFloat32, 0}, {negInf, 0}, {inf, nan}, {nan, nan},
}

var subjects = []subject{
	{
		f: ExpFunction, isInDomain: always, truth: trueExp, isNaN: never,
		values: []value{
			{0, 1}, {negZero, 1}, {smallest, 1}, {-smallest, 1},
			{negInf, 0}, {inf, inf}, {nan, nan},
			{-103.97208, smallest}, // e^x = 2^-150·(1 + 2^-20)
			{-103.97209, 0},        // a little below the half of 2^-149
			{-104, 0}, {-1e30, 0}, {-math.MaxFloat32, 0},
			{88.72283, 0x1.ffff08p127}, {88.72284, inf}, {89, inf}, {1e30, inf}, {math.MaxFloat32, inf},
		},
	},
	{
		f: ExpNonPositiveFunction, truth: trueExp,
		isInDomain: func(x float32) bool { return x <= 44 },
		isNaN:      func(x float32) bool { return x == inf },
		values: []value{
			{0, 1}, {negZero, 1}, {-smallest, 1}, {negInf, 0}, {nan, nan},
			{-103.97208, smallest}, {-103.97209, 0}, {-104, 0}, {-1e30, 0}, {-math.MaxFloat32, 0},
		},
	},
	{
		f: ExpBoundedFunction, truth: trueExp,
		isInDomain: func(x float32) bool { return -128 <= x && x <= 44 },
		isNaN:      func(x float32) bool { return x == inf || x == negInf },
		values: []value{
			{0, 1}, {negZero, 1}, {-smallest, 1}, {nan, nan}, {inf, nan}, {negInf, nan},
			{-103.97208, smallest}, {-103.97209, 0}, {-104, 0}, {-128, 0},
		},
	},
	{
		f: Exp2Function, isInDomain: always, truth: trueExp2, isNaN: never,
		values: []value{
			{0, 1}, {negZero, 1}, {smallest, 1}, {-smallest, 1}, {1, 2}, {-1, 0.5}, {10, 1024}, {127, 0x1p127}, {-126, 0x1p-126},
			{0.5, 0x1.6a09e6p0}, {-0.5, 0x1.6a09e6p-1}, // √2
			{-127, 0x1p-127}, {-148, 0x1p-148}, {-149, smallest}, {-149.99998, smallest}, {-150, 0}, {-151, 0}, {-151.5, 0}, {-1e30, 0}, {-math.MaxFloat32, 0},
			{127.99999, 0x1.ffff4ep127}, {128, inf}, {128.5, inf}, {1e30, inf}, {math.MaxFloat32, inf},
			{negInf, 0}, {inf, inf}, {nan, nan},
		},
	},
	{
		f: Exp2Short3Function, truth: trueExp2, isInDomain: func(x float32) bool { return x <= 127 }, isNaN: isPlusInfinity,
		values: append([]value{{-126.49999, 0x5a8040p-149}, {-0.5, 0x1.6a0084p-1}}, exp2ShortValues...),
	},
	{
		f: Exp2Short4Function, truth: trueExp2, isInDomain: func(x float32) bool { return x <= 127 }, isNaN: isPlusInfinity,
		values: append([]value{{-126.49999, 0x5a82aap-149}, {-0.5, 0x1.6a09a4p-1}}, exp2ShortValues...),
	},
	{
		f: LogFunction, truth: ball.Ball.Log,
		isInDomain: func(x float32) bool { return x > 0 },
		isNaN:      func(x float32) bool { return x < 0 },
		values: []value{
			{1, 0}, {0, negInf}, {negZero, negInf}, {inf, inf},
			{-1, nan}, {negInf, nan}, {-smallest, nan}, {nan, nan},
			{2, 0x1.62e43p-1}, {0.5, -0x1.62e43p-1}, // ln 2
			{smallest, -0x1.9d1dap6},       // -149 ln 2 = -103.27893
			{0x1p-126, -0x1.5d58ap6},       // -126 ln 2 = -87.336545
			{math.MaxFloat32, 0x1.62e43p6}, // 128 ln 2 - 2^-24 = 88.722839
		},
	},
	{
		f: Log2Function, truth: ball.Ball.Log2,
		isInDomain: func(x float32) bool { return x > 0 },
		isNaN:      func(x float32) bool { return x < 0 },
		values: []value{
			{1, 0}, {2, 1}, {0.5, -1}, {0x1p-126, -126}, {0x1p-127, -127}, {0x1p-148, -148}, {smallest, -149}, {0x1p127, 127}, {math.MaxFloat32, 128},
			{3, 0x1.95c01ap0}, {1.25, 0x1.49a784p-2}, {0x1.fffffep-1, -0x1.715478p-24}, {0x1.000002p0, 0x1.715474p-23},
			{0, negInf}, {negZero, negInf}, {inf, inf}, {-1, nan}, {negInf, nan}, {-smallest, nan}, {nan, nan},
		},
	},
	{
		f: Log1pFunction, truth: ball.Ball.Log1p,
		isInDomain: func(x float32) bool { return x > -1 },
		isNaN:      func(x float32) bool { return x < -1 },
		values: []value{
			{0, 0}, {negZero, negZero}, {smallest, smallest}, {-smallest, -smallest}, {0x1p-126, 0x1p-126}, {-0x1p-30, -0x1p-30},
			{1, 0x1.62e43p-1}, {-0.5, -0x1.62e43p-1}, {0.5, 0x1.9f323ep-2}, // ln 2, ln 1.5
			{-0x1.fffffep-1, -0x1.0a2b24p4}, // -24 ln 2
			{0x1p24, 0x1.0a2b24p4}, {0x1p64, 0x1.62e43p5}, {0x1.fffffep63, 0x1.62e43p5}, {0x1p32, 0x1.62e43p4},
			{0x1p127, 0x1.601e68p6}, {math.MaxFloat32, 0x1.62e43p6},
			{-1, negInf}, {-1.0000001, nan}, {-2, nan}, {negInf, nan}, {inf, inf}, {nan, nan},
		},
	},
	{
		f: RecipFunction, isInDomain: func(x float32) bool { return x != 0 }, truth: ball.Ball.Recip, isNaN: never,
		values: []value{
			{1, 1}, {-1, -1}, {2, 0.5}, {4, 0.25}, {0.5, 2}, {3, 0x1.555556p-2}, {-3, -0x1.555556p-2},
			{0, inf}, {negZero, negInf}, {inf, 0}, {negInf, negZero}, {nan, nan},
			{smallest, inf}, {-smallest, negInf}, {0x1p-128, inf}, {0x1.00001p-128, 0x1.ffffep127},
			{0x1p127, 0x1p-127}, {-0x1p126, -0x1p-126}, {math.MaxFloat32, 0x1p-128},
		},
	},
	{
		f: RecipBoundedFunction, truth: ball.Ball.Recip, isNaN: never,
		isInDomain: func(x float32) bool { return 0x1p-125 <= max(x, -x) && max(x, -x) <= 0x1p125 },
		values: []value{
			{1, 1}, {-1, -1}, {2, 0.5}, {4, 0.25}, {0.5, 2}, {3, 0x1.555556p-2}, {-3, -0x1.555556p-2},
			{0x1p125, 0x1p-125}, {0x1p-125, 0x1p125}, {nan, nan},
		},
	},
	{
		f: RsqrtFunction, truth: ball.Ball.Rsqrt,
		isInDomain: func(x float32) bool { return x > 0 },
		isNaN:      func(x float32) bool { return x < 0 },
		values: []value{
			{1, 1}, {4, 0.5}, {0.25, 2}, {0x1p-126, 0x1p63}, {0x1p-148, 0x1p74},
			{0, inf}, {negZero, negInf}, {inf, 0}, {-1, nan}, {negInf, nan}, {nan, nan},
		},
	},
	{
		f: SigmoidFunction, isInDomain: always, truth: ball.Ball.Sigmoid, isNaN: never,
		values: []value{
			{0, 0.5}, {negZero, 0.5}, {inf, 1}, {negInf, 0}, {nan, nan},
			{100, 1}, {1e30, 1}, {-1e30, 0}, {-104, 0}, {-103.97208, smallest},
		},
	},
	{
		f: TanhFunction, isInDomain: always, truth: ball.Ball.Tanh, isNaN: never,
		values: []value{
			{0, 0}, {negZero, negZero}, {inf, 1}, {negInf, -1}, {nan, nan},
			{smallest, smallest}, {-smallest, -smallest}, {0x1p-126, 0x1p-126}, {0x1p-20, 0x1p-20},
			{9.25, 1}, {-9.25, -1}, {1e30, 1}, {-1e30, -1},
		},
	},
	{
		f: SinFunction, truth: ball.Ball.Sin, isInDomain: isAngle, isNaN: isNoAngle,
		values: []value{
			{0, 0}, {negZero, negZero}, {smallest, smallest}, {-smallest, -smallest}, {0x1p-126, 0x1p-126}, {-0x1p-20, -0x1p-20},
			{1, 0x1.aed548p-1}, {0.5, 0x1.eaee88p-2}, {-0.5, -0x1.eaee88p-2}, {0x1.921fb6p0, 1}, {-0x1.921fb6p0, -1},
			// Next to 322, 6 and 66866 quarter turns.
			{0x1.f9cbe2p8, -0x1.1fa3bcp-27}, {0x1.2d97c8p3, -0x1.99bc5cp-26}, {0x1.9a48dep16, -0x1.16ae2ap-25},
			{inf, nan}, {negInf, nan}, {nan, nan}, {131072.02, nan}, {-131072.02, nan}, {math.MaxFloat32, nan},
		},
	},
	{
		f: CosFunction, truth: ball.Ball.Cos, isInDomain: isAngle, isNaN: isNoAngle,
		values: []value{
			{0, 1}, {negZero, 1}, {smallest, 1}, {-smallest, 1}, {0x1p-20, 1}, {0x1.921fb6p1, -1},
			// Next to 161, the closest of all, 3, 33433 and 1 quarter turns.
			{0x1.f9cbe2p7, -0x1.1fa3bcp-28}, {0x1.2d97c8p2, 0x1.99bc5cp-27}, {-0x1.9a48dep15, -0x1.16ae2ap-26}, {0x1.921fb6p0, -0x1.777a5cp-25},
			{inf, nan}, {negInf, nan}, {nan, nan}, {131072.02, nan}, {-131072.02, nan}, {math.MaxFloat32, nan},
		},
	},
	{
		f: ErfFunction, isInDomain: always, truth: ball.Ball.Erf, isNaN: never,
		values: []value{
			{0, 0}, {negZero, negZero}, {smallest, smallest}, {-smallest, -smallest}, {inf, 1}, {negInf, -1}, {nan, nan},
			{4, 1}, {-4, -1}, {4.5, 1}, {1e30, 1}, {-math.MaxFloat32, -1},
		},
	},
	{
		f: ErfcxBoundedFunction, truth: ball.Ball.Erfcx, isNaN: never,
		isInDomain: func(x float32) bool { return 0 <= x && x <= erfcxLimit },
		values:     []value{{0, 1}, {negZero, 1}, {smallest, 1}, {0x1p-126, 1}, {nan, nan}},
	},
}

func isAngle(x float32) bool   { return -waveLimit <= x && x <= waveLimit }
func isNoAngle(x float32) bool { return !isAngle(x) }

// TestSubjectsComplete fails for a function that is not tested.
func TestSubjectsComplete(t *testing.T) {
	if len(subjects) != len(All) {
		t.Fatalf("%d functions are tested, there are %d", len(subjects), len(All))
	}
	for i, f := range All {
		if subjects[i].f != f {
			t.Errorf("%s is not tested in its place", f.Name)
		}
	}
}

// TestValues checks the results that are stated exactly.
func TestValues(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.f.Name, func(t *testing.T) {
			p := newProgram(s.f)
			for _, v := range s.values {
				p.argument()[0] = math.Float32bits(v.x)
				got := canonical(p.run()[0])
				if want := canonical(math.Float32bits(v.y)); got != want {
					t.Errorf("%s(%v = %#08x)\n  got   %#08x (%v)\n  want  %#08x (%v)", s.f.Name,
						v.x, math.Float32bits(v.x), got, math.Float32frombits(got), want, v.y)
				}
			}
		})
	}
}

// TestNaNPatterns: which NaN a machine's operations give changes nothing.
func TestNaNPatterns(t *testing.T) {
	for _, s := range subjects {
		for _, pattern := range []uint32{0x7fc00000, 0x7fffffff, 0xffc00000, 0xffffffff, 0x7f800001, 0xff8005e5} {
			p := newProgram(s.f)
			p.nan = pattern
			if found := s.check(p); found != "" {
				t.Errorf("where NaN is %#08x: %s", pattern, found)
			}
		}
	}
}

func canonical(bits uint32) uint32 { return num.Canonical(num.F32, bits) }

// TestSample holds each function to its promise on every 16381st pattern: 500 in each
// binade; at level quick on 4,000. TestExhaustive takes all.
func TestSample(t *testing.T) {
	stride := testlevel.Pick(16381, 2039)
	for _, s := range subjects {
		t.Run(s.f.Name, func(t *testing.T) {
			t.Parallel()
			r := s.measure(newProgram(s.f), 0, uint32(stride), 1<<32/stride)
			s.assert(t, r)
		})
	}
}

// TestExhaustive holds each function to its promise on all 2³² patterns.
func TestExhaustive(t *testing.T) {
	testlevel.Need(t, testlevel.Exhaustive, "all 2^32 arguments take minutes per function")
	for _, s := range subjects {
		t.Run(s.f.Name, func(t *testing.T) {
			const parts = 256
			const size = 1 << 32 / parts
			starts := make(chan uint32, parts)
			for i := range uint32(parts) {
				starts <- i * size
			}
			close(starts)
			var (
				group sync.WaitGroup
				lock  sync.Mutex
				total record
			)
			for range runtime.GOMAXPROCS(0) {
				group.Go(func() {
					p := newProgram(s.f)
					for start := range starts {
						r := s.measure(p, start, 1, size)
						lock.Lock()
						total.merge(r)
						lock.Unlock()
					}
				})
			}
			group.Wait()
			s.assert(t, total)
		})
	}
}

func (s *subject) assert(t *testing.T, r record) {
	t.Helper()
	t.Logf("%s: %v", s.f.Name, r)
	if r.wrong != "" {
		t.Error(r.wrong)
	}
	if !(r.worst <= s.f.ULPs) {
		t.Errorf("%s(%v): error up to %.6f ulp, want at most %v", s.f.Name, r.worstAt, r.worst, s.f.ULPs)
	}
}

// record is what a run over many arguments found.
type record struct {
	arguments  int     // in the domain and finite
	worst      float64 // an upper bound of the error, in ulp
	worstAt    float32
	misrounded int // results that are not the value of binary32 nearest the truth
	backward   int // neighbours whose results are in the wrong order
	wrong      string
}

func (r *record) merge(o record) {
	r.arguments += o.arguments
	r.misrounded += o.misrounded
	r.backward += o.backward
	if !(o.worst <= r.worst) {
		r.worst, r.worstAt = o.worst, o.worstAt
	}
	if r.wrong == "" {
		r.wrong = o.wrong
	}
}

func (r record) String() string {
	return fmt.Sprintf("%d arguments, worst %.6f ulp at %v (%#08x), %.4f %% misrounded, %d neighbours out of order",
		r.arguments, r.worst, r.worstAt, math.Float32bits(r.worstAt), 100*float64(r.misrounded)/float64(max(r.arguments, 1)), r.backward)
}

// measure evaluates count patterns from start on, stride apart.
func (s *subject) measure(p *program, start, stride uint32, count int) record {
	var r record
	var before struct {
		y     float32
		truth float64
	}
	for done := 0; done < count; done += blockSize {
		n := min(blockSize, count-done)
		x := p.argument()
		isJudged := false
		for i := range x {
			x[i] = start + uint32(done+i)*stride
			v := math.Float32frombits(x[i])
			isJudged = isJudged || v != v || s.isNaN(v) || s.isInDomain(v)
		}
		if !isJudged {
			continue
		}
		y := p.run()
		for i := range n {
			xi, yi := math.Float32frombits(x[i]), math.Float32frombits(y[i])
			if xi != xi || s.isNaN(xi) {
				if yi == yi && r.wrong == "" {
					r.wrong = fmt.Sprintf("%s(%v = %#08x): got %v, want NaN", s.f.Name, xi, x[i], yi)
				}
				continue
			}
			if xi-xi != 0 || !s.isInDomain(xi) {
				continue
			}
			truth := s.truth(ball.FromFloat64(float64(xi)))
			r.arguments++
			if e := ulps(yi, truth, s.f.Absolute); !(e <= r.worst) {
				r.worst, r.worstAt = e, xi
			}
			if yi != float32(truth.Mid) {
				r.misrounded++
			}
			if i > 0 && (yi-before.y)*float32(sign(truth.Mid-before.truth)) < 0 {
				r.backward++
			}
			before.y, before.truth = yi, truth.Mid
		}
	}
	return r
}

func sign(x float64) float64 { return math.Copysign(1, x) }

// ulps is an upper bound of |y − t|/ulp(t) for every t in the ball, where ulp is the
// distance of neighbours in the binade of t, less what the function may be off beside ulps. An
// infinite y counts as 2¹²⁸, and what
// lies beyond that is right. A ball without information is never within any bound.
func ulps(y float32, truth ball.Ball, absolute float64) float64 {
	const beyond = 0x1p128
	v := float64(y)
	if y-y != 0 && y == y {
		v = math.Copysign(beyond, v)
		if lo, hi := truth.Bounds(); lo >= beyond || hi <= -beyond {
			return 0
		}
	}
	// (1+2⁻⁵⁰) covers the roundings here; the ball's point nearest zero has the
	// smallest ulp.
	closest := max(math.Abs(truth.Mid)-truth.Rad, 0)
	return max((math.Abs(v-truth.Mid)+truth.Rad)*(1+0x1p-50)-absolute, 0) / ulpOf(closest)
}

// ulpOf is num.ULP for 0 ≤ t, a little faster.
func ulpOf(t float64) float64 {
	exponent := min(max(int(math.Float64bits(t)>>52), 1023-126), 1023+127)
	return math.Float64frombits(uint64(exponent-23) << 52)
}

// TestUlpOf compares with num.ULP.
func TestUlpOf(t *testing.T) {
	for e := -1074; e < 1024; e++ {
		for _, x := range []float64{math.Ldexp(1, e), math.Ldexp(1.75, e), math.Nextafter(math.Ldexp(1, e), 0)} {
			if got, want := ulpOf(x), num.ULP(num.F32, x); got != want {
				t.Fatalf("ulp of %g: got %g, want %g", x, got, want)
			}
		}
	}
	if got := ulpOf(0); got != 0x1p-149 {
		t.Fatalf("ulp of 0: got %g, want 2^-149", got)
	}
}
