package op

import (
	"fmt"
	"math"
	"slices"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/num"
)

// Covering returns which output elements of a call a clause speaks about.
type Covering = func(c *bound.Call) func(operand, row, col int) bool

// ClausesOf returns the clauses of a definition, given the kind of each in order. It numbers them by position.
func ClausesOf(d *def.Definition, list ...Clause) []Clause {
	for i := range list {
		list[i].Definition, list[i].Number = d, fmt.Sprintf("C%d", i+1)
	}
	return list
}

// Interfaces, Calculates and Specially return clauses without definition and number.
func Interfaces() Clause           { return Clause{Kind: Interface} }
func Calculates() Clause           { return Clause{Kind: Arithmetic} }
func Specially(at Covering) Clause { return Clause{Kind: Special, Covers: at} }

// Avoiding returns a clause about special values, at some of whose places other forms give NaN.
func Avoiding(at, nan Covering) Clause { return Clause{Kind: Special, Covers: at, OthersGiveNaN: nan} }

// InfiniteOrNaN is a special clause at whose places a result is infinite or NaN.
func InfiniteOrNaN(at Covering) Clause { return Clause{Kind: Special, Covers: at, OrNaN: true} }

// WherePowersOverflow covers the rows of an input whose largest element is finite and at least 2^30
// in size. Exponentials are often powers of two, of x*log2(e) less m, the largest times log2(e). m
// is rounded, and where x*log2(e) is not, because it is fused with the difference, the power of the
// largest element itself is that of m's rounding error: infinite from 2^30 on, as x*log2(e) may be.
// Rows whose largest element is a power of two are not covered unless m overflows: m is exact.
func WherePowersOverflow(input string) Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		x := c.Matrix(input)
		rows := ByRow(func(row int) bool {
			largest := slices.Max(x.Row(row))
			fraction, exponent := math.Frexp(math.Abs(largest))
			isExact := fraction == 0.5 && exponent <= 127 // 2^126 times log2(e) is less than 2^127
			return math.Abs(largest) >= 0x1p30 && !IsNoNumber(largest) && !isExact
		})
		return func(_, row, _ int) bool { return rows(row) }
	}
}

// InputOf returns the elements of an input, by a place in any operand of the definition: one
// that has a value per row, per column, or one alone has it everywhere there.
func InputOf(c *bound.Call, name string) func(row, col int) float64 {
	a := c.Operands[c.Definition.Operand(name)]
	return func(row, col int) float64 { return float64(a.At(min(row, a.Rows-1), min(col, a.Cols-1))) }
}

// Where covers every output at the places where an input holds a value of some kind.
func Where(is func(float64) bool, inputs ...string) Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		return func(_, row, col int) bool { return anyOf(c, is, inputs, row, col) }
	}
}

func anyOf(c *bound.Call, is func(float64) bool, inputs []string, row, col int) bool {
	for _, name := range inputs {
		if is(InputOf(c, name)(row, col)) {
			return true
		}
	}
	return false
}

// WhereRow covers the rows in which an input holds a value of some kind.
func WhereRow(is func(float64) bool, inputs ...string) Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		rows := ByRow(func(row int) bool { return RowHas(c, is, row, inputs...) })
		return func(_, row, _ int) bool { return rows(row) }
	}
}

// RowHas reports whether an input holds a value of some kind in a row.
func RowHas(c *bound.Call, is func(float64) bool, row int, inputs ...string) bool {
	for _, name := range inputs {
		a := c.Operands[c.Definition.Operand(name)]
		for col := range a.Cols {
			if is(float64(a.At(min(row, a.Rows-1), col))) {
				return true
			}
		}
	}
	return false
}

// ColumnHas reports whether an input holds a value of some kind in a column.
func ColumnHas(c *bound.Call, is func(float64) bool, col int, inputs ...string) bool {
	for _, name := range inputs {
		a := c.Operands[c.Definition.Operand(name)]
		for row := range a.Rows {
			if is(float64(a.At(row, min(col, a.Cols-1)))) {
				return true
			}
		}
	}
	return false
}

// ByRow remembers what f says of the last row.
func ByRow[T any](f func(row int) T) func(row int) T {
	last, value := -1, *new(T)
	return func(row int) T {
		if row != last {
			last, value = row, f(row)
		}
		return value
	}
}

// WhereResult covers the elements of outputs whose exact result, which value returns, is of
// some kind in the format of the output.
func WhereResult(is func(d num.DType, v float64) bool, value func(c *bound.Call) func(operand, row, col int) float64) Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		at := value(c)
		return func(operand, row, col int) bool { return is(c.Operands[operand].DType, at(operand, row, col)) }
	}
}

// Either covers what any of the coverings covers.
func Either(list ...Covering) Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		var all []func(operand, row, col int) bool
		for _, covering := range list {
			all = append(all, covering(c))
		}
		return func(operand, row, col int) bool {
			for _, is := range all {
				if is(operand, row, col) {
					return true
				}
			}
			return false
		}
	}
}

// OnlyOf restricts a covering to the named outputs.
func OnlyOf(covering Covering, outputs ...string) Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		at := covering(c)
		return func(operand, row, col int) bool {
			for _, name := range outputs {
				if c.Definition.Operands[operand].Name == name {
					return at(operand, row, col)
				}
			}
			return false
		}
	}
}

// Kinds of values.

func IsNaN(v float64) bool          { return v != v }
func IsInfinite(v float64) bool     { return math.IsInf(v, 0) }
func IsNoNumber(v float64) bool     { return !(math.Abs(v) <= math.MaxFloat64) }
func IsZero(v float64) bool         { return v == 0 }
func IsNegativeZero(v float64) bool { return v == 0 && math.Signbit(v) }

// IsSmallIn reports whether a value is below the normal numbers of a format.
func IsSmallIn(d num.DType, v float64) bool { return math.Abs(v) < num.ULP(d, 0)/num.ULP(d, 1) }

// IsSubnormalIn reports whether a value is subnormal in a format, rounded to nearest.
func IsSubnormalIn(d num.DType, v float64) bool {
	return IsSmallIn(d, v) && num.Widen(d, num.NarrowF64(d, v)) != 0
}

// IsTooLargeFor reports whether a finite value is infinite in a format, rounded to nearest.
func IsTooLargeFor(d num.DType, v float64) bool {
	return !IsInfinite(v) && math.Abs(v) >= num.MaxFinite(d)+num.ULP(d, num.MaxFinite(d))/2
}

// MayOverflow reports whether a sum of finite terms may overflow binary32 in some order, given
// the sum of their magnitudes.
func MayOverflow(abs float64) bool { return abs > math.MaxFloat32 && !IsInfinite(abs) }

// IsAtAnEnd reports whether a value is subnormal in a format or too large for it.
func IsAtAnEnd(d num.DType, v float64) bool { return IsSubnormalIn(d, v) || IsTooLargeFor(d, v) }

// WhereSubnormal covers every output at the places where an input is subnormal in its format.
func WhereSubnormal(inputs ...string) Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		return func(_, row, col int) bool {
			for _, name := range inputs {
				if IsSubnormalIn(c.Operands[c.Definition.Operand(name)].DType, InputOf(c, name)(row, col)) {
					return true
				}
			}
			return false
		}
	}
}
