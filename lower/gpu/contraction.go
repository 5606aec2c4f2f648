package gpu

import (
	_ "embed"
	"fmt"
	"math"
	"strings"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

//go:embed kernels/gemm.cu
var gemmText string

// contraction plans the launches of kernels/gemm.cu.
type contraction struct {
	d        *def.Definition
	grouping lower.Grouping
}

// The entries of kernels/gemm.cu, in their order.
const (
	gemmLarge = iota // tiles of 128×128
	gemmSmall        // tiles of 64×64
	gemmCheck        // of the offsets of groups
)

// macros writes one #define a line.
func macros(b *strings.Builder, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(b, "#define %s %s\n", pairs[i], pairs[i+1])
	}
}

// heading is the definition as a comment.
func heading(b *strings.Builder, d *def.Definition, dtypes []num.DType) {
	for _, line := range strings.Split(strings.TrimSpace(d.Text()), "\n") {
		fmt.Fprintf(b, "// %s\n", line)
	}
	b.WriteString("//\n// Stored as:")
	for i, o := range d.Operands {
		fmt.Fprintf(b, " %s %s", o.Name, dtypes[i])
		if i+1 < len(dtypes) {
			b.WriteByte(',')
		}
	}
	b.WriteString(".\n\n")
}

func truth(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// width is the number in the names of the prelude's groups.
func width(d num.DType) int { return 8 * d.Size() }

func compileContraction(d *def.Definition, dtypes []num.DType, name string) *Kernel {
	entries := []string{name + "_large", name + "_small"}
	in, out := dtypes[0], dtypes[2]
	k := &contraction{d: d, grouping: lower.GroupingOf(d)}
	var b strings.Builder
	heading(&b, d, dtypes)
	fmt.Fprintf(&b, "typedef %s Input;\ntypedef %s Output;\n", in, out)
	macros(&b,
		"WIDEN(PATTERN)", fmt.Sprintf("widen_%s(PATTERN)", in),
		"LOAD_OUTPUT(AT)", fmt.Sprintf("load_%s(AT)", out),
		"STORE_OUTPUT(AT, X)", fmt.Sprintf("store_%s(AT, X)", out),
		"TRANSPOSE_LEFT", truth(d.TransposeLeft),
		"TRANSPOSE_RIGHT", truth(d.TransposeRight),
		"ACCUMULATE", truth(d.Accumulate),
		"HAS_AXES", number(d.HasAxes()),
		"GROUPED", fmt.Sprint(int(k.grouping)),
	)
	if d.HasAxes() {
		macros(&b, "MAX_AXES", fmt.Sprint(num.MaxBatchAxes))
	}
	b.WriteByte('\n')
	if k.grouping != lower.Ungrouped {
		b.WriteString(checkSource(d, name) + "\n")
		entries = append(entries, name+"_check")
	}
	b.WriteString(named(gemmText, "ENTRY_LARGE", entries[gemmLarge], "ENTRY_SMALL", entries[gemmSmall], "IS_REFUSED", name+"_is_refused"))
	return &Kernel{Source: Source{Name: name, Text: b.String(), Entries: entries}, d: d, planner: k, check: gemmCheck}
}

// named gives the entries of a source their names.
func named(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }

// isVector reports whether every row of an operand begins at a multiple of 16 bytes.
func isVector(o *lower.Operand) bool {
	size := o.DType.Size()
	for i := range o.Batch.Count {
		if o.Batch.Axes[i].Stride*size%16 != 0 {
			return false
		}
	}
	return o.Pointer%16 == 0 && (o.Rows <= o.Matrices() || o.Stride*size%16 == 0)
}

func tiles(n, size int) int { return (n + size - 1) / size }

// launches implements planner.
func (k *contraction) launches(p *Plan, c *lower.Call, limits Limits) error {
	left, right, result := &c.Operands[0], &c.Operands[1], &c.Operands[2]
	z := &p.products
	z.Set(k.d, &left.Array, &right.Array, &result.Array)
	count := z.Count
	if k.grouping == lower.GroupedRows {
		count = z.PerGroup
	}
	down := func(size int) int {
		if k.grouping == lower.GroupedRows {
			return lower.GroupSlots(z.Rows, size, z.Groups)
		}
		return tiles(z.Rows, size)
	}
	entry, size := gemmLarge, 128
	if count*down(size)*tiles(z.Cols, size) < limits.Multiprocessors {
		entry, size = gemmSmall, 64 // more blocks, so that all have work
	}
	rows, cols := down(size), tiles(z.Cols, size)
	if rows > math.MaxInt32/cols || count > math.MaxInt32/(rows*cols) {
		return fmt.Errorf("%s: %d products of %d×%d are too large: they have more than 2^31 tiles", k.d.Name, count, z.Rows, z.Cols)
	}
	p.launch(entry, [3]uint32{uint32(count * rows * cols), 1, 1}, [3]uint32{128, 1, 1}, 0)
	p.pointers(left.Pointer, right.Pointer, result.Pointer)
	p.ints(left.Stride, right.Stride, result.Stride, z.Rows, z.Cols, z.Depth, rows, cols)
	// Groups that begin at any column of an operand begin at any address.
	isMoved := func(transpose bool, divided lower.Grouping) bool { return k.grouping == divided && transpose }
	p.bools(
		isVector(left) && !isMoved(k.d.TransposeLeft, lower.GroupedRows) && !isMoved(!k.d.TransposeLeft, lower.GroupedSums),
		isVector(right) && !isMoved(k.d.TransposeRight, lower.GroupedSums),
		isVector(result), false)
	if k.d.HasAxes() {
		p.walk(&z.Left)
		p.walk(&z.Right)
		p.walk(&z.Result)
	}
	if k.grouping != lower.Ungrouped {
		p.pointers(c.Operands[3].Pointer)
		p.ints(z.Groups, z.PerGroup)
		p.refused()
	}
	return nil
}

// walk writes where the matrices of an operand begin; axes that it does not have are of
// size 1.
func (p *Plan) walk(w *lower.Walk) {
	axis := func(i int) lower.WalkAxis {
		if i < w.Count {
			return w.Axes[i]
		}
		return lower.WalkAxis{Divisor: 1, Size: 1}
	}
	for i := range w.Axes {
		p.ints(axis(i).Divisor)
	}
	for i := range w.Axes {
		p.ints(axis(i).Size)
	}
	for i := range w.Axes {
		p.ints(axis(i).Stride)
	}
}
