package truthtest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/accuracy"
	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/reference"
	"tokitai/trial/randdef"
	"tokitai/truth"
)

// runs returns the shipped rowwise definitions on all their kinds of data, a few rows of
// each. Definitions without data of their own use that of their operation, or normally
// distributed operands.
func runs(t testing.TB) []*accuracy.Run {
	t.Helper()
	var list []*accuracy.Run
	seen := map[*def.Definition]bool{}
	add := func(o *op.Operation, data op.Data) {
		data.Sizes = maps.Clone(data.Sizes)
		data.Sizes["R"] = min(data.Sizes["R"], 6)
		for _, dtype := range []num.DType{num.F32, num.F16, num.I32} { // another where f32 does not apply
			if run, ok := accuracy.NewRun(o, data, dtype); ok {
				list = append(list, run)
				seen[data.Definition] = true
				return
			}
		}
		t.Errorf("%s on %s: no format", data.Definition.Name, data.Name)
	}
	for _, o := range all.Operations {
		for _, data := range o.Data {
			if data.Definition.Expression() != nil {
				add(o, data)
			}
		}
	}
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if d.Expression() == nil || seen[d] {
				continue
			}
			data := op.Data{Name: "normal", Sizes: map[string]int{"R": 6, "C": 100}}
			if len(o.Data) > 0 {
				data = o.Data[0]
			}
			data.Definition, data.Params = d, slices.Clone(data.Params)
			for len(data.Params) < len(d.Params) {
				data.Params = append(data.Params, 1)
			}
			add(o, data)
		}
	}
	return list
}

// isMember reports whether a stored value lies between two others.
func isMember(d num.DType, bits, lo, hi uint32) bool {
	at := num.Index(d, bits)
	return !num.IsNaN(d, bits) && num.Index(d, lo) <= at && at <= num.Index(d, hi)
}

// eachOutput calls f for every element of every output.
func eachOutput(d *def.Definition, operands []num.Array, f func(operand, r, c int)) {
	for i, o := range d.Operands {
		for r := range operands[i].Rows {
			for c := range operands[i].Cols {
				if o.IsOut {
					f(i, r, c)
				}
			}
		}
	}
}

// TestIEEESetsOfOperations checks that the reference's result is in the set of correctly rounded
// steps, and that this set is part of the set of any steps, in every order.
func TestIEEESetsOfOperations(t *testing.T) {
	for _, run := range runs(t) {
		name := fmt.Sprintf("%s/%s", run.Data.Definition.Name, run.Data.Name)
		answer, err := run.Answer()
		if err != nil {
			t.Fatal(err)
		}
		for _, order := range []*def.Order{nil, {}, {Kind: def.Lanes, Width: 32}} {
			o := truth.Options{Params: run.Data.Params, Mode: truth.Rounded, Order: order}
			wide, err := truth.Enclose(run.Data.Definition, run.Operands, o)
			if err != nil {
				t.Fatal(err)
			}
			o.IsIEEE = true
			narrow, err := truth.Enclose(run.Data.Definition, run.Operands, o)
			if err != nil {
				t.Fatal(err)
			}
			sizes, elements, unknown := [2]float64{}, 0.0, 0
			eachOutput(run.Data.Definition, run.Operands, func(i, r, c int) {
				d := run.Operands[i].DType
				lo, hi := narrow.Between(i, r, c)
				low, high := wide.Between(i, r, c)
				if !narrow.At(i, r, c).Known() {
					if unknown++; wide.At(i, r, c).Known() {
						t.Fatalf("%s, %v: operand %d at %d,%d is known to the wider set alone", name, order, i, r, c)
					}
					return
				}
				if !isMember(d, lo, low, high) || !isMember(d, hi, low, high) {
					t.Fatalf("%s, %v: operand %d at %d,%d: %#x to %#x is not in %#x to %#x", name, order, i, r, c, lo, hi, low, high)
				}
				// Every set of the definition's own order lies in that of any order.
				if bits := answer[i].Bits(r, c); (order == nil || *order == def.Order{}) && !isMember(d, bits, lo, hi) {
					t.Fatalf("%s, %v: operand %d at %d,%d: %#x (%v) is not in %#x to %#x", name, order, i, r, c, bits, answer[i].At(r, c), lo, hi)
				}
				if wide.At(i, r, c).Known() {
					elements++
					sizes[0] += float64(num.Distance(d, lo, hi) + 1)
					sizes[1] += float64(num.Distance(d, low, high) + 1)
				}
			})
			if elements == 0 {
				t.Errorf("%s: nothing is known", name)
			}
			label := "own order"
			if order != nil {
				label = order.String()
			}
			t.Logf("%-24s %-16s %-10s mean size %9.4g correctly rounded, %9.4g any rounding, %d unknown",
				run.Data.Definition.Name, run.Data.Name, label, sizes[0]/elements, sizes[1]/elements, unknown)
		}
	}
}

// isStepwise reports whether correctly rounded steps leave one result.
func isStepwise(d *def.Definition) bool {
	return !slices.ContainsFunc(d.Math().Nodes, func(n *def.Node) bool {
		switch n.Op {
		case def.OpCall, def.OpScale:
			return true
		case def.OpSelect, def.OpRowArgMax, def.OpRowArgMin, def.OpRank, def.OpRowKth, def.OpRowNucleus, def.OpPacked, def.OpUnpacked: // a comparison with what is unknown is open
			return true
		}
		return false
	})
}

// TestIEEESetsOfRandomDefinitions checks that the reference's result is in the set and, if no
// function is involved, is the only element.
func TestIEEESetsOfRandomDefinitions(t *testing.T) {
	judged, single, known, refused := 0, 0, 0, 0
	for seed := range 600 {
		g := gen.New(fmt.Sprint(t.Name(), seed))
		d, err := randdef.New(g)
		if err != nil {
			t.Fatal(err)
		}
		k := randdef.NewCase(g, d, randdef.DTypes(g, d), randdef.Sizes(g, d, 4000))
		answer := k.Clone()
		if err := reference.Run(d, answer.Operands, reference.Options{Params: k.Params}); err != nil {
			t.Fatal(err)
		}
		set, err := truth.Enclose(d, k.Operands, truth.Options{Params: k.Params, Mode: truth.Rounded, IsIEEE: true})
		if err != nil {
			if !strings.Contains(err.Error(), "too close to call") {
				t.Errorf("seed %d: %v", seed, err)
			}
			refused++
			continue
		}
		isSingle := isStepwise(d)
		eachOutput(d, k.Operands, func(i, r, c int) {
			dtype, bits := k.Operands[i].DType, answer.Operands[i].Bits(r, c)
			judged++
			if !set.At(i, r, c).Known() {
				return
			}
			known++
			lo, hi := set.Between(i, r, c)
			if !isMember(dtype, bits, lo, hi) || !set.Admits(i, r, c, bits) {
				t.Fatalf("seed %d: operand %d at %d,%d is %#x, want %#x to %#x\n%s", seed, i, r, c, bits, lo, hi, d.Text())
			}
			if isSingle && dtype.IsFloat() {
				if single++; num.Distance(dtype, lo, hi) != 0 {
					t.Fatalf("seed %d: operand %d at %d,%d: steps that are correctly rounded leave %#x to %#x\n%s", seed, i, r, c, lo, hi, d.Text())
				}
			}
		})
	}
	t.Logf("%d elements, %d known, %d of steps alone, %d definitions refused", judged, known, single, refused)
	if known < judged/3 || single < judged/20 || refused > 60 {
		t.Errorf("of %d elements %d are known, %d of steps alone; %d definitions are refused", judged, known, single, refused)
	}
}

// TestIEEEByHand checks each kind of step with values worked out by hand: exactly the bits of
// binary32, and the error of a function or of a sum in any order.
func TestIEEEByHand(t *testing.T) {
	third := func(x def.Value) def.Value { return x.Div(def.Const(3)) }
	rowSum := unary(func(_ *def.Builder, x def.Value) def.Value { return x.Mul(def.Zero).Add(def.RowSum(x)) })
	x := []float32{1, 0x1p-24, 0x1p-24, -0.5}
	for _, test := range []struct {
		name   string
		d      *def.Definition
		order  *def.Order
		lo, hi float32 // of the first column
		known  bool
	}{
		{"division", unary(func(_ *def.Builder, x def.Value) def.Value { return third(x) }), nil, 0x1.555556p-2, 0x1.555556p-2, true},
		{"product and sum round twice", unary(func(_ *def.Builder, x def.Value) def.Value {
			return third(x).Mul(third(x)).Sub(third(third(x)))
		}), nil, 0x1p-27, 0x1p-27, true},
		{"fma rounds once", unary(func(_ *def.Builder, x def.Value) def.Value { return def.FMA(third(x), third(x), third(third(x)).Neg()) }),
			nil, num.FMA(0x1.555556p-2, 0x1.555556p-2, -0x1.c71c72p-4), num.FMA(0x1.555556p-2, 0x1.555556p-2, -0x1.c71c72p-4), true},
		{"overflow", unary(func(_ *def.Builder, x def.Value) def.Value { return x.Mul(def.Const(0x1p100)).Mul(def.Const(0x1p100)) }), nil, 0, 0, false},
		{"storage", unary(func(_ *def.Builder, x def.Value) def.Value { return third(x).Round(def.FixedStorage(num.F16)) }), nil, 0x1.554p-2, 0x1.554p-2, true},
		{"storage overflows", unary(func(_ *def.Builder, x def.Value) def.Value {
			return x.Mul(def.Const(65520)).Round(def.FixedStorage(num.F16))
		}), nil, 0, 0, false},
		{"root of what may be below zero", unary(func(_ *def.Builder, x def.Value) def.Value { return fn.Exp(x).Sub(def.Const(0x1.5bf0aap1)).Sqrt() }), nil, 0, 0, false},
		{"function", unary(func(_ *def.Builder, x def.Value) def.Value { return fn.Exp(x) }), nil, 0x1.5bf0a8p1, 0x1.5bf0aap1, true}, // e is 0x1.5bf0a8bp1
		{"sine", unary(func(_ *def.Builder, x def.Value) def.Value { return fn.Sin(x) }), nil, 0x1.aed546p-1, 0x1.aed54ap-1, true},   // sin 1 is 0x1.aed548fp-1, and 0.9 ulp at most 1.52 here
		{"sine beyond its domain", unary(func(_ *def.Builder, x def.Value) def.Value { return fn.Sin(x.Mul(def.Const(0x1p18))) }), nil, 0, 0, false},
		{"logarithm at the end of its domain", unary(func(_ *def.Builder, x def.Value) def.Value { return fn.Log1p(x.Neg()) }), nil, 0, 0, false},
		{"sum in lanes", rowSum, nil, 0.5 + 0x1p-24, 0.5 + 0x1p-24, true}, // (1 + 2^-24) + (2^-24 - 0.5)
		{"sum ascending", rowSum, &def.Sequential, 0.5, 0.5, true},
		{"sum in any order", rowSum, &def.Order{}, 0.5 - 5*0x1p-25, 0.5 + 6*0x1p-24, true}, // 0.5 + 2^-23 ± 3·2^-24·(1.5 + 2^-23)
	} {
		a := row(x...)
		r, err := truth.Enclose(test.d, []num.Array{a, like(a)}, truth.Options{Mode: truth.Rounded, IsIEEE: true, Order: test.order})
		if err != nil {
			t.Fatal(err)
		}
		lo, hi := r.Between(1, 0, 0)
		got := [2]float32{math.Float32frombits(lo), math.Float32frombits(hi)}
		if isKnown := r.At(1, 0, 0).Known(); isKnown != test.known || isKnown && got != [2]float32{test.lo, test.hi} {
			t.Errorf("%s: known %v, got %x to %x, want %x to %x", test.name, isKnown, got[0], got[1], test.lo, test.hi)
		}
		z := r.Decide(1)
		if want := (test.lo == test.hi); test.known && (z.State[0] == truth.ByFloat64) != want || !test.known && z.State[0] != truth.Unknown {
			t.Errorf("%s: decided %v", test.name, z.State[0])
		}
	}
}
