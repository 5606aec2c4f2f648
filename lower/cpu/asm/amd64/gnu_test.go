package amd64

import (
	"bytes"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// gnuAssemble returns the bytes of each line as GNU as assembles it. The lines are
// independent of each other.
func gnuAssemble(t *testing.T, lines []string) [][]byte {
	t.Helper()
	if _, err := exec.LookPath("as"); err != nil {
		t.Skip("GNU as is not installed")
	}
	dir := t.TempDir()
	source, list := filepath.Join(dir, "a.s"), filepath.Join(dir, "a.lst")
	text := ".intel_syntax noprefix\n" + strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("as", "--64", "-al="+list, "--listing-lhs-width=4", "--listing-cont-lines=4", "-o", filepath.Join(dir, "a.o"), source)
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "unrecognized option") || strings.Contains(string(out), "unknown argument") {
			t.Skip("as is not GNU as for amd64")
		}
		complaints := strings.SplitN(string(out), "\n", 20)
		for _, c := range complaints {
			if parts := strings.SplitN(c, ":", 3); len(parts) == 3 {
				if n, err := strconv.Atoi(parts[1]); err == nil {
					c += "   line: " + lines[n-2]
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
		f := strings.Fields(string(l))
		if len(f) < 2 {
			continue
		}
		n, err := strconv.Atoi(f[0])
		if err != nil || n < 2 {
			continue
		}
		if tab := bytes.IndexByte(l, '\t'); tab >= 0 {
			f = strings.Fields(string(l[:tab]))
		}
		hexes := f[1:]
		if encoded[n-2] == nil && len(hexes) > 0 {
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
