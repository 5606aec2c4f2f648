package def_test

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/num"
)

func TestContract(t *testing.T) {
	d := def.Must(def.Rowwise("example", func(b *def.Builder) {
		x := b.In("x")
		b.In("w", def.Only(num.F32))
		label := b.InIndex("label", b.IntParam("ignore"))
		b.Param("scale")
		gamma := b.InCol("gamma", def.Like("x").Or(num.F32))
		b.Out("y", x.Mul(gamma), def.Like("x"))
		b.OutRow("z", x.At(label), def.Only(num.F32))
		b.OutScalar("s", def.TotalSum(x), def.Only(num.F32))
		b.Out("w", x)
		b.OutRow("best", def.RowArgMax(x))
		b.Out("column", b.Col())
		b.Formula("y[r,c] = x[r,c] * gamma[c]", "s = sum x")
		b.Clauses("R, C >= 1", "NaN gives NaN")
	}))
	const want = `y[r,c] = x[r,c] * gamma[c]
s = sum x

operand  shape  dtypes        note
x        R,C    f16 bf16 f32
w        R,C    f32           read, then written in place
label    R      i32           int32 in 0..C-1 or ignore
gamma    C      as x, or f32
y        R,C    as x          fully written; may be x itself
z        R      f32           fully written
s        one    f32           fully written
best     R      i32           fully written
column   R,C    i32           fully written

C1  R, C >= 1
C2  NaN gives NaN
`
	c := d.Contract()
	if got := c.Table(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if c.Operation != "example" || !slices.Equal(c.Params, []string{"ignore", "scale"}) || c.Clauses[1] != (def.Clause{ID: "C2", Text: "NaN gives NaN"}) {
		t.Errorf("got %+v", c)
	}

	flat := def.Must(def.Rowwise("flat", func(b *def.Builder) { b.Out("y", b.In("x").Neg(), def.Only(num.F16)) }))
	const wantFlat = `
operand  shape  dtypes        note
x        any    f16 bf16 f32
y        any    f16           fully written; may be x itself

`
	if got := flat.Contract().Table(); got+"\n" != wantFlat {
		t.Errorf("got:\n%s\nwant:\n%s", got, wantFlat)
	}
}

func TestInPlacePartners(t *testing.T) {
	rowwise := func(build func(b *def.Builder)) *def.Definition { return def.Must(def.Rowwise("test", build)) }
	for _, test := range []struct {
		name string
		d    *def.Definition
		out  string
		want []string
	}{
		{"one input", rowwise(func(b *def.Builder) { b.Out("y", b.In("x")) }), "y", []string{"x"}},
		{"two inputs", rowwise(func(b *def.Builder) { b.Out("y", b.In("x").Add(b.In("z"))) }), "y", []string{"x", "z"}},
		{"no common format", rowwise(func(b *def.Builder) { b.Out("y", b.In("x", def.Only(num.F32)), def.Only(num.F16)) }), "y", nil},
		{"a common format", rowwise(func(b *def.Builder) { b.Out("y", b.In("x", def.Only(num.F32)), def.Only(num.F16).Or(num.F32)) }), "y", []string{"x"}},
		{"a common format by way of another", rowwise(func(b *def.Builder) {
			b.Out("y", b.In("x", def.Like("z")).Add(b.In("z", def.Only(num.F32))).Add(b.In("w", def.Only(num.BF16))), def.Like("x"))
		}), "y", []string{"x", "z"}},
		{"values per row and column", rowwise(func(b *def.Builder) { b.Out("y", b.InRow("r").Mul(b.InCol("c"))) }), "y", nil},
		{"an output per row", rowwise(func(b *def.Builder) { b.OutRow("y", def.RowSum(b.In("x"))) }), "y", nil},
		{"an input that is updated", rowwise(func(b *def.Builder) { x := b.In("x"); b.Out("y", x.Add(b.In("z"))); b.Out("x", x) }), "y", []string{"z"}},
		{"an output that is an input too", rowwise(func(b *def.Builder) { x := b.In("x"); b.Out("x", x.Add(b.In("z"))) }), "x", nil},
		{"an input", rowwise(func(b *def.Builder) { b.Out("y", b.In("x")) }), "x", nil},
		{"a gather", def.Must(def.Gather("g", def.GatherForm{Index: "i", Table: "t", Out: "o"})), "o", nil},
		{"a contraction", def.Must(def.Contraction("c", def.ContractionForm{
			Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"K", "N"}, Result: "c", ResultDims: []string{"M", "N"},
		})), "c", nil},
	} {
		if got := test.d.InPlacePartners(&test.d.Operands[test.d.Operand(test.out)]); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

func TestRules(t *testing.T) {
	for _, test := range []struct {
		rule def.Rule
		want string
	}{
		{def.AnyFloat, "f16 bf16 f32"},
		{def.Only(num.I32), "i32"},
		{def.Like("x"), "as x"},
		{def.Like("x").Or(num.F32), "as x, or f32"},
		{def.Only(num.F16).Or(num.F32, num.BF16), "f16 f32 bf16"},
	} {
		if got := test.rule.String(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	base := def.Only(num.F16)
	first, second := base.Or(num.F32), base.Or(num.BF16)
	if first.String() != "f16 f32" || second.String() != "f16 bf16" || base.String() != "f16" {
		t.Errorf("rules made from one share memory: %s, %s, %s", base, first, second)
	}
}

func TestIsFlat(t *testing.T) {
	for _, test := range []struct {
		name  string
		build func(b *def.Builder)
		want  bool
	}{
		{"an element", func(b *def.Builder) { b.Out("y", b.In("x").Neg()) }, true},
		{"a total sum", func(b *def.Builder) { b.OutScalar("y", def.TotalSum(b.In("x"))) }, true},
		{"random words", func(b *def.Builder) {
			i := b.IntParam("i")
			b.Out("y", b.In("x").StochasticRound(def.FixedStorage(num.F16), b.Random(i, i, i, i)))
		}, true},
		{"a row sum", func(b *def.Builder) { x := b.In("x"); b.Out("y", x.Div(def.RowSum(x))) }, false},
		{"a column sum", func(b *def.Builder) { b.OutCol("y", def.ColSum(b.In("x"))) }, false},
		{"the first element", func(b *def.Builder) { b.OutRow("y", b.In("x").At(def.IntConst(0))) }, false},
		{"the number of columns", func(b *def.Builder) { b.Out("y", b.In("x").Div(b.Columns())) }, false},
		{"the number of rows", func(b *def.Builder) { b.Out("y", b.In("x").Div(b.Rows())) }, false},
		{"the column", func(b *def.Builder) {
			x := b.In("x")
			b.Out("y", def.Select(b.Col().Less(def.IntConst(2)), x, def.One))
		}, false},
		{"a place inside", func(b *def.Builder) { x := b.In("x"); b.Out("y", def.Select(b.IntParam("i").Inside(), x, def.One)) }, false},
		{"a value per row that is not used", func(b *def.Builder) { b.InRow("r"); b.Out("y", b.In("x")) }, false},
	} {
		if got := def.Must(def.Rowwise("test", test.build)).IsFlat(); got != test.want {
			t.Errorf("%s: got %t, want %t", test.name, got, test.want)
		}
	}
	if def.Must(def.Gather("g", def.GatherForm{Index: "i", Table: "t", Out: "o"})).IsFlat() {
		t.Error("a gather is not flat")
	}
}

func TestReals(t *testing.T) {
	parse := func(text string) *def.Real {
		r, err := def.ParseReal(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	third := parse("1/3")
	for _, test := range []struct {
		name    string
		r       *def.Real
		f32     uint32
		isExact bool
	}{
		{"a half", parse("0.5"), 0x3f000000, true},
		{"a tenth", parse("0.1"), 0x3dcccccd, false},
		{"a third", third, 0x3eaaaaab, false},
		{"above a tie", parse("1.00000005960464477539062500000000000000000001"), 0x3f800001, false},
		{"a tie", parse("1.000000059604644775390625"), 0x3f800000, false},
		{"an expression", parse("2*sqrt(2/pi)"), 0x3fcc422a, false},
		{"an expression that is exact", parse("(1+sqrt(4))/8 - 1/8"), 0x3e800000, true},
		{"a logarithm", parse("-log(2)*exp(0.5)"), 0xbf92477c, false},
		{"minus zero, as text", parse("-0"), 0x80000000, true},
		{"a hexadecimal number", parse("0x1.8p-3"), 0x3e400000, true},
		{"the binary64 nearest to a tenth", def.RealOf(0.1), 0x3dcccccd, false},
		{"minus zero", def.RealOf(math.Copysign(0, -1)), 0x80000000, true},
		{"NaN", def.RealOf(math.NaN()), 0x7fc00000, true},
		{"infinity", def.RealOf(math.Inf(-1)), 0xff800000, true},
	} {
		if got := num.Canonical(num.F32, math.Float32bits(test.r.F32())); got != test.f32 {
			t.Errorf("%s: executed as 0x%08x, want 0x%08x", test.name, got, test.f32)
		}
		if test.r.IsExact() != test.isExact {
			t.Errorf("%s: exact is %t, want %t", test.name, test.r.IsExact(), test.isExact)
		}
	}
	if got := third.Big(200); got.Prec() != 200 || new(big.Float).Mul(got, big.NewFloat(3)).Cmp(big.NewFloat(1)) != 0 {
		t.Errorf("three times %v is not 1", got)
	}
	if def.RealOf(math.Inf(1)).Big(100) != nil || def.RealOf(math.NaN()).Big(100) != nil {
		t.Error("infinity or NaN is a real number")
	}
}
