package compile

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"unsafe"

	"tokitai/internal/dl"
)

// NVRTC is NVIDIA's run-time compiler. Use OpenNVRTC to open it. It is safe for
// concurrent use.
type NVRTC struct {
	library  *dl.Library
	builtins []string // paths of the libraries that it opens itself
	major    int
	minor    int

	version, errorString, create, destroy, compile, cubinSize, cubin, logSize, log, archCount, archs dl.Proc

	addName, loweredName dl.Proc

	identity func() (Identity, error)
}

var nvrtcs struct {
	sync.Mutex
	byMajor map[int]*NVRTC
}

// OpenNVRTC opens the compiler of the driver's major version, whose code the driver is
// sure to accept, or else another version. The environment variable TOKITAI_NVRTC may
// name its file or folder.
func OpenNVRTC(driverMajor int) (*NVRTC, error) {
	nvrtcs.Lock()
	defer nvrtcs.Unlock()
	if c, ok := nvrtcs.byMajor[driverMajor]; ok {
		return c, nil
	}
	c, err := openNVRTC(driverMajor)
	if err != nil {
		return nil, err
	}
	if nvrtcs.byMajor == nil {
		nvrtcs.byMajor = map[int]*NVRTC{}
	}
	nvrtcs.byMajor[driverMajor] = c
	return c, nil
}

// nvrtcFiles maps major versions to file names.
var nvrtcFiles = map[int]string{13: "libnvrtc.so.13", 12: "libnvrtc.so.12"}

func nvrtcRequest(driverMajor int) dl.Request {
	majors := []int{13, 12}
	if driverMajor == 12 {
		slices.Reverse(majors)
	}
	var files []string
	for _, m := range majors {
		files = append(files, nvrtcFiles[m])
	}
	return dl.Request{
		What:  "NVRTC, the compiler for NVIDIA GPUs",
		Env:   "TOKITAI_NVRTC",
		Files: append(files, "libnvrtc.so"),
		Dirs:  append(dl.PythonDirs("nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"), dl.CUDADirs()...),
		Hint:  "pip install nvidia-cuda-nvrtc (for drivers of CUDA 12: nvidia-cuda-nvrtc-cu12), or install a CUDA toolkit",
	}
}

func openNVRTC(driverMajor int) (*NVRTC, error) {
	request := nvrtcRequest(driverMajor)
	// The compiler opens a second library by name. Some packages install it where the
	// loader does not look, so load it first.
	request.Before = func(path string) {
		for _, builtins := range builtinsBeside(path) {
			dl.Preload(builtins) // if this fails, the compiler reports it
		}
	}
	library, err := dl.Open(request)
	if err != nil {
		return nil, err
	}
	c := &NVRTC{library: library, builtins: builtinsBeside(library.Path())}
	for name, proc := range map[string]*dl.Proc{
		"nvrtcVersion": &c.version, "nvrtcGetErrorString": &c.errorString, "nvrtcCreateProgram": &c.create,
		"nvrtcDestroyProgram": &c.destroy, "nvrtcCompileProgram": &c.compile, "nvrtcGetCUBINSize": &c.cubinSize,
		"nvrtcGetCUBIN": &c.cubin, "nvrtcGetProgramLogSize": &c.logSize, "nvrtcGetProgramLog": &c.log,
		"nvrtcGetNumSupportedArchs": &c.archCount, "nvrtcGetSupportedArchs": &c.archs,
		"nvrtcAddNameExpression": &c.addName, "nvrtcGetLoweredName": &c.loweredName,
	} {
		if *proc, err = library.Proc(name); err != nil {
			return nil, fmt.Errorf("NVRTC is too old: %w", err)
		}
	}
	f := new(rtcFrame)
	f.args[0], f.args[1] = f.at(0), f.at(1)
	if err := c.call("nvrtcVersion", c.version, f, 2); err != nil {
		return nil, err
	}
	c.major, c.minor = int(int32(f.out[0])), int(int32(f.out[1]))
	c.identity = sync.OnceValues(func() (Identity, error) {
		hash := sha256.New()
		for _, path := range append([]string{library.Path()}, c.builtins...) {
			h, err := fileHash(path)
			if err != nil {
				return Identity{}, fmt.Errorf("NVRTC: %w", err)
			}
			hash.Write(h[:])
		}
		return Identity{Name: c.String(), Hash: [sha256.Size]byte(hash.Sum(nil))}, nil
	})
	return c, nil
}

// builtinsBeside returns the paths of the builtins libraries in the folder of library.
func builtinsBeside(library string) []string {
	if !filepath.IsAbs(library) {
		return nil
	}
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(library), "libnvrtc-builtins.so.*"))
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(paths, func(p string) bool { return filepath.Ext(p) == ".alt" })
}

// String returns the compiler's name and version.
func (c *NVRTC) String() string { return fmt.Sprintf("NVRTC %d.%d", c.major, c.minor) }

// Path returns the path of the library.
func (c *NVRTC) Path() string { return c.library.Path() }

// Identity returns the version and a hash of the library's files.
func (c *NVRTC) Identity() (Identity, error) { return c.identity() }

// Options returns the compiler's options. They keep the bits equal on all devices, and
// compile to machine code, not to PTX for the driver to translate.
func (c *NVRTC) Options(architecture string) []string {
	return []string{"--gpu-architecture=" + architecture, "--std=c++17",
		"--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "-Xptxas", "-v"}
}

// Architectures returns the compute capabilities that the compiler supports: 75, 80, …
func (c *NVRTC) Architectures() ([]int, error) {
	f := new(rtcFrame)
	f.args[0] = f.at(0)
	if err := c.call("nvrtcGetNumSupportedArchs", c.archCount, f, 1); err != nil {
		return nil, err
	}
	list := make([]int32, int32(f.out[0]))
	if len(list) == 0 {
		return nil, nil
	}
	f.args[0] = f.hold(unsafe.Pointer(&list[0]))
	if err := c.call("nvrtcGetSupportedArchs", c.archs, f, 1); err != nil {
		return nil, err
	}
	var known []int
	for _, a := range list {
		known = append(known, int(a))
	}
	return known, nil
}

func (c *NVRTC) call(name string, p dl.Proc, f *rtcFrame, n int) error {
	if code := int32(p.Call(f.args[:n])); code != 0 {
		text := goString(c.errorString.Call([]uintptr{uintptr(uint32(code))}))
		return fmt.Errorf("%s: %s: %s", c, name, text)
	}
	return nil
}

// Compile compiles s to a CUBIN.
func (c *NVRTC) Compile(architecture string, s Source) (*Program, error) {
	p, _, err := c.CompileNamed(architecture, s, c.Options(architecture), nil)
	return p, err
}

// CompileNamed compiles s to a CUBIN with the given options instead of c's own. Expressions
// name kernels of the source as C++ does, such as softmax<float>; the names are theirs in the
// program, in the same order.
func (c *NVRTC) CompileNamed(architecture string, s Source, options, expressions []string) (p *Program, names []string, err error) {
	f := newProgramFrame(s)
	if err := c.call("nvrtcCreateProgram", c.create, f, 6); err != nil {
		return nil, nil, err
	}
	handle := uintptr(f.out[0])
	defer func() {
		f.out[0] = uint64(handle)
		f.args[0] = uintptr(unsafe.Pointer(&f.out[0]))
		c.destroy.Call(f.args[:1])
	}()

	for _, x := range expressions {
		f.args[0], f.args[1] = handle, f.text(x)
		if err := c.call("nvrtcAddNameExpression", c.addName, f, 2); err != nil {
			return nil, nil, err
		}
	}
	f.args[0], f.args[1], f.args[2] = handle, uintptr(len(options)), f.texts(options)
	failed := c.call("nvrtcCompileProgram", c.compile, f, 3)
	log, err := rtcBytes(c.call, handle, "nvrtcGetProgramLog", c.logSize, c.log)
	if err != nil {
		return nil, nil, err
	}
	if n := len(log); n > 0 && log[n-1] == 0 {
		log = log[:n-1]
	}
	if failed != nil {
		if len(log) == 0 {
			log = []byte(failed.Error())
		}
		return nil, nil, newError(c.String(), s, string(log))
	}
	for _, x := range expressions {
		f.args[0], f.args[1], f.args[2] = handle, f.text(x), f.at(0)
		if err := c.call("nvrtcGetLoweredName", c.loweredName, f, 3); err != nil {
			return nil, nil, err
		}
		names = append(names, goString(uintptr(f.out[0])))
	}
	image, err := rtcBytes(c.call, handle, "nvrtcGetCUBIN", c.cubinSize, c.cubin)
	if err != nil {
		return nil, nil, err
	}
	if len(image) == 0 {
		return nil, nil, fmt.Errorf("%s: no code for architecture %s, want a real one such as sm_90a", c, architecture)
	}
	return &Program{Image: image, Log: string(log), Usage: parseUsage(string(log))}, names, nil
}
