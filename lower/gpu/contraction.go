package gpu

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"tokitai/def"
	"tokitai/num"
)

//go:embed kernels/gemm.cu
var gemmText string

// contraction plans the launches of kernels/gemm.cu.
type contraction struct {
	d     *def.Definition
	large string // entry with tiles of 128×128
	small string // entry with tiles of 64×64
}

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
	p := &contraction{d: d, large: name + "_large", small: name + "_small"}
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
	b.WriteString(named(gemmText, "ENTRY_LARGE", p.large, "ENTRY_SMALL", p.small))
	return &Kernel{Source: Source{Name: name, Text: b.String(), Entries: []string{p.large, p.small}}, plan: p}
}

// named gives the entries of a source their names.
func named(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }

// isVector reports whether every row of an operand begins at a multiple of 16 bytes.
func isVector(o *Operand) bool {
	return o.Pointer%16 == 0 && (o.Rows <= 1 || o.Stride*o.DType.Size()%16 == 0)
}

// words packs values of eight bytes.
func words(values ...any) []byte {
	var b []byte
	for _, v := range values {
		switch v := v.(type) {
		case uint64:
			b = binary.LittleEndian.AppendUint64(b, v)
		case int:
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		case bool: // an int32, which has a neighbour
			n := uint32(0)
			if v {
				n = 1
			}
			b = binary.LittleEndian.AppendUint32(b, n)
		default:
			panic(fmt.Sprintf("gpu: no packing for %T", v))
		}
	}
	return b
}

func tiles(n, size int) int { return (n + size - 1) / size }

func (p *contraction) launches(operands []Operand, _ []float64, limits Limits) ([]Launch, int64, error) {
	left, right, result := &operands[0], &operands[1], &operands[2]
	depth := left.Cols
	if p.d.TransposeLeft {
		depth = left.Rows
	}
	entry, size := p.large, 128
	if tiles(result.Rows, size)*tiles(result.Cols, size) < limits.Multiprocessors {
		entry, size = p.small, 64 // more blocks, so that all have work
	}
	rows, cols := tiles(result.Rows, size), tiles(result.Cols, size)
	if rows > math.MaxInt32/cols {
		return nil, 0, fmt.Errorf("%s: %d×%d is too large: it has more than 2^31 tiles", p.d.Name, result.Rows, result.Cols)
	}
	return []Launch{{
		Entry: entry,
		Grid:  [3]uint32{uint32(rows * cols), 1, 1}, Block: [3]uint32{128, 1, 1},
		Params: words(left.Pointer, right.Pointer, result.Pointer, left.Stride, right.Stride, result.Stride,
			result.Rows, result.Cols, depth, rows, cols, isVector(left), isVector(right), isVector(result), false),
	}}, 0, nil
}
