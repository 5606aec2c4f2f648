package compiletest

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tokitai/amdgpu/isa"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/gputest"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
)

// TestDecoded decodes the code of AMD kernels as the emulator does, and compares it with
// llvm-objdump instruction by instruction.
func TestDecoded(t *testing.T) {
	c := gputest.NeedsClang(t)
	objdump := tool.Need(t, "llvm-objdump-22")
	oneIn := map[string]int{"gfx942": testlevel.Pick(24, 14, 1), "gfx1100": testlevel.Pick(30, 16, 1)}
	if testlevel.Current() >= testlevel.Full {
		oneIn["gfx90a"], oneIn["gfx1151"] = 8, 8
	}
	for name, every := range oneIn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := 0
			for _, p := range programs(t) {
				if !p.isFirst && testlevel.Current() < testlevel.Exhaustive {
					continue
				}
				if first++; !testlevel.InSample(first, every) {
					continue
				}
				t.Run(p.String(), func(t *testing.T) {
					t.Parallel()
					made, err := compile.Default().Compile(c, name, p.text())
					if err != nil {
						t.Fatal(err)
					}
					compareDecoded(t, objdump, name, made.Image)
				})
			}
			if first == 0 {
				t.Fatal("no program was compiled")
			}
		})
	}
}

// disassembled matches an instruction that llvm-objdump prints, and its address.
var disassembled = regexp.MustCompile(`(?m)^\t(.*?) *// ([0-9A-F]{12}): `)

func compareDecoded(t *testing.T, objdump, arch string, object []byte) {
	file := filepath.Join(t.TempDir(), "code.co")
	if err := os.WriteFile(file, object, 0o666); err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command(objdump, "-d", "--disassemble-zeroes", "--mcpu="+arch, file).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := disassembled.FindAllStringSubmatch(string(output), -1)

	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	text := f.Section(".text")
	if text == nil {
		t.Fatal("the object has no section .text")
	}
	code, err := text.Data()
	if err != nil {
		t.Fatal(err)
	}
	a, err := isa.Lookup(arch)
	if err != nil {
		t.Fatal(err)
	}
	got, err := isa.Decode(a, code, text.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Errorf("%d instructions: llvm-objdump has %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		address := strings.ToUpper(strconv.FormatUint(got[i].Offset+1<<48, 16))[1:]
		if got[i].String() != want[i][1] || address != want[i][2] {
			t.Fatalf("instruction %d: got %q at %s; llvm-objdump has %q at %s", i, got[i], address, want[i][1], want[i][2])
		}
	}
}
