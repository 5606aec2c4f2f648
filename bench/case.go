package bench

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op"
)

// Case is one measurement: a lowering of an operation on operands of given sizes and
// formats, filled with the operation's first kind of data.
type Case struct {
	Operation *op.Operation
	Data      op.Data     // Sizes are those to measure
	DType     num.DType   // that names the choice of formats
	DTypes    []num.DType // of the operands
	Result    *num.DType  // as in the plan
	Lowering  *engine.Lowering
	Library   *engine.Lowering // a vendor's library to measure beside it; nil if there is none
	Tensors   int              // that the operands are divided into; 0 for one call on all
}

// Plan selects cases.
type Plan struct {
	Backend engine.Backend // whose lowerings are measured
	DTypes  []num.DType    // nil takes all
	Result  *num.DType     // of the outputs; nil for that which goes with each of DTypes
	Sizes   map[string]int // by letter; what they do not name has a default
	IsQuick bool           // small default sizes
	Tensors int            // measures operations on so many tensors together; 0 on one
	Smaller int            // measures at so many smaller sizes too

	// Lowering is the name or the id of the one lowering to measure, preferred or not; ""
	// measures all that a call may choose.
	Lowering string
}

// Cases returns the cases of an operation: for each of its formats, each lowering that a
// call may choose. An operation without data of its own has none, and on several tensors
// only one that computes them together.
func (p *Plan) Cases(o *op.Operation) []*Case {
	var data op.Data
	switch {
	case p.Tensors > 0 && o.Several != nil:
		data = o.Several.Data
	case p.Tensors == 0 && len(o.Data) > 0:
		data = o.UsualData()
	default:
		return nil
	}
	d := data.Definition
	data.Sizes = p.sizes(d, o.Usual)
	var cases []*Case
	for range p.Smaller + 1 {
		cases = append(cases, p.casesOf(o, data)...)
		data.Sizes = smaller(d, data.Sizes)
	}
	return cases
}

// casesOf returns the cases of an operation with the sizes of data.
func (p *Plan) casesOf(o *op.Operation, data op.Data) (cases []*Case) {
	d := data.Definition
	for _, t := range num.AllDTypes {
		dtypes := p.formats(d, t)
		if dtypes == nil || p.DTypes != nil && !slices.Contains(p.DTypes, t) {
			continue
		}
		for _, l := range p.lowerings(d) {
			if l.Takes(d, dtypes) != nil {
				continue
			}
			cases = append(cases, &Case{Operation: o, Data: data, DType: t, DTypes: dtypes, Result: p.Result, Lowering: l, Library: libraryOf(p.Backend, d, dtypes), Tensors: p.Tensors})
		}
	}
	return cases
}

// formats returns the formats of a definition's operands that a format names, or nil.
func (p *Plan) formats(d *def.Definition, t num.DType) []num.DType {
	if p.Result == nil {
		return d.DTypes(t)
	}
	for _, choice := range d.Formats() {
		fits := d.Format(choice) == t
		for i, usual := range d.DTypes(t) {
			if d.Operands[i].IsOut {
				usual = *p.Result
			}
			fits = fits && choice[i] == usual
		}
		if fits {
			return choice
		}
	}
	return nil
}

// lowerings returns those of a definition that are measured.
func (p *Plan) lowerings(d *def.Definition) []*engine.Lowering {
	if p.Lowering == "" {
		return p.Backend.Preferred(d)
	}
	return slices.DeleteFunc(engine.Lowerings(p.Backend, d), func(l *engine.Lowering) bool { return l.Name != p.Lowering && l.ID(d) != p.Lowering })
}

// sizes returns the usual sizes of an operation and defaults for the others, replaced by those that
// the plan names. The defaults are large enough that a call takes milliseconds and its operands exceed
// the inner caches, and small enough that plain code measures everything within a minute:
//
//   - rows of 1,024, a usual width of a model, or of a vocabulary of 32,768 where labels index them;
//     as many as make 2²² elements
//   - matrix products of 256×256×512, which do the most operations per byte, or 8 of
//     128×128×256 where there are many
//   - tables of 32,768 rows, of which 8,192 are looked up or added to
//
// GPUs have larger defaults: 2²⁷ elements, matrix products of 4096×4096×4096, or 64 of
// 1024×1024×1024, and 65,536 rows of tables.
func (p *Plan) sizes(d *def.Definition, usual map[string]int) map[string]int {
	sizes := map[string]int{}
	isGPU := p.Backend.Kind() != cpu.Kind
	choose := func(onGPU, large, quick int) int {
		switch {
		case p.IsQuick:
			return quick
		case isGPU:
			return onGPU
		}
		return large
	}
	set := func(onGPU, large, quick int, letter string) {
		if n, ok := usual[letter]; ok {
			sizes[letter] = n
		} else {
			sizes[letter] = choose(onGPU, large, quick)
		}
	}
	switch d.Access() {
	case def.AlongRows:
		row, column, width := d.AxisOf(def.Row), d.AxisOf(def.Column), 1024
		for i := range d.Operands {
			if o := &d.Operands[i]; o.IsIndex && o.Bound == column {
				width = 32768
			}
		}
		set(width, width, width, column)
		rows := max(1, choose(1<<27, 1<<22, 1<<18)/sizes[column])
		set(rows, rows, rows, row)
		for _, a := range d.Axes() {
			switch a.Role {
			case def.Slot:
				set(8, 8, 8, a.Letter)
			case def.Indexed:
				set(4096, 4096, 4096, a.Letter)
			}
		}
	case def.OfSequence: // prompts, of a model with four heads of queries for each of keys
		for _, a := range d.Axes() {
			switch a.Role {
			case def.Row, def.Summed:
				set(8192, 256, 64, a.Letter)
			case def.Group, def.Batch:
				set(4, 2, 2, a.Letter)
			case def.Pool:
				set(8192, 64, 32, a.Letter)
			default:
				set(128, 64, 32, a.Letter)
			}
		}
	case def.OfProducts:
		onGPU, large, quick := 4096, 256, 64
		if d.HasAxes() {
			onGPU, large, quick = 1024, 128, 32
		}
		for _, a := range d.Axes() {
			switch a.Role {
			case def.Summed:
				set(onGPU, 2*large, 2*quick, a.Letter)
			case def.Batch, def.Group:
				set(64, 8, 2, a.Letter)
			default:
				set(onGPU, large, quick, a.Letter)
			}
		}
	default:
		for _, a := range d.Axes() {
			switch a.Role {
			case def.Indexed:
				set(32768, 32768, 4096, a.Letter)
			case def.Column:
				set(1024, 1024, 256, a.Letter)
			default:
				set(65536, 8192, 1024, a.Letter)
			}
		}
	}
	for letter := range sizes {
		if n, ok := p.Sizes[letter]; ok {
			sizes[letter] = n
		}
	}
	return sizes
}

// smaller returns sizes with less work: half of each axis of a product and of the tokens of a
// sequence, a quarter of the rows of everything else.
func smaller(d *def.Definition, sizes map[string]int) map[string]int {
	less, by := maps.Clone(sizes), 4
	if d.Access() == def.OfProducts || d.Access() == def.OfSequence {
		by = 2
	}
	for _, a := range d.Axes() {
		if a.Role == def.Row || a.Role == def.Summed || a.Role == def.Column && d.Access() == def.OfProducts {
			less[a.Letter] = max(1, sizes[a.Letter]/by)
		}
	}
	return less
}

// Shape returns the sizes as text: R=4096,C=1024, R=4096,C=1024,tensors=100 or M=64,N=64,K=64,result=f32.
func (c *Case) Shape() string {
	var parts []string
	for _, letter := range c.Data.Definition.Sizes() {
		parts = append(parts, fmt.Sprintf("%s=%d", letter, c.Data.Sizes[letter]))
	}
	if c.Tensors > 0 {
		parts = append(parts, fmt.Sprintf("tensors=%d", c.Tensors))
	}
	if c.Result != nil {
		parts = append(parts, fmt.Sprintf("result=%s", *c.Result))
	}
	return strings.Join(parts, ",")
}

func (c *Case) String() string {
	return fmt.Sprintf("%s %v %s", c.Lowering.ID(c.Data.Definition), c.DType, c.Shape())
}

// Bytes returns the least memory that a measurement needs: the operands on the device, and
// as many bytes on the host. It returns math.MaxInt64 if that overflows.
func (c *Case) Bytes() int64 {
	d, total := c.Data.Definition, 0.0
	for i := range d.Operands {
		bytes := 2 * float64(c.DTypes[i].Size())
		for _, letter := range d.Operands[i].Dims {
			bytes *= float64(c.Data.Sizes[letter])
		}
		total += bytes
	}
	if total >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(total)
}

// flops returns the number of multiplications and additions of products; 0 without any.
func (c *Case) flops() float64 { return 2 * c.Data.Definition.MultiplyAdds(c.Data.Sizes) }

// Traffic returns the least number of bytes that a call moves: each input read once, each
// output written once, operands updated in place both. Of a table that is read by index,
// each row that occurs in the index counts once.
func Traffic(d *def.Definition, operands []num.Array) int64 {
	total := int64(0)
	for i := range d.Operands {
		o, a := &d.Operands[i], operands[i]
		row := int64(a.Cols) * int64(a.DType.Size())
		bytes := int64(a.Rows) * row
		if index := d.ChosenBy(i); index >= 0 {
			bytes = int64(Distinct(operands[index])) * row
		}
		if o.IsIn {
			total += bytes
		}
		if o.IsOut {
			total += bytes
		}
	}
	return total
}

// Distinct returns how many different values an index has.
func Distinct(index num.Array) int {
	seen := map[int32]bool{}
	for r := range index.Rows {
		for c := range index.Cols {
			seen[index.Int(r, c)] = true
		}
	}
	return len(seen)
}
