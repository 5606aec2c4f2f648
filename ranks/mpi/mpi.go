// Package mpi moves bytes between ranks with a library of MPI, which it opens at run time: Open MPI, or MPICH and what has its binary
// interface, such as Intel's. It tells them apart by their symbols, since handles of Open MPI are addresses and those of MPICH
// numbers.
//
// Only bytes are moved. The library is told to return errors, and is polled, so that it does not use up a processor while it waits.
//
// Start with Open; it is a [courier.Library].
package mpi

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tokitai/device/gpu/driver/clib"
	"tokitai/internal/dl"
	"tokitai/ranks"
	"tokitai/ranks/courier"
)

// Variable names another file of a library, or its folder.
const Variable = "TOKITAI_MPI"

// api lists the functions of MPI that are used.
type api struct {
	MPI_Init_thread, MPI_Finalize, MPI_Comm_rank, MPI_Comm_size, MPI_Comm_set_errhandler clib.Function
	MPI_Get_library_version, MPI_Error_string                                            clib.Function
	MPI_Ialltoallv, MPI_Iallgatherv, MPI_Ibcast, MPI_Test                                clib.Function
}

// handles are values that the header of a library defines.
type handles struct {
	world, bytes, errorsReturn uintptr
	ignored                    uintptr // the status that nobody wants
}

// ofMPICH are those of MPICH's binary interface.
var ofMPICH = handles{world: 0x44000000, bytes: 0x4c00010d, errorsReturn: 0x54000001, ignored: 1}

// signsOfMPICH are symbols that tell MPICH: version 3, version 4, and each library with its binary interface has one of them.
var signsOfMPICH = []string{"MPIR_Version_device", "MPII_Version_device", "MPIR_Dup_fn"}

// threadFunneled says that one thread alone calls the library.
const threadFunneled = 1

// texts is what calls fill: the longest of the libraries is a version of MPICH.
type texts struct {
	text   [8192]byte
	length int32
}

// Library is an open library. Its methods are for one thread.
type Library struct {
	clib.Library[texts]
	api     api
	handles handles
	version string
	place   ranks.Place

	// Of the call under way; the library reads the lists until it has ended.
	sent, sentAt, received, receivedAt []int32
	request                            uint64
}

var _ courier.Library = (*Library)(nil)

// File names of MPI libraries. Debian names MPICH's differently: libmpich.so.12.
var (
	openMPIFiles = []string{"libmpi.so.40", "libmpi.so"}
	mpichFiles   = []string{"libmpich.so.12", "libmpi.so.12", "libmpich.so"}
)

// folders are where distributions keep libraries of MPI that the loader does not find.
var folders = []string{
	"/usr/lib64/openmpi/lib", "/usr/lib64/mpich/lib", "/usr/lib/x86_64-linux-gnu/openmpi/lib", "/usr/lib/aarch64-linux-gnu/openmpi/lib",
	"/opt/openmpi/lib", "/opt/mpich/lib", "/usr/local/lib",
}

// Open opens the library that fits a launcher, as package launch names it, or else any.
func Open(launcher string) (*Library, error) {
	files := slices.Concat(openMPIFiles, mpichFiles)
	if strings.Contains(launcher, "MPICH") {
		files = slices.Concat(mpichFiles, openMPIFiles)
	}
	opened, err := dl.Open(dl.Request{What: "a library of MPI", Env: Variable, Files: files, Dirs: folders,
		Hint: "it comes with Open MPI or MPICH, in Debian libopenmpi3 or libmpich12"})
	if err != nil {
		return nil, err
	}
	if err := dl.Preload(opened.Path()); err != nil { // Open MPI's plug-ins use its symbols
		return nil, err
	}
	return bind(opened)
}

// bind looks up what is needed of a library.
func bind(opened *dl.Library) (*Library, error) {
	l := &Library{}
	l.Failure = l.failure
	if err := clib.Fill(&l.api, opened); err != nil {
		return nil, fmt.Errorf("no library of MPI 3: %w", err)
	}
	symbol := func(name string) uintptr {
		p, err := opened.Proc(name)
		if err != nil {
			return 0
		}
		return uintptr(p)
	}
	switch world := symbol("ompi_mpi_comm_world"); {
	case world != 0:
		l.handles = handles{world: world, bytes: symbol("ompi_mpi_byte"), errorsReturn: symbol("ompi_mpi_errors_return")}
		if l.handles.bytes == 0 || l.handles.errorsReturn == 0 {
			return nil, fmt.Errorf("%s has ompi_mpi_comm_world, but not ompi_mpi_byte and ompi_mpi_errors_return", opened.Path())
		}
	case slices.ContainsFunc(signsOfMPICH, func(name string) bool { return symbol(name) != 0 }):
		l.handles = ofMPICH
	default:
		return nil, fmt.Errorf("%s is neither Open MPI (no ompi_mpi_comm_world) nor MPICH (none of %s)", opened.Path(), strings.Join(signsOfMPICH, ", "))
	}
	f := l.Frame()
	defer l.Done(f)
	f.Args[0], f.Args[1] = clib.Address(&f.Structs.text[0]), clib.Address(&f.Structs.length)
	if err := l.Call(&l.api.MPI_Get_library_version, f, 2); err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(f.Structs.String(), "\n")
	l.version = strings.Join(strings.Fields(line), " ")
	return l, nil
}

// String returns the text that a call has filled.
func (t *texts) String() string {
	text, _, _ := bytes.Cut(t.text[:max(0, min(int(t.length), len(t.text)))], []byte{0})
	return string(text)
}

// failure returns the error of a code.
func (l *Library) failure(call string, code int32) error {
	f := l.Frame()
	defer l.Done(f)
	f.Args[0], f.Args[1], f.Args[2] = uintptr(code), clib.Address(&f.Structs.text[0]), clib.Address(&f.Structs.length)
	if l.Code(&l.api.MPI_Error_string, f, 3) != 0 {
		return fmt.Errorf("%s: error %d", call, code)
	}
	return fmt.Errorf("%s: %s", call, f.Structs.String())
}

// Version implements [courier.Library].
func (l *Library) Version() string { return l.version }

// Invite implements [courier.Library]. The launcher has told the library where the others are.
func (l *Library) Invite() (none courier.Invitation, err error) { return none, nil }

// Join implements [courier.Library].
func (l *Library) Join(p ranks.Place, _ courier.Invitation) error {
	f := l.Frame()
	defer l.Done(f)
	f.Args[0], f.Args[1], f.Args[2], f.Args[3] = 0, 0, threadFunneled, clib.Address(&f.Out[0])
	if err := l.Call(&l.api.MPI_Init_thread, f, 4); err != nil {
		return err
	}
	if err := l.Call2(&l.api.MPI_Comm_set_errhandler, l.handles.world, l.handles.errorsReturn); err != nil {
		return err
	}
	number := func(p *clib.Function) (int, error) {
		f.Out[0] = 0
		err := l.Call2(p, l.handles.world, clib.Address(&f.Out[0]))
		return int(int32(f.Out[0])), err
	}
	rank, err := number(&l.api.MPI_Comm_rank)
	size, e := number(&l.api.MPI_Comm_size)
	if err := errors.Join(err, e); err != nil {
		return err
	}
	if rank != p.Rank || size != p.Size {
		return fmt.Errorf("%s says that this is rank %d of %d, and the launcher rank %d of %d: want the library that belongs to the launcher; %s names it", l.version, rank, size, p.Rank, p.Size, Variable)
	}
	l.place = p
	l.sent, l.sentAt = make([]int32, size), make([]int32, size)
	l.received, l.receivedAt = make([]int32, size), make([]int32, size)
	return nil
}

// lists sets the lengths of parts, and where they begin.
func lists(lengths []int, room int, counts, at []int32) {
	for r, n := range lengths {
		counts[r], at[r] = int32(n), int32(r*room)
	}
}

// MaxWindow is the most bytes of a window: counts and positions are int32.
const MaxWindow = 1<<31 - 1

// address returns that of memory that is not Go's.
func address(memory []byte) uintptr {
	if len(memory) == 0 {
		return 0
	}
	return clib.Address(&memory[0])
}

// AllToAllV implements [courier.Library].
func (l *Library) AllToAllV(send, receive []byte, room int, sent, received []int) error {
	if err := checkWindow(send); err != nil {
		return err
	}
	lists(sent, room, l.sent, l.sentAt)
	lists(received, room, l.received, l.receivedAt)
	return l.run(&l.api.MPI_Ialltoallv, address(send), clib.Address(&l.sent[0]), clib.Address(&l.sentAt[0]), l.handles.bytes,
		address(receive), clib.Address(&l.received[0]), clib.Address(&l.receivedAt[0]), l.handles.bytes, l.handles.world)
}

// AllGather implements [courier.Library].
func (l *Library) AllGather(send, receive []byte, room int, received []int) error {
	if err := checkWindow(receive); err != nil {
		return err
	}
	lists(received, room, l.received, l.receivedAt)
	return l.run(&l.api.MPI_Iallgatherv, address(send), uintptr(len(send)), l.handles.bytes,
		address(receive), clib.Address(&l.received[0]), clib.Address(&l.receivedAt[0]), l.handles.bytes, l.handles.world)
}

// Broadcast implements [courier.Library].
func (l *Library) Broadcast(root int, data []byte) error {
	if err := checkWindow(data); err != nil {
		return err
	}
	return l.run(&l.api.MPI_Ibcast, address(data), uintptr(len(data)), l.handles.bytes, uintptr(root), l.handles.world)
}

func checkWindow(memory []byte) error {
	if len(memory) > MaxWindow {
		return fmt.Errorf("a window of %d bytes, want at most %d", len(memory), MaxWindow)
	}
	return nil
}

// Close implements [courier.Library].
func (l *Library) Close() error { return l.Call1(&l.api.MPI_Finalize, 0) }

// How the library is polled: first without a pause, then with pauses that grow.
const (
	eagerPolls   = 100
	growth       = 10 * time.Microsecond
	longestPause = time.Millisecond
)

// run starts a call, whose last argument is the request, and waits until it is done.
func (l *Library) run(p *clib.Function, args ...uintptr) error {
	f := l.Frame()
	defer l.Done(f)
	copy(f.Args[:], args)
	f.Args[len(args)] = clib.Address(&l.request)
	if err := l.Call(p, f, len(args)+1); err != nil {
		return err
	}
	for polls := 0; ; polls++ {
		f.Out[0] = 0
		f.Args[0], f.Args[1], f.Args[2] = clib.Address(&l.request), clib.Address(&f.Out[0]), l.handles.ignored
		if err := l.Call(&l.api.MPI_Test, f, 3); err != nil {
			return err
		}
		if int32(f.Out[0]) != 0 {
			return nil
		}
		if polls >= eagerPolls {
			time.Sleep(min(time.Duration(polls-eagerPolls+1)*growth, longestPause))
		}
	}
}
