package dispatch_test

import (
	"cmp"
	"slices"
	"testing"

	"tokitai/num"
	"tokitai/op/dispatch"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, dispatch.Operations, wrong(), right(), nil)
}

// sorted is a kernel that sorts choices as compare says, bad ones left out, and changes the rows.
func sorted(compare func(c *mutants.Call, a, b int) int, change func(c *mutants.Call)) mutants.Plain {
	return mutants.Plain{
		Body:  func(*mutants.Call) {},
		Write: func(*mutants.Call, int, mutants.Matrix, *mutants.Plain) {},
		After: func(c *mutants.Call) {
			experts := c.Stored[1].Rows
			put := func(operand, i, v int) {
				a := c.Stored[operand]
				a.SetBits(i/a.Cols, i%a.Cols, uint32(int32(v)))
			}
			var order []int
			counts := make([]int, experts)
			for i, e := range c.Index {
				put(3, i, -1)
				put(4, i, -1)
				put(5, i, -1)
				if e >= 0 && int(e) < experts {
					order = append(order, i)
					counts[e]++
				}
			}
			slices.SortFunc(order, func(a, b int) int { return compare(c, a, b) })
			for r, i := range order {
				put(3, r, i/c.Stored[0].Cols)
				put(4, r, i)
				put(5, i, r)
			}
			offset := 0
			for e, n := range counts {
				put(1, e, n)
				put(2, e, offset)
				offset += n
			}
			put(2, experts, offset)
			if change != nil {
				change(c)
			}
		},
	}
}

func stable(c *mutants.Call, a, b int) int {
	return cmp.Or(cmp.Compare(c.Index[a], c.Index[b]), cmp.Compare(a, b))
}

func wrong() []mutants.Mutant {
	l := mutants.NewList(dispatch.Operations)
	l.Of(dispatch.ForwardDefinition, num.I32)
	l.From(mutants.KernelPractice)
	l.Add("not-stable", "the rows of an expert are in no order, as atomic counters leave them", mutants.PromisesBits, sorted(func(c *mutants.Call, a, b int) int {
		return cmp.Or(cmp.Compare(c.Index[a], c.Index[b]), cmp.Compare(a*7919%1009, b*7919%1009), cmp.Compare(b, a))
	}, nil))
	l.Add("by-choice", "all first choices come before all second ones", mutants.PromisesBits, sorted(func(c *mutants.Call, a, b int) int {
		choices := c.Stored[0].Cols
		return cmp.Or(cmp.Compare(c.Index[a], c.Index[b]), cmp.Compare(a%choices, b%choices), cmp.Compare(a, b))
	}, nil))
	l.Add("descending", "the rows of an expert are in the order of descending tokens", mutants.PromisesBits, sorted(func(c *mutants.Call, a, b int) int {
		return cmp.Or(cmp.Compare(c.Index[a], c.Index[b]), cmp.Compare(b, a))
	}, nil))
	l.Add("inclusive-offsets", "offsets[e] counts the rows of e too", mutants.PromisesBits, sorted(stable, func(c *mutants.Call) {
		for e := range c.Stored[1].Rows {
			c.Stored[2].SetBits(e, 0, uint32(c.Stored[2].Int(e, 0)+c.Stored[1].Int(e, 0)))
		}
	}))
	l.Add("source-is-slot", "source has the choice instead of the token", mutants.PromisesBits, sorted(stable, func(c *mutants.Call) {
		for t := range c.Stored[3].Rows {
			for s := range c.Stored[3].Cols {
				c.Stored[3].SetBits(t, s, c.Stored[4].Bits(t, s))
			}
		}
	}))
	l.Add("capacity", "an expert has at most twice the rows of the mean, others are dropped", mutants.PromisesBits, sorted(stable, func(c *mutants.Call) {
		most := int32(2*len(c.Index)/c.Stored[1].Rows + 2)
		for e := range c.Stored[1].Rows {
			c.Stored[1].SetBits(e, 0, uint32(min(most, c.Stored[1].Int(e, 0))))
		}
	}))
	l.Add("end-not-written", "the rows that bad indices leave keep what was there", mutants.PromisesBits, sorted(stable, func(c *mutants.Call) {
		for t := range c.Stored[3].Rows {
			for s := range c.Stored[3].Cols {
				if c.Stored[3].Int(t, s) < 0 {
					c.Stored[3].SetBits(t, s, 0)
				}
			}
		}
	}))
	return l.All
}

func right() []mutants.Mutant {
	l := mutants.NewList(dispatch.Operations)
	l.Of(dispatch.ForwardDefinition, num.I32)
	l.Add("by-comparing", "a sort by comparisons instead of counting", mutants.PromisesBits, sorted(stable, nil))
	return l.All
}
