package def

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"tokitai/num"
)

// The numbers of keys that a page of a stream may have: powers of two.
const (
	MinPage = 16
	MaxPage = 256
)

// PageSizes says which numbers those are.
var PageSizes = fmt.Sprintf("a power of two from %d to %d", MinPage, MaxPage)

// pagesRule says where the keys of a stream lie.
var pagesRule = sumRule{lines: []string{
	"rule pages(k, v, length, page): the keys of a sequence",
	"  sequence b has length[b] keys; key j is row j mod N of page[b, j / N] in k and v, j / N rounded down",
	"  N is " + PageSizes + "; what lies behind length[b] in page and in pages is not read",
}}

// Limit returns the number that indices of an operand are below.
func (o *Operand) Limit(size func(letter string) int) int {
	n := 1
	for letter := range strings.SplitSeq(o.Bound, "*") {
		n *= size(letter)
	}
	if o.IsLengths { // which may be as large as what they count
		n++
	}
	return n
}

// LimitIn is Limit for sizes by their letters.
func (o *Operand) LimitIn(sizes map[string]int) int {
	return o.Limit(func(letter string) int { return sizes[letter] })
}

// InUse returns how many elements of a row of an index are in use, given all operands: the others may
// hold anything. A length out of range counts as the nearest one in range.
func (d *Definition) InUse(operand int, operands []num.Array, size func(letter string) int, row int) int {
	o := &d.Operands[operand]
	cols := operands[operand].Cols
	if o.Lengths == "" {
		return cols
	}
	each := size(o.Each)
	length := max(0, int(operands[d.Operand(o.Lengths)].Int(row, 0)))
	return min(cols, (length+each-1)/each)
}

// CheckSize returns an error for a size that the definition does not take.
func (d *Definition) CheckSize(letter string, n int) error {
	if d.FitSize(letter, n) != n {
		return fmt.Errorf("%s is %d, want %s", letter, n, PageSizes)
	}
	return nil
}

// FitSize returns a size that the definition takes, near to n.
func (d *Definition) FitSize(letter string, n int) int {
	if !slices.ContainsFunc(d.Operands, func(o Operand) bool { return o.Each == letter }) {
		return n
	}
	return min(max(MinPage, 1<<bits.Len(uint(max(n, 1)-1))), MaxPage)
}
