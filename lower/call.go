package lower

import (
	"unsafe"

	"tokitai/def"
	"tokitai/num"
)

// Operand is a matrix in memory as a kernel sees it: a value per column is one row, a
// value per row is one column.
type Operand struct {
	num.Array // its Data is nil if the host cannot address the memory

	// Pointer is the address of the first element in the memory of a device that the host
	// cannot address.
	Pointer uint64
}

// Address returns the address of the first element, in the device's memory or in the
// host's: what alignment depends on.
func (o *Operand) Address() uint64 {
	if o.Pointer != 0 || len(o.Data) == 0 {
		return o.Pointer
	}
	return uint64(uintptr(unsafe.Pointer(&o.Data[0])))
}

// Call is one execution of a definition: what a kernel computes with. Its sizes have been
// checked against the definition.
type Call struct {
	Operands []Operand // in the order of the definition
	Params   []float64 // in the order of the definition

	// Rows and Cols are the sizes R and C of a rowwise definition.
	Rows, Cols int
}

// Size returns the size that a letter stands for: that of the first operand that has it and shows it. A
// stack of no matrices does not show how many rows each would have.
func (c *Call) Size(d *def.Definition, letter string) int {
	for i := range d.Operands {
		o, a := &d.Operands[i], &c.Operands[i]
		for k, l := range o.Dims {
			switch back := len(o.Dims) - k; {
			case l == letter+"+1":
				return a.Rows*a.Cols - 1
			case l != letter:
			case len(o.Dims) == 1:
				return a.Rows * a.Cols
			case back == 1:
				return a.Cols
			case back == 2 && a.Matrices() > 0:
				return a.Rows / a.Matrices()
			case back == 2:
			default:
				return a.Batch.Axes[a.Batch.Count-back+2].Size
			}
		}
	}
	panic("lower: " + d.Name + ": no operand has the size " + letter)
}

// WritesNothing reports whether no output has elements to write: a batch of no rows leaves only sums to
// write, and one that continues an old result keeps it.
func (c *Call) WritesNothing(d *def.Definition) bool {
	isEmpty := false
	for i := range d.Operands {
		hasElements := c.Operands[i].Rows*c.Operands[i].Cols > 0
		if d.Operands[i].IsOut && !d.Operands[i].IsIn && hasElements {
			return false
		}
		isEmpty = isEmpty || !hasElements
	}
	return isEmpty
}

// OfProduct returns the operands of a contraction. Of products that end in an expression it returns those of the first,
// and an output, which has the sizes of its result.
func (c *Call) OfProduct(d *def.Definition) (left, right, result *Operand) {
	if f := d.Fused(); f != nil {
		return &c.Operands[f.Factors[0][0]], &c.Operands[f.Factors[0][1]], &c.Operands[f.Result()]
	}
	p := d.Product()
	return &c.Operands[p.Left], &c.Operands[p.Right], &c.Operands[p.Result]
}

// OffsetsOf returns the operand that divides an axis into groups.
func (c *Call) OffsetsOf(d *def.Definition) *Operand {
	return &c.Operands[d.Operand(d.Groups().Offsets)]
}

// Measure sets Rows and Cols from the operands of a rowwise definition, and to zero for
// other definitions.
func (c *Call) Measure(d *def.Definition) {
	c.Rows, c.Cols = 0, 0
	for i := range c.Operands {
		if d.Operands[i].Extent == def.PerElement {
			c.Rows, c.Cols = c.Operands[i].Rows, c.Operands[i].Cols
			return
		}
	}
}
