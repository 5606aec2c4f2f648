package docs_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/lower/cpu/jit"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
	"tokitai/op/all"
)

// squareplus is the example of cpu.md.
const squareplus = `tokitai-def 1
rowwise squareplus
  in    x[R,C] f16 bf16 f32
  param b float in [0,+Inf) default 4
  out   y[R,C] as x
  d = x*x + b
  root = sqrt(d)
  y <- (x + root) / 2
`

// TestCPUDocument writes the example of cpu.md and its machine code, which need not be that of
// this processor.
func TestCPUDocument(t *testing.T) {
	hold(t, "cpu.md", "squareplus", "```\n"+squareplus+"```\n")
	d, err := def.Parse(squareplus)
	if err != nil {
		t.Fatal(err)
	}
	p, err := jit.Compile(d, d.DTypes(num.F16), 0, machine.AVX512)
	if err != nil {
		t.Skipf("skipped: %v", err) // no executable memory
	}
	head, listing, _ := strings.Cut(p.String(), "\n")
	loop := loopOnce(listing, "; root")
	if loop == "" {
		t.Fatalf("no loop computes root once:\n%s", listing)
	}
	hold(t, "cpu.md", "squareplus code", fmt.Sprintf("```\n%s\n…\n%s…\n```\n", head, loop))
}

// loopOnce returns the first piece of a listing between two labels in which a note stands once.
func loopOnce(listing, note string) string {
	labels := regexp.MustCompile(`(?m)^L\d+:\n`).FindAllStringIndex(listing, -1)
	for i := range labels[:len(labels)-1] {
		if piece := listing[labels[i][0]:labels[i+1][0]]; strings.Count(piece, note+"\n") == 1 {
			return piece
		}
	}
	return ""
}

// TestCPUNames: cpu.md names every instruction set and every lowering of the CPU.
func TestCPUNames(t *testing.T) {
	text := readText(t, "cpu.md")
	var names []string
	for _, set := range []machine.Set{machine.Plain, machine.NEON, machine.AVX2, machine.AVX512} {
		names = append(names, set.String())
		if set != machine.Plain {
			names = append(names, cpu.Kind+"."+set.String())
		}
	}
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			for _, l := range slices.Concat(cpu.Backend.Preferred(d), cpu.Backend.OnDemand(d)) {
				names = append(names, l.Name)
			}
		}
	}
	for _, name := range names {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("cpu.md does not name %s", name)
		}
	}
}
