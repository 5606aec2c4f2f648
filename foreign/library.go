package foreign

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"tokitai/kernelprocess/spawn"
)

// LibraryHeader is the C header of functions that [Library] calls.
//
//go:embed tokitai.h
var LibraryHeader string

// Library returns a kernel that is a C function in a shared library: int f(const
// tokitai_call *), as LibraryHeader describes it. The file is examined before anything of it
// runs. The function is called in processes of its own, this program started again, so that
// whatever it does ends no other process.
//
// Operands lie between guards, and a function that writes there or changes an input is
// rejected. Rows follow each other without gaps unless o.IsStrided is set.
func Library(path, symbol string, o Options) (*Kernel, error) {
	if o.Definition == nil {
		return nil, errors.New("foreign: the options have no definition")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, &LibraryError{path, withoutPath(err)}
	}
	if err := checkLibrary(content, symbol); err != nil {
		return nil, &LibraryError{path, err}
	}
	file, err := filepath.Abs(path) // a name without a slash would be looked for elsewhere
	if err != nil {
		return nil, &LibraryError{path, err}
	}
	self, err := spawn.Self()
	if err != nil {
		return nil, &LibraryError{path, err}
	}
	layout := libraryDense
	if o.IsStrided {
		layout = libraryStrided
	}
	p := newPool(self, []string{self, libraryArgument, file, symbol, o.Definition.Name, layout}, o)
	p.kind, p.name = "library", path
	p.source = fmt.Sprintf("%s (SHA-256 %x), symbol %s", path, sha256.Sum256(content), symbol)
	p.options.Environment = append(slices.Clone(o.Environment), libraryMark+"=1")
	k, err := p.opened()
	if refused, ok := errors.AsType[*RefusedError](err); ok { // the loader's words
		return nil, &LibraryError{path, errors.New(refused.Failure.Message)}
	}
	return k, err
}

// LibraryError is a file that is no library with the function, or that cannot be loaded.
type LibraryError struct {
	Path  string
	Cause error
}

func (e *LibraryError) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Cause) }
func (e *LibraryError) Unwrap() error { return e.Cause }

// withoutPath returns the cause of an error about a file, whose name the caller says.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// machines are the ELF machines of architectures, by Go's names.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkLibrary returns an error unless the content of a file is a shared library for this machine
// that exports a function of a name.
func checkLibrary(content []byte, symbol string) error {
	if !bytes.HasPrefix(content, []byte(elf.ELFMAG)) {
		return errors.New("it is no shared library: it does not begin as ELF files do")
	}
	f, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("it is no shared library, or a part of one: %w", err)
	}
	switch {
	case f.Machine != machines[runtime.GOARCH]:
		return fmt.Errorf("it is for another machine: got %v, want %v", f.Machine, machines[runtime.GOARCH])
	case f.Type != elf.ET_DYN:
		return fmt.Errorf("it is no shared library: its type is %v; link it with -shared, and compile with -fPIC", f.Type)
	}
	dynamic, err := f.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("it exports nothing: %w", err)
	}
	var functions, mangled []string
	isMangled := regexp.MustCompile(fmt.Sprintf(`^_Z(?:N\w*?)?%d%s`, len(symbol), regexp.QuoteMeta(symbol)))
	for _, s := range dynamic {
		isFunction := elf.ST_TYPE(s.Info) == elf.STT_FUNC || elf.ST_TYPE(s.Info) == elf.STT_GNU_IFUNC
		switch {
		case s.Name == symbol && s.Section == elf.SHN_UNDEF:
			return fmt.Errorf("it uses %s, which another library defines; want the one that does", symbol)
		case s.Name == symbol && !isFunction:
			return fmt.Errorf("%s is no function but %s", symbol, symbolKinds[elf.ST_TYPE(s.Info)])
		case s.Name == symbol:
			return nil
		case s.Section == elf.SHN_UNDEF || !isFunction || slices.Contains(functions, s.Name):
		case isMangled.MatchString(s.Name):
			mangled = append(mangled, s.Name)
		default:
			functions = append(functions, s.Name)
		}
	}
	if len(mangled) > 0 {
		return fmt.Errorf("it has no %s, but %s, as C++ names it; declare it extern \"C\"", symbol, mangled[0])
	}
	if all, err := f.Symbols(); err == nil {
		for _, s := range all {
			if s.Name == symbol && s.Section != elf.SHN_UNDEF {
				return fmt.Errorf("it does not export %s, which is static or hidden", symbol)
			}
		}
	}
	if len(functions) == 0 {
		return fmt.Errorf("it has no %s; it exports no function", symbol)
	}
	slices.Sort(functions)
	const most = 12
	shown := strings.Join(functions[:min(len(functions), most)], ", ")
	if len(functions) > most {
		shown += fmt.Sprintf(" and %d more", len(functions)-most)
	}
	return fmt.Errorf("it has no %s%s; it exports %s", symbol, meant(symbol, functions), shown)
}

// symbolKinds says what a symbol is that is no function.
var symbolKinds = map[elf.SymType]string{
	elf.STT_NOTYPE: "a symbol without a type", elf.STT_OBJECT: "a variable", elf.STT_COMMON: "a variable", elf.STT_TLS: "a variable of threads",
	elf.STT_SECTION: "a section", elf.STT_FILE: "the name of a file",
}

// How the process that calls the function is recognized, and how it lays out rows.
const (
	libraryArgument = "tokitai-check-library"
	libraryMark     = "TOKITAI_LIBRARY_PROCESS"
	libraryDense    = "dense"
	libraryStrided  = "strided"
)
