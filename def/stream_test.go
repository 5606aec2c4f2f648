package def_test

import (
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/num"
)

var streamFunctions = def.StreamFunctions{Short: fn.Exp2Short3Function, Exp2: fn.Exp2Function, Log2: fn.Log2Function}

func streamForm() def.StreamForm {
	return def.StreamForm{
		Query: "q", Key: "k", Value: "v", QueryStarts: "qstart", KeyStarts: "kstart", Out: "o", LogSum: "lse", Functions: streamFunctions,
	}
}

// TestStreamRefuses gives streams that are wrong.
func TestStreamRefuses(t *testing.T) {
	causal := func(b *def.StreamBuilder) def.Value { return b.Key().LessEqual(b.Query()) }
	for _, test := range []struct {
		name  string
		build func(b *def.StreamBuilder)
		want  string
	}{
		{"nothing", func(*def.StreamBuilder) {}, "it weighs nothing"},
		{"twice", func(b *def.StreamBuilder) { b.Weigh(b.Score(), causal(b)); b.Weigh(b.Score(), causal(b)) }, "it weighs twice"},
		{"two bases", func(b *def.StreamBuilder) { b.Weigh(b.Score(), causal(b), b.Score(), b.Score()) }, "it has 2 bases, want at most one"},
		{"an exponent of a row", func(b *def.StreamBuilder) { b.Weigh(b.In("x", []string{"T"}), causal(b)) }, "the exponent x is a float, one value per row, want a float that depends on the score"},
		{"an int32", func(b *def.StreamBuilder) { b.Weigh(b.Key(), causal(b)) }, "the exponent key is an int32, one value per column"},
		{"a condition of nothing", func(b *def.StreamBuilder) { p := b.Param("p"); b.Weigh(b.Score(), p.Less(p)) }, "want a bool that depends on the query or the key"},
		{"a base of an element", func(b *def.StreamBuilder) { b.Weigh(b.Score(), causal(b), b.Score()) }, "the base score is a float, one value per element, want a float per query and head"},
		{"a sum", func(b *def.StreamBuilder) { b.Weigh(b.Score().Sub(def.RowMax(b.Score())), causal(b)) }, "a stream's expression computes each element from its own query and key"},
		{"other sizes", func(b *def.StreamBuilder) { b.Weigh(b.Score().Add(b.In("x", []string{"B"})), causal(b)) }, "operand x has the sizes [B], want [G,J], [T], [T,G,J], [S] or [S,G]"},
		{"a name twice", func(b *def.StreamBuilder) { b.Weigh(b.Score().Add(b.In("q", []string{"T"})), causal(b)) }, "operand q is declared twice"},
		{"a name of the body", func(b *def.StreamBuilder) { b.Weigh(b.Score().Add(b.In("head", []string{"T"})), causal(b)) }, "operand head is declared twice"},
	} {
		d, err := def.StreamOf("refused", streamForm(), test.build)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, %v; want an error with %q", test.name, d, err, test.want)
		}
	}
	form := streamForm()
	form.Functions.Short = fn.Exp2Short4Function
	if _, err := def.StreamOf("refused", form, func(b *def.StreamBuilder) { b.Weigh(b.Score(), causal(b)) }); err == nil || !strings.Contains(err.Error(), "a stream weighs by the functions exp2_short3, exp2, log2") {
		t.Errorf("other functions: %v", err)
	}
}

// TestStreamText reads what people write, and what is printed.
func TestStreamText(t *testing.T) {
	const lines = `tokitai-def 1
stream attention.near
  in    q[T,G,J,D] f16 bf16 f32
  in    k[S,G,D] as q
  in    v[S,G,D] as q
  in    doc[T] i32
  in    of[S] i32
  in    sink[G,J] as q
  in    qstart[B+1] i32 ascending from 0 to T
  in    kstart[B+1] i32 ascending from 0 to S
  out   o[T,G,J,D] as q
  out   lse[T,G,J] f32
  param kappa float
  o, lse <- weigh(v, score * kappa, select(key <= query, doc == of, key < 0i), sink * 1.5)
`
	d, err := def.Parse(lines, fn.All...)
	if err != nil {
		t.Fatal(err)
	}
	again, err := def.Parse(d.Source(), fn.All...)
	if err != nil || again.Hash() != d.Hash() {
		t.Fatalf("the text is read as another definition: %v\n%s", err, d.Text())
	}
	built := def.Must(def.StreamOf("attention.near", streamForm(), func(b *def.StreamBuilder) {
		doc, of := b.In("doc", []string{"T"}, def.Only(num.I32)), b.In("of", []string{"S"}, def.Only(num.I32))
		sink := b.In("sink", []string{"G", "J"}, def.Like("q"))
		seen := def.Select(b.Key().LessEqual(b.Query()), doc.Equal(of), b.Key().Less(def.IntConst(0)))
		b.Weigh(b.Score().Mul(b.Param("kappa")), seen, sink.Mul(def.Const(1.5)))
	}))
	if built.Text() != d.Text() {
		t.Errorf("Go builds\n%s\nand the text is\n%s", built.Text(), d.Text())
	}
	for _, test := range []struct{ name, old, new, want string }{
		{"no result", "  o, lse <- weigh(v, score * kappa, select(key <= query, doc == of, key < 0i), sink * 1.5)\n", "", "the text has no line OUT, LOGSUM <- weigh(VALUE, EXPONENT, CONDITION)"},
		{"one value", ", select(key <= query, doc == of, key < 0i), sink * 1.5", "", "weigh has 1 values besides \"v\", want OUT, LOGSUM <- weigh(VALUE, EXPONENT, CONDITION), or one more, a base"},
		{"no key", "  in    k[S,G,D] as q\n", "", "v is the key; want the value"},
		{"no starts", "  in    kstart[B+1] i32 ascending from 0 to S\n", "", "a stream reads an operand [B+1], twice"},
		{"another order", "  in    k[S,G,D] as q\n  in    v[S,G,D] as q\n", "  in    v[S,G,D] as q\n  in    k[S,G,D] as q\n", "v is the key; want the value"},
		{"an operand too many", "  in    doc[T] i32\n", "  in    doc[T] i32\n  in    w[S,D] f32\n", `unexpected "in w[S,D] f32", want "in of[S] i32"`},
		{"an unknown value", "score * kappa", "score * cap", "cap is not the name of a value above"},
		{"a name of the body", "param kappa", "param score", "the name score is taken"},
		{"another output", "o, lse <-", "p, lse <-", "p is not an operand that was declared"},
		{"another rule", "", "rule weigh(v, t): by heart\n", "weigh has this rule alone"},
	} {
		text := strings.Replace(lines, test.old, test.new, 1)
		if test.old == "" {
			text = lines + test.new
		}
		if _, err := def.Parse(text, fn.All...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", test.name, err, test.want)
		}
	}
}

// TestPagedText reads a stream whose keys lie in pages, and refuses what such a stream cannot have.
func TestPagedText(t *testing.T) {
	const lines = `tokitai-def 1
stream attention.paged
  in    q[T,G,J,D] f16 bf16 f32
  in    k[P,N,G,D] as q
  in    v[P,N,G,D] as q
  in    sink[G,J] as q
  in    qstart[B+1] i32 ascending from 0 to T
  in    klen[B] i32 in [0,M*N]
  in    pages[B,M] i32 in [0,P) within klen
  out   o[T,G,J,D] as q
  out   lse[T,G,J] f32
  o, lse <- weigh(v, score, key <= query, sink)
`
	d, err := def.Parse(lines, fn.All...)
	if err != nil {
		t.Fatal(err)
	}
	again, err := def.Parse(d.Source(), fn.All...)
	if err != nil || again.Hash() != d.Hash() {
		t.Fatalf("the text is read as another definition: %v\n%s", err, d.Text())
	}
	// 3 queries with 2 heads of 8, two products with 5 pages of 16 keys each.
	if got, want := d.MultiplyAdds(map[string]int{"T": 3, "G": 1, "J": 2, "D": 8, "N": 16, "M": 5, "P": 9, "B": 3}), 2.0*3*2*8*16*5; got != want {
		t.Errorf("%v products, want %v", got, want)
	}
	form := streamForm()
	form.KeyStarts, form.Lengths, form.Pages = "", "klen", "pages"
	body := func(b *def.StreamBuilder) {
		b.Weigh(b.Score(), b.Key().LessEqual(b.Query()), b.In("sink", []string{"G", "J"}, def.Like("q")))
	}
	if built := def.Must(def.StreamOf("attention.paged", form, body)); built.Text() != d.Text() {
		t.Errorf("Go builds\n%s\nand the text is\n%s", built.Text(), d.Text())
	}
	if rule := "rule pages(k, v, length, page): the keys of a sequence\n"; !strings.Contains(d.Text(), rule) {
		t.Errorf("the text has no rule of pages:\n%s", d.Text())
	}
	for _, test := range []struct{ name, old, new, want string }{
		{"a value per key", "sink[G,J]", "sink[S,G]", "operand sink has a value for each key, which a stream whose keys lie in pages cannot read"},
		{"keys in rows", "k[P,N,G,D]", "k[S,G,D]", "v is the key; want the value"},
		{"no lengths", "  in    klen[B] i32 in [0,M*N]\n", "", "a stream reads an operand [B]"},
		{"other lengths", "[0,M*N]", "[0,M)", `unexpected "in klen[B] i32 in [0,M)", want "in klen[B] i32 in [0,M*N]"`},
		{"all of the table", " within klen", "", `want "in pages[B,M] i32 in [0,P) within klen"`},
		{"another rule", "", "rule pages(k): by heart\n", "pages has this rule alone"},
	} {
		text := strings.Replace(lines, test.old, test.new, 1)
		if test.old == "" {
			text = lines + test.new
		}
		if _, err := def.Parse(text, fn.All...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", test.name, err, test.want)
		}
	}
	form.KeyStarts = "kstart"
	if _, err := def.StreamOf("refused", form, body); err == nil || !strings.Contains(err.Error(), "it has starts of keys, or lengths and pages") {
		t.Errorf("starts and pages: %v", err)
	}
	contract := d.Contract()
	if got, want := contract.Operands[6].Note, "int32 in 0..P-1, as far as klen keys reach; anything behind"; got != want {
		t.Errorf("the contract says %q of pages, want %q", got, want)
	}
}
