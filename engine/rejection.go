package engine

import (
	"errors"
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/trial"
)

// testRejection runs a self-test through the kernel's own check of indices, if it has
// one. A call with an index out of range must write nothing and return the IndexError
// that the host's check returns; a call without must compute the answer.
func (q *Queue) testRejection(p *plan, d *def.Definition, test selfTest, c selfTestCase) error {
	checker, ok := p.kernel.(IndexChecker)
	if !ok || !slices.ContainsFunc(d.Operands, func(o def.Operand) bool { return o.IsIndex }) {
		return nil
	}
	checked := KernelFunc(checker.LaunchChecked)
	inadmissible := func(cause error, format string, args ...any) error {
		return &InadmissibleError{Lowering: p.lowering.ID(d), Device: q.device.Name(), Test: test.name, Reason: fmt.Sprintf(format, args...), Cause: cause}
	}

	rejected := c.withIndices(test, false)
	var want *IndexError
	if !errors.As(rejected.checkIndices(), &want) {
		return inadmissible(nil, "the host finds no index out of range in a case that has one")
	}
	after, err := q.launchCase(checked, &rejected)
	got, isRejected := errors.AsType[*IndexError](err)
	switch {
	case !isRejected && err != nil:
		return inadmissible(err, "a call with an index out of range: %v", err)
	case !isRejected:
		return inadmissible(nil, "it accepts an index out of range: %v", want)
	case *got != *want:
		return inadmissible(nil, "it rejects an index out of range with %q, want %q", got, want)
	}
	if fault := after.Fault(rejected.operands); fault != "" {
		return inadmissible(nil, "it rejects an index out of range, but has written: %s", fault)
	}

	accepted := c.withIndices(test, true)
	after, err = q.launchCase(checked, &accepted)
	if err != nil {
		return inadmissible(err, "a call with all indices in range: %v", err)
	}
	if b := after.Breach(accepted.operands); b != nil {
		return inadmissible(nil, "%s", b)
	}
	accum := q.accumOf(p.lowering, d, accepted.call())
	if !p.lowering.Promise.IsBits() {
		reason, err := accepted.judgeBounded(p.lowering, accum, after.Arrays())
		if err != nil {
			return inadmissible(err, "%v", err)
		}
		if reason != "" {
			return inadmissible(nil, "%s", reason)
		}
		return nil
	}
	answer, err := accepted.answer(accum)
	if err != nil {
		return inadmissible(err, "the reference refused: %v", err)
	}
	if f := after.Difference(answer); f != nil {
		return inadmissible(nil, "where indices are checked, %s", f)
	}
	return nil
}

// withIndices returns the case with all indices in range, or with the last index of every
// index operand out of range and the others in range.
func (c *selfTestCase) withIndices(test selfTest, isInRange bool) selfTestCase {
	d := c.operands.Definition
	copied := selfTestCase{operands: c.operands.Clone(), params: c.params}
	for i := range d.Operands {
		o, a := &d.Operands[i], copied.operands.Array(i)
		if !o.IsIndex {
			continue
		}
		bound := o.LimitIn(test.sizes)
		trial.FillBits(a, func(r, k int) uint32 {
			v := int(a.Int(r, k))
			switch {
			case !isInRange && r == a.Rows-1 && k == a.Cols-1:
				if v = bound + 1; o.Except != "" && float64(v) == c.params[d.Param(o.Except)] {
					v++
				}
			case o.IsOffsets || o.Lengths != "": // which are in range
			default:
				v = (v + bound) % bound
			}
			return uint32(int32(v))
		})
	}
	return copied
}

// checkIndices is the host's check of a case's indices.
func (c *selfTestCase) checkIndices() error {
	return checkIndices(c.operands.Definition, &Launch{Call: *c.call()}, nil)
}
