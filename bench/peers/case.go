package peers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tokitai/num"
	"tokitai/op"
)

// Case is one row of the table: an operation on operands of given sizes in one format.
type Case struct {
	Operation *op.Operation
	Data      op.Data            // Sizes and Params are those to measure
	DType     num.DType          // that names the choice of formats
	DTypes    []num.DType        // of the operands
	Given     map[string]float64 // the parameters as people set them
}

// list is what is measured by default: the shapes of a small transformer's step.
var list = []struct {
	op     string
	dtypes []num.DType
	shapes []string
}{
	{"gelu.forward", all, []string{"R=16384,C=1024"}},
	{"gelu.backward", all, []string{"R=16384,C=1024"}},
	{"softmax.forward", all, []string{"R=4096,C=1024", "R=256,C=32768"}},
	{"softmax.backward", all, []string{"R=4096,C=1024", "R=256,C=32768"}},
	{"crossentropy", []num.DType{num.F32, num.BF16}, []string{"R=1024,C=32768"}},
	{"layernorm.forward", []num.DType{num.F32, num.BF16}, []string{"R=4096,C=1024"}},
	{"layernorm.backward", []num.DType{num.F32, num.BF16}, []string{"R=4096,C=1024"}},
	{"embedding.forward", []num.DType{num.F32, num.BF16}, []string{"Q=8192,D=1024,V=32768"}},
	{"embedding.backward", []num.DType{num.F32, num.BF16}, []string{"Q=8192,D=1024,V=32768"}},
	{"adamw.step", []num.DType{num.F32}, []string{"R=32768,C=1024"}},
	{"gemm.forward", all, []string{"M=256,K=256,N=256", "M=512,K=512,N=512", "M=1024,K=1024,N=1024", "M=2048,K=2048,N=2048", "M=4096,K=1024,N=1024", "M=64,K=4096,N=1024"}},
	{"gemm.grad_a", []num.DType{num.F32}, []string{"M=1024,K=1024,N=1024"}},
	{"gemm.grad_b", []num.DType{num.F32}, []string{"M=1024,K=1024,N=1024"}},
	{"gemm.batched.forward", []num.DType{num.F32, num.BF16}, []string{"H=64,M=64,K=64,N=64"}},
	{"gelu.forward", []num.DType{num.F32}, []string{"R=1,C=1000"}},
	{"softmax.forward", []num.DType{num.F32}, []string{"R=1,C=1000"}},
	{"layernorm.forward", []num.DType{num.F32}, []string{"R=1,C=1000"}},
}

var all = []num.DType{num.F32, num.F16, num.BF16}

// Filter selects cases. What is empty selects everything.
type Filter struct {
	DTypes []num.DType
	Sizes  map[string]int // replace those of the list
}

// Cases returns the cases of the default list that belong to the given operations and that
// a filter selects. Cases that sizes make equal are there once.
func Cases(operations []*op.Operation, f Filter) ([]*Case, error) {
	var cases []*Case
	seen := map[string]bool{}
	for _, row := range list {
		i := slices.IndexFunc(operations, func(o *op.Operation) bool { return o.Name == row.op })
		if i < 0 {
			continue
		}
		for _, t := range row.dtypes {
			if f.DTypes != nil && !slices.Contains(f.DTypes, t) {
				continue
			}
			for _, shape := range row.shapes {
				c, err := newCase(operations[i], t, shape, f.Sizes)
				if err != nil {
					return nil, err
				}
				if !seen[c.String()] {
					cases = append(cases, c)
				}
				seen[c.String()] = true
			}
		}
	}
	return cases, nil
}

func newCase(o *op.Operation, t num.DType, shape string, sizes map[string]int) (*Case, error) {
	c := &Case{Operation: o, Data: o.Data[0], DType: t}
	d := c.Data.Definition
	if c.DTypes = d.DTypes(t); c.DTypes == nil {
		return nil, fmt.Errorf("%s cannot be stored in %v", d.Name, t)
	}
	c.Data.Sizes = map[string]int{}
	for part := range strings.SplitSeq(shape, ",") {
		letter, digits, _ := strings.Cut(part, "=")
		n := 0
		if _, err := fmt.Sscan(digits, &n); err != nil {
			return nil, fmt.Errorf("size %s: %w", part, err)
		}
		if given, ok := sizes[letter]; ok {
			n = given
		}
		c.Data.Sizes[letter] = n
	}
	return c, c.setParams()
}

// setParams sets parameters that every library has: gradients of the mean loss, and an
// optimizer's usual numbers.
func (c *Case) setParams() error {
	d := c.Data.Definition
	c.Given = map[string]float64{}
	for i, p := range d.Params {
		c.Given[p.Name] = c.Data.Params[i]
	}
	if _, ok := c.Given["scale"]; ok {
		c.Given["scale"] = 1 / float64(c.Data.Sizes["R"])
	}
	used := c.Given
	if derive := c.Operation.Derive; derive != nil {
		c.Given = map[string]float64{"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01, "t": 10}
		var err error
		if used, err = derive(d, maps.Clone(c.Given)); err != nil {
			return err
		}
	}
	c.Data.Params = make([]float64, len(d.Params))
	for i, p := range d.Params {
		c.Data.Params[i] = used[p.Name]
	}
	return nil
}

// Shape returns the sizes as text: R=4096,C=1024.
func (c *Case) Shape() string {
	var parts []string
	for _, letter := range c.Data.Definition.Sizes() {
		parts = append(parts, fmt.Sprintf("%s=%d", letter, c.Data.Sizes[letter]))
	}
	return strings.Join(parts, ",")
}

func (c *Case) String() string { return fmt.Sprintf("%s %v %s", c.Operation.Name, c.DType, c.Shape()) }

// flops returns the number of multiplications and additions of products; 0 without any.
func (c *Case) flops() float64 { return 2 * c.Data.Definition.MultiplyAdds(c.Data.Sizes) }

// footprint returns the bytes of one set of operands.
func (c *Case) footprint() int64 {
	d, total := c.Data.Definition, int64(0)
	for i := range d.Operands {
		rows, cols := d.Operands[i].Matrix(c.Data.Sizes)
		total += int64(rows) * int64(cols) * int64(c.DTypes[i].Size())
	}
	return total
}

// inCache is the size of operands that may stay in a cache between calls.
const inCache = 4 << 20

// sets returns how many sets of operands a measurement rotates over. Small operands are
// used again and again, as they are in a program; large ones are in no cache when their
// turn comes, for every party alike.
func (c *Case) sets() int {
	const rotated = 384 << 20
	n := c.footprint()
	if n <= inCache {
		return 1
	}
	return int(min(max(1, (rotated+n-1)/n), 16))
}
