package gpu

import _ "embed"

// SimHeader is sim.h, which prelude.h includes when a kernel is compiled for the
// simulator. SimRuntime is runtime/sim.cc, which kernels are linked with.
var (
	//go:embed sim.h
	SimHeader string
	//go:embed runtime/sim.cc
	SimRuntime string
)
