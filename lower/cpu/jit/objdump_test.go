package jit

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
	"tokitai/lower/cpu/machine"
	"tokitai/op/all"
)

// disassembler is how GNU objdump is called for an instruction set.
type disassembler struct {
	tools   []string // the first that is there
	options []string
	known   string // a target that the right tool names
}

var disassemblers = map[machine.Set]disassembler{
	machine.AVX512: {[]string{"objdump", "x86_64-linux-gnu-objdump"}, []string{"-m", "i386:x86-64", "-M", "intel"}, "x86-64"},
	machine.AVX2:   {[]string{"objdump", "x86_64-linux-gnu-objdump"}, []string{"-m", "i386:x86-64", "-M", "intel"}, "x86-64"},
	machine.NEON:   {[]string{"aarch64-linux-gnu-objdump", "objdump"}, []string{"-m", "aarch64"}, "aarch64"},
}

// path returns the tool; empty if there is none.
func (d *disassembler) path() string {
	for _, tool := range d.tools {
		if help, err := exec.Command(tool, "--help").CombinedOutput(); err == nil && strings.Contains(string(help), d.known) {
			return tool
		}
	}
	return ""
}

// instructionLine is an instruction of a listing, or of objdump.
type instructionLine struct {
	text string
	code string // its bytes in hexadecimal
}

// disassembled returns the instructions that objdump finds, by offset.
func (d *disassembler) disassembled(t *testing.T, tool string, code []byte) map[int64]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(file, code, 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tool, append(d.options, "-D", "-z", "-b", "binary", "--no-show-raw-insn", file)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	found := map[int64]string{}
	for line := range strings.Lines(string(out)) {
		if at, text, ok := strings.Cut(line, ":\t"); ok {
			offset, err := strconv.ParseInt(strings.TrimSpace(at), 16, 64)
			if err != nil {
				t.Fatalf("objdump: %q: %v", line, err)
			}
			found[offset] = strings.TrimSpace(text)
		}
	}
	return found
}

var (
	labelLine = regexp.MustCompile(`^(\.?L\d+):$`)
	dataLine  = regexp.MustCompile(`^ *[0-9a-f]+ ( [0-9a-f]{2})+$`)
	codeLine  = regexp.MustCompile(`^ *([0-9a-f]+)  ([0-9a-f]+) +([a-z].*)$`)
	register  = regexp.MustCompile(`\b([xyz]mm\d+|k[0-7]|r(?:[a-ds][ixp]|bp|\d+[bwd]?)|e(?:[a-ds][ixp]|bp)|[bhsdqvwx]\d+(?:\.\d*[bhsdq])?)\b`)
	target64  = regexp.MustCompile(`\b0x([0-9a-f]+)$`)
)

// listed returns the instructions of a listing by offset, and the offsets of its labels.
func listed(t *testing.T, listing string) (lines map[int64]instructionLine, labels map[string]int64) {
	t.Helper()
	lines, labels = map[int64]instructionLine{}, map[string]int64{}
	var waiting []string
	for line := range strings.Lines(listing) {
		line = strings.TrimRight(line, "\n")
		if m := labelLine.FindStringSubmatch(line); m != nil {
			waiting = append(waiting, m[1])
			continue
		}
		m := codeLine.FindStringSubmatch(line)
		if m == nil || dataLine.MatchString(line) {
			continue // a constant or a comment
		}
		offset, err := strconv.ParseInt(m[1], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range waiting {
			labels[l] = offset
		}
		waiting = nil
		lines[offset] = instructionLine{m[3], m[2]}
	}
	return lines, labels
}

// split returns an instruction's name, its registers in order, and the rest.
func split(text string) (name string, registers []string, rest string) {
	text, _, _ = strings.Cut(text, " ;")
	text, _, _ = strings.Cut(text, "//")
	name, rest, _ = strings.Cut(strings.ReplaceAll(text, "\t", " "), " ")
	rest = strings.TrimSpace(rest)
	return strings.TrimSpace(name), register.FindAllString(rest, -1), rest
}

// comparisonName is a comparison whose predicate objdump makes a part of its name.
var comparisonName = regexp.MustCompile(`^(vp?cmp)\w*?(ps|u?d)$`)

// sameName reports whether two names are of one instruction.
func sameName(ours, theirs string) bool {
	if ours == theirs {
		return true
	}
	if a, b := comparisonName.FindStringSubmatch(ours), comparisonName.FindStringSubmatch(theirs); a != nil && b != nil {
		return a[1] == b[1] && a[2] == b[2]
	}
	return slices.Contains(aliases[ours], theirs)
}

// aliases are the names that objdump prefers.
var aliases = map[string][]string{
	"movz": {"mov"}, "movn": {"mov"}, "orr": {"mov"}, "ins": {"mov"}, "umov": {"mov"}, "dup": {"mov"}, "not": {"mvn"},
	"jb": {"jb", "jc"}, "jae": {"jae", "jnc"}, "mov": {"movabs"},
	"nop": {"xchg"}, // of ax with itself
}

// TestDisassembly disassembles the code of the shipped definitions and compares it with the
// programs' own listings, instruction by instruction: offsets, names, registers, targets of
// jumps. Code for AVX2 must have no instruction of AVX-512, and nothing follows the last
// return. The code in memory is what is listed.
func TestDisassembly(t *testing.T) {
	for _, set := range []machine.Set{machine.AVX512, machine.AVX2, machine.NEON} {
		t.Run(set.String(), func(t *testing.T) {
			d := disassemblers[set]
			objdump := d.path()
			if objdump == "" {
				tool.Missing(t, d.tools[0], "there is none for "+d.known)
			}
			instructions := 0
			for i, definition := range parts(rowwise()) {
				formats := definition.Formats()
				for _, dtypes := range testlevel.Pick(formats[i%len(formats):][:1], formats) {
					for _, class := range []Class{0, Long | Streamed} {
						p, target, err := translate(definition, dtypes, class, set, 0)
						if err != nil {
							t.Fatal(err)
						}
						code, err := target.finish()
						if err != nil {
							t.Fatal(err)
						}
						instructions += compareListing(t, fmt.Sprintf("%s %v %v", definition.Name, dtypes, class), target.listing(), d.disassembled(t, objdump, code), set)
						if !strings.Contains(p.String(), target.listing()) {
							t.Errorf("%s: two listings differ", definition.Name)
						}
						loaded(t, p, code)
					}
				}
			}
			t.Logf("%d instructions", instructions)
		})
	}
}

func rowwise() (list []*def.Definition) {
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if d.Expression() != nil {
				list = append(list, d)
			}
		}
	}
	return list
}

// loaded compares code with what a compilation loads, if this processor has the set.
func loaded(t *testing.T, p *program, code []byte) {
	t.Helper()
	if !slices.Contains(machine.Available(), p.set) {
		return
	}
	again, err := load(p.d, p.dtypes, p.class, p.set, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.code.Bytes(), code) {
		t.Errorf("%s: the code in memory differs from the listed one", p.d.Name)
	}
}

// compareListing compares a listing with what objdump says, and returns how many
// instructions it has.
func compareListing(t *testing.T, what, listing string, found map[int64]string, set machine.Set) int {
	t.Helper()
	lines, labels := listed(t, listing)
	var last int64
	for offset, line := range lines {
		last = max(last, offset)
		name, registers, rest := split(line.text)
		theirName, theirRegisters, theirRest := split(found[offset])
		if !sameName(name, theirName) {
			t.Errorf("%s: %x: %s is listed as %q, objdump says %q", what, offset, line.code, line.text, found[offset])
			continue
		}
		if to, ok := labels[rest]; ok {
			if m := target64.FindStringSubmatch(theirRest); m == nil || m[1] != strconv.FormatInt(to, 16) {
				t.Errorf("%s: %x: jump %q to %x, objdump says %q", what, offset, line.text, to, found[offset])
			}
			continue
		}
		if name != "nop" && !slices.Equal(registers, theirRegisters) {
			t.Errorf("%s: %x: %s is listed as %q, objdump says %q", what, offset, line.code, line.text, found[offset])
		}
		if set == machine.AVX2 && (strings.HasPrefix(line.code, "62") || slices.ContainsFunc(registers, isWide)) {
			t.Errorf("%s: %x: %q is an instruction of AVX-512", what, offset, line.text)
		}
	}
	for offset, text := range found {
		if _, ok := lines[offset]; !ok && offset < last {
			t.Errorf("%s: %x: objdump finds %q, which is not listed", what, offset, text)
		}
	}
	if name, _, _ := split(lines[last].text); name != "ret" {
		t.Errorf("%s: the last instruction is %q, want ret", what, lines[last].text)
	}
	return len(lines)
}

// isWide reports whether a register is one of AVX-512.
func isWide(register string) bool {
	number, ok := strings.CutPrefix(register[1:], "mm")
	n, err := strconv.Atoi(number)
	return register[0] == 'z' || register[0] == 'k' || ok && err == nil && n > 15
}
