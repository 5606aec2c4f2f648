package rope

import (
	"fmt"
	"math"
	"math/big"
	"sync"

	"tokitai/device"
	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/tensor"
)

// Frequencies says by which angle each pair of a head turns from one position to the next.
type Frequencies struct {
	Base   float64 // at least 1, usually 10000: pair i of n turns by Base^(-i/n)
	Factor float64 // 0 for 1; above 0: angles are divided by it, as if positions lay that much closer

	// Angles has the angle of every pair, for any other rule; Base is not used then.
	Angles []float64
}

// DefaultFrequencies has the base 10000.
var DefaultFrequencies = Frequencies{Base: 10000}

// Table returns the cosines and sines of positions from 0 on for heads of that many pairs, row
// after row. Each is the real number of its angle, correctly rounded to binary32, so that every
// machine has the same table.
func Table(positions, pairs int, f Frequencies) (cos, sin []float32, err error) {
	if err := f.check(positions, pairs); err != nil {
		return nil, nil, err
	}
	cos, sin = make([]float32, positions*pairs), make([]float32, positions*pairs)
	var all sync.WaitGroup
	for i := range pairs {
		all.Go(func() {
			turn := f.turn(i, pairs)
			for p := range positions {
				at := p*pairs + i
				cos[at], sin[at] = 1, 0
				if p > 0 {
					cos[at] = f.round(turn, i, pairs, p, ball.Ball.Cos, ball.Big.Cos)
					sin[at] = f.round(turn, i, pairs, p, ball.Ball.Sin, ball.Big.Sin)
				}
			}
		})
	}
	all.Wait()
	return cos, sin, nil
}

// Tables returns the tables of Table in the memory of a device.
func Tables(dev device.Device, positions, pairs int, f Frequencies) (cos, sin *tensor.Tensor, err error) {
	c, s, err := Table(positions, pairs, f)
	if err != nil {
		return nil, nil, err
	}
	if cos, err = tensor.FromFloat32(dev, num.F32, c, positions, pairs); err != nil {
		return nil, nil, err
	}
	if sin, err = tensor.FromFloat32(dev, num.F32, s, positions, pairs); err != nil {
		cos.Close()
		return nil, nil, err
	}
	return cos, sin, nil
}

func (f *Frequencies) check(positions, pairs int) error {
	isPositive := func(x float64) bool { return x > 0 && x <= math.MaxFloat64 }
	switch {
	case positions < 1 || pairs < 1 || positions > math.MaxInt32:
		return fmt.Errorf("rope: a table of %d positions and %d pairs, want at least one of each, and at most 2^31-1 positions", positions, pairs)
	case f.Factor != 0 && !isPositive(f.Factor):
		return fmt.Errorf("rope: factor %v, want a positive number", f.Factor)
	case f.Angles == nil && !(isPositive(f.Base) && f.Base >= 1):
		return fmt.Errorf("rope: base %v, want a number of at least 1", f.Base)
	case f.Angles != nil && len(f.Angles) != pairs:
		return fmt.Errorf("rope: %d angles, want one for each of %d pairs", len(f.Angles), pairs)
	}
	for i, a := range f.Angles {
		if a == 0 || math.Abs(a) > math.MaxFloat64 || a != a {
			return fmt.Errorf("rope: angle %d is %v, want a number other than zero", i, a)
		}
	}
	return nil
}

// angle encloses the angle of pair i of n between neighbouring positions.
func (f *Frequencies) angle(i, n int, prec uint) ball.Big {
	zero := ball.NewBig(0, prec)
	var a ball.Big
	if f.Angles != nil {
		a = zero.FromFloat64(f.Angles[i])
	} else {
		a = zero.FromFloat64(f.Base).Log().Mul(zero.FromRat(big.NewRat(int64(-i), int64(n)))).Exp()
	}
	if f.Factor != 0 {
		a = a.Div(zero.FromFloat64(f.Factor))
	}
	return a
}

// turnBits is the number of fractional bits of an angle in turns.
const turnBits = 160

// turn returns the angle of pair i of n as a fraction of a full turn, times 2^turnBits and
// within 1 of it.
func (f *Frequencies) turn(i, n int) *big.Int {
	// 2^1024 turns at the most, of which all but the fraction is dropped.
	prec := uint(turnBits + 64)
	if f.Angles != nil || f.Factor != 0 {
		prec += 1100
	}
	a := f.angle(i, n, prec)
	t := a.Div(a.Pi().Scale2(1)).Mid()
	t.SetMantExp(t, turnBits)
	fraction, _ := t.Int(nil)
	return fraction.And(fraction, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), turnBits), big.NewInt(1)))
}

// round returns the correctly rounded wave of position p. A ball of binary64 nearly always
// decides it; where it holds a number between two binary32, more precise ones do. No wave lies
// exactly between two: those of algebraic numbers other than zero are transcendental.
func (f *Frequencies) round(turn *big.Int, i, n, p int, wave func(ball.Ball) ball.Ball, exact func(ball.Big) ball.Big) float32 {
	// p·turn mod 1 is within p·2^-turnBits of the angle: less than 2^-120 of a turn.
	x := new(big.Int).Mul(turn, big.NewInt(int64(p)))
	x.And(x, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), turnBits), big.NewInt(1)))
	if x.Bit(turnBits-1) == 1 { // the nearer way round
		x.Sub(x, new(big.Int).Lsh(big.NewInt(1), turnBits))
	}
	t, _ := new(big.Float).SetMantExp(new(big.Float).SetInt(x), -turnBits).Float64()
	angle := ball.FromFloat64(t).Widen(0x1p-53, 0x1p-120).Mul(ball.Ball{}.Pi().Scale2(1))
	if v, ok := decided(wave(angle).Endpoints()); ok {
		return v
	}
	for prec := uint(128); ; prec *= 2 {
		a := f.angle(i, n, prec)
		if v, ok := decided(exact(a.Mul(a.FromFloat64(float64(p)))).Endpoints()); ok {
			return v
		}
	}
}

// decided returns the binary32 nearest to all numbers of an interval, if there is one.
func decided(lo, hi float64) (v float32, ok bool) {
	a, b := float32(lo), float32(hi)
	return a, math.Float32bits(a) == math.Float32bits(b)
}

// Halves returns the two halves of each row of x as views, matrices: heads of which column i and column
// i + d/2 are a pair.
func Halves(x *tensor.Tensor) (x1, x2 *tensor.Tensor, err error) {
	d := x.Cols()
	if d%2 != 0 {
		return nil, nil, fmt.Errorf("rope: heads of %d columns, want an even number", d)
	}
	rows, err := x.Reshape(x.Rows(), d)
	if err != nil {
		return nil, nil, err
	}
	if x1, err = rows.Slice(0, x.Rows(), 0, d/2); err != nil {
		return nil, nil, err
	}
	x2, err = rows.Slice(0, x.Rows(), d/2, d)
	return x1, x2, err
}
