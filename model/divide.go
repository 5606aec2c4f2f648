package model

import (
	"errors"
	"fmt"
	"slices"

	"tokitai/def"
)

// Division is a program whose experts may be elsewhere: Program has all calls but those over the rows of
// experts, which Experts has. A call of experts computes each row by itself, or adds up rows of one
// expert, so that it may be made for the rows of some experts alone.
type Division struct {
	Program   *Program
	Experts   *Program
	Exchanges []Exchange
	Weights   []ExpertWeight

	rows int // that a run of the program sends to experts
}

// Exchange is a place of a program where rows go to their experts, which make some calls, and rows come back.
type Exchange struct {
	At       int      // the call of Program in front of which it is
	From, To int      // the calls of Experts, to excluded
	Rows     []*Value // that go to the experts
	Results  []*Value // that come back
	Offsets  *Value   // where the rows of each expert begin

	// IsFirst says that the rows are new: no exchange before has these offsets.
	IsFirst bool

	fresh []int // buffers of Experts whose content is written first here
}

// ExpertWeight is a weight with a matrix for each expert.
type ExpertWeight struct{ Weight, Gradient string } // names; no gradient in a program without

// Divide divides a program.
func (p *Program) Divide() (*Division, error) {
	d := &Division{Program: &Program{}, Experts: &Program{}}
	isRow, isOf := d.regions(p)
	weights := map[*Value]bool{}
	known, outside := map[*Value]bool{}, map[*Value]bool{} // known at the experts; used by other calls
	var uses, experts [][]*Value
	var at *Exchange
	begun := 0 // the place of its rows among the uses
	end := func() {
		if at != nil {
			at.To = len(d.Experts.Calls)
			experts[begun] = at.Rows
			experts = append(experts, at.Results)
			d.Exchanges = append(d.Exchanges, *at)
		}
		at = nil
	}
	readBy := map[*Value]bool{} // by other calls
	for i, c := range p.Calls {
		for k, r := range c.Operands {
			if !isOf[i] && !c.Definition.Operands[k].IsOut {
				readBy[r.value] = true
			}
		}
	}
	for i, c := range p.Calls {
		values := valuesOf(c)
		if !isOf[i] {
			if at != nil {
				uses = append(uses, slices.Concat(at.Rows, at.Results, []*Value{at.Offsets}))
			}
			end()
			d.Program.Calls = append(d.Program.Calls, c)
			uses = append(uses, values)
			for _, v := range values {
				outside[v] = true
			}
			continue
		}
		if at == nil {
			at = &Exchange{At: len(d.Program.Calls), From: len(d.Experts.Calls)}
			begun, experts = len(experts), append(experts, nil)
		}
		d.Experts.Calls = append(d.Experts.Calls, c)
		if slices.ContainsFunc(c.Params, func(p Param) bool { return p.Variable != "" }) {
			return nil, fmt.Errorf("%s: a call of experts has a variable, which may differ between the runs", c.Name)
		}
		for k, r := range c.Operands {
			v, isOut := r.value, c.Definition.Operands[k].IsOut
			switch {
			case isRow[v]:
				if len(v.Shape) < 1 || v.Len()%max(1, d.rows) != 0 || !r.isWhole() {
					return nil, fmt.Errorf("%s: %s is no matrix of %d rows of experts", c.Name, r, d.rows)
				}
				if isOut && readBy[v] && !slices.Contains(at.Results, v) {
					at.Results = append(at.Results, v)
				}
				if !isOut && !known[v] {
					at.Rows = append(at.Rows, v)
				}
				known[v] = true
			case v.Kind == Weight && !isOut:
				if !weights[v] {
					weights[v] = true
					d.Weights = append(d.Weights, ExpertWeight{Weight: v.Name})
				}
			case isOut && c.Definition == GroupedW:
			case c.Definition.Operands[k].Name == groups.Offsets:
				if at.Offsets != nil && at.Offsets != v {
					return nil, fmt.Errorf("%s: rows of two mixtures are not apart", c.Name)
				}
				at.Offsets = v
			default:
				return nil, fmt.Errorf("%s: %s is neither rows of experts nor a weight", c.Name, r)
			}
		}
		experts = append(experts, values)
	}
	if at != nil || len(d.Exchanges) == 0 {
		return nil, errors.New("the program has no experts, or ends with them")
	}
	if err := d.finish(p, weights, isRow, outside); err != nil {
		return nil, err
	}
	d.Program.planUses(uses, func(v *Value) bool { return v.Kind == Result && !v.IsKept })
	d.Experts.planUses(experts, func(v *Value) bool { return isRow[v] })
	d.findFresh()
	return d, nil
}

// valuesOf lists the values that a call uses.
func valuesOf(c *Call) (list []*Value) {
	for _, r := range c.Operands {
		list = append(list, r.value)
	}
	return list
}

func isGrouped(d *def.Definition) bool { return d == Grouped || d == GroupedX || d == GroupedW }

// regions returns which values are rows of experts, and which calls are over them alone.
func (d *Division) regions(p *Program) (isRow map[*Value]bool, isOf []bool) {
	isRow, isOf = map[*Value]bool{}, make([]bool, len(p.Calls))
	for i, c := range p.Calls {
		if !isGrouped(c.Definition) {
			continue
		}
		isOf[i] = true
		for k, r := range c.Operands {
			if o := c.Definition.Operands[k]; slices.Contains([]string{"x", "y", "dx", "dy"}, o.Name) {
				isRow[r.value], d.rows = true, r.rows
			}
		}
	}
	for i, c := range p.Calls {
		if isOf[i] || c.Definition.Expression() == nil {
			continue
		}
		isOf[i] = true
		for k, r := range c.Operands {
			o := &c.Definition.Operands[k]
			isOf[i] = isOf[i] && (o.IsOut || isRow[r.value]) && o.Extent == def.PerElement
			if use, _ := c.Definition.BatchUse(k); o.IsOut && use != def.OwnRow {
				isOf[i] = false
			}
		}
		for _, r := range c.Operands {
			if isOf[i] {
				isRow[r.value] = true
			}
		}
	}
	return isRow, isOf
}

// finish sets the values of both programs, and what follows from the order of the exchanges.
func (d *Division) finish(p *Program, weights, isRow, outside map[*Value]bool) error {
	gradients := map[*Value]string{}
	for _, c := range d.Experts.Calls {
		if c.Definition != GroupedW {
			continue
		}
		x := c.Operands[c.Definition.Operand("dw")]
		if !x.value.IsKept {
			return fmt.Errorf("%s: %s is not the whole gradient of a weight", c.Name, x)
		}
		gradients[x.value] = c.Name
	}
	for v := range weights {
		if outside[v] {
			return fmt.Errorf("%s: it is used by other calls than those of experts", v.Name)
		}
	}
	for i := range d.Weights {
		for v := range gradients {
			if v.Name == "grad."+d.Weights[i].Weight {
				d.Weights[i].Gradient = v.Name
			}
		}
	}
	seen := map[*Value]bool{}
	for i := range d.Exchanges {
		x := &d.Exchanges[i]
		x.IsFirst = !seen[x.Offsets]
		seen[x.Offsets] = true
		for _, v := range slices.Concat(x.Rows, x.Results) {
			outside[v] = true
		}
	}
	for _, v := range p.Values {
		if outside[v] || v.Kind == Input {
			d.Program.Values = append(d.Program.Values, v)
		}
		if weights[v] || isRow[v] || gradients[v] != "" || seen[v] {
			d.Experts.Values = append(d.Experts.Values, v)
		}
	}
	return nil
}

// findFresh notes in which exchange a buffer of the experts gets new content.
func (d *Division) findFresh() {
	known := map[*Value]bool{}
	for i := range d.Exchanges {
		x := &d.Exchanges[i]
		for _, c := range d.Experts.Calls[x.From:x.To] {
			for _, v := range valuesOf(c) {
				if at, isPlanned := d.Experts.buffer[v]; isPlanned && !known[v] {
					known[v] = true
					x.fresh = append(x.fresh, at)
				}
			}
		}
	}
}
