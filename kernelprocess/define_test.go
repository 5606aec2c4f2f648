//go:build unix

package kernelprocess

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/tensor"
)

// rmsnorm is a definition that no process ships.
var rmsnorm = def.Must(def.Rowwise("rmsnorm", func(b *def.Builder) {
	x, gamma, eps := b.In("x"), b.InCol("gamma"), b.Param("eps")
	meanSquare := def.RowSum(x.Mul(x)).Div(b.Columns())
	b.Out("y", x.Mul(fn.Rsqrt(meanSquare.Add(eps))).Mul(gamma), def.Like("x"))
}))

// double has the name of a definition that every process ships.
var double = def.Must(def.Rowwise("softmax.forward", func(b *def.Builder) {
	x := b.In("x")
	b.Out("y", x.Add(x), def.Like("x"))
}))

// normed computes rmsnorm on tensors of dev.
func normed(t *testing.T, dev device.Device, rows, cols int, opts ...engine.CallOption) ([]byte, error) {
	t.Helper()
	g := rand.New(rand.NewPCG(1, 2))
	x, gamma := randomTensor(t, dev, g, rows, cols), randomTensor(t, dev, g, cols)
	y, err := tensor.New(dev, x.DType(), rows, cols)
	if err != nil {
		t.Fatal(err)
	}
	opts = append(opts, engine.WithParams(engine.Params{"eps": 1e-6}))
	if err := engine.Run(cpu.Queue(), rmsnorm, engine.Args{"x": x, "gamma": gamma, "y": y}, opts...); err != nil {
		return nil, err
	}
	return bytesOf(t, y), nil
}

// TestUsersDefinition computes what a program defines in a process, also in the next one.
func TestUsersDefinition(t *testing.T) {
	d := openDevice(t, Options{})
	here := cpu.Queue().Device()
	want, err := normed(t, here, 5, 300)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, dev := range []device.Device{here, d, d.Resident()} {
			got, err := normed(t, dev, 5, 300, Isolated(d))
			if err != nil {
				t.Fatalf("tensors on %s: %v", dev.Name(), err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("tensors on %s: the process gives other bits than this one", dev.Name())
			}
		}
		pid := d.PID()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the death of the process is known", func() bool { return d.PID() != pid })
	}
}

// TestDefinitionsAreNotTakenForOthers calls a definition that has the name of another.
func TestDefinitionsAreNotTakenForOthers(t *testing.T) {
	d := openDevice(t, Options{})
	x := randomTensor(t, cpu.Queue().Device(), rand.New(rand.NewPCG(3, 4)), 2, 3)
	result, err := engine.Eval(cpu.Queue(), double, engine.Args{"x": x}, Isolated(d))
	if err != nil {
		t.Fatal(err)
	}
	values, _ := x.Float32s()
	got, _ := result["y"].Float32s()
	for i := range values {
		if got[i] != values[i]+values[i] {
			t.Fatalf("y[%d] is %v, want twice %v", i, got[i], values[i])
		}
	}
}

// A definition is sent once, however many calls begin together.
func TestDefinedOnce(t *testing.T) {
	d := fakeDevice(t, "define-once", Options{})
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for range 4 {
				if err := askDouble(t, t.Context(), d); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
}

// askDouble calls double, which a fake answers with its input.
func askDouble(t *testing.T, ctx context.Context, d *Device) error {
	x := randomTensor(t, cpu.Queue().Device(), rand.New(rand.NewPCG(3, 4)), 2, 3)
	_, err := engine.Eval(cpu.Queue().WithContext(ctx), double, engine.Args{"x": x}, Isolated(d))
	return err
}

// writer calls a function at every write.
type writer func()

func (w writer) Write(p []byte) (int, error) { w(); return len(p), nil }

func TestDefinitionsThatAreNotTaken(t *testing.T) {
	t.Run("another identity", func(t *testing.T) {
		d := fakeDevice(t, "define-other", Options{})
		if err := askDouble(t, t.Context(), d); !errors.Is(err, ErrDied) || !strings.Contains(err.Error(), "in reply to DEFINE") {
			t.Errorf("got %v, want the death of a process that misbehaved", err)
		}
	})
	t.Run("no reply", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := fakeDevice(t, "define-hang", Options{HangAfter: time.Millisecond, Stderr: writer(cancel)}) // when it has the definition
		if err := askDouble(t, ctx, d); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that it was canceled", err)
		}
		waitFor(t, "the process is killed", func() bool { return d.Stats().Deaths == 1 })
	})
	t.Run("refused", func(t *testing.T) {
		d := fakeDevice(t, "define-later", Options{})
		var syntax *def.SyntaxError
		if err := askDouble(t, t.Context(), d); !errors.As(err, &syntax) || syntax.Line != 2 || syntax.Column != 7 {
			t.Errorf("got %v, want the place of a mistake", err)
		}
		if err := askDouble(t, t.Context(), d); err != nil {
			t.Errorf("the next call: %v, want none: a refusal is not remembered", err)
		}
		if s := d.Stats(); s.Deaths != 0 {
			t.Errorf("got %+v, want no death", s)
		}
	})
	t.Run("longer than a frame", func(t *testing.T) {
		d := openDevice(t, Options{MaxFrame: 64})
		if err := askDouble(t, t.Context(), d); !errors.Is(err, device.ErrBadArgument) {
			t.Errorf("got %v, want a bad argument", err)
		}
	})
}
