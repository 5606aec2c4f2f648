package verify

import (
	"context"
	"errors"
	"fmt"

	"tokitai/evidence"
	"tokitai/verify/cases"
	"tokitai/verify/probe"
)

// mostReplayed limits the elements of all operands of a case that is replayed: reports may come
// from strangers.
const mostReplayed = 1 << 28

// Replayed is the result of replaying a case.
type Replayed struct {
	Comparison evidence.Comparison
	Reason     string // why the results cannot be compared; "" if they can
}

// IsCompared reports whether the case ran on the listed inputs.
func (r Replayed) IsCompared() bool { return r.Reason == "" }

// Replay runs a case of a report again and compares its results with the listed ones. The target
// computes the report's definition; it is nil for a report of [Probe], whose cases are computed by
// the report's model. Options has the device and the tool. Replay returns an error if the case
// could not be run to its end.
func Replay(ctx context.Context, t *Target, r *evidence.Report, listed evidence.Case, o Options) (Replayed, error) {
	again, why, err := runListed(ctx, t, r, listed, o)
	if err != nil || why != "" {
		return Replayed{evidence.UnknownInputs, why}, err
	}
	found := Replayed{Comparison: listed.Compare(again)}
	if found.Comparison == evidence.UnknownInputs {
		found.Comparison = resolve(t, r, listed)
	}
	switch found.Comparison {
	case evidence.OtherInputs:
		found.Reason = fmt.Sprintf("its inputs were made by another version of the pattern %s", cases.PatternOf(listed.Name))
	case evidence.UnknownInputs:
		found.Reason = fmt.Sprintf("the report does not say which version of the pattern %s made its inputs", cases.PatternOf(listed.Name))
	}
	return found, nil
}

// runListed runs a case again and returns it with its hashes, or the reason why it cannot be run.
func runListed(ctx context.Context, t *Target, r *evidence.Report, listed evidence.Case, o Options) (again evidence.Case, why string, err error) {
	if t == nil {
		if again, err = probe.Replay(r, listed, mostReplayed); err != nil {
			return again, err.Error(), nil
		}
		return again, "", nil
	}
	c, err := t.Cases().Parse(listed.Name)
	if err != nil {
		unknown, _ := errors.AsType[*UnknownError](err)
		return again, unknown.Reason, nil
	}
	elements := int64(0)
	for _, operand := range t.Definition.Operands {
		rows, cols := operand.Matrix(c.Lengths())
		elements += int64(rows) * int64(cols+c.Gap)
	}
	if elements > mostReplayed {
		return again, fmt.Sprintf("it has %d elements, at most %d are replayed", elements, mostReplayed), nil
	}
	o.Seed, o.Case = *r.Generator.Seed, listed.Name
	result, err := Run(ctx, t, o)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return again, "", err
	}
	if len(result.Report.CaseList) != 1 {
		return again, "", fmt.Errorf("%s %s %s: %s", r.Lowering, r.DType, listed.Name, result.Report.Reason)
	}
	return result.Report.CaseList[0], "", nil
}
