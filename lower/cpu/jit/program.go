package jit

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/lower/cpu"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// Class divides calls into those that run the same code.
type Class int

const (
	// Long rows do not stay in the cache: their elements are computed again in every pass.
	Long Class = 1 << iota
	// Streamed outputs are written past the caches where they are aligned: they would not
	// stay there.
	Streamed
	// apart are the rows of an operand of a flat definition with total sums: between them
	// lies what does not belong to the call, so that flat rows do not end where rows do.
	// ClassOf does not return it: a program has code for both kinds of calls.
	apart
)

// longRow is the number of columns beyond which a row is Long: a value that is kept
// between passes then fills a quarter of a megabyte.
const longRow = 1 << 16

// streamedBytes is the size of all operands from which outputs are streamed.
const streamedBytes = 8 << 20

// ClassOf returns the class of a call.
func ClassOf(d *def.Definition, c *lower.Call) Class {
	var class Class
	if !d.IsFlat() && c.Cols > longRow {
		class |= Long
	}
	if streams(d, c) {
		class |= Streamed
	}
	return class
}

// streams reports whether outputs are large, fresh and aligned.
func streams(d *def.Definition, c *lower.Call) bool {
	bytes := 0
	for i := range c.Operands {
		if d.Operands[i].Extent == def.PerElement {
			bytes += c.Rows * c.Cols * c.Operands[i].DType.Size()
		}
	}
	if bytes < streamedBytes {
		return false
	}
	for i := range c.Operands {
		if !d.Operands[i].IsOut || d.Operands[i].Extent != def.PerElement {
			continue
		}
		if d.Operands[i].IsIn || !isAligned(&c.Operands[i].Array) {
			return false
		}
		for k := range c.Operands {
			if k != i && c.Operands[k].Address() == c.Operands[i].Address() { // in place
				return false
			}
		}
	}
	return true
}

// isAligned reports whether each row begins at a multiple of a slot.
func isAligned(a *num.Array) bool {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(a.Data)))
	return address%slotBytes == 0 && (a.Rows == 1 || a.Stride*a.DType.Size()%slotBytes == 0)
}

// costs are the prices of machine code, in instructions.
type costs struct{ keepsRows bool }

// Compute implements lower.Costs.
func (costs) Compute(n *def.Node) int {
	switch n.Op {
	case def.OpDiv, def.OpSqrt:
		return 8
	case def.OpRandom, def.OpRandomRow:
		return 100
	case def.OpScale, def.OpSRound:
		return 12
	case def.OpMin, def.OpMax, def.OpRound:
		return 3
	}
	return 1
}

// Keep implements lower.Costs. A store and a load of values that stay in the cache cost
// about as much as three instructions.
func (c costs) Keep(n *def.Node, _ []*lower.Kept) int {
	if !c.keepsRows || n.Type == def.Bool || len(n.Args) == 0 || n.Op == def.OpLookup {
		return lower.Never
	}
	return 3
}

// Hoist implements lower.Costs: a value that is only read or widened is not worth an
// array of its own.
func (costs) Hoist(n *def.Node) bool { return len(n.Args) > 0 && n.Type != def.Bool }

// program is a definition as machine code.
type program struct {
	d       *def.Definition
	dtypes  []num.DType
	flat    bool
	set     machine.Set
	class   Class
	lanes   int // of a vector
	code    *machine.Code
	entries entries
	perCall int      // elements that a call into the code computes at most
	apart   *program // computes calls whose rows are apart, if this one cannot

	layout  *layout
	s       *selector
	params  []placedParam
	kept    int         // rows that a worker keeps
	columns int         // arrays of values per column
	colSums []*def.Node // by number
	totals  []*def.Node // by number: the total sums of floats
	ints    []*def.Node // the total sums of int32
	jobs    sync.Pool
}

// placedParam is a parameter and the slot that code finds it in.
type placedParam struct {
	param int
	isInt bool
	place place
}

// Compile makes the code of a rowwise definition for operands stored in the given formats.
// It returns an error if there is no code for the instruction set, or no memory to
// execute it in.
func Compile(d *def.Definition, dtypes []num.DType, class Class, set machine.Set) (cpu.Program, error) {
	if stages := d.LazyStages(dtypes); stages != nil {
		code, err := orderCodeOf(set)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		return cpu.CompileStages(d, stages, code, func(part *def.Definition, dtypes []num.DType) (cpu.Program, error) {
			if part.IsFlat() {
				return Compile(part, dtypes, 0, set)
			}
			return Compile(part, dtypes, class&Long, set) // what lies between stages is read again
		})
	}
	p, err := load(d, dtypes, class, set, 0)
	if err != nil {
		return nil, err
	}
	if p.flat && len(p.totals) > 0 {
		if p.apart, err = load(d, dtypes, class|apart, set, 0); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// CompilePiece makes the code of a part of a definition.
func CompilePiece(part lower.Piece, dtypes []num.DType, set machine.Set) (cpu.Program, error) {
	if part.SumLanes == 0 {
		return Compile(part.Definition, dtypes, 0, set)
	}
	p, err := load(part.Definition, dtypes, 0, set, part.SumLanes)
	if err != nil {
		return nil, err // not a nil *program in an interface
	}
	return p, nil
}

// load makes the code of one class, and loads it.
func load(d *def.Definition, dtypes []num.DType, class Class, set machine.Set, sumLanes int) (*program, error) {
	p, t, err := translate(d, dtypes, class, set, sumLanes)
	if err != nil {
		return nil, err
	}
	code, err := t.finish()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	if p.code, err = machine.Load(code); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	return p, nil
}

// translate makes the code of a definition, which need not be for this processor. The
// target has it.
func translate(d *def.Definition, dtypes []num.DType, class Class, set machine.Set, sumLanes int) (*program, target, error) {
	if d.Expression() == nil {
		return nil, nil, fmt.Errorf("%s: no machine code for kind %s", d.Name, d.Form)
	}
	if i := slices.IndexFunc(dtypes, num.DType.IsFP8); i >= 0 {
		return nil, nil, fmt.Errorf("%s: no machine code that stores %s", d.Name, dtypes[i])
	}
	plan := lower.NewProgram(d, dtypes, lower.Whole(d), costs{keepsRows: class&Long == 0})
	isFlat := d.IsFlat() && class&apart == 0
	l := newLayout()
	l.sumLanes = sumLanes
	var t target
	switch set {
	case machine.AVX512:
		t = newX86(l, true)
	case machine.AVX2:
		t = newX86(l, false)
	case machine.NEON:
		t = newNEON(l)
	default:
		return nil, nil, fmt.Errorf("%s: no machine code for instruction set %s", d.Name, set)
	}
	g, entries, err := generate(plan, isFlat, class, l, t)
	if err != nil {
		return nil, nil, err
	}
	p := &program{
		d: d, dtypes: plan.DTypes, flat: isFlat, set: set, class: class, lanes: t.lanes(), entries: entries,
		perCall: g.elementsPerCall(), layout: l, s: &g.selector, kept: len(g.kept), columns: len(g.columns),
		colSums: byNumber(g.colSums), totals: byNumber(g.totals),
	}
	if p.flat {
		p.totals = byNumber(g.rowSums) // a flat definition has no row sums
	}
	for _, n := range d.Exec().Nodes {
		if _, ok := g.intTotals[n]; ok {
			p.ints = append(p.ints, n)
		}
	}
	for i, at := range g.params {
		p.params = append(p.params, placedParam{i, d.Params[i].IsInt, at})
	}
	return p, t, nil
}

func byNumber(numbers map[*def.Node]int) []*def.Node {
	nodes := make([]*def.Node, len(numbers))
	for n, i := range numbers {
		nodes[i] = n
	}
	return nodes
}

// String lists the machine code. It is made once more: few programs are ever listed.
func (p *program) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "machine code %s (", p.d.Name)
	for i, o := range p.d.Operands {
		if i > 0 {
			s.WriteString(", ")
		}
		fmt.Fprintf(&s, "%s %s", o.Name, p.dtypes[i])
	}
	fmt.Fprintf(&s, "), %s, vectors of %d\n", p.set, p.lanes)
	_, t, err := translate(p.d, p.dtypes, p.class, p.set, p.layout.sumLanes)
	if err == nil {
		_, err = t.finish()
	}
	if err != nil { // it was made before
		return s.String() + err.Error() + "\n"
	}
	s.WriteString(t.listing())
	if p.apart != nil {
		s.WriteString("\nfor rows that do not follow each other:\n" + p.apart.String())
	}
	return s.String()
}
