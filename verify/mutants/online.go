package mutants

import "math"

// Exponentials is a sum of exponentials with the maximum that it is relative to, built up
// online: a new maximum rescales the sum.
type Exponentials struct {
	Max, Sum float32
	p        Parts
}

func NewExponentials(p Parts) Exponentials {
	return Exponentials{Max: float32(math.Inf(-1)), p: p}
}

// Take adds an element. Elements of -Inf count for nothing, and +Inf or NaN makes the sum NaN.
func (e *Exponentials) Take(x float32) {
	switch {
	case x > e.Max:
		e.Sum = float32(e.Sum*e.p.Exp(e.Max-x)) + e.p.Exp(x-x)
		e.Max = x
	case math.IsInf(float64(x), -1):
	default:
		e.Sum += e.p.Exp(x - e.Max)
	}
}

// TakeBlock adds a block of elements, with one rescaling.
func (e *Exponentials) TakeBlock(x []float32) {
	m := max(e.Max, Maximum(x))
	if math.IsInf(float64(m), -1) {
		return
	}
	terms := make([]float32, len(x))
	for i, v := range x {
		terms[i] = e.p.Exp(v - m)
	}
	e.Sum = float32(e.Sum*e.p.Exp(e.Max-m)) + e.p.Sum(terms)
	e.Max = m
}

// Join adds another sum.
func (e *Exponentials) Join(o Exponentials) {
	m := max(e.Max, o.Max)
	if math.IsInf(float64(m), -1) {
		return
	}
	e.Sum = float32(e.Sum*e.p.Exp(e.Max-m)) + float32(o.Sum*e.p.Exp(o.Max-m))
	e.Max = m
}

// OneByOne, InBlocks and InParts are ways to add up a row.

func OneByOne(p Parts, x []float32) Exponentials {
	e := NewExponentials(p)
	for _, v := range x {
		e.Take(v)
	}
	return e
}

func InBlocks(width int) func(p Parts, x []float32) Exponentials {
	return func(p Parts, x []float32) Exponentials {
		e := NewExponentials(p)
		for len(x) > 0 {
			n := min(width, len(x))
			e.TakeBlock(x[:n])
			x = x[n:]
		}
		return e
	}
}

func InParts(parts int) func(p Parts, x []float32) Exponentials {
	return func(p Parts, x []float32) Exponentials {
		all := NewExponentials(p)
		for i := range parts {
			part := NewExponentials(p)
			if of := x[len(x)*i/parts : len(x)*(i+1)/parts]; len(of) > 0 {
				part.TakeBlock(of)
			}
			all.Join(part)
		}
		return all
	}
}

// Exp2 is e to the power of x through a power of two.
func Exp2(x float32) float32 {
	return float32(math.Exp2(float64(float32(x * float32(math.Log2E)))))
}
