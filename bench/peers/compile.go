package peers

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/num"
	"tokitai/tensor"
	"tokitai/trial"
)

// compileSizes are sizes so small that the call itself takes no time.
var compileSizes = map[string]int{"R": 2, "C": 64, "G": 2, "H": 2, "M": 8, "N": 16, "K": 8, "Q": 4, "V": 8, "D": 16, "P": 4, "S": 2, "T": 4, "E": 4, "B": 2, "J": 1}

// Compile measures the first call of a case's definition. Each attempt has a definition of
// its own: the same expression under another name, so that nothing is found compiled.
func (r *Runner) Compile(ctx context.Context, c *Case) (*Compile, error) {
	result := &Compile{Op: c.Operation.Name, DType: c.DType.String(), MS: math.Inf(1), Admitted: math.Inf(1)}
	queue := r.teams[len(r.teams)-1].queue.WithContext(ctx)
	for attempt := range 3 {
		for admission, least := range map[engine.Admission]*float64{engine.Off: &result.MS, engine.SelfTest: &result.Admitted} {
			seconds, err := firstCall(queue.With(engine.WithAdmission(admission)), c, fmt.Sprintf("%s.first%d%v", c.Data.Definition.Name, attempt, admission))
			if err != nil {
				return nil, fmt.Errorf("first call of %v: %w", c, err)
			}
			*least = min(*least, seconds*1e3)
		}
	}
	return result, nil
}

// firstCall returns the time of the first call of a case's definition under a new name.
func firstCall(q *engine.Queue, c *Case, name string) (float64, error) {
	old := c.Data.Definition
	d, err := def.Parse(strings.Replace(old.Text(), " "+old.Name+"\n", " "+name+"\n", 1), fn.All...)
	if err != nil {
		return 0, err
	}
	if d.Name != name {
		return 0, fmt.Errorf("definition is called %s, want %s", d.Name, name)
	}
	tensors := make([]*tensor.Tensor, len(d.Operands))
	for i := range d.Operands {
		o := &d.Operands[i]
		a := o.NewArray(c.DTypes[i], compileSizes)
		switch {
		case o.IsOffsets:
			trial.DivideEqually(a, compileSizes[o.Bound])
		case o.IsIn && c.DTypes[i] != num.I32:
			for r := range a.Rows {
				for k := range a.Cols {
					a.Set(r, k, 1)
				}
			}
		}
		if tensors[i], err = tensor.FromBytes(q.Device(), c.DTypes[i], a.Data, o.Shape(&a)...); err != nil {
			return 0, err
		}
		defer tensors[i].Close()
	}
	start := time.Now()
	err = engine.Call(q, d, tensors, c.Data.Params)
	return time.Since(start).Seconds(), err
}

// OnePerOperation returns the first case of each operation.
func OnePerOperation(cases []*Case) []*Case {
	var list []*Case
	for _, c := range cases {
		if !slices.ContainsFunc(list, func(other *Case) bool { return other.Operation == c.Operation }) {
			list = append(list, c)
		}
	}
	return list
}

// Line returns the times as a line of text.
func (c *Compile) Line() string {
	return fmt.Sprintf("first call of %s %s: %s ms, %s ms with the self-test", c.Op, c.DType, figure(c.MS), figure(c.Admitted))
}
