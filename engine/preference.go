package engine

import (
	"context"
	"fmt"
	"strings"

	"tokitai/def"
	"tokitai/device"
	"tokitai/device/cpu"
	lowercpu "tokitai/lower/cpu"
	"tokitai/num"
	"tokitai/reference"
)

// The preference table: for each kind of device and definition, the lowerings
// that a call may choose, best first. Nothing is timed, so that bits never depend
// on timing.
var preferenceTable = []struct {
	device    string
	kind      def.Kind
	lowerings []*Lowering
}{
	{"cpu", def.KindRowwise, []*Lowering{cpuLowering("cpu.rowwise")}},
	{"cpu", def.KindContraction, []*Lowering{cpuLowering("cpu.packed")}},
	{"cpu", def.KindGather, []*Lowering{cpuLowering("cpu.gather")}},
	{"cpu", def.KindScatterAdd, []*Lowering{cpuLowering("cpu.scatter")}},

	{"cuda", def.KindRowwise, []*Lowering{gpuLowering("cuda", "rowwise")}},
	{"cuda", def.KindContraction, []*Lowering{gpuLowering("cuda", "fma")}},
	{"cuda", def.KindGather, []*Lowering{gpuLowering("cuda", "gather")}},
	{"cuda", def.KindScatterAdd, []*Lowering{gpuLowering("cuda", "scatter")}},

	{"sim", def.KindRowwise, []*Lowering{gpuLowering("sim", "rowwise")}},
	{"sim", def.KindContraction, []*Lowering{gpuLowering("sim", "fma")}},
	{"sim", def.KindGather, []*Lowering{gpuLowering("sim", "gather")}},
	{"sim", def.KindScatterAdd, []*Lowering{gpuLowering("sim", "scatter")}},
}

// onDemand are lowerings that only a name chooses.
var onDemand = []*Lowering{referenceLowering}

func preferences(device string, kind def.Kind) []*Lowering {
	for i := range preferenceTable {
		if p := &preferenceTable[i]; p.device == device && p.kind == kind {
			return p.lowerings
		}
	}
	return nil
}

// Lowerings are those that a call of d on a kind of device may name, preferred
// ones first. A product with batch axes or groups has none.
func Lowerings(device string, d *def.Definition) []*Lowering {
	if d.HasAxes() {
		return nil
	}
	all := preferences(device, d.Kind)[:len(preferences(device, d.Kind)):len(preferences(device, d.Kind))]
	for _, l := range onDemand {
		if l.Device == device {
			all = append(all, l)
		}
	}
	return all
}

func named(device string, d *def.Definition, s *settings) (*Lowering, error) {
	var names []string
	for _, l := range Lowerings(device, d) {
		if l.Name == s.lowering || l.ID(d) == s.lowering {
			if !s.allows(l) {
				return nil, notUnder(d, l, s)
			}
			return l, nil
		}
		names = append(names, l.Name)
	}
	return nil, bad(d, "lowering", fmt.Sprintf("%q is unknown on %s", s.lowering, device), strings.Join(names, " or "))
}

// cpuLowering is lower/cpu's way of computing a kind of definition.
func cpuLowering(name string) *Lowering {
	return &Lowering{
		Name: name, Device: "cpu",
		Class: func(d *def.Definition, operands []Operand) int {
			cols := 0
			for i := range d.Operands {
				if d.Operands[i].Extent == def.PerElement {
					cols = operands[i].Cols
				}
			}
			return int(lowercpu.ClassOf(d, cols))
		},
		Compile: func(_ device.Device, d *def.Definition, dtypes []num.DType, class int) (Kernel, error) {
			p, err := lowercpu.Compile(d, dtypes, lowercpu.Class(class))
			if err != nil {
				return nil, err
			}
			return cpuKernel{p}, nil
		},
	}
}

// cpuKernel runs a program of lower/cpu on the workers of device/cpu.
type cpuKernel struct{ program lowercpu.Program }

// Launch implements Kernel. What has begun is finished, whatever becomes of the
// context. Only a panic, or a device that is closed meanwhile, leaves outputs
// partly written.
func (k cpuKernel) Launch(l *Launch) error {
	pool := l.Device.(*cpu.Device).Pool()
	job := k.program.Bind(l.Arrays(), l.Params, pool.Workers())
	for {
		items, ok := job.Next()
		if !ok {
			job.Release()
			return nil
		}
		if err := pool.Run(context.Background(), items, job); err != nil {
			return err // the job's scratch memory is left to the collector
		}
	}
}

// String lists the program.
func (k cpuKernel) String() string { return k.program.String() }

// referenceLowering is the interpreter itself.
var referenceLowering = &Lowering{
	Name: "cpu.reference", Device: "cpu",
	Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (Kernel, error) {
		return KernelFunc(func(l *Launch) error {
			return reference.Run(d, l.Arrays(), reference.Options{Params: l.Params})
		}), nil
	},
}
