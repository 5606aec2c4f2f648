package foreign

import (
	endian "encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"tokitai/kernelprocess/protocol"
)

// roleVariable makes the test binary a kernel process instead; roles tells how it behaves.
const roleVariable = "TOKITAI_FOREIGN_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(fileVariable); role != "" {
		os.Exit(fileMain(role, os.Args[1], os.Args[2]))
	}
	name := os.Getenv(roleVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	run := func() error { return serve(roles[name]) }
	if os.Getenv(nurseryVariable) != "" {
		run = func() error { return nurse(os.Getenv(nurseryVariable) == "dies") }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// role is how a kernel process behaves where it differs from an honest one, which computes
// a*x. A nil function is honest.
type role struct {
	hello func(body []byte) (protocol.Kind, []byte)
	list  []protocol.Definition
	call  func(k *kernel, c *protocol.Call, x []float32) (protocol.Kind, []byte)
	frame func(f []byte) []byte // of a reply to a CALL, as it is sent
	y     func(k *kernel, y []float32, c *protocol.Call)
}

// kernel is a kernel process with its memory.
type kernel struct {
	calls int
	kept  map[int][]float32
}

var roles = map[string]*role{
	"honest": {},
	"wrong": {y: func(_ *kernel, y []float32, c *protocol.Call) {
		if cols := c.Operands[0].Tensor.Shape[1]; cols > 6 {
			y[6]++
		}
	}},
	"prints": {y: func(k *kernel, _ []float32, _ *protocol.Call) { fmt.Println("call", k.calls) }},

	// Memory: each answers rightly at first.
	"answers by size": {y: func(k *kernel, y []float32, _ *protocol.Call) {
		if old := k.kept[len(y)]; old != nil {
			copy(y, old)
		} else {
			k.kept[len(y)] = append([]float32(nil), y...)
		}
	}},
	"differs the second time": {y: func(k *kernel, y []float32, _ *protocol.Call) {
		if k.calls%2 == 0 {
			y[0] = math.Nextafter32(y[0], 10)
		}
	}},
	"differs in each process": {y: func(_ *kernel, y []float32, _ *protocol.Call) {
		seed, _ := strconv.ParseUint(os.Getenv("TOKITAI_SEED"), 10, 64)
		for range seed % 64 {
			y[0] = math.Nextafter32(y[0], 10)
		}
	}},
	"goes wrong after 30 calls": {y: func(k *kernel, y []float32, _ *protocol.Call) {
		if k.calls > 30 {
			y[0] = 0
		}
	}},

	// Refusals.
	"refuses f16": {call: func(k *kernel, c *protocol.Call, x []float32) (protocol.Kind, []byte) {
		return refuse(protocol.CodeBadArgument, "x is f16, want f32")
	}},
	"refuses long rows": {call: func(k *kernel, c *protocol.Call, x []float32) (protocol.Kind, []byte) {
		if cols := c.Operands[0].Tensor.Shape[1]; cols > 16 {
			return refuse(protocol.CodeUnsupported, fmt.Sprintf("rows of %d, want at most 16", cols))
		}
		return k.honest(c, x, nil)
	}},
	"reads little": {hello: func([]byte) (protocol.Kind, []byte) {
		return protocol.KindOK, (&protocol.Welcome{Version: 1, Device: "cpu", MaxFrame: 200}).Append(nil)
	}},
	"raises": {call: func(k *kernel, c *protocol.Call, x []float32) (protocol.Kind, []byte) {
		return refuse(protocol.CodeInternal, "ValueError: operands could not be broadcast")
	}},
	"returns another shape": {call: func(k *kernel, c *protocol.Call, x []float32) (protocol.Kind, []byte) {
		return refuse(protocol.CodeInternal, "it has the shape [3], want [5 33]", protocol.Detail{Name: "output", Value: "y"})
	}},
	"returns too little": {call: func(k *kernel, c *protocol.Call, x []float32) (protocol.Kind, []byte) {
		return k.honest(c, x[:len(x)/2], nil)
	}},

	// Deaths.
	"exits at once": {hello: func([]byte) (protocol.Kind, []byte) {
		fmt.Fprintln(os.Stderr, "no module named numpy")
		os.Exit(7)
		return 0, nil
	}},
	"never answers": {hello: func([]byte) (protocol.Kind, []byte) { select {} }},
	"crashes": {call: func(k *kernel, c *protocol.Call, x []float32) (protocol.Kind, []byte) {
		if k.calls < 3 {
			return k.honest(c, x, nil)
		}
		fmt.Fprintln(os.Stderr, "core dumped")
		signal.Reset()
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}},
	"hangs": {call: func(k *kernel, c *protocol.Call, x []float32) (protocol.Kind, []byte) { select {} }},
	"closes its socket": {call: func(k *kernel, c *protocol.Call, x []float32) (protocol.Kind, []byte) {
		fd, _ := strconv.Atoi(os.Getenv("TOKITAI_FD"))
		syscall.Shutdown(fd, syscall.SHUT_RDWR)
		syscall.Close(fd)
		select {}
	}},
	"forks": {call: func(k *kernel, c *protocol.Call, x []float32) (protocol.Kind, []byte) {
		child := exec.Command("/proc/self/exe")
		child.Env = append(os.Environ(), roleVariable+"=sleeps")
		child.ExtraFiles = []*os.File{os.NewFile(3, "socket")} // it inherits everything
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			return refuse(protocol.CodeInternal, err.Error())
		}
		fmt.Println("child", child.Process.Pid)
		select {}
	}},

	// What breaks the protocol.
	"speaks version 9": {hello: func([]byte) (protocol.Kind, []byte) {
		return protocol.KindOK, (&protocol.Welcome{Version: 9, MaxFrame: 1 << 30}).Append(nil)
	}},
	"speaks no version": {hello: func([]byte) (protocol.Kind, []byte) {
		return refuse(protocol.CodeVersion, "no common version")
	}},
	"has a short welcome":     {hello: func([]byte) (protocol.Kind, []byte) { return protocol.KindOK, []byte{1, 2, 3} }},
	"has nothing":             {list: []protocol.Definition{}},
	"has others":              {list: []protocol.Definition{{Name: "softmax.forward"}, {Name: "mish.forward"}}},
	"has other operands":      {list: []protocol.Definition{{Name: "scaled", Operands: []protocol.OperandUse{{Name: "input", Access: 1}, {Name: "y", Access: 2}}}}},
	"writes garbage":          {frame: func(f []byte) []byte { return []byte("Segmentation fault (core dumped)") }},
	"answers another request": {frame: func(f []byte) []byte { f[8]++; return f }},
	"announces a long body":   {frame: func(f []byte) []byte { endian.LittleEndian.PutUint64(f, 1<<47); return f }},
	"sends descriptors":       {frame: func(f []byte) []byte { f[20] = 1; return f }},
	"stops in a frame": {frame: func(f []byte) []byte {
		os.NewFile(3, "socket").Write(f[:len(f)-4])
		os.Exit(0)
		return nil
	}},
	"answers twice":  {frame: func(f []byte) []byte { return append(f, f...) }},
	"has no results": {call: func(k *kernel, c *protocol.Call, x []float32) (protocol.Kind, []byte) { return protocol.KindOK, nil }},
	"names two lowerings": {call: func(k *kernel, c *protocol.Call, x []float32) (protocol.Kind, []byte) {
		return protocol.KindOK, (&protocol.Results{Lowerings: []string{"a", "b"}}).Append(nil)
	}},
}

func refuse(code protocol.Code, message string, details ...protocol.Detail) (protocol.Kind, []byte) {
	return protocol.KindError, (&protocol.Failure{Code: code, Message: message, Details: details}).Append(nil)
}

// serve is a kernel process, written from docs/protocol.md.
func serve(r *role) error {
	if r == nil { // a process that a kernel left behind
		time.Sleep(time.Hour)
	}
	fd, err := strconv.Atoi(os.Getenv("TOKITAI_FD"))
	if err != nil {
		return err
	}
	socket := os.NewFile(uintptr(fd), "socket")
	k := &kernel{kept: map[int][]float32{}}
	for {
		head := make([]byte, protocol.HeaderBytes)
		if _, err := io.ReadFull(socket, head); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		h := protocol.ParseHeader(head)
		body := make([]byte, h.Length)
		if _, err := io.ReadFull(socket, body); err != nil {
			return err
		}
		kind, reply := k.answer(r, h.Kind, body)
		frame := protocol.AppendFrame(nil, h.Request, kind, 0, func(b []byte) []byte { return append(b, reply...) })
		if r.frame != nil && h.Kind == protocol.KindCall {
			frame = r.frame(frame)
		}
		if _, err := socket.Write(frame); err != nil {
			return err
		}
	}
}

func (k *kernel) answer(r *role, kind protocol.Kind, body []byte) (protocol.Kind, []byte) {
	switch kind {
	case protocol.KindHello:
		if r.hello != nil {
			return r.hello(body)
		}
		return protocol.KindOK, (&protocol.Welcome{Version: 1, Generation: 5, Build: "test 1.0", Device: "cpu", Description: "a processor", MaxFrame: 1 << 30}).Append(nil)
	case protocol.KindList:
		list := r.list
		if list == nil {
			list = []protocol.Definition{{Name: "scaled"}}
		}
		return protocol.KindOK, protocol.AppendList(nil, list)
	case protocol.KindCall:
		calls, data, err := protocol.ParseCalls(body)
		if err != nil {
			return refuse(protocol.CodeMalformed, err.Error())
		}
		k.calls++
		x := make([]float32, len(data)/4)
		for i := range x {
			x[i] = math.Float32frombits(endian.LittleEndian.Uint32(data[4*i:]))
		}
		if r.call != nil {
			return r.call(k, &calls[0], x)
		}
		return k.honest(&calls[0], x, r.y)
	}
	return refuse(protocol.CodeUnsupported, "not supported")
}

// honest computes a*x.
func (k *kernel) honest(c *protocol.Call, x []float32, change func(*kernel, []float32, *protocol.Call)) (protocol.Kind, []byte) {
	a := float32(c.Params[0].Value)
	y := make([]float32, len(x))
	for i := range x {
		y[i] = a * x[i]
	}
	if change != nil && len(y) > 0 {
		change(k, y, c)
	}
	results := &protocol.Results{Lowerings: []string{"test"}}
	for _, v := range y {
		results.Data = endian.LittleEndian.AppendUint32(results.Data, math.Float32bits(v))
	}
	return protocol.KindOK, results.Append(nil)
}
