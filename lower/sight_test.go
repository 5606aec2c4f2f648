package lower_test

import (
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial/randdef"
)

// TestSight compares what intervals say of random conditions with the conditions themselves, for
// every query and key.
func TestSight(t *testing.T) {
	g := gen.New("sight")
	none, every := 0, 0
	for range testlevel.Pick(300, 3000, 30_000) {
		d := randdef.Stream(g)
		f := d.Form.(*def.Stream)
		params := randdef.NewCase(g, d, d.DTypes(num.F32), map[string]int{"T": 1, "S": 1, "G": 1, "J": 1, "D": 1, "B": 1}).Params
		query, key := lower.Range{Low: g.Below(40) - 10}, lower.Range{Low: g.Below(40)}
		query.High, key.High = query.Low+g.Below(8), key.Low+g.Below(8)
		head := g.Below(4)
		sight := lower.SightOf(f, params, query, key, lower.Range{Low: head, High: head})
		switch sight {
		case lower.NoKey:
			none++
		case lower.EveryKey:
			every++
		default:
			continue
		}
		rows, cols := query.High-query.Low+1, key.High-key.Low+1
		var operands []num.Array
		for i := range f.Body.Operands {
			o := &f.Body.Operands[i]
			a := o.NewArray(f.Body.DTypes(num.F32)[i], map[string]int{"R": rows, "C": cols})
			for r := range a.Rows {
				for c := range a.Cols {
					switch o.Name {
					case "query":
						a.SetBits(r, c, uint32(int32(query.Low+r)))
					case "key":
						a.SetBits(r, c, uint32(key.Low+c))
					case "head":
						a.SetBits(r, c, uint32(head))
					default:
						a.SetBits(r, c, uint32(g.Next())&(1<<(8*a.DType.Size()-1)-1)>>1)
					}
				}
			}
			operands = append(operands, a)
		}
		if err := reference.Run(f.Body, operands, reference.Options{Params: params}); err != nil {
			t.Fatal(err)
		}
		seen := operands[len(f.Reads)+1]
		for r := range seen.Rows {
			for c := range seen.Cols {
				if is := seen.Int(r, c) != 0; is != (sight == lower.EveryKey) {
					t.Fatalf("queries %v, keys %v, head %d, parameters %v: element (%d, %d) is visible: %v\n%s", query, key, head, params, r, c, is, d.Text())
				}
			}
		}
	}
	if none < 20 || every < 20 {
		t.Errorf("%d blocks are invisible, %d visible", none, every)
	}
}

// TestComparisons: what reads operands or floats is computed for each query and key, as intervals know nothing of it.
func TestComparisons(t *testing.T) {
	form := def.StreamForm{
		Query: "q", Key: "k", Value: "v", QueryStarts: "qstart", KeyStarts: "kstart", Out: "o", LogSum: "lse",
		Functions: def.StreamFunctions{Short: fn.Exp2Short3Function, Exp2: fn.Exp2Function, Log2: fn.Log2Function},
	}
	d := def.Must(def.StreamOf("windows", form, func(b *def.StreamBuilder) {
		window, document := b.IntParam("window"), b.In("document", []string{"T"}, def.Only(num.I32))
		near := b.Query().Less(b.Key().IAdd(window)).As("near")
		same := b.Head().Equal(document).As("same")
		high := b.Score().Less(b.Score().Add(def.One)).As("high")
		b.Weigh(b.Score(), def.Select(b.Key().LessEqual(b.Query()).As("causal"), def.Select(near, same, high), near))
	}))
	bounded, computed := lower.Comparisons(d.Form.(*def.Stream))
	for what, lists := range map[string][2][]string{
		"bounded":  {names(bounded), {"causal", "near"}},
		"computed": {names(computed), {"same", "high"}},
	} {
		if !slices.Equal(lists[0], lists[1]) {
			t.Errorf("%s: got %v, want %v", what, lists[0], lists[1])
		}
	}
	f := d.Form.(*def.Stream)
	if got, want := f.Math.Line(bounded[0]), "causal = lesseq(key, query)"; got != want {
		t.Errorf("got the line %q, want %q", got, want)
	}
}

func names(nodes []*def.Node) (list []string) {
	for _, n := range nodes {
		list = append(list, n.Name)
	}
	return list
}
