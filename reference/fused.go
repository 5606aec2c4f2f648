package reference

import (
	"fmt"

	"tokitai/def"
	"tokitai/num"
)

// runFused computes all products, each into a matrix of its own in binary32, and then the expression in
// which they end, as a rowwise definition that reads them.
func runFused(d *def.Definition, f *def.Fused, operands []num.Array, o *Options) error {
	body := make([]num.Array, len(f.Reads))
	for i, read := range f.Reads {
		if read >= 0 {
			body[i] = operands[read]
		}
	}
	result := &operands[f.Result()] // of the size of the products
	for i, p := range f.Products {
		parts := make([]num.Array, len(p.Operands))
		for k, at := range f.Factors[i] {
			if at >= 0 {
				parts[k] = operands[at]
			}
		}
		body[i] = num.NewArray(num.F32, result.Rows, result.Cols)
		parts[p.Product().Result] = body[i]
		if err := Run(p, parts, Options{Accum: o.Accum, Context: o.Context}); err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	return Run(f.Body, body, Options{Params: o.Params, Rounded: o.Rounded, Context: o.Context})
}
