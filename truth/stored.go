package truth

import (
	"slices"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
)

// A definition may round a value to the format in which an output holds it, and go on with the
// rounded value. The rest is then a function of the output as stored, which other calls read too:
// RMSNorm stores the sum of a row and its residual, and normalizes what it stored. Such a rounding
// is part of the mathematics: a step function, in mode Exact as well, and no error. A rounding that
// no output shows is one of several ways to compute a result, and counts as an error.

// isStored reports whether a node is a rounding to nearest whose result is an output in that format.
func (k *call) isStored(n *def.Node) bool {
	if n.Op != def.OpRound {
		return false
	}
	for _, o := range k.d.Math().Outputs {
		if o.Value == n && k.operands[o.Operand].DType == k.storage(n.Storage) {
			return true
		}
	}
	return false
}

// storage returns the format that a rounding node names.
func (k *call) storage(s def.Storage) num.DType {
	if s.Of != "" {
		return k.operands[k.d.Operand(s.Of)].DType
	}
	return s.Fixed
}

// isOneStep reports whether a node is a single operation on inputs. Every device rounds it
// correctly, and as its result is stored, every form of the computation has this step. So what is
// stored is certain.
func isOneStep(n *def.Node) bool {
	switch n.Op {
	case def.OpAdd, def.OpSub, def.OpMul:
		return n.Args[0].Op == def.OpInput && n.Args[1].Op == def.OpInput
	}
	return false
}

// once rounds a number, or one that was rounded to odd, to a format; twice rounds it to binary32
// first, as a computation does.
func once(d num.DType, x float64) float64  { return float64(num.Widen(d, num.NarrowF64(d, x))) }
func twice(d num.DType, x float64) float64 { return float64(num.Round(d, float32(x))) }

// keep evaluates a rounding that isStored.
func (e *evaluator[T]) keep(out []T, n *def.Node) {
	before, d := n.Args[0], e.storage(n.Storage)
	copy(out, e.values[before.ID].x)
	if e.isComputed != nil && slices.ContainsFunc(before.Args, e.isComputed) || !isOneStep(before) {
		e.rounding.keep(out, d)
		return
	}
	round := once
	if e.Mode == Rounded {
		round = twice
	}
	for j := range out {
		if v, ok := e.oneStep(before, j); ok {
			out[j] = e.zero.FromFloat64(round(d, v))
		}
	}
}

// oneStep returns element j of a node that isOneStep, rounded to odd; ok is false if an input is NaN
// or infinite.
func (e *evaluator[T]) oneStep(n *def.Node, j int) (v float64, ok bool) {
	var stored [2]float64
	for k, arg := range n.Args {
		x := at(e.values[arg.ID].x, j)
		if !x.Known() {
			return 0, false
		}
		stored[k], _ = x.Bounds()
	}
	x, y := stored[0], stored[1]
	switch n.Op {
	case def.OpMul:
		return x * y, true // exact
	case def.OpSub:
		y = -y
	}
	lo, hi := ball.Ball{Mid: x, Rad: max(y, -y)}.Endpoints()
	if y < 0 {
		return lo, true
	}
	return hi, true
}

// steps replaces enclosures by those of a monotonic step function of theirs.
func steps[T ball.Number[T]](xs []T, f func(end float64) float64) {
	for j, x := range xs {
		if !x.Known() {
			continue
		}
		lo, hi := x.Endpoints()
		xs[j] = x.FromFloat64(f(lo))
		if lo != hi && f(lo) != f(hi) {
			xs[j] = xs[j].Hull(x.FromFloat64(f(hi)))
		}
	}
}

func (exactly[T]) keep(xs []T, d num.DType) {
	steps(xs, func(end float64) float64 { return once(d, end) })
}

func (widened[T]) keep(xs []T, d num.DType) {
	steps(xs, func(end float64) float64 { return twice(d, end) })
}

func (r nearest) keep(xs []ball.Interval, d num.DType) { r.store(xs, d) }
func (r settling) keep(xs []settled, d num.DType)      { r.store(xs, d) }
func (r storing) keep(xs []polynomial, d num.DType)    { r.store(xs, d) }

// keep evaluates, for the box of the promise stable, a rounding that isStored.
func (p *perturbation) keep(n *def.Node) {
	before := n.Args[0]
	if _, isRounded := p.o.Declares.Roundings[before.Name]; !isOneStep(before) || isRounded || p.o.Declares.FlushesSubnormals {
		p.box.evaluate(n)
		return
	}
	d := p.call.storage(n.Storage)
	for j, x := range p.centre.values[n.ID].x {
		if v, ok := p.centre.oneStep(before, j); ok {
			x = x.Hull(x.FromFloat64(twice(d, v)))
		}
		p.box.values[n.ID].x[j] = x
	}
}
