package matmul_test

import (
	"os"
	"syscall"
	"testing"

	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower/cpu/cputest"
	"tokitai/lower/cpu/machine"
	"tokitai/lower/cpu/matmul"
	"tokitai/num"
	"tokitai/trial/randdef"
)

// page returns memory that is followed by pages that cannot be read or written, and
// preceded by such.
func page(t *testing.T, bytes int) []byte {
	size := os.Getpagesize()
	n := (bytes + size - 1) / size * size
	memory, err := syscall.Mmap(-1, 0, n+2*size, syscall.PROT_NONE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(memory) })
	if err := syscall.Mprotect(memory[size:size+n], syscall.PROT_READ|syscall.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	return memory[size : size+n]
}

// TestReadsNothingElse has operands that end where readable memory ends, or begin where it
// begins: whatever else is read or written ends the process.
func TestReadsNothingElse(t *testing.T) {
	all := cputest.Products()
	eachSet(t, func(t *testing.T, set machine.Set) {
		g := gen.New("reads nothing else")
		for range testlevel.Pick(60, 600) {
			d, dtypes := all[g.Below(len(all))], formats[g.Below(len(formats))]
			want := randdef.NewCase(g, d, dtypes, sizes(1+g.Below(40), 1+g.Below(40), 1+g.Below(40)))
			atEnd := g.Below(2) == 0
			var operands []num.Array
			for _, a := range want.Operands {
				bytes := a.Span() * a.DType.Size()
				memory := page(t, bytes)
				if atEnd {
					memory = memory[len(memory)-bytes:]
				}
				copy(memory, a.Data[:bytes])
				a.Data = memory[:bytes:bytes]
				operands = append(operands, a)
			}
			p := compile(t, d, dtypes, set)
			for range 3 {
				cputest.ExecuteParallel(p, cputest.Call(d, operands, nil), 2)
				matmul.DrawBlocking(g, p)
			}
		}
	})
}
