package model

import (
	"slices"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/rmsnorm"
)

// RMSNormBackwardSum adds dx of rmsnorm.backward, as that stores it, to what there is.
var RMSNormBackwardSum = def.Must(def.Rowwise("model.rmsnorm.backward.sum", func(b *def.Builder) {
	dy, x := b.In("dy"), b.In("x", def.Like("dy"))
	gamma := b.InCol("gamma", def.Like("dy").Or(num.F32))
	rstd := b.InRow("rstd", def.Only(num.F32))
	old := b.In("old", def.Like("dy"))
	xhat, t := x.Mul(rstd).As("xhat"), dy.Mul(gamma).As("t")
	c := def.RowSum(t.Mul(xhat)).Div(b.Columns()).As("c")
	b.Out("dx", old.Add(t.Sub(xhat.Mul(c)).Mul(rstd).Round(def.StorageOf("dy")).As("own")), def.Like("dy"))
	b.OutCol("dgamma", def.ColSum(dy.Mul(xhat)), def.Like("gamma"))
	b.Formula("dx = old + dx of rmsnorm.backward, rounded before the addition and behind it", "dgamma as there")
}))

// sums names, for definitions whose dx may be added to what there is, those that do it at once. Products are not among them: on a
// GPU the end of a product that reads another operand takes longer than a call of its own.
var sums = map[*def.Definition]*def.Definition{rmsnorm.BackwardDefinition: RMSNormBackwardSum}

// Joined returns a program that gives what is kept the same bits with fewer calls, and with less memory moved: where the gradient of a
// norm is added to another one, and where the norm of a sum is taken, one call does both. Calls that read weights alone are made
// apart, by [Instance.RunOnce].
func (p *Program) Joined() *Program {
	j := joining{p, map[*Value][]int{}, map[*Value][]int{}, map[int]*Call{}, map[int]bool{}}
	for i, c := range p.Calls {
		for k, r := range c.Operands {
			list := j.readers
			if c.Definition.Operands[k].IsOut {
				list = j.writers
			}
			list[r.value] = append(list[r.value], i)
		}
	}
	for i, c := range p.Calls {
		if c.Definition == Add && !j.gone[i] && !j.addInto(i) {
			j.norm(i)
		}
	}
	joined := &Program{}
	isUsed := map[*Value]bool{}
	for i, c := range p.Calls {
		if other, ok := j.instead[i]; ok {
			c = other
		}
		if j.gone[i] {
			continue
		}
		joined.Calls = append(joined.Calls, c)
		for _, v := range valuesOf(c) {
			isUsed[v] = true
		}
	}
	for _, v := range p.Values {
		if v.Kind != Result || isUsed[v] {
			joined.Values = append(joined.Values, v)
		}
	}
	joined.findOnce()
	joined.plan()
	return joined
}

// findOnce finds the results that depend on weights alone.
func (p *Program) findOnce() {
	p.once = map[*Value]bool{}
	for _, c := range p.Calls {
		isOnce := !slices.ContainsFunc(c.Params, func(x Param) bool { return x.Variable != "" })
		for i, r := range c.Operands {
			if o := &c.Definition.Operands[i]; o.IsOut {
				isOnce = isOnce && r.isWhole() && !r.value.IsKept
			} else {
				isOnce = isOnce && (r.value.Kind == Weight || r.value.Kind == Fixed || p.once[r.value])
			}
		}
		for _, r := range c.Operands {
			if isOnce && c.writes(r.value) {
				p.once[r.value] = true
			}
		}
	}
}

// joining is a program of which calls are joined.
type joining struct {
	*Program
	readers, writers map[*Value][]int // calls, by number
	instead          map[int]*Call    // of calls
	gone             map[int]bool
}

// isKnown reports whether an operand is known before a call.
func (j *joining) isKnown(r Ref, before int) bool {
	return !slices.ContainsFunc(j.writers[r.value], func(i int) bool { return i >= before })
}

// addInto has the call that computes one of two values that are added add it to the other one, if that is known before it, and reports
// whether it does.
func (j *joining) addInto(at int) bool {
	add := j.Calls[at]
	y := add.Operands[2]
	for k := range 2 {
		own, old := add.Operands[1-k], add.Operands[k]
		v := own.value
		if v.IsKept || len(j.readers[v]) != 1 || len(j.writers[v]) != 1 || !own.isWhole() || !old.isWhole() || !y.isWhole() || old.value == v {
			continue
		}
		from := j.writers[v][0]
		c := j.Calls[from]
		d := sums[c.Definition]
		if _, isChanged := j.instead[from]; d == nil || isChanged || !j.isKnown(old, from) {
			continue
		}
		dy, dx := c.Operands[c.Definition.Operand("dy")], c.Operands[c.Definition.Operand("dx")]
		if !dx.isWhole() || dx.value.DType != dy.value.DType || old.value.DType != dy.value.DType {
			continue
		}
		joined := &Call{Name: c.Name, Definition: d, Params: c.Params}
		for i := range d.Operands {
			switch name := d.Operands[i].Name; name {
			case "old":
				joined.Operands = append(joined.Operands, refTo(old.value).As(dx.shape...))
			case "dx":
				joined.Operands = append(joined.Operands, refTo(y.value).As(dx.shape...))
			default:
				joined.Operands = append(joined.Operands, c.Operands[c.Definition.Operand(name)])
			}
		}
		j.instead[from], j.gone[at] = joined, true
		j.writers[y.value] = []int{from}
		return true
	}
	return false
}

// norm has the call that computes a sum compute its norm too, if that is taken.
func (j *joining) norm(at int) {
	add := j.Calls[at]
	sum := add.Operands[2]
	for _, i := range j.readers[sum.value] {
		c := j.Calls[i]
		if c.Definition != rmsnorm.ForwardDefinition || j.gone[i] {
			continue
		}
		operand := func(name string) Ref { return c.Operands[c.Definition.Operand(name)] }
		x, gamma := operand("x"), operand("gamma")
		if x.value != sum.value || !x.isWhole() || gamma.value.Kind == Result || slices.ContainsFunc(add.Operands, func(r Ref) bool { return !r.isWhole() }) {
			continue
		}
		joined := &Call{Name: c.Name, Definition: rmsnorm.ResidualForwardDefinition, Params: c.Params}
		for _, o := range joined.Definition.Operands {
			switch o.Name {
			case "x":
				joined.Operands = append(joined.Operands, add.Operands[0].As(x.shape...))
			case "residual":
				joined.Operands = append(joined.Operands, add.Operands[1].As(x.shape...))
			case "sum":
				joined.Operands = append(joined.Operands, sum.As(x.shape...))
			default:
				joined.Operands = append(joined.Operands, operand(o.Name))
			}
		}
		j.instead[at], j.gone[i] = joined, true
		return
	}
}
