package isa

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
)

// disassembly is what LLVM says of one instruction.
type disassembly struct {
	text  string // empty if the encoding is invalid
	words int
}

const (
	fill   = 0xbf800000 // s_nop 0
	filled = 4          // fills between an instruction and the mark behind it
)

// disassemble has LLVM disassemble each of list. Behind each instruction are fills and a mark
// that tells where the next one begins.
func disassemble(t *testing.T, mc, arch string, list [][]uint32) []disassembly {
	t.Helper()
	var out []disassembly
	for part := range slices.Chunk(list, 60000) {
		out = append(out, disassemblePart(t, mc, arch, part)...)
	}
	return out
}

func disassemblePart(t *testing.T, mc, arch string, list [][]uint32) []disassembly {
	var input, problems bytes.Buffer
	for i, words := range list {
		line := slices.Concat(words, []uint32{fill, fill, fill, fill, fill | uint32(i+1)})
		for _, w := range line {
			fmt.Fprintf(&input, "%#x %#x %#x %#x ", w&0xff, w>>8&0xff, w>>16&0xff, w>>24)
		}
		input.WriteByte('\n')
	}
	command := exec.Command(mc, "--disassemble", "-triple=amdgcn", "-mcpu="+arch)
	command.Stdin = &input
	command.Stderr = &problems
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%.200s", mc, err, problems.String())
	}
	invalid := map[int]bool{}
	for line := range strings.Lines(problems.String()) {
		var number int
		if _, err := fmt.Sscanf(line, "<stdin>:%d:1: warning: invalid", &number); err == nil {
			invalid[number-1] = true
		}
	}
	out := make([]disassembly, 0, len(list))
	var seen []string
	for line := range strings.Lines(string(output)) {
		text, isInstruction := strings.CutPrefix(strings.TrimRight(line, "\n"), "\t")
		if !isInstruction || strings.HasPrefix(text, ".") {
			continue
		}
		next := len(out) + 1
		mark := fmt.Sprintf("s_nop %#x", next)
		if next <= 64 {
			mark = fmt.Sprintf("s_nop %d", next)
		}
		if text != mark {
			seen = append(seen, text)
			continue
		}
		d := disassembly{}
		if words := len(list[len(out)]); !invalid[len(out)] {
			d = disassembly{text: seen[0], words: words + filled - (len(seen) - 1)}
		}
		out = append(out, d)
		seen = seen[:0]
	}
	if len(out) != len(list) {
		t.Fatalf("%s: marks of %d instructions: want %d\n%s", mc, len(out), len(list), problems.String())
	}
	return out
}

// TestRandomAgainstLLVM makes random instructions of every row of the tables: LLVM must
// disassemble them to the same text and length, unless it says that there is no such
// instruction.
func TestRandomAgainstLLVM(t *testing.T) {
	mc := tool.Need(t, "llvm-mc-22")
	each := testlevel.Pick(4, 24, 400)
	for _, a := range []string{"gfx1100", "gfx1150", "gfx942", "gfx90a"} {
		t.Run(a, func(t *testing.T) { compareRandom(t, mc, a, each) })
	}
}

func compareRandom(t *testing.T, mc, name string, each int) {
	a, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	table, err := tableOf(a)
	if err != nil {
		t.Fatal(err)
	}
	type made struct {
		row  string
		text string
		err  error
	}
	var words [][]uint32
	var ours []made
	for e := range encodings {
		for opcode, f := range table[e] {
			if f == nil {
				continue
			}
			g := &generator{rand.New(rand.NewPCG(uint64(e), uint64(opcode))), a}
			for range each {
				w := g.words(f, e)
				text, n, err := decodeOne(a, w)
				words = append(words, w[:n])
				ours = append(ours, made{fmt.Sprintf("%s %d %s", e, opcode, f.name), text, err})
			}
		}
	}
	compared := map[string]int{}
	wrong := map[string]int{}
	for i, d := range disassemble(t, mc, name, words) {
		o := ours[i]
		if d.text == "" || strings.Contains(d.text, "/*") {
			if _, ok := compared[o.row]; !ok {
				compared[o.row] = 0
			}
			continue
		}
		if isFaulty(a.Family, d.text) {
			continue
		}
		compared[o.row]++
		if o.err == nil && o.text == d.text && d.words == len(words[i]) {
			continue
		}
		if wrong[o.row]++; wrong[o.row] == 1 && len(wrong) <= 10 {
			t.Errorf("%s: %08x: got %q (%d words), %v; LLVM has %q (%d words)", o.row, words[i], o.text, len(words[i]), o.err, d.text, d.words)
		}
	}
	total := 0
	for _, row := range slices.Sorted(maps.Keys(compared)) {
		total += compared[row]
		if compared[row] == 0 && each >= 24 {
			t.Errorf("%s: none of %d random instructions is valid", row, each)
		}
	}
	t.Logf("%d instructions of %d rows compared; %d rows differ", total, len(compared), len(wrong))
}

// isFaulty reports whether LLVM prints an instruction wrongly: a constant of v_fmac with DPP
// is printed as its code, a quad_perm of v_fma_mixlo without its highest bits, and gfx9 has
// neither null, nor src_flat_scratch_base, nor scalar registers after s101.
func isFaulty(f Family, text string) bool {
	name, rest, _ := strings.Cut(text, " ")
	if f == GFX9 {
		for _, none := range []string{"null", "src_flat_scratch_base", ":103]", ":105]"} {
			if strings.Contains(rest, none) {
				return true
			}
		}
	}
	return strings.HasPrefix(name, "v_fmac_") && strings.HasSuffix(name, "_e64_dpp") && strings.Contains(rest, "0x") ||
		strings.HasPrefix(name, "v_fma_mix") && strings.Contains(rest, "quad_perm")
}

// decodeOne decodes the first instruction of words, and returns its text and the number of
// words that it takes.
func decodeOne(a Architecture, words []uint32) (string, int, error) {
	var code []byte
	for _, w := range words {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	for n := 1; n <= len(words); n++ {
		list, err := Decode(a, code[:4*n], 0)
		if err == nil {
			return list[0].String(), n, nil
		}
		if n == len(words) {
			return "", max(1, n-2), err
		}
	}
	return "", 0, nil
}
