package foreign

import (
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	backendgpu "tokitai/backend/gpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/device/gpu/compile"
	"tokitai/engine"
	"tokitai/lower"
	"tokitai/num"
)

// sourceKernel is a kernel in a language, with how it is launched.
type sourceKernel struct {
	language *language
	dialect  dialect
	file     string // its name without the folder, as in messages
	text     string
	headers  []compile.Header
	program  *launchProgram
	d        *def.Definition
	entries  []string // of the launches, as C++ names them

	mu     sync.Mutex
	builds map[string]*build // by formats
}

// build is the program for one choice of formats.
type build struct {
	made  sync.Once
	image *compile.Program
	names []string // of the kernels in the program, as entries
	err   error
}

// MismatchError is a kernel whose arguments are not what the launch gives in some formats.
type MismatchError struct{ Reason string }

func (e *MismatchError) Error() string { return e.Reason }

// CompileError is a source that does not compile, with the compiler's messages.
type CompileError struct{ Summary, Log string }

func (e *CompileError) Error() string { return e.Summary }

// Detail returns the beginning of the compiler's messages.
func (e *CompileError) Detail() string {
	const most = 24
	lines := strings.Split(strings.TrimSpace(e.Log), "\n")
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("… and %d more lines", len(lines)-most))
	}
	return strings.Join(lines, "\n")
}

// Source compiles a kernel in CUDA C++ (the language "cuda") or HIP ("hip") from a file, and
// launches it as the launch text says. o.Device is a GPU, the simulator, or for HIP an emulated
// GPU. The file is compiled once for every choice of formats, the usual ones at once: a source that
// does not compile is an error here, and formats that the kernel does not take are left out
// of the kernel's DTypes unless o.DTypes names them.
func Source(name, path, entry, launch string, o Options) (*Kernel, error) {
	if o.Definition == nil || o.Open == nil {
		return nil, errors.New("foreign: the options have no definition, or no function that opens devices")
	}
	language, err := languageNamed(name)
	if err != nil {
		return nil, err
	}
	program, err := parseLaunch(launch, o.Definition)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text, headers, err := includedFiles(path, string(content))
	if err != nil {
		return nil, err
	}
	k := &sourceKernel{language: language, file: filepath.Base(path), text: text, headers: headers, program: program, d: o.Definition, builds: map[string]*build{}}
	for _, l := range program.launches {
		if l.entry == "" {
			l.entry = entry
		}
		if l.entry == "" {
			return nil, fmt.Errorf("no kernel is named: want --entry, one of %s", listed(kernelsIn(text)))
		}
		k.entries = append(k.entries, l.entry)
	}
	opened, err := o.Open(o.Device)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	if k.dialect, err = language.dialectFor(opened); err != nil {
		return nil, err
	}
	dev, ok := opened.(*backendgpu.Device)
	if !ok {
		return nil, fmt.Errorf("%s runs no kernels of this kind", opened.Kind())
	}
	if err := k.dialect.check(k.file, text); err != nil {
		return nil, err
	}
	if err := k.checkConstants(dev.Limits()); err != nil {
		return nil, err
	}
	dtypes, err := k.compileUsual(dev, o.DTypes)
	if err != nil {
		return nil, err
	}
	return &Kernel{
		Lowering: o.promising(engine.Lowering{Name: "check." + name, Device: dev.Kind(), Suits: k.suits, Compile: k.compile}),
		Source:   fmt.Sprintf("%s (SHA-256 %x), entry %s, launch %s", path, sha256.Sum256(content), strings.Join(k.entries, ", "), launch),
		Device:   o.Device,
		DTypes:   dtypes,
		Close:    func() error { return nil },
	}, nil
}

func listed(names []string) string {
	if len(names) == 0 {
		return "its __global__ functions"
	}
	return strings.Join(names, ", ")
}

// compileUsual compiles for the usual choice of formats of each of the given ones, or of all,
// and returns those that the kernel takes.
func (k *sourceKernel) compileUsual(dev *backendgpu.Device, wanted []num.DType) (taken []num.DType, err error) {
	var first error
	for _, dtype := range num.AllDTypes {
		formats := k.d.Formats()
		i := slices.IndexFunc(formats, func(f []num.DType) bool { return k.d.Format(f) == dtype })
		if i < 0 || len(wanted) > 0 && !slices.Contains(wanted, dtype) {
			continue
		}
		_, err := k.built(dev, formats[i])
		if _, isMismatch := errors.AsType[*MismatchError](err); isMismatch && len(wanted) == 0 {
			if first == nil {
				first = err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		taken = append(taken, dtype)
	}
	if len(taken) == 0 && first != nil {
		return nil, first
	}
	return taken, nil
}

// built compiles the kernel for a choice of formats, or returns what an earlier call has.
func (k *sourceKernel) built(dev *backendgpu.Device, formats []num.DType) (*build, error) {
	k.mu.Lock()
	key := fmt.Sprint(formats)
	b := k.builds[key]
	if b == nil {
		b = &build{}
		k.builds[key] = b
	}
	k.mu.Unlock()
	b.made.Do(func() {
		s := compile.Source{Name: k.file, Text: k.preamble(formats) + fmt.Sprintf("#line 1 %q\n", k.file) + k.dialect.rewrite(k.text) + k.checks(formats)}
		for _, h := range k.headers {
			s.Headers = append(s.Headers, compile.Header{Name: h.Name, Text: k.dialect.rewrite(h.Text)})
		}
		b.image, b.names, b.err = k.dialect.compile(dev, s, k.resolved(formats), formats)
		b.err = k.explained(b.err, formats)
	})
	return b, b.err
}

// preamble says what is compiled: the macros and types that docs/sources.md lists.
func (k *sourceKernel) preamble(formats []num.DType) string {
	var b strings.Builder
	dtype := k.d.Format(formats)
	fmt.Fprintf(&b, "#define TOKITAI_CHECK 1\n#define TOKITAI_DTYPE %s\n#define TOKITAI_%s 1\n", k.language.types[dtype], strings.ToUpper(dtype.String()))
	b.WriteString(k.dialect.include(formats))
	if !declaresT.MatchString(blanked(k.text)) {
		fmt.Fprintf(&b, "typedef %s T;\n", k.language.types[dtype])
	}
	for i, o := range k.d.Operands {
		fmt.Fprintf(&b, "typedef %s T_%s;\n", k.language.types[formats[i]], o.Name)
	}
	return b.String()
}

// launchFile is the name of the text that checks the launch, in the compiler's messages.
const launchFile = "tokitai-launch"

//go:embed cuda/launch.h
var launchHeader string

// checks compares the kernels' arguments with those of the launches, when it is compiled.
func (k *sourceKernel) checks(formats []num.DType) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n#line 1 %q\n%s", launchFile, launchHeader)
	for i, l := range k.program.launches {
		var types []string
		for _, a := range l.arguments {
			switch {
			case a.operand >= 0:
				types = append(types, "tokitai_launch::data<T_"+k.d.Operands[a.operand].Name+">")
			case a.kind.isPointer():
				types = append(types, "tokitai_launch::memory")
			default:
				types = append(types, argumentTypes[a.kind].cxx)
			}
		}
		fmt.Fprintf(&b, "#line %d %q\nstatic_assert(tokitai_launch::launch<decltype(&%s), tokitai_launch::list<%s>>::value, \"\");\n",
			i+1, launchFile, k.entries[i], strings.Join(types, ", "))
	}
	b.WriteString(k.dialect.entries(k.resolved(formats)))
	return b.String()
}

// ofElements matches the types of elements in template arguments.
var ofElements = regexp.MustCompile(`\bT(?:_\w+)?\b`)

// resolved returns the entries with the types of elements in the place of T and T_x: some
// compilers find kernels by the text of their names.
func (k *sourceKernel) resolved(formats []num.DType) (names []string) {
	hasT := !declaresT.MatchString(blanked(k.text))
	for _, entry := range k.entries {
		name, arguments, _ := strings.Cut(entry, "<")
		arguments = ofElements.ReplaceAllStringFunc(arguments, func(word string) string {
			operand, isOperand := strings.CutPrefix(word, "T_")
			if i := k.d.Operand(operand); isOperand && i >= 0 {
				return k.language.types[formats[i]]
			}
			if word == "T" && hasT {
				return k.language.types[k.d.Format(formats)]
			}
			return word
		})
		if arguments != "" {
			name += "<" + arguments
		}
		names = append(names, name)
	}
	return names
}

// suits returns an error if the kernel does not compute a call, by what the launch says.
func (k *sourceKernel) suits(dev device.Device, d *def.Definition, c *lower.Call) error {
	formats := make([]num.DType, len(c.Operands))
	for i := range c.Operands {
		a := &c.Operands[i].Array
		formats[i] = a.DType
		if err := k.suitsOperand(&d.Operands[i], i, a, c.Operands[i].Address()); err != nil {
			return err
		}
	}
	e := environmentOf(d, c)
	for _, r := range k.program.when {
		holds, err := r.holds.value(e)
		if err != nil {
			return err
		}
		if holds == 0 {
			return fmt.Errorf("the launch is for %s", r.text)
		}
	}
	opened, ok := dev.(*backendgpu.Device)
	if !ok {
		return fmt.Errorf("got a device that is no GPU: %s", dev.Kind())
	}
	_, err := k.built(opened, formats)
	return err
}

func (k *sourceKernel) suitsOperand(o *def.Operand, i int, a *num.Array, address uint64) error {
	if a.Rows > 1 && a.Stride != a.Cols && !k.program.usesStride[i] {
		return fmt.Errorf("the rows of %s begin %d elements apart and have %d, and the launch does not use %s.stride", o.Name, a.Stride, a.Cols, o.Name)
	}
	stride := a.Stride * (a.Rows / a.Matrices())
	for axis := a.Batch.Count - 1; axis >= 0; axis-- {
		x := &a.Batch.Axes[axis]
		if x.Size > 1 && x.Stride != stride && !k.program.usesAxis[i][o.Dims[axis]] {
			return fmt.Errorf("the matrices of %s begin %d elements apart along %s, and the launch does not use %s.stride.%s", o.Name, x.Stride, o.Dims[axis], o.Name, o.Dims[axis])
		}
		stride *= x.Size
	}
	if n := uint64(k.program.align); n > 1 && (address%n != 0 || a.Rows > 1 && uint64(a.Stride*a.DType.Size())%n != 0) {
		return fmt.Errorf("%s begins at an address or has rows that are not multiples of the launch's align=%d", o.Name, n)
	}
	return nil
}

// compile implements engine.Lowering.
func (k *sourceKernel) compile(dev device.Device, _ *def.Definition, formats []num.DType, _ int) (engine.Kernel, error) {
	opened, ok := dev.(*backendgpu.Device)
	if !ok {
		return nil, fmt.Errorf("got a device that is no GPU: %s", dev.Kind())
	}
	b, err := k.built(opened, formats)
	if err != nil {
		return nil, err
	}
	module, err := opened.LoadProgram(k.file, b.image, b.names...)
	if err != nil {
		return nil, err
	}
	loaded := &loadedSource{source: k, limits: opened.Limits(), image: fmt.Sprintf("%x", sha256.Sum256(b.image.Image))}
	for _, name := range b.names {
		f, err := module.Entry(name)
		if err != nil {
			return nil, err
		}
		loaded.functions = append(loaded.functions, f)
	}
	return loaded, nil
}
