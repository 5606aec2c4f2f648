package verify_test

import (
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/all"
	"tokitai/op/crossentropy"
	"tokitai/op/embedding"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/reference"
	"tokitai/trial/randdef"
	"tokitai/verify"
	"tokitai/verify/glue"
)

// numbered returns an array in which all values differ.
func numbered(rows, cols int) num.Array {
	a := num.NewArray(num.F32, rows, cols)
	for r := range rows {
		for c := range cols {
			a.Set(r, c, float32(r*cols+c))
		}
	}
	return a
}

// section judges a part of a whole.
func section(t *testing.T, g verify.Grid, whole num.Array, part verify.Rect, mismatches int64) verify.Section {
	t.Helper()
	values := whole
	values.Data = whole.Data[4*(part.Row*whole.Stride+part.Col):]
	values.Rows, values.Cols = part.Rows, part.Cols
	s, err := g.Section(part, values, mismatches)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestGlue(t *testing.T) {
	t.Parallel()
	whole := numbered(10, 7)
	g := verify.Grid{Rows: 10, Cols: 7, BlockRows: 4, BlockCols: 3}
	upper := section(t, g, whole, verify.Rect{Rows: 8, Cols: 7}, 2)
	lower := section(t, g, whole, verify.Rect{Row: 8, Rows: 2, Cols: 7}, 1)
	middle := section(t, g, whole, verify.Rect{Row: 4, Rows: 6, Cols: 6}, 4)
	corner := section(t, g, whole, verify.Rect{Row: 8, Col: 6, Rows: 2, Cols: 1}, 0)

	other := whole.Clone()
	other.SetBits(4, 5, other.Bits(4, 5)^1)
	disagreeing := section(t, g, other, verify.Rect{Row: 4, Rows: 6, Cols: 6}, 0)
	nan, otherNaN := whole.Clone(), whole.Clone()
	nan.SetBits(0, 0, 0x7fc00000)
	otherNaN.SetBits(0, 0, 0xffc12345)

	for _, test := range []struct {
		what     string
		sections []verify.Section
		want     glue.Glued
		reason   string
	}{
		{"everything once", []verify.Section{upper, lower}, glue.Glued{Elements: 70, Covered: 70, Mismatches: 3}, ""},
		{"an overlap that agrees", []verify.Section{lower, middle, upper}, glue.Glued{Elements: 70, Covered: 70, Mismatches: 7}, ""},
		{"a missing tile", []verify.Section{upper}, glue.Glued{Elements: 70, Covered: 56, Mismatches: 2}, "the tiles cover 56 of 70 elements"},
		{"the same tile twice", []verify.Section{upper, upper}, glue.Glued{Elements: 70, Covered: 56, Mismatches: 4}, "the tiles cover 56 of 70 elements"},
		{"a missing corner", []verify.Section{upper, middle}, glue.Glued{Elements: 70, Covered: 68, Mismatches: 6}, "the tiles cover 68 of 70 elements"},
		{"with the corner", []verify.Section{upper, middle, corner}, glue.Glued{Elements: 70, Covered: 70, Mismatches: 6}, ""},
		{"an overlap that disagrees", []verify.Section{upper, lower, disagreeing}, glue.Glued{Elements: 70, Covered: 70, Mismatches: 3, Conflicts: 1}, "tiles that overlap saw different values in 1 blocks"},
		{"nothing", nil, glue.Glued{Elements: 70}, "the tiles cover 0 of 70 elements"},
		{"NaN is one value", []verify.Section{
			section(t, g, nan, verify.Rect{Rows: 10, Cols: 7}, 0), section(t, g, otherNaN, verify.Rect{Rows: 4, Cols: 7}, 0),
		}, glue.Glued{Elements: 70, Covered: 70}, ""},
	} {
		got := g.Glue(test.sections)
		if got != test.want || got.Reason("tiles", "blocks") != test.reason || got.IsWhole() != (test.reason == "") {
			t.Errorf("%s: got %+v %q, whole %t; want %+v %q", test.what, got, got.Reason("tiles", "blocks"), got.IsWhole(), test.want, test.reason)
		}
	}
}

// TestSectionRefuses checks that parts that do not consist of blocks are refused.
func TestSectionRefuses(t *testing.T) {
	t.Parallel()
	whole := numbered(10, 7)
	g := verify.Grid{Rows: 10, Cols: 7, BlockRows: 4, BlockCols: 3}
	for _, part := range []verify.Rect{
		{Row: 1, Rows: 3, Cols: 7}, {Rows: 5, Cols: 7}, {Rows: 4, Cols: 4}, {Col: 2, Rows: 4, Cols: 1},
		{Row: 8, Rows: 4, Cols: 7}, {Rows: 4, Cols: 9}, {Rows: 0, Cols: 7}, {Rows: 4}, {Row: -4, Rows: 4, Cols: 3}, {Col: -3, Rows: 4, Cols: 3},
	} {
		values := whole
		values.Rows, values.Cols = part.Rows, part.Cols
		if _, err := g.Section(part, values, 0); err == nil || !strings.Contains(err.Error(), "does not begin and end at blocks") {
			t.Errorf("%v: got %v, want a refusal", part, err)
		}
	}
	if _, err := g.Section(verify.Rect{Rows: 4, Cols: 3}, whole, 0); err == nil || !strings.Contains(err.Error(), "has 10×7 values") {
		t.Errorf("values of another size: got %v", err)
	}
}

// TestTilesJudgeAlike checks, with some wrong outputs, that the judgement of every kind of definition
// does not depend on the tiles. Under promise stable it does: heights are inferred for each tile.
func TestTilesJudgeAlike(t *testing.T) {
	isDamaged := func(_, r, c int) bool { return (5*r+3*c)%11 == 7 }
	for _, x := range ofFewFormats(cpuTargets()) {
		for _, p := range []promise.Name{promise.Bits, promise.Ordered} {
			free := *x.Lowering
			free.Promise.Name = p
			y := &verify.Target{Operation: x.Operation, Definition: x.Definition, DType: x.DType, Lowering: &free}
			if !free.Promise.IsBits() && x.Definition.IsExact() {
				continue // promise bits alone
			}
			for _, pattern := range []string{"normal", "special"} {
				if pattern == "special" && !slices.ContainsFunc(x.Definition.Operands, func(o def.Operand) bool { return o.IsIn && !o.IsInt() }) {
					continue // int32 have no special values
				}
				name := strings.Replace(smallCase(x.Definition), "normal", pattern, 1)
				whole, err := verify.JudgeDamaged(y, name, 1<<18, isDamaged)
				if err != nil {
					t.Fatal(err)
				}
				for _, most := range []int64{1, 4, 11} {
					tiled, err := verify.JudgeDamaged(y, name, most, isDamaged)
					if err != nil {
						t.Fatal(err)
					}
					if tiled.Text != whole.Text {
						t.Errorf("%s %s %s, tiles of %d: got\n%s\nwant\n%s", x.ID(), x.DType, name, most, tiled.Text, whole.Text)
					}
					if isDivided := verify.Divisible(x.Definition) != ""; whole.Tiles != 1 || most == 1 && (tiled.Tiles > 1) != isDivided {
						t.Errorf("%s: %d and %d tiles, divided %t", x.ID(), whole.Tiles, tiled.Tiles, isDivided)
					}
				}
			}
		}
	}
}

// TestTiledRun finds a fault in a late tile, at its place in the whole.
func TestTiledRun(t *testing.T) {
	defer verify.SetTileElements(40)()
	x := target(softmax.ForwardDefinition, num.F16, bitwise(damaged(func(_ *engine.Launch, out []num.Array) {
		out[1].SetBits(17, 5, out[1].Bits(17, 5)^1)
		out[1].SetBits(18, 2, out[1].Bits(18, 2)^1)
	})))
	r := expectRejected(t, x, "normal/R=20,C=9", "y[17,5] differs", evidence.Bits)
	if r.Mismatches != 2 || r.Coverage != (evidence.Coverage{Produced: 180, Judged: 180, Tiles: 5}) {
		t.Errorf("%d mismatches, %+v; want 2, and 180 outputs in 5 tiles", r.Mismatches, r.Coverage)
	}
}

// TestMissingTile checks that parts that do not make up the whole give no judgement.
func TestMissingTile(t *testing.T) {
	t.Parallel()
	for _, d := range []*def.Definition{softmax.ForwardDefinition, gemm.ForwardDefinition, embedding.ForwardDefinition, embedding.BackwardDefinition} {
		x := target(d, num.F16, bitwise(honest))
		if err := verify.GlueWithout(x, smallCase(d), 4, -1); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
		if err := verify.GlueWithout(x, smallCase(d), 4, 1); err == nil || !strings.Contains(err.Error(), "the tiles cover") {
			t.Errorf("%s without a tile: got %v, want what is covered", d.Name, err)
		}
	}
}

func TestDivisible(t *testing.T) {
	t.Parallel()
	rows := def.Must(def.Rowwise("mean.of.rows", func(b *def.Builder) {
		b.Out("y", b.In("x").Div(b.Rows()), def.Like("x"))
	}))
	for _, test := range []struct {
		d    *def.Definition
		want string
	}{
		{softmax.ForwardDefinition, "R"},
		{crossentropy.Definition, "R"},
		{layernorm.ForwardDefinition, "R"},
		{layernorm.BackwardDefinition, ""}, // sums over rows
		{norm.SquareSumDefinition, ""},     // sums over everything
		{adamw.InPlaceDefinition, "R"},
		{adamw.StochasticDefinition, ""}, // random words by place
		{rows, ""},                       // the number of rows
		{gemm.ForwardDefinition, "M"},
		{gemm.GradADefinition, "M"},
		{gemm.GradBDefinition, "K"},
		{embedding.ForwardDefinition, "Q"},
		{embedding.BackwardDefinition, "D"},
	} {
		if got := verify.Divisible(test.d); got != test.want {
			t.Errorf("%s: divided along %q, want %q", test.d.Name, got, test.want)
		}
	}
}

// TestDividedAnswer checks that the reference of a part is that part of the whole reference, for
// random definitions and for those of all operations.
func TestDividedAnswer(t *testing.T) {
	t.Parallel()
	g := gen.New("verify/divided")
	divided, undivided := 0, 0
	compare := func(d *def.Definition, c *randdef.Case, most int64) {
		whole := c.Clone()
		if err := reference.Run(d, whole.Operands, reference.Options{Params: c.Params}); err != nil {
			t.Fatal(err)
		}
		parts := c.Clone()
		list := verify.Parts(d, parts.Operands, most)
		for _, part := range list {
			if err := reference.Run(d, part, reference.Options{Params: c.Params}); err != nil {
				t.Fatal(err)
			}
		}
		if diff := randdef.Diff(parts, whole); diff != "" {
			t.Errorf("%s in %d parts: %s\n%s", d.Name, len(list), diff, d.Text())
		}
		if len(list) > 1 {
			divided++
		} else if verify.Divisible(d) == "" {
			undivided++
		}
	}
	for range 300 {
		d, err := randdef.New(g)
		if err != nil {
			t.Fatal(err)
		}
		sizes := map[string]int{"R": 2 + g.Below(9), "C": 1 + g.Below(20)}
		compare(d, randdef.NewCase(g, d, randdef.DTypes(g, d), sizes), int64(1+g.Below(60)))
	}
	if divided < 60 || undivided < 30 {
		t.Errorf("%d random definitions were divided, %d cannot be; want more of both", divided, undivided)
	}
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			sizes := map[string]int{}
			for _, letter := range d.Sizes() {
				sizes[letter] = d.FitSize(letter, 3+g.Below(9))
			}
			compare(d, randdef.NewCase(g, d, d.Formats()[0], sizes), 7)
		}
	}
}
