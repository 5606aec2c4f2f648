package stdio

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

// kernel is one row of the table.
type kernel struct {
	name      string
	header    string           // its tokens: integers, but for those of hyperFields
	further   map[int64]string // tokens that follow those, by the first integer
	sizeCode  int              // of a size out of range, and of more memory than there may be
	checks    []check          // of the header's integers, in the order of the codes
	separator byte             // between the numbers of a response
	form      func(integers func(name string) int, h adamw.Hyper) form

	// refuse calls the operation to check the hyper-parameters of a header that is otherwise
	// valid; nil if there are none.
	refuse func(q *Request) error
}

// check is a rule for integers of a header: their range, and what divides them unless it
// is 0. It skips integers that the header does not have.
type check struct {
	code     int
	names    string
	min, max int64
	multiple int64
}

func from(code int, names string, min, max int64) check { return check{code, names, min, max, 0} }

func multiples(code int, names string, of, max int64) check { return check{code, names, of, max, of} }

func (c *check) holds(v int64) bool {
	return c.min <= v && v <= c.max && (c.multiple == 0 || v%c.multiple == 0)
}

// String returns what the check wants.
func (c *check) String() string {
	switch {
	case c.multiple != 0:
		return fmt.Sprintf("a multiple of %d from %d to %d", c.multiple, c.min, c.max)
	case c.max == math.MaxInt64:
		return fmt.Sprintf("at least %d", c.min)
	}
	return fmt.Sprintf("%d to %d", c.min, c.max)
}

// form is what a header determines about the rest of the request and the response.
type form struct {
	lists   []list
	first   line   // before all others, where its key is not empty
	lines   []line // from GFX to KERNEL_TIME_MS
	results []list
	inPlace bool // the results are the first lists, changed

	run func(q *engine.Queue, in, out []*tensor.Tensor, opts ...engine.CallOption) error
}

// list is an operand.
type list struct {
	name  string // in a response its key
	code  int    // of an error in it
	dtype num.DType
	shape []int
	limit uint32 // of integers
}

// line is KEY=value.
type line struct {
	key, value string
	isLayout   bool // how the work is divided: another program may do otherwise
}

func f16(name string, code int, shape ...int) list {
	return list{name, code, num.F16, shape, math.MaxUint16}
}

func f32(name string, code int, shape ...int) list {
	return list{name, code, num.F32, shape, 0}
}

func said(key string, n int) line   { return line{key, strconv.Itoa(n), false} }
func layout(key string, n int) line { return line{key, strconv.Itoa(n), true} }

const maxSize = math.MaxInt32

var kernels = []kernel{
	{
		name: "embedding", header: "Q D V OP", sizeCode: 3, separator: ' ',
		checks: []check{from(3, "Q D V", 1, maxSize), from(4, "OP", 0, 1)},
		form: func(h func(string) int, _ adamw.Hyper) form {
			q, d, v := h("Q"), h("D"), h("V")
			index := list{"index", 5, num.I32, []int{q}, uint32(v - 1)}
			lines := func(op string, rows int) []line {
				return []line{{key: "OP", value: op}, said("N_QUERIES", q), said("EMBEDDING_DIM", d), said("VOCAB_SIZE", v),
					layout("GRID_X", rows), layout("GRID_Y", 1), layout("BLOCK", d)}
			}
			if h("OP") == 1 {
				return form{lists: []list{index, f16("grad_output", 6, q, d)}, lines: lines("backward", v), results: []list{f16("OUTPUT", 0, v, d)},
					run: func(queue *engine.Queue, in, out []*tensor.Tensor, opts ...engine.CallOption) error {
						return embedding.Backward(queue, out[0], in[0], in[1], opts...)
					}}
			}
			return form{lists: []list{index, f16("weight", 6, v, d)}, lines: lines("forward", q), results: []list{f16("OUTPUT", 0, q, d)},
				run: func(queue *engine.Queue, in, out []*tensor.Tensor, opts ...engine.CallOption) error {
					return embedding.Forward(queue, out[0], in[0], in[1], opts...)
				}}
		},
	},
	{
		name: "softmax", header: "MODE R C", sizeCode: 4, separator: ',',
		checks: []check{from(3, "MODE", 0, 1), from(4, "R C", 1, maxSize)},
		form: func(h func(string) int, _ adamw.Hyper) form {
			r, c := h("R"), h("C")
			f := form{
				lines:   []line{said("N_ROWS", r), said("N_COLS", c), layout("GRID", r), layout("BLOCK", c)},
				results: []list{f16("OUTPUT", 0, r, c)},
			}
			if h("MODE") == 1 {
				f.first, f.lists = line{key: "BACKEND", value: "grad_loss_wrt_logits"}, []list{f16("grad_output", 6, r, c), f16("softmax_output", 7, r, c)}
				f.run = func(q *engine.Queue, in, out []*tensor.Tensor, opts ...engine.CallOption) error {
					return softmax.Backward(q, out[0], in[0], in[1], opts...)
				}
				return f
			}
			f.first, f.lists = line{key: "BACKEND", value: "softmax_fwd"}, []list{f16("input", 5, r, c)}
			f.run = func(q *engine.Queue, in, out []*tensor.Tensor, opts ...engine.CallOption) error {
				return softmax.Forward(q, out[0], in[0], opts...)
			}
			return f
		},
	},
	{
		name: "gemm-bw", header: "ID M N K", sizeCode: 4, separator: ' ',
		checks: []check{from(3, "ID", 1, 2), from(4, "M N K", 1, maxSize)},
		form: func(h func(string) int, _ adamw.Hyper) form {
			id, m, n, k := h("ID"), h("M"), h("N"), h("K")
			gradC := f16("grad_C", 7, m, n)
			lines := []line{said("KERNEL_ID", id), said("M", m), said("N", n), said("K", k)}
			if id == 2 {
				return form{lists: []list{gradC, f16("A", 9, m, k)}, lines: append(lines, tiles(k, n)...), results: []list{f16("RESULTS", 0, k, n)},
					run: func(q *engine.Queue, in, out []*tensor.Tensor, opts ...engine.CallOption) error {
						return gemm.GradB(q, out[0], in[1], in[0], opts...)
					}}
			}
			return form{lists: []list{gradC, f16("B", 8, k, n)}, lines: append(lines, tiles(m, k)...), results: []list{f16("RESULTS", 0, m, k)},
				run: func(q *engine.Queue, in, out []*tensor.Tensor, opts ...engine.CallOption) error {
					return gemm.GradA(q, out[0], in[0], in[1], opts...)
				}}
		},
	},
	{
		name: "gelu-bwd", header: "N", sizeCode: 3, separator: ' ',
		checks: []check{from(3, "N", 1, maxSize)},
		form: func(h func(string) int, _ adamw.Hyper) form {
			n := h("N")
			return form{lists: []list{f16("grad_output", 4, n), f16("input", 5, n)}, lines: chunks(n), results: []list{f16("RESULTS", 0, n)},
				run: func(q *engine.Queue, in, out []*tensor.Tensor, opts ...engine.CallOption) error {
					return gelu.Backward(q, out[0], in[0], in[1], opts...)
				}}
		},
	},
	{
		name: "adamw", header: "N LR BETA1 BETA2 EPS WEIGHT_DECAY T", sizeCode: 3, separator: ',',
		checks: []check{from(3, "N", 1, maxSize), from(4, "T", 1, math.MaxInt32)},
		form: func(h func(string) int, hyper adamw.Hyper) form {
			n, t := h("N"), h("T")
			return form{
				lists:   []list{f16("theta", 5, n), f32("m", 6, n), f32("v", 7, n), f16("grad", 8, n)},
				lines:   chunks(n),
				results: []list{f16("THETA", 0, n), f32("M", 0, n), f32("V", 0, n)}, inPlace: true,
				run: func(q *engine.Queue, in, _ []*tensor.Tensor, opts ...engine.CallOption) error {
					state := adamw.State{Weight: in[0], M: in[1], V: in[2]}
					return adamw.Step(q, adamw.Update{State: state, Grad: in[3], Hyper: hyper, T: t}, opts...)
				}}
		},
		refuse: func(q *Request) error { // it depends on T whether binary32 can hold a step
			return adamw.Step(nil, adamw.Update{Hyper: q.Hyper, T: int(q.Integers[1])})
		},
	},
	{
		name: "gemm", header: "M N K", sizeCode: 3, separator: ' ',
		checks: []check{from(3, "M N K", 1, maxSize)},
		form: func(h func(string) int, _ adamw.Hyper) form {
			m, n, k := h("M"), h("N"), h("K")
			return form{
				lists: []list{f16("A", 4, m, k), f16("B", 5, k, n)}, results: []list{f32("RESULTS", 0, m, n)},
				lines: append([]line{said("M", m), said("N", n), said("K", k)}, tiles(m, n)...),
				run: func(q *engine.Queue, in, out []*tensor.Tensor, opts ...engine.CallOption) error {
					return gemm.Forward(q, out[0], in[0], in[1], opts...)
				}}
		},
	},
	{
		name: "gelu", header: "N", sizeCode: 3, separator: ' ',
		checks: []check{from(3, "N", 1, maxSize)},
		form: func(h func(string) int, _ adamw.Hyper) form {
			n := h("N")
			return form{lists: []list{f16("input", 4, n)}, lines: chunks(n), results: []list{f16("RESULTS", 0, n)},
				run: func(q *engine.Queue, in, out []*tensor.Tensor, opts ...engine.CallOption) error {
					return gelu.Forward(q, out[0], in[0], opts...)
				}}
		},
	},
	{
		name: "layernorm", header: "OP R C BLOCK EPS", further: map[int64]string{2: "GRAD_BLOCK"}, sizeCode: 4, separator: ',',
		checks: []check{from(3, "OP", 1, 2), from(4, "R C", 1, maxSize), from(4, "BLOCK GRAD_BLOCK", 1, math.MaxInt64),
			multiples(5, "BLOCK", 32, 1024), multiples(15, "GRAD_BLOCK", 32, 1024)},
		form: func(h func(string) int, hyper adamw.Hyper) form {
			r, c := h("R"), h("C")
			gamma, beta := f16("gamma", 6, c), f16("beta", 7, c)
			lines := []line{said("N_ROWS", r), said("N_COLS", c), said("BLOCK_SIZE", h("BLOCK")), layout("GRID_X", r)}
			if h("OP") == 2 {
				return form{
					first: line{key: "OP", value: "backward"}, lines: append(lines, said("GRAD_BLOCK_SIZE", h("GRAD_BLOCK")), layout("GRAD_GRID_X", c)),
					// The mean and rstd of fp16 are read and not used.
					lists: []list{gamma, beta, f16("grad_output", 9, r, c), f16("input", 16, r, c),
						f16("mean_u16", 11, r), f16("rstd_u16", 12, r), f32("mean", 13, r), f32("rstd", 14, r)},
					results: []list{f16("GRAD_INPUT", 0, r, c), f16("GRAD_GAMMA", 0, c), f16("GRAD_BETA", 0, c)},
					run: func(q *engine.Queue, in, out []*tensor.Tensor, opts ...engine.CallOption) error {
						return layernorm.Backward(q, out[0], out[1], out[2], in[2], in[3], in[0], in[6], in[7], opts...)
					}}
			}
			return form{
				first: line{key: "OP", value: "forward"}, lines: lines, lists: []list{gamma, beta, f16("input", 8, r, c)},
				results: []list{f16("OUTPUT", 0, r, c), f32("MEAN", 0, r), f32("RSTD", 0, r)},
				run: func(q *engine.Queue, in, out []*tensor.Tensor, opts ...engine.CallOption) error {
					return layernorm.Forward(q, out[0], out[1], out[2], in[2], in[0], in[1], layernorm.Params{Eps: hyper.Eps}, opts...)
				}}
		},
		refuse: func(q *Request) error {
			return engine.CheckParams(layernorm.ForwardDefinition, []float64{q.Hyper.Eps})
		},
	},
}

// tiles divides a matrix into squares.
func tiles(rows, cols int) []line {
	const side = 16
	return []line{layout("GRID_X", (cols+side-1)/side), layout("GRID_Y", (rows+side-1)/side), layout("BLOCK_X", side), layout("BLOCK_Y", side)}
}

// chunks divides a vector.
func chunks(n int) []line {
	const chunk = 1024
	return []line{said("N", n), layout("GRID", (n+chunk-1)/chunk), layout("BLOCK", chunk)}
}

// hyperFields are the tokens of headers that are real numbers, each finite, at least 0, and
// below the limit. adamw has all of them.
var hyperFields = []struct {
	name  string
	limit float64
	of    func(*adamw.Hyper) *float64
}{
	{"LR", math.Inf(1), func(h *adamw.Hyper) *float64 { return &h.LR }},
	{"BETA1", 1, func(h *adamw.Hyper) *float64 { return &h.Beta1 }},
	{"BETA2", 1, func(h *adamw.Hyper) *float64 { return &h.Beta2 }},
	{"EPS", math.Inf(1), func(h *adamw.Hyper) *float64 { return &h.Eps }},
	{"WEIGHT_DECAY", math.Inf(1), func(h *adamw.Hyper) *float64 { return &h.WeightDecay }},
}

// Kernels returns the names of the kernels.
func Kernels() []string {
	names := make([]string, len(kernels))
	for i := range kernels {
		names[i] = kernels[i].name
	}
	return names
}

// Header returns the tokens that a request of a kernel begins with: "MODE R C" for softmax.
func Header(kernel string) string {
	k, err := find(kernel)
	if err != nil {
		return ""
	}
	return k.header
}

func find(name string) (*kernel, error) {
	for i := range kernels {
		if kernels[i].name == name {
			return &kernels[i], nil
		}
	}
	return nil, refuse(CodeUsage, "unknown kernel %q, want one of %s", name, strings.Join(Kernels(), ", "))
}

// elems is the number of elements.
func (l *list) elems() int {
	n := 1
	for _, size := range l.shape {
		n *= size
	}
	return n
}

// bytes is how many bytes the operands take, as much as an int64 can say.
func (f *form) bytes() int64 {
	operands := f.lists
	if !f.inPlace {
		operands = append(operands[:len(operands):len(operands)], f.results...)
	}
	total := int64(0)
	for i := range operands {
		n := int64(operands[i].dtype.Size())
		for _, size := range operands[i].shape {
			if n > math.MaxInt64/int64(size) {
				return math.MaxInt64
			}
			n *= int64(size)
		}
		if total += n; total < 0 {
			return math.MaxInt64
		}
	}
	return total
}
