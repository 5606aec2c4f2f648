package train

import (
	"cmp"
	"slices"

	"tokitai/engine"
)

// Cost is what the calls of one kernel, or a part of a step that is no call of the network, take of a step.
type Cost struct {
	Name     string  `json:"name"`               // of a definition, or of a part
	Lowering string  `json:"lowering,omitempty"` // "" of a part
	Calls    int     `json:"calls"`              // in a step
	Seconds  float64 `json:"seconds"`            // of all of them
	Bytes    float64 `json:"bytes,omitempty"`    // the least that they can move; 0 for a part of a call
	Products float64 `json:"products,omitempty"` // that they add up
}

// Profile takes a step and measures each of its calls with clock, which does the work and says how long the device took.
// Every call is recorded repeat times in a row and measured as a whole: as in a step, the host does not hold it up, and
// operands that fit into a cache are there. The longest part of the step comes first. The trainer must not be used
// afterwards: its weights are those of no step.
func (t *Trainer) Profile(clock func(work func() error) (seconds float64, err error), repeat int) ([]Cost, error) {
	if _, err := t.Step(); err != nil {
		return nil, err
	}
	leaf, at := t.levels[0].leaf, t.variables(t.step, 0)
	var list []*Cost
	costOf := func(name, lowering string) *Cost {
		for _, c := range list {
			if c.Name == name && c.Lowering == lowering {
				return c
			}
		}
		list = append(list, &Cost{Name: name, Lowering: lowering})
		return list[len(list)-1]
	}
	for i, c := range t.program.Calls {
		var chosen *engine.Lowering
		r, err := t.queue.Record(func(q *engine.Queue) error {
			for range repeat {
				if err := leaf.RunCall(q, i, at, engine.ReportLowering(&chosen)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		seconds, err := t.timeOf(r, clock)
		r.Close()
		if err != nil {
			return nil, err
		}
		times := t.config.Leaves
		if t.program.IsOnce(c) {
			times = 1
		}
		cost, each := costOf(c.Definition.Name, chosen.Name), float64(times)
		cost.Calls += times
		cost.Seconds += each * seconds / float64(repeat)
		cost.Bytes += each * c.Traffic()
		cost.Products += each * t.network.ProductsOf(c)
	}
	part := func(name string, r recorded) error {
		seconds, err := t.timeOf(r, clock)
		if err == nil {
			cost := costOf(name, "")
			cost.Calls++
			cost.Seconds += seconds
		}
		return err
	}
	if err := t.eachSum(func(merge recorded) error { return part("sums over leaves", merge) }); err != nil {
		return nil, err
	}
	if err := part("norm of gradients", t.measure); err != nil {
		return nil, err
	}
	if err := part("optimizer and digests", t.advance); err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b *Cost) int { return cmp.Compare(b.Seconds, a.Seconds) })
	var costs []Cost
	for _, c := range list {
		costs = append(costs, *c)
	}
	return costs, nil
}

// timeOf measures a recording that has run once.
func (t *Trainer) timeOf(r recorded, clock func(work func() error) (float64, error)) (float64, error) {
	run := func() error { return r.Run(t.queue) }
	if err := run(); err != nil {
		return 0, err
	}
	if err := t.queue.Wait(); err != nil {
		return 0, err
	}
	return clock(run)
}
