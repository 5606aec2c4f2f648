package wave

import (
	"bytes"
	"debug/elf"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/amdgpu/isa"
	"tokitai/internal/tool"
)

// execute runs instructions in one wave with all lanes on, after prepare has set registers,
// and returns the wave. The launch may be nil.
func execute(t *testing.T, family isa.Family, l *Launch, prepare func(w *Wave), list ...isa.Instruction) (*Wave, error) {
	t.Helper()
	if l == nil {
		l = &Launch{Memory: Blocks{}, Seed: 1}
	}
	if l.Threads == 0 {
		l.Threads = family.Lanes()
	}
	for i := range list {
		list[i].Size = 4
		list[i].Offset = uint64(4 * i)
	}
	list = append(list, isa.Instruction{Encoding: isa.SOPP, Name: "s_endpgm", Size: 4, Offset: uint64(4 * len(list))})
	code, err := Translate(family, list)
	if err != nil {
		t.Fatal(err)
	}
	l.Code = code
	g, err := l.resetGroup()
	if err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		for _, w := range g.Waves {
			prepare(w)
		}
	}
	err = g.Run()
	return g.Waves[0], err
}

// resetGroup returns a group that is ready to run the work group 0.
func (l *Launch) resetGroup() (*Group, error) {
	g, err := l.NewGroup()
	if err == nil {
		g.Reset([3]uint32{})
	}
	return g, err
}

func sgpr(i, words int) isa.Operand { return isa.Operand{Kind: isa.SGPR, Index: i, Words: words} }
func vgpr(i, words int) isa.Operand { return isa.Operand{Kind: isa.VGPR, Index: i, Words: words} }

func both(t *testing.T, f func(t *testing.T, family isa.Family)) {
	t.Run("gfx9", func(t *testing.T) { f(t, isa.GFX9) })
	t.Run("gfx11", func(t *testing.T) { f(t, isa.GFX11) })
}

// edges are numbers at which integer instructions have gone wrong.
var edges = []uint64{0, 1, 2, 31, 32, 63, 64, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0xfffffffe,
	0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff, 0xffff0000, 0x0000ffff, 0x00200010, 0x001f0001, 0x00400020}

// values returns edges and random numbers.
func values(r *rand.Rand, n int) []uint64 {
	list := append([]uint64{}, edges...)
	for range n {
		list = append(list, r.Uint64()>>r.IntN(64))
	}
	return list
}

// assemble returns the code of a program in assembly, decoded.
func assemble(t *testing.T, architecture, text string) (isa.Family, []isa.Instruction) {
	t.Helper()
	llvm := tool.Need(t, "llvm-mc-22")
	object := filepath.Join(t.TempDir(), "code.o")
	cmd := exec.Command(llvm, "-triple=amdgcn-amd-amdhsa", "-mcpu="+architecture, "-filetype=obj", "-o", object, "-")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	code, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	a, err := isa.Lookup(architecture)
	if err != nil {
		t.Fatal(err)
	}
	list, err := isa.Decode(a, code, 0)
	if err != nil {
		t.Fatal(err)
	}
	return a.Family, list
}
