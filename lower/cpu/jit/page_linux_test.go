package jit_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower"
	"tokitai/lower/cpu/cputest"
	"tokitai/lower/cpu/jit"
	"tokitai/num"
	"tokitai/trial/randdef"
)

// fence is memory between pages that can be neither read nor written.
type fence []byte

func newFence(t testing.TB, bytes int) fence {
	t.Helper()
	page := os.Getpagesize()
	n := (bytes + page - 1) / page * page
	memory, err := syscall.Mmap(-1, 0, n+2*page, syscall.PROT_NONE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(memory) })
	if err := syscall.Mprotect(memory[page:page+n], syscall.PROT_READ|syscall.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	return memory[page : page+n]
}

// copyOf returns a copy of an array at the end of the memory, or at its beginning.
func (f fence) copyOf(a num.Array, atEnd bool) num.Array {
	n := a.Span() * a.DType.Size()
	memory := f[:n:n]
	if atEnd {
		memory = f[len(f)-n:]
	}
	copy(memory, a.Data[:n])
	a.Data = memory
	return a
}

// TestReadsNothingElse computes rows of every length from 1 to 300 on operands that end
// where memory ends, or begin where it begins: whatever else is read or written ends the
// process. Outputs have the interpreter's bits. At level quick, it is every third length, of each definition and format others.
func TestReadsNothingElse(t *testing.T) {
	const longest, mostRows = 300, 3
	step := testlevel.Pick(11, 3, 1)
	for at, d := range append(shipped(), texts(t)...) {
		t.Run(d.Name, func(t *testing.T) {
			g := gen.New("reads nothing else: " + d.Name)
			var fences []fence
			for range d.Operands {
				fences = append(fences, newFence(t, 4*mostRows*(longest+8)))
			}
			choices := d.Formats()
			for k, dtypes := range choices {
				w := newTwin(t, d, dtypes)
				for cols := 1 + (at+k)%step; cols <= longest; cols += step {
					sizes := map[string]int{"R": 1 + g.Below(mostRows), "C": cols}
					for _, a := range d.Axes() {
						if a.Role == def.Indexed {
							sizes[a.Letter] = 1 + g.Below(mostRows)
						}
					}
					c := randdef.NewCase(g, d, dtypes, sizes)
					want := w.interpreted(t, c, g)
					for _, set := range w.sets {
						for _, atEnd := range []bool{true, false} {
							operands := make([]num.Array, len(c.Operands))
							for i, a := range c.Operands {
								operands[i] = fences[i].copyOf(a, atEnd)
							}
							call := &lower.Call{Params: c.Params}
							for _, a := range operands {
								call.Operands = append(call.Operands, lower.Operand{Array: a})
							}
							call.Measure(d)
							p := w.program(t, set, jit.ClassOf(d, call))
							cputest.ExecuteInTurn(p, call, 1+g.Below(3))
							got := c.Clone()
							for i, a := range operands {
								copy(got.Operands[i].Data, a.Data)
							}
							w.report(t, got, want, p, fmt.Sprintf("%v, %v, %d columns, at the end %v", set, dtypes, cols, atEnd))
						}
					}
				}
			}
		})
	}
}
