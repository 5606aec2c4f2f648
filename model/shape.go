package model

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/num"
)

// outputOf returns the shape and the format that an output has by the inputs of a call: as
// engine.Eval makes outputs.
func outputOf(d *def.Definition, o *def.Operand, inputs []Ref) (shape []int, format num.DType, err error) {
	given, sizes := map[string]Ref{}, map[string]int{}
	hasShape := false
	for i := range d.Operands {
		in := &d.Operands[i]
		if in.IsOut {
			continue
		}
		r := inputs[0]
		inputs = inputs[1:]
		given[in.Name] = r
		if err := bind(in, r.shape, sizes); err != nil {
			return nil, num.NoDType, err
		}
		if d.Expression() == nil || in.Extent != def.PerElement || hasShape {
			continue
		}
		switch o.Extent {
		case def.PerElement:
			shape, hasShape = r.shape, true
		case def.PerRow:
			shape, hasShape = r.shape[:max(0, len(r.shape)-1)], true
		}
	}
	if !hasShape {
		for _, letter := range o.Dims {
			n := def.SizeOf(letter, sizes)
			if n == 0 {
				return nil, num.NoDType, fmt.Errorf("no input determines the size %s of %s: declare it with Value", letter, o.Name)
			}
			shape = append(shape, n)
		}
	}
	if len(shape) == 0 {
		shape = []int{1}
	}
	return shape, formatOf(d, o, given), nil
}

// formatOf returns the format of an output: that of the operand that it is declared like, or the
// only one that is allowed, or the first of these that an input has.
func formatOf(d *def.Definition, o *def.Operand, given map[string]Ref) num.DType {
	rule := o.DTypes
	for rule.Like != "" {
		if r, ok := given[rule.Like]; ok {
			return r.value.DType
		}
		rule = d.Operands[d.Operand(rule.Like)].DTypes
	}
	if len(rule.Allowed) > 1 {
		for i := range d.Operands {
			if r, ok := given[d.Operands[i].Name]; ok && slices.Contains(rule.Allowed, r.value.DType) {
				return r.value.DType
			}
		}
	}
	return rule.Allowed[0]
}

// bind sets the sizes that an operand determines.
func bind(o *def.Operand, shape []int, sizes map[string]int) error {
	n := 1
	for _, size := range shape {
		n *= size
	}
	set := func(letter string, n int) error {
		if old := sizes[letter]; old != 0 && old != n {
			return fmt.Errorf("%s %v has size %s = %d, want %d like the operands before it", o.Name, shape, letter, n, old)
		}
		sizes[letter] = n
		return nil
	}
	switch {
	case len(o.Dims) == 0:
		return nil
	case len(o.Dims) == 1:
		if letter, isMore := strings.CutSuffix(o.Dims[0], "+1"); isMore {
			return set(letter, n-1)
		}
		return set(o.Dims[0], n)
	case len(shape) < len(o.Dims):
		return fmt.Errorf("%s %v has fewer dimensions than %v", o.Name, shape, o.Dims)
	}
	first := len(shape) - len(o.Dims)
	for k, letter := range o.Dims {
		size := shape[first+k]
		if k == 0 {
			for _, s := range shape[:first] {
				size *= s
			}
		}
		if err := set(letter, size); err != nil {
			return err
		}
	}
	return nil
}
