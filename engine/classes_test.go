package engine_test

import (
	"testing"

	backends "tokitai/backend/all"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/trial/randdef"
)

// TestClassesAreReached: of every lowering of every form of definition, the kernel that a call needs
// is one that some self-test tries, on whatever device.
func TestClassesAreReached(t *testing.T) {
	g := gen.New("classes")
	definitions := []*def.Definition{randdef.Stream(g), randdef.PagedStream(g)}
	for range 4 {
		definitions = append(definitions, randdef.StreamBackward(g))
	}
	for _, o := range all.Operations {
		definitions = append(definitions, o.Definitions...)
	}
	forms, divided := map[string]bool{}, map[string]bool{}
	for _, d := range definitions {
		forms[d.Form.String()] = true
		for _, b := range backends.Backends {
			for _, l := range engine.Lowerings(b, d) {
				if l.Class == nil || l.ClassesOfSpeed {
					continue
				}
				for _, dtype := range num.RealDTypes {
					dtypes := d.DTypes(dtype)
					if dtypes == nil || l.Takes(d, dtypes) != nil {
						continue
					}
					divided[d.Form.String()] = true
					reached := classesOfSelfTests(l, d, dtypes)
					for _, n := range []int{1, 3, 16, 24, 64} {
						for offset := range 2 {
							sizes := map[string]int{}
							for _, letter := range d.Sizes() {
								sizes[letter] = d.FitSize(letter, 2)
							}
							for _, a := range d.MatrixAxes() {
								sizes[a.Letter] = d.FitSize(a.Letter, n)
							}
							if class := classOf(l, d, dtypes, sizes, offset); !reached[class] {
								t.Errorf("%s %v: no self-test reaches class %d, that of %v %d elements behind an aligned address", l.ID(d), dtypes, class, sizes, offset)
							}
						}
					}
				}
			}
		}
	}
	for _, f := range def.Forms() {
		if !forms[f.String()] {
			t.Errorf("no definition has the form %s", f)
		}
	}
	for _, form := range []string{"rowwise", "contraction", "stream", "stream-backward"} {
		if !divided[form] {
			t.Errorf("no lowering of the form %s has classes", form)
		}
	}
}
