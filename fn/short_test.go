package fn

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/internal/testlevel"
)

// TestExp2Short holds the short functions to what attention needs of them: the relative error,
// which the promise in ulps states up to a factor of 2, a result of at most 1 up to zero, and +0
// from -126.5 down. At level exhaustive it takes every argument.
func TestExp2Short(t *testing.T) {
	stride := uint32(testlevel.Pick(4099, 257, 31, 1))
	for _, s := range []struct {
		f        *def.Function
		relative float64
	}{{Exp2Short3Function, math.Exp2(-13.26)}, {Exp2Short4Function, math.Exp2(-18.4)}} {
		t.Run(s.f.Name, func(t *testing.T) {
			t.Parallel()
			p := newProgram(s.f)
			worst, worstAt := 0.0, float32(0)
			for first := uint64(1 << 31); first <= uint64(math.Float32bits(negInf)); first += uint64(stride) * blockSize {
				x := p.argument()
				for i := range x {
					x[i] = uint32(min(first+uint64(i)*uint64(stride), uint64(math.Float32bits(negInf))))
				}
				for i, bits := range p.run() {
					v, y := math.Float32frombits(x[i]), math.Float32frombits(bits)
					switch {
					case v <= -126.5 && bits != 0:
						t.Fatalf("%s(%v) is %v, want +0", s.f.Name, v, y)
					case y > 1:
						t.Fatalf("%s(%v) is %v, want at most 1", s.f.Name, v, y)
					case v > -126:
						want := math.Exp2(float64(v)) // within 2^-52
						if e := math.Abs(float64(y)-want)/want + 0x1p-51; e > worst {
							worst, worstAt = e, v
						}
					}
				}
			}
			t.Logf("relative error 2^%.3f, at %v", math.Log2(worst), worstAt)
			if worst > s.relative {
				t.Errorf("%s(%v) has a relative error of 2^%.3f, want at most 2^%.3f", s.f.Name, worstAt, math.Log2(worst), math.Log2(s.relative))
			}
		})
	}
}

// TestShortcuts holds shortcuts to the bits of their functions, wherever they say that they have them, and to saying so from -63 to 0.
// At level exhaustive it takes every argument.
func TestShortcuts(t *testing.T) {
	stride := uint64(testlevel.Pick(4099, 257, 31, 1))
	for _, f := range []*def.Function{Exp2Short3Function, Exp2Short4Function} {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			whole, sum, near := newProgram(f), newProgram(f.Near.Sum), newProgram(f.Near.Of)
			for first := uint64(0); first < 1<<32; first += stride * blockSize {
				args := whole.argument()
				for i := range args {
					args[i] = uint32(min(first+uint64(i)*stride, 1<<32-1))
				}
				copy(sum.argument(), args)
				copy(near.argument(), args)
				want, got := whole.run(), near.run()
				for i, bits := range sum.run() {
					x := math.Float32frombits(args[i])
					has := math.Float32frombits(bits) >= f.Near.Least
					switch {
					case !(x <= 0): // the caller knows
					case !has && x >= -63:
						t.Fatalf("the shortcut of %s(%v) is not taken", f.Name, x)
					case has && got[i] != want[i]:
						t.Fatalf("the shortcut of %s(%v) gives %#x, want %#x", f.Name, x, got[i], want[i])
					}
				}
			}
		})
	}
}
