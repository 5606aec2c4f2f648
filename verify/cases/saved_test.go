package cases_test

import (
	"slices"
	"testing"

	"tokitai/num"
	"tokitai/op/attention"
	"tokitai/promise"
	"tokitai/reference"
	"tokitai/trial"
	"tokitai/verify/cases"
)

// TestSaved: inputs that are results of another definition are computed from the other inputs of a case,
// unless its pattern names them or fills all inputs alike, and are the same where values are kept.
func TestSaved(t *testing.T) {
	t.Parallel()
	x := target(attention.BackwardDefinition, num.BF16, kernel(promise.Bits))
	for name, isSaved := range map[string]bool{
		"normal/T=9,G=2,J=2,D=5,S=20,B=3":                   true,
		"scores-nan/T=9,G=2,J=2,D=5,S=20,B=3/gap=3":         true,
		"normal/T=9,G=1,J=1,D=5,S=20,B=3/params=2":          true,
		"gradient-tiny/T=2@3,G=1,J=1,D=5,S=7@40,B=1/gap=1":  true,
		"other-results/T=9,G=2,J=2,D=5,S=20,B=3":            false,
		"rarely-special/T=9,G=2,J=2,D=5,S=20,B=3":           false,
		"any-bits/T=9,G=2,J=2,D=5,S=20,B=3":                 false,
		"heavy-weights/T=9,G=2,J=2,D=5,S=20,B=3":            false,
		"normal/T=9,G=2,J=2,D=5,S=20,B=3/offset=3/uneven=1": true,
	} {
		c, err := x.Cases().Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		fill := func(x *cases.Target) []num.Array {
			operands := trial.New(x.Definition, c.Formats, c.Lengths(), func(int) trial.Layout { return trial.Layout{Gap: c.Gap} }).Arrays()
			x.Fill(c, 1, operands)
			return operands
		}
		got := fill(x.Cases())
		var inputs []num.Array
		for i := range attention.ForwardDefinition.Operands {
			inputs = append(inputs, got[x.Definition.Operand(attention.ForwardDefinition.Operands[i].Name)].Clone())
		}
		if err := reference.Run(attention.ForwardDefinition, inputs, reference.Options{Params: x.Cases().Params(c)}); err != nil {
			t.Fatal(err)
		}
		d := trial.Wrap(attention.ForwardDefinition, inputs)
		results := slices.Clone(inputs)
		for i := range attention.ForwardDefinition.Operands {
			results[i] = got[x.Definition.Operand(attention.ForwardDefinition.Operands[i].Name)]
		}
		if f := d.Difference(results); (f == nil) != isSaved {
			t.Errorf("%s: the results are those of attention: %v, want %v", name, f == nil, isSaved)
		}
		kept := map[string][]float32{}
		facts := x.Cases().Facts
		facts.Values = func(key string, n int, build func() []float32) []float32 {
			if kept[key] == nil {
				kept[key] = build()
			}
			if len(kept[key]) != n {
				t.Errorf("%s: %s has %d values, want %d", name, key, len(kept[key]), n)
			}
			return kept[key]
		}
		keeping := cases.New(facts)
		for range 2 {
			for i, a := range fill(keeping) {
				if f := trial.RuleOf(x.Definition).Difference(x.Definition.Operands[i].Name, a, got[i]); f != nil && x.Definition.Operands[i].IsIn {
					t.Errorf("%s: kept values differ: %v", name, f)
				}
			}
		}
	}
}

// TestUnread: in some cases the places of pages that no sequence has hold NaN, and in others ordinary
// values; those that a sequence has never do in ordinary patterns.
func TestUnread(t *testing.T) {
	t.Parallel()
	x := target(attention.DecodeDefinition, num.F32, kernel(promise.Bits))
	spoilt, clean := 0, 0
	for seed := range uint64(12) {
		c, err := x.Cases().Parse("normal/T=3,G=2,J=1,D=4,P=4,N=16,B=2,M=3")
		if err != nil {
			t.Fatal(err)
		}
		operands := trial.New(x.Definition, c.Formats, c.Lengths(), func(int) trial.Layout { return trial.Layout{} }).Arrays()
		x.Cases().Fill(c, seed, operands)
		k, lengths, pages := operands[1], operands[4], operands[5]
		isRead := map[int]bool{}
		for b := range 2 {
			for i := range int(lengths.Int(b, 0)) {
				isRead[int(pages.Int(b, i/16))*16+i%16] = true
			}
		}
		for r := range k.Rows {
			for col := range k.Cols {
				v := k.At(r, col)
				switch isNaN := v != v; {
				case isNaN && isRead[r/2]:
					t.Errorf("seed %d: k[%d,%d], which a sequence has, is NaN", seed, r, col)
				case isNaN:
					spoilt++
				case !isRead[r/2]:
					clean++
				}
			}
		}
	}
	if spoilt == 0 || clean == 0 {
		t.Errorf("%d unread elements are NaN, %d are not: want both", spoilt, clean)
	}
}

// TestPages: patterns choose lengths and pages, and what they give out of range is brought inside.
func TestPages(t *testing.T) {
	t.Parallel()
	x := target(attention.DecodeDefinition, num.F32, kernel(promise.Bits))
	for pattern, want := range map[string]struct{ klen, pages []int32 }{
		"whole-pages":              {[]int32{48, 48}, nil},
		"one-key-in-the-last-page": {[]int32{33, 33}, nil},
		"no-key-and-one":           {[]int32{0, 1}, nil},
		"one-page-for-all":         {[]int32{48, 48}, []int32{0, 0, 0, 0, 0, 0}},
		"pages-descend":            {[]int32{41, 41}, []int32{3, 2, 1, 0, 3, 2}},
	} {
		c, err := x.Cases().Parse(pattern + "/T=3,G=1,J=1,D=4,P=4,N=16,B=2,M=3")
		if err != nil {
			t.Fatal(err)
		}
		if got := indices(x, c, "klen"); !slices.Equal(got, want.klen) {
			t.Errorf("%s: klen is %v, want %v", pattern, got, want.klen)
		}
		if want.pages == nil {
			continue
		}
		operands := trial.New(x.Definition, c.Formats, c.Lengths(), func(int) trial.Layout { return trial.Layout{} }).Arrays()
		x.Cases().Fill(c, 0, operands)
		var got []int32
		for r := range 2 {
			for col := range 3 {
				got = append(got, operands[5].Int(r, col))
			}
		}
		if !slices.Equal(got, want.pages) {
			t.Errorf("%s: pages are %v, want %v", pattern, got, want.pages)
		}
	}
}
