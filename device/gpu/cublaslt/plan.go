package cublaslt

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"tokitai/device/gpu/driver"
)

// Type is a storage format.
type Type uint8

const (
	F32 Type = iota
	F16
	BF16
)

func (t Type) String() string { return [...]string{F32: "f32", F16: "f16", BF16: "bf16"}[t] }

// cudaType returns the format's cudaDataType_t.
func (t Type) cudaType() uintptr { return [...]uintptr{F32: 0, F16: 2, BF16: 14}[t] }

// Matrix is an operand as it is stored: row after row.
type Matrix struct {
	Stride      int  // elements from one row to the next
	BatchStride int  // elements from one matrix to the next
	Alignment   int  // of the address, in bytes; at most MaxAlignment
	Transpose   bool // the columns of what is stored are the rows of the factor
}

// MaxAlignment is the largest alignment that the library distinguishes.
const MaxAlignment = 256

// AlignmentOf returns the alignment of an address, up to MaxAlignment.
func AlignmentOf(address uint64) int {
	return 1 << min(bits.TrailingZeros64(address), bits.Len(MaxAlignment)-1)
}

// Problem is a product of row-major matrices, or many of the same sizes:
//
//	result[m,n] = sum over k of left[m,k]·right[k,n]   (+ result[m,n])
//
// Problems are comparable.
type Problem struct {
	In, Out             Type // of both factors, and of the result
	Rows, Cols, Depth   int
	Batch               int // number of products
	Accumulate          bool
	Left, Right, Result Matrix
}

func (p Problem) String() string {
	var b strings.Builder
	if p.Batch != 1 {
		fmt.Fprintf(&b, "%d × ", p.Batch)
	}
	fmt.Fprintf(&b, "%d×%d×%d in %s", p.Rows, p.Cols, p.Depth, p.In)
	if p.Out != p.In {
		fmt.Fprintf(&b, " to %s", p.Out)
	}
	for _, m := range []struct {
		name string
		Matrix
	}{{"left", p.Left}, {"right", p.Right}, {"result", p.Result}} {
		fmt.Fprintf(&b, ", %s with rows of %d elements at a multiple of %d bytes", m.name, m.Stride, m.Alignment)
	}
	return b.String()
}

// UnsupportedError reports a problem that the library has no algorithm for.
type UnsupportedError struct {
	Library string
	Problem Problem
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s has no algorithm for %v", e.Library, e.Problem)
}

// MaxWorkspace is how much memory an algorithm may use besides the operands, in bytes.
const MaxWorkspace = 32 << 20

// Algorithm is what the library chose for a problem, by the numbers of cublasLt.h.
type Algorithm struct {
	ID         int
	Tile       int // cublasLtMatmulTile_t
	Stages     int // cublasLtMatmulStages_t
	SplitK     int // parts of a sum that different blocks compute; 0 and 1 are a whole sum
	Reduction  int // cublasLtReductionScheme_t: how the parts are added
	Swizzle    int
	Custom     int
	InnerShape int
	Cluster    int // cublasLtClusterShape_t
	Workspace  int64
}

// String names what differs between algorithms: algorithm 66, tile 23, stages 36, cluster 3.
func (a Algorithm) String() string {
	text := fmt.Sprintf("algorithm %d, tile %d, stages %d", a.ID, a.Tile, a.Stages)
	for _, part := range []struct {
		name  string
		value int
	}{{"inner shape", a.InnerShape}, {"cluster", a.Cluster}, {"custom", a.Custom}, {"swizzle", a.Swizzle}} {
		if part.value != 0 {
			text += fmt.Sprintf(", %s %d", part.name, part.value)
		}
	}
	if a.SplitK > 1 {
		text += fmt.Sprintf(", split-K %d, reduction %d", a.SplitK, a.Reduction)
	}
	return text
}

// Handle is the library's state on one device, with the plans made so far.
type Handle struct {
	library *Library
	handle  uintptr
	frame   frame
	plans   map[Problem]*Plan
}

// maxPlans is how many plans a handle keeps.
const maxPlans = 4096

// NewHandle returns a handle for the device whose context is current.
func (l *Library) NewHandle() (*Handle, error) {
	h := &Handle{library: l, plans: map[Problem]*Plan{}}
	var err error
	h.handle, err = l.made("cublasLtCreate", l.create, &h.frame)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Library returns the library of the handle.
func (h *Handle) Library() *Library { return h.library }

// Close releases the plans and the handle.
func (h *Handle) Close() error {
	h.dropPlans()
	h.frame.args[0] = h.handle
	return h.library.failure("cublasLtDestroy", h.library.destroy.Call(h.frame.args[:1]))
}

func (h *Handle) dropPlans() {
	for _, p := range h.plans {
		p.close()
	}
	clear(h.plans)
}

// Plan is a problem with the algorithm for it. It is valid until the handle's next call
// of Plan with a new problem.
type Plan struct {
	Algorithm Algorithm

	handle              *Handle
	product             uintptr
	left, right, result uintptr // layouts
	algorithm           [8]uint64
	alpha, beta         float32
}

// Attributes and values of cublasLt.h.
const (
	compute32F = 68
	realType   = 0 // CUDA_R_32F

	productTransposeA = 3 // CUBLASLT_MATMUL_DESC_TRANSA
	productTransposeB = 4
	transposed        = 1 // CUBLAS_OP_T

	layoutBatchCount  = 5
	layoutBatchStride = 6

	preferMaxWorkspace = 1
	preferReductions   = 3
	preferAlignment    = 5 // of A; those of B, C and D follow

	reductionComputeType = 2 // parts are stored and added in binary32

	configID, configTile, configSplitK, configReduction, configSwizzle = 0, 1, 2, 3, 4
	configCustom, configStages, configInnerShape, configCluster        = 5, 6, 7, 8
)

// Plan returns the plan of a problem. If the library has no algorithm for it, the error is
// an UnsupportedError.
func (h *Handle) Plan(problem Problem) (*Plan, error) {
	if p, ok := h.plans[problem]; ok {
		return p, nil
	}
	if len(h.plans) >= maxPlans {
		h.dropPlans()
	}
	p, err := h.newPlan(&problem)
	if err != nil {
		if e, ok := errors.AsType[*driver.Error](err); ok && e.Code == statusNotSupported {
			return nil, &UnsupportedError{Library: h.library.String(), Problem: problem}
		}
		return nil, fmt.Errorf("%v: %w", problem, err)
	}
	h.plans[problem] = p
	return p, nil
}

func (h *Handle) newPlan(problem *Problem) (*Plan, error) {
	if problem.Batch < 1 || problem.Batch > math.MaxInt32 {
		return nil, fmt.Errorf("got %d products, want 1 to %d", problem.Batch, math.MaxInt32)
	}
	p := &Plan{handle: h, alpha: 1}
	if problem.Accumulate {
		p.beta = 1
	}
	err := p.describe(problem)
	if err == nil {
		err = p.choose(problem)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// describe makes the descriptors. The library's matrices are column-major, and memory that
// holds a matrix row after row holds its transpose column after column. So the library is
// asked for the transposed product, right·left: its A is our right factor, its B our left.
func (p *Plan) describe(problem *Problem) (err error) {
	l, f := p.handle.library, &p.handle.frame
	if p.product, err = l.made("cublasLtMatmulDescCreate", l.newProduct, f, compute32F, realType); err != nil {
		return err
	}
	for attribute, transpose := range map[int]bool{productTransposeA: problem.Right.Transpose, productTransposeB: problem.Left.Transpose} {
		if !transpose {
			continue
		}
		if err := l.set("cublasLtMatmulDescSetAttribute", l.setProduct, f, p.product, attribute, transposed, 4); err != nil {
			return err
		}
	}
	if p.right, err = p.layout(problem, &problem.Right, problem.In, problem.Depth, problem.Cols); err != nil {
		return err
	}
	if p.left, err = p.layout(problem, &problem.Left, problem.In, problem.Rows, problem.Depth); err != nil {
		return err
	}
	p.result, err = p.layout(problem, &problem.Result, problem.Out, problem.Rows, problem.Cols)
	return err
}

// layout describes a factor of rows×cols, or the result.
func (p *Plan) layout(problem *Problem, m *Matrix, t Type, rows, cols int) (uintptr, error) {
	l, f := p.handle.library, &p.handle.frame
	if m.Transpose {
		rows, cols = cols, rows
	}
	layout, err := l.made("cublasLtMatrixLayoutCreate", l.newLayout, f, t.cudaType(), uintptr(cols), uintptr(rows), uintptr(m.Stride))
	if err != nil || problem.Batch == 1 {
		return layout, err
	}
	const call = "cublasLtMatrixLayoutSetAttribute"
	if err := l.set(call, l.setLayout, f, layout, layoutBatchCount, uint64(problem.Batch), 4); err != nil {
		return layout, err
	}
	return layout, l.set(call, l.setLayout, f, layout, layoutBatchStride, uint64(m.BatchStride), 8)
}

// firstRoundsTwice is the number of the first algorithm that rounds a product to 16 bits
// before it adds the old result. Those from here on came with Hopper.
const firstRoundsTwice = 66

// roundsTwice reports whether an algorithm's results are not sums in binary32, rounded
// once.
func (p *Problem) roundsTwice(a *Algorithm) bool {
	return p.Accumulate && p.Out != F32 && a.ID >= firstRoundsTwice
}

// choose asks the library for its best algorithm, and for more where that may round twice.
func (p *Plan) choose(problem *Problem) error {
	l, f := p.handle.library, &p.handle.frame
	wanted := 1
	if problem.Accumulate && problem.Out != F32 {
		wanted = maxCandidates
	}
	preference, err := l.made("cublasLtMatmulPreferenceCreate", l.newPreference, f)
	if err != nil {
		return err
	}
	defer func() {
		f.args[0] = preference
		l.freePreference.Call(f.args[:1])
	}()
	result := uint64(problem.Result.Alignment)
	for _, a := range []struct {
		attribute int
		value     uint64
		bytes     uintptr
	}{
		{preferMaxWorkspace, MaxWorkspace, 8},
		{preferReductions, reductionComputeType, 4},
		{preferAlignment, uint64(problem.Right.Alignment), 4},
		{preferAlignment + 1, uint64(problem.Left.Alignment), 4},
		{preferAlignment + 2, result, 4},
		{preferAlignment + 3, result, 4},
	} {
		if err := l.set("cublasLtMatmulPreferenceSetAttribute", l.setPreference, f, preference, a.attribute, a.value, a.bytes); err != nil {
			return err
		}
	}
	f.found, f.count = [maxCandidates]heuristicResult{}, 0
	f.args = [16]uintptr{p.handle.handle, p.product, p.right, p.left, p.result, p.result, preference, uintptr(wanted), address(&f.found), address(&f.count)}
	const call = "cublasLtMatmulAlgoGetHeuristic"
	if err := l.failure(call, l.heuristic.Call(f.args[:10])); err != nil {
		return err
	}
	for i := range f.found[:min(int(f.count), wanted)] {
		found := &f.found[i]
		if found.state != statusSuccess {
			continue
		}
		p.algorithm = found.algorithm
		if p.Algorithm, err = l.describe(p, f); err != nil {
			return err
		}
		if p.Algorithm.Workspace = int64(found.workspace); !problem.roundsTwice(&p.Algorithm) {
			return nil
		}
	}
	return &driver.Error{Call: call, Code: statusNotSupported}
}

// describe reads the configuration of a plan's algorithm. A figure that the algorithm does
// not have stays 0.
func (l *Library) describe(p *Plan, f *frame) (a Algorithm, err error) {
	for _, c := range []struct {
		attribute int
		bytes     uintptr
		into      *int
		isNeeded  bool
	}{
		{configID, 4, &a.ID, true}, {configSplitK, 4, &a.SplitK, true}, {configReduction, 4, &a.Reduction, true},
		{configTile, 4, &a.Tile, false}, {configStages, 4, &a.Stages, false}, {configSwizzle, 4, &a.Swizzle, false},
		{configCustom, 4, &a.Custom, false}, {configInnerShape, 2, &a.InnerShape, false}, {configCluster, 2, &a.Cluster, false},
	} {
		f.value, f.size = 0, 0
		f.args = [16]uintptr{address(&p.algorithm), uintptr(c.attribute), address(&f.value), c.bytes, address(&f.size)}
		err := l.failure("cublasLtMatmulAlgoConfigGetAttribute", l.config.Call(f.args[:5]))
		if err == nil {
			*c.into = int(int32(f.value))
		} else if c.isNeeded {
			return a, err
		}
	}
	return a, nil
}

// Run submits the product to a stream. Workspace is the address of Algorithm.Workspace
// bytes. It does not wait.
func (p *Plan) Run(stream driver.Stream, left, right, result, workspace driver.Pointer) error {
	l, f := p.handle.library, &p.handle.frame
	f.args = [16]uintptr{
		p.handle.handle, p.product,
		address(&p.alpha), uintptr(right), p.right, uintptr(left), p.left,
		address(&p.beta), uintptr(result), p.result, uintptr(result), p.result,
		address(&p.algorithm), uintptr(workspace), uintptr(p.Algorithm.Workspace), uintptr(stream),
	}
	return l.failure("cublasLtMatmul", l.matmul.Call(f.args[:16]))
}

func (p *Plan) close() {
	l, f := p.handle.library, &p.handle.frame
	for _, layout := range []uintptr{p.left, p.right, p.result} {
		if layout != 0 {
			f.args[0] = layout
			l.freeLayout.Call(f.args[:1])
		}
	}
	if p.product != 0 {
		f.args[0] = p.product
		l.freeProduct.Call(f.args[:1])
	}
}
