package bench

import (
	"bytes"
	"fmt"
	"time"

	"tokitai/engine"
	"tokitai/tensor"
)

// Sequence is calls whose cost is measured twice: made one by one, and recorded.
type Sequence struct {
	Name  string
	Calls int // of a run

	// Run makes the calls of a run on a queue. Runs are numbered from 1.
	Run func(q *engine.Queue, number int) error

	// Change makes those calls whose parameters are others in each run; nil if all are the
	// same.
	Change func(q *engine.Queue, number int) error

	// Tensors are all that the calls write.
	Tensors []*tensor.Tensor
}

// SequenceTimes are medians over rounds, in seconds for each call.
type SequenceTimes struct{ OneByOne, Recorded float64 }

const (
	sequenceRounds = 15
	sequenceRuns   = 20 // of a round, submitted without waiting
	comparedRuns   = 3
)

// WrongSequenceError reports a recording whose results differ from those of its calls.
type WrongSequenceError struct {
	Name   string
	Tensor int
}

func (e *WrongSequenceError) Error() string {
	return fmt.Sprintf("%s: the recording gives tensor %d other bits than its calls", e.Name, e.Tensor)
}

// MeasureSequence compares the results of runs, bit for bit, and measures what a call costs,
// both ways in turns. If results differ, the error is a *WrongSequenceError.
func MeasureSequence(q *engine.Queue, s *Sequence) (*SequenceTimes, error) {
	initial, err := s.contents()
	if err != nil {
		return nil, err
	}
	recording, err := q.Record(func(q *engine.Queue) error { return s.Run(q, 1) })
	if err != nil {
		return nil, err
	}
	defer recording.Close()
	number := 0
	oneByOne := func() error { number++; return s.Run(q, number) }
	change := func(q *engine.Queue) error { return s.Change(q, number) }
	recorded := func() error {
		number++
		if s.Change != nil {
			if err := recording.Update(change); err != nil {
				return err
			}
		}
		return recording.Run(q)
	}
	round := func(run func() error, runs int) (seconds float64, err error) {
		start := time.Now()
		for range runs {
			if err := run(); err != nil {
				return 0, err
			}
		}
		if err := q.Wait(); err != nil {
			return 0, err
		}
		return time.Since(start).Seconds() / float64(runs*s.Calls), nil
	}

	if _, err := round(oneByOne, comparedRuns); err != nil {
		return nil, err
	}
	want, err := s.contents()
	if err != nil {
		return nil, err
	}
	number = 0
	if err := s.restore(initial); err != nil {
		return nil, err
	}
	if _, err := round(recorded, comparedRuns); err != nil {
		return nil, err
	}
	got, err := s.contents()
	if err != nil {
		return nil, err
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			return nil, &WrongSequenceError{s.Name, i}
		}
	}

	var times [2][]float64
	for range sequenceRounds {
		for way, run := range []func() error{oneByOne, recorded} {
			seconds, err := round(run, sequenceRuns)
			if err != nil {
				return nil, err
			}
			times[way] = append(times[way], seconds)
		}
	}
	return &SequenceTimes{OneByOne: median(times[0]), Recorded: median(times[1])}, nil
}

func (s *Sequence) contents() ([][]byte, error) {
	var all [][]byte
	for _, x := range s.Tensors {
		raw, err := x.Bytes()
		if err != nil {
			return nil, err
		}
		all = append(all, raw)
	}
	return all, nil
}

func (s *Sequence) restore(contents [][]byte) error {
	for i, x := range s.Tensors {
		if err := x.SetBytes(contents[i]); err != nil {
			return err
		}
	}
	return nil
}
