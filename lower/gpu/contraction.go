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

//go:embed kernels/product.cu
var productText string

//go:embed kernels/gemm.cu
var gemmText string

// contraction is what the kernels of matrix products share: the head of their sources, and
// the parameters of their launches (kernels/product.cu).
type contraction struct {
	d        *def.Definition
	grouping lower.Grouping
	ends     *ends // the expression in which products like d end, or nil
}

// contractionOf returns a contraction, or the first of the products that end in an expression, and the formats of
// its operands.
func contractionOf(d *def.Definition, dtypes []num.DType) (contraction, []num.DType) {
	f := d.Fused()
	if f == nil {
		return contraction{d: d, grouping: lower.GroupingOf(d)}, dtypes
	}
	var own []num.DType
	for _, at := range f.Factors[0] {
		if at < 0 {
			own = append(own, num.F32)
		} else {
			own = append(own, dtypes[at])
		}
	}
	return contraction{f.Products[0], lower.GroupingOf(f.Products[0]), newEnds(d, dtypes)}, own
}

// chains plans the launches of kernels/gemm.cu.
type chains struct{ contraction }

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

func compileContraction(d *def.Definition, dtypes []num.DType, _ Variant, name string) *Kernel {
	if d.Ring().IsExact() {
		return compileRing(d, dtypes, name)
	}
	entries := []string{name + "_large", name + "_small"}
	of, dtypes := contractionOf(d, dtypes)
	k := &chains{of}
	var b strings.Builder
	k.head(&b, dtypes, name, "WIDEN(PATTERN)", fmt.Sprintf("widen_%s(PATTERN)", dtypes[0]))
	b.WriteString(named(gemmText, "ENTRY_LARGE", entries[gemmLarge], "ENTRY_SMALL", entries[gemmSmall]))
	return k.kernel(Source{Name: name, Text: b.String(), Entries: entries}, k)
}

// head writes what precedes a kernel: the definition, its types and macros, and
// kernels/product.cu.
func (k *contraction) head(b *strings.Builder, dtypes []num.DType, name string, more ...string) {
	if k.ends != nil {
		heading(b, k.ends.outer, k.ends.formats)
	} else {
		heading(b, k.d, dtypes)
	}
	out := dtypes[2]
	fmt.Fprintf(b, "typedef %s Input;\ntypedef %s Output;\n", dtypes[0], out)
	macros(b, more...)
	if out.IsFloat() {
		macros(b, "LOAD_OUTPUT(AT)", fmt.Sprintf("load_%s(AT)", out), "STORE_OUTPUT(AT, X)", fmt.Sprintf("store_%s(AT, X)", out))
	}
	macros(b,
		"TRANSPOSE_LEFT", truth(k.d.Product().TransposeLeft),
		"TRANSPOSE_RIGHT", truth(k.d.Product().TransposeRight),
		"ACCUMULATE", truth(k.d.Accumulates()),
		"HAS_AXES", number(k.d.HasAxes()),
		"GROUPED", fmt.Sprint(int(k.grouping)),
		"SCALED", number(k.d.HasScales()),
		"FUSED", number(k.ends != nil),
	)
	if k.d.HasAxes() {
		macros(b, "MAX_AXES", fmt.Sprint(num.MaxBatchAxes))
	}
	b.WriteByte('\n')
	if k.grouping != lower.Ungrouped {
		b.WriteString(checkSource(k.d, name) + "\n")
	}
	if k.ends != nil {
		b.WriteString(k.ends.source())
	}
	b.WriteString(named(productText, "IS_REFUSED", name+"_is_refused") + "\n")
}

// kernel returns the kernel of a source, to whose entries it adds the checking pass.
func (k *contraction) kernel(s Source, p planner) *Kernel {
	made := &Kernel{d: k.d, planner: p, check: len(s.Entries)}
	if k.ends != nil {
		made.d, made.planner = k.ends.outer, &ending{k.ends, p}
	}
	if k.grouping != lower.Ungrouped {
		s.Entries = append(s.Entries, s.Name+"_check")
	}
	made.Source = s
	return made
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

// grid is how the result of a contraction is divided into tiles.
type grid struct{ products, rows, cols int }

func (g grid) blocks() int { return g.products * g.rows * g.cols }

// divide divides the result into tiles of rows × cols.
func (k *contraction) divide(z *lower.Products, rows, cols int) grid {
	g := grid{z.Count, tiles(z.Rows, rows), tiles(z.Cols, cols)}
	if k.grouping == lower.GroupedRows {
		g.products, g.rows = z.PerGroup, lower.GroupSlots(z.Rows, rows, z.Groups)
	}
	return g
}

// checkTiles returns an error if there are more tiles than a grid has blocks.
func (k *contraction) checkTiles(z *lower.Products, g grid) error {
	if g.rows > math.MaxInt32/g.cols || g.products > math.MaxInt32/(g.rows*g.cols) {
		return fmt.Errorf("%s: %d products of %d×%d are too large: they have more than 2^31 tiles", k.d.Name, g.products, z.Rows, z.Cols)
	}
	return nil
}

// launch plans one launch, in which each block computes a tile.
func (k *contraction) launch(p *Plan, c *lower.Call, g grid, entry, threads, shared int) error {
	if err := k.checkTiles(&p.products, g); err != nil {
		return err
	}
	p.launch(entry, [3]uint32{uint32(g.blocks()), 1, 1}, [3]uint32{uint32(threads), 1, 1}, shared)
	k.params(p, c, g)
	return nil
}

// isVector reports whether every row that a tile reads of a factor begins at a multiple of 16
// bytes. Groups that begin at any column of an operand begin at any address.
func (k *contraction) isVector(c *lower.Call, factor int) bool {
	isMoved := k.grouping == lower.GroupedRows && factor == 0 && k.d.Product().TransposeLeft
	if k.grouping == lower.GroupedSums {
		isMoved = factor == 0 && !k.d.Product().TransposeLeft || factor == 1 && k.d.Product().TransposeRight
	}
	return !isMoved && isVector(&c.Operands[factor])
}

// params adds the parameters of kernels/product.cu.
func (k *contraction) params(p *Plan, c *lower.Call, g grid) {
	left, right, result := c.OfProduct(k.d)
	z := &p.products
	p.pointer(left.Pointer)
	p.pointer(right.Pointer)
	p.pointer(result.Pointer)
	p.ints(left.Stride, right.Stride, result.Stride, z.Rows, z.Cols, z.Depth, g.rows, g.cols)
	p.bools(k.isVector(c, 0), k.isVector(c, 1), isVector(result), false)
	if k.d.HasAxes() {
		p.walk(&z.Left)
		p.walk(&z.Right)
		p.walk(&z.Result)
	}
	if k.grouping != lower.Ungrouped {
		p.pointers(c.OffsetsOf(k.d).Pointer)
		p.ints(z.Groups, z.PerGroup)
		p.refused()
	}
	if k.d.HasScales() {
		k.scales(p, c)
	}
	if k.ends != nil {
		k.ends.params(p)
	}
}

// scales writes where the scales lie.
func (k *contraction) scales(p *Plan, c *lower.Call) {
	var pointers [2]uint64
	var strides [2]int
	for n, name := range [...]string{k.d.Scales().Row, k.d.Scales().Col} {
		if i := k.d.Operand(name); i >= 0 {
			pointers[n], strides[n] = c.Operands[i].Pointer, c.Operands[i].Stride
		}
	}
	p.pointers(pointers[0], pointers[1])
	p.ints(strides[0], strides[1])
}

// launches implements planner.
func (k *chains) launches(p *Plan, c *lower.Call, limits Limits) error {
	z := &p.products
	z.SetCall(k.d, c)
	large := k.divide(z, 128, 128)
	if large.blocks() < limits.Multiprocessors {
		return k.launch(p, c, k.divide(z, 64, 64), gemmSmall, 128, 0) // more blocks, so that all have work
	}
	return k.launch(p, c, large, gemmLarge, 128, 0)
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
