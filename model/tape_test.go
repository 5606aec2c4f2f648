package model

import "math"

// tape computes with scalars in binary64, one node for each operation. It knows nothing of programs or
// definitions: the tests hold the gradients of programs to it.
type tape struct {
	nodes       []node
	isValueOnly bool // keeps no nodes: for results alone
}

// node is f(p, q) or f(p), with the derivatives of f there. Node 0 stands for all constants.
type node struct {
	value   float64
	parents [2]int
	slopes  [2]float64
	curve   float64 // second derivative of an f(p)
	isMul   bool    // p*q, of which both second derivatives are 0 and the mixed one is 1
}

// variable is a node of a tape, or a constant.
type variable struct {
	t     *tape
	at    int
	value float64
}

func newTape(isValueOnly bool) *tape {
	if isValueOnly {
		return &tape{isValueOnly: true}
	}
	return &tape{nodes: make([]node, 1, 1<<15)}
}

func (t *tape) number(x float64) variable { return variable{t, 0, x} }

// input returns a variable that the result may be differentiated by.
func (t *tape) input(x float64) variable { return t.put(node{value: x}) }

func (t *tape) put(n node) variable {
	if t.isValueOnly {
		return variable{t, 0, n.value}
	}
	t.nodes = append(t.nodes, n)
	return variable{t, len(t.nodes) - 1, n.value}
}

func (x variable) of(value, slope, curve float64) variable {
	return x.t.put(node{value: value, parents: [2]int{x.at}, slopes: [2]float64{slope}, curve: curve})
}

func (x variable) with(y variable, value, slopeX, slopeY float64, isMul bool) variable {
	return x.t.put(node{value: value, parents: [2]int{x.at, y.at}, slopes: [2]float64{slopeX, slopeY}, isMul: isMul})
}

func (x variable) add(y variable) variable { return x.with(y, x.value+y.value, 1, 1, false) }
func (x variable) sub(y variable) variable { return x.with(y, x.value-y.value, 1, -1, false) }
func (x variable) mul(y variable) variable { return x.with(y, x.value*y.value, y.value, x.value, true) }

func (x variable) times(c float64) variable { return x.of(x.value*c, c, 0) }

func (x variable) exp() variable {
	v := math.Exp(x.value)
	return x.of(v, v, v)
}

func (x variable) log() variable {
	return x.of(math.Log(x.value), 1/x.value, -1/(x.value*x.value))
}

func (x variable) recip() variable {
	v := 1 / x.value
	return x.of(v, -v*v, 2*v*v*v)
}

func (x variable) rsqrt() variable {
	v := 1 / math.Sqrt(x.value)
	return x.of(v, -v*v*v/2, 3*v*v*v*v*v/4)
}

// sigmoid is 1/(1+exp(-x)).
func (x variable) sigmoid() variable { return x.times(-1).exp().add(x.t.number(1)).recip() }

func (x variable) tanh() variable {
	v := math.Tanh(x.value)
	slope := 1 / math.Cosh(x.value) / math.Cosh(x.value)
	return x.of(v, slope, -2*v*slope)
}

func (x variable) erf() variable {
	slope := 2 / math.Sqrt(math.Pi) * math.Exp(-x.value*x.value)
	return x.of(math.Erf(x.value), slope, -2*x.value*slope)
}

// along returns the derivative of x in a direction, given by its components at some inputs, and how much it
// may change, to first order, if every operation of the tape errs by at most 1 relative to its result:
// the operations that compute x, and those that go back over the tape to compute derivatives.
//
// With v' for the derivative of a node in the direction, and A for the derivative of x by it, an error e of
// v changes the derivative by A'*v*e, and one of A by v'*A*e. A is a sum: its terms take the place
// of A where its error is meant. Going back, with f(p, q) and its derivatives,
//
//	A(p) += A*f_p,  A'(p) += A'*f_p + A*(f_pp*p' + f_pq*q')
func (x variable) along(direction map[int]float64) (derivative, sensitivity float64) {
	nodes := x.t.nodes
	dot, a, aDot, terms := make([]float64, len(nodes)), make([]float64, len(nodes)), make([]float64, len(nodes)), make([]float64, len(nodes))
	for i, n := range nodes {
		dot[i] = direction[i]
		for k, p := range n.parents {
			if p > 0 {
				dot[i] += n.slopes[k] * dot[p]
			}
		}
	}
	a[x.at], terms[x.at] = 1, 1
	for i := x.at; i > 0; i-- {
		n := &nodes[i]
		for k, p := range n.parents {
			if p == 0 {
				continue
			}
			bend := n.curve * dot[p]
			if q := n.parents[1-k]; n.isMul && q > 0 {
				bend = dot[q]
			}
			a[p] += a[i] * n.slopes[k]
			aDot[p] += aDot[i]*n.slopes[k] + a[i]*bend
			terms[p] += math.Abs(a[i] * n.slopes[k])
		}
		sensitivity += math.Abs(aDot[i]*n.value) + math.Abs(dot[i])*terms[i]
	}
	return dot[x.at], sensitivity
}

// spread returns how much x may change, to first order, if every operation errs by at most 1 relative to
// its result.
func (x variable) spread() float64 {
	nodes := x.t.nodes
	a := make([]float64, len(nodes))
	a[x.at] = 1
	sum := 0.0
	for i := x.at; i > 0; i-- {
		for k, p := range nodes[i].parents {
			a[p] += a[i] * nodes[i].slopes[k]
		}
		sum += math.Abs(a[i] * nodes[i].value)
	}
	return sum
}
