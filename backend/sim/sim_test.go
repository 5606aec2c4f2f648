package sim

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"tokitai/device/gpu"
	"tokitai/device/gpu/gputest"
	"tokitai/engine"
	lowergpu "tokitai/lower/gpu"
	"tokitai/num"
	"tokitai/op/gelu"
	"tokitai/tensor"
)

// simChecks is a kernel whose blocks note when they run; without an order between them,
// threads exchange values.
const simChecks = `struct Params { int* x; };
KERNEL(exchange, 64)(const Params p) {
    SHARED(int, s, 64);
    s[threadIdx.x] = (int)threadIdx.x;
    if (threadIdx.x == 0) p.x[blockIdx.x] = ATOMIC_ADD(p.x + 100, 1);
    if (threadIdx.x == 1) p.x[101 + blockIdx.x] = s[0];
}
`

// TestSimChecks: what the environment asks for is done, and nothing else is understood.
func TestSimChecks(t *testing.T) {
	const blocks = 50
	run := func(check, seed string) (order []byte, err error) {
		t.Setenv("TOKITAI_SIM_CHECK", check)
		t.Setenv("TOKITAI_SIM_SEED", seed)
		d := gputest.NeedsSim(t, 32)
		m, err := d.Load(family.Program(lowergpu.Source{Text: simChecks}, "exchange.cu"), "exchange")
		if err != nil {
			t.Fatal(err)
		}
		f, err := m.Entry("exchange")
		if err != nil {
			t.Fatal(err)
		}
		b, err := d.Alloc(4 * 200)
		if err != nil {
			t.Fatal(err)
		}
		q, err := d.NewQueueWith(gpu.QueueOptions{})
		if err != nil {
			t.Fatal(err)
		}
		x := b.(*gpu.Buffer)
		launch := gpu.Launch{Function: f, Grid: [3]uint32{blocks, 1, 1}, Block: [3]uint32{64, 1, 1}, Params: binary.LittleEndian.AppendUint64(nil, x.Pointer())}
		call := &gpu.Call{Uses: []gpu.Use{{Buffer: x, IsWrite: true}}, Launches: []gpu.Launch{launch}}
		if err := errors.Join(q.Run(call, nil), q.Wait(t.Context())); err != nil {
			return nil, err
		}
		order = make([]byte, 4*blocks)
		return order, b.CopyOut(0, order)
	}
	ascending, err := run("", "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range blocks {
		if got := binary.LittleEndian.Uint32(ascending[4*i:]); got != uint32(i) {
			t.Fatalf("block %d ran as number %d", i, got)
		}
	}
	if other, err := run("", "7"); err != nil || slices.Equal(ascending, other) {
		t.Errorf("the order of blocks with a seed: got %v, %v", other, err)
	}
	_, err = run("races", "")
	if err == nil || !strings.Contains(err.Error(), "written by thread 0 at exchange.cu:4, read by thread 1 at exchange.cu:6") {
		t.Errorf("a race: got %v", err)
	}
	for variable, value := range map[string]string{"TOKITAI_SIM_CHECK": "everything", "TOKITAI_SIM_SEED": "-1"} {
		t.Setenv("TOKITAI_SIM_CHECK", "")
		t.Setenv("TOKITAI_SIM_SEED", "")
		t.Setenv(variable, value)
		if _, err := Backend.Open(""); err == nil || !strings.Contains(err.Error(), variable) {
			t.Errorf("%s=%s: got %v", variable, value, err)
		}
	}
}

// TestDivided: kernels that are compiled one by one are admitted like those that are
// compiled together.
func TestDivided(t *testing.T) {
	family.CompilesParts = true
	defer func() { family.CompilesParts = false }()
	q, err := engine.NewQueue(New(gputest.NeedsSim(t, 32)))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	d := gelu.ForwardDefinition
	if _, err := engine.Admit(q, d, []num.DType{num.F16, num.F16}); err != nil {
		t.Fatal(err)
	}
	x, err := tensor.FromFloat32(q.Device(), num.F16, []float32{1, 2, 3}, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	var seen artifacts
	if _, err := engine.Eval(q, d, engine.Args{"x": x}, engine.WithObserver(&seen)); err != nil {
		t.Fatal(err)
	}
	if len(seen) < 2 {
		t.Errorf("%d programs, want one for each kernel", len(seen))
	}
}

// artifacts notes the programs of a call.
type artifacts []string

func (a *artifacts) Before(r *engine.Record) error {
	*a = r.Artifacts
	return nil
}

func (a *artifacts) After(*engine.Record, error) {}
