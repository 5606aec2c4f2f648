package all_test

import (
	"slices"
	"strings"
	"testing"

	"tokitai/op"
	"tokitai/op/all"
	"tokitai/op/layernorm"
	"tokitai/truth"
)

// TestFormulas: another form takes the same operands and parameters, and is the same function
// of the real numbers.
func TestFormulas(t *testing.T) {
	compared := map[string]int{}
	for _, o := range all.Operations {
		seen := map[string]bool{}
		for _, f := range o.Formulas {
			key := f.Of.Name + " " + f.Name
			if seen[key] || f.Text == "" || f.Refused != "" && f.Definition != nil {
				t.Errorf("%s: occurs twice, has no text, or is both refused and defined", key)
			}
			seen[key] = true
			_, err := o.FormulaOf(f.Of, f.Name)
			if (err == nil) != (f.Refused == "") {
				t.Errorf("%s: got %v", key, err)
			}
			if f.Definition == nil {
				continue
			}
			d := f.Definition
			if len(d.Operands) != len(f.Of.Operands) || len(d.Params) != len(f.Of.Params) {
				t.Fatalf("%s has other operands or parameters", key)
			}
			for i := range d.Operands {
				a, b := &d.Operands[i], &f.Of.Operands[i]
				if a.Name != b.Name || a.IsIn != b.IsIn || a.IsOut != b.IsOut || a.Extent != b.Extent || a.IsIndex != b.IsIndex || a.DTypes.String() != b.DTypes.String() {
					t.Errorf("%s: operand %d is %+v, want %+v", key, i, a, b)
				}
			}
			for i := range d.Params {
				if d.Params[i].Name != f.Of.Params[i].Name || d.Params[i].IsInt != f.Of.Params[i].IsInt {
					t.Errorf("%s: parameter %d is %s, want %s", key, i, d.Params[i].Name, f.Of.Params[i].Name)
				}
			}
			for n, p := range o.Patterns {
				if p.Definition != f.Of {
					continue
				}
				sizes := map[string]int{"R": 7, "C": 5}
				inputs := fill(p, sizes, f.Of.Formats()[n%len(f.Of.Formats())])
				params := slices.Clone(paramsOf(o, p))
				if i := d.Param("beta1"); i >= 0 { // where 1-beta1 is exact
					params[i], params[i+1] = 0.75, 0.25
				}
				own, err := truth.Enclose(f.Of, inputs, truth.Options{Params: params, Mode: truth.Exact})
				if err != nil {
					t.Fatal(err)
				}
				other, err := truth.Enclose(d, inputs, truth.Options{Params: params, Mode: truth.Exact})
				if err != nil {
					t.Fatal(err)
				}
				for i := range d.Operands {
					for j := range inputs[i].Rows * inputs[i].Cols {
						if !d.Operands[i].IsOut {
							break
						}
						r, c := j/inputs[i].Cols, j%inputs[i].Cols
						a, b := own.At(i, r, c), other.At(i, r, c)
						if !a.Known() || !b.Known() {
							continue
						}
						alo, ahi := a.Bounds()
						blo, bhi := b.Bounds()
						if compared[key]++; blo > ahi || bhi < alo {
							t.Errorf("%s, %s: %s[%d,%d] is %v to %v, and by definition %v to %v", key, p.Name, d.Operands[i].Name, r, c, blo, bhi, alo, ahi)
						}
					}
				}
			}
			if compared[key] == 0 {
				t.Errorf("%s: nothing was compared", key)
			}
		}
	}
}

func TestFormulasThatAreRefused(t *testing.T) {
	o, d := layernorm.Operations[0], layernorm.ForwardDefinition
	if _, err := o.FormulaOf(d, "mean-of-squares"); err == nil || !strings.HasPrefix(err.Error(), `formula "mean-of-squares" of layernorm.forward is refused: E[x^2] - mean^2 cancels`) {
		t.Errorf("got %v", err)
	}
	if _, err := o.FormulaOf(d, "tanh"); err == nil || err.Error() != `formula "tanh" is unknown: layernorm.forward has scale-and-shift, shifted, two-pass, welford` {
		t.Errorf("got %v", err)
	}
	if got := op.Of(d, "").FormulasOf(d); got != nil {
		t.Errorf("a definition of one's own has forms %v", got)
	}
}
