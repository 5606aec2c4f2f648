package foreign

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"tokitai/internal/dl"
	"tokitai/kernelprocess/protocol"
)

// A process that calls a library's function is this program, started again with an argument
// and an environment variable. It is recognized before main runs, in init, so that it works in
// every program that links this package, tests included, without a call in main.
func init() {
	if len(os.Args) == 6 && os.Args[1] == libraryArgument && os.Getenv(libraryMark) != "" {
		if err := serveLibrary(os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// serveLibrary serves the kernel profile of the protocol until the other end closes.
func serveLibrary(path, symbol, operation, layout string) error {
	fd, err := strconv.Atoi(os.Getenv("TOKITAI_FD"))
	if err != nil {
		return fmt.Errorf("TOKITAI_FD: %w", err)
	}
	syscall.CloseOnExec(fd) // what the function starts does not get it
	socket := os.NewFile(uintptr(fd), "socket")
	seed, _ := strconv.ParseUint(os.Getenv("TOKITAI_SEED"), 10, 64)
	l := &library{symbol: symbol, operation: operation, isStrided: layout == libraryStrided, seed: seed}
	failure := l.load(path)
	for {
		head := make([]byte, protocol.HeaderBytes)
		if _, err := io.ReadFull(socket, head); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		h := protocol.ParseHeader(head)
		if h.Length > protocol.MaxLength {
			return fmt.Errorf("got a body of %d bytes", h.Length)
		}
		body := make([]byte, h.Length)
		if _, err := io.ReadFull(socket, body); err != nil {
			return err
		}
		kind, reply := protocol.KindError, []byte(nil)
		if failure != nil {
			reply = (&protocol.Failure{Code: protocol.CodeInternal, Message: failure.Error()}).Append(nil)
		} else if made, refused := l.answer(h.Kind, body); refused != nil {
			reply = refused.Append(nil)
		} else {
			kind, reply = protocol.KindOK, made
		}
		frame := protocol.AppendFrame(nil, h.Request, kind, 0, func(b []byte) []byte { return append(b, reply...) })
		if _, err := socket.Write(frame); err != nil {
			return err
		}
	}
}

// answer returns the body of the good reply to a request.
func (l *library) answer(kind protocol.Kind, body []byte) ([]byte, *protocol.Failure) {
	switch kind {
	case protocol.KindHello:
		return (&protocol.Welcome{Version: protocol.Version, Device: "cpu", MaxFrame: protocol.MaxLength}).Append(nil), nil
	case protocol.KindList:
		return protocol.AppendList(nil, []protocol.Definition{{Name: l.operation}}), nil
	case protocol.KindCall:
		calls, data, err := protocol.ParseCalls(body)
		if err != nil || len(calls) != 1 {
			return nil, &protocol.Failure{Code: protocol.CodeMalformed, Message: fmt.Sprintf("%d calls, want one that can be read: %v", len(calls), err)}
		}
		outputs, took, failure := l.compute(&calls[0], data)
		if failure != nil {
			return nil, failure
		}
		return (&protocol.Results{KernelNanoseconds: uint64(took), Lowerings: []string{l.symbol}, Data: outputs}).Append(nil), nil
	}
	return nil, &protocol.Failure{Code: protocol.CodeUnsupported, Message: fmt.Sprintf("%v is not served", kind)}
}

// load opens the library and makes this process one that dies of what kills C programs.
func (l *library) load(path string) error {
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	limitMemory()
	library, err := dl.Open(dl.Request{What: path, Files: []string{path}})
	if missing, ok := errors.AsType[*dl.NotFoundError](err); ok && len(missing.Tried) == 1 {
		return errors.New("it cannot be loaded: " + missing.Tried[0].Reason)
	}
	if err != nil {
		return err
	}
	if l.function, err = library.Proc(l.symbol); err != nil {
		return err
	}
	return defaultSignals()
}

// memoryShare is how much of the free memory a library may allocate.
const memoryShare = 0.8

// limitMemory lets allocations fail before the machine runs out of memory. Where the system does
// not tell how much there is, there is no limit.
func limitMemory() {
	free, held := kilobytes("/proc/meminfo", "MemAvailable:"), kilobytes("/proc/self/status", "VmData:")
	if free > 0 {
		limit := held<<10 + uint64(float64(free<<10)*memoryShare)
		unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: unix.RLIM_INFINITY})
	}
}

// kilobytes returns a field of a file of the system's, or 0.
func kilobytes(path, field string) uint64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) >= 2 && words[0] == field {
			n, _ := strconv.ParseUint(words[1], 10, 64)
			return n
		}
	}
	return 0
}

// defaultSignals gives faults their default action: Go's would end the process with a stack of
// goroutines and without the signal.
func defaultSignals() error {
	c, err := dl.Open(dl.Request{What: "the C library", Files: []string{"libc.so.6"}})
	if err != nil {
		return err
	}
	signal, err := c.Proc("signal")
	if err != nil {
		return err
	}
	for _, s := range []syscall.Signal{syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGABRT, syscall.SIGTRAP, syscall.SIGSYS} {
		signal.Call([]uintptr{uintptr(s), 0})
	}
	return nil
}
