// Package gpu is what the backends of GPUs share: a device of device/gpu joined to the
// kernels of lower/gpu. backend/cuda, backend/sim and others are a [Family] each, and the
// device that they open.
//
// Start with New; kernel.go compiles and launches.
package gpu

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/device/gpu/compile"
	"tokitai/engine"
	"tokitai/lower"
	lowergpu "tokitai/lower/gpu"
	"tokitai/num"
)

// Family says what differs between the kinds of GPU.
type Family struct {
	// Kind is the kind of the devices, with which the names of lowerings begin.
	Kind string

	// Hopper is the architecture that has Hopper's instructions. It is empty for a family
	// without NVIDIA's tensor cores.
	Hopper string

	// CompilesParts compiles the kernels of a source one by one, as many at a time as
	// there are processors.
	CompilesParts bool

	// Headers and Units complete the program of every source, beside the prelude, and
	// TensorCoreUnits that of a source that needs tensor cores.
	Headers, Units, TensorCoreUnits []compile.Header
}

// Program returns the complete text of a program.
func (f *Family) Program(s lowergpu.Source, file string) compile.Source {
	headers, includes := []compile.Header{{Name: "prelude.h", Text: lowergpu.Prelude}}, "#include \"prelude.h\"\n"
	units := f.Units
	if s.NeedsTensorCores {
		headers = append(headers, compile.Header{Name: "tensorcore.h", Text: lowergpu.TensorCores})
		includes += "#include \"tensorcore.h\"\n"
		units = slices.Concat(units, f.TensorCoreUnits)
	}
	return compile.Source{
		Name:    file,
		Headers: append(headers, f.Headers...),
		Units:   units,
		Text:    fmt.Sprintf("%s#line 1 %q\n%s", includes, file, s.Text),
	}
}

// Lowerings lists the ways to compute definitions, best first, by the words of their forms.
type Lowerings map[string][]*engine.Lowering

// For returns the ways to compute a definition.
func (l Lowerings) For(d *def.Definition) []*engine.Lowering { return l[d.Form.String()] }

// Preferred returns the lowerings that a call may choose.
func (f *Family) Preferred() Lowerings {
	all := Lowerings{}
	for _, form := range def.Forms() {
		name := lowergpu.NameOf(form)
		if name == "" {
			continue
		}
		l := f.lowering(name)
		list := []*engine.Lowering{l}
		switch form.(type) {
		case *def.Expression: // the others choose at each launch
			l.Class = func(d *def.Definition, c *lower.Call) int { return int(lowergpu.VariantOf(d, c)) }
		case *def.Product, *def.Fused:
			if f.Hopper != "" {
				list = []*engine.Lowering{f.hopper(), f.hopperFP8(), f.hopperInt8(), f.mma(), f.mmaInt8(), f.mmaBounded(), l}
			}
		case *def.Stream:
			if f.Hopper != "" {
				list = []*engine.Lowering{f.streamHopper(), f.streamMMA(lowergpu.CompileWeighMMA), l}
			}
		case *def.StreamBackward:
			if f.Hopper != "" {
				list = []*engine.Lowering{f.onStreamHopper(lowergpu.CompileWeighBackwardHopper), f.streamMMA(lowergpu.CompileWeighBackwardMMA), l}
			}
		}
		all[form.String()] = list
	}
	return all
}

func (f *Family) lowering(name string) *engine.Lowering {
	return f.lower(name, lowergpu.Compile)
}

// lower returns a lowering whose kernels a function of lower/gpu makes.
func (f *Family) lower(name string, compile func(*def.Definition, []num.DType, lowergpu.Variant) (*lowergpu.Kernel, error)) *engine.Lowering {
	return &engine.Lowering{
		Name: f.Kind + "." + name, Device: f.Kind,
		Compile: func(dev device.Device, d *def.Definition, dtypes []num.DType, class int) (engine.Kernel, error) {
			g, ok := dev.(*Device)
			if !ok {
				return nil, fmt.Errorf("got a device that is no GPU, want one of kind %s", f.Kind)
			}
			lowered, err := compile(d, dtypes, lowergpu.Variant(class))
			if err != nil {
				return nil, err
			}
			file := lowered.Source.Name
			if lowered.Source.NeedsTensorCores {
				file += "." + name
			}
			return load(g, d, lowered, dtypes, lowergpu.Variant(class), file)
		},
	}
}

// Device is a GPU that computes.
type Device struct {
	*gpu.Device
	backend engine.Backend
	family  *Family
	known   knownAnswers
}

// New returns an opened GPU as a device of a backend. Nothing may have used it yet.
func New(inner *gpu.Device, b engine.Backend, f *Family) *Device {
	d := &Device{Device: inner, backend: b, family: f}
	inner.EmbedIn(d)
	return d
}

// Backend returns the backend that New was given.
func (d *Device) Backend() engine.Backend { return d.backend }

// Compiler returns the compiler of the device's kernels.
func (d *Device) Compiler() (engine.Compiler, error) {
	c, err := d.Device.Compiler()
	if err != nil {
		return nil, err
	}
	return compiler{c, d.Describe().Architecture}, nil
}

// CheckReady compiles and loads an empty kernel.
func CheckReady(dev engine.Device) error {
	d := dev.(*Device)
	source := d.family.Program(lowergpu.Source{Text: "extern \"C\" __global__ void probe() {}\n"}, "probe.cu")
	m, err := d.Load(source, "probe")
	if err != nil {
		return err
	}
	return m.Close()
}

// compiler implements engine.Compiler.
type compiler struct {
	compile.Compiler
	architecture string
}

func (c compiler) String() string { return fmt.Sprint(c.Compiler) }

func (c compiler) Path() string {
	if file, ok := c.Compiler.(interface{ Path() string }); ok {
		return file.Path()
	}
	return ""
}

func (c compiler) Options() []string { return c.Compiler.Options(c.architecture) }

func (c compiler) Hash() ([sha256.Size]byte, error) {
	identity, err := c.Identity()
	return identity.Hash, err
}
