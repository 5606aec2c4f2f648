package ondevice

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tokitai/backend/gputest"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/internal/randdef"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/tensor"
)

var (
	randomTime = flag.Duration("random.time", 0, "how long to make up random definitions; 0 is 60s on a GPU, and a number of definitions in the simulator")
	randomSeed = flag.Uint64("random.seed", 1<<20, "the first seed of random definitions")
)

// TestRandomDefinitions runs definitions that nobody thought of, as a user would, in
// random formats, shapes, alignments and in place, and compares every bit with the
// reference and every byte around the operands with what it was.
func TestRandomDefinitions(t *testing.T) {
	testlevel.Need(t, testlevel.Quick, "it compiles kernels of its own")
	dev := gputest.Needs(t)
	limit, most := *randomTime, uint64(math.MaxUint64)
	if limit == 0 && isSimulated() {
		limit, most = math.MaxInt64, testlevel.Pick[uint64](3, 60, 500)
	}
	if limit == 0 {
		limit = time.Minute
	}
	end := time.Now().Add(limit)
	var next, definitions, calls atomic.Uint64
	next.Store(*randomSeed)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for time.Now().Before(end) && !t.Failed() {
				seed := next.Add(1) - 1
				if seed-*randomSeed >= most {
					return
				}
				n, err := runRandom(dev, seed)
				if err != nil {
					t.Errorf("-random.seed %d: %v", seed, err)
				}
				definitions.Add(1)
				calls.Add(uint64(n))
			}
		})
	}
	workers.Wait()
	t.Logf("%d definitions from seed %d on, %d calls", definitions.Load(), *randomSeed, calls.Load())
}

// runRandom makes the definition of a seed and calls it several times.
func runRandom(dev device.Device, seed uint64) (calls int, err error) {
	g := gen.Seeded(seed)
	d, err := randdef.Sized(g, 1+g.Below(1+g.Below(randdef.MaxSteps)))
	if err != nil {
		return 0, err
	}
	// The comparison here is the test. A lowering that is refused says so by an error.
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	q, err := engine.NewQueue(dev, engine.WithAdmission(engine.Off), engine.WithBadIndex(engine.Skip), engine.WithLog(quiet))
	if err != nil {
		return 0, err
	}
	defer q.Close()
	dtypes := randdef.DTypes(g, d)
	isAligned := g.Below(2) == 0
	work := choose(20_000, 200_000)
	if seed%20 == 0 {
		work *= 10 // rows beyond 65,536 columns, column sums beyond their lanes
	}
	for n := range 3 {
		sizes := randdef.Sizes(g, d, work)
		want := randdef.NewCase(g, d, dtypes, sizes)
		c := want.Clone()
		if n == 1 {
			c, _ = want.InPlace(g)
		}
		if text, err := compareCase(g, q, c, want, isAligned); err != nil || text != "" {
			return calls, fmt.Errorf("%v, sizes %v, call %d, aligned %v: %s\n%s", dtypes, sizes, n, isAligned, orText(err, text), d.Text())
		}
		calls++
	}
	return calls, nil
}

func orText(err error, text string) string {
	if err != nil {
		return err.Error()
	}
	return text
}

// placed is an operand on the device, within a larger tensor.
type placed struct {
	whole, view *tensor.Tensor
	row, col    int // of the view's first element
}

// place puts an operand between guards: rows before and after, columns on both sides.
func place(g *gen.Generator, dev device.Device, a num.Array, rank int, isAligned bool) (p placed, err error) {
	const per = 8 // elements of any format are a multiple of 16 bytes
	left, right := 1+g.Below(per), 1+g.Below(per)
	if isAligned {
		left = per
		right = per + (per-a.Cols%per)%per
	}
	p.row, p.col = 1, left
	whole := num.NewArray(a.DType, a.Rows+2, left+a.Cols+right)
	for i := range whole.Data {
		whole.Data[i] = guard
	}
	copyInto(whole, a, p.row, p.col)
	if p.whole, err = tensor.FromBytes(dev, a.DType, whole.Data, whole.Rows, whole.Cols); err != nil {
		return p, err
	}
	if p.view, err = p.whole.Slice(p.row, p.row+a.Rows, p.col, p.col+a.Cols); err != nil {
		return p, err
	}
	if rank < 2 && a.Rows > 1 { // a value per row lies without gaps
		p.whole.Close()
		p.row, p.col = 0, 0
		p.whole, err = tensor.FromBytes(dev, a.DType, compact(a), a.Rows*a.Cols, 1)
		if err == nil {
			p.view, err = p.whole.Reshape(a.Rows * a.Cols)
		}
		return p, err
	}
	switch rank {
	case 0:
		p.view, err = p.view.Reshape()
	case 1:
		p.view, err = p.view.Reshape(a.Cols)
	}
	return p, err
}

const guard = 0xa5

func copyInto(to, from num.Array, row, col int) {
	size := from.DType.Size()
	for r := range from.Rows {
		copy(to.Data[((row+r)*to.Stride+col)*size:], from.Data[r*from.Stride*size:][:from.Cols*size])
	}
}

func compact(a num.Array) []byte {
	b := num.NewArray(a.DType, a.Rows, a.Cols)
	copyInto(b, a, 0, 0)
	return b.Data
}

// fetch copies an operand back into host memory, and tells of damaged guards.
func (p placed) fetch(into num.Array) (string, error) {
	raw, err := p.whole.Bytes()
	if err != nil {
		return "", err
	}
	size := into.DType.Size()
	if p.row == 0 && p.col == 0 { // no guards
		for r := range into.Rows {
			copy(into.Data[r*into.Stride*size:], raw[r*into.Cols*size:][:into.Cols*size])
		}
		return "", nil
	}
	width := p.whole.Cols() * size
	for r := range p.whole.Rows() {
		row := raw[r*width:][:width]
		from, to := p.col*size, (p.col+into.Cols)*size
		if i := r - p.row; i >= 0 && i < into.Rows {
			copy(into.Data[i*into.Stride*size:], row[from:to])
		} else {
			from, to = 0, 0
		}
		for k, b := range row {
			if (k < from || k >= to) && b != guard {
				return fmt.Sprintf("byte %d of row %d, outside the elements, has changed", k-from, r-p.row), nil
			}
		}
	}
	return "", nil
}

// compareCase computes a case on the queue's device, and one with the same operands by
// the reference, and says where they differ.
func compareCase(g *gen.Generator, q *engine.Queue, c, want *randdef.Case, isAligned bool) (string, error) {
	d := c.Definition
	places := map[*byte]placed{} // an output in the place of an input shares its memory
	defer func() {
		for _, p := range places {
			p.whole.Close()
		}
	}()
	var tensors []*tensor.Tensor
	for i, a := range c.Operands {
		p, ok := places[&a.Data[0]]
		if !ok {
			var err error
			if p, err = place(g, q.Device(), a, len(d.Operands[i].Dims), isAligned); err != nil {
				return "", err
			}
			places[&a.Data[0]] = p
		}
		tensors = append(tensors, p.view)
	}
	if err := errors.Join(engine.Call(q, d, tensors, c.Params), q.Wait()); err != nil {
		return "", err
	}
	for i, a := range c.Operands {
		text, err := places[&a.Data[0]].fetch(a)
		if text != "" || err != nil {
			return d.Operands[i].Name + ": " + text, err
		}
	}
	if err := reference.Run(d, want.Operands, reference.Options{Params: c.Params}); err != nil {
		return "", err
	}
	return randdef.Diff(c, want), nil
}
