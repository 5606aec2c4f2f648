package standin

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// ROCmVariable is the environment variable that lists folders which scripts/rocm has made,
// separated like those of PATH.
const ROCmVariable = "TOKITAI_ROCM"

// ROCm is a folder with AMD's libraries, and with the C library and the loader that they
// were built for.
type ROCm struct {
	Folder string
}

// NeedsROCm returns the folders that TOKITAI_ROCM lists. It skips the test if there is none.
func NeedsROCm(t testing.TB) []ROCm {
	t.Helper()
	var list []ROCm
	for _, folder := range filepath.SplitList(os.Getenv(ROCmVariable)) {
		r := ROCm{folder}
		if _, err := os.Stat(r.loader()); err != nil {
			t.Fatalf("%s: not made by scripts/rocm: %v", ROCmVariable, err)
		}
		list = append(list, r)
	}
	if len(list) == 0 {
		t.Skipf("needs AMD's libraries: scripts/rocm unpacks them into a folder; set %s to it", ROCmVariable)
	}
	return list
}

func (r ROCm) libraries() string { return filepath.Join(r.Folder, "usr/lib/x86_64-linux-gnu") }
func (r ROCm) loader() string    { return filepath.Join(r.libraries(), "ld-linux-x86-64.so.2") }

// Command returns a command that runs this test binary with the folder's loader and
// libraries instead of the system's. It runs a copy: started by the loader itself, a process
// could not start itself again, which hipRTC's process does.
func (r ROCm) Command(t testing.TB, arguments ...string) *exec.Cmd {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test")
	if err := copyWithLoader(path, "/proc/self/exe", r.loader()); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), path, arguments...)
	command.Env = append(os.Environ(), "LD_LIBRARY_PATH="+r.libraries())
	return command
}

// copyWithLoader copies a program and changes its interpreter, the loader that the kernel
// starts: the path is appended to the file, since it may be longer than the one it replaces.
func copyWithLoader(to, from, loader string) error {
	image, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := elf.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Class != elf.ELFCLASS64 || f.ByteOrder != binary.LittleEndian {
		return fmt.Errorf("%s: got %v, %v, want a little-endian program of 64 bits", from, f.Class, f.Data)
	}
	for i, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		const offset, fileSize, memorySize = 8, 32, 40 // in a program header
		header := image[binary.LittleEndian.Uint64(image[32:])+uint64(i)*uint64(binary.LittleEndian.Uint16(image[54:])):]
		binary.LittleEndian.PutUint64(header[offset:], uint64(len(image)))
		binary.LittleEndian.PutUint64(header[fileSize:], uint64(len(loader))+1)
		binary.LittleEndian.PutUint64(header[memorySize:], uint64(len(loader))+1)
		return os.WriteFile(to, append(append(image, loader...), 0), 0o700)
	}
	return errors.New(from + ": the program has no interpreter: it opens no libraries")
}
