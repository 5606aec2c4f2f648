package ondevice

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"testing"

	backends "tokitai/backend/all"
	"tokitai/backend/cpu"
	"tokitai/backend/gputest"
	"tokitai/def"
	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/gelu"
	"tokitai/tensor"
)

// TestKnownAnswers has every shipped definition, in every choice of formats and both
// ways to access memory, reproduce the committed answers on the device.
func TestKnownAnswers(t *testing.T) {
	q := newQueue(t, gputest.Needs(t))
	list := choose(someShipped(), allShipped())
	eachOf(t, list, func(s shipped) error {
		_, err := engine.Admit(q, s.d, s.formats)
		return err
	})
	t.Logf("%d definitions and formats", len(list))
}

// middling sizes reach several blocks and end within one.
func middling() map[string]int {
	return choose(
		map[string]int{"R": 5, "C": 1101, "H": 3, "M": 40, "N": 70, "K": 33, "Q": 90, "V": 11, "D": 130, "P": 9, "T": 40, "S": 7, "E": 9, "G": 2, "J": 3, "B": 3},
		map[string]int{"R": 67, "C": 3001, "H": 4, "M": 200, "N": 333, "K": 517, "Q": 3000, "V": 157, "D": 517, "P": 41, "T": 301, "S": 150, "E": 160, "G": 2, "J": 3, "B": 3})
}

// aligned sizes are such that rows begin at multiples of 16 bytes.
func aligned() map[string]int {
	return map[string]int{"R": 67, "C": 3000, "H": 4, "M": 200, "N": 328, "K": 520, "Q": 3000, "V": 160, "D": 520, "P": 40, "T": 301, "S": 150, "E": 160, "G": 2, "J": 3, "B": 3}
}

// TestRepeated: a hundred runs on the same inputs, none of them waited for, while
// another queue keeps the device busy, give one hash: the CPU's.
func TestRepeated(t *testing.T) {
	for _, s := range allShipped() { // those too that the simulator leaves out
		if _, err := s.newCall(middling()); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
	dev := gputest.Needs(t)
	stop := keepBusy(t, dev)
	defer stop()
	list, runs := choose(someShipped(), allShipped()), choose(5, 100)
	eachOf(t, list, func(s shipped) error {
		for _, sizes := range choose([]map[string]int{middling()}, []map[string]int{middling(), aligned()}) {
			hash, err := repeat(dev, s, sizes, runs)
			if err != nil {
				return err
			}
			t.Logf("%v: %d runs of hash %x", s, runs, hash)
		}
		return nil
	})
}

// repeat compares runs of one call with the CPU, and returns the hash of their results.
func repeat(dev device.Device, s shipped, sizes map[string]int, runs int) (want [sha256.Size]byte, err error) {
	c, err := s.newCall(sizes)
	if err != nil {
		return want, err
	}
	q, err := engine.NewQueue(dev)
	if err != nil {
		return want, err
	}
	defer q.Close()
	host, err := sameModel(q, s)
	if err != nil {
		return want, err
	}
	if want, err = c.hashOn(host); err != nil {
		return want, err
	}
	before, err := c.tensors(dev, nil)
	if err != nil {
		return want, err
	}
	defer closeAll(before)
	outputs := make([][]*tensor.Tensor, runs)
	for i := range outputs {
		if outputs[i], err = c.tensors(dev, before); err != nil {
			return want, err
		}
		defer closeAll(outputs[i])
		if err := engine.Call(q, c.d, outputs[i], c.params); err != nil {
			return want, err
		}
	}
	for i := range outputs {
		out, err := c.outputs(outputs[i])
		if err != nil {
			return want, err
		}
		if got := sha256.Sum256(out); got != want {
			return want, fmt.Errorf("run %d has hash %x, the CPU %x", i, got[:8], want[:8])
		}
	}
	return want, nil
}

// sameModel returns a queue of the CPU that follows the accumulation rule of what calls on q
// run: that of its tensor cores, where they multiply.
func sameModel(q *engine.Queue, s shipped) (*engine.Queue, error) {
	m, err := modelOn(q, s)
	if err != nil || m == def.FMAChain {
		return cpu.Queue(), err
	}
	return cpu.Queue().With(engine.Using(cpu.NewMMA(m))), nil
}

// modelOn returns the accumulation rule of what calls on q run, which depends on no size.
func modelOn(q *engine.Queue, s shipped) (def.Accum, error) {
	chosen, err := engine.Admit(q, s.d, s.formats)
	if err != nil {
		return def.Accum{}, err
	}
	return chosen.Promise.AccumOf(q.Device().Describe().Architecture, s.d, s.formats, func(string) int { return 1 }), nil
}

// keepBusy runs kernels on a queue of its own until it is told to stop.
func keepBusy(t *testing.T, dev device.Device) (stop func()) {
	t.Helper()
	const cols = 1024
	rows := choose(8, 32<<10)
	q := newQueue(t, dev, engine.WithAdmission(engine.Off))
	x := got[*tensor.Tensor](t)(tensor.New(dev, num.F16, rows, cols))
	y := got[*tensor.Tensor](t)(tensor.New(dev, num.F16, rows, cols))
	must(t, gelu.Forward(q, y, x))
	done, ended := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-done:
				ended <- nil
				return
			default:
			}
			err := errors.Join(gelu.Forward(q, y, x), gelu.Forward(q, x, y), q.Wait())
			if err != nil {
				<-done
				ended <- err
				return
			}
		}
	}()
	return func() {
		close(done)
		if err := <-ended; err != nil {
			t.Errorf("the other queue: %v", err)
		}
		x.Close()
		y.Close()
	}
}

// TestBesideAnotherProcess runs operations while another process computes on the same
// device and holds nearly all of its memory.
func TestBesideAnotherProcess(t *testing.T) {
	table, index := gputest.NeedsTable(t)
	dev := gputest.NeedsWith(t, table, index, gpu.Options{})
	const left = 3 << 30
	hold := choose(int64(1<<20), freeBytes(t, table, index)-left)
	if hold <= 0 {
		t.Fatalf("%d bytes are free, want more than %d", hold+left, int64(left))
	}
	c := child(t, "neighbour", []string{gputest.Chosen(), strconv.FormatInt(hold, 10)})
	in := got[io.WriteCloser](t)(c.StdinPipe())
	out := got[io.ReadCloser](t)(c.StdoutPipe())
	var log lines
	c.Stderr = &log
	must(t, c.Start())
	said := bufio.NewScanner(out)
	if !said.Scan() || said.Text() != "ready" {
		in.Close()
		t.Fatalf("the other process said %q: %v\n%s", said.Text(), c.Wait(), log.text())
	}
	t.Logf("the other process holds %d MiB, %d MiB are free", hold>>20, freeBytes(t, table, index)>>20)
	eachOf(t, choose(someShipped()[:2], inF16()), func(s shipped) error {
		_, err := repeat(dev, s, middling(), choose(2, 10))
		return err
	})
	in.Close()
	said.Scan()
	count := said.Text()
	if err := c.Wait(); err != nil {
		t.Errorf("the other process: %v\n%s", err, log.text())
	}
	t.Logf("the other process computed %s times meanwhile", count)
}

func init() { roles["neighbour"] = neighbour }

// neighbour holds memory of a device and computes there until its input ends. It says
// ready when it does, and in the end how often it has computed.
func neighbour(args []string, in io.Reader, out io.Writer) error {
	hold, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	dev, err := backends.Open(args[0])
	if err != nil {
		return err
	}
	defer dev.Close()
	held, err := dev.Alloc(hold)
	if err != nil {
		return err
	}
	defer held.Close()
	q, err := engine.NewQueue(dev)
	if err != nil {
		return err
	}
	c, err := someShipped()[1].newCall(middling())
	if err != nil {
		return err
	}
	first, err := c.hashOn(q)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, in)
		close(ended)
	}()
	for n := 1; ; n++ {
		select {
		case <-ended:
			fmt.Fprintln(out, n)
			return nil
		default:
		}
		if again, err := c.hashOn(q); err != nil || again != first {
			return fmt.Errorf("run %d: hash %x, the first had %x, error %v", n, again[:8], first[:8], err)
		}
	}
}
