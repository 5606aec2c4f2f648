package def

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
)

// Real is a real constant with two faces: the number itself, to any precision,
// for truth; and its binary32 rounding, for execution. The difference counts as
// error of the definition.
type Real struct {
	text string
	at   func(prec uint) *big.Float
	f32  float32
}

// NewReal is a constant that at gives to any precision, within one unit in the
// last place. The text is part of every definition that uses it.
func NewReal(text string, at func(prec uint) *big.Float) *Real {
	f, _ := at(200).Float32() // nearest even; no constant in use is within 2⁻²⁰⁰ of a tie
	return &Real{text: text, at: at, f32: f}
}

// RealOf is the real number that a float64 is.
func RealOf(v float64) *Real {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return &Real{text: fmt.Sprint(v), f32: float32(v)}
	}
	text := fmt.Sprint(v)
	if float64(float32(v)) != v { // the decimal 0.1 is another number than the binary64 nearest to it
		text = strconv.FormatFloat(v, 'x', -1, 64)
	}
	return &Real{
		text: text,
		at:   func(prec uint) *big.Float { return new(big.Float).SetPrec(max(prec, 53)).SetFloat64(v) },
		f32:  float32(v),
	}
}

// ParseReal is the real number that a decimal or a fraction (such as "1/3") denotes.
func ParseReal(text string) (*Real, error) {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, fmt.Errorf("constant %q is not a decimal number", text)
	}
	f, _ := r.Float32()
	return &Real{text: text, at: func(prec uint) *big.Float { return new(big.Float).SetPrec(prec).SetRat(r) }, f32: f}, nil
}

// Big is the constant, within one unit in the last place of prec bits. It is nil
// for NaN and the infinities, which are not real.
func (r *Real) Big(prec uint) *big.Float {
	if r.at == nil {
		return nil
	}
	return r.at(prec)
}

// F32 is what is executed.
func (r *Real) F32() float32 { return r.f32 }

// IsExact reports whether execution uses the very number.
func (r *Real) IsExact() bool {
	return r.at == nil || r.at(400).Cmp(new(big.Float).SetFloat64(float64(r.f32))) == 0
}

func (r *Real) String() string { return r.text }
