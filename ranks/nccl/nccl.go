// Package nccl moves bytes between ranks with NCCL, or RCCL for GPUs of AMD, which it opens at run time. Both have the same
// functions.
//
// Each rank has a GPU of its own: NCCL refuses two ranks on one. Bytes come from the memory of the host and go back to it, by way of
// buffers on the GPU. Only bytes are moved: no reduction is used. A call is polled until it is done, and the communicator asked for
// errors meanwhile; after one it is aborted, and never used again.
//
// Start with Open; a Library is a [courier.Library].
package nccl

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"tokitai/device/gpu/driver/clib"
	"tokitai/internal/dl"
	"tokitai/ranks"
	"tokitai/ranks/courier"
)

// Variables name other files of the libraries, or their folders.
const (
	NCCLVariable = "TOKITAI_NCCL"
	RCCLVariable = "TOKITAI_RCCL"
)

// Kind is a library with the interface of NCCL.
type Kind struct {
	Name    string
	Device  string // kind of the devices between which it moves bytes
	request func() dl.Request
}

// Kinds of libraries.
var (
	NCCL = Kind{"NCCL", "cuda", func() dl.Request {
		return dl.Request{What: "NCCL", Env: NCCLVariable, Files: []string{"libnccl.so.2"},
			Dirs: append(dl.PythonDirs("nvidia/nccl/lib"), dl.CUDADirs()...), Hint: "pip install nvidia-nccl-cu13 has it"}
	}}
	RCCL = Kind{"RCCL", "hip", func() dl.Request {
		return dl.Request{What: "RCCL", Env: RCCLVariable, First: dl.ROCmChosen(), Files: []string{"librccl.so.1", "librccl.so"},
			Dirs: dl.ROCmDirs(), Hint: "it comes with ROCm"}
	}}
)

// api lists the functions that are used.
type api struct {
	ncclGetVersion, ncclGetErrorString, ncclGetUniqueId          clib.Function
	ncclCommGetAsyncError, ncclCommAbort, ncclCommDestroy        clib.Function
	ncclAllGather, ncclBroadcast, ncclSend, ncclRecv             clib.Function
	ncclGroupStart, ncclGroupEnd                                 clib.Function
	ncclCommInitRank                                             clib.Function
	ncclCommInitRankScalable, ncclCommFinalize, ncclGetLastError clib.Function `optional:"yes"`
}

// hostSymbol is exported by libraries that take memory of the host, as that of the tests.
const hostSymbol = "tokitaiTakesHostMemory"

// Values of the interface.
const (
	ofBytes    = 1 // ncclUint8
	inProgress = 7
)

// structs are what arguments point to.
type structs struct{ id courier.Invitation }

// Library is an open library. Its methods are for one thread, which keeps its device current.
type Library struct {
	clib.Library[structs]
	kind          Kind
	api           api
	byValue       dl.Proc // ncclCommInitRank
	version       string
	memory        Memory
	comm          uintptr
	place         ranks.Place
	send, receive uintptr // buffers on the device, of the size of the windows
	sendBytes     int
	receiveBytes  int
}

var _ courier.Library = (*Library)(nil)

// Open opens a library. The memory is that of the rank's own device; open is not called for a library that takes memory of the host.
func Open(k Kind, open func() (Memory, error)) (*Library, error) {
	opened, err := dl.Open(k.request())
	if err != nil {
		return nil, err
	}
	l := &Library{kind: k}
	l.Failure, l.NotReady = l.failure, inProgress
	if err := clib.Fill(&l.api, opened); err != nil {
		return nil, fmt.Errorf("not %s, or too old: %w", k.Name, err)
	}
	if l.byValue, err = opened.Proc("ncclCommInitRank"); err != nil {
		return nil, err
	}
	if l.version, err = l.readVersion(); err != nil {
		return nil, err
	}
	if _, err := opened.Proc(hostSymbol); err == nil {
		l.memory = &hostMemory{}
		return l, nil
	}
	l.memory, err = open()
	return l, err
}

func (l *Library) readVersion() (string, error) {
	f := l.Frame()
	defer l.Done(f)
	f.Out[0] = 0
	f.Args[0] = clib.Address(&f.Out[0])
	if err := l.Call(&l.api.ncclGetVersion, f, 1); err != nil {
		return "", err
	}
	v := f.Out[0]
	if v < 10_000 { // as versions before 2.9 have it
		return fmt.Sprintf("%s %d.%d.%d", l.kind.Name, v/1000, v/100%10, v%100), nil
	}
	return fmt.Sprintf("%s %d.%d.%d", l.kind.Name, v/10_000, v/100%100, v%100), nil
}

// failure returns the error of a code, with what the library says of the last one.
func (l *Library) failure(call string, code int32) error {
	text := clib.CString(l.Result(&l.api.ncclGetErrorString, uintptr(uint32(code))))
	if !l.api.ncclGetLastError.IsMissing {
		if last := clib.CString(l.Result(&l.api.ncclGetLastError, l.comm)); last != "" {
			text += ": " + last
		}
	}
	return fmt.Errorf("%s: %s (code %d)", call, text, code)
}

// Version implements [courier.Library].
func (l *Library) Version() string { return l.version }

// Invite implements [courier.Library].
func (l *Library) Invite() (courier.Invitation, error) {
	f := l.Frame()
	defer l.Done(f)
	f.Args[0] = clib.Address(&f.Structs.id)
	err := l.Call(&l.api.ncclGetUniqueId, f, 1)
	return f.Structs.id, err
}

// Join implements [courier.Library].
func (l *Library) Join(p ranks.Place, with courier.Invitation) error {
	l.place = p
	f := l.Frame()
	defer l.Done(f)
	f.Out[0], f.Structs.id = 0, with
	name, code := l.api.ncclCommInitRank.Name, int32(0)
	if scalable := &l.api.ncclCommInitRankScalable; !scalable.IsMissing {
		name = scalable.Name
		copy(f.Args[:], []uintptr{clib.Address(&f.Out[0]), uintptr(p.Size), uintptr(p.Rank), 1, clib.Address(&f.Structs.id), 0})
		code = l.Code(scalable, f, 6)
	} else {
		code = l.initByValue(&f.Out[0], &f.Structs.id)
	}
	l.comm = uintptr(f.Out[0])
	if code != 0 {
		l.comm = 0
		return l.failure(name, code)
	}
	return nil
}

// initByValue calls ncclCommInitRank(comm, size, id, rank), whose third argument is a struct of 128 bytes. Its bytes lie behind the
// arguments in registers on amd64, six of them, and a register has their address on arm64.
func (l *Library) initByValue(comm *uint64, id *courier.Invitation) int32 {
	args := make([]uintptr, 0, 6+len(id)/8)
	if runtime.GOARCH == "arm64" {
		args = append(args, clib.Address(comm), uintptr(l.place.Size), clib.Address(id), uintptr(l.place.Rank))
	} else {
		args = append(args, clib.Address(comm), uintptr(l.place.Size), uintptr(l.place.Rank), 0, 0, 0)
		for _, word := range (*[len(id) / 8]uint64)(unsafe.Pointer(id)) {
			args = append(args, uintptr(word))
		}
	}
	return int32(l.byValue.Call(args))
}

// prepare allocates buffers for windows.
func (l *Library) prepare(send, receive int) (err error) {
	if l.comm == 0 {
		return errors.New("there is no communicator")
	}
	if send > l.sendBytes {
		if l.send, err = l.memory.Alloc(send); err != nil {
			return err
		}
		l.sendBytes = send
	}
	if receive > l.receiveBytes {
		if l.receive, err = l.memory.Alloc(receive); err != nil {
			return err
		}
		l.receiveBytes = receive
	}
	return nil
}

// AllToAllV implements [courier.Library].
func (l *Library) AllToAllV(send, receive []byte, room int, sent, received []int) error {
	if err := l.prepare(len(send), len(receive)); err != nil {
		return err
	}
	for r, n := range sent {
		if err := l.memory.CopyIn(l.send+uintptr(r*room), send[r*room:][:n]); err != nil {
			return err
		}
	}
	at := func(r int) uintptr { return l.send + uintptr(r*room) }
	if err := l.inGroup(func() error { return l.sendAndReceive(at, room, sent, received) }); err != nil {
		return l.abort(err)
	}
	return l.take(receive, room, room, received)
}

// inGroup calls f, whose calls the library begins together.
func (l *Library) inGroup(f func() error) error {
	if err := l.begin(&l.api.ncclGroupStart); err != nil {
		return err
	}
	return errors.Join(f(), l.begin(&l.api.ncclGroupEnd)) // a group that failed ends too
}

// sendAndReceive sends what is at an address for each other rank, and receives into the parts of the receive buffer.
func (l *Library) sendAndReceive(at func(r int) uintptr, room int, sent, received []int) error {
	for r := range received {
		if r == l.place.Rank {
			continue
		}
		if sent[r] > 0 {
			if err := l.begin(&l.api.ncclSend, at(r), uintptr(sent[r]), ofBytes, uintptr(r), l.comm, l.memory.Stream()); err != nil {
				return err
			}
		}
		if received[r] > 0 {
			if err := l.begin(&l.api.ncclRecv, l.receive+uintptr(r*room), uintptr(received[r]), ofBytes, uintptr(r), l.comm, l.memory.Stream()); err != nil {
				return err
			}
		}
	}
	return nil
}

// AllGather implements [courier.Library]. Ranks that send different numbers of bytes do so in a group.
func (l *Library) AllGather(send, receive []byte, room int, received []int) error {
	if err := l.prepare(len(receive), len(receive)); err != nil {
		return err
	}
	if err := l.memory.CopyIn(l.send, send); err != nil {
		return err
	}
	n := len(send)
	if slices.ContainsFunc(received, func(other int) bool { return other != n }) {
		at := func(int) uintptr { return l.send }
		if err := l.inGroup(func() error { return l.sendAndReceive(at, room, slices.Repeat([]int{n}, l.place.Size), received) }); err != nil {
			return l.abort(err)
		}
		return l.take(receive, room, room, received)
	}
	if n == 0 {
		return nil
	}
	if err := l.begin(&l.api.ncclAllGather, l.send, l.receive, uintptr(n), ofBytes, l.comm, l.memory.Stream()); err != nil {
		return l.abort(err)
	}
	return l.take(receive, room, n, received)
}

// Broadcast implements [courier.Library].
func (l *Library) Broadcast(root int, data []byte) error {
	if err := l.prepare(len(data), 0); err != nil || len(data) == 0 {
		return err
	}
	if l.place.Rank == root {
		if err := l.memory.CopyIn(l.send, data); err != nil {
			return err
		}
	}
	if err := l.begin(&l.api.ncclBroadcast, l.send, l.send, uintptr(len(data)), ofBytes, uintptr(root), l.comm, l.memory.Stream()); err != nil {
		return l.abort(err)
	}
	if err := l.wait(); err != nil {
		return l.abort(err)
	}
	return l.memory.CopyOut(data, l.send)
}

// take waits for the device, and takes what the other ranks have sent. On the device their parts are apart bytes apart.
func (l *Library) take(receive []byte, room, apart int, received []int) error {
	if err := l.wait(); err != nil {
		return l.abort(err)
	}
	for r, n := range received {
		if r == l.place.Rank {
			continue
		}
		if err := l.memory.CopyOut(receive[r*room:][:n], l.receive+uintptr(r*apart)); err != nil {
			return err
		}
	}
	return nil
}

// begin calls a function that queues work.
func (l *Library) begin(p *clib.Function, args ...uintptr) error {
	f := l.Frame()
	defer l.Done(f)
	copy(f.Args[:], args)
	return l.Call(p, f, len(args))
}

// longestPause is that between two looks at a device that is not done.
const longestPause = time.Millisecond

// wait waits until the device is done, or the communicator has an error.
func (l *Library) wait() error {
	f := l.Frame()
	defer l.Done(f)
	for polls := 0; ; polls++ {
		f.Out[0] = 0
		f.Args[0], f.Args[1] = l.comm, clib.Address(&f.Out[0])
		if err := l.Call(&l.api.ncclCommGetAsyncError, f, 2); err != nil {
			return err
		}
		if code := int32(f.Out[0]); code != 0 && code != inProgress {
			return l.failure("the communicator", code)
		}
		isDone, err := l.memory.Done()
		if isDone || err != nil {
			return err
		}
		time.Sleep(min(time.Duration(polls)*time.Microsecond, longestPause))
	}
}

// abort ends a communicator that has failed.
func (l *Library) abort(err error) error {
	if l.comm == 0 {
		return err
	}
	comm := l.comm
	l.comm = 0
	return errors.Join(err, l.Call1(&l.api.ncclCommAbort, comm))
}

// Close implements [courier.Library].
func (l *Library) Close() error {
	if l.comm == 0 {
		return l.memory.Close()
	}
	comm := l.comm
	var err error
	if !l.api.ncclCommFinalize.IsMissing {
		err = l.Call1(&l.api.ncclCommFinalize, comm)
	}
	if err != nil {
		return errors.Join(l.abort(err), l.memory.Close())
	}
	l.comm = 0
	return errors.Join(l.Call1(&l.api.ncclCommDestroy, comm), l.memory.Close())
}
