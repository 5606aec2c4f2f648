package def

import (
	"fmt"
	"slices"
)

// checkForm returns an error if a definition cannot be another form of d: it must have the
// same operands and parameters.
func (d *Definition) checkForm(form *Definition) error {
	switch {
	case form == nil || form.Expression() == nil:
		return fmt.Errorf("form %v: want a rowwise definition", form)
	case !slices.EqualFunc(form.Operands, d.Operands, func(a, b Operand) bool {
		return a.Name == b.Name && a.Extent == b.Extent && a.IsIn == b.IsIn && a.IsOut == b.IsOut && a.IsIndex == b.IsIndex && a.DTypes.String() == b.DTypes.String()
	}):
		return fmt.Errorf("form %s: its operands are %s, want %s", form.Name, names(form.Operands), names(d.Operands))
	case !slices.EqualFunc(form.Params, d.Params, func(a, b Param) bool { return a.Name == b.Name && a.IsInt == b.IsInt }):
		return fmt.Errorf("form %s: it has other parameters than %s", form.Name, d.Name)
	}
	return nil
}

func names(operands []Operand) (list []string) {
	for i := range operands {
		list = append(list, operands[i].Name)
	}
	return list
}
