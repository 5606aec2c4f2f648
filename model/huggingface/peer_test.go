package huggingface_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/foreign"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
	"tokitai/model"
	"tokitai/model/huggingface"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/tensor"
	"tokitai/tensor/safetensors"
	"tokitai/verify"
)

// transformers runs the script of testdata with a Python that has transformers: TOKITAI_PYTHON, or python3.
func transformers(t *testing.T, args ...string) string {
	t.Helper()
	path := os.Getenv("TOKITAI_PYTHON")
	if path == "" {
		path = tool.Need(t, "python3")
	}
	if err := exec.Command(path, "-c", "import transformers, torch, safetensors").Run(); err != nil {
		tool.Missing(t, "transformers", "python3 cannot import it")
	}
	command := exec.Command(path, append([]string{"folders.py"}, args...)...)
	command.Dir = "testdata"
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, stderr.Bytes())
	}
	return string(out)
}

// TestPeer compares with transformers: on the inputs that its modules had, what they computed is
// admitted by the definitions of our calls, module after module. Folders are small, with random weights,
// and have every family and unusual settings.
func TestPeer(t *testing.T) {
	testlevel.Need(t, testlevel.Quick, "Python takes half a minute for its folders")
	out := t.TempDir()
	transformers(t, out)
	list, err := filepath.Glob(filepath.Join(out, "*.trace"))
	if err != nil || len(list) < 24 {
		t.Fatalf("%d folders, %v", len(list), err)
	}
	var written []string
	for _, path := range list {
		path = strings.TrimSuffix(path, ".trace")
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			f, err := huggingface.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			old, err := os.ReadFile(path + ".old.json")
			if err != nil {
				t.Fatal(err)
			}
			if _, c, err := huggingface.ParseConfig(old); err != nil || c != f.Config {
				t.Errorf("in the spelling of version 4 the configuration is %+v, want %+v; %v", c, f.Config, err)
			}
			p := newPeer(t, f, path+".trace")
			p.compare()
			p.report()

			again := path + ".again"
			if err := f.Write(again, f.Bytes, huggingface.WriteOptions{ShardBytes: 5000}); err != nil {
				t.Fatal(err)
			}
			described := path + ".described"
			if err := huggingface.Write(described, f.Config, f.Bytes, huggingface.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			written = append(written, again+"="+path, described+"="+path)
		})
	}
	if got := transformers(t, append([]string{"load"}, written...)...); got != "loaded\n" {
		t.Errorf("transformers loads what was written here as something else:\n%s", got)
	}
}

// peer has a folder, and what transformers computed from it.
type peer struct {
	*testing.T
	f       *huggingface.Folder
	c       model.Config
	trace   *safetensors.File
	weights map[string]*tensor.Tensor
	judged  map[string]int // by definition
}

func newPeer(t *testing.T, f *huggingface.Folder, path string) *peer {
	trace, err := safetensors.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := f.Load(cpu.Queue().Device())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return &peer{t, f, f.Config, trace, w.Tensors, map[string]int{}}
}

func (p *peer) has(name string) bool {
	_, ok := p.trace.Entry(name)
	return ok
}

// get returns a tensor of the trace in another shape; a size of 0 is what is left.
func (p *peer) get(name string, shape ...int) *tensor.Tensor {
	p.Helper()
	e, ok := p.trace.Entry(name)
	if !ok {
		p.Fatalf("the trace has no %s", name)
	}
	n := 1
	for _, size := range e.Shape {
		n *= size
	}
	if len(shape) == 0 {
		shape = []int{0, e.Shape[len(e.Shape)-1]}
	}
	shape = slices.Clone(shape)
	rest := slices.Index(shape, 0)
	if rest >= 0 {
		shape[rest] = n
		for i, size := range shape {
			if i != rest {
				shape[rest] /= size
			}
		}
	}
	t, err := tensor.FromBytes(cpu.Queue().Device(), e.DType, e.Data, shape...)
	if err != nil {
		p.Fatalf("%s %v: %v", name, e.Shape, err)
	}
	return t
}

func (p *peer) integers(list ...int32) *tensor.Tensor {
	t, err := tensor.FromInt32(cpu.Queue().Device(), list, len(list))
	if err != nil {
		p.Fatal(err)
	}
	return t
}

// judge holds given outputs of a definition to its promise stable. Outputs that are not given are
// omitted.
func (p *peer) judge(name string, d *def.Definition, params engine.Params, in, out engine.Args) {
	p.Helper()
	o := op.Of(d, "")
	for _, known := range all.Operations {
		if slices.Contains(known.Definitions, d) {
			o = known
		}
	}
	declaration := "profile=torch"
	var tensors []*tensor.Tensor
	for i := range d.Operands {
		operand := &d.Operands[i]
		x := in[operand.Name]
		if operand.IsOut {
			if x = out[operand.Name]; x == nil {
				declaration += " omit=" + operand.Name
			}
		}
		tensors = append(tensors, x)
	}
	fail := func(err error) {
		if err != nil {
			p.Fatalf("%s: %s: %v", name, d.Name, err)
		}
	}
	terms, err := verify.ParseTerms("", "", declaration)
	fail(err)
	if d.IsExact() {
		terms = verify.Terms{}
	}
	kernel, err := foreign.Given(out, foreign.Options{Definition: d})
	fail(err)
	q := cpu.Queue()
	for i := range d.Operands {
		operand := &d.Operands[i]
		if !operand.IsOut {
			continue
		}
		dtype, shape := num.F32, []int{in[d.Operands[0].Name].Rows()}
		if given := out[operand.Name]; given != nil {
			dtype, shape = given.DType(), given.Shape()
		} else if len(operand.Dims) > 0 { // of attention
			shape = in[d.Operands[0].Name].Shape()[:len(operand.Dims)]
		}
		tensors[i], err = tensor.New(q.Device(), dtype, shape...)
		fail(err)
	}
	lowering, err := terms.Hold(&verify.Target{Operation: o, Definition: d, Lowering: kernel.Lowering})
	fail(err)
	call := &engine.Record{Queue: q, Definition: d, Lowering: lowering, Tensors: tensors}
	for _, q := range d.Params {
		v, ok := params[q.Name]
		if !ok {
			v = *q.Default
		}
		call.Params = append(call.Params, v)
	}
	trial, err := engine.NewTrial(q, d, lowering)
	fail(err)
	prepared, err := trial.Prepare(call.Tensors, call.Params)
	fail(err)
	report := &verify.CallReport{Tool: "test", Operation: o, IsGiven: true}
	fail(report.Before(call))
	report.After(call, prepared.Launch())
	p.judged[d.Name]++
	if v := report.Verdict(); v != evidence.Accepted && v != evidence.Undecided {
		text, _ := report.Reports()[0].JSON()
		p.Errorf("%s: %s is %v\n%.3000s", name, d.Name, v, text)
	}
}

func (p *peer) report() {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(p.judged)) {
		list = append(list, fmt.Sprintf("%s %d", name, p.judged[name]))
	}
	p.Logf("accepted calls: %s", strings.Join(list, ", "))
}

// compare runs our program on the tokens and holds each of its calls to what the module of that place computed on its own inputs.
func (p *peer) compare() {
	tokens := p.get("tokens", 0)
	n := tokens.Len()
	d, err := model.NewDecoder(p.c, 1, false)
	if err != nil {
		p.Fatal(err)
	}
	q := cpu.Queue()
	given, err := d.Constants(q)
	if err != nil {
		p.Fatal(err)
	}
	constants := maps.Clone(given)
	defer func() {
		for _, t := range constants {
			t.Close()
		}
	}()
	maps.Copy(given, p.weights)
	in, err := model.NewInstance(q, d.Program, given)
	if err != nil {
		p.Fatal(err)
	}
	defer in.Close()
	ids := make([]int32, p.c.Block)
	first, _ := tokens.Int32s()
	copy(ids, first)
	if err := in.Tensor(model.Tokens).SetInt32s(ids); err != nil {
		p.Fatal(err)
	}
	if err := in.Tensor(model.Labels).SetInt32s(ids); err != nil {
		p.Fatal(err)
	}
	if err := in.Run(q, model.Variables{model.ScaleVariable: 1}); err != nil {
		p.Fatal(err)
	}
	ours, err := in.Tensor(model.Logits).Float32s()
	if err != nil {
		p.Fatal(err)
	}
	theirs, _ := p.get("logits").Float32s()
	worst, size := 0.0, 0.0
	for i, v := range theirs {
		worst, size = max(worst, math.Abs(float64(v-ours[i]))), max(size, math.Abs(float64(v)))
	}
	// End to end nothing is held: enclosures through many layers mean nothing. A wrong network differs by as
	// much as its logits are large.
	p.Logf("logits differ by at most %.3g, the largest is %.3g", worst, size)
	if worst > size/4 {
		p.Errorf("logits differ by %v, the largest is %v: it is another network", worst, size)
	}

	if !p.has("attention.0.q") {
		p.Log("this version has no function for the attention of the class: its modules are not compared")
		return
	}
	if p.f.Family.Type == "gpt2" {
		p.gpt2(n)
		return
	}
	w := p.weights
	p.judgeRopeTables(constants, n)
	embedded := "model.embed_tokens.out"
	p.embed(tokens, embedded)
	for i := range p.c.Layers {
		p.layer(i, n)
	}
	p.norm("model.norm")
	head := w["lm_head.weight"]
	if p.c.Tied {
		head = w["model.embed_tokens.weight"]
	}
	p.judge("lm_head", model.Linear, nil, engine.Args{"x": p.get("lm_head.in"), "w": head}, engine.Args{"y": p.get("lm_head.out")})
	if p.c.LogitCap > 0 && p.c.Format() == num.F32 { // in 16 bits transformers rounds inside of it
		p.judge("cap", model.Cap, engine.Params{"cap": p.c.LogitCap}, engine.Args{"x": p.get("lm_head.out")}, engine.Args{"y": p.get("logits")})
	}
}

// embed judges the embedding: exact, but for a scale.
func (p *peer) embed(tokens *tensor.Tensor, out string) {
	got, _ := p.get(out).Float32s()
	table, err := p.weights["model.embed_tokens.weight"].Float32s()
	if err != nil {
		p.Fatal(err)
	}
	ids, _ := tokens.Int32s()
	rows := make([]float32, 0, len(got))
	for _, id := range ids {
		rows = append(rows, table[int(id)*p.c.Width:][:p.c.Width]...)
	}
	if p.c.EmbedScale == 0 || slices.Equal(rows, got) { // version 4 scales behind the module
		if !slices.Equal(rows, got) {
			p.Errorf("%s are other rows of the embedding", out)
		}
		return
	}
	x, _ := tensor.FromFloat32(cpu.Queue().Device(), p.c.Format(), rows, len(ids), p.c.Width)
	factor := num.ArrayOf(p.c.Format(), 1, 1, float32(p.c.EmbedScale)) // transformers rounds it to the format of the network
	p.judge(out, model.Scale, engine.Params{"factor": float64(factor.At(0, 0))}, engine.Args{"x": x}, engine.Args{"y": p.get(out)})
}

// norm judges a norm. In 16 bits transformers rounds the normalized row before it is scaled.
func (p *peer) norm(name string) {
	if p.c.Format() != num.F32 {
		return
	}
	params := engine.Params{"eps": p.c.Eps}
	switch {
	case p.c.Norm == "rms1":
		p.judge(name, model.RMSNorm1, params, engine.Args{"x": p.get(name + ".in"), "gamma": p.weights[name+".weight"]}, engine.Args{"y": p.get(name + ".out")})
	default:
		p.judge(name, operation("rmsnorm.forward"), params, engine.Args{"x": p.get(name + ".in"), "gamma": p.weights[name+".weight"]}, engine.Args{"y": p.get(name + ".out")})
	}
}

func operation(name string) *def.Definition {
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if d.Name == name {
				return d
			}
		}
	}
	panic(name)
}

// linear judges a linear layer, with its bias: the product alone, and the sum with it where the product has no other
// rounding than the sum's.
func (p *peer) linear(name string) {
	bias := p.weights[name+".bias"]
	if bias == nil {
		p.judge(name, model.Linear, nil, engine.Args{"x": p.get(name + ".in"), "w": p.weights[name+".weight"]}, engine.Args{"y": p.get(name + ".out")})
		return
	}
	p.judge(name, biased, nil, engine.Args{"x": extended(p, p.get(name+".in"), nil), "w": extended(p, p.weights[name+".weight"], bias)}, engine.Args{"y": p.get(name + ".out")})
}

// biased is a product whose last term is the bias: what a linear layer of torch computes in one sum.
var biased = model.Linear

// extended returns a matrix with another column: ones, or a vector.
func extended(p *peer, x, column *tensor.Tensor) *tensor.Tensor {
	values, err := x.Float32s()
	if err != nil {
		p.Fatal(err)
	}
	ends := slices.Repeat([]float32{1}, x.Rows())
	if column != nil {
		if ends, err = column.Float32s(); err != nil {
			p.Fatal(err)
		}
	}
	var list []float32
	for r := range x.Rows() {
		list = append(append(list, values[r*x.Cols():(r+1)*x.Cols()]...), ends[r])
	}
	t, err := tensor.FromFloat32(cpu.Queue().Device(), x.DType(), list, x.Rows(), x.Cols()+1)
	if err != nil {
		p.Fatal(err)
	}
	return t
}

func (p *peer) layer(i, n int) {
	name := "model.layers." + strconv.Itoa(i) + "."
	for _, norm := range []string{"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm", "self_attn.q_norm", "self_attn.k_norm"} {
		if _, ok := p.weights[name+norm+".weight"]; ok != p.has(name+norm+".in") {
			p.Errorf("%s is in one of the networks alone", name+norm)
		} else if ok {
			p.norm(name + norm)
		}
	}
	for _, linear := range []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"} {
		p.linear(name + linear)
	}
	p.rope(i, n)
	p.attention(i, n)
	if p.has(name + "mlp.experts.in") {
		p.mixture(name + "mlp.")
	} else if p.weights[name+"mlp.gate.weight"] != nil { // version 4 has no module of all experts
		p.linear(name + "mlp.gate")
	} else {
		for _, linear := range []string{"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"} {
			p.linear(name + linear)
		}
		gate, up, y := p.get(name+"mlp.gate_proj.out"), p.get(name+"mlp.up_proj.out"), p.get(name+"mlp.down_proj.in")
		p.activation(name+"mlp", gate, up, y)
	}
	p.residuals(i)
}

// activation judges an activation and its product: in 16 bits transformers rounds between them.
func (p *peer) activation(name string, gate, up, y *tensor.Tensor) {
	act := p.get(name + ".act_fn.out")
	switch p.c.FeedForward {
	case "swiglu":
		if p.c.Format() == num.F32 {
			p.judge(name, operation("swiglu.forward"), nil, engine.Args{"gate": gate, "up": up}, engine.Args{"y": y})
			return
		}
		p.judge(name, operation("silu.forward"), nil, engine.Args{"x": gate}, engine.Args{"y": act})
	case "geglu":
		p.judge(name, operation("gelu.forward"), nil, engine.Args{"x": gate}, engine.Args{"y": act})
	case "geglu.erf":
		p.judge(name, operation("gelu.erf.forward"), nil, engine.Args{"x": gate}, engine.Args{"y": act})
	}
	p.judge(name, model.Multiply, nil, engine.Args{"a": act, "b": up}, engine.Args{"y": y})
}

// residuals judges the sums of the residual stream, whose bits are the same.
func (p *peer) residuals(i int) {
	name := "model.layers." + strconv.Itoa(i) + "."
	start, end := p.get(name+"in"), p.get(name+"out")
	attended, hidden := p.get(name+"self_attn.out"), p.get(name+"mlp.out")
	var mid *tensor.Tensor
	switch p.c.NormPlace {
	case "after":
		mid = p.get(name + "mlp.in")
	case "both":
		mid = p.get(name + "pre_feedforward_layernorm.in")
	default:
		mid = p.get(name + "post_attention_layernorm.in")
	}
	if p.c.NormPlace != "" {
		attended, hidden = p.get(name+"post_attention_layernorm.out"), p.get(name+"post_feedforward_layernorm.out")
	}
	p.judge(name+"mid", model.Add, nil, engine.Args{"a": start, "b": attended}, engine.Args{"y": mid})
	p.judge(name+"out", model.Add, nil, engine.Args{"a": mid, "b": hidden}, engine.Args{"y": end})
}

// judgeRopeTables holds the tables that transformers computes in binary32 to ours: an angle of n radians is off
// by 8 roundings of n, since powers, products and quotients of binary32 make it.
func (p *peer) judgeRopeTables(constants map[string]*tensor.Tensor, n int) {
	amplitude := max(1, p.c.Rope.Amplitude)
	for _, name := range []string{"cos", "sin"} {
		ours, _ := constants[name].Float32s()
		theirs, _ := p.get("rope.0." + name).Float32s()
		pairs := len(ours) / p.c.Block
		for i, v := range theirs {
			limit := amplitude * 0x1p-24 * (8*float64(i/pairs) + 4)
			if p.c.Format() != num.F32 {
				limit += amplitude * 0x1p-8 // the tables are rounded to 16 bits
			}
			if diff := math.Abs(float64(v) - float64(ours[i])); diff > limit {
				p.Errorf("%s of position %d, pair %d is %v, ours %v: they differ by %v, and may by %v", name, i/pairs, i%pairs, v, ours[i], diff, limit)
			}
		}
	}
}

// rope judges the turns of queries and keys, with the tables that transformers had.
func (p *peer) rope(i, n int) {
	name := "rope." + strconv.Itoa(i) + "."
	for _, which := range []string{"q", "k"} {
		x, y := p.get(name+which), p.get(name+which+"o")
		heads := x.Rows() / n
		var positions []int32
		for t := range n {
			positions = append(positions, slices.Repeat([]int32{int32(t)}, heads)...)
		}
		half := x.Cols() / 2
		part := func(t *tensor.Tensor, from int) *tensor.Tensor {
			v, err := t.Slice(0, t.Rows(), from, from+half)
			if err != nil {
				p.Fatal(err)
			}
			return v
		}
		float := func(name string) *tensor.Tensor {
			values, _ := p.get(name).Float32s()
			t, _ := tensor.FromFloat32(cpu.Queue().Device(), num.F32, values, n, half)
			return t
		}
		if p.c.Format() != num.F32 { // every product of transformers is rounded to 16 bits
			continue
		}
		p.judge(name+which, operation("rope.forward"), nil,
			engine.Args{"x1": part(x, 0), "x2": part(x, half), "position": p.integers(positions...), "cos": float(name + "cos"), "sin": float(name + "sin")},
			engine.Args{"y1": part(y, 0), "y2": part(y, half)})
	}
}

// attention judges how queries weigh keys. In 16 bits transformers rounds scores and weights.
func (p *peer) attention(i, n int) {
	if p.c.Format() != num.F32 {
		return
	}
	name := "attention." + strconv.Itoa(i) + "."
	width := p.get(name + "q").Cols()
	groups := p.c.KVHeads
	d, params := p.c.Attention(i)
	starts := p.integers(0, int32(n))
	p.judge(name, d, params, engine.Args{
		"q": p.get(name+"q", n, groups, 0, width), "k": p.get(name+"k", n, groups, width), "v": p.get(name+"v", n, groups, width), "qstart": starts, "kstart": starts,
	}, engine.Args{"o": p.get(name+"o", n, groups, 0, width)})
}

// mixture judges the router, the choice, and the sum of what each expert makes of a token.
func (p *peer) mixture(name string) {
	m := p.c.Mixture
	logits := p.get(name + "gate.out")
	p.judge(name+"gate", model.Linear, nil, engine.Args{"x": p.get(name + "gate.in"), "w": p.weights[name+"gate.weight"]}, engine.Args{"y": logits})
	// Slots are ascending here, and by weight there.
	weights, _ := p.get(name + "gate.out1").Float32s()
	indices, _ := p.get(name + "gate.out2").Int32s()
	tokens := len(indices) / m.PerToken
	for t := range tokens {
		w, e := weights[t*m.PerToken:][:m.PerToken], indices[t*m.PerToken:][:m.PerToken]
		byExpert := map[int32]float32{}
		for i := range e {
			byExpert[e[i]] = w[i]
		}
		slices.Sort(e)
		for i := range e {
			w[i] = byExpert[e[i]]
		}
	}
	dev := cpu.Queue().Device()
	weight, _ := tensor.FromFloat32(dev, num.F32, weights, tokens, m.PerToken)
	expert, _ := tensor.FromInt32(dev, indices, tokens, m.PerToken)
	bias, _ := tensor.FromFloat32(dev, num.F32, make([]float32, m.Experts), m.Experts)
	params := engine.Params{"k": float64(m.PerToken), "normalise": 0}
	if m.IsNormalised {
		params["normalise"] = 1
	}
	p.judge(name+"route", operation("router.softmax.forward"), params, engine.Args{"logits": logits, "bias": bias}, engine.Args{"weight": weight, "expert": expert})

	// The module of all experts is a composition: its rows are held to the same composition in binary64, within the
	// sum of the bounds of its steps.
	p.experts(name, weights, indices, tokens)
}

// experts holds the output of all experts to binary64. Every element of it is a sum of K weighted sums of H products;
// u bounds a rounding of binary32, and a sum of n terms errs by at most n*u of the sum of their sizes. The errors of
// the hidden values, sums of W products each and an activation whose derivative is below 1.13 and which errs by at most
// 16*u of its argument, pass through the second sum.
func (p *peer) experts(name string, weights []float32, indices []int32, tokens int) {
	const u = 0x1p-24
	x, _ := p.get(name + "experts.in").Float32s()
	got, _ := p.get(name + "experts.out").Float32s()
	load := func(layer string) []float32 {
		v, err := p.weights[name+"experts."+layer+".weight"].Float32s()
		if err != nil {
			p.Fatal(err)
		}
		return v
	}
	gates, ups, downs := load("gate_proj"), load("up_proj"), load("down_proj")
	wide, hidden := p.c.Width, p.c.Mixture.Hidden
	dot := func(a, b []float32) (sum, size float64) {
		for i := range a {
			sum += float64(a[i]) * float64(b[i])
			size += math.Abs(float64(a[i]) * float64(b[i]))
		}
		return sum, size * u * float64(len(a)+1)
	}
	for t := range tokens {
		row := x[t*wide:][:wide]
		sums, errors := make([]float64, wide), make([]float64, wide)
		for s := range p.c.Mixture.PerToken {
			e, weight := int(indices[t*p.c.Mixture.PerToken+s]), float64(weights[t*p.c.Mixture.PerToken+s])
			h, hErrors := make([]float64, hidden), make([]float64, hidden)
			for i := range hidden {
				g, gError := dot(row, gates[(e*hidden+i)*wide:][:wide])
				v, vError := dot(row, ups[(e*hidden+i)*wide:][:wide])
				act := g / (1 + math.Exp(-g))
				if p.c.FeedForward == "geglu" {
					act = g / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g)))
				}
				h[i] = act * v
				hErrors[i] = 1.13*gError*(math.Abs(v)+vError) + math.Abs(act)*vError + 16*u*math.Abs(g*v)
			}
			for o := range wide {
				for i, w := range downs[(e*wide+o)*hidden:][:hidden] {
					sums[o] += weight * h[i] * float64(w)
					errors[o] += math.Abs(weight*float64(w)) * (hErrors[i] + u*float64(hidden+8)*math.Abs(h[i]))
				}
			}
		}
		for o := range wide {
			if diff := math.Abs(float64(got[t*wide+o]) - sums[o]); diff > errors[o] {
				p.Errorf("%sexperts: token %d, column %d is %v, want %v within %v", name, t, o, got[t*wide+o], sums[o], errors[o])
			}
		}
	}
}

// gpt2 compares the modules of GPT-2, whose weights lie in other layouts.
func (p *peer) gpt2(n int) {
	weights, w := p.weights, func(name string) *tensor.Tensor { return p.weights[name] }
	eps := engine.Params{"eps": p.c.Eps}
	norm := func(name, ours string) {
		p.judge(name, operation("layernorm.forward"), eps, engine.Args{"x": p.get(name + ".in"), "gamma": w(ours + ".weight"), "beta": w(ours + ".bias")}, engine.Args{"y": p.get(name + ".out")})
	}
	linear := func(name, ours string, from int) {
		x, y, weight := p.get(name+".in"), p.get(name+".out"), weights[ours+".weight"]
		part, err := y.Slice(0, y.Rows(), from, from+weight.Rows())
		if err != nil {
			p.Fatal(err)
		}
		p.judge(ours, biased, nil, engine.Args{"x": extended(p, x, nil), "w": extended(p, weight, weights[ours+".bias"])}, engine.Args{"y": part})
	}
	for i := range p.c.Layers {
		h, ours := "transformer.h."+strconv.Itoa(i)+".", "model.layers."+strconv.Itoa(i)+"."
		norm(h+"ln_1", ours+"input_layernorm")
		norm(h+"ln_2", ours+"post_attention_layernorm")
		for k, which := range []string{"q_proj", "k_proj", "v_proj"} {
			linear(h+"attn.c_attn", ours+"self_attn."+which, k*p.c.Width)
		}
		linear(h+"attn.c_proj", ours+"self_attn.o_proj", 0)
		linear(h+"mlp.c_fc", ours+"mlp.up_proj", 0)
		linear(h+"mlp.c_proj", ours+"mlp.down_proj", 0)
		act := map[string]string{"gelu": "gelu.forward", "gelu.erf": "gelu.erf.forward"}[p.c.FeedForward]
		p.judge(h+"mlp.act", operation(act), nil, engine.Args{"x": p.get(h + "mlp.act.in")}, engine.Args{"y": p.get(h + "mlp.act.out")})
		p.attention(i, n)
		p.judge(h+"out", model.Add, nil, engine.Args{"a": p.get(h + "ln_2.in"), "b": p.get(h + "mlp.out")}, engine.Args{"y": p.get(h + "out")})
	}
	norm("transformer.ln_f", "model.norm")
	head := weights["lm_head.weight"]
	if p.c.Tied {
		head = weights["model.embed_tokens.weight"]
	}
	p.judge("lm_head", model.Linear, nil, engine.Args{"x": p.get("lm_head.in"), "w": head}, engine.Args{"y": p.get("lm_head.out")})
}
