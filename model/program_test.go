package model

import (
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/crossentropy"
	"tokitai/op/gelu"
	"tokitai/op/layernorm"
	"tokitai/op/swiglu"
)

// TestPlan: while a value lives, no other value has its buffer, and sharing saves memory.
func TestPlan(t *testing.T) {
	t.Parallel()
	d, err := NewDecoder(tiny, 2, true)
	if err != nil {
		t.Fatal(err)
	}
	p := d.Program
	first, last := map[*Value]int{}, map[*Value]int{}
	total := int64(0)
	for i, c := range p.Calls {
		for _, r := range c.Operands {
			if _, isKnown := first[r.value]; !isKnown {
				first[r.value] = i
				total += r.value.Bytes()
			}
			last[r.value] = i
		}
	}
	for a, at := range p.buffer {
		if a.Bytes() > p.Buffers[at] {
			t.Errorf("%s has %d bytes in a buffer of %d", a.Name, a.Bytes(), p.Buffers[at])
		}
		for b, other := range p.buffer {
			if a != b && at == other && first[a] <= last[b] && first[b] <= last[a] {
				t.Errorf("%s (calls %d to %d) and %s (%d to %d) share a buffer", a.Name, first[a], last[a], b.Name, first[b], last[b])
			}
		}
	}
	for _, v := range p.Values {
		if _, isShared := p.buffer[v]; isShared == (v.IsKept || v.Kind != Result) {
			t.Errorf("%s: shared %v, kept %v, %v", v.Name, isShared, v.IsKept, v.Kind)
		}
	}
	if got := p.Bytes(); got*2 > total {
		t.Errorf("buffers of %d bytes for values of %d, want less than half", got, total)
	}
}

// TestIdentity: programs that compute something else have another identity, and the same twice the same.
func TestIdentity(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	identity := func(name string, c Config, sequences int) {
		d, err := NewDecoder(c, sequences, true)
		if err != nil {
			t.Fatal(err)
		}
		id := d.Program.Identity()
		if other, isKnown := seen[id]; isKnown {
			t.Errorf("%s has the identity of %s", name, other)
		}
		seen[id] = name
		again, err := NewDecoder(c, sequences, true)
		if err != nil || again.Program.Text() != d.Program.Text() {
			t.Errorf("%s: another text the second time, error %v", name, err)
		}
	}
	identity("tiny", tiny, 2)
	identity("three sequences", tiny, 3)
	for name, change := range map[string]func(c *Config){
		"eps": func(c *Config) { c.Eps = 1e-6 }, "tied": func(c *Config) { c.Tied = true }, "bias": func(c *Config) { c.Bias = true },
		"dropout": func(c *Config) { c.Dropout = 0.1 }, "layers": func(c *Config) { c.Layers = 1 }, "neighbours": func(c *Config) { c.Interleaved = true }, "norm": func(c *Config) { c.Norm = "layer" },
		"positions": func(c *Config) { c.Positions = "learned" }, "gelu": func(c *Config) { c.FeedForward = "gelu" }, "heads": func(c *Config) { c.KVHeads = 1 },
	} {
		c := tiny
		change(&c)
		identity(name, c, 2)
	}
	for name, c := range configs() {
		if name != "llama" { // heads, above
			identity(name, c, 2)
		}
	}
	gemma := configs()["gemma"]
	for name, change := range map[string]func(c *Config){
		"window": func(c *Config) { c.Windows = NumbersOf(3, 0) }, "which layer": func(c *Config) { c.Windows = NumbersOf(0, 2) },
		"attention cap": func(c *Config) { c.AttentionCap = 2 }, "logit cap": func(c *Config) { c.LogitCap = 1 }, "attention scale": func(c *Config) { c.AttentionScale = 0.5 },
		"embed scale": func(c *Config) { c.EmbedScale = 2 }, "place": func(c *Config) { c.NormPlace = "after" }, "head width": func(c *Config) { c.HeadWidth = 4 },
		"qkv": func(c *Config) { c.QKVBias = true }, "out": func(c *Config) { c.OutBias = true }, "hidden": func(c *Config) { c.HiddenBias = true },
		"norm of each head": func(c *Config) { c.HeadNorm = "each" }, "norm of all heads": func(c *Config) { c.HeadNorm = "all" }, "erf": func(c *Config) { c.FeedForward = "geglu.erf" },
	} {
		c := gemma
		change(&c)
		identity(name, c, 2)
	}
}

// TestStorage: with 16-bit storage the calls are those of training's forward, one by one, but for what training measures: the same
// definitions of the same operands, whose formats alone differ.
func TestStorage(t *testing.T) {
	t.Parallel()
	calls := func(c Config, isTraining bool) []string {
		d, err := NewDecoder(c, 2, isTraining)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, call := range d.Program.Calls {
			if strings.Contains(call.Name, "entropy") {
				continue // training measures routers
			}
			if list = append(list, call.String()); call.Name == Loss {
				break // what follows are gradients
			}
		}
		return list
	}
	for name, c := range configs() {
		want := calls(c, true)
		for _, storage := range []string{"bf16", "f16"} {
			c := c
			c.Storage = storage
			got := calls(c, false)
			if len(got) != len(want) {
				t.Fatalf("%s: %d calls in %s, %d of training's forward", name, len(got), storage, len(want))
			}
			seen := false
			for i := range got {
				seen = seen || strings.Contains(got[i], " "+storage+"(")
				plain := strings.ReplaceAll(got[i], " "+storage+"(", " f32(")
				if c.EmbedScale != 0 && strings.Contains(plain, "model.scale") { // the factor is one of the format
					continue
				}
				if plain != want[i] {
					t.Errorf("%s: call %d in %s is %s, want %s", name, i, storage, got[i], want[i])
				}
			}
			if !seen {
				t.Errorf("%s: no result is stored in %s", name, storage)
			}
			if storage == "bf16" {
				if trained := calls(c, true); !slices.Equal(trained, got) {
					t.Errorf("%s: training's forward calls in bf16 are\n%s\nwant those of inference\n%s", name, strings.Join(trained, "\n"), strings.Join(got, "\n"))
				}
			} else if _, err := NewDecoder(c, 2, true); err == nil || !strings.Contains(err.Error(), "precision is f16, want f32 or bf16 for training") {
				t.Errorf("error %v for training in %s, want a refusal", err, storage)
			}
		}
	}
}

// TestBF16 holds the program that trains in bf16 to the one of binary32, whose gradients TestGradients holds to
// the derivatives of the loss. But for calls that widen and round, it makes the same calls on the same values.
// Each of them gives the answer of its definition on what it is given.
// Only the gradient of the logits is rounded, and what is widened is widened exactly; the gradients of
// weights, and the sums of them, are binary32.
func TestBF16(t *testing.T) {
	t.Parallel()
	for name, c := range configs() {
		plain, err := NewDecoder(c, 2, true)
		if err != nil {
			t.Fatal(err)
		}
		c.Storage = "bf16"
		d, err := NewDecoder(c, 2, true)
		if err != nil {
			t.Fatal(err)
		}
		_, gradients, _ := trainOnce(t, c, []int32{1, 4, 4, 0, 6, 2, 5, 3}, []int32{4, 4, 0, 6, 2, crossentropy.DefaultIgnore, 3, 1})
		for weight, list := range gradients {
			if slices.ContainsFunc(list, func(g float32) bool { return g-g != 0 }) {
				t.Errorf("%s: the gradient of %s is not finite", name, weight)
			}
		}
		origin := map[*Value]string{} // of values that were widened or rounded
		var got, want []string
		call := func(c *Call) string {
			text := c.Name + ": " + c.Definition.Name
			for _, r := range c.Operands {
				at := *r.value
				if from, ok := origin[r.value]; ok {
					at.Name = from
				}
				r.value = &at
				text += " " + r.String()
			}
			return text
		}
		for _, c := range plain.Program.Calls {
			want = append(want, call(c))
		}
		rounded := 0
		for _, c := range d.Program.Calls {
			switch c.Definition {
			case RoundBF16:
				if rounded++; !strings.HasPrefix(c.Operands[0].value.Name, "d.lm_head.") && c.Operands[0].value.Name != "crossentropy.dlogits" {
					t.Errorf("%s: %s is rounded", name, c.Operands[0].value.Name)
				}
				fallthrough
			case Widen:
				origin[c.Operands[1].value] = c.Operands[0].value.Name
			default:
				got = append(got, call(c))
			}
			for i, r := range c.Operands {
				if f := r.value.DType; f != num.BF16 && f != num.F32 && f != num.I32 {
					t.Errorf("%s: %s: operand %d is %v", name, c.Name, i, f)
				}
			}
		}
		if !slices.Equal(got, want) {
			for i := range got {
				if i >= len(want) || got[i] != want[i] {
					t.Fatalf("%s: call %d is %s, want %s", name, i, got[i], want[min(i, len(want)-1)])
				}
			}
			t.Fatalf("%s: %d calls, want %d", name, len(got), len(want))
		}
		if rounded != 1 {
			t.Errorf("%s: %d gradients are rounded, want that of the logits", name, rounded)
		}
		for weight, gradient := range d.Gradients {
			if w, g := d.Program.Value(weight), d.Program.Value(gradient); w.DType != num.BF16 || g.DType != num.F32 {
				t.Errorf("%s: %s is %v and its gradient %v, want bf16 and f32", name, weight, w.DType, g.DType)
			}
		}
		for _, v := range []string{Logits, Loss} {
			if f := d.Program.Value(v).DType; f != num.F32 {
				t.Errorf("%s: %s is %v", name, v, f)
			}
		}
	}
}

// TestAngles holds scaled angles to formulas in binary64.
func TestAngles(t *testing.T) {
	t.Parallel()
	const pairs, base = 8, 500000.
	for name, test := range map[string]struct {
		rope Rope
		want func(i int, a float64) float64
	}{
		"linear":   {Rope{Kind: "linear", Factor: 4}, func(_ int, a float64) float64 { return a / 4 }},
		"longrope": {Rope{Kind: "longrope", Short: NumbersOf(1., 2, 3, 4, 5, 6, 7, 8)}, func(i int, a float64) float64 { return a / float64(i+1) }},
		"llama3": {Rope{Kind: "llama3", Factor: 8, Original: 8192, Low: 1, High: 4}, func(_ int, a float64) float64 {
			switch wave := 2 * math.Pi / a; {
			case wave < 8192./4:
				return a
			case wave > 8192.:
				return a / 8
			default:
				smooth := (8192/wave - 1) / (4 - 1)
				return (1-smooth)*a/8 + smooth*a
			}
		}},
		"yarn": {Rope{Kind: "yarn", Factor: 16, Original: 4096, Fast: 32, Slow: 1}, func(i int, a float64) float64 {
			at := func(turns float64) float64 { return pairs * math.Log(4096/(turns*2*math.Pi)) / math.Log(base) }
			low, high := math.Floor(at(32)), math.Ceil(at(1))
			ramp := min(max((float64(i)-low)/(high-low), 0), 1)
			return a/16*ramp + a*(1-ramp)
		}},
	} {
		kept, changed := 0, 0
		test.rope.Factor = max(test.rope.Factor, 1)
		for i, got := range test.rope.angles(base, pairs) {
			a := math.Pow(base, -float64(i)/pairs)
			want := test.want(i, a)
			// The formulas round at most sixteen times, each by 2^-53, and the angle once; where weights 1-s
			// cancel, errors of s count up to 16-fold in these cases: 2^-45 in all.
			if math.Abs(got-want) > 0x1p-45*want {
				t.Errorf("%s: the angle of pair %d is %v, want %v", name, i, got, want)
			}
			if got == a {
				kept++
			} else {
				changed++
			}
		}
		if changed == 0 {
			t.Errorf("%s changes no angle", name)
		}
	}
}

// TestColumns: the gradient of a value that is used column by column is put together from its parts: a gate
// and its values from one product have the gradients that two products give.
func TestColumns(t *testing.T) {
	t.Parallel()
	const rows, in, out = 5, 4, 3
	gradients := func(isOne bool) (x, w []float32) {
		b := NewBuilder()
		input := b.Weight("x", num.F32, rows, in)
		var y Ref
		if isOne {
			h := b.Call("h", Linear, nil, input, b.Weight("w", num.F32, 2*out, in))[0]
			y = b.Call("y", swiglu.ForwardDefinition, nil, h.Columns(0, out), h.Columns(out, 2*out))[0]
		} else {
			gate := b.Call("gate", Linear, nil, input, b.Weight("w.0", num.F32, out, in))[0]
			up := b.Call("up", Linear, nil, input, b.Weight("w.1", num.F32, out, in))[0]
			y = b.Call("y", swiglu.ForwardDefinition, nil, gate, up)[0]
		}
		given := b.Input("dy", num.F32, rows, out)
		names := b.Backward(y, given, nil)
		p, err := b.Program()
		if err != nil {
			t.Fatal(err)
		}
		q := cpu.Queue()
		instance, err := NewInstance(q, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer instance.Close()
		set := func(name string, at, n int) {
			values := make([]float32, n)
			for i := range values {
				values[i] = float32(math.Sin(float64(at + i + len(name)%2)))
			}
			if err := instance.Tensor(name).SetFloat32s(values); err != nil {
				t.Fatal(err)
			}
		}
		set("x", 7, rows*in)
		set("dy", 1, rows*out)
		if isOne {
			set("w", 3, 2*out*in)
		} else {
			set("w.0", 3, out*in)
			set("w.1", 3+out*in, out*in)
		}
		if err := instance.Run(q, nil); err != nil {
			t.Fatal(err)
		}
		get := func(name string) []float32 {
			v, err := instance.Tensor(names[name].Value().Name).Float32s()
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		if isOne {
			return get("x"), get("w")
		}
		return get("x"), append(get("w.0"), get("w.1")...)
	}
	_, one := gradients(true)
	x, two := gradients(false)
	if !slices.Equal(one, two) || slices.Equal(x, make([]float32, rows*in)) {
		t.Errorf("gradients %v of one product, %v of two", one, two)
	}
}

// TestSum: contributions to a gradient are added from the last use to the first.
func TestSum(t *testing.T) {
	t.Parallel()
	b := NewBuilder()
	x := b.Weight("x", num.F32, 1, 1)
	y := b.Call("y", Add, nil, b.Call("first", Add, nil, x, x)[0], x)[0]
	names := b.Backward(y, b.Input("dy", num.F32, 1, 1), nil)
	p, err := b.Program()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"d.x f32(1,1) = model.add dy, dy", "grad.x f32(1,1) = model.add d.x, dy"}
	for i, c := range p.Calls[2:] {
		if got := c.String(); i >= len(want) || got != want[i] {
			t.Errorf("call %d of the gradient is %q, want %q", i, got, want)
		}
	}
	q := cpu.Queue()
	in, err := NewInstance(q, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	in.Tensor("dy").SetFloat32s([]float32{2})
	if err := in.Run(q, nil); err != nil {
		t.Fatal(err)
	}
	if v, err := in.Tensor(names["x"].Value().Name).Float32s(); err != nil || v[0] != 6 {
		t.Errorf("gradient of x+x+x is %v times 2, want 3; %v", v, err)
	}
}

// TestBuilderErrors: mistakes are found before anything runs.
func TestBuilderErrors(t *testing.T) {
	t.Parallel()
	for want, build := range map[string]func(b *Builder){
		"without calls":      func(*Builder) {},
		"a name of its own":  func(b *Builder) { b.Input("x", num.F32, 1); b.Input("x", num.F32, 1) },
		"want a format and":  func(b *Builder) { b.Input("x", num.F32, 0) },
		"1 inputs, want 2":   func(b *Builder) { b.Call("y", Add, nil, b.Input("x", num.F32, 1, 2)) },
		"no value is given":  func(b *Builder) { b.Call("y", gelu.ForwardDefinition, nil, Ref{}) },
		"number of elements": func(b *Builder) { b.Call("y", gelu.ForwardDefinition, nil, b.Input("x", num.F32, 1, 2).As(3)) },
		"columns 1 to 3":     func(b *Builder) { b.Call("y", gelu.ForwardDefinition, nil, b.Input("x", num.F32, 1, 2).Columns(1, 3)) },
		"has no parameter a": func(b *Builder) {
			b.Call("y", gelu.ForwardDefinition, Params{"a": Number(1)}, b.Input("x", num.F32, 1, 2))
		},
		"size K = 3, want 2": func(b *Builder) { b.Call("y", Linear, nil, b.Input("x", num.F32, 1, 2), b.Input("w", num.F32, 4, 3)) },
		"no call before it":  func(b *Builder) { b.Call("y", gelu.ForwardDefinition, nil, b.Value("x", num.F32, 1, 2)) },
		"writes the input x": func(b *Builder) {
			x := b.Input("x", num.F32, 1, 2)
			b.CallInto("y", gelu.ForwardDefinition, nil, []Ref{x}, []Ref{x})
		},
		"outputs too many": func(b *Builder) {
			x := b.Input("x", num.F32, 1, 2)
			b.CallInto("y", gelu.ForwardDefinition, nil, []Ref{x}, []Ref{b.Value("y", num.F32, 1, 2), b.Value("z", num.F32, 1, 2)})
		},
		"which y has written": func(b *Builder) {
			x, y := b.Input("x", num.F32, 1, 2), b.Value("y", num.F32, 1, 2)
			b.CallInto("y", gelu.ForwardDefinition, nil, []Ref{x}, []Ref{y})
			b.CallInto("z", gelu.ForwardDefinition, nil, []Ref{x}, []Ref{y})
		},
		"no call computes 1 of": func(b *Builder) {
			b.CallInto("y", gelu.ForwardDefinition, nil, []Ref{b.Input("x", num.F32, 1, 1)}, []Ref{b.Value("y", num.F32, 1, 2).Columns(0, 1)})
		},
		"no row for gelu.backward": func(b *Builder) {
			x := b.Weight("x", num.F32, 1, 2)
			g := b.Call("g", gelu.BackwardDefinition, nil, x, x)[0]
			b.Backward(g, b.Input("dy", num.F32, 1, 2), nil)
		},
		"one gradient": func(b *Builder) {
			y := b.Call("y", Add, nil, b.Weight("v", num.F32, 1, 2), b.Weight("w", num.F32, 1, 2))[0]
			b.Backward(y, b.Input("dy", num.F32, 1, 2), nil)
		},
	} {
		b := NewBuilder()
		build(b)
		if _, err := b.Program(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestParts: a value that is used whole and in parts has no gradient.
func TestParts(t *testing.T) {
	t.Parallel()
	b := NewBuilder()
	x := b.Weight("x", num.F32, 2, 4)
	n := b.Call("n", layernorm.ForwardDefinition, nil, x, b.Weight("g", num.F32, 4), b.Weight("b", num.F32, 4))[0]
	y := b.Call("y", swiglu.ForwardDefinition, nil, n.Columns(0, 2), n.Columns(2, 4))[0]
	z := b.Value("z", num.F32, 2, 4)
	b.CallInto("left", Add, nil, []Ref{y, n.Columns(0, 2)}, []Ref{z.Columns(0, 2)})
	b.CallInto("right", Add, nil, []Ref{y, n.Columns(2, 4)}, []Ref{z.Columns(2, 4)})
	b.Backward(b.Call("all", Add, nil, z, n)[0], b.Input("dz", num.F32, 2, 4), nil)
	if _, err := b.Program(); err == nil || !strings.Contains(err.Error(), "whole and in parts") {
		t.Errorf("error %v, want one that n.y is used whole and in parts", err)
	}
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(c *Config){
		"layers is 0": func(c *Config) { c.Layers = 0 }, `norm is "batch"`: func(c *Config) { c.Norm = "batch" },
		"multiple of heads": func(c *Config) { c.Heads = 3 }, "multiple of kv_heads": func(c *Config) { c.Heads, c.KVHeads = 4, 3 },
		"even width": func(c *Config) { c.Heads, c.KVHeads = 8, 8 }, "dropout is 1": func(c *Config) { c.Dropout = 1 },
		"eps is NaN": func(c *Config) { c.Eps = math.NaN() }, "rope_base": func(c *Config) { c.RopeBase = 0 },
		"head_width is -1": func(c *Config) { c.HeadWidth = -1 }, "head_norm is": func(c *Config) { c.HeadNorm = "some" }, "norm_place is": func(c *Config) { c.NormPlace = "behind" },
		"precision is": func(c *Config) { c.Storage = "fp8" }, "attention_cap is": func(c *Config) { c.AttentionCap = -1 }, "windows has 1": func(c *Config) { c.Windows = NumbersOf(2) },
		"the window of layer 1": func(c *Config) { c.Windows = NumbersOf(2, 0.5) }, "rope.kind": func(c *Config) { c.Rope.Kind = "far" }, "rope.factor": func(c *Config) { c.Rope.Kind = "linear" },
		"other sequences":       func(c *Config) { c.Rope = Rope{Kind: "dynamic", Factor: 2, Original: 3} },
		"rope.low":              func(c *Config) { c.Rope = Rope{Kind: "llama3", Factor: 2, Original: 3, Low: 4, High: 1} },
		"positions are":         func(c *Config) { c.Rope, c.Positions = Rope{Kind: "linear", Factor: 2}, "learned" },
		"rope_interleaved is":   func(c *Config) { c.Interleaved, c.Positions = true, "learned" },
		"mixture.experts":       func(c *Config) { c.Mixture.PerToken = 1 },
		"mixture.per_token":     func(c *Config) { c.Mixture = Mixture{Experts: 2, PerToken: 3, Hidden: 1} },
		"mixture.balance is -1": func(c *Config) { c.Mixture = Mixture{Experts: 2, PerToken: 1, Hidden: 1, Balance: -1} },
		"mixture.dense has 2":   func(c *Config) { c.Mixture = Mixture{Experts: 2, PerToken: 1, Hidden: 1, Dense: NumbersOf(2)} },
	} {
		c := tiny
		change(&c)
		if _, err := NewDecoder(c, 1, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := NewDecoder(tiny, MaxLeafTokens, true); err == nil {
		t.Error("a leaf of too many tokens is accepted")
	}
}
