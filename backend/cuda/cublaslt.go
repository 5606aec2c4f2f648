package cuda

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"tokitai/backend/gpu"
	"tokitai/def"
	"tokitai/device"
	devicegpu "tokitai/device/gpu"
	"tokitai/device/gpu/cublaslt"
	"tokitai/device/gpu/driver"
	"tokitai/engine"
	"tokitai/lower"
	lowergpu "tokitai/lower/gpu"
	"tokitai/num"
	"tokitai/promise"
)

// cublasLt computes products with NVIDIA's library. The library chooses an algorithm by
// the sizes, strides and alignment of a call, and may divide sums as it likes: the result
// is bounded, and only a name chooses it.
var cublasLt = &engine.Lowering{
	Name: Kind + ".cublaslt", Device: Kind, Library: "cuBLASLt", OpenLibrary: openCublasLt,
	Factors: num.FloatDTypes, Promise: engine.Promise{Name: promise.Ordered, AccumFor: cublasLtAccum}, Suits: suitsCublasLt, Compile: compileCublasLt,
}

func openCublasLt() (engine.Compiler, error) {
	l, err := cublaslt.Open()
	if err != nil {
		return nil, err // not a nil *Library in an interface
	}
	return l, nil
}

// cublasLtAccum returns the arithmetic in which the library's sums are bounded: that of
// the tensor cores for 16-bit factors, and fused multiply-adds for f32. An architecture
// whose rule is not known is given the coarsest that any has, Volta's.
func cublasLtAccum(architecture string, dtypes []num.DType, _, _ int) def.Accum {
	if dtypes[0] == num.F32 {
		return def.FMAChain
	}
	if m, ok := lowergpu.TensorCoreAccum(architecture); ok {
		return m
	}
	return def.MMA(4, 23)
}

// cublasLtTypes maps storage formats to the library's.
var cublasLtTypes = map[num.DType]cublaslt.Type{num.F32: cublaslt.F32, num.F16: cublaslt.F16, num.BF16: cublaslt.BF16}

// suitsCublasLt returns an error if the library does not compute a call. One that is not
// there suits every call that it would: compiling says what is missing.
func suitsCublasLt(dev device.Device, d *def.Definition, c *lower.Call) error {
	dtypes := make([]num.DType, len(c.Operands))
	for i := range c.Operands {
		dtypes[i] = c.Operands[i].DType
	}
	k, err := newProduct(dev, d, dtypes)
	if err != nil {
		return err
	}
	if k.handle, err = handleOf(k.device); err != nil {
		return nil
	}
	_, err = k.Choice(c)
	if e, ok := errors.AsType[*cublaslt.UnsupportedError](err); ok {
		return e
	}
	return nil
}

func compileCublasLt(dev device.Device, d *def.Definition, dtypes []num.DType, _ int) (engine.Kernel, error) {
	k, err := newProduct(dev, d, dtypes)
	if err != nil {
		return nil, err
	}
	if k.handle, err = handleOf(k.device); err != nil {
		return nil, err
	}
	return k, nil
}

// newProduct returns a product that lacks the library's handle, or an error if the library
// cannot compute the definition in the formats.
func newProduct(dev device.Device, d *def.Definition, dtypes []num.DType) (*product, error) {
	g, ok := dev.(*gpu.Device)
	switch {
	case !ok:
		return nil, fmt.Errorf("got a device that is no GPU, want one of kind %s", Kind)
	case d.Product() == nil:
		return nil, fmt.Errorf("cuBLASLt computes contractions, got %s", d.Name)
	case d.Groups().Offsets != "":
		return nil, fmt.Errorf("cuBLASLt takes no groups whose sizes are in the device's memory, as %s has them in %s", d.Name, d.Groups().Offsets)
	case len(d.Operands) != 3:
		return nil, fmt.Errorf("cuBLASLt takes two factors and a result, got the %d operands of %s", len(d.Operands), d.Name)
	}
	k := &product{d: d, device: g.Device}
	for i, to := range []*cublaslt.Type{&k.in, &k.in, &k.out} {
		if *to, ok = cublasLtTypes[dtypes[i]]; !ok || i == 1 && dtypes[1] != dtypes[0] {
			return nil, fmt.Errorf("cuBLASLt is not used for %s in %v", d.Name, dtypes)
		}
	}
	return k, nil
}

// handles holds the library's handle on each device that has used it.
var handles struct {
	sync.Mutex
	of map[*devicegpu.Device]*cublaslt.Handle
}

// handleOf returns the library's handle on a device, until the device is closed.
func handleOf(dev *devicegpu.Device) (*cublaslt.Handle, error) {
	library, err := cublaslt.Open()
	if err != nil {
		return nil, err
	}
	handles.Lock()
	defer handles.Unlock()
	if h := handles.of[dev]; h != nil {
		return h, nil
	}
	var h *cublaslt.Handle
	if err := dev.Do("open cuBLASLt", func() (err error) { h, err = library.NewHandle(); return err }); err != nil {
		return nil, err
	}
	if err := dev.OnClose(func() error {
		handles.Lock()
		delete(handles.of, dev)
		handles.Unlock()
		return h.Close()
	}); err != nil {
		return nil, err
	}
	if handles.of == nil {
		handles.of = map[*devicegpu.Device]*cublaslt.Handle{}
	}
	handles.of[dev] = h
	return h, nil
}

// product is a contraction computed by cuBLASLt.
type product struct {
	d       *def.Definition
	device  *devicegpu.Device
	handle  *cublaslt.Handle
	in, out cublaslt.Type
}

// part is some of the products of a call whose matrices are equally far apart.
type part struct {
	problem             cublaslt.Problem
	left, right, result driver.Pointer
}

// maxBatch is how many products the library takes at once.
const maxBatch = 65535

// parts divides a call into as few parts as its strides allow.
func (k *product) parts(c *lower.Call) []part {
	left, right, result := c.OfProduct(k.d)
	var z lower.Products
	z.Set(k.d, &left.Array, &right.Array, &result.Array)
	run := linearRun(&z)
	at := func(o *lower.Operand, w *lower.Walk, i int) driver.Pointer {
		return driver.Pointer(o.Address() + uint64(w.Offset(i)*o.DType.Size()))
	}
	var list []part
	for i, n := 0, 0; i < z.Count; i += n {
		n = min(run-i%run, maxBatch)
		p := part{left: at(left, &z.Left, i), right: at(right, &z.Right, i), result: at(result, &z.Result, i)}
		matrix := func(o *lower.Operand, w *lower.Walk, address driver.Pointer, transpose bool) cublaslt.Matrix {
			m := cublaslt.Matrix{Stride: o.Stride, Alignment: cublaslt.AlignmentOf(uint64(address)), Transpose: transpose}
			if n > 1 {
				m.BatchStride = w.Offset(i+1) - w.Offset(i)
			}
			return m
		}
		p.problem = cublaslt.Problem{
			In: k.in, Out: k.out, Rows: z.Rows, Cols: z.Cols, Depth: z.Depth, Batch: n, Accumulate: k.d.Accumulates(),
			Left:   matrix(left, &z.Left, p.left, k.d.Product().TransposeLeft),
			Right:  matrix(right, &z.Right, p.right, k.d.Product().TransposeRight),
			Result: matrix(result, &z.Result, p.result, false),
		}
		list = append(list, p)
	}
	return list
}

// linearRun returns the largest number of successive products, from a multiple of it on,
// whose matrices are equally far apart in every operand. It divides the number of all.
//
// An operand's index is written in the digits of its batch axes. Its offset is additive
// in them, so a run is linear if every digit within it has the stride of the first
// product times the digit's weight.
func linearRun(z *lower.Products) int {
	walks := []*lower.Walk{&z.Left, &z.Right, &z.Result}
	var weights []int
	for _, w := range walks {
		weights = append(weights, weightsOf(w)...)
	}
	weights = append(weights, 1, z.Count)
	slices.Sort(weights)
	for _, run := range slices.Backward(slices.Compact(weights)) {
		if run <= z.Count && z.Count%run == 0 && !slices.ContainsFunc(walks, func(w *lower.Walk) bool { return !isLinear(w, run) }) {
			return run
		}
	}
	return 1
}

// weightsOf returns where the digits of an operand's index begin and end.
func weightsOf(w *lower.Walk) []int {
	var list []int
	for _, x := range w.Axes[:w.Count] {
		list = append(list, x.Divisor, x.Divisor*x.Size)
	}
	return list
}

func isLinear(w *lower.Walk, run int) bool {
	if run == 1 {
		return true
	}
	stride := w.Offset(1)
	return !slices.ContainsFunc(weightsOf(w), func(weight int) bool {
		if weight >= run {
			return weight%run != 0
		}
		return run%weight != 0 || w.Offset(weight) != weight*stride
	})
}

// Launch implements engine.Kernel. It returns before the work is done.
func (k *product) Launch(l *engine.Launch) error {
	work := &products{handle: k.handle, name: k.d.Name + " by cuBLASLt", parts: k.parts(&l.Call)}
	call := &devicegpu.Call{}
	for i := range l.Buffers {
		b, ok := l.Buffers[i].(*devicegpu.Buffer)
		if !ok {
			return fmt.Errorf("%s is not in the memory of a GPU", k.d.Operands[i].Name)
		}
		call.Uses = append(call.Uses, devicegpu.Use{Buffer: b, IsWrite: k.d.Operands[i].IsOut})
	}
	err := k.device.Do("plan "+work.name, func() (err error) {
		call.ScratchBytes, err = work.workspace()
		return err
	})
	if err != nil {
		return err
	}
	return l.Queue.(*devicegpu.Queue).RunForeign(call, work)
}

// Choice implements engine.Chooser.
func (k *product) Choice(c *lower.Call) (choice engine.Choice, err error) {
	err = k.device.Do("plan "+k.d.Name+" by cuBLASLt", func() error {
		var names []string
		for _, p := range k.parts(c) {
			plan, err := k.handle.Plan(p.problem)
			if err != nil {
				return err
			}
			if name := plan.Algorithm.String(); !slices.Contains(names, name) {
				names = append(names, name)
			}
			choice.Parts = max(choice.Parts, plan.Algorithm.SplitK, 1)
		}
		choice.Algorithm = strings.Join(names, "; ")
		return nil
	})
	return choice, err
}

// products is the work of a call.
type products struct {
	handle *cublaslt.Handle
	name   string
	parts  []part
}

// workspace plans every part, and returns how much memory they need besides the operands.
func (w *products) workspace() (most int64, err error) {
	for i := range w.parts {
		plan, err := w.handle.Plan(w.parts[i].problem)
		if err != nil {
			return 0, err
		}
		most = max(most, plan.Algorithm.Workspace)
	}
	return most, nil
}

// Name implements gpu.Foreign.
func (w *products) Name() string { return w.name }

// Submit implements gpu.Foreign.
func (w *products) Submit(s driver.Stream, scratch driver.Pointer) error {
	for i := range w.parts {
		p := &w.parts[i]
		plan, err := w.handle.Plan(p.problem)
		if err != nil {
			return err
		}
		if err := plan.Run(s, p.left, p.right, p.result, scratch); err != nil {
			return err
		}
	}
	return nil
}
