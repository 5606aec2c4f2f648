package gpu

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strings"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

//go:embed kernels/hopper.cu
var hopperText string

// hopper plans the launches of kernels/hopper.cu.
type hopper struct{ contraction }

// The entries of kernels/hopper.cu, in their order.
const (
	hopperWide = iota
	hopperNarrow
	hopperLoose // for operands in FP8 that tensor maps cannot describe
)

// The tiles of kernels/hopper.cu.
const (
	hopperRows, hopperDepth = 128, 64
	hopperThreads           = 384
	hopperLine              = 128 // bytes of a line in shared memory
	hopperSlots             = 4 * 64 * hopperLine
	hopperBarriers          = 16
	hopperAlignment         = 1024
	mapAxes                 = 3 // batch axes of a tensor map of five dimensions
)

// hopperTiles are the columns of a tile and the stages of the ring, by entry.
var hopperTiles = [...]struct{ cols, stages int }{hopperWide: {256, 4}, hopperNarrow: {128, 6}, hopperLoose: {128, 6}}

func hopperShared(entry int) int {
	t := hopperTiles[entry]
	return t.stages*((hopperRows+t.cols)*hopperLine+hopperBarriers) + hopperSlots + hopperAlignment
}

// CompileHopper lowers a contraction in f16, bf16 or FP8 for Hopper's tensor cores.
func CompileHopper(d *def.Definition, dtypes []num.DType) (*Kernel, error) {
	if dtypes[0].IsFP8() {
		if err := TakesFP8(d); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
	} else if err := takesTensorCores(d, dtypes); err != nil {
		return nil, err
	}
	name := identifier(d.Name)
	entries := []string{name + "_wide", name + "_narrow"}
	k := &hopper{contraction{d, lower.GroupingOf(d)}}
	var b strings.Builder
	k.head(&b, dtypes, name, "IS_FP8", number(dtypes[0].IsFP8()), "IS_BF16", truth(dtypes[0] == num.BF16), "IS_E5M2", truth(dtypes[0] == num.E5M2), "NARROW_PAIR(A, B)", narrowPair(dtypes[2]))
	b.WriteString(named(hopperText, "ENTRY_WIDE", entries[hopperWide], "ENTRY_NARROW", entries[hopperNarrow], "IS_REFUSED", name+"_is_refused"))
	if dtypes[0].IsFP8() {
		entries = append(entries, name+"_loose")
		fmt.Fprintf(&b, looseEntry, entries[hopperLoose])
	}
	return k.kernel(Source{Name: name, Text: b.String(), Entries: entries, NeedsTensorCores: true}, k), nil
}

// looseEntry is the entry that FP8 adds to kernels/hopper.cu.
const looseEntry = `
KERNEL_ALONE(%s, THREADS)(GRID_CONSTANT MappedParams m) {
    SHARED_DYN(char, memory);
    multiply_all<Layout<128, 6>, true>(m, memory);
}
`

// narrowPair is the prelude's function that rounds a pair of results; results in f32 need
// none.
func narrowPair(d num.DType) string {
	if d == num.F32 {
		return "0u"
	}
	return fmt.Sprintf("narrow_pair_%s(A, B)", d)
}

// takesTensorCores returns an error for what tensor cores do not multiply.
func takesTensorCores(d *def.Definition, dtypes []num.DType) error {
	if d.Kind != def.KindContraction {
		return fmt.Errorf("%s: is %s, want a contraction", d.Name, d.Kind)
	}
	if dtypes[0] != num.F16 && dtypes[0] != num.BF16 {
		return fmt.Errorf("%s: is stored in %s, want f16 or bf16", d.Name, dtypes[0])
	}
	return nil
}

// Why kernels/hopper.cu does not multiply operands in FP8.
var (
	errMajor       = errors.New("an operand in FP8 does not have the summed index in its rows")
	errGroupedSums = errors.New("groups divide the summed index of operands in FP8")
)

// TakesFP8 returns an error for a contraction whose operands Hopper's tensor cores do not
// multiply in FP8.
func TakesFP8(d *def.Definition) error {
	switch {
	case d.TransposeLeft || !d.TransposeRight:
		return errMajor
	case lower.GroupingOf(d) == lower.GroupedSums:
		return errGroupedSums
	}
	return nil
}

// Why kernels/hopper.cu does not compute a call.
var (
	errUnaligned = errors.New("rows of an operand do not begin and end at multiples of 16 bytes")
	errManyAxes  = errors.New("an operand has more than three batch axes")
	errTooLarge  = errors.New("a matrix has 2^31 rows or columns or more")
)

// SuitsHopper returns an error for a call whose operands tensor maps cannot describe. Such
// operands in FP8 are copied otherwise.
func SuitsHopper(c *lower.Call) error {
	for i := range 3 {
		o := &c.Operands[i]
		switch {
		case i < 2 && !isMappable(o):
			return errUnaligned
		case o.Batch.Count > mapAxes:
			return errManyAxes
		case o.Rows > math.MaxInt32-hopperRows || o.Cols > math.MaxInt32-hopperLine:
			return errTooLarge
		}
	}
	return nil
}

// FewRows is the number of rows up to which products take the time of reading the right
// operand, for which kernels/mma.cu has narrower tiles.
const FewRows = 64

// HasFewRows reports whether the products of a call have few rows, on the average of its
// groups.
func HasFewRows(d *def.Definition, c *lower.Call) bool {
	var z lower.Products
	z.Set(d, &c.Operands[0].Array, &c.Operands[1].Array, &c.Operands[2].Array)
	if lower.GroupingOf(d) == lower.GroupedRows {
		return z.Rows <= FewRows*z.Groups
	}
	return z.Rows <= FewRows
}

// launches implements planner.
func (k *hopper) launches(p *Plan, c *lower.Call, limits Limits) error {
	err := SuitsHopper(c)
	isLoose := err != nil && c.Operands[0].DType.IsFP8()
	if err != nil && !isLoose {
		return fmt.Errorf("%s: %w", k.d.Name, err)
	}
	z := &p.products
	z.Set(k.d, &c.Operands[0].Array, &c.Operands[1].Array, &c.Operands[2].Array)
	entry := hopperWide
	g := k.divide(z, hopperRows, hopperTiles[entry].cols)
	if isLoose || 2*g.blocks() <= limits.Multiprocessors || z.Cols <= hopperTiles[hopperNarrow].cols {
		if entry = hopperNarrow; isLoose { // more blocks, so that all have work
			entry = hopperLoose
		}
		g = k.divide(z, hopperRows, hopperTiles[entry].cols)
	}
	if err := k.checkTiles(z, g); err != nil {
		return err
	}
	blocks := min(g.blocks(), max(1, limits.Multiprocessors))
	p.launch(entry, [3]uint32{uint32(blocks), 1, 1}, [3]uint32{hopperThreads, 1, 1}, hopperShared(entry))
	left, right, result := &c.Operands[0], &c.Operands[1], &c.Operands[2]
	lines := func(isTransposed bool, all int) int { // of a box: along the summed index, or all of a tile
		if isTransposed {
			return hopperDepth
		}
		return all
	}
	hasResult := isMappable(result) && !isLoose
	if isLoose {
		p.pad(2 * MapBytes)
	} else {
		k.addMap(p, left, &z.Left, lines(k.d.TransposeLeft, hopperRows))
		k.addMap(p, right, &z.Right, lines(!k.d.TransposeRight, hopperTiles[entry].cols))
	}
	if hasResult {
		k.addMap(p, result, &z.Result, 64)
	} else {
		p.pad(MapBytes)
	}
	p.half(uint32(g.blocks()))
	p.bools(hasResult)
	k.params(p, c, g)
	p.align(64)
	return nil
}

// isMappable reports whether a tensor map can describe an operand: rows begin and end at
// multiples of 16 bytes. Copies move whole pieces of 16 bytes, also beyond the end of a row.
func isMappable(o *lower.Operand) bool { return isVector(o) && o.Cols*o.DType.Size()%16 == 0 }

// addMap adds the tensor map of an operand, whose boxes have a line of so many rows.
func (k *contraction) addMap(p *Plan, o *lower.Operand, w *lower.Walk, rows int) {
	size := o.DType.Size()
	m := TensorMap{Address: o.Pointer, ElementBytes: size, Rank: 2,
		Sizes:   [5]uint64{uint64(o.Cols), uint64(o.Rows / o.Matrices())},
		Strides: [4]uint64{rowBytes(o)},
		Box:     [5]uint32{uint32(hopperLine / size), uint32(rows)},
	}
	if k.d.HasAxes() {
		m.Rank = 5
		for i := range m.Sizes[2:] {
			m.Sizes[2+i], m.Strides[1+i], m.Box[2+i] = 1, 16, 1
			if i < w.Count && w.Axes[i].Stride != 0 { // a matrix that is repeated lies in one place
				m.Sizes[2+i], m.Strides[1+i] = uint64(w.Axes[i].Size), uint64(w.Axes[i].Stride*size)
			}
		}
	}
	p.tensorMap(&m)
}

// rowBytes returns the bytes from one row of an operand to the next; where there is but
// one row, any multiple of 16.
func rowBytes(o *lower.Operand) uint64 {
	if o.Rows <= o.Matrices() {
		return uint64(o.Cols*o.DType.Size()+15) / 16 * 16
	}
	return uint64(o.Stride * o.DType.Size())
}
