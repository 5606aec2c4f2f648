package truth

import (
	"fmt"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/num/ball"
	"tokitai/promise"
)

// stableFactor is k of the promise stable: the errors of inputs and of the result, in units of
// 2^-24.
const stableFactor = 4

// nearOverflow is how many times larger than the definition's the intermediate values of another
// form may be. A value above the largest number divided by it may overflow in some form.
const nearOverflow = 16

// disturbance is the error that the promise allows at a node, in terms of the node's value v:
// (relative + perArgument·|argument|)·|v| + absolute. Sums have their own (shape.factor).
type disturbance struct {
	relative, perArgument, absolute float64
	regrouped                       float64 // of a product of several factors, if two others underflow
	isFlushed                       bool    // an input that is 0 if it is subnormal
	limit                           float64 // of finite values
}

func (z *disturbance) isNone() bool { return z.relative == 0 && z.perArgument == 0 && z.absolute == 0 }

// isAbsolute reports whether there are errors of underflow alone.
func (z *disturbance) isAbsolute() bool {
	return z.relative == 0 && z.perArgument == 0 && z.absolute != 0
}

// isPlain reports whether there is an error that depends on the value alone.
func (z *disturbance) isPlain() bool { return !z.isNone() && z.perArgument == 0 && !z.isFlushed }

// most bounds the error at a value x, which a function may have computed from argument. An exact
// zero has no error.
func (z *disturbance) most(x, argument ball.Ball) float64 {
	if x == (ball.Ball{}) {
		return 0
	}
	m := math.Abs(x.Mid) + x.Rad
	relative := z.relative
	if z.perArgument != 0 {
		relative += float64(z.perArgument * (math.Abs(argument.Mid) + argument.Rad))
	}
	e := float64(m*relative) + z.absolute
	if z.isFlushed && m < 0x1p-126 {
		e = max(e, m)
	}
	return float64(e * (1 + 0x1p-50))
}

// disturbances returns the error of every node, by ID.
func (s *Stable) disturbances() ([]disturbance, error) {
	lost, lostReciprocal := tiny, 1/math.MaxFloat32
	if s.o.Declares.FlushesSubnormals {
		lost, lostReciprocal = 0x1p-126, 0x1p-126
	}
	isOutput := map[int]bool{}
	for _, o := range s.call.d.Math().Outputs {
		isOutput[o.Value.ID] = true
	}
	step := 0.0
	if s.o.CountSteps {
		step = unit
	}
	nodes := s.call.d.Math().Nodes
	z := make([]disturbance, len(nodes))
	isNamed := map[string]bool{}
	for _, n := range nodes {
		if n.Type != def.Float || n.IsTable() {
			continue
		}
		at := &z[n.ID]
		if at.limit = math.MaxFloat32; len(n.Args) > 0 && !isOutput[n.ID] {
			at.limit /= nearOverflow
		}
		function := func(name string, least float64) float64 {
			e := s.errorOf(name, least)
			at.relative = 2*e.ULPs*unit + e.Relative
			at.perArgument, at.absolute = 2*e.ULPsPerX*unit, e.Absolute
			return at.relative / unit
		}
		switch n.Op {
		case def.OpInput, def.OpLookup, def.OpPartner, def.OpUnpacked:
			if n.Extent == def.PerSlot {
				break // it has its error where it is unpacked
			}
			at.relative, at.isFlushed = stableFactor*unit, s.o.Declares.FlushesSubnormals
		case def.OpParam:
			if s.o.Declares.RawParams {
				at.relative = stableFactor * unit
			}
		case def.OpIToF:
			at.relative = stableFactor * unit
		case def.OpAdd, def.OpSub:
			at.relative = step
		case def.OpMul, def.OpFMA:
			at.relative, at.absolute = step, s.quotients(n)*lost
			if !s.o.CountSteps && len(factorsOf(n)) > 2 { // steps are in the order of the definition
				at.regrouped = stableFactor * lost
			}
		case def.OpScale:
			at.absolute = 2 * stableFactor * lost
		case def.OpDiv:
			function("div", 0.5)
			at.absolute += s.quotients(n) * lost
		case def.OpSqrt:
			function("sqrt", 0.5)
		case def.OpCall:
			name, ok := functionNames[n.Func.Math]
			if !ok {
				return nil, fmt.Errorf("%s: no mathematics for function %s", s.call.d.Name, n.Func.Name)
			}
			ulps := function(name, max(n.Func.ULPs, s.o.FunctionULP))
			at.absolute += max(ulps*lost, lostReciprocal) + n.Func.Absolute
		case def.OpRound, def.OpSRound:
			if s.isStoredByWord(n) {
				break // Between rounds it
			}
			if s.call.isStored(n) { // like an input to what follows
				at.relative, at.isFlushed = stableFactor*unit, s.o.Declares.FlushesSubnormals
				break
			}
			u, eta, limit := storageError(s.call.storage(n.Storage))
			at.limit = limit
			if n.Op == def.OpSRound {
				u, eta = 2*u, 2*eta
			}
			at.relative, at.absolute = u, eta
		}
		if d, ok := s.o.Declares.Roundings[n.Name]; ok && len(n.Args) > 0 {
			u, eta, limit := storageError(d)
			at.limit = min(at.limit, limit)
			at.relative, at.absolute = at.relative+u, at.absolute+eta
			isNamed[n.Name] = true
		}
	}
	for name := range s.o.Declares.Roundings {
		if !isNamed[name] && !s.o.CountSteps {
			return nil, fmt.Errorf("%s: a rounding of %s is declared, but the definition has no value of that name", s.call.d.Name, name)
		}
	}
	return z, nil
}

// isStoredByWord reports whether a node rounds stochastically by words that are certain, and its
// only use is to be stored in the format that it rounds to.
func (s *Stable) isStoredByWord(n *def.Node) bool {
	if n.Op != def.OpSRound {
		return false
	}
	switch word := n.Args[1]; word.Op {
	case def.OpRandom:
	case def.OpRandomRow:
		if slices.ContainsFunc(word.Args, func(a *def.Node) bool { return len(a.Args) > 0 }) {
			return false
		}
	default:
		return false
	}
	isStored := false
	for _, o := range s.call.d.Math().Outputs {
		if o.Value == n {
			isStored = s.call.operands[o.Operand].DType == s.call.storage(n.Storage)
		}
	}
	return isStored && !slices.ContainsFunc(s.call.d.Math().Nodes, func(user *def.Node) bool { return slices.Contains(user.Args, n) })
}

var functionNames = map[def.Math]string{
	def.MathExp: "exp", def.MathExp2: "exp2", def.MathExpm1: "expm1", def.MathLog: "log", def.MathLog2: "log2", def.MathLog1p: "log1p",
	def.MathTanh: "tanh", def.MathSigmoid: "sigmoid", def.MathErf: "erf", def.MathErfcx: "erfcx", def.MathSin: "sin", def.MathCos: "cos",
	def.MathSqrt: "sqrt", def.MathRsqrt: "rsqrt", def.MathRecip: "recip",
}

// errorOf returns the error of a function: as declared, or else that of the profile, but at
// least a number of ulps.
func (s *Stable) errorOf(name string, least float64) promise.Error {
	declared, isDeclared := s.o.Declares.Functions[name]
	e := promise.Error{ULPs: 2}
	switch {
	case s.o.Errors != nil:
		e = s.o.Errors(name)
	case isDeclared:
		e = declared
	case name == "div" || name == "sqrt":
		e.ULPs = 0.5
	}
	if !isDeclared && e.Relative < 2*least*unit {
		e.ULPs = max(e.ULPs, least)
	}
	return e
}

// perturbed is the rounding of a computation with errors at its nodes, which disturb adds. Only
// sums are rounded as in mode Rounded.
type perturbed struct {
	exactly[ball.Ball]
	size float64 // Σ|terms| of the last sum over a row
}

func (r *perturbed) sum(terms []ball.Ball, s shape) ball.Ball {
	sum, abs, isBelow := ball.SumReach(terms)
	z := size{n: len(terms), abs: abs}
	if isBelow {
		z.least = -1
	}
	r.size = z.total()
	return roundedSum(sum, z, s.factor())
}

func (r *perturbed) adder(n, width int, s shape) adder[ball.Ball] {
	return widened[ball.Ball]{}.adder(n, width, s)
}

// perturbation evaluates a rowwise definition twice, row by row, exactly and with the errors of
// the promise, and finds how much these change the results. Slices with an element per node are
// indexed by Node.ID.
type perturbation struct {
	*Stable
	*arena
	rounding *perturbed
	centre   *evaluator[ball.Ball]
	box      *evaluator[ball.Ball]
	noise    []disturbance
	isExact  []bool // computed from inputs without rounding
	varies   []bool // depends on a value that has an error

	// The rest is about the current row.
	errors   [][]float64 // E of each value that has an error, or is cut
	sizes    [][]float64 // Σ|terms| of sums; of those that are known after the last row, so far
	extremes []float64   // of a maximum the least that it may be, of a minimum the negative of the most
	slopes   [][]slope   // by argument
	means    [][]ball.Ball
	meanOf   []int // the row that they are of

	isSet      []bool    // scratch of column.differentiate
	scratch    []float64 // one for each column
	reductions []*reduction
	spreads    []*spread
	noisy      []*def.Node // values of a row, and those that all rows share, that have an error
	narrow     []*def.Node // narrow values that vary, the last first, without late ones
	ofRow      []*def.Node // values of a row that have slopes
}

func (s *Stable) newPerturbation() (*perturbation, error) {
	noise, err := s.disturbances()
	if err != nil {
		return nil, err
	}
	p := &perturbation{Stable: s, arena: arenas.Get().(*arena), noise: noise, rounding: &perturbed{}}
	p.centre = &evaluator[ball.Ball]{call: s.call, rounding: exactly[ball.Ball]{}, room: p.balls}
	p.box = &evaluator[ball.Ball]{call: s.call, rounding: p.rounding, instead: p.evaluate, room: p.balls}
	for _, e := range []*evaluator[ball.Ball]{p.centre, p.box} {
		if err := e.size(); err != nil {
			return nil, err
		}
		e.mark(s.call.d.Math().Outputs)
	}
	p.plan()
	p.centre.begin(upTo(p.centre.cols))
	p.box.begin(p.centre.columns)
	p.eachVarying(func(n *def.Node) bool { return !n.Late && !isPerRow(n) }, p.findSlopes)
	return p, nil
}

// isExact reports whether a node is computed from inputs without rounding.
func (s *Stable) isExact(n *def.Node, before []bool) bool {
	switch n.Op {
	case def.OpInput, def.OpPartner, def.OpConst, def.OpInt, def.OpColumns, def.OpRows, def.OpCol, def.OpColFloat,
		def.OpStored, def.OpRandom, def.OpRandomRow, def.OpElement, def.OpElementHigh:
	case def.OpParam:
		return !s.o.Declares.RawParams
	case def.OpRowSum, def.OpColSum, def.OpTotalSum:
		if n.Type != def.Int {
			return false
		}
	case def.OpNeg, def.OpAbs, def.OpMin, def.OpMax, def.OpRint, def.OpLess, def.OpLessEqual, def.OpEqual, def.OpNotEqual,
		def.OpIAdd, def.OpISub, def.OpIMul, def.OpUMulHigh, def.OpIAnd, def.OpIOr, def.OpIXor, def.OpShl, def.OpShr, def.OpShrU,
		def.OpInside, def.OpSelect, def.OpRowMax, def.OpRowMin, def.OpRowArgMax, def.OpRowArgMin, def.OpRank, def.OpRowKth, def.OpRowNucleus, def.OpAt, def.OpLookup:
	default:
		return false
	}
	return !slices.ContainsFunc(n.Args, func(a *def.Node) bool { return !before[a.ID] })
}

// toFloats computes the values of a conversion. An integer that binary32 has is exact; others have
// the error of an input.
func (p *perturbation) toFloats(n *def.Node) {
	out := p.box.values[n.ID].x
	p.box.evaluate(n)
	for j, x := range out {
		if s := at(p.box.values[n.Args[0].ID].i, j); !fitsBinary32(s) {
			out[j] = x.Widen(p.noise[n.ID].relative, 0)
		}
	}
}

// evaluate computes the values that the box has for a node.
func (p *perturbation) evaluate(n *def.Node) {
	switch {
	case n.Op == def.OpInput || n.Op == def.OpLookup || n.Op == def.OpPartner:
		if n.Type == def.Float && n.Extent != def.PerSlot && p.noise[n.ID].isPlain() {
			p.widen(n, p.centre.values[n.ID].x, math.Inf(1))
			return
		}
		copy(p.box.values[n.ID].x, p.centre.values[n.ID].x)
		copy(p.box.values[n.ID].i, p.centre.values[n.ID].i)
	case p.call.isStored(n):
		p.keep(n)
	case p.isStep(n):
		p.step(n)
		p.useExtreme(n)
		return
	case n.Op == def.OpIToF:
		p.toFloats(n)
		return
	case n.Op == def.OpCall && n.Func.Math == def.MathExp:
		p.exponentiate(n)
	case n.Op == def.OpRowMax || n.Op == def.OpRowMin:
		p.findExtreme(n)
	case n.Op.IsOrdering() && !p.isExact[n.Args[0].ID]: // the last step rounds too, before elements are compared
		p.box.slack = stableFactor * unit
		p.box.evaluate(n)
		p.box.slack = 0
	default:
		p.box.evaluate(n)
	}
	p.disturb(n)
	switch {
	case isSplit(n):
		p.disturbSplit(n)
	default:
		p.useExtreme(n)
	}
}

// useExtreme narrows what is computed from a row and its maximum: no difference of the two is
// above 0, and one is 0, so that a sum of their exponentials is at least 1, up to errors.
func (p *perturbation) useExtreme(n *def.Node) {
	out := p.box.values[n.ID].x
	switch {
	case p.isBelowMax(n):
		for j, x := range out {
			if x.Mid > -x.Rad {
				out[j] = x.Min(ball.Ball{})
			}
		}
	case n.Op == def.OpRowSum && n.Args[0].Op == def.OpCall && n.Args[0].Func.Math == def.MathExp && p.isBelowMax(n.Args[0].Args[0]):
		z := &p.noise[n.Args[0].ID]
		least := (1 - z.relative - z.absolute) - float64(p.sizes[n.ID][0]*p.shapes[rowSums].factor())
		out[0] = out[0].Max(ball.FromFloat64(least * (1 - 0x1p-40)))
	}
}

// isBelowMax reports whether a node is a row less its maximum, which has no error of its own.
func (p *perturbation) isBelowMax(n *def.Node) bool {
	return n.Op == def.OpSub && n.Args[1].Op == def.OpRowMax && n.Args[1].Args[0] == n.Args[0] && p.noise[n.Args[1].ID].isNone()
}

// findExtreme encloses the largest or the smallest value of a row.
func (p *perturbation) findExtreme(n *def.Node) {
	least, most := math.Inf(-1), math.Inf(-1)
	for _, x := range p.box.values[n.Args[0].ID].x {
		lo, hi, _ := reach(x)
		if n.Op == def.OpRowMin {
			lo, hi = -hi, -lo
		}
		least, most = max(least, lo), max(most, hi)
	}
	p.extremes[n.ID] = least
	v := ball.FromFloat64(least).Hull(ball.FromFloat64(most))
	if n.Op == def.OpRowMin {
		v = v.Neg()
	}
	p.box.values[n.ID].x[0] = v
}

// exponentiate encloses exponentials: with d the distance of the argument from its exact value,
// exp changes by at most the factor exp(d) <= 1 + d·(1+d), for d <= 1.
func (p *perturbation) exponentiate(n *def.Node) {
	arg, exact := p.box.values[n.Args[0].ID].x, p.centre.values[n.Args[0].ID].x
	out, centre := p.box.values[n.ID].x, p.centre.values[n.ID].x
	for j := range out {
		a, b := at(arg, j), at(exact, j)
		d := float64((math.Abs(a.Mid-b.Mid) + a.Rad + b.Rad) * (1 + 0x1p-50))
		if d <= 1 {
			out[j] = centre[j].Mul(ball.Ball{Mid: 1, Rad: d * (1 + d) * (1 + 0x1p-50)})
		} else {
			out[j] = a.Exp()
		}
	}
}

// reach bounds a ball, and its magnitude, a little more widely than Ball.Bounds does.
func reach(x ball.Ball) (lo, hi, most float64) {
	m := math.Abs(x.Mid) + x.Rad
	slack := m * 0x1p-51
	return x.Mid - x.Rad - slack, x.Mid + x.Rad + slack, m + slack
}

// disturb adds the error of a node to the values that the box has for it. A value that may be
// beyond the range of binary32, or a function that may leave its domain, is unknown. Squares,
// exponentials and roots are never below zero.
func (p *perturbation) disturb(n *def.Node) {
	e := p.box
	out := e.values[n.ID]
	if n.Type != def.Float {
		if p.isExact[n.ID] && !p.o.Declares.FlushesSubnormals {
			copy(out.claim, p.centre.values[n.ID].claim)
			copy(out.i, p.centre.values[n.ID].i)
		}
		return
	}
	var argument []ball.Ball
	if len(n.Args) > 0 {
		argument = e.values[n.Args[0].ID].x
	}
	z := &p.noise[n.ID]
	limit := z.limit
	switch n.Op {
	case def.OpInput, def.OpLookup, def.OpPartner, def.OpConst, def.OpParam, def.OpColFloat, def.OpNeg, def.OpAbs, def.OpMin, def.OpMax, def.OpSelect, def.OpRowMax, def.OpRowMin, def.OpAt, def.OpPacked, def.OpUnpacked:
		limit = math.Inf(1) // none is larger than all that it is made of
	}
	switch {
	case n.Op == def.OpRowSum:
		p.sizes[n.ID][0] = p.rounding.size
	case z.isNone():
	case z.isPlain() && n.Op != def.OpSqrt && n.Op != def.OpCall:
		p.widen(n, out.x, limit)
		return
	case z.isPlain():
		p.widen(n, out.x, math.Inf(1))
	default:
		errors := p.errors[n.ID]
		for j, x := range out.x {
			a := ball.Ball{}
			if z.perArgument != 0 {
				a = at(argument, j)
			}
			w := z.most(x, a)
			errors[j] = w
			out.x[j].Rad = (x.Rad + w) * (1 + 0x1p-50)
		}
	}
	if isNeverNegative(n) {
		keepAbove(out.x)
	}
	switch n.Op {
	case def.OpSqrt:
		p.restrict(out.x, argument, def.Domain{Low: 0, High: math.Inf(1)})
	case def.OpCall:
		p.restrict(out.x, argument, n.Func.Domain)
	}
	if !math.IsInf(limit, 1) {
		p.keepWithin(out.x, limit)
	}
}

// isStep reports whether a node is a sum, a difference or a product whose error depends on its
// value alone.
func (p *perturbation) isStep(n *def.Node) bool {
	z := &p.noise[n.ID]
	return isStep(n) && n.Type == def.Float && (z.isNone() || z.isPlain())
}

// step computes such a node, with its error.
func (p *perturbation) step(n *def.Node) {
	out := p.box.values[n.ID].x
	x := func(k int) []ball.Ball { return p.box.values[n.Args[k].ID].x }
	z := p.noiseOf(n, p.noise[n.ID].limit)
	product := z
	if n.Op == def.OpFMA {
		product = &ball.Noise{Limit: math.Inf(1)}
	}
	var isBeyond, isBelow bool
	switch {
	case n.Op == def.OpAdd:
		isBeyond, _ = z.Add(out, x(0), x(1))
	case n.Op == def.OpSub:
		isBeyond, _ = z.Sub(out, x(0), x(1))
	case n.Args[0] == n.Args[1]:
		isBeyond, isBelow = product.Sqr(out, x(0))
	default:
		isBeyond, _ = product.Mul(out, x(0), x(1))
	}
	if n.Op == def.OpFMA {
		isBeyond, _ = z.Add(out, out, x(2))
	}
	if p.regroup(n, out, z.Limit) {
		isBeyond = true
	}
	if isBelow && isNeverNegative(n) {
		keepAbove(out)
		isBeyond = true
	}
	if isBeyond {
		p.keepWithin(out, z.Limit)
	}
}

// factorsOf returns the factors of a product, multiplied out.
func factorsOf(n *def.Node) []*def.Node {
	var list []*def.Node
	for _, a := range n.Args[:2] {
		if a.Op == def.OpMul {
			list = append(list, factorsOf(a)...)
		} else {
			list = append(list, a)
		}
	}
	return list
}

// regroup adds the error of a product whose factors are multiplied in another order than the
// definition's: what underflows of two or more of them, times the others. (x-mean)·rstd·gamma may
// begin with rstd·gamma, which is subnormal where gamma is small and the variance large. It reports
// whether a result is beyond the limit.
func (p *perturbation) regroup(n *def.Node, out []ball.Ball, limit float64) (isBeyond bool) {
	lost := p.noise[n.ID].regrouped
	if lost == 0 {
		return false
	}
	factors := factorsOf(n)
	errors := p.errors[n.ID]
	for j := range out {
		if out[j] == (ball.Ball{}) {
			continue
		}
		// The most that others can be is the product of all that are above 1, but for two.
		others, least, second := 1.0, math.Inf(1), math.Inf(1)
		for _, f := range factors {
			x := p.box.values[f.ID].x
			at := x[min(j, len(x)-1)]
			size := max(1, math.Abs(at.Mid)+at.Rad)
			others *= size
			least, second = min(least, size), min(second, max(least, size))
		}
		others *= (1 + 0x1p-40) / (least * second)
		if !(others > 1+0x1p-30) {
			continue
		}
		more := float64(lost * others * (1 + 0x1p-50))
		errors[j] = float64((errors[j] + more) * (1 + 0x1p-50))
		out[j].Rad = float64((out[j].Rad + more) * (1 + 0x1p-50))
		isBeyond = isBeyond || !(math.Abs(out[j].Mid)+out[j].Rad <= limit)
	}
	return isBeyond
}

// noiseOf returns the noise of a node, which takes note of the errors.
func (p *perturbation) noiseOf(n *def.Node, limit float64) *ball.Noise {
	z := &p.noise[n.ID]
	if z.isNone() {
		return &ball.Noise{Limit: limit}
	}
	return &ball.Noise{Relative: z.relative, Absolute: z.absolute, Limit: limit, Errors: p.errors[n.ID]}
}

// widen adds errors that depend on values alone to these. What may be beyond the limit is unknown.
func (p *perturbation) widen(n *def.Node, values []ball.Ball, limit float64) {
	out := p.box.values[n.ID].x
	if isBeyond, _ := p.noiseOf(n, limit).Copy(out, values); isBeyond && !math.IsInf(limit, 1) {
		p.keepWithin(out, limit)
	}
}

// keepAbove cuts off what is below zero.
func keepAbove(out []ball.Ball) {
	for j, x := range out {
		if x.Mid < x.Rad {
			out[j] = x.Max(ball.Ball{})
		}
	}
}

// keepWithin makes values unknown that may be beyond a limit.
func (p *perturbation) keepWithin(out []ball.Ball, limit float64) {
	for j, x := range out {
		if !(math.Abs(x.Mid)+x.Rad <= limit) {
			out[j] = p.box.unknown()
		}
	}
}

// restrict makes results unknown whose arguments may be outside a domain.
func (p *perturbation) restrict(out, x []ball.Ball, d def.Domain) {
	if d == def.EveryX {
		return
	}
	for j := range out {
		if lo, hi, _ := reach(at(x, j)); !d.Contains(lo, hi) && !d.Contains(at(x, j).Bounds()) {
			out[j] = p.box.unknown()
		}
	}
}

func isNeverNegative(n *def.Node) bool {
	switch n.Op {
	case def.OpSqrt:
		return true
	case def.OpMul:
		return n.Args[0] == n.Args[1]
	case def.OpCall:
		switch n.Func.Math {
		case def.MathExp, def.MathExp2, def.MathSigmoid, def.MathSqrt, def.MathRsqrt:
			return true
		}
	}
	return false
}
