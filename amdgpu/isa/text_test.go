package isa

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tokitai/internal/tool"
)

var update = flag.Bool("update", false, "have LLVM write testdata again")

// example is a line of testdata: the words of an instruction and its text.
type example struct {
	words []uint32
	text  string
}

// examples returns the lines of an architecture's file.
func examples(t testing.TB, arch string) (list []example) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", arch+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var e example
		words, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		for _, w := range strings.Fields(words) {
			x, err := strconv.ParseUint(w, 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			e.words = append(e.words, uint32(x))
		}
		e.text = text
		list = append(list, e)
	}
	return list
}

// bytes returns the example's code.
func (e example) bytes() (code []byte) {
	for _, w := range e.words {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	return code
}

// TestText decodes instructions whose text LLVM has written: one of every row of the tables,
// and one with every modifier of every encoding.
func TestText(t *testing.T) {
	for _, name := range []string{"gfx1100", "gfx1150", "gfx942", "gfx90a"} {
		t.Run(name, func(t *testing.T) {
			a, err := Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				writeExamples(t, a)
			}
			list := examples(t, name)
			covered := map[string]bool{}
			for _, e := range list {
				got, err := Decode(a, e.bytes(), 0)
				switch {
				case err != nil:
					t.Errorf("%08x: %v; want %q", e.words, err, e.text)
				case len(got) != 1 || got[0].String() != e.text:
					t.Errorf("%08x: got %q, want %q", e.words, got, e.text)
				default:
					in := &got[0]
					covered[in.Encoding.String()+" "+in.Name] = true
					if in.Second != nil {
						covered[in.Encoding.String()+" "+in.Second.Name] = true
					}
				}
			}
			table, err := tableOf(a)
			if err != nil {
				t.Fatal(err)
			}
			for e := range encodings {
				for opcode, f := range table[e] {
					if f != nil && !covered[e.String()+" "+f.name] && (name == "gfx1100" || name == "gfx942") {
						t.Errorf("%s %d %s: no example", e, opcode, f.name)
					}
				}
			}
		})
	}
}

// feature matches what an example may be the first of its encoding to have.
var feature = regexp.MustCompile(`\b(clamp|glc|slc|dlc|sc0|sc1|nt|scc|gds|offen|idxen|off|vcc|exec|m0|null|ttmp|row_mirror|row_half_mirror)\b` +
	`| [a-z_]\w+:|[a-z_]*\(|src_[a-z_]+|\||-v|-s|\.h|\d\.\d|0x`)

// writeExamples has LLVM write an architecture's file. The files of gfx1150 and gfx90a have the
// rows that those of gfx1100 and gfx942 do not.
func writeExamples(t *testing.T, a Architecture) {
	mc := tool.Need(t, "llvm-mc-22")
	table, err := tableOf(a)
	if err != nil {
		t.Fatal(err)
	}
	base := table
	if other, ok := map[string]string{"gfx1150": "gfx1100", "gfx90a": "gfx942"}[a.Name]; ok {
		if base, err = tableOf(Architecture{other, a.Family}); err != nil {
			t.Fatal(err)
		}
	}
	var words [][]uint32
	var rows []string
	var isNew []bool
	for e := range encodings {
		for opcode, f := range table[e] {
			if f == nil {
				continue
			}
			b := base.find(e, opcode)
			g := &generator{rand.New(rand.NewPCG(uint64(e), uint64(opcode))), a}
			for range 16 {
				w := g.words(f, e)
				_, n, _ := decodeOne(a, w)
				words = append(words, w[:n])
				rows = append(rows, fmt.Sprint(e, opcode))
				isNew = append(isNew, base == table || b == nil || b.name != f.name)
			}
		}
	}
	seen := map[string]bool{}
	lines := []string{"# Instructions of " + a.Name + " and what LLVM's disassembler says of them."}
	for i, d := range disassemble(t, mc, a.Name, words) {
		if d.text == "" || strings.Contains(d.text, "/*") || isFaulty(a.Family, d.text) {
			continue
		}
		encoding := strings.TrimRight(rows[i], "0123456789")
		features := []string{}
		if isNew[i] {
			features = append(features, rows[i])
		}
		if base == table || a.Name == "gfx90a" {
			_, operands, _ := strings.Cut(d.text, " ")
			for _, m := range feature.FindAllString(operands, -1) {
				features = append(features, encoding+" "+m)
			}
		}
		isFirst := false
		for _, f := range features {
			isFirst = isFirst || !seen[f]
			seen[f] = true
		}
		if isFirst {
			lines = append(lines, strings.Trim(fmt.Sprintf("%08x", words[i]), "[]")+"\t"+d.text)
		}
	}
	if err := os.MkdirAll("testdata", 0o777); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(slices.Compact(lines), "\n") + "\n"
	if err := os.WriteFile(filepath.Join("testdata", a.Name+".txt"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}
