package cpu

import (
	"fmt"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// Job is one execution of a program: phases of independent items.
type Job interface {
	// Next begins the next phase and returns how many items it has; ok is false
	// after the last one. All items of a phase are done before Next is called.
	Next() (items int, ok bool)
	// Do runs one item. Items of a phase may run at the same time, on different workers.
	Do(worker, item int)
	// Release gives the job's scratch memory back for the next one.
	Release()
}

// Program is a definition lowered for one choice of storage formats.
type Program interface {
	// Bind prepares an execution.
	Bind(c *lower.Call, workers int) Job
	// String lists the program for people.
	String() string
}

// Class divides shapes into those that run the same program.
type Class int

const (
	// Short rows are kept between passes.
	Short Class = iota
	// Long rows would not stay in the cache: their elements are computed again in
	// every pass.
	Long
)

// longRow is the number of columns beyond which a row is Long: values of one row
// that are kept between passes then fill a quarter of a megabyte each.
const longRow = 1 << 16

// ClassOf returns the class of a definition on rows of cols columns.
func ClassOf(d *def.Definition, cols int) Class {
	if d.Expression() != nil && cols > longRow && !d.IsFlat() {
		return Long
	}
	return Short
}

// lowering makes the programs of one form of definition.
type lowering struct {
	name    string
	compile func(d *def.Definition, dtypes []num.DType, class Class) (Program, error)
}

// loweringOf returns the lowering of a form, or nil.
func loweringOf(f def.Form) *lowering {
	switch f.(type) {
	case *def.Expression:
		return &lowering{"rowwise", compileRowwise}
	case *def.Product:
		return &lowering{"packed", compileContraction}
	case *def.Fused:
		return &lowering{"fused", compileFused}
	case *def.Lookup:
		return &lowering{"gather", compileGather}
	case *def.Scatter:
		return &lowering{"scatter", compileScatter}
	case *def.LookupSum:
		return &lowering{"gather-sum", compileGatherSum}
	case *def.Sort:
		return &lowering{"dispatch", compileDispatch}
	case *def.RowWrite:
		return &lowering{"row-write", compileRowWrite}
	case *def.Stream:
		return &lowering{"stream", compileStream}
	case *def.StreamBackward:
		return &lowering{"stream-backward", compileStreamBackward}
	}
	return nil
}

// NameOf returns the name of the programs of a form, or "" if there are none.
func NameOf(f def.Form) string {
	if l := loweringOf(f); l != nil {
		return l.name
	}
	return ""
}

// Compile lowers a definition for operands stored in the given formats.
func Compile(d *def.Definition, dtypes []num.DType, class Class) (Program, error) {
	l := loweringOf(d.Form)
	if l == nil {
		return nil, fmt.Errorf("%s: the CPU has no program for a %s", d.Name, d.Form)
	}
	return l.compile(d, dtypes, class)
}
