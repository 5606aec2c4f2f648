// Package peers measures operations beside the libraries that people use for them: PyTorch,
// NumPy and gonum, where they are installed.
//
// A peer is a process of its own that times its own calls (protocol.go says what it is
// asked). In every round each party has a turn: ours, a copy of memory, one peer after
// another, and the next round in reverse order. A turn's time is the least of a few
// measurements, and ratios are taken within a round, since machines are shared and change
// their speed. All parties have the same operands, the same number of threads, and rotate over
// memory in the same way. Our results must have the reference's bits before and after timing;
// those of peers must be close to them.
//
// Start with [Cases], [NewRunner] and [Runner.Measure].
package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/internal/leftover"
	"tokitai/num"
)

// Options configures NewRunner. The zero value is the default.
type Options struct {
	Workers []int         // numbers of threads; nil is one per processor
	Peers   []string      // nil is all that there are
	Rounds  int           // 0 is 5; more where they disagree
	Turn    time.Duration // of one party in one round, about; 0 is 60 ms
	Log     *slog.Logger  // gets warnings; nil is the default one

	kinds []kind // of peers; nil is all that are known
}

// mostTime is how long one party computes for a case. After that it skips rounds, but
// takes part in two.
const mostTime = 3 * time.Second

// settle is the pause after a peer's turn: threads of a library wait for more work in a
// loop before they sleep.
const settle = 15 * time.Millisecond

// Runner measures cases. Close ends its peers.
type Runner struct {
	options Options
	folder  string
	remove  func()
	teams   []*team
}

// team is the parties with one number of threads.
type team struct {
	workers int
	device  *cpu.Device
	queue   *engine.Queue
	peers   []*peer
}

// peer is a library, as a process or as the reason why there is none.
type peer struct {
	kind    *kind
	child   *child
	problem error
}

// NewRunner starts the peers.
func NewRunner(ctx context.Context, o Options) (*Runner, error) {
	if o.Workers == nil {
		o.Workers = []int{runtime.GOMAXPROCS(0)}
	}
	if o.Rounds == 0 {
		o.Rounds = 5
	}
	if o.Turn == 0 {
		o.Turn = 60 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.kinds == nil {
		o.kinds = kinds
	}
	r := &Runner{options: o}
	var err error
	if r.folder, r.remove, err = leftover.Folder("", "tokitai-peers-"); err != nil {
		return nil, err
	}
	for _, workers := range o.Workers {
		t := &team{workers: workers}
		r.teams = append(r.teams, t)
		if t.device, err = cpu.New(cpu.Options{Workers: workers}); err != nil {
			r.Close()
			return nil, err
		}
		if t.queue, err = engine.NewQueue(t.device, engine.WithLog(o.Log)); err != nil {
			r.Close()
			return nil, err
		}
		for i := range o.kinds {
			k := &o.kinds[i]
			if o.Peers != nil && !slices.Contains(o.Peers, k.name) {
				continue
			}
			p := &peer{kind: k}
			t.peers = append(t.peers, p)
			spec, err := k.command(ctx, r.folder, workers)
			if err == nil {
				p.child, err = start(ctx, spec)
			}
			if p.problem = err; ctx.Err() != nil {
				r.Close()
				return nil, ctx.Err()
			}
		}
	}
	return r, nil
}

// Close ends the peers and removes temporary files.
func (r *Runner) Close() {
	for _, t := range r.teams {
		for _, p := range t.peers {
			p.child.close()
		}
		if t.queue != nil {
			t.queue.Close()
		}
		if t.device != nil {
			t.device.Close()
		}
	}
	r.remove()
}

// Measure measures a case with every number of threads. The error is ours: a wrong result
// or a call that fails; those of peers are in their results.
func (r *Runner) Measure(ctx context.Context, c *Case) ([]Row, error) {
	runtime.GC() // the memory of the case before
	in, err := newInputs(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", c, err)
	}
	request, err := r.write(in)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", c, err)
	}
	defer r.erase(request)
	var rows []Row
	for _, t := range r.teams {
		row, err := t.measure(ctx, in, request, &r.options)
		if err != nil {
			return rows, err
		}
		rows = append(rows, *row)
	}
	return rows, nil
}

// write writes the operands of a case to files, and returns the request to prepare it.
func (r *Runner) write(in *inputs) (*Request, error) {
	c, d := in.c, in.c.Data.Definition
	request := &Request{Do: "prepare", Op: c.Name(), Operands: map[string]*Operand{}, Params: c.Given, Sets: c.sets(), Calls: 1}
	if c.sets() == 1 {
		request.Calls = 20
	}
	for i := range d.Operands {
		o, a := &d.Operands[i], &in.arrays[i]
		operand := &Operand{DType: a.DType.String(), Shape: o.Shape(a)}
		request.Operands[o.Name] = operand
		if o.IsOut && request.Result == "" {
			request.Result = o.Name
		}
		if !o.IsIn {
			continue
		}
		operand.File = filepath.Join(r.folder, fmt.Sprintf("operand-%d", i))
		if err := os.WriteFile(operand.File, a.Data, 0o600); err != nil {
			r.erase(request)
			return nil, err
		}
	}
	return request, nil
}

func (r *Runner) erase(request *Request) {
	for _, o := range request.Operands {
		if o.File != "" {
			os.Remove(o.File)
		}
	}
}

// turn is a party's part in the rounds of a case.
type turn struct {
	party   party
	isPeer  bool
	repeat  int
	calls   int
	seconds []float64 // of a call, by round; NaN where it did not take part
	spent   time.Duration
	err     error
}

func (t *team) measure(ctx context.Context, in *inputs, request *Request, o *Options) (*Row, error) {
	c := in.c
	mine, err := newOurs(ctx, t.queue, in)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", c, err)
	}
	defer mine.close()
	if err := mine.check("before"); err != nil {
		return nil, err
	}
	turns := []*turn{{party: mine}, {party: newCopying(t.device, mine)}}
	row := &Row{Op: c.Name(), Shape: c.Shape(), DType: c.DType.String(), Workers: t.workers, Lowering: mine.lowering.Name, Sets: c.sets()}
	var seats []*seat
	defer func() {
		for _, s := range seats {
			if s.peer.child != nil && ctx.Err() == nil {
				s.peer.child.ask(ctx, &Request{Do: "release"})
			}
		}
	}()
	for _, p := range t.peers {
		if p.problem != nil || p.kind.takes != nil && !p.kind.takes(c) {
			continue
		}
		s := &seat{peer: p, in: in, turn: &turn{isPeer: true}}
		s.turn.party = s
		seats = append(seats, s)
		var none *unsupportedError
		if err := s.prepare(ctx, request); errors.As(err, &none) {
			seats = seats[:len(seats)-1]
			continue
		} else if err != nil {
			s.turn.err = err
		}
		turns = append(turns, s.turn)
	}
	if err := rounds(ctx, turns, o); err != nil {
		return nil, err
	}
	if turns[0].err != nil {
		return nil, fmt.Errorf("%v: %w", c, turns[0].err)
	}
	if row.Allocations, err = mine.allocations(ctx, middle(turns[0].seconds)); err != nil {
		return nil, fmt.Errorf("%v: %w", c, err)
	}
	if err := mine.check("after"); err != nil {
		return nil, err
	}
	row.set(c, in, turns[0].seconds, turns[1].seconds)
	for _, s := range seats {
		if s.turn.err == nil {
			s.turn.err = s.check(ctx, "after")
		}
		row.Peers = append(row.Peers, s.result(turns[0].seconds))
	}
	return row, ctx.Err()
}

// rounds lets every party have its turns. Where the ratios of a peer disagree, something
// disturbs the machine, and there are more rounds, so that the median means something.
func rounds(ctx context.Context, turns []*turn, o *Options) error {
	for _, t := range turns {
		if t.err == nil {
			t.err = t.calibrate(ctx, o)
		}
	}
	order := slices.Clone(turns)
	for round := 0; round < o.Rounds || round < mostRounds*o.Rounds && disagree(turns); round++ {
		for _, t := range order {
			if err := ctx.Err(); err != nil {
				return err
			}
			t.take(ctx, round)
		}
		slices.Reverse(order)
	}
	return ctx.Err()
}

// mostRounds is how many times as many rounds a disturbed case has.
const mostRounds = 3

// disagree reports whether the middle half of a peer's ratios to ours spreads too far.
func disagree(turns []*turn) bool {
	const far = 1.15
	for _, t := range turns[1:] {
		if !t.isPeer || t.err != nil {
			continue
		}
		all := slices.Sorted(slices.Values(ratios(t.seconds, turns[0].seconds)))
		if n := len(all); n > 0 && all[n-1-n/4] > far*all[n/4] {
			return true
		}
	}
	return false
}

// calibrate decides how many calls a turn has.
func (t *turn) calibrate(ctx context.Context, o *Options) error {
	const leastTime, most = time.Millisecond, 25
	once, err := t.party.run(ctx, 2, 1)
	if err != nil {
		return err
	}
	one := max(once[1], 100*time.Nanosecond)
	t.calls = 1
	if one < leastTime/4 {
		t.calls = int(leastTime/one) + 1
	}
	t.repeat = int(min(max(o.Turn/(one*time.Duration(t.calls)), 1), most))
	if t.repeat < 3 && one < 2*o.Turn {
		t.repeat = 3
	}
	t.pause()
	return nil
}

// take is one turn.
func (t *turn) take(ctx context.Context, round int) {
	const leastRounds = 2
	seconds := math.NaN()
	defer func() { t.seconds = append(t.seconds, seconds) }()
	if t.err != nil || t.spent > mostTime && round >= leastRounds {
		return
	}
	start := time.Now()
	times, err := t.party.run(ctx, t.repeat, t.calls)
	t.spent += time.Since(start)
	if err != nil {
		t.err = err
		return
	}
	seconds = slices.Min(times).Seconds() / float64(t.calls)
	t.pause()
}

func (t *turn) pause() {
	if t.isPeer {
		time.Sleep(settle)
	}
}

// seat is a peer at a case.
type seat struct {
	peer       *peer
	in         *inputs
	turn       *turn
	form       string
	difference float64
}

// prepare loads the operands and checks the peer for the first time.
func (s *seat) prepare(ctx context.Context, request *Request) error {
	a, err := s.peer.child.ask(ctx, request)
	if err != nil {
		return err
	}
	s.form = a.Form
	return s.check(ctx, "before")
}

func (s *seat) run(ctx context.Context, repeat, calls int) ([]time.Duration, error) {
	a, err := s.peer.child.ask(ctx, &Request{Do: "run", Repeat: repeat, Calls: calls})
	if err != nil {
		return nil, err
	}
	if len(a.NS) != repeat {
		return nil, fmt.Errorf("%s gave %d times, want %d", s.peer.kind.name, len(a.NS), repeat)
	}
	times := make([]time.Duration, repeat)
	for i, ns := range a.NS {
		times[i] = time.Duration(ns)
	}
	return times, nil
}

// mostDifference is how far the results of a peer may be from the reference's, in the
// Euclidean norm, relative to it. It says whether a peer computes the same operation, not
// how accurate it is: another operation or a missing step is farther away, and libraries that
// add thousands of numbers in bf16 lose several percent. Reports have the difference itself.
const mostDifference = 0x1p-3

// check compares some rows of a peer's outputs with the answer.
func (s *seat) check(ctx context.Context, when string) error {
	d, answer := s.in.c.Data.Definition, s.in.answer
	picked, rows := map[string][]int{}, map[string][]int{}
	for i := range d.Operands {
		if !d.Operands[i].IsOut {
			continue
		}
		name, n := d.Operands[i].Name, answer.Want[i].Rows
		for _, k := range slices.Compact([]int{0, n / 3, n / 2, n - 1}) {
			picked[name] = append(picked[name], k)
			if answer.Rows != nil {
				k = answer.Rows[k]
			}
			rows[name] = append(rows[name], k)
		}
	}
	a, err := s.peer.child.ask(ctx, &Request{Do: "check", Rows: rows})
	if err != nil {
		return err
	}
	if len(a.Outputs) == 0 && !a.IsOwn {
		return fmt.Errorf("%s returned no output", s.peer.kind.name)
	}
	for i := range d.Operands {
		raw, ok := a.Outputs[d.Operands[i].Name]
		if !ok {
			continue
		}
		far, err := distance(floats(raw), &answer.Want[i], picked[d.Operands[i].Name])
		if err != nil {
			return fmt.Errorf("%s: %s %w", s.peer.kind.name, d.Operands[i].Name, err)
		}
		s.difference = max(s.difference, far)
		if !(far <= mostDifference) {
			return fmt.Errorf("%s by %s: %s differs from the reference by %.2g of its norm %s timing, want at most %.2g",
				s.peer.kind.name, s.form, d.Operands[i].Name, far, when, mostDifference)
		}
	}
	return nil
}

// distance returns the norm of the difference between values and some rows of an array,
// relative to the norm of these rows.
func distance(got []float32, want *num.Array, rows []int) (float64, error) {
	if len(got) != len(rows)*want.Cols {
		return 0, fmt.Errorf("has %d values in %d rows, want %d", len(got), len(rows), len(rows)*want.Cols)
	}
	var off, norm float64
	for k, r := range rows {
		for c := range want.Cols {
			w := float64(want.At(r, c))
			e := float64(got[k*want.Cols+c]) - w
			off += e * e
			norm += w * w
		}
	}
	if off == 0 {
		return 0, nil
	}
	return math.Sqrt(off / norm), nil
}
