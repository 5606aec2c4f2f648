package mutants

import (
	"testing"

	"tokitai/num"
	"tokitai/op/gemm"
)

// TestPracticeBites: the checks of today, as they are run here, accept the honest
// peer and reject zeros.
func TestPracticeBites(t *testing.T) {
	p, err := NewPractitioner()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	l := NewList(gemm.Operations)
	l.Of(gemm.ForwardDefinition, num.F16)
	l.Add("zeros", "every result is zero", AnyOrder, Edited(Zeros))
	l.Add("peer", "nothing", AnyOrder, l.All[0].peer())
	for i, want := range []Practice{{}, {AllClose: true, Defaults: true, TwicePeer: true}} {
		got, err := p.Check(&l.All[i])
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", l.All[i].Name, got, err, want)
		}
	}
}
