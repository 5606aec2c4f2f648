package model

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/internal/testlevel"
	"tokitai/op/crossentropy"
	"tokitai/op/rope"
)

// network is a decoder written down a second time, with scalars: what Config says, not what NewDecoder
// builds.
type network struct {
	Config
	t       *tape
	weights map[string][]variable
	choices []int // of experts, by every token of every mixture
}

type row []variable

func (n *network) weight(name string) []variable {
	w, ok := n.weights[name]
	if !ok {
		panic("no weight " + name)
	}
	return w
}

func (n *network) product(w []variable, x row) row {
	y := make(row, len(w)/len(x))
	for o := range y {
		y[o] = n.t.number(0)
		for i := range x {
			y[o] = y[o].add(w[o*len(x)+i].mul(x[i]))
		}
	}
	return y
}

func (n *network) linear(name string, x row, hasBias bool) row {
	y := n.product(n.weight(name+".weight"), x)
	if hasBias {
		y = plus(y, n.weight(name+".bias"))
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
		gamma := n.weight(name + ".weight")[i]
		if n.Norm == "rms1" {
			gamma = gamma.add(n.t.number(1))
		}
		y[i] = v.sub(mean).mul(r).mul(gamma)
		if n.Norm == "layer" {
			y[i] = y[i].add(n.weight(name + ".bias")[i])
		}
	}
	return y
}

// heads applies the norm of queries or keys.
func (n *network) heads(name string, x row, width int) row {
	switch n.HeadNorm {
	case "all":
		return n.norm(name, x)
	case "each":
		var y row
		for at := 0; at < len(x); at += width {
			y = append(y, n.norm(name, x[at:][:width])...)
		}
		return y
	}
	return x
}

func (n *network) capped(x variable, limit float64) variable {
	if limit == 0 {
		return x
	}
	return x.times(1 / limit).tanh().times(limit)
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
			first, second := at+i, at+width/2+i
			if n.Interleaved {
				first, second = at+2*i, at+2*i+1
			}
			a, b := x[first], x[second]
			y[first] = a.times(c).sub(b.times(s))
			y[second] = a.times(s).add(b.times(c))
		}
	}
	return y
}

// attend returns the weighed mean of values for a query: softmax of scores over the keys so far.
func (n *network) attend(q row, keys, values []row, from, window int) row {
	total, first := n.t.number(0), 0
	if window > 0 {
		first = max(0, len(keys)-window)
	}
	scale := n.AttentionScale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(len(q)))
	}
	var weights row
	for _, k := range keys[first:] {
		score := n.t.number(0)
		for i, v := range q {
			score = score.add(v.mul(k[from+i]))
		}
		w := n.capped(score.times(scale), n.AttentionCap).exp()
		weights, total = append(weights, w), total.add(w)
	}
	r := total.recip()
	y := make(row, len(q))
	for i := range y {
		y[i] = n.t.number(0)
		for k, w := range weights {
			y[i] = y[i].add(w.mul(r).mul(values[first+k][from+i]))
		}
	}
	return y
}

// activate is the activation of up, or of a gate times up.
func (n *network) activate(gate, up row) row {
	y := make(row, len(up))
	for i, v := range up {
		if gate != nil {
			v = gate[i]
		}
		switch n.FeedForward {
		case "swiglu":
			v = v.mul(v.sigmoid())
		case "gelu", "geglu": // x/2*(1+tanh(u)) = x*sigmoid(2u)
			u := v.add(v.mul(v).mul(v).times(0.044715)).times(2 * math.Sqrt(2/math.Pi))
			v = v.mul(u.sigmoid())
		default:
			v = v.times(0.5).mul(v.times(math.Sqrt(0.5)).erf().add(n.t.number(1)))
		}
		if y[i] = v; gate != nil {
			y[i] = v.mul(up[i])
		}
	}
	return y
}

func (n *network) feedForward(name string, x row) row {
	hasBias := n.Bias || n.HiddenBias
	var gate row
	if n.FeedForward != "gelu" && n.FeedForward != "gelu.erf" {
		gate = n.linear(name+"gate_proj", x, hasBias)
	}
	return n.linear(name+"down_proj", n.activate(gate, n.linear(name+"up_proj", x, hasBias)), hasBias)
}

// experts adds up what the chosen experts of a token give.
func (n *network) experts(name string, x row) row {
	logits := n.linear(name+"gate", x, false)
	total, scores := n.t.number(0), make(row, len(logits))
	order := make([]int, len(logits))
	for i, l := range logits {
		scores[i], order[i] = l.exp(), i
		total = total.add(scores[i])
	}
	if biases := n.weights[name+BiasSuffix]; biases != nil {
		sum := n.t.number(0)
		for _, s := range scores {
			sum = sum.add(s)
		}
		preference := func(e int) float64 { return scores[e].value/sum.value + biases[e].value }
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(preference(b), preference(a)) })
	} else {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b].value, scores[a].value) })
	}
	chosen := order[:n.Mixture.PerToken]
	slices.Sort(chosen)
	n.choices = append(n.choices, chosen...)
	if n.Mixture.IsNormalised {
		total = n.t.number(0)
		for _, e := range chosen {
			total = total.add(scores[e])
		}
	}
	part := func(layer string, e int) []variable {
		w := n.weight(name + "experts." + layer + ".weight")
		size := len(w) / n.Mixture.Experts
		return w[e*size:][:size]
	}
	y, r := make(row, len(x)), total.recip()
	for i := range y {
		y[i] = n.t.number(0)
	}
	for _, e := range chosen {
		o := n.product(part("down_proj", e), n.activate(n.product(part("gate_proj", e), x), n.product(part("up_proj", e), x)))
		weight := scores[e].mul(r)
		for i := range y {
			y[i] = y[i].add(o[i].mul(weight))
		}
	}
	return y
}

// loss returns the sum of the losses of one sequence.
func (n *network) loss(tokens, labels []int32) variable {
	width := n.Width / n.Heads
	if n.HeadWidth > 0 {
		width = n.HeadWidth
	}
	f := rope.Frequencies{Base: n.RopeBase}
	if n.Rope.Kind != "" {
		f.Angles = n.Rope.angles(n.RopeBase, width/2)
	}
	cos, sin, err := rope.Table(n.Block, max(1, width/2), f)
	if err != nil {
		panic(err)
	}
	if a := n.Rope.Amplitude; a > 0 {
		for i := range cos {
			cos[i], sin[i] = float32(a*float64(cos[i])), float32(a*float64(sin[i]))
		}
	}
	var x []row
	for t, token := range tokens {
		r := row(n.weight("model.embed_tokens.weight")[int(token)*n.Width:][:n.Width])
		if n.Positions == "learned" {
			r = plus(r, n.weight("model.embed_positions.weight")[t*n.Width:][:n.Width])
		}
		if n.EmbedScale > 0 {
			r = slices.Clone(r)
			for i := range r {
				r[i] = r[i].times(n.EmbedScale)
			}
		}
		x = append(x, r)
	}
	normed := func(isThere bool, name string, x row) row {
		if !isThere {
			return x
		}
		return n.norm(name, x)
	}
	hasBefore, hasAfter := n.NormPlace != "after", n.NormPlace == "after" || n.NormPlace == "both"
	beforeHidden := "post_attention_layernorm"
	if n.NormPlace == "both" {
		beforeHidden = "pre_feedforward_layernorm"
	}
	for i := range n.Layers {
		layer := "model.layers." + strconv.Itoa(i) + "."
		var keys, values []row
		for t := range x {
			h := normed(hasBefore, layer+"input_layernorm", x[t])
			hasBias := n.Bias || n.QKVBias
			q := n.turn(n.heads(layer+"self_attn.q_norm", n.linear(layer+"self_attn.q_proj", h, hasBias), width), width, t, cos, sin)
			keys = append(keys, n.turn(n.heads(layer+"self_attn.k_norm", n.linear(layer+"self_attn.k_proj", h, hasBias), width), width, t, cos, sin))
			values = append(values, n.linear(layer+"self_attn.v_proj", h, hasBias))
			window := 0
			if n.Windows != "" {
				window = int(n.Windows.Values()[i])
			}
			var o row
			for head := range n.Heads {
				from := head / (n.Heads / n.KVHeads) * width
				o = append(o, n.attend(q[head*width:][:width], keys, values, from, window)...)
			}
			o = n.linear(layer+"self_attn.o_proj", o, n.Bias || n.OutBias)
			x[t] = plus(x[t], normed(hasAfter, layer+"post_attention_layernorm", o))
		}
		for t := range x {
			h := normed(hasBefore, layer+beforeHidden, x[t])
			if n.Mixture.Experts > 0 && !slices.Contains(n.Mixture.Dense.Values(), float64(i)) {
				h = n.experts(layer+"mlp.", h)
			} else {
				h = n.feedForward(layer+"mlp.", h)
			}
			x[t] = plus(x[t], normed(hasAfter, layer+"post_feedforward_layernorm", h))
		}
	}
	head, total := "lm_head", n.t.number(0)
	if n.Tied {
		head = "model.embed_tokens"
	}
	for t := range x {
		logits := n.linear(head, n.norm("model.norm", x[t]), false)
		for i := range logits {
			logits[i] = n.capped(logits[i], n.LogitCap)
		}
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

// evaluateAt returns the loss of a decoder by a tape, with other values of one weight, the numbers of its nodes
// for the weights, and which experts were chosen.
func evaluateAt(c Config, weights map[string][]float32, other string, values []float64, tokens, labels []int32, isValueOnly bool) (variable, map[string][]int, []int) {
	n, nodes := networkOf(c, weights, other, values, isValueOnly)
	total := n.t.number(0)
	for at := 0; at < len(tokens); at += c.Block {
		total = total.add(n.loss(tokens[at:][:c.Block], labels[at:][:c.Block]))
	}
	return total, nodes, n.choices
}

// networkOf returns a network on a tape, with other values of one weight, and the numbers of its nodes for the weights.
func networkOf(c Config, weights map[string][]float32, other string, values []float64, isValueOnly bool) (*network, map[string][]int) {
	n := &network{Config: c, t: newTape(isValueOnly), weights: map[string][]variable{}}
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
	return n, nodes
}

// tiny is a decoder of two layers. Tests change any of its settings.
var tiny = Config{
	Vocabulary: 7, Block: 4, Layers: 2, Width: 8, Heads: 2, KVHeads: 2, Hidden: 6,
	Norm: "rms", Positions: "rope", FeedForward: "swiglu", RopeBase: 10000, Eps: 1e-5,
}

func configs() map[string]Config {
	llama := tiny
	llama.KVHeads = 1 // grouped heads
	gpt := tiny
	gpt.Norm, gpt.Positions, gpt.FeedForward, gpt.Bias, gpt.Tied = "layer", "learned", "gelu", true, true
	gemma := tiny
	gemma.Norm, gemma.NormPlace, gemma.FeedForward, gemma.KVHeads, gemma.HeadWidth, gemma.Tied = "rms1", "both", "geglu", 1, 6, true
	gemma.Windows, gemma.AttentionCap, gemma.LogitCap, gemma.EmbedScale, gemma.AttentionScale = NumbersOf(2, 0), 1.5, 2, math.Sqrt(8), 0.3
	olmo := tiny
	olmo.NormPlace, olmo.HeadNorm, olmo.Windows, olmo.OutBias, olmo.FeedForward = "after", "all", NumbersOf(0, 3), true, "geglu.erf"
	olmo.Rope = Rope{Kind: "yarn", Factor: 4, Original: 4, Fast: 0.5, Slow: 0.01, Amplitude: 1.25}
	mixture := tiny
	mixture.HeadNorm, mixture.QKVBias, mixture.KVHeads = "each", true, 1
	mixture.Rope = Rope{Kind: "llama3", Factor: 8, Original: 6, Low: 0.2, High: 0.9}
	mixture.Mixture = Mixture{Experts: 5, PerToken: 2, Hidden: 3, IsNormalised: true}
	olmoe := tiny
	olmoe.HeadNorm, olmoe.HiddenBias, olmoe.Rope = "all", true, Rope{Kind: "linear", Factor: 2}
	olmoe.Mixture = Mixture{Experts: 3, PerToken: 2, Hidden: 4, Dense: NumbersOf(0), Balance: 0.25}
	neighbours := tiny
	neighbours.Interleaved, neighbours.HeadNorm, neighbours.KVHeads = true, "each", 1
	neighbours.Rope = Rope{Kind: "yarn", Factor: 4, Original: 4, Fast: 0.5, Slow: 0.01, Amplitude: 1.25}
	return map[string]Config{"neighbours": neighbours, "llama": llama, "gpt": gpt, "gemma": gemma, "olmo": olmo, "mixture": mixture, "olmoe": olmoe}
}

// TestGradients holds the gradients of a decoder of two layers to differences of its whole loss, which an
// independent tape computes in binary64: for every weight in a direction that has all its elements, up
// or down, and, from level quick on, for one of them alone.
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
			compareGradients(t, weights, gradients, loss, func(other string, values []float64, isValueOnly bool) (variable, map[string][]int, []int) {
				return evaluateAt(c, weights, other, values, tokens, labels, isValueOnly)
			})
			for name := range weights {
				if _, has := gradients[name]; has == strings.HasSuffix(name, BiasSuffix) {
					t.Errorf("%s has a gradient: %v, want one of each weight but the biases of routers", name, has)
				}
			}
		})
	}
}

// evaluation computes the loss of a network by a tape, with other values of one weight, and the numbers of its nodes for
// the weights; and it returns which experts were chosen.
type evaluation func(other string, values []float64, isValueOnly bool) (variable, map[string][]int, []int)

// compareGradients holds loss and gradients to an evaluation and its differences.
func compareGradients(t *testing.T, weights, gradients map[string][]float32, loss float64, evaluate evaluation) {
	total, nodes, _ := evaluate("", nil, false)
	if limit := slack * total.spread(); math.Abs(loss-total.value) > limit {
		t.Errorf("loss %v, want %v within %v", loss, total.value, limit)
	}
	for name, list := range gradients {
		n := len(list)
		signs := make([]float64, n)
		for i := range signs {
			signs[i] = float64(1 - 2*(i*i/3%2))
		}
		for _, only := range []int{-1, n / 3}[:testlevel.Pick(1, 2, 2)] {
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
			first := quotient(t, evaluate, weights, name, direction, 0x1p-10)
			second := quotient(t, evaluate, weights, name, direction, 0x1p-11)
			want := (4*second - first) / 3
			near := math.Abs(want-second) + 0x1p-50*total.value/0x1p-11
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
}

// quotient returns the quotient of differences of the loss for a step of h both ways in a direction.
func quotient(t *testing.T, evaluate evaluation, weights map[string][]float32, name string, direction []float64, h float64) float64 {
	t.Helper()
	var choices []int
	loss := func(h float64) float64 {
		exact := make([]float64, len(direction))
		for i, v := range weights[name] {
			exact[i] = float64(v) + h*direction[i]
		}
		total, _, list := evaluate(name, exact, true)
		if choices != nil && !slices.Equal(choices, list) {
			t.Fatalf("%s: a step of %v chooses other experts, so that differences are no derivatives: take other weights", name, h)
		}
		choices = list
		return total.value
	}
	return (loss(h) - loss(-h)) / (2 * h)
}

// runBoth makes a call, and makes it again by the interpreter of definitions, which must give the same bits.
func runBoth(t *testing.T, q *engine.Queue, in *Instance, i int) {
	t.Helper()
	c := in.program.Calls[i]
	run := func(q *engine.Queue) (results [][]byte) {
		if err := in.RunCall(q, i, Variables{ScaleVariable: 1}); err != nil {
			t.Fatal(err)
		}
		if err := q.Wait(); err != nil {
			t.Fatal(err)
		}
		for k, x := range in.Operands(i) {
			if !c.Definition.Operands[k].IsOut {
				continue
			}
			b, err := x.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, b)
		}
		return results
	}
	want := run(q.With(engine.WithLowering("cpu.reference")))
	for k, got := range run(q) {
		if !bytes.Equal(got, want[k]) {
			t.Errorf("%s: %s: result %d is not the answer of the definition", c.Name, c.Definition.Name, k)
		}
	}
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
	weights = map[string][]float32{}
	for _, w := range append(d.Program.Of(Weight), d.Program.Of(Fixed)...) {
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
	gradients, loss = runOnce(t, q, &d.Network, in)
	return weights, gradients, loss
}

// runOnce runs a network that has been given everything, and returns gradients and loss.
func runOnce(t *testing.T, q *engine.Queue, n *Network, in *Instance) (gradients map[string][]float32, loss float64) {
	t.Helper()
	for i := range n.Program.Calls {
		runBoth(t, q, in, i)
	}
	gradients = map[string][]float32{}
	var err error
	for name, gradient := range n.Gradients {
		if gradients[name], err = in.Tensor(gradient).Float32s(); err != nil {
			t.Fatal(err)
		}
	}
	values, err := in.Tensor(Loss).Float32s()
	if err != nil {
		t.Fatal(err)
	}
	return gradients, float64(values[0])
}
