package jit

import (
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/lower/cpu/machine"
	"tokitai/op/all"
)

// TestTranslateForOthers makes code of the shipped definitions for every instruction set,
// whatever this machine is. No set may leave an opcode out.
func TestTranslateForOthers(t *testing.T) {
	for _, o := range all.Operations {
		for _, d := range parts(o.Definitions) {
			for _, set := range []machine.Set{machine.AVX512, machine.AVX2, machine.NEON} {
				if _, _, err := translate(d, d.Formats()[0], 0, set, 0); (err != nil) != (d.Expression() == nil) {
					t.Errorf("%s for %v: %v", d.Name, set, err)
				}
			}
			if _, _, err := translate(d, d.Formats()[0], 0, machine.Plain, 0); err == nil || !strings.HasPrefix(err.Error(), d.Name) {
				t.Errorf("%s for %v: got error %v", d.Name, machine.Plain, err)
			}
		}
	}
}

// parts replaces definitions with orderings by their parts: what is translated.
func parts(list []*def.Definition) (all []*def.Definition) {
	for _, d := range list {
		stages := d.LazyStages(d.Formats()[0])
		if stages == nil {
			all = append(all, d)
			continue
		}
		for _, s := range stages.List {
			if s.Part != nil {
				all = append(all, s.Part)
			}
		}
	}
	return all
}
