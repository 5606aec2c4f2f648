package foreign

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	backendgpu "tokitai/backend/gpu"
	"tokitai/device/gpu/compile"
	"tokitai/engine"
	"tokitai/num"
)

// language is a language of sources.
type language struct {
	name  string
	title string
	types map[num.DType]string // of elements

	onGPU  dialect  // how it is compiled for GPUs
	kinds  []string // of those
	places string   // where it runs, for messages
	gpu    string   // which device has what the simulator has not, for messages

	// For the simulator: the headers that it is compiled with, of which the first is included
	// before everything else, and a text's form with the same lines.
	simHeaders []compile.Header
	simRewrite func(text string) string
}

// languages are all of them, by name.
var languages = map[string]*language{cudaLanguage.name: cudaLanguage, hipLanguage.name: hipLanguage}

// dialect is how sources of one language are compiled for one kind of device.
type dialect interface {
	// check returns an error for a text that the device cannot run, with the line.
	check(file, text string) error

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

// languageNamed returns a language by its name.
func languageNamed(name string) (*language, error) {
	if l := languages[name]; l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("got the language %q, want %s", name, strings.Join(slices.Sorted(maps.Keys(languages)), " or "))
}

// dialectFor returns how the language is compiled for a device.
func (l *language) dialectFor(dev engine.Device) (dialect, error) {
	switch {
	case dev.Kind() == "sim":
		return simDialect{l}, nil
	case slices.Contains(l.kinds, dev.Kind()):
		return l.onGPU, nil
	}
	return nil, fmt.Errorf("%s sources run on %s; got %s", l.title, l.places, dev.Kind())
}
