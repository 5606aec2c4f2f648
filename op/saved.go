package op

import (
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/num"
	"tokitai/reference"
)

// Saved lists inputs of a definition that are results of another one, of inputs and parameters of the
// same names: the gradients of attention read the means and the logarithms that attention has given.
// Kinds of data and patterns that do not name such an input give it the values that the other
// definition computes from their other inputs.
type Saved struct {
	Definition *def.Definition // that reads them
	By         *def.Definition // that computes them
	Names      []string
}

// SavedBy returns the results that a definition reads, or nil.
func (o *Operation) SavedBy(d *def.Definition) *Saved {
	if o == nil {
		return nil
	}
	for i := range o.Saved {
		if o.Saved[i].Definition == d {
			return &o.Saved[i]
		}
	}
	return nil
}

// Has reports whether an input is a saved result. A nil Saved has none.
func (s *Saved) Has(name string) bool { return s != nil && slices.Contains(s.Names, name) }

// Fill computes saved results from the other inputs of a call with the reference, and writes those that
// isWanted names.
func (s *Saved) Fill(operands []num.Array, params []float64, isWanted func(name string) bool) error {
	return s.FillBy(func(d *def.Definition, arrays []num.Array, values []float64) error {
		return reference.Run(d, arrays, reference.Options{Params: values})
	}, operands, params, isWanted)
}

// FillBy is Fill with results of run.
func (s *Saved) FillBy(run func(*def.Definition, []num.Array, []float64) error, operands []num.Array, params []float64, isWanted func(name string) bool) error {
	if s == nil || !slices.ContainsFunc(s.Names, isWanted) {
		return nil
	}
	arrays, values := make([]num.Array, len(s.By.Operands)), make([]float64, len(s.By.Params))
	for i := range s.By.Operands {
		o := &s.By.Operands[i]
		k := s.Definition.Operand(o.Name)
		if k < 0 {
			return fmt.Errorf("%s saves results of %s, and has no operand %s", s.Definition.Name, s.By.Name, o.Name)
		}
		if arrays[i] = operands[k]; o.IsOut && !isWanted(o.Name) {
			arrays[i] = operands[k].Clone()
		}
	}
	for i, p := range s.By.Params {
		k := s.Definition.Param(p.Name)
		if k < 0 {
			return fmt.Errorf("%s saves results of %s, and has no parameter %s", s.Definition.Name, s.By.Name, p.Name)
		}
		values[i] = params[k]
	}
	return run(s.By, arrays, values)
}
