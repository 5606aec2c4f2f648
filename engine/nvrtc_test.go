package engine_test

import (
	"testing"

	"tokitai/def"
	"tokitai/device/gpu/gputest"
	"tokitai/engine"
	"tokitai/op/all"
)

// TestProgramsCompileForCUDA compiles every program of the shipped definitions, in every
// choice of formats, as a device of NVIDIA's would have it compiled. It needs no GPU.
func TestProgramsCompileForCUDA(t *testing.T) {
	c := gputest.NeedsNVRTC(t)
	const architecture = "sm_90a"
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			for n, dtypes := range d.Formats() {
				if testing.Short() && n > 0 {
					continue
				}
				for class := range 2 {
					if d.Kind != def.KindRowwise && class > 0 || testing.Short() && d.Kind == def.KindRowwise && class == 0 {
						continue
					}
					source, err := engine.GPUProgram("cuda", d, dtypes, class)
					if err != nil {
						t.Fatal(err)
					}
					program, err := c.Compile(architecture, source)
					if err != nil {
						t.Errorf("%s: %v", source.Name, err)
						continue
					}
					for _, u := range program.Usage {
						if u.SpillStoreBytes > 0 {
							t.Logf("%s: %s spills %d bytes, with %d registers", source.Name, u.Entry, u.SpillStoreBytes, u.Registers)
						}
					}
				}
			}
		}
	}
}
