package gpu

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

//go:embed kernels/hopper.cu
var hopperText string

// hopper plans the launches of kernels/hopper.cu.
type hopper struct{ contraction }

// The tiles of kernels/hopper.cu. Every source has entries for the first two; one for bytes has
// one for the third too, others without groups have entries for those for few rows, and others with
// groups have those of which warpgroups take turns, the narrow one instead of that above.
const (
	hopperWide = iota
	hopperNarrow
	hopperLoose // for operands of bytes that tensor maps cannot describe
	hopperFew   // for few rows, and small results
	hopperFewNarrow
	hopperTurns
	hopperTurnsNarrow
)

const (
	hopperLine      = 128 // bytes of a line in shared memory
	hopperDepth     = 64  // lines of a box that lie along the summed index
	hopperSlot      = 64 * hopperLine
	hopperBarriers  = 16
	hopperGroups    = 2 * 4 * (128 + 1) // bytes of what a block knows of 128 groups
	hopperAlignment = 1024
	mapAxes         = 3 // batch axes of a tensor map of five dimensions
)

// hopperTile is a tile, and how a block computes it.
type hopperTile struct {
	entry         int
	rows, cols    int
	stages, steps int // of the ring, and of a stage
	slots         int // for lines of results, of each warpgroup that multiplies
	hasTurns      bool
}

var hopperTiles = [...]hopperTile{
	hopperWide:        {0, 128, 256, 4, 1, 2, false},
	hopperNarrow:      {1, 128, 128, 6, 1, 2, false},
	hopperLoose:       {2, 128, 128, 6, 1, 2, false},
	hopperFew:         {2, 64, 64, 6, 2, 2, false},
	hopperFewNarrow:   {3, 64, 32, 8, 2, 2, false},
	hopperTurns:       {2, 128, 192, 4, 1, 4, true},
	hopperTurnsNarrow: {1, 128, 128, 5, 1, 4, true},
}

func (t *hopperTile) threads() int { return 128 + t.rows/64*128 }

func (t *hopperTile) shared() int {
	return t.stages*(t.steps*(t.rows+t.cols)*hopperLine+hopperBarriers) + t.rows/64*t.slots*hopperSlot + hopperGroups + hopperAlignment
}

// clocks estimates how long a launch takes, of so many tiles with so many steps of 64 along the summed index.
// Shared memory moves 128 bytes a clock: for each 16 of a step, those of both factors that arrive, and those that the
// products of 64 rows each read. It keeps a multiprocessor from 2,048 products a clock unless a tile has 256 columns.
// While all multiprocessors store, each stores about 16 bytes a clock; warpgroups that take turns store while
// the other one multiplies. All together, at whatever tile, get about 28 bytes of factors a clock each.
func (t *hopperTile) clocks(blocks, steps, resultBytes, multiprocessors int) int {
	multiprocessors = max(1, multiprocessors)
	multiply, store := steps*(2*t.rows+3*t.cols), t.rows*t.cols*resultBytes/16
	load := blocks * steps * (t.rows + t.cols) * hopperLine / 28 / multiprocessors
	rounds := tiles(blocks, multiprocessors)
	if t.hasTurns {
		return max(load, rounds*max(multiply, (multiply+store)/2)) + store
	}
	return max(load, rounds*(multiply+store))
}

// CompileHopper lowers a contraction in f16, bf16, FP8 or i8 for Hopper's tensor cores.
func CompileHopper(d *def.Definition, dtypes []num.DType) (*Kernel, error) {
	if err := takesTensorCores(d, dtypes, num.F16, num.BF16, num.E4M3, num.E5M2, num.I8); err != nil {
		return nil, err
	}
	if isOfBytes(dtypes[0]) {
		if err := TakesBytes(d); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	name := identifier(d.Name)
	entries := []string{name + "_wide", name + "_narrow"}
	of, dtypes := contractionOf(d, dtypes)
	k := &hopper{of}
	var b strings.Builder
	k.head(&b, dtypes, name, "HAS_BYTES", number(isOfBytes(dtypes[0])), "IS_INT8", number(dtypes[0] == num.I8), "IS_BF16", truth(dtypes[0] == num.BF16), "IS_E5M2", truth(dtypes[0] == num.E5M2), "NARROW_PAIR(A, B)", narrowPair(dtypes[2]))
	b.WriteString(named(hopperText, "ENTRY_WIDE", entries[hopperWide], "ENTRY_NARROW", entries[hopperNarrow], "IS_REFUSED", name+"_is_refused"))
	switch {
	case isOfBytes(dtypes[0]):
		entries = append(entries, name+"_loose")
		fmt.Fprintf(&b, looseEntry, entries[2])
	case k.grouping == lower.Ungrouped:
		for _, t := range hopperTiles[hopperFew:hopperTurns] {
			entries = append(entries, fmt.Sprintf("%s_%dx%d", name, t.rows, t.cols))
			fmt.Fprintf(&b, fewEntry, entries[t.entry], t.rows, t.cols, t.stages, t.steps)
		}
	default:
		t := &hopperTiles[hopperTurns]
		entries = append(entries, fmt.Sprintf("%s_%dx%d", name, t.rows, t.cols))
		fmt.Fprintf(&b, turnsEntry, entries[t.entry], t.rows, t.cols, t.stages, t.steps)
	}
	return k.kernel(Source{Name: name, Text: b.String(), Entries: entries, NeedsTensorCores: true}, k), nil
}

// looseEntry is the entry that formats of one byte add to kernels/hopper.cu.
const looseEntry = `
KERNEL_ALONE(%s, 384)(GRID_CONSTANT MappedParams m) {
    SHARED_DYN(char, memory);
    multiply_all<Narrow, true>(m, memory);
}
`

// fewEntry is an entry for few rows, and small results.
const fewEntry = `
KERNEL_ALONE(%s, 256)(GRID_CONSTANT MappedParams m) {
    SHARED_DYN(char, memory);
    multiply_all<Layout<%d, %d, %d, %d>>(m, memory);
}
`

// turnsEntry is an entry of which warpgroups take turns.
const turnsEntry = `
KERNEL_ALONE(%s, 384)(GRID_CONSTANT MappedParams m) {
    SHARED_DYN(char, memory);
    multiply_all<Layout<%d, %d, %d, %d, true>>(m, memory);
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

// isOfBytes reports whether a format of factors has one byte.
func isOfBytes(d num.DType) bool { return d.Size() == 1 }

// takesTensorCores returns an error for what a kernel for tensor cores does not multiply, which has factors in
// some formats.
func takesTensorCores(d *def.Definition, dtypes []num.DType, formats ...num.DType) error {
	if d.Product() == nil && d.Fused() == nil {
		return fmt.Errorf("%s: is %s, want a contraction", d.Name, d.Form)
	}
	if !slices.Contains(formats, dtypes[0]) {
		return fmt.Errorf("%s: is stored in %s, want %s", d.Name, dtypes[0], strings.ReplaceAll(strings.Trim(fmt.Sprint(formats), "[]"), " ", " or "))
	}
	return nil
}

// Why tensor cores do not multiply operands of bytes.
var (
	errMajor         = errors.New("an operand in FP8 or i8 does not have the summed index in its rows")
	errGroupedSums   = errors.New("groups divide the summed index of operands in FP8 or i8")
	errIntegerResult = errors.New("the result is not scaled, and is stored as integers")
)

// TakesBytes returns an error for a contraction whose operands tensor cores do not multiply in FP8 or i8.
func TakesBytes(d *def.Definition) error {
	if f := d.Fused(); f != nil {
		d = f.Products[0]
	}
	switch {
	case d.Product().TransposeLeft || !d.Product().TransposeRight:
		return errMajor
	case lower.GroupingOf(d) == lower.GroupedSums:
		return errGroupedSums
	case d.Ring().IsExact() && !d.HasScales():
		return errIntegerResult
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
// operands of bytes are copied otherwise.
func SuitsHopper(d *def.Definition, c *lower.Call) error {
	if f := d.Fused(); f != nil {
		var part lower.Call
		for i := range f.Products {
			bindProduct(&part, f, i, c, c.Operands[f.Result()])
			if err := SuitsHopper(f.Products[i], &part); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range 3 {
		o := &c.Operands[i]
		switch {
		case i < 2 && !isMappable(o):
			return errUnaligned
		case o.Batch.Count > mapAxes:
			return errManyAxes
		case o.Rows > math.MaxInt32-hopperLine || o.Cols > math.MaxInt32-hopperLine:
			return errTooLarge
		}
	}
	return nil
}

// FewRows is the number of rows up to which products take the time of reading the right
// operand, for which there are narrower tiles.
const FewRows = 64

// fewestRows is the number of rows up to which a tile of 64 rows has too much to do for
// nothing.
const fewestRows = 32

// YieldsToMMA reports whether the products of a call, on the average of its groups, have so few
// rows that kernels/mma.cu is faster than kernels/hopper.cu.
func YieldsToMMA(d *def.Definition, c *lower.Call) bool {
	var z lower.Products
	z.SetCall(d, c)
	switch lower.GroupingOf(d) {
	case lower.Ungrouped:
		return z.Rows <= fewestRows
	case lower.GroupedRows:
		return z.Rows <= FewRows*z.Groups
	}
	return z.Rows <= FewRows
}

// launches implements planner.
func (k *hopper) launches(p *Plan, c *lower.Call, limits Limits) error {
	err := SuitsHopper(k.d, c)
	isLoose := err != nil && isOfBytes(c.Operands[k.d.Product().Left].DType)
	if err != nil && !isLoose {
		return fmt.Errorf("%s: %w", k.d.Name, err)
	}
	z := &p.products
	z.SetCall(k.d, c)
	left, right, result := c.OfProduct(k.d)
	hasFew := k.grouping == lower.Ungrouped && !isOfBytes(left.DType)
	t := &hopperTiles[hopperWide]
	g := k.divide(z, t.rows, t.cols)
	switch {
	case isLoose:
		t = &hopperTiles[hopperLoose]
	case k.grouping != lower.Ungrouped && !isOfBytes(left.DType):
		if k.ends == nil && !isMappable(result) {
			break // warpgroups that take turns store boxes
		}
		t = k.tileOfGroups(z, result.DType.Size(), limits.Multiprocessors)
	case hasFew && z.Rows <= FewRows:
		// More blocks need all rows that a box has: one that reaches beyond its operand arrives later.
		if t = &hopperTiles[hopperFewNarrow]; z.Rows < t.rows || k.divide(z, t.rows, t.cols).blocks() > limits.Multiprocessors {
			t = &hopperTiles[hopperFew]
		}
	case hasFew && 3*k.divide(z, hopperTiles[hopperNarrow].rows, hopperTiles[hopperNarrow].cols).blocks() <= limits.Multiprocessors:
		t = &hopperTiles[hopperFew] // four times as many blocks
	case 2*g.blocks() <= limits.Multiprocessors || z.Cols <= hopperTiles[hopperNarrow].cols: // more blocks, so that all have work
		t = &hopperTiles[hopperNarrow]
	}
	g = k.divide(z, t.rows, t.cols)
	if err := k.checkTiles(z, g); err != nil {
		return err
	}
	blocks := min(g.blocks(), max(1, limits.Multiprocessors))
	p.launch(t.entry, [3]uint32{uint32(blocks), 1, 1}, [3]uint32{uint32(t.threads()), 1, 1}, t.shared())
	lines := func(isTransposed bool, all int) int { // of a box: along the summed index, or all of a tile
		if isTransposed {
			return hopperDepth
		}
		return all
	}
	across := hopperLine / right.DType.Size() // of a box of the right operand
	if !k.d.Product().TransposeRight {
		across = min(across, t.cols)
	}
	hasResult := k.ends == nil && isMappable(result) && !isLoose && t.cols*result.DType.Size() >= hopperLine
	if isLoose {
		p.pad(2 * MapBytes)
	} else {
		k.addMap(p, left, &z.Left, hopperLine/left.DType.Size(), lines(k.d.Product().TransposeLeft, t.rows))
		k.addMap(p, right, &z.Right, across, lines(!k.d.Product().TransposeRight, t.cols))
	}
	if hasResult {
		k.addMap(p, result, &z.Result, hopperLine/result.DType.Size(), 64)
	} else {
		p.pad(MapBytes)
	}
	p.half(uint32(g.blocks()))
	p.bools(hasResult)
	k.params(p, c, g)
	p.align(64)
	return nil
}

// tileOfGroups returns the tile that takes the least time, for groups of about equal length.
func (k *hopper) tileOfGroups(z *lower.Products, resultBytes, multiprocessors int) *hopperTile {
	var best *hopperTile
	least := 0
	for _, i := range [...]int{hopperWide, hopperTurns, hopperTurnsNarrow} {
		t := &hopperTiles[i]
		g, depth := k.divide(z, t.rows, t.cols), z.Depth
		if k.grouping == lower.GroupedRows {
			g.rows = tiles(z.Rows+z.Groups*t.rows/2, t.rows) // half of a tile of each group has no rows
		} else {
			depth = z.Depth / z.Groups
		}
		if n := t.clocks(g.blocks(), tiles(depth, hopperDepth), resultBytes, multiprocessors); best == nil || n < least {
			best, least = t, n
		}
	}
	return best
}

// isMappable reports whether a tensor map can describe an operand: rows begin and end at
// multiples of 16 bytes. Copies move whole pieces of 16 bytes, also beyond the end of a row.
func isMappable(o *lower.Operand) bool { return isVector(o) && o.Cols*o.DType.Size()%16 == 0 }

// addMap adds the tensor map of an operand, with boxes of so many columns and rows.
func (k *contraction) addMap(p *Plan, o *lower.Operand, w *lower.Walk, cols, rows int) {
	size := o.DType.Size()
	m := TensorMap{Address: o.Pointer, ElementBytes: size, Rank: 2,
		Sizes:   [5]uint64{uint64(o.Cols), uint64(o.Rows / o.Matrices())},
		Strides: [4]uint64{rowBytes(o)},
		Box:     [5]uint32{uint32(cols), uint32(rows)},
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
