package def_test

import (
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/num"
)

// rotation reads two tables by one index, one of them by a second index too, and a list by an
// index of another size.
func rotation(b *def.Builder) {
	pos, other, slot := b.InIndexOf("pos", "P"), b.InIndexOf("other", "P"), b.InIndexOf("slot", "S")
	cos, sin := b.InTable("cos", "P", def.Only(num.F32)), b.InTable("sin", "P", def.Only(num.F32))
	w := b.InList("w", "S")
	x := b.In("x")
	c := cos.At(pos).As("c")
	b.Out("y", x.Mul(c).Add(sin.At(pos).Mul(cos.At(other))).Mul(w.At(slot)), def.Like("x"))
}

const rotationText = `tokitai-def 1
rowwise rotation
  in    pos[R] i32 in [0,P)
  in    other[R] i32 in [0,P)
  in    slot[R] i32 in [0,S)
  in    cos[P,C] f32
  in    sin[P,C] f32
  in    w[S] f16 bf16 f32
  in    x[R,C] f16 bf16 f32
  out   y[R,C] as x, may be x
  c = cos[pos]
  t1 = mul(x, c)
  t2 = sin[pos]
  t3 = cos[other]
  t4 = mul(t2, t3)
  t5 = add(t1, t4)
  t6 = w[slot]
  t7 = mul(t5, t6)
  y <- t7
`

func TestLookup(t *testing.T) {
	d := def.Must(def.Rowwise("rotation", rotation))
	if d.Text() != rotationText {
		t.Errorf("text:\n%s\nwant:\n%s", d.Text(), rotationText)
	}
	parsed, err := def.Parse(rotationText)
	if err != nil || parsed.Text() != rotationText {
		t.Errorf("the text reads back as\n%v, error %v", parsed, err)
	}
	wantAxes := []def.Axis{{Letter: "R", Role: def.Row}, {Letter: "C", Role: def.Column}, {Letter: "P", Role: def.Indexed}, {Letter: "S", Role: def.Indexed}}
	if got := d.Axes(); !slices.Equal(got, wantAxes) {
		t.Errorf("axes %v, want %v", got, wantAxes)
	}
	for name, by := range map[string]string{"cos": "pos", "sin": "pos", "w": "slot", "x": "", "pos": ""} {
		got := ""
		if i := d.ChosenBy(d.Operand(name)); i >= 0 {
			got = d.Operands[i].Name
		}
		if got != by {
			t.Errorf("the rows of %s are chosen by %q, want %q", name, got, by)
		}
	}
	if a := d.Access(); a != def.AlongRows || d.IsFlat() || d.Divisible() != "R" {
		t.Errorf("access %v, flat %t, divisible %q", a, d.IsFlat(), d.Divisible())
	}
	if note := d.Contract().Operands[d.Operand("cos")].Note; note != "read in the rows that pos and other name; no output may overlap it" {
		t.Errorf("note %q", note)
	}
	if use, why := d.BatchUse(d.Operand("y")); use != def.OwnRow {
		t.Errorf("a row of y depends on %v: %s", use, why)
	}
}

// TestLookupMistakes has each mistake that a lookup can have.
func TestLookupMistakes(t *testing.T) {
	for name, test := range map[string]struct {
		build func(b *def.Builder)
		want  string
	}{
		"a table as a value": {func(b *def.Builder) {
			b.Out("y", b.In("x").Mul(b.InTable("t", "P")))
		}, "mul(x, t): t is a table, want the row of it that an index names"},
		"a table as a result": {func(b *def.Builder) {
			b.Out("y", b.InTable("t", "P"))
		}, "output y: t is a table, want one value per element"},
		"an index of columns": {func(b *def.Builder) {
			b.Out("y", b.In("x").Mul(b.InTable("t", "P").At(b.InIndex("i"))))
		}, "t[i]: want an index in [0,P), the rows of t"},
		"an index of another size": {func(b *def.Builder) {
			b.InList("l", "Q")
			b.Out("y", b.In("x").Mul(b.InTable("t", "P").At(b.InIndexOf("i", "Q"))))
		}, "t[i]: want an index in [0,P), the rows of t"},
		"a computed index": {func(b *def.Builder) {
			x := b.In("x")
			b.Out("y", x.Mul(b.InTable("t", "P").At(def.RowArgMax(x))))
		}, "t[rowargmax(x)]: want an input that is an index of the table's rows"},
		"a float as index": {func(b *def.Builder) {
			b.Out("y", b.In("x").Mul(b.InTable("t", "P").At(b.InRow("r"))))
		}, "t[r]: r is a float, want an int32"},
		"no table": {func(b *def.Builder) {
			b.InIndexOf("i", "P")
			b.Out("y", b.In("x"))
		}, "index i: no table has P rows"},
		"the rows of the definition": {func(b *def.Builder) {
			b.InTable("t", "R")
			b.Out("y", b.In("x"))
		}, "operand t: the name R stands for the number of rows, want another letter for the rows of a table"},
		"no letter": {func(b *def.Builder) {
			b.InTable("t", "P+1")
			b.Out("y", b.In("x"))
		}, `operand t: size "P+1", want a letter such as P`},
		"another definition's index": {func(b *def.Builder) {
			var i def.Value
			def.Rowwise("other", func(o *def.Builder) { o.InList("l", "P"); i = o.InIndexOf("i", "P"); o.Out("y", o.In("x")) })
			b.Out("y", b.In("x").Mul(b.InTable("t", "P").At(i)))
		}, "t[i]: want an input that is an index of the table's rows"},
	} {
		_, err := def.Rowwise("test", test.build)
		if err == nil || !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
	const start = "tokitai-def 1\nrowwise t\nin i[R] i32 in [0,P)\nin cos[P,C]\nin x[R,C]\nout y[R,C]\n"
	for text, want := range map[string]string{
		start + "y <- x + cos":       "line 7, column 8: add(x, cos): cos is a table, want the row of it that an index names",
		start + "y <- x[i]":          "line 7, column 6: x is no table: it is one value per element",
		start + "y <- tan[i]":        "line 7, column 6: tan is not the name of a value above",
		start + "y <- cos[i":         "line 7, column 11: unexpected the end of the line, want \"]\"",
		start + "y <- cos[x]":        "line 7, column 6: cos[x]: x is a float, want an int32",
		start + "out z[P,C]\ny <- x": "line 7, column 6: operand z has the sizes [P C], want [R,C], [R], [C], [R,K] or [], or a letter for the rows of a table that is read",
		start + "in z[P,D]\ny <- x":  "line 7, column 5: operand z has the sizes [P D], want [R,C], [R], [C], [R,K] or [], or a letter for the rows of a table that is read",
	} {
		_, err := def.Parse(text, fn.All...)
		if err == nil || err.Error() != want {
			t.Errorf("%q:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// TestLookupDerivative has the gradients of what is not a table, with the tables they need, and
// refuses that of a table.
func TestLookupDerivative(t *testing.T) {
	d := def.Must(def.Rowwise("rotation", rotation))
	g, err := def.Derivative(d, nil, fn.All...)
	if err != nil {
		t.Fatal(err)
	}
	const want = `tokitai-def 1
rowwise rotation.derivative
  in    pos[R] i32 in [0,P)
  in    slot[R] i32 in [0,S)
  in    cos[P,C] f32
  in    w[S] f16 bf16 f32
  in    dy[R,C] f16 bf16 f32
  out   dx[R,C] as dy, may be dy
  t1 = w[slot]
  t2 = mul(dy, t1)
  c = cos[pos]
  t3 = mul(t2, c)
  dx <- t3
`
	if g.Text() != want {
		t.Errorf("got\n%s\nwant\n%s", g.Text(), want)
	}
	_, err = def.Derivative(d, []string{"cos"}, fn.All...)
	if err == nil || !strings.HasPrefix(err.Error(), "derivative of rotation: the gradient of table cos is a sum of rows by index") {
		t.Errorf("the gradient of a table: got %v", err)
	}

	// Here the gradient depends on the index, and on no table.
	d = def.Must(def.Rowwise("compared", func(b *def.Builder) {
		i := b.InIndexOf("i", "P")
		x := b.In("x")
		b.Out("y", def.Select(i.Less(def.IntConst(3)), x, x.Mul(def.Two)).Add(b.InTable("t", "P").At(i)))
	}))
	if g, err = def.Derivative(d, nil, fn.All...); err != nil || g.Operand("t") < 0 {
		t.Errorf("the gradient of a comparison of an index: got %v, %v, want a table that limits it", g, err)
	}
}

// TestLookupApplied applies a definition with tables in another, whose operands have other names.
func TestLookupApplied(t *testing.T) {
	inner := def.Must(def.Rowwise("inner", func(b *def.Builder) {
		b.Out("y", b.In("x").Mul(b.InTable("t", "P").At(b.InIndexOf("i", "P"))))
	}))
	d, err := def.Rowwise("outer", func(b *def.Builder) {
		b.InCol("first")
		of := map[string]def.Value{"i": b.InIndexOf("position", "N"), "x": b.In("z"), "t": b.InTable("table", "N")}
		b.Out("y", b.Apply(inner, of)["y"])
	})
	if err != nil || !strings.Contains(d.Text(), "t1 = table[position]\n  t2 = mul(z, t1)") {
		t.Errorf("got %v, %v", d, err)
	}
	_, err = def.Rowwise("outer", func(b *def.Builder) {
		b.InList("list", "M")
		of := map[string]def.Value{"i": b.InIndexOf("position", "M"), "x": b.In("z"), "t": b.InTable("table", "N")}
		b.Out("y", b.Apply(inner, of)["y"])
	})
	if err == nil || !strings.Contains(err.Error(), "table[position]: want an index in [0,N)") {
		t.Errorf("an index of another table: got %v", err)
	}
}
