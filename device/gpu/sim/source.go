package sim

import (
	"embed"
	"path"

	"tokitai/device/gpu/compile"
)

// The simulator's C++ is in a folder of its own: Go takes no C++ beside its files.
//
//go:embed runtime
var files embed.FS

func filesOf(names ...string) []compile.Header {
	var list []compile.Header
	for _, name := range names {
		text, err := files.ReadFile(path.Join("runtime", name))
		if err != nil {
			panic(err) // all are embedded
		}
		list = append(list, compile.Header{Name: name, Text: string(text)})
	}
	return list
}

// Headers are the headers that kernels and the runtime include: prelude.h of lower/gpu includes
// sim.h when a kernel is compiled for the simulator, tensorcore.h includes sim_tensorcore.h.
// Units are the files that a kernel is linked with, TensorCoreUnits those of the tensor-core
// dialect, which are linked with a kernel that includes tensorcore.h.
var (
	Headers         = filesOf("sim.h", "sim_tensorcore.h", "scheduler.h", "async.h", "mma.h")
	Units           = filesOf("sim.cc")
	TensorCoreUnits = filesOf("mma.cc", "tensorcore.cc", "hopper.cc")
)
