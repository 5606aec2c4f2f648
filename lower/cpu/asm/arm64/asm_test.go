package arm64

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tokitai/internal/tool"
)

var update = flag.Bool("update", false, "write the golden encodings")

// TestGolden compares the examples of every row with committed bytes.
func TestGolden(t *testing.T) {
	a := assembleRows()
	if _, err := a.Finish(); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, l := range a.lines() {
		if l.bytes != nil {
			fmt.Fprintf(&got, "%02x%02x%02x%02x %s\n", l.bytes[3], l.bytes[2], l.bytes[1], l.bytes[0], l.text)
		}
	}
	name := filepath.Join("testdata", "encodings.txt")
	if *update {
		if err := os.WriteFile(name, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	compareLines(t, strings.Split(got.String(), "\n"), strings.Split(string(want), "\n"))
}

func compareLines(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Fatalf("line %d:\n got %s\nwant %s", i+1, g, w)
		}
	}
}

// binutil returns a program of GNU binutils for arm64, or skips the test.
func binutil(t *testing.T, name string) string {
	t.Helper()
	return tool.Need(t, "aarch64-linux-gnu-"+name)
}

func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
	return string(out)
}

// TestAgainstGNUAs assembles the listing of every row's examples with GNU as and compares
// the bytes.
func TestAgainstGNUAs(t *testing.T) {
	as, objcopy := binutil(t, "as"), binutil(t, "objcopy")
	a := assembleRows()
	a.I(LDR, V1.As(Q1), a.Constant(bytes.Repeat([]byte{7}, 16), 16))
	a.I(LDR, V1.As(S1), a.Float32(2.5))
	code, err := a.Finish()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	source, object, raw := filepath.Join(dir, "code.s"), filepath.Join(dir, "code.o"), filepath.Join(dir, "code.bin")
	var text strings.Builder
	lines := a.lines()
	at := 0
	for _, l := range lines {
		if l.offset > at {
			fmt.Fprintf(&text, ".zero %d\n", l.offset-at)
		}
		fmt.Fprintln(&text, l.text)
		at = l.offset + len(l.bytes)
	}
	if err := os.WriteFile(source, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, as, "-march=armv8-a", "-o", object, source)
	run(t, objcopy, "-O", "binary", "-j", ".text", object, raw)
	want, err := os.ReadFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		end := l.offset + len(l.bytes)
		if end > len(want) {
			t.Fatalf("%s: GNU as has %d bytes in all", l.text, len(want))
		}
		if w := want[l.offset:end]; !bytes.Equal(l.bytes, w) {
			t.Errorf("%s: got % x, GNU as has % x", l.text, l.bytes, w)
		}
	}
	// GNU as pads the section.
	if len(want) < len(code) || !bytes.Equal(want[:len(code)], code) {
		t.Errorf("got %d bytes, GNU as has %d or others", len(code), len(want))
	}
}

// TestAgainstObjdump compares the listing with what objdump makes of the bytes.
func TestAgainstObjdump(t *testing.T) {
	objdump := binutil(t, "objdump")
	a := assembleRows()
	code, err := a.Finish()
	if err != nil {
		t.Fatal(err)
	}
	raw := filepath.Join(t.TempDir(), "code.bin")
	if err := os.WriteFile(raw, code, 0o644); err != nil {
		t.Fatal(err)
	}
	// An instruction may have a preferred alias; the listing has one name of the two.
	plain := disassemble(t, objdump, "-M", "no-aliases", raw)
	alias := disassemble(t, objdump, "-M", "aliases", raw)
	i := 0
	for _, l := range a.lines() {
		if l.bytes == nil {
			continue
		}
		text := regexp.MustCompile(`\.L\d+`).ReplaceAllStringFunc(l.text, func(name string) string {
			n, _ := strconv.Atoi(name[2:])
			at, _ := a.Offset(Label(n))
			return strconv.Itoa(at)
		})
		if got := normal(text); got != plain[i] && got != alias[i] {
			t.Errorf("% x: listed as %q, objdump says %q or %q", l.bytes, got, plain[i], alias[i])
		}
		i++
	}
}

func disassemble(t *testing.T, objdump string, args ...string) []string {
	out := run(t, objdump, append([]string{"-D", "-z", "-b", "binary", "-m", "aarch64", "--no-show-raw-insn"}, args...)...)
	var lines []string
	for line := range strings.Lines(out) {
		if m := regexp.MustCompile(`^\s+[0-9a-f]+:\t(.*)`).FindStringSubmatch(line); m != nil {
			lines = append(lines, normal(m[1]))
		}
	}
	return lines
}

var (
	remark = regexp.MustCompile(`\s*//.*`)
	number = regexp.MustCompile(`#?-?0x[0-9a-f]+|#-?[0-9.]+(e[+-]?[0-9]+)?`)
	high   = regexp.MustCompile(`^((?:add|sub|cm)\w* .*, )([0-9]+), lsl 12$`)
	ranged = regexp.MustCompile(`\{v(\d+)\.(\w+)-v(\d+)\.\w+\}`)
)

// normal returns an instruction with numbers in decimal and unshifted, lists without ranges, and one space
// between words.
func normal(text string) string {
	text = remark.ReplaceAllString(text, "")
	text = ranged.ReplaceAllStringFunc(text, func(s string) string {
		m := ranged.FindStringSubmatch(s)
		first, _ := strconv.Atoi(m[1])
		last, _ := strconv.Atoi(m[3])
		var names []string
		for r := first; ; r = (r + 1) % 32 {
			names = append(names, fmt.Sprintf("v%d.%s", r, m[2]))
			if r == last {
				return "{" + strings.Join(names, ", ") + "}"
			}
		}
	})
	text = number.ReplaceAllStringFunc(text, func(s string) string {
		s = strings.TrimPrefix(s, "#")
		if v, err := strconv.ParseInt(s, 0, 64); err == nil {
			return strconv.FormatInt(v, 10)
		}
		if v, err := strconv.ParseUint(s, 0, 64); err == nil {
			return strconv.FormatInt(int64(v), 10)
		}
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return s
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	})
	text = strings.Join(strings.Fields(text), " ")
	if m := high.FindStringSubmatch(text); m != nil {
		v, _ := strconv.Atoi(m[2])
		text = m[1] + strconv.Itoa(v<<12)
	}
	return text
}
