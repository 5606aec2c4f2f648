package compile

import (
	"unsafe"

	"tokitai/internal/dl"
)

// NVRTC and hipRTC have the same interface under different names.

// rtcFrame is the heap memory of one call: its arguments, its results, and memory that
// must stay alive as long.
type rtcFrame struct {
	args [8]uintptr
	out  [2]uint64
	held []unsafe.Pointer
}

// at clears a result and returns its address.
func (f *rtcFrame) at(i int) uintptr {
	f.out[i] = 0
	return uintptr(unsafe.Pointer(&f.out[i]))
}

// hold keeps memory alive and returns its address.
func (f *rtcFrame) hold(p unsafe.Pointer) uintptr {
	f.held = append(f.held, p)
	return uintptr(p)
}

// text holds s as a C string and returns its address.
func (f *rtcFrame) text(s string) uintptr {
	b := append([]byte(s), 0)
	return f.hold(unsafe.Pointer(&b[0]))
}

// texts holds strings as a C array of C strings, and returns its address.
func (f *rtcFrame) texts(list []string) uintptr {
	if len(list) == 0 {
		return 0
	}
	addresses := make([]uintptr, len(list))
	for i, s := range list {
		addresses[i] = f.text(s)
	}
	return f.hold(unsafe.Pointer(&addresses[0]))
}

// newProgramFrame returns the arguments of nvrtcCreateProgram and hiprtcCreateProgram, which
// write a program's handle to the first result.
func newProgramFrame(s Source) *rtcFrame {
	f := new(rtcFrame)
	var texts, names []string
	for _, header := range s.Headers {
		texts, names = append(texts, header.Text), append(names, header.Name)
	}
	f.args = [8]uintptr{f.at(0), f.text(s.Text), f.text(s.Name), uintptr(len(names)), f.texts(texts), f.texts(names)}
	return f
}

// rtcCall calls a function with the first n arguments of a frame.
type rtcCall = func(name string, p dl.Proc, f *rtcFrame, n int) error

// goString copies a C string.
func goString(address uintptr) string {
	if address == 0 {
		return ""
	}
	const most = 1 << 10
	p := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&address))), most)
	for i := range most {
		if p[i] == 0 {
			return string(p[:i])
		}
	}
	return string(p)
}

// rtcBytes calls size, then get for that many bytes.
func rtcBytes(call rtcCall, handle uintptr, name string, size, get dl.Proc) ([]byte, error) {
	f := new(rtcFrame)
	f.args[0], f.args[1] = handle, f.at(0)
	if err := call(name+"Size", size, f, 2); err != nil {
		return nil, err
	}
	if f.out[0] == 0 {
		return nil, nil
	}
	b := make([]byte, f.out[0])
	f.args[1] = f.hold(unsafe.Pointer(&b[0]))
	if err := call(name, get, f, 2); err != nil {
		return nil, err
	}
	return b, nil
}
