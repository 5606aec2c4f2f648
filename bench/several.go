package bench

import (
	"context"
	"fmt"
	"time"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/num"
	"tokitai/tensor"
	"tokitai/trial"
)

// newPartsSample computes the answer for operands that are divided into tensors, on the CPU.
// Where a row does not depend on others, that is the answer of NewSample.
func newPartsSample(ctx context.Context, c *Case, operands *trial.Operands) (*Sample, error) {
	d := c.Data.Definition
	memory, err := operands.Place(cpu.Queue().Device())
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	tensors, err := memory.Tensors()
	if err != nil {
		return nil, err
	}
	parts, err := parts(d, tensors, c.Tensors)
	if err != nil {
		return nil, err
	}
	if err := c.Operation.Several.Run(cpu.Queue().WithContext(ctx), c.Data.Params, parts); err != nil {
		return nil, fmt.Errorf("the CPU refused: %w", err)
	}
	s := &Sample{d: d, Want: make([]num.Array, len(d.Operands))}
	for i := range d.Operands {
		if d.Operands[i].IsOut {
			if s.Want[i], _, err = memory.ReadOperand(i); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// parts divides the operands per element into n tensors, as a model has them: every other
// one is a single row, and the others share the remaining rows.
func parts(d *def.Definition, tensors []*tensor.Tensor, n int) ([][]*tensor.Tensor, error) {
	list := make([][]*tensor.Tensor, n)
	row := 0
	for i := range list {
		end := rowsBefore(i+1, n, rowsOf(d, tensors))
		for k, t := range tensors {
			if d.Operands[k].Extent == def.PerElement {
				var err error
				if t, err = t.Slice(row, end, 0, t.Cols()); err != nil {
					return nil, err
				}
			}
			list[i] = append(list[i], t)
		}
		row = end
	}
	return list, nil
}

// rowsBefore returns how many of the rows the first i of n tensors have.
func rowsBefore(i, n, rows int) int {
	matrices, all := (i+1)/2, (n+1)/2
	return i/2 + (rows-n/2)*matrices/all
}

func rowsOf(d *def.Definition, tensors []*tensor.Tensor) int {
	for k, t := range tensors {
		if d.Operands[k].Extent == def.PerElement {
			return t.Rows()
		}
	}
	return 0
}

// submitParts makes the calls on the tensors.
func (s *setting) submitParts() error {
	start := time.Now()
	err := s.c.Operation.Several.Run(s.queue, s.c.Data.Params, s.parts)
	s.hostSeconds = time.Since(start).Seconds()
	return err
}

// takeOne times one call on all of the operands.
func (s *setting) takeOne() (seconds float64, err error) {
	if err := s.restore(); err != nil {
		return 0, err
	}
	return s.track.time(s.submitOne, 1)
}
