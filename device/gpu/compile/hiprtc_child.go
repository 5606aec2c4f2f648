package compile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tokitai/internal/dl"
)

// A process in which hipRTC compiles is this program, started again with an argument and an
// environment variable. It is recognized before main runs, in init, so that it works in every
// program that links this package, tests included, without a call in main. Packages that are
// initialized earlier, those that this one imports and perhaps some that have nothing to do
// with it, are initialized in the child too; what they print goes to the log.
const (
	hiprtcArgument = "tokitai-compile-hiprtc"
	hiprtcMark     = "TOKITAI_HIPRTC_PROCESS"
)

func init() {
	if len(os.Args) == 3 && os.Args[1] == hiprtcArgument && os.Getenv(hiprtcMark) != "" {
		os.Exit(serveHIPRTC(os.Args[2]))
	}
}

// argumentCount is the number of this program's arguments, with its name, before a program
// may change them.
var argumentCount = len(os.Args)

// startAgain returns the path of this program and the arguments to start it with, without
// its own. If a loader was started to run it, as in ld.so --library-path folder program, the
// loader is started again in the same way.
func startAgain() (path string, arguments []string, err error) {
	const running, command = "/proc/self/exe", "/proc/self/cmdline"
	if _, err := os.Stat(running); err != nil {
		path, err = os.Executable()
		return path, nil, err
	}
	text, err := os.ReadFile(command)
	if err != nil {
		return "", nil, err
	}
	words := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	if own := argumentCount - 1; len(words) > own+1 {
		arguments = words[1 : len(words)-own]
		if arguments[len(arguments)-1], err = filepath.Abs(arguments[len(arguments)-1]); err != nil {
			return "", nil, err
		}
	}
	return running, arguments, nil
}

// serveHIPRTC does the request in a folder and returns the exit code.
func serveHIPRTC(dir string) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	text, err := os.ReadFile(filepath.Join(dir, hiprtcAsked))
	if err != nil {
		return fail(err)
	}
	request := &hiprtcRequest{}
	if err := json.Unmarshal(text, request); err != nil {
		return fail(err)
	}
	answer := &hiprtcAnswer{}
	if err := answer.serve(request); err != nil {
		answer.Failure = err.Error()
	}
	if text, err = json.Marshal(answer); err != nil {
		return fail(err)
	}
	if request.Source != nil && answer.Failure == "" {
		if err := os.WriteFile(filepath.Join(dir, hiprtcMade), answer.image, 0o600); err != nil {
			return fail(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, hiprtcAnswered), text, 0o600); err != nil {
		return fail(err)
	}
	return 0
}

func (a *hiprtcAnswer) serve(request *hiprtcRequest) error {
	r, err := openRTC(request)
	if err != nil {
		return err
	}
	a.Path = r.library.Path()
	if request.Source != nil {
		return r.compileSource(a, request)
	}
	// The compiler proper is a library that some releases load for the first program.
	handle, err := r.newProgram(Source{Name: "empty.hip", Text: "// nothing\n"})
	if err != nil {
		return err
	}
	defer r.destroyProgram(handle)
	a.Files = compilerFiles(a.Path)
	return nil
}

// rtc is hipRTC, or a library with its functions.
type rtc struct {
	library *dl.Library

	errorString, create, destroy, compile, codeSize, code, logSize, log dl.Proc
}

// openRTC opens the library that a request names, or looks for it: beside the runtime, in the
// runtime itself, and last in other places. Code of another release might not load.
func openRTC(request *hiprtcRequest) (*rtc, error) {
	if request.Library != "" {
		return openRTCFile(request.Library)
	}
	files := []string{fmt.Sprintf("libhiprtc.so.%d", request.Major), "libhiprtc.so"}
	var inRuntime error
	if os.Getenv(hiprtcVariable) == "" {
		for _, file := range files {
			if r, err := openRTCFile(filepath.Join(filepath.Dir(request.Runtime), file)); err == nil {
				return r, nil
			}
		}
		var r *rtc
		if r, inRuntime = openRTCFile(request.Runtime); inRuntime == nil {
			return r, nil
		}
	}
	library, err := dl.Open(dl.Request{
		What:   "hipRTC, the compiler for AMD GPUs",
		Env:    hiprtcVariable,
		Files:  files,
		Dirs:   append(dl.ROCmChosen(), dl.ROCmDirs()...),
		Hint:   "it comes with ROCm, in Debian libhiprtc6",
		Before: preloadBuiltins,
	})
	switch {
	case err == nil:
		return fillRTC(library)
	case inRuntime != nil:
		return nil, fmt.Errorf("%w; %w", err, inRuntime)
	}
	return nil, err
}

func openRTCFile(path string) (*rtc, error) {
	preloadBuiltins(path)
	library, err := dl.Open(dl.Request{What: "hipRTC", Files: []string{path}})
	if err != nil {
		return nil, err
	}
	return fillRTC(library)
}

// preloadBuiltins loads the library of headers beside hipRTC, which opens it by name.
func preloadBuiltins(path string) {
	if !filepath.IsAbs(path) {
		return
	}
	for _, builtins := range versionsBeside(path, "libhiprtc-builtins.so.*") {
		dl.Preload(builtins) // if this fails, the compiler reports it
	}
}

func fillRTC(library *dl.Library) (*rtc, error) {
	r := &rtc{library: library}
	for name, proc := range map[string]*dl.Proc{
		"hiprtcGetErrorString": &r.errorString, "hiprtcCreateProgram": &r.create, "hiprtcDestroyProgram": &r.destroy,
		"hiprtcCompileProgram": &r.compile, "hiprtcGetCodeSize": &r.codeSize, "hiprtcGetCode": &r.code,
		"hiprtcGetProgramLogSize": &r.logSize, "hiprtcGetProgramLog": &r.log,
	} {
		var err error
		if *proc, err = library.Proc(name); err != nil {
			return nil, fmt.Errorf("not hipRTC: %w", err)
		}
	}
	return r, nil
}

func (r *rtc) call(name string, p dl.Proc, f *rtcFrame, n int) error {
	if code := int32(p.Call(f.args[:n])); code != 0 {
		return fmt.Errorf("%s: %s", name, goString(r.errorString.Call([]uintptr{uintptr(uint32(code))})))
	}
	return nil
}

// callNamed calls a function that only sources with expressions need.
func (r *rtc) callNamed(name string, f *rtcFrame, n int) error {
	p, err := r.library.Proc(name)
	if err != nil {
		return err
	}
	return r.call(name, p, f, n)
}

func (r *rtc) newProgram(s Source) (handle uintptr, err error) {
	f := newProgramFrame(s)
	err = r.call("hiprtcCreateProgram", r.create, f, 6)
	return uintptr(f.out[0]), err
}

func (r *rtc) destroyProgram(handle uintptr) {
	f := new(rtcFrame)
	f.args[0], f.out[0] = f.at(0), uint64(handle)
	r.destroy.Call(f.args[:1])
}

// compileSource fills an answer.
func (r *rtc) compileSource(a *hiprtcAnswer, request *hiprtcRequest) error {
	handle, err := r.newProgram(*request.Source)
	if err != nil {
		return err
	}
	defer r.destroyProgram(handle)
	f := new(rtcFrame)
	for _, x := range request.Expressions {
		f.args[0], f.args[1] = handle, f.text(x)
		if err := r.callNamed("hiprtcAddNameExpression", f, 2); err != nil {
			return err
		}
	}
	f.args[0], f.args[1], f.args[2] = handle, uintptr(len(request.Options)), f.texts(request.Options)
	failed := r.call("hiprtcCompileProgram", r.compile, f, 3)
	log, err := rtcBytes(r.call, handle, "hiprtcGetProgramLog", r.logSize, r.log)
	if err == nil {
		a.Log = string(bytes.TrimRight(log, "\x00"))
	}
	if failed != nil {
		return failed
	}
	for _, x := range request.Expressions {
		f.args[0], f.args[1], f.args[2] = handle, f.text(x), f.at(0)
		if err := r.callNamed("hiprtcGetLoweredName", f, 3); err != nil {
			return err
		}
		a.Names = append(a.Names, goString(uintptr(f.out[0])))
	}
	a.image, err = rtcBytes(r.call, handle, "hiprtcGetCode", r.codeSize, r.code)
	return err
}

// compilerFiles returns the files that make up the compiler: the library and those that this
// process has loaded with it, sorted. The system's own, such as libc, do not change what is
// compiled.
func compilerFiles(library string) []string {
	files := []string{library}
	if real, err := filepath.EvalSymlinks(library); err == nil {
		files[0] = real
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return files
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		at := strings.IndexByte(lines.Text(), '/')
		if at < 0 {
			continue
		}
		path := lines.Text()[at:]
		isPart := slices.ContainsFunc([]string{"libhip", "libamd", "libLLVM", "libclang", "librocm"}, func(prefix string) bool {
			return strings.HasPrefix(filepath.Base(path), prefix)
		})
		if isPart && !slices.Contains(files, path) {
			files = append(files, path)
		}
	}
	slices.Sort(files)
	return files
}

// versionsBeside returns the files in a library's folder that match a pattern.
func versionsBeside(library, pattern string) []string {
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(library), pattern))
	if err != nil {
		return nil
	}
	return paths
}
