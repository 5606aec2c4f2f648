package foreign

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/device/gpu/driver"
	"tokitai/engine"
	"tokitai/lower"
	"tokitai/num"
)

// environmentOf returns what names stand for in a call.
func environmentOf(d *def.Definition, c *lower.Call) *environment {
	return &environment{
		size: func(letter string) int64 {
			for i := range d.Operands {
				if k := slices.Index(d.Operands[i].Dims, letter); k >= 0 {
					return int64(d.Operands[i].Shape(&c.Operands[i].Array)[k])
				}
			}
			if letter == "R" {
				return int64(c.Rows)
			}
			return int64(c.Cols)
		},
		param:   func(number int) float64 { return c.Params[number] },
		element: func(operand int) int64 { return int64(c.Operands[operand].DType.Size()) },
		stride: func(operand int, letter string) int64 {
			a, dims := &c.Operands[operand].Array, d.Operands[operand].Dims
			switch k := slices.Index(dims, letter); {
			case letter == "" || k == len(dims)-2:
				return int64(a.Stride)
			case k == len(dims)-1:
				return 1
			default:
				return int64(a.Batch.Axes[k].Stride)
			}
		},
	}
}

// checkConstants returns an error for launches that are illegal whatever the sizes are.
func (k *sourceKernel) checkConstants(limits driver.Properties) error {
	isConstant := func(x expression) bool { _, ok := x.(literal); return ok }
	for _, l := range k.program.launches {
		constant := launch{entry: l.entry}
		if !slices.ContainsFunc(l.grid, func(x expression) bool { return !isConstant(x) }) {
			constant.grid = l.grid
		}
		if !slices.ContainsFunc(l.block, func(x expression) bool { return !isConstant(x) }) {
			constant.block = l.block
		}
		if isConstant(l.shared) {
			constant.shared = l.shared
		}
		if _, err := constant.shape(&environment{}, limits); err != nil {
			return err
		}
	}
	return nil
}

// shape is a launch's grid, block and bytes of shared memory.
type shape struct {
	grid, block [3]uint32
	shared      uint32
}

// shape evaluates the sizes of a launch, and returns an error for those that no device runs.
func (l *launch) shape(e *environment, limits driver.Properties) (s shape, err error) {
	dimensions := func(clause string, list []expression, to *[3]uint32, most [3]int64) error {
		*to = [3]uint32{1, 1, 1}
		for i, x := range list {
			v, err := x.value(e)
			if err != nil {
				return fmt.Errorf("the %s of %s: %w", clause, l.entry, err)
			}
			if v < 1 || v > most[i] {
				return fmt.Errorf("the %s of %s is %d along %c, want 1 to %d", clause, l.entry, v, "xyz"[i], most[i])
			}
			to[i] = uint32(v)
		}
		return nil
	}
	threads := int64(limits.ThreadsPerBlock)
	if err := dimensions("grid", l.grid, &s.grid, [3]int64{math.MaxInt32, 65535, 65535}); err != nil {
		return s, err
	}
	if err := dimensions("block", l.block, &s.block, [3]int64{threads, threads, 64}); err != nil {
		return s, err
	}
	if n := int64(s.block[0]) * int64(s.block[1]) * int64(s.block[2]); n > threads {
		return s, fmt.Errorf("the block of %s has %d×%d×%d = %d threads, want at most %d", l.entry, s.block[0], s.block[1], s.block[2], n, threads)
	}
	if l.shared != nil {
		v, err := l.shared.value(e)
		if err == nil && (v < 0 || v > int64(limits.SharedBytes)) {
			err = fmt.Errorf("%d bytes, want 0 to %d", v, limits.SharedBytes)
		}
		if err != nil {
			return s, fmt.Errorf("the shared memory of %s: %w", l.entry, err)
		}
		s.shared = uint32(v)
	}
	return s, nil
}

// loadedSource is a kernel on a device.
type loadedSource struct {
	source    *sourceKernel
	functions []*gpu.Function // of the launches
	limits    driver.Properties
	image     string // the SHA-256 of the program
}

// Artifacts implements engine.Compiled.
func (k *loadedSource) Artifacts() []string { return []string{k.image} }

// String lists the source.
func (k *loadedSource) String() string { return k.source.text }

// Launch implements engine.Kernel. It waits for the kernels: what they break is an error of
// this call.
func (k *loadedSource) Launch(l *engine.Launch) error {
	run := &sourceRun{kernel: k, launch: l, environment: environmentOf(k.source.d, &l.Call)}
	if err := run.plan(); err != nil {
		return &engine.FaultError{Message: err.Error() + "; when= in the launch limits the calls"}
	}
	q, ok := l.Queue.(*gpu.Queue)
	if !ok {
		return errors.New("the queue is no GPU's")
	}
	err := q.Run(&run.call, run)
	if err == nil {
		err = q.Wait(l.Context)
	}
	if fault, ok := errors.AsType[*driver.LaunchError](err); ok {
		return &engine.FaultError{Message: k.source.shownEntry(fault.Entry) + ": " + fault.Message}
	}
	if errors.Is(err, device.ErrLost) {
		return &engine.FaultError{Message: err.Error()}
	}
	return err
}

// shownEntry returns the name of a kernel as the user gave it.
func (k *sourceKernel) shownEntry(name string) string {
	for _, b := range k.builds {
		if i := slices.Index(b.names, name); i >= 0 {
			return k.entries[i]
		}
	}
	return name
}

// sourceRun is one call of the kernel.
type sourceRun struct {
	kernel      *loadedSource
	launch      *engine.Launch
	environment *environment
	call        gpu.Call
	scratch     []int64 // offsets of the buffers, and the end of the last one
	values      [][]uint64
}

// plan evaluates all that does not depend on addresses.
func (r *sourceRun) plan() error {
	k, d := r.kernel.source, r.kernel.source.d
	for i := range r.launch.Buffers {
		b, ok := r.launch.Buffers[i].(*gpu.Buffer)
		if !ok {
			return fmt.Errorf("%s is not in the memory of a GPU", d.Operands[i].Name)
		}
		r.call.Uses = append(r.call.Uses, gpu.Use{Buffer: b, IsWrite: true}) // whatever the kernel says
	}
	r.scratch = []int64{0}
	for _, s := range k.program.scratch {
		bytes, err := s.bytes.value(r.environment)
		if err == nil && (bytes < 1 || bytes > 1<<40) {
			err = fmt.Errorf("%d bytes, want 1 to 2^40", bytes)
		}
		if err != nil {
			return fmt.Errorf("scratch buffer %s: %w", s.name, err)
		}
		end := r.scratch[len(r.scratch)-1] + bytes
		r.scratch = append(r.scratch, (end+gpu.Alignment-1)/gpu.Alignment*gpu.Alignment)
	}
	r.call.ScratchBytes = r.scratch[len(r.scratch)-1]
	for i, l := range k.program.launches {
		s, err := l.shape(r.environment, r.kernel.limits)
		if err != nil {
			return fmt.Errorf("%w for %s", err, r.sizes())
		}
		values, err := r.numbers(l)
		if err != nil {
			return fmt.Errorf("%w for %s", err, r.sizes())
		}
		r.values = append(r.values, values)
		r.call.Launches = append(r.call.Launches, gpu.Launch{Function: r.kernel.functions[i], Grid: s.grid, Block: s.block, Shared: s.shared, IsPacked: true})
	}
	r.Place(0, 0) // sets the number of bytes; device/gpu calls it again if there is scratch memory
	return nil
}

// sizes lists the sizes of the call.
func (r *sourceRun) sizes() string {
	var texts []string
	for _, letter := range lettersOf(r.kernel.source.d) {
		texts = append(texts, fmt.Sprintf("%s=%d", letter, r.environment.size(letter)))
	}
	return strings.Join(texts, ", ")
}

// numbers returns the bits of a launch's arguments; those of pointers are left open.
func (r *sourceRun) numbers(l *launch) ([]uint64, error) {
	var list []uint64
	for _, a := range l.arguments {
		var bits uint64
		var err error
		switch {
		case a.kind.isPointer():
		case a.floating >= 0:
			bits, err = a.kind.ofFloat(r.launch.Params[a.floating])
		case a.integer == nil:
			bits, err = a.kind.ofFloat(a.float)
		default:
			var v int64
			if v, err = a.integer.value(r.environment); err == nil {
				bits, err = a.kind.ofInt(v)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("argument %s of %s: %w", a.text, l.entry, err)
		}
		list = append(list, bits)
	}
	return list, nil
}

func (k argumentKind) ofFloat(v float64) (uint64, error) {
	switch {
	case k == f32Argument:
		return uint64(math.Float32bits(float32(v))), nil
	case k == f64Argument:
		return math.Float64bits(v), nil
	case v != math.Trunc(v) || math.Abs(v) >= 1<<62:
		return 0, fmt.Errorf("%v is no integer, and is passed as %s", v, k)
	}
	return k.ofInt(int64(v))
}

func (k argumentKind) ofInt(v int64) (uint64, error) {
	low, high := map[argumentKind][2]int64{
		i32Argument: {math.MinInt32, math.MaxInt32}, u32Argument: {0, math.MaxUint32}, u64Argument: {0, math.MaxInt64},
	}[k], [2]int64{}
	switch {
	case k.isFloat():
		return k.ofFloat(float64(v))
	case low != high && (v < low[0] || v > low[1]):
		return 0, fmt.Errorf("%d does not fit in %s", v, k)
	case k.bytes() == 4:
		return uint64(uint32(v)), nil
	}
	return uint64(v), nil
}

// Place implements gpu.Placer: it lays out the arguments.
func (r *sourceRun) Place(scratch, _ uint64) {
	k := r.kernel.source
	for i, l := range k.program.launches {
		var params []byte
		for j, a := range l.arguments {
			v := r.values[i][j]
			switch {
			case a.operand >= 0:
				v = r.launch.Operands[a.operand].Pointer
			case a.scratch >= 0:
				v = scratch + uint64(r.scratch[a.scratch])
			}
			for len(params)%a.kind.bytes() != 0 {
				params = append(params, 0)
			}
			if a.kind.bytes() == 4 {
				params = binary.LittleEndian.AppendUint32(params, uint32(v))
			} else {
				params = binary.LittleEndian.AppendUint64(params, v)
			}
		}
		r.call.Launches[i].Params = k.dialect.params(params, func() []region { return r.regions(scratch) })
	}
}

// region is memory that the kernel may use, for a device that checks bounds.
type region struct {
	name                     string
	begin, end               uint64
	row, stride, elementSize uint64 // bytes
	isWritable               bool
}

// regions lists the operands and the scratch buffers.
func (r *sourceRun) regions(scratch uint64) []region {
	var list []region
	for i := range r.launch.Operands {
		o, a := &r.kernel.source.d.Operands[i], &r.launch.Operands[i].Array
		size := uint64(a.DType.Size())
		x := region{name: o.Name, begin: r.launch.Operands[i].Pointer, elementSize: size, isWritable: o.IsOut}
		x.end = x.begin + uint64(a.Span())*size
		if x.row, x.stride = uint64(a.Cols)*size, uint64(a.Stride)*size; a.Rows <= 1 || isApart(a) {
			x.row, x.stride = x.end-x.begin, x.end-x.begin
		}
		list = append(list, x)
	}
	for i, s := range r.kernel.source.program.scratch {
		bytes, _ := s.bytes.value(r.environment) // plan has computed it
		begin := scratch + uint64(r.scratch[i])
		list = append(list, region{name: s.name, begin: begin, end: begin + uint64(bytes), row: uint64(bytes), stride: uint64(bytes), elementSize: 1, isWritable: true})
	}
	return list
}

// isApart reports whether matrices do not follow each other as rows do.
func isApart(a *num.Array) bool { return a.Batch.Count > 0 }
