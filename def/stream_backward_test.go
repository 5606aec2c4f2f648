package def_test

import (
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/num"
)

func streamBackwardForm() def.StreamBackwardForm {
	return def.StreamBackwardForm{
		StreamForm: streamForm(), OutGradient: "do", QueryGradient: "dq", KeyGradient: "dk", ValueGradient: "dv",
	}
}

const streamBackwardLines = `tokitai-def 1
stream-backward attention.near.backward
  in    q[T,G,J,D] f16 bf16 f32
  in    k[S,G,D] as q
  in    v[S,G,D] as q
  in    sink[G,J] as q
  in    bias[T,G,J] f32
  in    qstart[B+1] i32 ascending from 0 to T
  in    kstart[B+1] i32 ascending from 0 to S
  in    do[T,G,J,D] as q
  in    o[T,G,J,D] as q
  in    lse[T,G,J] f32
  out   dq[T,G,J,D] as q
  out   dk[S,G,D] as q
  out   dv[S,G,D] as q
  out   dbase[T,G,J] f32
  param kappa float
  dq, dk, dv, dbase <- weigh_backward(v, score * kappa + bias, key <= query, 1, {log(2)} * kappa, do, o, lse, sink * 1.5)
`

// TestStreamBackwardText reads what people write, and what is printed.
func TestStreamBackwardText(t *testing.T) {
	d, err := def.Parse(streamBackwardLines, fn.All...)
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range [][]*def.Function{nil, fn.All} {
		if again, err := def.Parse(d.Source(), known...); err != nil || again.Hash() != d.Hash() {
			t.Fatalf("the text is read as another definition: %v\n%s", err, d.Text())
		}
	}
	form := streamBackwardForm()
	form.BaseGradient = "dbase"
	build := func(b *def.StreamBuilder) {
		sink, bias := b.In("sink", []string{"G", "J"}, def.Like("q")), b.In("bias", []string{"T", "G", "J"}, def.Only(num.F32))
		kappa := b.Param("kappa")
		b.WeighBackward(b.Score().Mul(kappa).Add(bias), b.Key().LessEqual(b.Query()), def.One, def.Number("log(2)").Mul(kappa), sink.Mul(def.Const(1.5)))
	}
	if built := def.Must(def.StreamBackwardOf("attention.near.backward", form, build)); built.Text() != d.Text() {
		t.Errorf("Go builds\n%s\nand the text is\n%s", built.Text(), d.Text())
	}
	const last = "dq, dk, dv, dbase <- weigh_backward(v, score * kappa + bias, key <= query, 1, {log(2)} * kappa, do, o, lse, sink * 1.5)"
	for _, test := range []struct{ name, old, new, want string }{
		{"no result", "  " + last + "\n", "", "the text has no line DQUERY, DKEY, DVALUE <- weigh_backward(VALUE,"},
		{"the line of a stream", last, "o, lse <- weigh(v, score, key <= query)", `unexpected "weigh", want "weigh_backward"`},
		{"no logarithms", ", lse, sink * 1.5)", ")", "weigh_backward has 4 values besides \"v\", want DQUERY"},
		{"no base", ", sink * 1.5)", ")", "weigh_backward has 4 results here, want 3"},
		{"no result for the base", "dv, dbase <-", "dv <-", "weigh_backward has 3 results here, want 4"},
		{"another operand", "do, o, lse", "do, p, lse", `unexpected "in o[T,G,J,D] as q", want "in p[T,G,J,D] as q": a stream-backward has the operands`},
		{"the body reads the logarithms", "+ bias", "+ lse", "lse is not the name of a value above"},
		{"a scale of a row", "{log(2)} * kappa", "sink", "the scale sink is a float, one value per row, want a float that parameters and constants determine"},
		{"a slope of integers", "query, 1,", "query, key,", "the slope key is an int32, one value per column, want a float"},
		{"another rule", "", "rule weigh_backward(v, t): by heart\n", "weigh_backward has this rule alone"},
		{"a name of the body", "  out   dq", "  out   score", "the name score is taken"},
	} {
		text := strings.Replace(streamBackwardLines, test.old, test.new, 1)
		if test.old == "" {
			text = streamBackwardLines + test.new
		}
		if _, err := def.Parse(text, fn.All...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", test.name, err, test.want)
		}
	}
	form.BaseGradient = ""
	for want, build := range map[string]func(b *def.StreamBuilder){
		"it weighs nothing":               func(*def.StreamBuilder) {},
		"it weighs, and has no gradients": func(b *def.StreamBuilder) { b.Weigh(b.Score(), b.Key().LessEqual(b.Query())) },
		"it has no slope or no scale": func(b *def.StreamBuilder) {
			b.WeighBackward(b.Score(), b.Key().LessEqual(b.Query()), def.One, def.Value{})
		},
	} {
		if _, err := def.StreamBackwardOf("refused", form, build); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	form.BaseGradient = "dbase"
	if _, err := def.StreamBackwardOf("refused", form, func(b *def.StreamBuilder) {
		b.WeighBackward(b.Score(), b.Key().LessEqual(b.Query()), def.One, def.One)
	}); err == nil || !strings.Contains(err.Error(), "dbase is the gradient of a base, and there is none") {
		t.Errorf("a gradient of no base: %v", err)
	}
}

// TestStreamDerivative differentiates streams, and compares the last lines.
func TestStreamDerivative(t *testing.T) {
	causal := func(b *def.StreamBuilder) def.Value { return b.Key().LessEqual(b.Query()) }
	for _, test := range []struct {
		name  string
		build func(b *def.StreamBuilder)
		of    []string
		want  string // lines of the result, or an error
	}{
		{"a factor", func(b *def.StreamBuilder) { b.Weigh(b.Score().Mul(b.Param("kappa")), causal(b)) }, nil,
			"t1 = mul(score, kappa)\nt2 = lesseq(key, query)\nt3 = mul({log(2)}, kappa)\ndq, dk, dv <- weigh_backward(v, t1, t2, 1, t3, do, o, lse)"},
		{"a soft cap", func(b *def.StreamBuilder) {
			b.Weigh(fn.Tanh(b.Score().Mul(b.Param("a"))).Mul(b.Param("b")), causal(b), b.In("sink", []string{"G", "J"}))
		}, []string{"o"},
			"t5 = sub(1, t2)\nt6 = add(1, t2)\nt7 = mul(t5, t6)\nt8 = mul(b, a)\nt9 = mul({log(2)}, t8)\ndq, dk, dv, dbase <- weigh_backward(v, t3, t4, t7, t9, do, o, lse, sink)"},
		{"by a slope", func(b *def.StreamBuilder) {
			b.Weigh(b.Score().Add(b.In("slope", []string{"G", "J"})), causal(b))
		}, []string{"slope"}, "the gradient of slope is a sum over all keys or queries that read it, which no form of definition has"},
		{"by a sink", func(b *def.StreamBuilder) {
			b.Weigh(b.Score(), causal(b), b.In("sink", []string{"G", "J"}))
		}, []string{"q", "sink"}, "that of the base has a value for each query and head"},
		{"by a parameter", func(b *def.StreamBuilder) { b.Weigh(b.Score().Mul(b.Param("kappa")), causal(b)) }, []string{"kappa"},
			"the gradient of kappa is a sum over all keys or queries"},
		{"by one of three", func(b *def.StreamBuilder) { b.Weigh(b.Score(), causal(b)) }, []string{"k"},
			"one definition has the gradients of q, k, v: name all of them, or none"},
		{"of the logarithm", func(b *def.StreamBuilder) { b.Weigh(b.Score(), causal(b)) }, []string{"lse"},
			"lse has no gradient: the gradients of a stream are those of o"},
		{"of no score", func(b *def.StreamBuilder) {
			b.Weigh(b.Score().Rint(), causal(b))
		}, nil, "the exponent does not depend on the score in a differentiable way"},
	} {
		d := def.Must(def.StreamOf("near", streamForm(), test.build))
		g, err := def.Derivative(d, test.of, fn.All...)
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		default:
			got = strings.ReplaceAll(g.Text(), "\n  ", "\n")
			again, err := def.Parse(g.Source(), fn.All...)
			if err != nil || again.Hash() != g.Hash() {
				t.Errorf("%s: the text is read as another definition: %v", test.name, err)
			}
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, got, test.want)
		}
		if err == nil {
			if _, err := def.Derivative(g, nil, fn.All...); err == nil || !strings.Contains(err.Error(), "whose own gradients no form of definition has") {
				t.Errorf("%s: a second derivative: %v", test.name, err)
			}
		}
	}
}

// TestStreamMultiplyAdds: queries meet the keys of their own sequence, in two products and with
// gradients in five.
func TestStreamMultiplyAdds(t *testing.T) {
	gradients, err := def.Parse(streamBackwardLines, fn.All...)
	if err != nil {
		t.Fatal(err)
	}
	stream := def.Must(def.StreamOf("causal", streamForm(), func(b *def.StreamBuilder) { b.Weigh(b.Score(), b.Key().LessEqual(b.Query())) }))
	sizes := map[string]int{"T": 12, "S": 20, "G": 2, "J": 3, "D": 8, "B": 4}
	for d, products := range map[*def.Definition]float64{stream: 2, gradients: 5} {
		if got, want := d.MultiplyAdds(sizes), products*4*(3*5)*6*8; got != want {
			t.Errorf("%s: %v products, want %v", d.Name, got, want)
		}
	}
}

// TestStreamBackwardAxes: every result has the axes along which matrices stand side by side.
func TestStreamBackwardAxes(t *testing.T) {
	d, err := def.Parse(streamBackwardLines, fn.All...)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range d.Axes() {
		for _, o := range d.Operands {
			if a.Role == def.Batch && o.IsOut && !slices.Contains(o.Dims, a.Letter) {
				t.Errorf("%s lacks the axis %s", o.Name, a.Letter)
			}
		}
	}
}
