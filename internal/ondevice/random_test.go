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
	"tokitai/internal/testlevel"
	"tokitai/reference"
	"tokitai/trial"
	"tokitai/trial/randdef"
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
		if isAligned {
			want = alignedCase(want)
		}
		c := want.Clone()
		if n == 1 {
			c, _ = want.InPlace(g)
		}
		if text, err := compareCase(q, c, want); err != nil || text != "" {
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

// alignedCase puts every row of a case at a multiple of 16 bytes.
func alignedCase(c *randdef.Case) *randdef.Case {
	const per = 8 // elements of any format are a multiple of 16 bytes
	return c.Relaid(func(i int) trial.Layout {
		return trial.Layout{Offset: per, Gap: per + (per-c.Operands[i].Cols%per)%per}
	})
}

// compareCase computes a case on the queue's device, and one with the same operands by
// the reference, and says where they differ.
func compareCase(q *engine.Queue, c, want *randdef.Case) (string, error) {
	d := c.Definition
	placed, err := c.Memory.Place(q.Device())
	if err != nil {
		return "", err
	}
	defer placed.Close()
	tensors, err := placed.Tensors()
	if err != nil {
		return "", err
	}
	if err := errors.Join(engine.Call(q, d, tensors, c.Params), q.Wait()); err != nil {
		return "", err
	}
	after, err := placed.Read()
	if err != nil {
		return "", err
	}
	if err := reference.Run(d, want.Operands, reference.Options{Params: c.Params}); err != nil {
		return "", err
	}
	return after.Fault(want.Memory), nil
}
