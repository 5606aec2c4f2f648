package compiletest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"tokitai/device/gpu/compile"
	"tokitai/internal/testlevel"
)

var update = flag.Bool("update", false, "write docs/kernels.md anew, at TOKITAI_LEVEL=full")

const document = "../../../docs/kernels.md"

// TestDocument writes what kernels take. What another version of a compiler makes of
// them may differ, so nothing is compared: TestKernels checks what must hold.
func TestDocument(t *testing.T) {
	if !*update {
		return
	}
	if testlevel.Current() < testlevel.Full {
		t.Fatal("want TOKITAI_LEVEL=full")
	}
	list := programs(t)
	compilers, seen := compileAll(t, list)
	var b strings.Builder
	fmt.Fprintf(&b, documentHead, strings.Join(compilers, " and "), len(list))
	writeSummary(&b, t, list, seen)
	for i := range list {
		if p := &list[i]; p.isFirst {
			writeProgram(&b, t, p, seen)
		}
	}
	if err := os.WriteFile(document, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// compiled names a program on an architecture.
type compiled struct{ architecture, program string }

// compileAll compiles what the level asks for, and names the compilers.
func compileAll(t *testing.T, list []program) (names []string, seen map[compiled][]compile.Usage) {
	seen = map[compiled][]compile.Usage{}
	var mu sync.Mutex
	t.Run("compile", func(t *testing.T) {
		for _, a := range architectures {
			c := a.compiler(t)
			if name := fmt.Sprint(c); len(names) == 0 || names[len(names)-1] != name {
				names = append(names, name)
			}
			for i := range list {
				p := &list[i]
				if !p.isFirst && testlevel.Current() < a.all {
					continue
				}
				t.Run(a.name+"/"+p.String(), func(t *testing.T) {
					t.Parallel()
					u := usage(t, c, &a, p)
					check(t, p, &a, u)
					mu.Lock()
					defer mu.Unlock()
					seen[compiled{a.name, p.String()}] = u
				})
			}
		}
	})
	return names, seen
}

const documentHead = `# Registers of the GPU kernels

Registers per thread, as allocated by %s;
another version may allocate others. Written by
` + "`TOKITAI_LEVEL=full go test ./lower/gpu/compiletest -run TestDocument -update`" + `.

Kernels do not spill registers to memory, except where *spills* gives a number of bytes, and none has more registers than a block of its size can
have. Tests check this for all %d sources on sm_90a, and for those below on the other architectures;
` + "`TOKITAI_LEVEL=exhaustive`" + ` compiles everything for all of them. *+32 B* is local memory of a thread, for an array whose index is only known at run time. *12 s* are scalar registers of AMD GPUs that are kept in lanes of vector registers. ` + "`tokitai explain OP --emit cuda`" + ` prints
the sources.

## All formats and both ways of access, for sm_90a

The largest number of registers of any kernel with blocks of up to 256 threads, and of any with larger blocks; the largest number of bytes that any of them spills. A multiprocessor has
65,536 registers for the blocks that run at the same time, such as *2 × 256* threads; a thread has at most 255.

| definition | sources | to 256 threads | above | spills |
|---|--:|--:|--:|--:|
`

func writeSummary(b *strings.Builder, t testing.TB, list []program, seen map[compiled][]compile.Usage) {
	for i := 0; i < len(list); {
		d, first := list[i].d, i
		most := [2]int{}
		spilled := 0
		for ; i < len(list) && list[i].d == d; i++ {
			limits := list[i].bounds(t)
			for _, u := range seen[compiled{"sm_90a", list[i].String()}] {
				size := 0
				if limits[u.Entry].threads > 256 {
					size = 1
				}
				most[size] = max(most[size], u.Registers)
				spilled = max(spilled, u.SpillStoreBytes, u.SpillLoadBytes)
			}
		}
		fmt.Fprintf(b, "| %s | %d | %s | %s | %s |\n", d.Name, i-first, orNothing(most[0]), orNothing(most[1]), orNothing(spilled))
	}
}

func orNothing(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func writeProgram(b *strings.Builder, t testing.TB, p *program, seen map[compiled][]compile.Usage) {
	fmt.Fprintf(b, "\n## %s\n\n", p.d.Name)
	var stored []string
	for i, o := range p.d.Operands {
		stored = append(stored, o.Name+" "+p.dtypes[i].String())
	}
	fmt.Fprintf(b, "%s\n\n| kernel | threads |", strings.Join(stored, ", "))
	for _, a := range architectures {
		fmt.Fprintf(b, " %s |", a.name)
	}
	fmt.Fprintf(b, "\n|---|--:|%s\n", strings.Repeat("--:|", len(architectures)))
	limits := p.bounds(t)
	for _, entry := range p.source.Entries {
		threads := fmt.Sprint(limits[entry].threads)
		if n := limits[entry].blocks; n > 1 {
			threads = fmt.Sprintf("%d × %s", n, threads)
		}
		fmt.Fprintf(b, "| %s | %s |", strings.TrimPrefix(entry, p.source.Name+"_"), threads)
		for _, a := range architectures {
			for _, u := range seen[compiled{a.name, p.String()}] {
				if u.Entry == entry {
					fmt.Fprintf(b, " %s |", taken(u))
				}
			}
		}
		fmt.Fprintln(b)
	}
}

// taken is what a kernel takes, in short.
func taken(u compile.Usage) string {
	s := fmt.Sprint(u.Registers)
	if u.ScalarSpills > 0 {
		s += fmt.Sprintf(", %d s", u.ScalarSpills)
	}
	if spilled := max(u.SpillStoreBytes, u.SpillLoadBytes); spilled > 0 {
		s += fmt.Sprintf(", spills %d B", spilled)
	} else if u.StackBytes > 0 {
		s += fmt.Sprintf(" +%d B", u.StackBytes)
	}
	return s
}
