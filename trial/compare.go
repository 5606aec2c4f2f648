package trial

import (
	"bytes"
	"fmt"

	"tokitai/def"
	"tokitai/num"
)

// Rule says when two stored patterns are the same result.
//
//	rule      two NaNs of a format    +0 and −0   everything else, infinities and integers too
//	Values    are the same result     differ      is the same if all bits are
//	Patterns  differ by their bits    differ      is the same if all bits are
//
// No other rule is used to compare bits. Inputs and memory outside of operands are
// compared byte for byte.
type Rule int

const (
	Values   Rule = iota // for results that are computed: the sign and payload of a NaN are nobody's promise
	Patterns             // for results that are copied
)

// RuleOf returns the rule for the outputs of a definition: a gather copies, all others
// compute.
func RuleOf(d *def.Definition) Rule {
	if d.Copies() {
		return Patterns
	}
	return Values
}

// Same reports whether two patterns of a format are the same result.
func (r Rule) Same(d num.DType, x, y uint64) bool {
	return x == y || r == Values && num.IsNaN(d, x) && num.IsNaN(d, y)
}

// Difference is an element that differs from its answer.
type Difference struct {
	Name      string // of the operand
	Row, Col  int
	DType     num.DType
	Got, Want uint64

	shape string // what is wrong instead, if the arrays cannot be compared
}

// Difference returns the first element of an operand that differs from its answer, or
// nil.
func (r Rule) Difference(name string, got, want num.Array) *Difference {
	if got.DType != want.DType || got.Rows != want.Rows || got.Cols != want.Cols {
		return &Difference{Name: name, Row: -1, Col: -1, DType: got.DType, shape: fmt.Sprintf("%s is %v %d×%d, want %v %d×%d",
			name, got.DType, got.Rows, got.Cols, want.DType, want.Rows, want.Cols)}
	}
	for row := range got.Rows {
		if bytes.Equal(got.Row(row), want.Row(row)) {
			continue
		}
		for c := range got.Cols {
			if x, y := got.Bits64(row, c), want.Bits64(row, c); !r.Same(got.DType, x, y) {
				return &Difference{Name: name, Row: row, Col: c, DType: got.DType, Got: x, Want: y}
			}
		}
	}
	return nil
}

// String reads y[0,3] is 0x3c01, want 0x3c00 (1.0009766, 1).
func (d *Difference) String() string {
	if d.shape != "" {
		return d.shape
	}
	text := fmt.Sprintf("%s[%d,%d] is %s, want %s", d.Name, d.Row, d.Col, Pattern(d.DType, d.Got), Pattern(d.DType, d.Want))
	if d.DType.IsInteger() {
		return text
	}
	return text + fmt.Sprintf(" (%v, %v)", num.Value(d.DType, d.Got), num.Value(d.DType, d.Want))
}

// Pattern shows a stored value: the bits of a float in hexadecimal, an integer as a number.
func Pattern[P num.Pattern](d num.DType, bits P) string {
	if d.IsInteger() {
		return fmt.Sprint(num.SignExtend(d, uint64(bits)))
	}
	return fmt.Sprintf("0x%0*x", 2*d.Size(), bits)
}

// PatternWithValue shows a stored value: the bits of a float in hexadecimal with its value, an integer as
// a number.
func PatternWithValue[P num.Pattern](d num.DType, bits P) string {
	if d.IsInteger() {
		return Pattern(d, bits)
	}
	return fmt.Sprintf("0x%0*x (%.8g)", 2*d.Size(), bits, num.Value(d, uint64(bits)))
}
