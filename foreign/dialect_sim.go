package foreign

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	backendgpu "tokitai/backend/gpu"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/sim"
	"tokitai/num"
)

// simDialect compiles a language for the simulator, with the host's compiler.
type simDialect struct{ *language }

//go:embed cuda/tokitai_cuda.h
var simHeader string

//go:embed cuda/bounds.cc
var simBounds string

func (d simDialect) check(file, text string) error { return checkSimulated(file, text, d.gpu) }

func (d simDialect) include([]num.DType) string { return including(d.simHeaders[0].Name) }

func (d simDialect) rewrite(text string) string { return forSimulator(d.simRewrite(text)) }

// including returns the line that includes a header.
func including(header string) string { return fmt.Sprintf("#include %q\n", header) }

// entries registers kernels under their names.
func (simDialect) entries(names []string) string {
	var b strings.Builder
	seen := map[string]bool{}
	for i, name := range names {
		if !seen[name] {
			fmt.Fprintf(&b, "SIM_FOREIGN_KERNEL(%d, %q, %s)\n", i, name, name)
		}
		seen[name] = true
	}
	return b.String()
}

// cudaHeaders are headers of CUDA whose content the simulator's header has.
var cudaHeaders = []string{"cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "cuda_fp16.h", "cuda_bf16.h", "device_launch_parameters.h",
	"vector_types.h", "vector_functions.h", "math_constants.h", "math_functions.h", "device_functions.h", "helper_math.h"}

func (d simDialect) compile(_ *backendgpu.Device, s compile.Source, entries []string, _ []num.DType) (*compile.Program, []string, error) {
	compiler, err := compile.OpenHost()
	if err != nil {
		return nil, nil, err
	}
	s.Headers = slices.Concat(s.Headers, d.simHeaders)
	for _, name := range cudaHeaders {
		s.Headers = append(s.Headers, compile.Header{Name: name, Text: including(d.simHeaders[0].Name)})
	}
	s.Headers = append(s.Headers, sim.Headers...)
	s.Units = slices.Concat(s.Units, sim.Units, []compile.Header{compile.Header{Name: "bounds.cc", Text: simBounds}})
	p, err := compile.Default().Compile(compiler, compile.Checked, s)
	return p, entries, err
}

// params adds the regions that the kernel may access.
func (simDialect) params(arguments []byte, regions func() []region) []byte {
	const nameBytes = 32
	for len(arguments)%8 != 0 {
		arguments = append(arguments, 0)
	}
	list := regions()
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(arguments)))
	b = append(b, arguments...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(list)))
	for _, r := range list {
		writable := uint64(0)
		if r.isWritable {
			writable = 1
		}
		for _, v := range []uint64{r.begin, r.end, r.row, r.stride, r.elementSize, writable} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		name := make([]byte, nameBytes)
		copy(name[:nameBytes-1], r.name)
		b = append(b, name...)
	}
	return b
}
