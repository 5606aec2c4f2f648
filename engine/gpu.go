package engine

import (
	"crypto/sha256"
	"fmt"
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
	list := make([]lowergpu.Operand, len(operands))
	for i := range operands {
		list[i] = operands[i].onGPU(0)
	}
	return int(lowergpu.VariantOf(d, list))
}

// onGPU is the operand as lower/gpu sees it, in a buffer that begins at an address.
func (o *Operand) onGPU(buffer uint64) lowergpu.Operand {
	return lowergpu.Operand{Pointer: buffer + uint64(o.Offset), DType: o.DType, Rows: o.Rows, Cols: o.Cols, Stride: o.Stride}
}

// gpuKernel is a program of lower/gpu that is loaded on a device.
type gpuKernel struct {
	d         *def.Definition
	kernel    *lowergpu.Kernel
	functions map[string]*gpu.Function
	limits    lowergpu.Limits
}

func compileGPU(dev *gpu.Device, d *def.Definition, dtypes []num.DType, v lowergpu.Variant) (Kernel, error) {
	kernel, err := lowergpu.Compile(d, dtypes, v)
	if err != nil {
		return nil, err
	}
	source := programOf(dev.Kind(), kernel.Source, fileName(kernel.Source.Name, dtypes, v))
	module, err := dev.Load(source, kernel.Source.Entries...)
	if err != nil {
		return nil, err
	}
	p := dev.Limits()
	k := &gpuKernel{
		d: d, kernel: kernel, functions: map[string]*gpu.Function{},
		limits: lowergpu.Limits{WarpWidth: p.WarpWidth, Multiprocessors: p.Multiprocessors, SharedBytes: p.SharedBytes},
	}
	for _, entry := range kernel.Source.Entries {
		if k.functions[entry], err = module.Entry(entry); err != nil {
			return nil, err
		}
	}
	return k, nil
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

// gpuCall is the memory of one launch.
type gpuCall struct {
	operands []lowergpu.Operand
	uses     []gpu.Use
	launches []gpu.Launch
}

var gpuCalls = sync.Pool{New: func() any { return new(gpuCall) }}

// Launch implements Kernel. It returns before the work is done.
func (k *gpuKernel) Launch(l *Launch) error {
	c := gpuCalls.Get().(*gpuCall)
	err := k.launch(c, l)
	clear(c.uses)
	clear(c.launches)
	gpuCalls.Put(c)
	return err
}

func (k *gpuKernel) launch(c *gpuCall, l *Launch) error {
	c.operands, c.uses, c.launches = c.operands[:0], c.uses[:0], c.launches[:0]
	for i := range l.Operands {
		b, ok := l.Operands[i].Buffer.(*gpu.Buffer)
		if !ok {
			return fmt.Errorf("%s is not in the memory of a GPU", k.d.Operands[i].Name)
		}
		c.operands = append(c.operands, l.Operands[i].onGPU(b.Pointer()))
		c.uses = append(c.uses, gpu.Use{Buffer: b, IsWrite: k.d.Operands[i].IsOut})
	}
	limits := k.limits
	plan, scratchBytes, err := k.kernel.Launches(c.operands, l.Params, limits)
	if err != nil {
		return err
	}
	if scratchBytes > 0 {
		scratch, err := l.Device.(*gpu.Device).AllocScratch(scratchBytes)
		if err != nil {
			return err
		}
		defer scratch.Close() // what uses the memory next waits for this call
		c.uses = append(c.uses, gpu.Use{Buffer: scratch, IsWrite: true})
		limits.Scratch = scratch.Pointer()
		if plan, _, err = k.kernel.Launches(c.operands, l.Params, limits); err != nil {
			return err
		}
	}
	for i := range plan {
		p := &plan[i]
		f := k.functions[p.Entry]
		if f == nil {
			return fmt.Errorf("%s has no kernel %s", k.kernel.Source.Name, p.Entry)
		}
		c.launches = append(c.launches, gpu.Launch{Function: f, Grid: p.Grid, Block: p.Block, Shared: p.Shared, Params: p.Params})
	}
	return l.Queue.(*gpu.Queue).Run(c.uses, c.launches)
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
