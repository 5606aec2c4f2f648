package clib

import (
	"runtime"
	"sync"
	"unsafe"

	"tokitai/device/gpu/driver"
)

// Library calls the functions of a library. S has the library's own structs that arguments
// point to. A Library must not be copied; it is safe for concurrent use.
type Library[S any] struct {
	// Failure returns the error for a code that a function returned.
	Failure func(call string, code int32) error

	// NotReady is the code of a query for work that is not done.
	NotReady int32

	frames sync.Pool
}

// Frame is the memory of one call: its arguments and what they point to. It is in the
// heap, since a stack may move.
type Frame[S any] struct {
	Args    [12]uintptr
	Out     [4]uint64
	Text    [256]byte
	Structs S

	list [1]uintptr     // of a kernel's parameters
	keep unsafe.Pointer // the caller's memory that an argument points to
}

// Frame returns a frame. Its content is unspecified.
func (l *Library[S]) Frame() *Frame[S] {
	if f, ok := l.frames.Get().(*Frame[S]); ok {
		return f
	}
	return new(Frame[S])
}

// Done makes f available for reuse.
func (l *Library[S]) Done(f *Frame[S]) {
	f.keep = nil
	l.frames.Put(f)
}

// Hold keeps the caller's memory alive until Done, and returns its address; 0 if there is
// none. A frame holds one piece of memory.
func (f *Frame[S]) Hold(memory []byte) uintptr {
	if len(memory) == 0 {
		return 0
	}
	f.keep = unsafe.Pointer(&memory[0])
	return uintptr(f.keep)
}

// List holds the bytes of a kernel's one parameter, a struct, and returns the address of
// the list of parameters; 0 if there is none.
func (f *Frame[S]) List(params []byte) uintptr {
	if f.list[0] = f.Hold(params); f.list[0] == 0 {
		return 0
	}
	return Address(&f.list[0])
}

// Address returns the address of memory that is in the heap.
func Address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// Pointer converts an address outside Go's memory.
func Pointer(address uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// maxText is the most bytes of a text that CString reads.
const maxText = 256

// CString copies a string of the library, which ends at a zero byte, and no more than its
// first 256 bytes.
func CString(address uint64) string {
	if address == 0 {
		return ""
	}
	at := (*byte)(Pointer(address))
	for i := range maxText {
		if *(*byte)(unsafe.Add(unsafe.Pointer(at), i)) == 0 {
			return string(unsafe.Slice(at, i))
		}
	}
	return string(unsafe.Slice(at, maxText))
}

// Call calls a function with the first n arguments of a frame. If it needs a context,
// that is current on this thread.
func (l *Library[S]) Call(p *Function, f *Frame[S], n int) error {
	if code := l.Code(p, f, n); code != 0 {
		return l.Failure(p.Name, code)
	}
	return nil
}

// Code is Call for functions whose codes are not all errors.
func (l *Library[S]) Code(p *Function, f *Frame[S], n int) int32 {
	return int32(p.proc.Call(f.Args[:n]))
}

// Result calls a function that returns an address.
func (l *Library[S]) Result(p *Function, argument uintptr) uint64 {
	f := l.Frame()
	defer l.Done(f)
	f.Args[0] = argument
	return uint64(p.proc.Call(f.Args[:1]))
}

// Call1, Call2, Call3 and Call4 are for functions of integers only.
func (l *Library[S]) Call1(p *Function, a uintptr) error {
	f := l.Frame()
	f.Args[0] = a
	err := l.Call(p, f, 1)
	l.Done(f)
	return err
}

func (l *Library[S]) Call2(p *Function, a, b uintptr) error {
	f := l.Frame()
	f.Args[0], f.Args[1] = a, b
	err := l.Call(p, f, 2)
	l.Done(f)
	return err
}

func (l *Library[S]) Call3(p *Function, a, b, c uintptr) error {
	f := l.Frame()
	f.Args[0], f.Args[1], f.Args[2] = a, b, c
	err := l.Call(p, f, 3)
	l.Done(f)
	return err
}

func (l *Library[S]) Call4(p *Function, a, b, c, d uintptr) error {
	f := l.Frame()
	f.Args[0], f.Args[1], f.Args[2], f.Args[3] = a, b, c, d
	err := l.Call(p, f, 4)
	l.Done(f)
	return err
}

// Create calls a function that writes a value of at most 64 bits, such as a handle, through
// its first argument.
func (l *Library[S]) Create(p *Function, more ...uintptr) (uintptr, error) {
	f := l.Frame()
	defer l.Done(f)
	f.Out[0] = 0
	f.Args[0] = Address(&f.Out[0])
	copy(f.Args[1:], more)
	err := l.Call(p, f, 1+len(more))
	return uintptr(f.Out[0]), err
}

// Query calls a function that returns 0 if work is done.
func (l *Library[S]) Query(p *Function, handle uintptr) (bool, error) {
	f := l.Frame()
	f.Args[0] = handle
	code := l.Code(p, f, 1)
	l.Done(f)
	switch code {
	case 0:
		return true, nil
	case l.NotReady:
		return false, nil
	}
	return false, l.Failure(p.Name, code)
}

// Name returns the name of a device, which a function writes to memory.
func (l *Library[S]) Name(p *Function, device uintptr) (string, error) {
	f := l.Frame()
	defer l.Done(f)
	f.Text = [len(f.Text)]byte{}
	f.Args[0], f.Args[1], f.Args[2] = Address(&f.Text[0]), uintptr(len(f.Text)), device
	if err := l.Call(p, f, 3); err != nil {
		return "", err
	}
	return CString(uint64(Address(&f.Text[0]))), nil
}

// Launch calls a function with the arguments of cuLaunchKernel.
func (l *Library[S]) Launch(p *Function, fn driver.Function, grid, block [3]uint32, shared uint32, s driver.Stream, params []byte) error {
	f := l.Frame()
	f.Args = [12]uintptr{uintptr(fn), uintptr(grid[0]), uintptr(grid[1]), uintptr(grid[2]),
		uintptr(block[0]), uintptr(block[1]), uintptr(block[2]), uintptr(shared), uintptr(s), f.List(params), 0}
	err := l.Call(p, f, 11)
	l.Done(f)
	return err
}

// LaunchPacked is Launch of a kernel whose arguments are packed as in a struct. last is what
// ends the list of the library's options.
func (l *Library[S]) LaunchPacked(p *Function, last uintptr, fn driver.Function, grid, block [3]uint32, shared uint32, s driver.Stream, params []byte) error {
	const buffer, size = 1, 2
	if len(params) == 0 {
		return l.Launch(p, fn, grid, block, shared, s, nil)
	}
	f := l.Frame()
	options := &struct {
		list  [5]uintptr
		bytes uintptr
	}{bytes: uintptr(len(params))}
	options.list = [5]uintptr{buffer, f.Hold(params), size, Address(&options.bytes), last}
	f.Args = [12]uintptr{uintptr(fn), uintptr(grid[0]), uintptr(grid[1]), uintptr(grid[2]),
		uintptr(block[0]), uintptr(block[1]), uintptr(block[2]), uintptr(shared), uintptr(s), 0, Address(&options.list[0])}
	err := l.Call(p, f, 11)
	l.Done(f)
	runtime.KeepAlive(options)
	return err
}
