package engine_test

import (
	"errors"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// TestChangedDefinition: a definition that was changed after it was built is refused, as
// its identity no longer says what it computes.
func TestChangedDefinition(t *testing.T) {
	d := def.Must(def.Rowwise("test", func(b *def.Builder) {
		x := b.In("x")
		b.Out("y", x.Add(x), def.Like("x"))
	}))
	d.Exec().Nodes[len(d.Exec().Nodes)-1].Op = def.OpMul
	q := cpu.Queue()
	x, err := tensor.FromFloat32(q.Device(), num.F32, []float32{3}, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = engine.Eval(q, d, engine.Args{"x": x})
	if want := "test: definition was changed after it was built"; !errors.Is(err, device.ErrBadArgument) || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}
