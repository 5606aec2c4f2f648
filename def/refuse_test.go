package def_test

import (
	"fmt"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/num"
)

// half is a function with a short expansion.
var half = &def.Function{
	Name: "half", Math: def.MathExp, ULPs: 0.5, Domain: def.EveryX,
	Expand: func(x def.Value) def.Value { return x.Mul(def.Half) },
}

// TestRefusals builds what makes no sense, and wants to hear why.
func TestRefusals(t *testing.T) {
	foreign := func() (x, p, i def.Value) {
		def.Rowwise("other", func(b *def.Builder) { x, p, i = b.In("x"), b.Param("p"), b.IntParam("i") })
		return
	}
	for _, test := range []struct {
		name  string
		build func(b *def.Builder)
		want  string
	}{
		// What a definition has to have.
		{"no output", func(b *def.Builder) { b.In("x") }, "it has no output"},
		{"nothing per element", func(b *def.Builder) { b.OutRow("y", b.InRow("x")) },
			"no operand has one value per element, so the number of columns is unknown"},
		{"an output without a value", func(b *def.Builder) { b.In("x"); b.Out("y", def.Value{}) }, "output y has no value"},

		// Names.
		{"an operand's name", func(b *def.Builder) { b.Out("y", b.In("2x")) }, `operand "2x": want a name like x or dgamma`},
		{"an empty name", func(b *def.Builder) { b.Out("", b.In("x")) }, `operand "": want a name like x or dgamma`},
		{"an input twice", func(b *def.Builder) { b.In("x"); b.Out("y", b.In("x")) }, "operand x is declared twice"},
		{"an output twice", func(b *def.Builder) { x := b.In("x"); b.Out("y", x); b.Out("y", x) }, "output y is declared twice"},
		{"a parameter's name", func(b *def.Builder) { b.Out("y", b.In("x").Add(b.Param("a b"))) }, `parameter "a b": want a name like eps`},
		{"a parameter twice", func(b *def.Builder) { b.Out("y", b.In("x").Add(b.Param("p")).Add(b.Param("p"))) }, "parameter p: the name is taken"},
		{"a parameter like an input", func(b *def.Builder) { b.Out("y", b.In("x").Add(b.Param("x"))) }, "parameter x: the name is taken"},
		{"a parameter like an output", func(b *def.Builder) { b.Out("y", b.In("x").Add(b.Param("y"))) }, "parameter y: the name is taken by an operand"},
		{"a value's name", func(b *def.Builder) { b.Out("y", b.In("x").Neg().As("a-b")) }, `value "a-b": want a name like xhat`},
		{"a value like an input", func(b *def.Builder) { x := b.In("x"); b.Out("y", x.Neg().As("x")) }, "the name x is used twice"},
		{"a value like a parameter", func(b *def.Builder) { b.Out("y", b.In("x").Mul(b.Param("p")).As("p")) }, "the name p is used twice"},
		{"two values alike", func(b *def.Builder) { x := b.In("x"); b.Out("y", x.Neg().As("v").Add(x.Abs().As("v"))) }, "the name v is used twice"},
		{"a value like another output", func(b *def.Builder) { x := b.In("x"); b.Out("y", x.Neg().As("z")); b.Out("z", x) }, "the name z is used twice"},
		{"an operand named C", func(b *def.Builder) { b.Out("y", b.In("x").Mul(b.InRow("C"))) }, "operand C: the name stands for the number of columns"},
		{"a parameter named R", func(b *def.Builder) { b.Out("y", b.In("x").Mul(b.Param("R"))) }, "parameter R: the name stands for the number of rows"},
		{"a value named NaN", func(b *def.Builder) { b.Out("y", b.In("x").Neg().As("NaN")) }, "the name NaN stands for a constant"},

		{"a value named like one without a name", func(b *def.Builder) { b.Out("y", b.In("x").Neg().As("t7")) },
			"value t7: names of this form are for values without a name"},
		{"a parameter's default outside its range", func(b *def.Builder) { b.Out("y", b.In("x").Add(b.Param("p", def.MoreThan(0), def.Default(0)))) },
			"parameter p: its default 0 is not a finite binary32 above 0"},
		{"an empty range", func(b *def.Builder) { b.Out("y", b.In("x").Add(b.Param("p", def.Between(2, 1)))) },
			"parameter p: nothing is in the range [2,1]"},
		{"a default that is no int32", func(b *def.Builder) {
			b.Out("y", def.Select(b.IntParam("p", def.Default(0.5)).Inside(), b.In("x"), def.One))
		},
			"parameter p: its default 0.5 is not an int32"},
		{"a formula of two lines", func(b *def.Builder) { b.Out("y", b.In("x")); b.Formula("a\nb") },
			`a formula or clause "a\nb", want one line of text`},
		{"a function named like a node", func(b *def.Builder) {
			f := *half
			f.Name = "add"
			b.Out("y", f.Of(b.In("x")))
		}, `function "add": want a name like exp that stands for nothing else`},
		{"a sum inside a function", func(b *def.Builder) {
			f := *half
			f.Expand = func(x def.Value) def.Value { return x.Sub(def.RowSum(x)) }
			b.Out("y", f.Of(b.In("x")))
		}, "function half: its expansion has rowsum, which is no function of its argument"},

		// Extents.
		{"a row value stored per element", func(b *def.Builder) { b.Out("y", def.RowSum(b.In("x"))) },
			"output y: rowsum(x) is one value per row, want one value per element"},
		{"an element stored per row", func(b *def.Builder) { b.OutRow("y", b.In("x")) }, "output y: x is one value per element, want one value per row"},
		{"an element stored per column", func(b *def.Builder) { b.OutCol("y", b.In("x")) }, "output y: x is one value per element, want one value per column"},
		{"a column sum stored as one value", func(b *def.Builder) { b.OutScalar("y", def.ColSum(b.In("x"))) },
			"output y: colsum(x) is one value per column, want one value"},
		{"a row sum of a row value", func(b *def.Builder) { b.In("x"); b.OutRow("y", def.RowSum(b.InRow("r"))) },
			"output y: rowsum(r): r is one value per row, want one per element"},
		{"a row maximum of a column value", func(b *def.Builder) { b.In("x"); b.OutRow("y", def.RowMax(b.InCol("c"))) },
			"output y: rowmax(c): c is one value per column, want one per element"},
		{"a column sum of a row value", func(b *def.Builder) { b.In("x"); b.OutCol("y", def.ColSum(b.InRow("r"))) },
			"output y: colsum(r): r is one value per row, want one per element"},
		{"a total sum of one value", func(b *def.Builder) { b.In("x"); b.OutScalar("y", def.TotalSum(b.Param("p"))) },
			"output y: totalsum(p): p is one value, want one per element"},
		{"an element of a row value", func(b *def.Builder) { b.In("x"); b.OutRow("y", b.InRow("r").At(def.IntConst(0))) },
			"output y: at(r, 0): r is one value per row, want one per element"},
		{"an index per element", func(b *def.Builder) { b.OutRow("y", b.In("x").At(b.Col())) },
			"output y: at(x, col()): index col() is one value per element, want one per row"},
		{"random words per row", func(b *def.Builder) {
			i := b.InIndex("i")
			b.Out("y", b.In("x").StochasticRound(def.FixedStorage(num.F16), b.Random(i, i, i, i)))
		}, "output y: random(i, i, i, i): want int32 parameters"},

		// What is known only after the last row.
		{"a late value in a row expression", func(b *def.Builder) { x := b.In("x"); b.Out("y", x.Sub(def.TotalSum(x))) },
			"output y: sub(x, totalsum(x)): x is one value per element, but the sum it meets is known only after the last row"},
		{"a late value with a row value", func(b *def.Builder) { x := b.In("x"); b.OutCol("y", def.ColSum(x).Add(def.RowSum(x))) },
			"output y: add(colsum(x), rowsum(x)): rowsum(x) is one value per row, but the sum it meets is known only after the last row"},
		{"a late index", func(b *def.Builder) {
			x := b.In("x")
			b.OutRow("y", x.At(def.Select(def.TotalSum(x).Less(def.Zero), def.IntConst(0), def.IntConst(1))))
		}, "output y: at(x, select(…, 0, 1)): x is one value per element, but the sum it meets is known only after the last row"},
		{"late random words", func(b *def.Builder) {
			x := b.In("x")
			i := def.Select(def.TotalSum(x).Less(def.Zero), def.IntConst(0), def.IntConst(1)).As("late")
			b.Out("y", def.Select(b.Random(i, i, i, i).Less(def.IntConst(0)), def.One, def.Two))
		}, "output y: random(late, late, late, late): want int32 parameters"},

		// Types.
		{"a bool stored", func(b *def.Builder) { x := b.In("x"); b.Out("y", x.Less(x)) }, "output y: less(x, x) is a bool, want a float or an int32"},
		{"an index stored as a float", func(b *def.Builder) { b.In("x"); b.OutRow("y", b.InIndex("i"), def.Only(num.F32)) },
			`output y holds int32, which are stored in i32 alone, got rule "f32"`},
		{"an index stored in either", func(b *def.Builder) { b.In("x"); b.OutRow("y", b.InIndex("i"), def.Only(num.I32, num.F32)) },
			`output y holds int32, which are stored in i32 alone, got rule "i32 f32"`},
		{"an index stored like a float", func(b *def.Builder) { b.In("x"); b.OutRow("y", b.InIndex("i"), def.Like("x")) },
			`output y holds int32, which are stored in i32 alone, got rule "as x"`},
		{"a float stored like an index", func(b *def.Builder) {
			x := b.In("x")
			b.OutRow("i", def.RowArgMax(x))
			b.OutRow("y", def.RowMax(x), def.Like("i"))
		}, "operand y is stored like i, which does not store real values"},
		{"a float stored as int32", func(b *def.Builder) { b.OutRow("y", def.RowMax(b.In("x")), def.Only(num.I32)) },
			"operand y: i32 does not store real values"},
		{"floats replaced by int32", func(b *def.Builder) { b.In("x"); b.Out("x", b.Col()) },
			"output x: col() is an int32, but the input of that name holds floats"},
		{"the column of an int32", func(b *def.Builder) { b.In("x"); b.OutRow("y", def.RowArgMax(b.Col())) },
			"output y: rowargmax(col()): col() is an int32, want a float"},
		{"the column of a row value", func(b *def.Builder) { x := b.In("x"); b.OutRow("y", def.RowArgMin(def.RowSum(x))) },
			"output y: rowargmin(rowsum(x)): rowsum(x) is one value per row, want one per element"},
		{"the rank of a row value", func(b *def.Builder) { x := b.In("x"); b.Out("y", def.Rank(def.RowSum(x))) },
			"output y: rank(rowsum(x)): rowsum(x) is one value per row, want one per element"},
		{"a place per column", func(b *def.Builder) { x := b.In("x"); b.OutRow("y", def.RowKth(x, b.Col())) },
			"output y: rowkth(x, col()): col() is one value per element, want one per row"},
		{"masses of rows", func(b *def.Builder) { x := b.In("x"); b.OutRow("y", def.RowNucleus(x, def.RowSum(x), def.One)) },
			"output y: rownucleus(x, rowsum(x), 1): rowsum(x) is one value per row, want one per element"},
		{"packed values in an expression", func(b *def.Builder) { x := b.In("x"); b.OutSlots("y", def.Packed(x.Less(def.Zero), x).Neg()) },
			"output y: neg(packed(…, x)): packed(…, x) is one value per slot, which is only stored or unpacked"},
		{"packed bools", func(b *def.Builder) { x := b.In("x"); n := x.Less(def.Zero); b.OutSlots("y", def.Packed(n, n)) },
			"output y: packed(less(x, 0), less(x, 0)): less(x, 0) is a bool, want a float or an int32"},
		{"packed row values", func(b *def.Builder) { x := b.In("x"); b.OutSlots("y", def.Packed(x.Less(def.Zero), def.RowSum(x))) },
			"output y: packed(less(x, 0), rowsum(x)): rowsum(x) is one value per row, want one per element"},
		{"elements unpacked", func(b *def.Builder) { x := b.In("x"); b.Out("y", def.Unpacked(x.Less(def.Zero), x)) },
			"output y: unpacked(less(x, 0), x): x is no input with one value per slot"},
		{"elements stored to slots", func(b *def.Builder) { b.OutSlots("y", b.In("x")) },
			"output y: x is one value per element, want one value per slot"},
		{"a column added to a float", func(b *def.Builder) { x := b.In("x"); b.Out("y", x.Add(def.RowArgMax(x))) },
			"output y: add(x, rowargmax(x)): rowargmax(x) is an int32, want a float"},
		{"a float and an index added", func(b *def.Builder) { b.Out("y", b.In("x").Add(b.InIndex("i"))) }, "output y: add(x, i): i is an int32, want a float"},
		{"a float and an index compared", func(b *def.Builder) {
			x := b.In("x")
			b.Out("y", def.Select(x.Less(b.InIndex("i")), x, x))
		}, "output y: less(x, i): i is an int32, want a float"},
		{"bools compared", func(b *def.Builder) {
			x := b.In("x")
			b.Out("y", def.Select(x.Less(x).Equal(x.Less(x)), x, x))
		}, "output y: equal(less(x, x), less(x, x)): less(x, x) is a bool, want a float or an int32"},
		{"a choice by a float", func(b *def.Builder) { x := b.In("x"); b.Out("y", def.Select(x, x, x)) },
			"output y: select(x, x, x): x is a float, want a bool"},
		{"a choice between types", func(b *def.Builder) { x := b.In("x"); b.Out("y", def.Select(x.Less(x), x, b.Col())) },
			"output y: select(less(x, x), x, col()): col() is an int32, want a float"},
		{"an element at a float", func(b *def.Builder) { x := b.In("x"); b.OutRow("y", x.At(def.Zero)) },
			"output y: at(x, 0): 0 is a float, want an int32"},
		{"a float inside", func(b *def.Builder) { x := b.In("x"); b.Out("y", def.Select(x.Inside(), x, x)) },
			"output y: inside(x): x is a float, want an int32"},
		{"a random word that is a float", func(b *def.Builder) { x := b.In("x"); b.Out("y", x.StochasticRound(def.FixedStorage(num.F16), x)) },
			"output y: sround(x, x): x is a float, want an int32"},
		{"a function of an index", func(b *def.Builder) { b.In("x"); b.OutRow("y", half.Of(b.InIndex("i"))) },
			"output y: half(i): i is an int32, want a float"},

		// int32 arithmetic.
		{"bits outside a function", func(b *def.Builder) { b.Out("y", b.In("x").Bits().Float()) },
			"bits(x): patterns and integers of floats belong inside a function's expansion"},
		{"the pattern of a computed value", func(b *def.Builder) { b.Out("y", b.In("x").Neg().Stored()) },
			"output y: stored(neg(x)): neg(x) is computed, want an operand"},
		{"the pattern of a parameter", func(b *def.Builder) { b.In("x"); b.OutScalar("y", b.Param("p").Stored()) },
			"output y: stored(p): p is computed, want an operand"},
		{"the pattern of nothing", func(b *def.Builder) { b.In("x"); b.Out("y", def.Value{}.Stored()) }, "output y: stored(nil): an argument is missing"},
		{"the pattern of a foreign input", func(b *def.Builder) { x, _, _ := foreign(); b.In("z"); b.Out("y", x.Stored()) },
			"stored(x) is not an input of this definition"},
		{"a sum of bools", func(b *def.Builder) { x := b.In("x"); b.OutRow("y", def.RowSum(x.Less(x))) },
			"output y: rowsum(less(x, x)): less(x, x) is a bool, want a float or an int32"},
		{"the largest int32", func(b *def.Builder) { b.OutRow("y", def.RowMax(b.In("k", def.Only(num.I32)))) },
			"output y: rowmax(k): k is an int32, want a float"},
		{"floats stored over int32", func(b *def.Builder) { b.Out("k", b.In("k", def.Only(num.I32)).IToF()) },
			"output k: itof(k) is a float, but the input of that name holds int32s"},
		{"int32 stored over floats", func(b *def.Builder) { b.In("x"); b.Out("x", b.Col()) },
			"output x: col() is an int32, but the input of that name holds floats"},
		{"integers of 64 bits", func(b *def.Builder) { b.Out("y", b.In("k", def.Only(num.I64)).IToF()) }, "operand k: i64 does not store real values"},
		{"half of a first element", func(b *def.Builder) {
			n := b.IntParam("n")
			b.In("x")
			b.Out("y", b.Random(n, n, n, n, n))
		}, "output y: random: the first number has 1 words, want its low and its high word"},
		{"an element counted from a row", func(b *def.Builder) {
			b.In("x")
			n := b.InRow("n", def.Only(num.I32))
			b.Out("y", b.Element(n, n))
		}, "output y: element(n, n): want int32 parameters"},
		{"a random word of a column", func(b *def.Builder) {
			b.In("x")
			n, k := b.IntParam("n"), b.InCol("k", def.Only(num.I32))
			b.Out("y", b.RandomRow(n, n, k, n, n))
		}, "output y: randomrow(n, n, k, n, n): k is one value per column, want at most one per row"},
		{"a use of a row", func(b *def.Builder) {
			b.In("x")
			n, k := b.IntParam("n"), b.InRow("k", def.Only(num.I32))
			b.Out("y", b.RandomRow(n, n, n, n, k))
		}, "output y: randomrow(n, n, n, n, k): k is one value per row, want an int32 parameter"},

		// Leaves of other definitions.
		{"a foreign input", func(b *def.Builder) { x, _, _ := foreign(); b.Out("y", b.In("z").Add(x)) }, "x is not an input of this definition"},
		{"a foreign parameter", func(b *def.Builder) { _, p, _ := foreign(); b.Out("y", b.In("z").Add(p)) }, "p is not a parameter of this definition"},
		{"a foreign exception", func(b *def.Builder) { _, _, i := foreign(); b.InIndex("k", i); b.Out("y", b.In("z")) },
			"index k: want one int32 parameter as its exception, got i"},

		// Indices.
		{"a float as exception", func(b *def.Builder) { b.InIndex("i", b.Param("p")); b.Out("y", b.In("x")) },
			"index i: want one int32 parameter as its exception, got p"},
		{"two exceptions", func(b *def.Builder) { b.InIndex("i", b.IntParam("p"), b.IntParam("q")); b.Out("y", b.In("x")) },
			"index i: want one int32 parameter as its exception, got q"},
		{"a constant as exception", func(b *def.Builder) { b.InIndex("i", def.IntConst(-1)); b.Out("y", b.In("x")) },
			"index i: want one int32 parameter as its exception, got -1"},
		{"no exception at all", func(b *def.Builder) { b.InIndex("i", def.Value{}); b.Out("y", b.In("x")) },
			"index i: want one int32 parameter as its exception, got nil"},

		// Updates in place.
		{"an index updated", func(b *def.Builder) { b.InIndex("i"); b.Out("i", b.In("x")) },
			"output i: the input of that name is one value per row, want one value per element"},
		{"a row updated", func(b *def.Builder) { b.In("x"); r := b.InRow("r"); b.OutRow("r", r) },
			"output r: only values per element can be updated in place"},
		{"a rule for what is updated", func(b *def.Builder) { b.Out("x", b.In("x"), def.AnyFloat) },
			"output x: its storage is already stated by the input of that name"},

		// Storage.
		{"two rules", func(b *def.Builder) { b.Out("y", b.In("x", def.AnyFloat, def.AnyFloat)) }, "x: want at most one rule for its storage, got 2"},
		{"a rule without formats", func(b *def.Builder) { b.Out("y", b.In("x", def.Only())) }, "operand x may be stored in no format"},
		{"real values in int32", func(b *def.Builder) { b.Out("y", b.In("x", def.Only(num.F16, num.I32))) }, "operand x: i32 does not store real values"},
		{"results in int32", func(b *def.Builder) { b.Out("y", b.In("x"), def.Like("x").Or(num.I32)) }, "operand y: i32 does not store real values"},
		{"like what is no operand", func(b *def.Builder) { b.Out("y", b.In("x"), def.Like("z")) }, "operand y is stored like z, which is not an operand"},
		{"like an index", func(b *def.Builder) { b.InIndex("i"); b.Out("y", b.In("x"), def.Like("i")) },
			"operand y is stored like i, which does not store real values"},
		{"like itself", func(b *def.Builder) { b.Out("y", b.In("x", def.Like("x"))) }, "operand x is stored like x, which is stored like x in turn"},
		{"like each other", func(b *def.Builder) { b.Out("y", b.In("x", def.Like("z")).Add(b.In("z", def.Like("x")))) },
			"operand x is stored like z, which is stored like x in turn"},
		{"rounding to int32", func(b *def.Builder) { b.Out("y", b.In("x").Round(def.FixedStorage(num.I32))) }, "round(x): i32 does not store real values"},
		{"rounding to no format", func(b *def.Builder) { b.Out("y", b.In("x").Round(def.Storage{})) }, "round(x): none does not store real values"},
		{"rounding to the storage of an index", func(b *def.Builder) { b.InIndex("i"); b.Out("y", b.In("x").Round(def.StorageOf("i"))) },
			"round(x): storage(i) does not store real values"},
		{"rounding to the storage of an int32 output", func(b *def.Builder) {
			x := b.In("x")
			b.OutRow("i", def.RowArgMax(x))
			b.Out("y", x.Round(def.StorageOf("i")))
		}, "round(x): storage(i) does not store real values"},
		{"rounding to the storage of nothing", func(b *def.Builder) { b.Out("y", b.In("x").Round(def.StorageOf("z"))) },
			"round(x): rounds to the storage of z, which is not an operand"},
		{"stochastic rounding to the storage of nothing", func(b *def.Builder) { b.Out("y", b.In("x").StochasticRound(def.StorageOf("p"), b.IntParam("p"))) },
			"sround(x, p): rounds to the storage of p, which is not an operand"},

		// Constants and functions.
		{"a constant that is no number", func(b *def.Builder) { b.Out("y", b.In("x").Mul(def.Number("0.1.2"))) },
			`output y: constant "0.1.2": 0.1.2 is not a number`},
		{"an empty constant", func(b *def.Builder) { b.Out("y", b.In("x").Mul(def.Number(""))) }, `output y: constant "": unexpected the end of the line in a constant, want a number, pi, sqrt, exp, log or a parenthesis`},
		{"a division by zero in a constant", func(b *def.Builder) { b.Out("y", b.In("x").Mul(def.Number("1/0"))) },
			`output y: constant "1/0": 1/0 has no value that can be computed, or one too close to 0`},
		{"a constant beyond binary32", func(b *def.Builder) { b.Out("y", b.In("x").Mul(def.Number("1e39"))) },
			`output y: constant "1e39": 1e39 is beyond the range of binary32`},
		{"a mistake inside an expansion", func(b *def.Builder) {
			f := &def.Function{Name: "wrong", Expand: func(x def.Value) def.Value { return x.Add(x.Bits()) }}
			b.Out("y", f.Of(b.In("x")))
		}, "output y: function wrong: add(x, bits(x)): bits(x) is an int32, want a float"},
		{"an expansion of another type", func(b *def.Builder) {
			f := &def.Function{Name: "pattern", Expand: func(x def.Value) def.Value { return x.Bits() }}
			b.Out("y", f.Of(b.In("x")))
		}, "output y: function pattern: its expansion gives an int32, one value per element; want a float, one value per element"},
		{"an expansion of another extent", func(b *def.Builder) {
			f := &def.Function{Name: "total", Expand: func(x def.Value) def.Value { return def.RowSum(x) }}
			b.Out("y", f.Of(b.In("x")))
		}, "output y: function total: its expansion gives a float, one value per row; want a float, one value per element"},
		{"a function without an expansion", func(b *def.Builder) { b.Out("y", (&def.Function{Name: "f"}).Of(b.In("x"))) },
			"output y: a function without an expansion"},
		{"no function", func(b *def.Builder) { b.Out("y", (*def.Function)(nil).Of(b.In("x"))) }, "output y: a function without an expansion"},
		{"two functions of one name", func(b *def.Builder) {
			other := &def.Function{Name: "half", Expand: func(x def.Value) def.Value { return x }}
			b.Out("y", half.Of(other.Of(b.In("x"))))
		}, "two functions have the name half"},

		// Missing arguments.
		{"nothing added", func(b *def.Builder) { b.Out("y", b.In("x").Add(def.Value{})) }, "output y: add(x, nil): an argument is missing"},
		{"nothing compared", func(b *def.Builder) { x := b.In("x"); b.Out("y", def.Select(x.Less(def.Value{}), x, x)) }, "output y: less(x, nil): an argument is missing"},
		{"nothing chosen", func(b *def.Builder) { x := b.In("x"); b.Out("y", def.Select(x.Less(x), def.Value{}, x)) },
			"output y: select(less(x, x), nil, x): an argument is missing"},
		{"a method of nothing", func(b *def.Builder) { b.In("x"); b.Out("y", def.Value{}.Less(def.Value{}).As("v")) }, "output y: less(nil, nil): an argument is missing"},
		{"a sum of nothing", func(b *def.Builder) { b.In("x"); b.OutRow("y", def.RowSum(def.Value{})) }, "output y: rowsum(nil): an argument is missing"},
		{"an element of nothing", func(b *def.Builder) { b.In("x"); b.OutRow("y", def.Value{}.At(def.Value{})) }, "output y: at(nil, nil): an argument is missing"},
		{"a function that gives nothing", func(b *def.Builder) {
			none := &def.Function{Name: "none", Expand: func(def.Value) def.Value { return def.Value{} }}
			b.Out("y", none.Of(b.In("x")))
		}, "output y: function none: its expansion gives no value"},
		{"a function of nothing", func(b *def.Builder) { b.In("x"); b.Out("y", half.Of(def.Value{})) }, "output y: half(nil): an argument is missing"},
		{"the first mistake of two", func(b *def.Builder) {
			x := b.In("x")
			b.Out("y", x.Add(b.Col()).Mul(x.Less(x)))
		}, "output y: add(x, col()): col() is an int32, want a float"},

		{"too many operands", func(b *def.Builder) {
			x := b.In("x")
			for i := range def.MaxOperands {
				b.Out(fmt.Sprintf("y%d", i), x)
			}
		}, "it has 17 operands, want at most 16"},
	} {
		d, err := def.Rowwise("test", test.build)
		if want := "test: " + test.want; err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", test.name, err, want)
		}
		if d != nil {
			t.Errorf("%s: got a definition with the error", test.name)
		}
	}
}

// TestPatternsBelongInFunctions refuses patterns and integers of floats in a definition
// itself, and accepts them in an expansion. Other int32 operations may be in both.
func TestPatternsBelongInFunctions(t *testing.T) {
	one := def.IntConst(1)
	for name, use := range map[string]func(x def.Value) def.Value{
		"bits":     func(x def.Value) def.Value { return def.Select(x.Bits().Less(one), x, x) },
		"ftoi":     func(x def.Value) def.Value { return def.Select(x.FToI().Less(one), x, x) },
		"itof":     func(x def.Value) def.Value { return x.Add(one.IToF()) },
		"float":    func(x def.Value) def.Value { return x.Add(one.Float()) },
		"iadd":     func(x def.Value) def.Value { return def.Select(one.IAdd(one).Less(one), x, x) },
		"isub":     func(x def.Value) def.Value { return def.Select(one.ISub(one).Less(one), x, x) },
		"iand":     func(x def.Value) def.Value { return def.Select(one.IAnd(one).Less(one), x, x) },
		"ior":      func(x def.Value) def.Value { return def.Select(one.IOr(one).Less(one), x, x) },
		"ixor":     func(x def.Value) def.Value { return def.Select(one.IXor(one).Less(one), x, x) },
		"imul":     func(x def.Value) def.Value { return def.Select(one.IMul(one).Less(one), x, x) },
		"umulhigh": func(x def.Value) def.Value { return def.Select(one.UMulHigh(one).Less(one), x, x) },
		"shru":     func(x def.Value) def.Value { return def.Select(one.ShrU(1).Less(one), x, x) },
		"shl":      func(x def.Value) def.Value { return def.Select(one.Shl(1).Less(one), x, x) },
		"shr":      func(x def.Value) def.Value { return def.Select(one.Shr(1).Less(one), x, x) },
	} {
		_, err := def.Rowwise("test", func(b *def.Builder) { b.Out("y", use(b.In("x"))) })
		switch isOfFunctions := name == "bits" || name == "ftoi" || name == "float"; {
		case !isOfFunctions && err != nil:
			t.Errorf("%s: %v", name, err)
		case isOfFunctions && (err == nil || !strings.HasPrefix(err.Error(), "test: "+name+"(") || !strings.HasSuffix(err.Error(), "belong inside a function's expansion")):
			t.Errorf("%s: got %v", name, err)
		}
		f := &def.Function{Name: "f", Domain: def.EveryX, Expand: use}
		if _, err := def.Rowwise("test", func(b *def.Builder) { b.Out("y", f.Of(b.In("x"))) }); err != nil {
			t.Errorf("%s inside a function: %v", name, err)
		}
	}
}

func TestRefusedNames(t *testing.T) {
	valid := func(b *def.Builder) { b.Out("y", b.In("x")) }
	for _, name := range []string{"", "Softmax", "softmax.", ".forward", "soft max", "softmax..forward", "softmax/forward", "2x", "softmax.2x"} {
		want := fmt.Sprintf("definition %q: want a name like softmax.forward", name)
		if _, err := def.Rowwise(name, valid); err == nil || err.Error() != want {
			t.Errorf("rowwise %q: got %v, want %s", name, err, want)
		}
		if _, err := def.Gather(name, def.GatherForm{Index: "i", Table: "t", Out: "o"}); err == nil || err.Error() != want {
			t.Errorf("gather %q: got %v, want %s", name, err, want)
		}
	}
	if _, err := def.Rowwise("softmax.forward_2.x", valid); err != nil {
		t.Errorf("a valid name: %v", err)
	}
	if _, err := def.Rowwise("x", nil); err == nil || err.Error() != "x: nothing builds it" {
		t.Errorf("no builder: got %v", err)
	}
}

func TestRefusedTables(t *testing.T) {
	product := def.ContractionForm{
		Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"K", "N"}, Result: "c", ResultDims: []string{"M", "N"},
	}
	contraction := func(change func(f *def.ContractionForm)) func() (*def.Definition, error) {
		return func() (*def.Definition, error) {
			f := product
			change(&f)
			return def.Contraction("test", f)
		}
	}
	for _, test := range []struct {
		name  string
		build func() (*def.Definition, error)
		want  string
	}{
		{"nothing to sum over", contraction(func(f *def.ContractionForm) { f.RightDims = []string{"L", "N"} }),
			"test: a ends in K and b begins with L: there is nothing to sum over"},
		{"transposed, nothing to sum over", contraction(func(f *def.ContractionForm) { f.TransposeLeft = true }),
			"test: a ends in M and b begins with K: there is nothing to sum over"},
		{"a result of other sizes", contraction(func(f *def.ContractionForm) { f.ResultDims = []string{"N", "M"} }),
			"test: c is [N M], want [M N]"},
		{"a vector", contraction(func(f *def.ContractionForm) { f.LeftDims = []string{"K"} }), "test: a has the sizes [K], want those of a matrix"},
		{"a size of two letters", contraction(func(f *def.ContractionForm) { f.LeftDims = []string{"MM", "K"} }),
			"test: a has the sizes [MM K], want different capital letters"},
		{"a batch axis of an operand alone", contraction(func(f *def.ContractionForm) { f.LeftDims = []string{"H", "M", "K"} }),
			"test: a has the size H, which c lacks: that is no batch axis"},
		{"groups without offsets", contraction(func(f *def.ContractionForm) { f.Groups.Number = "G" }),
			"test: groups {Number:G Of: Offsets:}, want their number, the size that they divide and the offsets"},
		{"groups of columns", contraction(func(f *def.ContractionForm) {
			f.RightDims = []string{"G", "K", "N"}
			f.Groups = def.Groups{Number: "G", Of: "N", Offsets: "o"}
		}), "test: groups divide N: want M divided with b for each group, or K with c for each group"},
		{"scales and an old result", contraction(func(f *def.ContractionForm) { f.Accumulate, f.Scales.Row = true, "s" }),
			"test: scales in a product with batch axes, groups or an old result, want one product that is set"},
		{"scales of many matrices", contraction(func(f *def.ContractionForm) {
			f.LeftDims, f.ResultDims, f.Scales.Col = []string{"H", "M", "K"}, []string{"H", "M", "N"}, "s"
		}), "test: scales in a product with batch axes, groups or an old result, want one product that is set"},
		{"scales of one name", contraction(func(f *def.ContractionForm) { f.Scales = def.Scales{Row: "s", Col: "s"} }), "test: operand s is declared twice"},
		{"factors of one byte and of more", contraction(func(f *def.ContractionForm) { f.Factors = def.Only(num.E4M3, num.F16) }),
			`test: a may be stored "e4m3 f16", want formats of its own, of one byte or of more`},
		{"factors like another operand", contraction(func(f *def.ContractionForm) { f.Factors = def.Like("b") }),
			`test: a may be stored "as b", want formats of its own, of one byte or of more`},
		{"a table of bytes", func() (*def.Definition, error) {
			return def.Rowwise("test", func(b *def.Builder) { b.Out("y", b.In("x", def.Only(num.E4M3))) })
		}, "test: operand x: e4m3 stores factors of matrix products and outputs of rowwise definitions alone"},
		{"an input like an output of a byte", func() (*def.Definition, error) {
			return def.Rowwise("test", func(b *def.Builder) {
				b.In("x", def.Like("y"))
				b.Out("y", b.In("z"), def.Only(num.E4M3))
			})
		}, "test: operand x is stored like y: e4m3 stores factors of matrix products and outputs of rowwise definitions alone"},
		{"bytes in place", func() (*def.Definition, error) {
			return def.Rowwise("test", func(b *def.Builder) { b.Out("y", b.In("y", def.Only(num.E4M3))) })
		}, "test: operand y: e4m3 stores factors of matrix products and outputs of rowwise definitions alone"},
		{"rounding as an output of bytes", func() (*def.Definition, error) {
			return def.Rowwise("test", func(b *def.Builder) { b.Out("y", b.In("x").Round(def.StorageOf("y")), def.Only(num.E4M3)) })
		}, "test: round(x): e4m3 stores factors of matrix products and outputs of rowwise definitions alone"},
		{"rounding to a byte", func() (*def.Definition, error) {
			return def.Rowwise("test", func(b *def.Builder) { b.Out("y", b.In("x").Round(def.FixedStorage(num.E5M2))) })
		}, "test: round(x): e5m2 stores factors of matrix products and outputs of rowwise definitions alone"},
		{"two operands of one name", contraction(func(f *def.ContractionForm) { f.Right = "a" }), "test: operand a is declared twice"},
		{"a bad operand name", contraction(func(f *def.ContractionForm) { f.Result = "a*b" }), `test: operand "a*b": want a name like x or dgamma`},
		{"a gather of one name", func() (*def.Definition, error) {
			return def.Gather("test", def.GatherForm{Index: "i", Table: "t", Out: "i"})
		}, "test: operand i is declared twice"},
		{"a gather without a name", func() (*def.Definition, error) {
			return def.Gather("test", def.GatherForm{Index: "i", Out: "o"})
		}, `test: operand "": want a name like x or dgamma`},
		{"a scatter of one name", func() (*def.Definition, error) {
			return def.ScatterAdd("test", def.ScatterForm{Index: "i", Rows: "r", Result: "r"})
		}, "test: operand r is declared twice"},
	} {
		d, err := test.build()
		if err == nil || err.Error() != test.want {
			t.Errorf("%s:\n got %v\nwant %s", test.name, err, test.want)
		}
		if d != nil {
			t.Errorf("%s: got a definition with the error", test.name)
		}
	}
	if _, err := def.Contraction("test", product); err != nil {
		t.Errorf("a valid product: %v", err)
	}
}

func TestMust(t *testing.T) {
	defer func() {
		if r := recover(); fmt.Sprint(r) != "test: it has no output" {
			t.Errorf("got panic %v", r)
		}
	}()
	def.Must(def.Rowwise("test", func(*def.Builder) {}))
	t.Error("no panic")
}
