// Package cublaslt computes matrix products with cuBLASLt, NVIDIA's library, which it
// opens at run time. It knows addresses and sizes, not operations.
//
// A [Handle] belongs to one device. It asks the library once for the algorithm of each
// [Problem] and keeps the answer. Sums are in binary32; where the library divides a sum
// among blocks, the parts are added in binary32 too.
//
// Start with Open, then Library.NewHandle and Handle.Plan. All but Open are called with
// the device's context current on a locked thread.
package cublaslt

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"sync"
	"unsafe"

	"tokitai/device/gpu/driver"
	"tokitai/internal/dl"
)

// Library is libcublasLt. It is safe for concurrent use.
type Library struct {
	library *dl.Library
	version int // 130100 is 13.1.0

	create, destroy, getVersion, statusName, statusText dl.Proc

	newProduct, setProduct, freeProduct          dl.Proc
	newLayout, setLayout, freeLayout             dl.Proc
	newPreference, setPreference, freePreference dl.Proc
	heuristic, config, matmul                    dl.Proc

	hash func() ([sha256.Size]byte, error)
}

// variable names the library's file or folder.
const variable = "TOKITAI_CUBLASLT"

var opened struct {
	sync.Mutex
	byName map[string]*Library // by the value of variable
}

// Open opens the library on first use. The environment variable TOKITAI_CUBLASLT may name
// its file or folder. If it cannot be opened, the next call tries again.
func Open() (*Library, error) {
	opened.Lock()
	defer opened.Unlock()
	name := os.Getenv(variable)
	if l := opened.byName[name]; l != nil {
		return l, nil
	}
	l, err := open()
	if err != nil {
		return nil, err
	}
	if opened.byName == nil {
		opened.byName = map[string]*Library{}
	}
	opened.byName[name] = l
	return l, nil
}

func open() (*Library, error) {
	library, err := dl.Open(dl.Request{
		What:  "cuBLASLt, NVIDIA's library of matrix products",
		Env:   variable,
		Files: []string{"libcublasLt.so.13", "libcublasLt.so.12"},
		Dirs:  append(dl.PythonDirs("nvidia/cu13/lib", "nvidia/cublas/lib"), dl.CUDADirs()...),
		Hint:  "pip install nvidia-cublas (for drivers of CUDA 12: nvidia-cublas-cu12), or install a CUDA toolkit",
	})
	if err != nil {
		return nil, err
	}
	l := &Library{library: library}
	for name, proc := range map[string]*dl.Proc{
		"cublasLtCreate": &l.create, "cublasLtDestroy": &l.destroy, "cublasLtGetVersion": &l.getVersion,
		"cublasLtGetStatusName": &l.statusName, "cublasLtGetStatusString": &l.statusText,
		"cublasLtMatmulDescCreate": &l.newProduct, "cublasLtMatmulDescSetAttribute": &l.setProduct, "cublasLtMatmulDescDestroy": &l.freeProduct,
		"cublasLtMatrixLayoutCreate": &l.newLayout, "cublasLtMatrixLayoutSetAttribute": &l.setLayout, "cublasLtMatrixLayoutDestroy": &l.freeLayout,
		"cublasLtMatmulPreferenceCreate": &l.newPreference, "cublasLtMatmulPreferenceSetAttribute": &l.setPreference, "cublasLtMatmulPreferenceDestroy": &l.freePreference,
		"cublasLtMatmulAlgoGetHeuristic": &l.heuristic, "cublasLtMatmulAlgoConfigGetAttribute": &l.config, "cublasLtMatmul": &l.matmul,
	} {
		if *proc, err = library.Proc(name); err != nil {
			library.Close()
			return nil, fmt.Errorf("not cuBLASLt of CUDA 12 or newer: %w", err)
		}
	}
	l.version = int(l.getVersion.Call(nil))
	l.hash = sync.OnceValues(func() ([sha256.Size]byte, error) { return fileHash(library.Path()) })
	return l, nil
}

// String returns name and version: cuBLASLt 13.1.0.
func (l *Library) String() string {
	return fmt.Sprintf("cuBLASLt %d.%d.%d", l.version/10000, l.version/100%100, l.version%100)
}

// Path returns the path of the library's file.
func (l *Library) Path() string { return l.library.Path() }

// Options returns what the library is asked for with every product.
func (l *Library) Options() []string {
	return []string{"compute type 32F", "reduction scheme of the compute type", fmt.Sprintf("workspace of %d bytes", MaxWorkspace), "first algorithm of the heuristic that rounds once"}
}

// Hash returns the SHA-256 of the library's file, which takes about a second at first.
func (l *Library) Hash() ([sha256.Size]byte, error) { return l.hash() }

func fileHash(path string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// Codes of cublasStatus_t with a special meaning.
const (
	statusSuccess      = 0
	statusNotSupported = 15
)

// failure returns the error of a status, or nil.
func (l *Library) failure(call string, status uintptr) error {
	code := int32(status)
	if code == statusSuccess {
		return nil
	}
	return &driver.Error{Call: call, Code: int(code), Name: l.text(l.statusName, code), Text: l.text(l.statusText, code)}
}

// text returns the library's text for a status.
func (l *Library) text(p dl.Proc, code int32) string {
	at := p.Call([]uintptr{uintptr(uint32(code))})
	if at == 0 {
		return ""
	}
	const most = 256
	text := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), most)
	for i := range most {
		if text[i] == 0 {
			return string(text[:i])
		}
	}
	return string(text)
}

// frame is the memory of one call: its arguments and what they point to. It is in the
// heap, since a stack may move.
type frame struct {
	args  [16]uintptr
	value uint64 // of an attribute, or a handle that the library returns
	count int32
	size  uint64
	found [maxCandidates]heuristicResult
}

// maxCandidates is how many algorithms the library is asked for where its first choice may
// not do.
const maxCandidates = 16

// heuristicResult is cublasLtMatmulHeuristicResult_t.
type heuristicResult struct {
	algorithm [8]uint64
	workspace uint64
	state     int32
	_         float32 // waves
	_         [4]int32
}

func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// made calls a function that writes a handle through its first argument.
func (l *Library) made(call string, p dl.Proc, f *frame, more ...uintptr) (uintptr, error) {
	f.value = 0
	f.args[0] = address(&f.value)
	copy(f.args[1:], more)
	err := l.failure(call, p.Call(f.args[:1+len(more)]))
	return uintptr(f.value), err
}

// set sets an attribute of a descriptor to a value of a size in bytes.
func (l *Library) set(call string, p dl.Proc, f *frame, descriptor uintptr, attribute int, value uint64, bytes uintptr) error {
	f.value = value // little-endian, so that the first bytes are those of a smaller integer
	f.args[0], f.args[1], f.args[2], f.args[3] = descriptor, uintptr(attribute), address(&f.value), bytes
	return l.failure(call, p.Call(f.args[:4]))
}
