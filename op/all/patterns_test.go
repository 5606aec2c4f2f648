package all_test

import (
	"errors"
	"fmt"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/reference"
	"tokitai/trial"
)

// TestPatternsRun fills every pattern in several sizes and all formats: the same
// values come twice, and the reference accepts them.
func TestPatternsRun(t *testing.T) {
	patterns, cases := 0, 0
	for _, o := range all.Operations {
		for _, p := range o.Patterns {
			patterns++
			for _, sizes := range sizesOf(p.Definition) {
				for n, formats := range formatsOf(p.Definition, patterns) {
					cases++
					inputs := fill(p, sizes, formats)
					if n == 0 {
						for i, again := range fill(p, sizes, formats) {
							if err := sameBits(&p.Definition.Operands[i], again, inputs[i]); err != nil {
								t.Fatalf("%s, %s: filled twice: %v", p.Name, describe(p.Definition, sizes, formats), err)
							}
						}
					}
					if _, err := run(p.Definition, inputs, paramsOf(o, p), def.FMAChain); err != nil {
						t.Errorf("%s: %v", p.Name, err)
					}
				}
			}
		}
	}
	t.Logf("%d patterns, %d cases", patterns, cases)
}

// paramsOf are a pattern's own parameters, or those of its definition's first data.
func paramsOf(o *op.Operation, p op.Pattern) []float64 {
	if p.Params != nil {
		return p.Params
	}
	for _, data := range o.Data {
		if data.Definition == p.Definition {
			return data.Params
		}
	}
	return nil
}

// ordinary is a pattern of a relation's definition without extremes: the first kind
// of data of the operation, with parameters of the definition.
func ordinary(o *op.Operation, d *def.Definition) op.Pattern {
	p := op.Pattern{Name: "ordinary", Definition: d}
	if len(o.Data) > 0 {
		p.Values = o.Data[0].Values
	}
	if p.Params = paramsOf(o, p); p.Params == nil {
		for _, q := range o.Patterns {
			if q.Definition == d && q.Params != nil {
				p.Params = q.Params
				break
			}
		}
	}
	return p
}

// fill makes the operands of a pattern; outputs are zero.
func fill(p op.Pattern, sizes map[string]int, formats []num.DType) []num.Array {
	operands := make([]num.Array, len(p.Definition.Operands))
	for i := range operands {
		o := &p.Definition.Operands[i]
		operands[i] = o.NewArray(formats[i], sizes)
		rows, cols := operands[i].Rows, operands[i].Cols
		if !o.IsIn {
			continue
		}
		seed := gen.New(p.Definition.Name + "/" + p.Name + "/" + o.Name).Next()
		if o.IsOffsets {
			n := sizes[o.Bound]
			trial.FillOffsets(operands[i], n, func(k int) int {
				if cut := p.Index[o.Name]; cut != nil {
					return max(0, min(cut(gen.Seeded(seed+uint64(k)), k, n), n))
				}
				return k * n / (rows - 1)
			})
			continue
		}
		if o.IsLengths || o.Lengths != "" {
			trial.FillIndex(p.Definition, i, operands, func(letter string) int { return sizes[letter] }, func(r, c, limit int) int {
				return p.Index[o.Name].PageOf(gen.Seeded(seed+uint64(r)<<32+uint64(c)), r*cols+c, limit)
			})
			continue
		}
		for r := range rows {
			for c := range cols {
				g := gen.Seeded(seed + uint64(r)<<32 + uint64(c))
				switch {
				case o.IsIndex && p.Index[o.Name] != nil:
					operands[i].SetBits(r, c, uint32(int32(p.Index[o.Name](g, r, sizes[o.Bound]))))
				case o.IsIndex:
					operands[i].SetBits(r, c, uint32(int32(g.Below(sizes[o.Bound]))))
				case p.Integers[o.Name] != nil:
					operands[i].SetBits64(r, c, uint64(p.Integers[o.Name](g, operands[i].RowIn(r), c)))
				case p.Values[o.Name] != nil:
					operands[i].Set(r, c, p.Values[o.Name](g, operands[i].RowIn(r), c))
				default:
					operands[i].Set(r, c, g.Normal())
				}
			}
		}
	}
	return operands
}

// run is the reference's answer; the inputs stay as they are.
func run(d *def.Definition, inputs []num.Array, params []float64, accum def.Accum) ([]num.Array, error) {
	operands := make([]num.Array, len(inputs))
	for i := range inputs {
		operands[i] = inputs[i].Clone()
	}
	return operands, reference.Run(d, operands, reference.Options{Params: params, Accum: accum})
}

// sizesOf are a few sizes of a definition, beyond the tails of lanes and chunks.
func sizesOf(d *def.Definition) []map[string]int {
	switch d.Form.(type) {
	case *def.Product, *def.Fused:
		var list []map[string]int
		for _, k := range []int{1, 2, 45, 521} {
			sizes := map[string]int{"H": 2, "G": 2, "M": 3, "N": 5, "K": 4}
			sizes[d.SummedOver()] = k
			list = append(list, sizes)
		}
		return list
	case *def.RowWrite: // some rows stay as they are
		return []map[string]int{{"Q": 1, "V": 2, "D": 1}, {"Q": 9, "V": 20, "D": 3}, {"Q": 330, "V": 200, "D": 2}}
	case *def.Lookup, *def.Scatter, *def.LookupSum:
		return []map[string]int{{"Q": 1, "V": 1, "D": 1, "S": 1}, {"Q": 9, "V": 4, "D": 3, "S": 2}, {"Q": 330, "V": 5, "D": 2, "S": 3}}
	case *def.Stream, *def.StreamBackward:
		return []map[string]int{
			{"T": 1, "S": 1, "G": 1, "J": 1, "D": 1, "B": 1, "N": 16, "M": 1, "P": 1},
			{"T": 9, "S": 12, "G": 2, "J": 1, "D": 5, "B": 3, "N": 16, "M": 2, "P": 4},
			{"T": 4, "S": 150, "G": 1, "J": 2, "D": 3, "B": 1, "N": 64, "M": 3, "P": 2},
		}
	case *def.Sort:
		return []map[string]int{{"T": 1, "S": 1, "E": 1}, {"T": 9, "S": 3, "E": 4}, {"T": 330, "S": 2, "E": 5}}
	}
	list := []map[string]int{{"R": 1, "C": 1, "K": 1}, {"R": 7, "C": 5, "K": 3}, {"R": 2, "C": 530, "K": 4}, {"R": 261, "C": 3, "K": 2}}
	for i, sizes := range list {
		for _, a := range d.Axes() {
			if a.Role == def.Indexed {
				sizes[a.Letter] = 1 + 3*i
			}
		}
	}
	return list
}

// formatsOf are the choices of formats: all, or at level smoke one, in turn.
func formatsOf(d *def.Definition, turn int) [][]num.DType {
	list := d.Formats()
	return testlevel.Pick(list[turn%len(list):][:1], list)
}

func describe(d *def.Definition, sizes map[string]int, formats []num.DType) string {
	return fmt.Sprintf("%s %v %v", d.Name, sizes, formats)
}

// sameBits compares one output.
func sameBits(o *def.Operand, got, want num.Array) error {
	if d := trial.Values.Difference(o.Name, got, want); d != nil {
		return errors.New(d.String())
	}
	return nil
}
