package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
)

// libraryRepetitions is the least number of repetitions beside a library.
const libraryRepetitions = 15

// Library is the measurement of a vendor's library that had its turns between those of a
// case.
type Library struct {
	Name      string // cuBLASLt
	Lowering  *engine.Lowering
	Seconds   float64 // the median of the repetitions
	Algorithm string  // that it chose

	// Ratio is its time divided by the case's in the same repetition: the median, the least
	// and the greatest. Above 1 the case is faster.
	Ratio, Least, Most float64

	// Err says why it was not measured: it is not installed, does not compute the case, or
	// gave a result that no order of sums can give.
	Err error
}

// libraryOf returns the lowering of a vendor's library for a definition in the given formats,
// or nil.
func libraryOf(b engine.Backend, d *def.Definition, dtypes []num.DType) *engine.Lowering {
	for _, l := range b.OnDemand(d) {
		if l.Library != "" && l.Takes(d, dtypes) == nil {
			return l
		}
	}
	return nil
}

// rival is a library at the operands of a case.
type rival struct {
	Library
	setting *setting
	queue   *engine.Queue
	bounds  *bounds
	seconds []float64
}

// newRival prepares the library of a case and checks it for the first time. It returns nil
// if there is none; one that cannot be measured has an error.
func (m *Meter) newRival(ctx context.Context, s *setting) *rival {
	l := s.c.Library
	if l == nil {
		return nil
	}
	r := &rival{Library: Library{Name: l.Library, Lowering: l}, setting: s}
	// What it computes here is checked here; what it does elsewhere is no matter.
	r.queue = m.queue.With(engine.Using(l), engine.WithAdmission(engine.Off)).WithContext(ctx)
	if r.Err = r.choose(); r.Err != nil {
		return r
	}
	d := s.c.Data.Definition
	accum := l.Promise.AccumOf(m.queue.Device().Describe().Architecture, d, s.c.DTypes, func(letter string) int { return s.c.Data.Sizes[letter] })
	if r.bounds, r.Err = newBounds(ctx, l, d, s.operands.Arrays(), s.c.Data.Params, accum); r.Err == nil {
		r.Err = r.check("before")
	}
	return r
}

// choose finds the library's algorithm.
func (r *rival) choose() error {
	c := r.setting.c
	t, err := engine.NewTrial(r.queue, c.Data.Definition, r.Lowering)
	if err != nil {
		return err
	}
	p, err := t.Prepare(r.setting.tensors, c.Data.Params)
	if err != nil {
		return err
	}
	choice, err := p.Choice()
	if choice != nil {
		r.Algorithm = choice.Algorithm
	}
	return err
}

func (r *rival) submit() error {
	c := r.setting.c
	return engine.Call(r.queue, c.Data.Definition, r.setting.tensors, c.Data.Params)
}

// check makes a call and compares its outputs with what the order of its sums may give.
func (r *rival) check(when string) error {
	s := r.setting
	if err := s.clear(); err != nil {
		return err
	}
	if err := r.submit(); err != nil {
		return err
	}
	if err := s.queue.Wait(); err != nil {
		return err
	}
	return r.checkLast(when)
}

// checkLast compares the outputs of the last call.
func (r *rival) checkLast(when string) error {
	s := r.setting
	for i := range s.c.Data.Definition.Operands {
		if !s.c.Data.Definition.Operands[i].IsOut {
			continue
		}
		got, breach, err := s.memory.ReadOperand(i)
		if err != nil {
			return err
		}
		reason := r.bounds.outside(i, got)
		if breach != nil {
			reason = breach.Reason
		}
		if reason != "" {
			return fmt.Errorf("wrong %s timing: %s", when, reason)
		}
	}
	return nil
}

// take times one call, and remembers what went wrong.
func (r *rival) take() (float64, error) {
	if err := r.setting.restore(); err != nil {
		return 0, err
	}
	t, err := r.setting.track.time(r.submit, 1)
	if err != nil {
		r.Err = err
	}
	return t, nil
}

// finish checks once more and sets the figures, given the times of the case.
func (r *rival) finish(ours []float64) *Library {
	if r == nil {
		return nil
	}
	if r.Err == nil {
		r.Err = r.check("after")
	}
	if r.Err == nil {
		ratios := make([]float64, len(ours))
		for i := range ours {
			ratios[i] = r.seconds[i] / max(ours[i], 1e-9)
		}
		r.Seconds, r.Ratio, r.Least, r.Most = median(r.seconds), median(ratios), slices.Min(ratios), slices.Max(ratios)
	}
	return &r.Library
}

// bounds are the values that a lowering that promises no bits may give, for some rows of
// the outputs.
type bounds struct {
	rows       []int // nil if all are compared
	admissible *engine.Admissible
}

// newBounds encloses the same rows that NewSample computes.
func newBounds(ctx context.Context, l *engine.Lowering, d *def.Definition, operands []num.Array, params []float64, accum def.Accum) (*bounds, error) {
	s := &Sample{d: d, Want: slices.Clone(operands)}
	if canSample(d) {
		s.Rows = someRows(d, operands)
	}
	s.restrict()
	if s.Rows == nil && steps(d, operands) > mostSteps {
		return nil, errors.New("the result is too large to be checked")
	}
	a, err := l.Admissible(ctx, d, s.Want, params, accum)
	return &bounds{rows: s.Rows, admissible: a}, err
}

// outside says which value of an output is not admissible; it returns "" if none.
func (b *bounds) outside(i int, got num.Array) string {
	rows := func(r int) int { return r }
	if b.rows != nil {
		got = pickRows(got, b.rows)
		rows = func(r int) int { return b.rows[r] }
	}
	return b.admissible.Outside(i, got, rows)
}
