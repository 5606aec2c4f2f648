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
type contraction struct{ d *def.Definition }

// The entries of kernels/gemm.cu, in their order.
const (
	gemmLarge = iota // tiles of 128×128
	gemmSmall        // tiles of 64×64
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
	)
	b.WriteByte('\n')
	b.WriteString(named(gemmText, "ENTRY_LARGE", entries[gemmLarge], "ENTRY_SMALL", entries[gemmSmall]))
	return &Kernel{Source: Source{Name: name, Text: b.String(), Entries: entries}, d: d, planner: &contraction{d}}
}

// named gives the entries of a source their names.
func named(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }

// isVector reports whether every row of an operand begins at a multiple of 16 bytes.
func isVector(o *lower.Operand) bool {
	return o.Pointer%16 == 0 && (o.Rows <= 1 || o.Stride*o.DType.Size()%16 == 0)
}

func tiles(n, size int) int { return (n + size - 1) / size }

// launches implements planner.
func (k *contraction) launches(p *Plan, c *lower.Call, limits Limits) error {
	left, right, result := &c.Operands[0], &c.Operands[1], &c.Operands[2]
	depth := left.Cols
	if k.d.TransposeLeft {
		depth = left.Rows
	}
	entry, size := gemmLarge, 128
	if tiles(result.Rows, size)*tiles(result.Cols, size) < limits.Multiprocessors {
		entry, size = gemmSmall, 64 // more blocks, so that all have work
	}
	rows, cols := tiles(result.Rows, size), tiles(result.Cols, size)
	if rows > math.MaxInt32/cols {
		return fmt.Errorf("%s: %d×%d is too large: it has more than 2^31 tiles", k.d.Name, result.Rows, result.Cols)
	}
	p.launch(entry, [3]uint32{uint32(rows * cols), 1, 1}, [3]uint32{128, 1, 1}, 0)
	p.pointers(left.Pointer, right.Pointer, result.Pointer)
	p.ints(left.Stride, right.Stride, result.Stride, result.Rows, result.Cols, depth, rows, cols)
	p.bools(isVector(left), isVector(right), isVector(result), false)
	return nil
}
