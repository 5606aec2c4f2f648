// Package gpu lowers definitions to kernels in one dialect of C++ that NVRTC, HIP's
// clang and the host's own compiler accept, and says how to launch them. The
// results have the bits of the reference for every shape, stride, alignment, grid
// and warp width.
//
// A rowwise definition becomes one source with a handful of kernels: rowwise.go decides
// which, and package lower plans what each of them computes. The one that matters walks
// over rows, in passes: walk.go says what keeping values costs and where they are kept (in
// registers, in shared memory, or nowhere), instances.go lists the instances by the length
// of a row, rows.go and groups.go write them, quads.go divides groups of 32 bits, ahead.go
// prefetches rows, stream.go reads the longest and spread.go gives them to several blocks. stages.go
// launches orderings between parts of a definition, and short.go has those of short rows.
// elements.go, flat.go and sums.go write the other kernels, emit.go the expressions. launch.go
// turns operands into grids and parameters, and check.go checks indices. many.go and
// many_plan.go do all this for many calls of a flat definition in one launch. All other forms
// are written by hand, in kernels.
//
// prelude.h comes before every kernel; tensorcore.h has the matrix instructions.
// device/gpu/sim runs kernels without a GPU.
//
// The package knows neither devices nor compilers: sources are text, addresses are
// numbers, and a launch plan is a pure function. Start at [Compile] and
// [Kernel.Plan].
package gpu

import (
	_ "embed"
	"fmt"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// Prelude is the text that precedes every source.
//
//go:embed prelude.h
var Prelude string

// TensorCores is the text that precedes the sources that need it, after the prelude.
//
//go:embed tensorcore.h
var TensorCores string

// Source is the text of a definition's kernels, without the prelude.
type Source struct {
	Name    string // an identifier, with which the names of all entries begin
	Text    string
	Entries []string

	// NeedsTensorCores says that TensorCores precedes the text.
	NeedsTensorCores bool
}

// Variant is how kernels access operands.
type Variant uint8

const (
	// Element accesses operands at any address, element by element.
	Element Variant = iota
	// Vector accesses 16 bytes at a time: operands and their rows are aligned to 16
	// bytes, and unless the definition is flat, the number of columns is a multiple of
	// eight.
	Vector
)

func (v Variant) String() string { return [...]string{"element", "vector"}[v] }

// Limits are the properties of a device that a launch plan depends on.
type Limits struct {
	WarpWidth       int // 32 or 64
	Multiprocessors int
	SharedBytes     int // that a block may have
}

// Kernel is a definition lowered for one choice of storage formats.
type Kernel struct {
	Source  Source
	d       *def.Definition
	planner planner
	check   int // the entry of the checking pass, where the definition has indices
}

// planner makes the launch plan of one kind of kernel.
type planner interface {
	launches(p *Plan, c *lower.Call, limits Limits) error
}

// Plan replaces p by the launches that compute a call.
func (k *Kernel) Plan(p *Plan, c *lower.Call, limits Limits) error {
	p.reset()
	return k.planner.launches(p, c, limits)
}

// Compile lowers a definition for operands stored in the given formats.
func Compile(d *def.Definition, dtypes []num.DType, v Variant) (*Kernel, error) {
	if len(dtypes) != len(d.Operands) {
		return nil, fmt.Errorf("%s: got %d formats, want %d", d.Name, len(dtypes), len(d.Operands))
	}
	l := loweringOf(d.Form)
	if l == nil {
		return nil, fmt.Errorf("%s: GPUs have no kernel for a %s", d.Name, d.Form)
	}
	return l.compile(d, dtypes, v, identifier(d.Name)), nil
}

// lowering makes the kernels of one form of definition.
type lowering struct {
	name    string
	compile func(d *def.Definition, dtypes []num.DType, v Variant, name string) *Kernel
}

// loweringOf returns the lowering of a form, or nil.
func loweringOf(f def.Form) *lowering {
	switch f.(type) {
	case *def.Expression:
		return &lowering{"rowwise", compileRowwise}
	case *def.Product, *def.Fused:
		return &lowering{"fma", compileContraction}
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
		return &lowering{"stream", compileWeigh}
	case *def.StreamBackward:
		return &lowering{"stream-backward", compileWeighBackward}
	}
	return nil
}

// NameOf returns the name of the kernels of a form, or "" if there are none.
func NameOf(f def.Form) string {
	if l := loweringOf(f); l != nil {
		return l.name
	}
	return ""
}

// VariantOf returns the fastest variant that a call's operands allow.
func VariantOf(d *def.Definition, c *lower.Call) Variant {
	for i := range c.Operands {
		if !isAligned(d, &d.Operands[i], &c.Operands[i]) {
			return Element
		}
	}
	return Vector
}

// isAligned reports whether an operand can be accessed 16 bytes at a time, in groups of
// eight elements. Row values and single values are never accessed in groups.
func isAligned(d *def.Definition, o *def.Operand, a *lower.Operand) bool {
	switch {
	case o.Extent&def.PerColumn == 0:
		return true
	case a.Pointer%16 != 0:
		return false
	case !d.IsFlat() && a.Cols%8 != 0:
		return false
	}
	return a.Rows <= 1 || a.Stride*a.DType.Size()%16 == 0
}

// isContiguous reports whether the division into rows does not matter: the definition is
// flat and all operands are contiguous.
func isContiguous(d *def.Definition, operands []lower.Operand) bool {
	if !d.IsFlat() {
		return false
	}
	for i := range operands {
		a := &operands[i]
		if d.Operands[i].Extent == def.PerElement && a.Rows > 1 && a.Stride != a.Cols {
			return false
		}
	}
	return true
}
