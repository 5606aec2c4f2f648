package engine

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"tokitai/def"
	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/device/gpu/compile"
	lowergpu "tokitai/lower/gpu"
	"tokitai/num"
)

func openGPU(kind string, index int) (device.Device, error) {
	dev, err := gpu.OpenNamed(kind, index)
	if err != nil {
		return nil, err
	}
	return dev, nil
}

// probe says why no program can be compiled for a GPU, or loaded.
func probe(dev device.Device) error {
	m, err := dev.(*gpu.Device).Load(compile.Source{Name: "probe.cu", Text: "extern \"C\" __global__ void probe() {}\n"}, "probe")
	if err != nil {
		return err
	}
	return m.Close()
}

// gpuLowering is lower/gpu's way of computing a kind of definition, on one kind of GPU.
func gpuLowering(kind, name string) *Lowering {
	l := &Lowering{Name: kind + "." + name, Device: kind}
	if name == "rowwise" { // the others choose at each launch
		l.Class = variantOf
	}
	l.Compile = func(dev device.Device, d *def.Definition, dtypes []num.DType, class int) (Kernel, error) {
		g, ok := dev.(*gpu.Device)
		if !ok {
			return nil, fmt.Errorf("got a device that is no GPU, want one of kind %s", kind)
		}
		return compileGPU(g, d, dtypes, lowergpu.Variant(class))
	}
	return l
}

// variantOf is the way in which a kernel may access the operands. Buffers begin at
// multiples of more bytes than any variant asks for, so that offsets tell.
func variantOf(d *def.Definition, operands []Operand) int {
	var few [8]lowergpu.Operand // on the stack
	list := resized(few[:0], len(operands))
	for i := range operands {
		operands[i].onGPU(&list[i], 0)
	}
	return int(lowergpu.VariantOf(d, list))
}

// onGPU sets to the operand as lower/gpu sees it, in a buffer that begins at an address.
// Here and below, structs are filled in place, field by field: what is written in pieces
// and then copied as a whole costs more than all the rest.
func (o *Operand) onGPU(to *lowergpu.Operand, buffer uint64) {
	to.Pointer, to.DType, to.Rows, to.Cols, to.Stride = buffer+uint64(o.Offset), o.DType, o.Rows, o.Cols, o.Stride
}

// resized is a list of n elements with anything in them, in the memory of s if that is
// enough.
func resized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// gpuKernel is a program of lower/gpu that is loaded on a device.
type gpuKernel struct {
	d         *def.Definition
	kernel    *lowergpu.Kernel
	functions []*gpu.Function // as the source's entries
	limits    lowergpu.Limits
	images    []string // the SHA-256 of the compiled programs, in hexadecimal
}

func compileGPU(dev *gpu.Device, d *def.Definition, dtypes []num.DType, v lowergpu.Variant) (Kernel, error) {
	kernel, err := lowergpu.Compile(d, dtypes, v)
	if err != nil {
		return nil, err
	}
	p := dev.Limits()
	k := &gpuKernel{
		d: d, kernel: kernel, functions: make([]*gpu.Function, len(kernel.Source.Entries)),
		limits: lowergpu.Limits{WarpWidth: p.WarpWidth, Multiprocessors: p.Multiprocessors, SharedBytes: p.SharedBytes},
	}
	file := fileName(kernel.Source.Name, dtypes, v)
	if !isDivided(dev.Kind()) {
		k.images = make([]string, 1)
		if err := k.load(dev, kernel.Source, file, 0, 0); err != nil {
			return nil, err
		}
		return k, nil
	}
	parts := kernel.Source.Parts()
	k.images = make([]string, len(parts))
	errs := make([]error, len(parts))
	var group sync.WaitGroup
	for i, part := range parts {
		compiling <- struct{}{}
		group.Go(func() {
			defer func() { <-compiling }()
			name := strings.TrimPrefix(strings.TrimPrefix(part.Entries[0], part.Name), "_")
			errs[i] = k.load(dev, part, strings.TrimSuffix(file, ".cu")+"."+name+".cu", i, i)
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return k, nil
}

// isDivided reports whether the kernels of a source are compiled one by one, as many at a
// time as there are processors. NVRTC takes seconds for the instances of some definitions,
// one after the other. The simulator's compiler takes most of its time for what every part
// includes. Tests divide there too.
var isDivided = func(kind string) bool { return kind == "cuda" }

// compiling has an element for each part that is being compiled.
var compiling = make(chan struct{}, runtime.NumCPU())

// load compiles a part and finds its entries, from the first on; its image has a number of
// its own.
func (k *gpuKernel) load(dev *gpu.Device, part lowergpu.Source, file string, first, image int) error {
	module, err := dev.Load(programOf(dev.Kind(), part, file), part.Entries...)
	if err != nil {
		return err
	}
	k.images[image] = fmt.Sprintf("%x", sha256.Sum256(module.Program().Image))
	for i, entry := range part.Entries {
		if k.functions[first+i], err = module.Entry(entry); err != nil {
			return err
		}
	}
	return nil
}

// fileName tells in a compiler's messages, and in the list of a cache, what was compiled.
func fileName(name string, dtypes []num.DType, v lowergpu.Variant) string {
	parts := []string{}
	for _, t := range dtypes {
		parts = append(parts, t.String())
	}
	return fmt.Sprintf("%s.%s.%s.cu", name, strings.Join(parts, "-"), v)
}

// programOf is the complete text of a program for a kind of device.
func programOf(kind string, s lowergpu.Source, file string) compile.Source {
	p := compile.Source{Name: file, Headers: []compile.Header{{Name: "prelude.h", Text: lowergpu.Prelude}}}
	if kind == "sim" {
		p.Headers = append(p.Headers, compile.Header{Name: "sim.h", Text: lowergpu.SimHeader})
		p.Units = []compile.Header{{Name: "sim.cc", Text: lowergpu.SimRuntime}}
	}
	p.Text = fmt.Sprintf("#include \"prelude.h\"\n#line 1 %q\n%s", file, s.Text)
	return p
}

// gpuCall is memory that launches use again.
type gpuCall struct {
	operands []lowergpu.Operand
	plan     lowergpu.Plan
	call     gpu.Call
}

// Launch implements Kernel. It returns before the work is done.
func (k *gpuKernel) Launch(l *Launch) error {
	if l.gpu == nil {
		l.gpu = new(gpuCall)
	}
	err := k.launch(l.gpu, l)
	clear(l.gpu.call.Uses) // buffers must not live for the sake of memory
	return err
}

func (k *gpuKernel) launch(c *gpuCall, l *Launch) error {
	call := &c.call
	c.operands, call.Uses = resized(c.operands, len(l.Operands)), resized(call.Uses, len(l.Operands))
	for i := range l.Operands {
		b, ok := l.Operands[i].Buffer.(*gpu.Buffer)
		if !ok {
			return fmt.Errorf("%s is not in the memory of a GPU", k.d.Operands[i].Name)
		}
		l.Operands[i].onGPU(&c.operands[i], b.Pointer())
		call.Uses[i].Buffer, call.Uses[i].IsWrite = b, k.d.Operands[i].IsOut
	}
	var err error
	if l.rejects {
		err = k.kernel.PlanChecked(&c.plan, c.operands, l.Params, k.limits)
	} else {
		err = k.kernel.Plan(&c.plan, c.operands, l.Params, k.limits)
	}
	if err != nil {
		return err
	}
	call.Launches = resized(call.Launches, len(c.plan.Launches))
	for i := range c.plan.Launches {
		p, to := &c.plan.Launches[i], &call.Launches[i]
		to.Function, to.Grid, to.Block, to.Shared, to.Params = k.functions[p.Entry], p.Grid, p.Block, p.Shared, p.Params
	}
	call.ScratchBytes, call.Checks = c.plan.ScratchBytes, call.Checks[:0]
	for _, check := range c.plan.Checks {
		call.Checks = append(call.Checks, gpu.Check{By: k, Facts: [3]int64{int64(check.Operand), int64(check.Bound), int64(check.Except)}})
	}
	return l.Queue.(*gpu.Queue).Run(call, &c.plan)
}

// Refusal implements gpu.Checker: a call was given an index without a row.
func (k *gpuKernel) Refusal(word uint64, facts [3]int64) error {
	return newIndexError(k.d, int(facts[0]), int(word>>32), int32(word), int(facts[1]), int32(facts[2]))
}

// String lists the source, and what it stands on by its hash.
func (k *gpuKernel) String() string {
	return fmt.Sprintf("// prelude.h has SHA-256 %x.\n%s", sha256.Sum256([]byte(lowergpu.Prelude)), k.kernel.Source.Text)
}

// DeviceNames are the names of the devices that may be on this machine: every GPU that a
// driver tells of, and the first of each kind that has none.
func DeviceNames() []string {
	names := []string{"cpu", "cuda:0"}
	if n, err := gpu.CountCUDA(); err == nil {
		for i := 1; i < n; i++ {
			names = append(names, fmt.Sprintf("cuda:%d", i))
		}
	}
	return append(names, "hip:0", "sim", "sim:64")
}

// CompilerOf is what compiles kernels for a device when they are first needed; nil where
// they are part of this program.
func CompilerOf(dev device.Device) (compile.Compiler, error) {
	g, ok := dev.(*gpu.Device)
	if !ok {
		return nil, nil
	}
	if g.Kind() == "sim" {
		c, err := compile.OpenHost()
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	var major int
	fmt.Sscanf(g.Describe().Driver, "CUDA %d.", &major) // 0 where that is not how it is said: any compiler
	c, err := compile.OpenNVRTC(major)
	if err != nil {
		return nil, err
	}
	return c, nil
}
