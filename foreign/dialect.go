package foreign

import (
	"fmt"

	backendgpu "tokitai/backend/gpu"
	"tokitai/device/gpu/compile"
	"tokitai/engine"
	"tokitai/num"
)

// dialect is how sources of one language are compiled for one kind of device.
type dialect interface {
	// check returns an error for a text that the device cannot run, with the line.
	check(file, text string) error

	// typeOf returns the C++ type of elements of a format.
	typeOf(t num.DType) string

	// include returns the text that precedes declarations of elements.
	include(formats []num.DType) string

	// rewrite returns the user's text as it is compiled, with the same lines.
	rewrite(text string) string

	// entries returns the text that follows the user's, for kernels by their C++ names.
	entries(names []string) string

	// compile compiles a source, and returns the names of the kernels in the program.
	compile(dev *backendgpu.Device, s compile.Source, entries []string, formats []num.DType) (*compile.Program, []string, error)

	// params returns the parameters of a launch from its arguments, laid out as in a struct.
	params(arguments []byte, regions func() []region) []byte
}

// dialectOf returns how a language is compiled for a device.
func dialectOf(language string, dev engine.Device) (dialect, error) {
	kinds := map[string]map[string]dialect{
		"cuda": {"cuda": cudaDialect{}, "sim": simDialect{}},
		"hip":  {"hip": hipDialect{}, "amdemu": hipDialect{}},
	}[language]
	if kinds == nil {
		return nil, fmt.Errorf("got the language %q, want cuda or hip", language)
	}
	if d := kinds[dev.Kind()]; d != nil {
		return d, nil
	}
	if language == "cuda" {
		return nil, fmt.Errorf("CUDA sources run on cuda:0, or without a GPU in the simulator, --device sim; got %s", dev.Kind())
	}
	return nil, fmt.Errorf("HIP sources run on hip:0, or without a GPU on an emulated one, such as --device amdemu:gfx1100; got %s", dev.Kind())
}
