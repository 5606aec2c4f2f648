package all_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
)

func TestScalings(t *testing.T) {
	relations, total := 0, 0
	for _, o := range all.Operations {
		for _, s := range o.Scalings {
			relations++
			p := ordinary(o, s.Definition)
			for _, formats := range formatsOf(s.Definition, relations) {
				compared := map[string]int{}
				for _, sizes := range sizesOf(s.Definition)[1:] {
					inputs := fill(p, sizes, formats)
					for _, k := range []int{-3, 1, 4} {
						n, err := checkScaling(s, inputs, p.Params, k)
						if err != nil {
							t.Errorf("%s, %s: %v", s.Name, describe(s.Definition, sizes, formats), err)
						}
						for name, count := range n {
							compared[name] += count
							total += count
						}
					}
				}
				for _, operand := range s.Definition.Operands {
					if operand.IsOut && compared[operand.Name] == 0 {
						t.Errorf("%s, %s %v: no element of %s was compared", s.Name, s.Definition.Name, formats, operand.Name)
					}
				}
			}
		}
	}
	t.Logf("%d relations, %d elements compared", relations, total)
}

// TestScalingsCanFail changes one factor, parameter or sign of relations that hold.
func TestScalingsCanFail(t *testing.T) {
	change := func(m map[string]int, name string, by int) map[string]int {
		m = maps.Clone(m)
		if m == nil {
			m = map[string]int{}
		}
		m[name] += by
		return m
	}
	broken := 0
	for _, o := range all.Operations {
		for _, s := range o.Scalings {
			var mutants []op.Scaling
			for i := range s.Definition.Operands {
				operand := &s.Definition.Operands[i]
				if !operand.IsOut {
					continue
				}
				m := s
				m.Outputs = change(s.Outputs, operand.Name, 1)
				mutants = append(mutants, m)
				if len(s.Negated) > 0 && !operand.IsIn {
					m := s
					if slices.Contains(s.Negated, operand.Name) {
						m.Negated = slices.DeleteFunc(slices.Clone(s.Negated), func(name string) bool { return name == operand.Name })
					} else {
						m.Negated = append(slices.Clone(s.Negated), operand.Name)
					}
					mutants = append(mutants, m)
				}
			}
			for name := range s.Inputs {
				m := s
				m.Inputs = change(s.Inputs, name, 1)
				mutants = append(mutants, m)
			}
			p := ordinary(o, s.Definition)
			sizes := sizesOf(s.Definition)[2]
			inputs := fill(p, sizes, s.Definition.Formats()[0])
			for i, m := range mutants {
				broken++
				if _, err := checkScaling(m, inputs, p.Params, 4); err == nil {
					t.Errorf("%s, %s: change %d (%v, %v, %v) was not found", s.Name, s.Definition.Name, i, m.Inputs, m.Outputs, m.Negated)
				}
			}
		}
	}
	t.Logf("%d broken relations found", broken)

	// A relation without its parameter, in the format that shows most.
	for _, o := range all.Operations {
		for _, s := range o.Scalings {
			formats := s.Definition.Formats()
			widest := formats[len(formats)-1]
			if s.Definition.Format(widest) != num.F32 {
				continue // in 16 bits a change of eps is lost
			}
			p := ordinary(o, s.Definition)
			inputs := fill(p, sizesOf(s.Definition)[2], widest)
			for name := range s.Params {
				m := s
				m.Params = maps.Clone(s.Params)
				delete(m.Params, name)
				if _, err := checkScaling(m, inputs, p.Params, 4); err == nil {
					t.Errorf("%s, %s: it holds without %s", s.Name, s.Definition.Name, name)
				}
			}
		}
	}
}

// checkScaling holds a relation for one k, and returns how many elements of each
// output it compared.
func checkScaling(s op.Scaling, inputs []num.Array, params []float64, k int) (map[string]int, error) {
	d := s.Definition
	isNegated := func(name string) bool { return slices.Contains(s.Negated, name) }
	plain, scaled := slices.Clone(inputs), slices.Clone(inputs)
	for i := range d.Operands {
		o := &d.Operands[i]
		if !o.IsIn || o.IsIndex {
			continue
		}
		plain[i], scaled[i] = inputs[i].Clone(), inputs[i].Clone()
		for r := range plain[i].Rows {
			for c := range plain[i].Cols {
				x, exponent := plain[i].At(r, c), k*s.Inputs[o.Name]
				if want := math.Ldexp(float64(x), exponent); float64(num.Round(plain[i].DType, float32(want))) != want {
					x = 1 // whose multiples are exact
					plain[i].Set(r, c, x)
				}
				scaled[i].Set(r, c, times(x, exponent, isNegated(o.Name)))
			}
		}
	}
	scaledParams := slices.Clone(params)
	for name, factor := range s.Params {
		i := d.Param(name)
		scaledParams[i] = math.Ldexp(params[i], k*factor)
	}
	answer, err := run(d, plain, params, def.FMAChain)
	if err != nil {
		return nil, err
	}
	got, err := run(d, scaled, scaledParams, def.FMAChain)
	if err != nil {
		return nil, err
	}
	compared := map[string]int{}
	for i := range d.Operands {
		o := &d.Operands[i]
		if !o.IsOut {
			continue
		}
		for r := range got[i].Rows {
			for c := range got[i].Cols {
				if !isNormal(answer[i], r, c) || !isNormal(got[i], r, c) {
					continue
				}
				compared[o.Name]++
				if want := times(answer[i].At(r, c), k*s.Outputs[o.Name], isNegated(o.Name)); got[i].At(r, c) != want {
					return nil, fmt.Errorf("k = %d: %s[%d,%d]: got %v, want %v", k, o.Name, r, c, got[i].At(r, c), want)
				}
			}
		}
	}
	return compared, nil
}

func times(x float32, exponent int, isNegated bool) float32 {
	if isNegated {
		x = -x
	}
	return float32(math.Ldexp(float64(x), exponent))
}

var leastNormal = map[num.DType]float64{num.F16: 0x1p-14, num.BF16: 0x1p-126, num.F32: 0x1p-126}

func isNormal(a num.Array, r, c int) bool {
	x := math.Abs(float64(a.At(r, c)))
	return x >= leastNormal[a.DType] && x <= num.MaxFinite(a.DType)
}
