package peers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/internal/gen"
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

// row is a line of what is measured: an operation, in formats and sizes.
type row struct {
	op     string
	dtypes []num.DType
	shapes []string
	data   string             // name of the operation's kind of data; "" for the first
	given  map[string]float64 // parameters as people set them; the others are those of the data
	values map[string]op.Element
}

// list is what is measured by default: the shapes of a small transformer's step.
var list = []row{
	{op: "gelu.forward", dtypes: all, shapes: []string{"R=16384,C=1024"}},
	{op: "gelu.backward", dtypes: all, shapes: []string{"R=16384,C=1024"}},
	{op: "softmax.forward", dtypes: all, shapes: []string{"R=4096,C=1024", "R=256,C=32768"}},
	{op: "softmax.backward", dtypes: all, shapes: []string{"R=4096,C=1024", "R=256,C=32768"}},
	{op: "crossentropy", dtypes: common, shapes: []string{"R=1024,C=32768"}},
	{op: "layernorm.forward", dtypes: common, shapes: []string{"R=4096,C=1024"}},
	{op: "layernorm.backward", dtypes: common, shapes: []string{"R=4096,C=1024"}},
	{op: "embedding.forward", dtypes: common, shapes: []string{"Q=8192,D=1024,V=32768"}},
	{op: "embedding.backward", dtypes: common, shapes: []string{"Q=8192,D=1024,V=32768"}},
	{
		op: "adamw.step", dtypes: []num.DType{num.F32}, shapes: []string{"R=32768,C=1024"},
		given: map[string]float64{"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01, "t": 10},
	},
	{op: "rmsnorm.forward", dtypes: common, shapes: []string{"R=4096,C=1024"}},
	{op: "rmsnorm.residual.forward", dtypes: common, shapes: []string{"R=4096,C=1024"}},
	{op: "rmsnorm.backward", dtypes: common, shapes: []string{"R=4096,C=1024"}, values: ofNormal},
	{op: "rmsnorm.residual.backward", dtypes: common, shapes: []string{"R=4096,C=1024"}, values: ofNormal},
	{op: "rope.forward", dtypes: common, shapes: []string{"R=65536,C=64,P=4096"}},
	{op: "rope.norm.forward", dtypes: common, shapes: []string{"R=65536,C=64,P=4096"}},
	{op: "swiglu.forward", dtypes: common, shapes: []string{"R=8192,C=1024"}},
	{op: "swiglu.backward", dtypes: common, shapes: []string{"R=8192,C=1024"}},
	{op: "silu.forward", dtypes: common, shapes: []string{"R=8192,C=1024"}},
	{op: "silu.backward", dtypes: common, shapes: []string{"R=8192,C=1024"}},
	{op: "gelu.erf.forward", dtypes: common, shapes: []string{"R=8192,C=1024"}},
	{op: "gelu.erf.backward", dtypes: common, shapes: []string{"R=8192,C=1024"}},
	{op: "relu2.forward", dtypes: common, shapes: []string{"R=8192,C=1024"}},
	{op: "relu2.backward", dtypes: common, shapes: []string{"R=8192,C=1024"}},
	{op: "router.softmax.forward", dtypes: []num.DType{num.F32}, shapes: []string{"R=32768,C=32,K=4"}, given: map[string]float64{"k": 4}},
	{op: "dispatch.forward", dtypes: []num.DType{num.I32}, shapes: []string{"T=32768,S=4,E=32"}},
	{op: "combine.permute.forward", dtypes: common, shapes: []string{"Q=32768,V=8192,D=1024"}},
	{op: "combine.forward", dtypes: common, shapes: []string{"Q=8192,S=4,V=32768,D=1024"}},
	{op: "dropout.forward", dtypes: common, shapes: []string{"R=8192,C=1024"}, given: map[string]float64{"keep": 0.9, "seed": 1}},
	{op: "sample", dtypes: []num.DType{num.F32}, shapes: []string{"R=64,C=128256"}, data: "greedy", given: map[string]float64{"seed": 1}},
	{op: "sample", dtypes: []num.DType{num.F32}, shapes: []string{"R=64,C=128256"}, given: map[string]float64{"seed": 1}},
	{op: "sgd.step", dtypes: []num.DType{num.F32}, shapes: []string{"R=32768,C=1024"}},
	{op: "gemm.forward", dtypes: all, shapes: []string{"M=256,K=256,N=256", "M=512,K=512,N=512", "M=1024,K=1024,N=1024", "M=2048,K=2048,N=2048", "M=4096,K=1024,N=1024", "M=64,K=4096,N=1024"}},
	{op: "gemm.grad_a", dtypes: []num.DType{num.F32}, shapes: []string{"M=1024,K=1024,N=1024"}},
	{op: "gemm.grad_b", dtypes: []num.DType{num.F32}, shapes: []string{"M=1024,K=1024,N=1024"}},
	{op: "gemm.batched.forward", dtypes: common, shapes: []string{"H=64,M=64,K=64,N=64"}},
	{op: "gemm.grouped.forward", dtypes: common, shapes: []string{"M=4096,K=1024,G=8,N=384", "M=4096,K=384,G=8,N=1024"}},
	{op: "gemm.grouped.grad_a", dtypes: common, shapes: []string{"M=4096,N=384,G=8,K=1024"}},
	{op: "gemm.grouped.grad_b", dtypes: common, shapes: []string{"M=4096,K=1024,N=384,G=8"}},
	{op: "attention.forward", dtypes: common, shapes: attentionShapes},
	{op: "attention.backward", dtypes: common, shapes: attentionShapes},
	{op: "gelu.forward", dtypes: []num.DType{num.F32}, shapes: []string{"R=1,C=1000"}},
	{op: "softmax.forward", dtypes: []num.DType{num.F32}, shapes: []string{"R=1,C=1000"}},
	{op: "layernorm.forward", dtypes: []num.DType{num.F32}, shapes: []string{"R=1,C=1000"}},
}

// attentionShapes are sequences of 1,024 tokens with heads of 64 columns, and of 64 tokens with heads of 32.
var attentionShapes = []string{"T=4096,G=8,J=1,D=64,S=4096,B=4", "T=4096,G=4,J=1,D=32,S=4096,B=64"}

// ofNormal gives rows of normally distributed numbers, whose mean square is about 1, their reciprocal root.
// A peer that computes it again then has nearly the same results.
var ofNormal = map[string]op.Element{"rstd": func(*gen.Generator, int, int) float32 { return 1 }}

var (
	all    = []num.DType{num.F32, num.F16, num.BF16}
	common = []num.DType{num.F32, num.BF16}
)

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
				c, err := row.newCase(operations[i], t, shape, f.Sizes)
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

func (r *row) newCase(o *op.Operation, t num.DType, shape string, sizes map[string]int) (*Case, error) {
	c := &Case{Operation: o, Data: o.UsualData(), DType: t}
	if i := slices.IndexFunc(o.Data, func(d op.Data) bool { return d.Name == r.data }); i >= 0 {
		c.Data = o.Data[i]
	}
	d := c.Data.Definition
	if c.DTypes = d.DTypes(t); c.DTypes == nil {
		return nil, fmt.Errorf("%s cannot be stored in %v", d.Name, t)
	}
	if r.values != nil {
		c.Data.Values = maps.Clone(c.Data.Values)
		maps.Copy(c.Data.Values, r.values)
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
	return c, c.setParams(r.given)
}

// setParams sets parameters: those given, those of the data, and the gradient of the mean of a loss,
// which every library has. An operation that derives its own has only those that are given.
func (c *Case) setParams(given map[string]float64) error {
	d := c.Data.Definition
	all := map[string]float64{}
	if c.Operation.Derive == nil {
		for i, p := range d.Params {
			all[p.Name] = c.Data.Params[i]
		}
		if slices.ContainsFunc(d.Operands, func(o def.Operand) bool { return o.Name == "label" }) {
			all["scale"] = 1 / float64(c.Data.Sizes["R"])
		}
	}
	maps.Copy(all, given)
	c.Given = all
	used := all
	if derive := c.Operation.Derive; derive != nil {
		var err error
		if used, err = derive(d, maps.Clone(all)); err != nil {
			return err
		}
	}
	c.Data.Params = make([]float64, len(d.Params))
	for i, p := range d.Params {
		c.Data.Params[i] = used[p.Name]
	}
	return nil
}

// Name returns the name of the operation, and of the kind of data if it is not the first.
func (c *Case) Name() string {
	if c.Data.Name == c.Operation.Data[0].Name {
		return c.Operation.Name
	}
	return c.Operation.Name + " " + c.Data.Name
}

// Shape returns the sizes as text: R=4096,C=1024.
func (c *Case) Shape() string {
	var parts []string
	for _, letter := range c.Data.Definition.Sizes() {
		parts = append(parts, fmt.Sprintf("%s=%d", letter, c.Data.Sizes[letter]))
	}
	return strings.Join(parts, ",")
}

func (c *Case) String() string { return fmt.Sprintf("%s %v %s", c.Name(), c.DType, c.Shape()) }

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
