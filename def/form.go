package def

import (
	"io"
	"slices"
	"strings"
)

// Form is the pattern in which a definition computes: [*Expression], [*Product], [*Lookup],
// [*Scatter], [*LookupSum], [*Sort], [*RowWrite], [*Fused]
// or [*Stream]. Code that computes switches over these types and refuses the ones it does not know. All
// other code asks a definition for facts: which axes and sums it has, and what depends on what.
//
// A new form is a type with these methods and a row in the list of forms that [Parse] reads.
type Form interface {
	// String returns the word that the text of a definition begins with.
	String() string

	axes(d *Definition) []Axis
	sums(d *Definition) []Sum
	batchAxis(d *Definition) string
	batchUse(d *Definition, operand int) (BatchUse, string)
	independent(d *Definition) []string
	divisible(d *Definition) string
	mayBeFP8(d *Definition, o Operand) bool // whether an operand may be stored in FP8

	print(d *Definition, s *strings.Builder, docs bool) // the text below operands and parameters
	digest(w io.Writer)                                 // everything that others read of the form
	derivative(d *Definition, w wanted, known []*Function) (*Definition, error)
}

// Role says what an axis is to the results.
type Role uint8

const (
	Row     Role = iota // of the result: what a batch consists of, or a part of it
	Column              // of the result: next to each other in memory
	Summed              // its elements are the terms of sums that the results have
	Indexed             // an index chooses its elements
	Batch               // whole matrices side by side
	Group               // groups into which another axis is divided
	Slot                // places for a row's elements that are kept, or for the pages of a group
	Pool                // pages from which indices choose
)

func (r Role) String() string {
	return [...]string{"row", "column", "summed", "indexed", "batch", "group", "slot", "pool"}[r]
}

// Axis is a size that operands have in common.
type Axis struct {
	Letter string
	Role   Role
}

// Axes returns the axes of a definition's matrices, in the order row, summed or indexed, column, and
// after them the batch axes and the number of groups. The rows of an expression's tables come last.
//
// Neither this slice nor that of Sums may be changed.
func (d *Definition) Axes() []Axis {
	if d.axes == nil { // not built yet
		return d.Form.axes(d)
	}
	return d.axes
}

// MatrixAxes returns the axes that are no batch axes and count no groups, slots or pages.
func (d *Definition) MatrixAxes() []Axis {
	return slices.DeleteFunc(slices.Clone(d.Axes()), func(a Axis) bool {
		return a.Role == Batch || a.Role == Group || a.Role == Slot || a.Role == Pool
	})
}

// AxisOf returns the letter of the first axis that has a role, or "".
func (d *Definition) AxisOf(r Role) string {
	for _, a := range d.Axes() {
		if a.Role == r {
			return a.Letter
		}
	}
	return ""
}

// Sum is a sum whose number of terms is a size.
type Sum struct {
	Over       []string // the letters of the axes whose elements are its terms
	Order      SumOrder
	OfProducts bool // of two factors
	ByIndex    bool // an index chooses the terms, so that the letters say only how many there may be
}

// SumOrder says how the terms of a sum are added.
type SumOrder uint8

const (
	InLanes   SumOrder = iota // in lanes, by the rules of rowsum, colsum and totalsum
	Ascending                 // one after another, by the accumulation rule of the lowering
	InChunks                  // of [ScatterChunk] terms; in f16 exactly
	Exactly                   // in a [Ring]
	InSteps                   // one after another, as the text says
)

// Sums returns the sums of a definition, those of an expression in the order of its nodes and
// without its sums of int32.
func (d *Definition) Sums() []Sum {
	if d.axes == nil {
		return d.Form.sums(d)
	}
	return d.sums
}

// Multiplies reports whether the results are sums of products, so that the work is more than the
// outputs are.
func (d *Definition) Multiplies() bool {
	return slices.ContainsFunc(d.Sums(), func(s Sum) bool { return s.OfProducts })
}

// HasAccumulation reports whether a lowering's accumulation rule decides the bits of a sum.
func (d *Definition) HasAccumulation() bool {
	return slices.ContainsFunc(d.Sums(), func(s Sum) bool { return s.Order == Ascending })
}

// MultiplyAdds returns how many products are added up in all; 0 if the definition has no sums of
// products.
func (d *Definition) MultiplyAdds(sizes map[string]int) float64 {
	if !d.Multiplies() {
		return 0
	}
	if f, ok := d.Form.(interface {
		multiplyAdds(sizes map[string]int) float64
	}); ok {
		return f.multiplyAdds(sizes)
	}
	n := 1.0
	for _, a := range d.Axes() {
		if a.Role != Group && a.Role != Pool {
			n *= float64(sizes[a.Letter])
		}
	}
	return n
}

// SummedOver returns the letter of the axis whose elements are the terms of sums of products, or "".
func (d *Definition) SummedOver() string {
	for _, s := range d.Sums() {
		if s.OfProducts {
			return s.Over[0]
		}
	}
	return ""
}

// Independent returns the letters along which results do not depend on each other: where the inputs
// are reversed or left out along such an axis, so are the outputs, to the bit.
func (d *Definition) Independent() []string { return d.Form.independent(d) }

// Divisible returns the letter along which a call can be divided into calls on parts of the
// operands, or "".
func (d *Definition) Divisible() string { return d.Form.divisible(d) }

// Copies reports whether every output element is an element of an input, bit for bit.
func (d *Definition) Copies() bool {
	switch d.Form.(type) {
	case *Lookup, *RowWrite:
		return true
	}
	return false
}

// ChosenBy returns the position of the operand that chooses which rows of another one are read, or
// -1 if all are: an index in the range of an input's rows. If there are several, it is the first.
func (d *Definition) ChosenBy(operand int) int {
	o := &d.Operands[operand]
	if o.IsOut || len(o.Dims) == 0 || !slices.Contains(d.Axes(), Axis{o.Dims[0], Indexed}) {
		return -1
	}
	return slices.IndexFunc(d.Operands, func(i Operand) bool { return i.IsIndex && i.Bound == o.Dims[0] })
}

// HasAxes reports whether a definition has batch axes or groups.
func (d *Definition) HasAxes() bool {
	return slices.ContainsFunc(d.Axes(), func(a Axis) bool { return a.Role == Batch || a.Role == Group })
}

// Accumulates reports whether the first term of the sums is the old value of an output.
func (d *Definition) Accumulates() bool {
	switch f := d.Form.(type) {
	case *Product:
		return f.Accumulate
	case *Scatter:
		return f.Accumulate
	}
	return false
}

// Math returns the expression as it was written, with function calls kept: what truth encloses. It is
// empty for a form without one.
func (d *Definition) Math() Graph {
	if f, ok := d.Form.(*Expression); ok {
		return f.Math
	}
	return Graph{}
}

// Exec returns the expression with function calls expanded: what is executed. It is empty for a form
// without one.
func (d *Definition) Exec() Graph {
	if f, ok := d.Form.(*Expression); ok {
		return f.Exec
	}
	return Graph{}
}

// Expression returns the form of a rowwise definition, or nil.
func (d *Definition) Expression() *Expression {
	f, _ := d.Form.(*Expression)
	return f
}

// Product returns the form of a contraction, or nil.
func (d *Definition) Product() *Product {
	f, _ := d.Form.(*Product)
	return f
}

// Fused returns the form of products that end in an expression, or nil.
func (d *Definition) Fused() *Fused {
	f, _ := d.Form.(*Fused)
	return f
}

// Sort returns the form of a dispatch, or nil.
func (d *Definition) Sort() *Sort {
	f, _ := d.Form.(*Sort)
	return f
}

// Stream returns the stream of a definition that is one, or the gradients of one, or nil.
func (d *Definition) Stream() *Stream {
	switch f := d.Form.(type) {
	case *Stream:
		return f
	case *StreamBackward:
		return &f.Stream
	}
	return nil
}

// Ring returns in what numbers sums are taken: the zero Ring for binary32.
func (d *Definition) Ring() Ring {
	if f := d.Product(); f != nil {
		return f.Ring
	}
	return Ring{}
}

// Groups returns the groups into which offsets divide an axis, or the zero Groups.
func (d *Definition) Groups() Groups {
	switch f := d.Form.(type) {
	case *Product:
		return f.Groups
	case *Fused:
		return f.Products[0].Groups()
	}
	return Groups{}
}

// Scales returns the operands by which sums are multiplied, or the zero Scales.
func (d *Definition) Scales() Scales {
	if f := d.Product(); f != nil {
		return f.Scales
	}
	return Scales{}
}

// HasOffsets reports whether an operand divides an axis: into groups, or into sequences.
func (d *Definition) HasOffsets() bool {
	return slices.ContainsFunc(d.Operands, func(o Operand) bool { return o.IsOffsets })
}

// HasSequences reports whether operands divide two axes alike, into sequences: by offsets, or by
// offsets and lengths.
func (d *Definition) HasSequences() bool {
	n := 0
	for i := range d.Operands {
		if d.Operands[i].IsOffsets || d.Operands[i].IsLengths {
			n++
		}
	}
	return n > 1
}

// HasKeyOffsets reports whether all sequences are given by offsets, none by lengths.
func (d *Definition) HasKeyOffsets() bool {
	return !slices.ContainsFunc(d.Operands, func(o Operand) bool { return o.IsLengths })
}

// HasScales reports whether sums are multiplied by scales.
func (d *Definition) HasScales() bool { return d.Scales() != Scales{} }

// Access says where an output element finds its inputs. Which sizes are worth trying depends on it.
type Access uint8

const (
	AlongRows  Access = iota // in its own row, column or both, and in tables besides
	OfProducts               // in a row and a column of two factors
	FromIndex                // in the row that an index names
	ToIndex                  // in all rows whose index names its own
	OfSequence               // in the rows of its own sequence
)

// Access returns where the definition's output elements find their inputs.
func (d *Definition) Access() Access {
	letter := d.AxisOf(Indexed)
	switch {
	case d.HasSequences():
		return OfSequence
	case d.Multiplies():
		return OfProducts
	case letter == "" || d.Expression() != nil:
		return AlongRows
	case slices.ContainsFunc(d.Operands, func(o Operand) bool { return o.IsOut && slices.Contains(o.Dims, letter) }):
		return ToIndex
	}
	return FromIndex
}
