package accuracy_test

import (
	"fmt"
	"slices"
	"testing"

	"tokitai/accuracy"
	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
)

// Every real output of a plain definition has a closed form, and every closed form is of
// such an output. Integers have no error. TestDocument holds them to all data.
func TestBoundsAreComplete(t *testing.T) {
	var want, got []string
	for _, o := range all.Operations {
		if len(o.Data) == 0 {
			continue
		}
		for _, operand := range o.Definitions[0].Operands {
			if operand.IsOut && !operand.IsInt() {
				want = append(want, o.Name+" "+operand.Name)
			}
		}
	}
	for _, o := range all.Operations {
		for _, b := range o.Bounds {
			got = append(got, o.Name+" "+b.Output)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("closed forms are of\n%q\nwant\n%q", got, want)
	}
}

// The closed forms take the errors of functions for granted.
func TestFunctionsAsAssumed(t *testing.T) {
	for _, o := range all.Operations {
		assumed := map[*def.Function]bool{}
		for _, b := range o.Bounds {
			for f, ulps := range b.Assumes {
				if assumed[f] = true; f.ULPs > ulps {
					t.Errorf("%s is within %v ulp, the closed form of %s %s assumes %v", f.Name, f.ULPs, o.Name, b.Output, ulps)
				}
			}
		}
		if len(o.Bounds) == 0 {
			continue
		}
		for _, n := range o.Definitions[0].Math().Nodes {
			if n.Op == def.OpCall && !assumed[n.Func] {
				t.Errorf("%s calls %s, of which its closed forms assume nothing", o.Name, n.Func.Name)
			}
		}
	}
}

// Only restricts what is measured; a format that no operand can take is left out.
func TestMeasureOnly(t *testing.T) {
	rows, err := accuracy.Measure(all.Operations, accuracy.Options{Only: func(o *op.Operation, data op.Data, d num.DType) bool {
		return o.Name == "softmax.forward" && data.Name == "one dominates" && d != num.BF16 || o.Name == "norm.clip"
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprint(r.Operation.Name, " ", r.Output, " ", r.DType, " ", r.Elements > 0))
	}
	want := []string{"softmax.forward y f16 true", "softmax.forward y f32 true", "norm.clip norm f32 true", "norm.clip factor f32 true"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
