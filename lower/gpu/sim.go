package gpu

import (
	"embed"
	"path"
)

//go:embed sim.h sim_tensorcore.h runtime
var simFiles embed.FS

// SimFile is a file of the simulator, by its name without a folder.
type SimFile struct{ Name, Text string }

func simFilesOf(paths ...string) []SimFile {
	var list []SimFile
	for _, p := range paths {
		text, err := simFiles.ReadFile(p)
		if err != nil {
			panic(err) // all are embedded
		}
		list = append(list, SimFile{path.Base(p), string(text)})
	}
	return list
}

// SimHeaders are the headers that kernels and the simulator's runtime include: prelude.h
// includes sim.h when a kernel is compiled for the simulator, tensorcore.h includes
// sim_tensorcore.h. SimUnits are the files that a kernel is linked with, SimTensorCoreUnits those
// of the tensor-core dialect, which are linked with a kernel that includes tensorcore.h.
var (
	SimHeaders         = simFilesOf("sim.h", "sim_tensorcore.h", "runtime/scheduler.h", "runtime/async.h", "runtime/mma.h")
	SimUnits           = simFilesOf("runtime/sim.cc")
	SimTensorCoreUnits = simFilesOf("runtime/mma.cc", "runtime/tensorcore.cc", "runtime/hopper.cc")
)
