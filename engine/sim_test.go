package engine_test

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tokitai/device/gpu"
	"tokitai/device/gpu/gputest"
	"tokitai/engine"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/gelu"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

// TestSim admits kernels on a device whose memory the host does not see: guards and all
// travel there and back, a wrong answer is found, and a call has the bits of the CPU.
func TestSim(t *testing.T) {
	t.Setenv("TOKITAI_CACHE", filepath.Join(t.TempDir(), "cache"))
	d, dtypes := softmax.ForwardDefinition, []num.DType{num.F16, num.F16}
	for _, width := range testlevel.Pick([]int{32}, []int{32, 64}) {
		q, err := engine.NewQueue(gputest.NeedsSim(t, width))
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		l, err := engine.Admit(q, d, dtypes)
		if err != nil || l.Name != "sim.rowwise" {
			t.Fatalf("%v, %v", l, err)
		}
		if engine.Plans(q) != 2 {
			t.Errorf("%d plans, want one for each variant", engine.Plans(q))
		}
		engine.SetCorrupt(func(_ string, output num.Array) { output.SetBits(0, 0, output.Bits(0, 0)^1) })
		err = engine.RunSelfTest(q, l, d, dtypes, "C=7")
		engine.SetCorrupt(nil)
		if !errors.Is(err, engine.ErrInadmissible) {
			t.Errorf("a wrong answer: got %v", err)
		}
		values := make([]float32, 3*41)
		for i := range values {
			values[i] = float32(i*i%37) / 7
		}
		var results [][]byte
		for _, on := range []*engine.Queue{engine.CPU(), q} {
			x, err := tensor.FromFloat32(on.Device(), num.F16, values, 3, 41)
			if err != nil {
				t.Fatal(err)
			}
			out, err := engine.Eval(on, d, engine.Args{"x": x})
			if err != nil {
				t.Fatal(err)
			}
			raw, err := out["y"].Bytes()
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, raw)
		}
		if !slices.Equal(results[0], results[1]) {
			t.Error("the simulator's bits are not the CPU's")
		}
	}
}

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
	t.Setenv("TOKITAI_CACHE", filepath.Join(t.TempDir(), "cache"))
	const blocks = 50
	run := func(check, seed string) (order []byte, err error) {
		t.Setenv("TOKITAI_SIM_CHECK", check)
		t.Setenv("TOKITAI_SIM_SEED", seed)
		d := gputest.NeedsSim(t, 32)
		m, err := d.Load(engine.SimProgram("exchange.cu", simChecks), "exchange")
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
		if _, err := engine.Open("sim"); err == nil || !strings.Contains(err.Error(), variable) {
			t.Errorf("%s=%s: got %v", variable, value, err)
		}
	}
}

// TestDivided: kernels that are compiled one by one are admitted like those that are
// compiled together.
func TestDivided(t *testing.T) {
	t.Setenv("TOKITAI_CACHE", filepath.Join(t.TempDir(), "cache"))
	defer engine.DivideEverywhere()()
	q, err := engine.NewQueue(gputest.NeedsSim(t, 32))
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
