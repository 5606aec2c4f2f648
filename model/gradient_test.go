package model

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/op/crossentropy"
	"tokitai/op/rope"
)

// network is a decoder written down a second time, with scalars: what Config says, not what NewDecoder
// builds.
type network struct {
	Config
	t       *tape
	weights map[string][]variable
}

type row []variable

func (n *network) weight(name string) []variable {
	w, ok := n.weights[name]
	if !ok {
		panic("no weight " + name)
	}
	return w
}

func (n *network) linear(name string, x row) row {
	w := n.weight(name + ".weight")
	y := make(row, len(w)/len(x))
	for o := range y {
		y[o] = n.t.number(0)
		for i := range x {
			y[o] = y[o].add(w[o*len(x)+i].mul(x[i]))
		}
		if n.Bias {
			y[o] = y[o].add(n.weight(name + ".bias")[o])
		}
	}
	return y
}

func (n *network) norm(name string, x row) row {
	mean, count := n.t.number(0), 1/float64(len(x))
	if n.Norm == "layer" {
		for _, v := range x {
			mean = mean.add(v.times(count))
		}
	}
	square := n.t.number(n.Eps)
	for _, v := range x {
		d := v.sub(mean)
		square = square.add(d.mul(d).times(count))
	}
	r := square.rsqrt()
	y := make(row, len(x))
	for i, v := range x {
		y[i] = v.sub(mean).mul(r).mul(n.weight(name + ".weight")[i])
		if n.Norm == "layer" {
			y[i] = y[i].add(n.weight(name + ".bias")[i])
		}
	}
	return y
}

func plus(a, b row) row {
	y := make(row, len(a))
	for i := range a {
		y[i] = a[i].add(b[i])
	}
	return y
}

// turn turns the heads of a row by the angles of its position.
func (n *network) turn(x row, width, position int, cos, sin []float32) row {
	if n.Positions != "rope" {
		return x
	}
	y := make(row, len(x))
	for at := 0; at < len(x); at += width {
		for i := range width / 2 {
			c, s := float64(cos[position*width/2+i]), float64(sin[position*width/2+i])
			a, b := x[at+i], x[at+width/2+i]
			y[at+i] = a.times(c).sub(b.times(s))
			y[at+width/2+i] = a.times(s).add(b.times(c))
		}
	}
	return y
}

// attend returns the weighed mean of values for a query: softmax of scores over the keys so far.
func (n *network) attend(q row, keys, values []row, from int) row {
	total := n.t.number(0)
	var weights row
	for _, k := range keys {
		score := n.t.number(0)
		for i, v := range q {
			score = score.add(v.mul(k[from+i]))
		}
		w := score.times(1 / math.Sqrt(float64(len(q)))).exp()
		weights, total = append(weights, w), total.add(w)
	}
	r := total.recip()
	y := make(row, len(q))
	for i := range y {
		y[i] = n.t.number(0)
		for k, w := range weights {
			y[i] = y[i].add(w.mul(r).mul(values[k][from+i]))
		}
	}
	return y
}

func (n *network) feedForward(name string, x row) row {
	up := n.linear(name+"up_proj", x)
	y := make(row, len(up))
	if n.FeedForward == "swiglu" {
		for i, g := range n.linear(name+"gate_proj", x) {
			y[i] = g.mul(g.sigmoid()).mul(up[i])
		}
	} else {
		for i, v := range up { // x/2*(1+tanh(u)) = x*sigmoid(2u)
			u := v.add(v.mul(v).mul(v).times(0.044715)).times(2 * math.Sqrt(2/math.Pi))
			y[i] = v.mul(u.sigmoid())
		}
	}
	return n.linear(name+"down_proj", y)
}

// loss returns the sum of the losses of one sequence.
func (n *network) loss(tokens, labels []int32) variable {
	width := n.Width / n.Heads
	cos, sin, err := rope.Table(n.Block, max(1, width/2), rope.Frequencies{Base: 10000})
	if err != nil {
		panic(err)
	}
	var x []row
	for t, token := range tokens {
		r := row(n.weight("model.embed_tokens.weight")[int(token)*n.Width:][:n.Width])
		if n.Positions == "learned" {
			r = plus(r, n.weight("model.embed_positions.weight")[t*n.Width:][:n.Width])
		}
		x = append(x, r)
	}
	for i := range n.Layers {
		layer := "model.layers." + strconv.Itoa(i) + "."
		var keys, values []row
		for t := range x {
			h := n.norm(layer+"input_layernorm", x[t])
			q := n.turn(n.linear(layer+"self_attn.q_proj", h), width, t, cos, sin)
			keys = append(keys, n.turn(n.linear(layer+"self_attn.k_proj", h), width, t, cos, sin))
			values = append(values, n.linear(layer+"self_attn.v_proj", h))
			var o row
			for head := range n.Heads {
				from := head / (n.Heads / n.KVHeads) * width
				o = append(o, n.attend(q[head*width:][:width], keys, values, from)...)
			}
			x[t] = plus(x[t], n.linear(layer+"self_attn.o_proj", o))
		}
		for t := range x {
			x[t] = plus(x[t], n.feedForward(layer+"mlp.", n.norm(layer+"post_attention_layernorm", x[t])))
		}
	}
	head, total := "lm_head", n.t.number(0)
	if n.Tied {
		head = "model.embed_tokens"
	}
	for t := range x {
		bias := n.Bias
		n.Bias = false // the head has none
		logits := n.linear(head, n.norm("model.norm", x[t]))
		n.Bias = bias
		if labels[t] == crossentropy.DefaultIgnore {
			continue
		}
		sum := n.t.number(0)
		for _, l := range logits {
			sum = sum.add(l.exp())
		}
		total = total.add(sum.log().sub(logits[labels[t]]))
	}
	return total
}

// slack is the error that is allowed to each operation of the tape, relative to its result: 2^-20, sixteen
// roundings of binary32. A program takes one rounding for a sum or a product, where the tape has one
// operation; the functions in its definitions err by at most 4 units in the last place, and formulas
// that they combine otherwise than the tape, such as exponents to the base 2, by a few more.
const slack = 0x1p-20

// evaluate returns the loss of a decoder by a tape, and the numbers of its nodes for the weights.
func evaluate(c Config, weights map[string][]float32, tokens, labels []int32) (variable, map[string][]int) {
	return evaluateAt(c, weights, "", nil, tokens, labels)
}

// evaluateAt is evaluate with other values of one weight.
func evaluateAt(c Config, weights map[string][]float32, other string, values []float64, tokens, labels []int32) (variable, map[string][]int) {
	n := &network{Config: c, t: newTape(), weights: map[string][]variable{}}
	nodes := map[string][]int{}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		for i, v := range weights[name] {
			value := float64(v)
			if name == other {
				value = values[i]
			}
			x := n.t.input(value)
			n.weights[name], nodes[name] = append(n.weights[name], x), append(nodes[name], x.at)
		}
	}
	total := n.t.number(0)
	for at := 0; at < len(tokens); at += c.Block {
		total = total.add(n.loss(tokens[at:][:c.Block], labels[at:][:c.Block]))
	}
	return total, nodes
}

// tiny is a decoder of two layers of which every setting can be changed.
var tiny = Config{
	Vocabulary: 7, Block: 4, Layers: 2, Width: 8, Heads: 2, KVHeads: 2, Hidden: 6,
	Norm: "rms", Positions: "rope", FeedForward: "swiglu", RopeBase: 10000, Eps: 1e-5,
}

func configs() map[string]Config {
	llama := tiny
	llama.KVHeads = 1 // grouped heads
	gpt := tiny
	gpt.Norm, gpt.Positions, gpt.FeedForward, gpt.Bias, gpt.Tied = "layer", "learned", "gelu", true, true
	return map[string]Config{"llama": llama, "gpt": gpt}
}

// TestGradients holds the gradients of a decoder of two layers to differences of its whole loss, which an
// independent tape computes in binary64: for every weight in a direction that has all its elements, up
// or down, and for one of them alone.
//
// The tape says how far roundings in binary32 may take a gradient from the truth, to first order. For steps
// h and h/2 the quotients of differences err by about a*h^2 and a*h^2/4, so that (4*second - first)/3
// is nearer, by no more than it is away from the second; rounding of the loss adds 2^-50 of it over h.
func TestGradients(t *testing.T) {
	t.Parallel()
	for name, c := range configs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tokens, labels := []int32{1, 4, 4, 0, 6, 2, 5, 3}, []int32{4, 4, 0, 6, 2, crossentropy.DefaultIgnore, 3, 1}
			weights, gradients, loss := trainOnce(t, c, tokens, labels)
			total, nodes := evaluate(c, weights, tokens, labels)
			if limit := slack * total.spread(); math.Abs(loss-total.value) > limit {
				t.Errorf("loss %v, want %v within %v", loss, total.value, limit)
			}
			if len(gradients) != len(weights) {
				t.Errorf("%d gradients, want %d", len(gradients), len(weights))
			}
			for name, list := range gradients {
				n := len(list)
				signs := make([]float64, n)
				for i := range signs {
					signs[i] = float64(1 - 2*(i*i/3%2))
				}
				for _, only := range []int{-1, n / 3} {
					direction := signs
					if only >= 0 {
						direction = make([]float64, n)
						direction[only] = 1
					}
					got, size, at := 0.0, 0.0, map[int]float64{}
					for i, d := range direction {
						got += d * float64(list[i])
						size += math.Abs(d * float64(list[i]))
						at[nodes[name][i]] = d
					}
					derivative, sensitivity := total.along(at)
					first := quotient(c, weights, name, direction, tokens, labels, 0x1p-8)
					second := quotient(c, weights, name, direction, tokens, labels, 0x1p-9)
					want := (4*second - first) / 3
					near := math.Abs(want-second) + 0x1p-50*total.value/0x1p-9
					if math.Abs(derivative-want) > near {
						t.Errorf("%s, direction %d: the tape's derivative is %v, differences give %v within %v", name, only, derivative, want, near)
					}
					limit := near + slack*sensitivity
					if math.Abs(got-want) > limit {
						t.Errorf("%s, direction %d: gradient %v, want %v within %v", name, only, got, want, limit)
					}
					if only < 0 {
						t.Logf("%s: %v, within %.2g of it; limit %.2g", name, got, math.Abs(got-want)/size, limit/size)
					}
				}
			}
		})
	}
}

// quotient returns the quotient of differences of the loss for a step of h both ways in a direction.
func quotient(c Config, weights map[string][]float32, name string, direction []float64, tokens, labels []int32, h float64) float64 {
	loss := func(h float64) float64 {
		exact := make([]float64, len(direction))
		for i, v := range weights[name] {
			exact[i] = float64(v) + h*direction[i]
		}
		total, _ := evaluateAt(c, weights, name, exact, tokens, labels)
		return total.value
	}
	return (loss(h) - loss(-h)) / (2 * h)
}

// trainOnce runs the program of a decoder once, with weights that are larger than initial ones, so that
// no part of it is nearly linear.
func trainOnce(t *testing.T, c Config, tokens, labels []int32) (weights, gradients map[string][]float32, loss float64) {
	t.Helper()
	d, err := NewDecoder(c, len(tokens)/c.Block, true)
	if err != nil {
		t.Fatal(err)
	}
	q := cpu.Queue()
	given, err := d.Constants(q)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range given {
		defer v.Close()
	}
	in, err := NewInstance(q, d.Program, given)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	weights, gradients = map[string][]float32{}, map[string][]float32{}
	for _, w := range d.Program.Of(Weight) {
		values := c.Initial(w, 3)
		noise := c.Initial(&Value{Name: w.Name + ".noise", Shape: []int{w.Len(), 1}}, 4)
		for i := range values {
			values[i] += 12 * noise[i]
		}
		weights[w.Name] = values
		if err := in.Tensor(w.Name).SetFloat32s(values); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.Tensor(Tokens).SetInt32s(tokens); err != nil {
		t.Fatal(err)
	}
	if err := in.Tensor(Labels).SetInt32s(labels); err != nil {
		t.Fatal(err)
	}
	if err := in.Run(q, Variables{ScaleVariable: 1}); err != nil {
		t.Fatal(err)
	}
	if err := q.Wait(); err != nil {
		t.Fatal(err)
	}
	for name, gradient := range d.Gradients {
		if gradients[name], err = in.Tensor(gradient).Float32s(); err != nil {
			t.Fatal(err)
		}
	}
	values, err := in.Tensor(Loss).Float32s()
	if err != nil {
		t.Fatal(err)
	}
	return weights, gradients, float64(values[0])
}
