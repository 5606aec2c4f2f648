package amd64

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tokitai/internal/tool"
)

// needs skips the test if a tool of GNU binutils for amd64 is not installed.
func needs(t *testing.T, name string) (path string) {
	t.Helper()
	path = tool.Need(t, name)
	version, _ := exec.Command(path, "--version").CombinedOutput() // names as's target
	help, _ := exec.Command(path, "--help").CombinedOutput()       // names objdump's
	if !strings.Contains(string(version)+string(help), "x86") {
		tool.Missing(t, name, "it is not that of GNU binutils for amd64")
	}
	return path
}

// gnuAssemble returns the bytes of each line as GNU as assembles it.
func gnuAssemble(t *testing.T, lines []string) [][]byte {
	t.Helper()
	as := needs(t, "as")
	dir := t.TempDir()
	source, list := filepath.Join(dir, "a.s"), filepath.Join(dir, "a.lst")
	text := ".intel_syntax noprefix\n" + strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(as, "--64", "-al="+list, "--listing-lhs-width=4", "--listing-cont-lines=4", "-o", filepath.Join(dir, "a.o"), source)
	if out, err := cmd.CombinedOutput(); err != nil {
		for _, c := range strings.SplitN(string(out), "\n", 20) {
			if parts := strings.SplitN(c, ":", 3); len(parts) == 3 {
				if n, err := strconv.Atoi(parts[1]); err == nil {
					c += ": " + lines[n-2]
				}
			}
			t.Log(c)
		}
		t.Fatal("as refused the text")
	}
	data, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	encoded := make([][]byte, len(lines))
	for _, l := range bytes.Split(data, []byte("\n")) {
		l, _, _ = bytes.Cut(l, []byte("\t"))
		f := strings.Fields(string(l))
		if len(f) < 2 {
			continue
		}
		n, err := strconv.Atoi(f[0])
		if err != nil || n < 2 {
			continue
		}
		hexes := f[1:]
		if encoded[n-2] == nil {
			hexes = hexes[1:] // the address
		}
		for _, h := range hexes {
			b, err := hex.DecodeString(h)
			if err != nil {
				t.Fatalf("listing line %q: %v", l, err)
			}
			encoded[n-2] = append(encoded[n-2], b...)
		}
	}
	return encoded
}

// gnuDisassemble returns the instructions in code as objdump prints them, by offset.
func gnuDisassemble(t *testing.T, code []byte) map[int]string {
	t.Helper()
	objdump := needs(t, "objdump")
	file := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(file, code, 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(objdump, "-D", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", "--no-show-raw-insn", "-z", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[int]string)
	for _, l := range strings.Split(string(out), "\n") {
		at, text, ok := strings.Cut(l, ":\t")
		if !ok {
			continue
		}
		offset, err := strconv.ParseInt(strings.TrimSpace(at), 16, 64)
		if err != nil {
			t.Fatalf("objdump: %q: %v", l, err)
		}
		texts[int(offset)] = text
	}
	return texts
}

var (
	comparison = regexp.MustCompile(`^(vp?cmp)(\w+?)(ps|pd|ss|u?[dqw]) (.*)$`)
	spaces     = regexp.MustCompile(` +`)
	immediates = regexp.MustCompile(`(^|,)-?0x[0-9a-f]+$`)
	zero       = regexp.MustCompile(`\+0x0\]`)
	riz        = regexp.MustCompile(`\+riz\*\d`)
	broadcast  = regexp.MustCompile(`\{1to\d+\}`)
)

// predicates are the comparisons that objdump prints as part of the name.
var predicates = []string{
	"eq", "lt", "le", "unord", "neq", "nlt", "nle", "ord", "eq_uq", "nge", "ngt", "false", "neq_oq", "ge", "gt", "true",
	"eq_os", "lt_oq", "le_oq", "unord_s", "neq_us", "nlt_uq", "nle_uq", "ord_s", "eq_us", "nge_uq", "ngt_uq", "false_os", "neq_os", "ge_oq", "gt_oq", "true_us",
}

// normal returns an instruction's text in the form that objdump's and Listing's have
// in common. Broadcasts keep their element's size, which objdump prints as bcst.
func normal(text string, size int) string {
	s := strings.ToLower(text)
	s, _, _ = strings.Cut(s, "#")
	s = spaces.ReplaceAllString(strings.TrimSpace(s), " ")
	if broadcast.MatchString(s) {
		s = strings.Replace(broadcast.ReplaceAllString(s, ""), " ptr ", " bcst ", 1)
	}
	s = strings.ReplaceAll(s, ", ", ",")
	s = strings.ReplaceAll(s, ",{", "{")
	s = zero.ReplaceAllString(s, "]")
	s = riz.ReplaceAllString(s, "")
	if strings.HasPrefix(s, "rep ") { // objdump prints the implied operands
		return s[:len("rep movs")]
	}
	s = strings.TrimPrefix(strings.ReplaceAll(s, "movabs ", "mov "), "{evex} ")
	if m := comparison.FindStringSubmatch(s); m != nil {
		if p := slices.Index(predicates, m[2]); p >= 0 {
			s = fmt.Sprintf("%s%s %s,%#x", m[1], m[3], m[4], p)
		}
	}
	return immediates.ReplaceAllStringFunc(s, func(imm string) string {
		comma := strings.HasPrefix(imm, ",")
		digits := strings.TrimPrefix(imm, ",")
		var x uint64
		if negative, ok := strings.CutPrefix(digits, "-0x"); ok {
			x, _ = strconv.ParseUint(negative, 16, 64)
			x = -x
		} else {
			x, _ = strconv.ParseUint(digits[2:], 16, 64)
		}
		if size < 64 {
			x &= 1<<size - 1
		}
		imm = strconv.FormatUint(x, 16)
		if comma {
			return "," + imm
		}
		return imm
	})
}

// size returns the size of r's immediate operand.
func (r *record) immediateSize() int {
	if r.row != 0 || r.op >= ROL && r.op <= SAR {
		return 8
	}
	return int(r.width)
}

// bytesOf returns the bytes of record i.
func (a *Assembler) bytesOf(i int) []byte {
	end := len(a.Code)
	if a.finished {
		end = a.codeSize
	}
	if i+1 < len(a.records) {
		end = int(a.records[i+1].offset)
	}
	return a.Code[a.records[i].offset:end]
}

// compareGNU compares the instructions with what GNU as makes of their text, and their
// text with what objdump makes of their bytes. Where as chooses another encoding of
// the same length, both must disassemble to the same text.
func compareGNU(t *testing.T, a *Assembler) {
	t.Helper()
	var lines []string
	for i := range a.records {
		lines = append(lines, a.text(&a.records[i]))
	}
	ours := gnuDisassemble(t, a.Code)
	theirs := gnuAssemble(t, lines)
	var others []byte
	var offsets []int
	for i, want := range theirs {
		offsets = append(offsets, len(others))
		others = append(others, want...)
		r := &a.records[i]
		dis := ours[int(r.offset)]
		if got, want := normal(lines[i], r.immediateSize()), normal(dis, r.immediateSize()); got != want {
			t.Errorf("%x: listing %q, objdump %q (%q)", a.bytesOf(i), got, want, dis)
		}
	}
	otherTexts := gnuDisassemble(t, others)
	exact := 0
	for i, want := range theirs {
		got := a.bytesOf(i)
		if string(got) == string(want) {
			exact++
			continue
		}
		r := &a.records[i]
		if len(got) > len(want)+1 || normal(otherTexts[offsets[i]], r.immediateSize()) != normal(ours[int(r.offset)], r.immediateSize()) {
			t.Errorf("%s: got %x, GNU as %x", lines[i], got, want)
		}
	}
	t.Logf("%d instructions, %d with the bytes of GNU as, the others equivalent", len(lines), exact)
}
