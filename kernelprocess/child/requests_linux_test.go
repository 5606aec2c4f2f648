package child

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	backends "tokitai/backend/all"
	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/alone"
	"tokitai/internal/await"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/kernelprocess/protocol"
	"tokitai/kernelprocess/shm"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/tensor"
)

func TestWelcome(t *testing.T) {
	a, b := connect(t, Options{Build: "a build"}), connect(t, Options{MaxFrame: 1000, MemoryLimit: 2000})
	if a.welcome.Version != 1 || a.welcome.Build != "a build" || a.welcome.Device != "cpu" || a.welcome.Description == "" || !a.welcome.HasArenas || a.welcome.MaxFrame != DefaultMaxFrame || a.welcome.MemoryLimit < 1<<20 {
		t.Errorf("welcome is %+v", a.welcome)
	}
	if b.welcome.MaxFrame != 1000 || b.welcome.MemoryLimit != 2000 || b.welcome.Build == "" {
		t.Errorf("welcome is %+v", b.welcome)
	}
	if a.welcome.Generation == b.welcome.Generation {
		t.Errorf("two servers have generation %d", a.welcome.Generation)
	}
	a.refused(protocol.CodeMalformed, protocol.KindHello, (&protocol.Hello{Lowest: 1, Highest: 1}).Append(nil))
	a.must(protocol.KindStats, nil)
}

func TestRefusedGreeting(t *testing.T) {
	hello := (&protocol.Hello{Lowest: 1, Highest: 1}).Append(nil)
	for _, test := range []struct {
		name  string
		bytes []byte
		code  protocol.Code
		exit  int
	}{
		{"newer client", frame(1, protocol.KindHello, (&protocol.Hello{Lowest: 2, Highest: 9}).Append(nil)), protocol.CodeVersion, ExitRefused},
		{"older client", frame(1, protocol.KindHello, (&protocol.Hello{}).Append(nil)), protocol.CodeVersion, ExitRefused},
		{"other magic", frame(1, protocol.KindHello, append([]byte("tokitai\r"), hello[8:]...)), protocol.CodeMalformed, ExitRefused},
		{"not first", frame(1, protocol.KindStats, nil), protocol.CodeMalformed, ExitRefused},
		{"long", frame(1, protocol.KindHello, make([]byte, maxHello+1)), protocol.CodeMalformed, ExitRefused},
		{"endless", protocol.Header{Length: 1<<48 + 1, Request: 1, Kind: protocol.KindHello}.Append(nil), protocol.CodeMalformed, ExitRefused},
		{"text", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), protocol.CodeMalformed, ExitRefused},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := dial(t, Options{})
			c.raw(test.bytes)
			if _, _, failure := c.receive(); failure == nil || failure.Code != test.code {
				t.Errorf("got %v, want code %d", describe(failure), test.code)
			}
			c.exits(test.exit)
		})
	}
	t.Run("no device", func(t *testing.T) {
		c := dial(t, Options{Device: "cuda:77", Open: backends.Open})
		c.refused(protocol.CodeNoDevice, protocol.KindHello, hello)
		c.exits(ExitDevice)
	})
	t.Run("endless later", func(t *testing.T) {
		c := connect(t, Options{})
		stats := c.send(protocol.KindStats, nil)
		c.raw(protocol.Header{Length: 1<<48 + 1, Request: 9, Kind: protocol.KindCall}.Append(nil))
		c.expect(stats)
		if _, failure := c.expect(9); failure == nil || failure.Code != protocol.CodeMalformed {
			t.Errorf("got %v", describe(failure))
		}
		c.exits(ExitRefused)
	})
}

func TestList(t *testing.T) {
	c := connect(t, Options{})
	list, err := protocol.ParseList(c.must(protocol.KindList, nil))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]*def.Definition{}
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if known[d.Name] != nil && known[d.Name] != d {
				t.Errorf("two definitions are called %s", d.Name)
			}
			known[d.Name] = d
		}
	}
	for _, got := range list {
		if d := known[got.Name]; d == nil || len(d.Operands) != len(got.Operands) || len(d.Params) != len(got.Params) {
			t.Errorf("LIST tells %+v", got)
		}
		delete(known, got.Name)
	}
	for name := range known {
		t.Errorf("LIST leaves %s out", name)
	}
	c.refused(protocol.CodeMalformed, protocol.KindList, []byte{0})
}

func TestHandles(t *testing.T) {
	c := connect(t, Options{})
	h := c.newHandle(100)
	if other := c.newHandle(1); other == h {
		t.Errorf("two handles are %d", h)
	}
	write := func(offset, bytes int64, data []byte) []byte {
		return append((&protocol.Transfer{Handle: h, Offset: offset, Bytes: bytes}).Append(nil), data...)
	}
	read := func(offset, bytes int64) []byte {
		return (&protocol.Transfer{Handle: h, Offset: offset, Bytes: bytes}).Append(nil)
	}
	if got := c.must(protocol.KindRead, read(0, 100)); !bytes.Equal(got, make([]byte, 100)) {
		t.Errorf("new memory is %x", got)
	}
	c.must(protocol.KindWrite, write(3, 5, []byte("hello")))
	c.must(protocol.KindWrite, write(100, 0, nil))
	if got := c.must(protocol.KindRead, read(2, 7)); string(got) != "\x00hello\x00" {
		t.Errorf("read %q", got)
	}
	if got := c.must(protocol.KindRead, read(100, 0)); len(got) != 0 {
		t.Errorf("read %q", got)
	}
	for _, test := range []struct {
		kind protocol.Kind
		body []byte
		code protocol.Code
	}{
		{protocol.KindWrite, write(96, 5, []byte("hello")), protocol.CodeBadArgument},
		{protocol.KindWrite, write(101, 0, nil), protocol.CodeBadArgument},
		{protocol.KindWrite, write(1<<62, 5, []byte("hello")), protocol.CodeBadArgument},
		{protocol.KindWrite, write(0, 4, []byte("hello")), protocol.CodeMalformed},
		{protocol.KindRead, read(96, 5), protocol.CodeBadArgument},
		{protocol.KindRead, read(0, 1<<62), protocol.CodeBadArgument},
		{protocol.KindRead, read(1<<62, 1<<62), protocol.CodeBadArgument},
		{protocol.KindRead, (&protocol.Transfer{Handle: 77, Bytes: 1}).Append(nil), protocol.CodeNoHandle},
		{protocol.KindRead, (&protocol.Transfer{Handle: h, Bytes: 1, End: protocol.End{Place: protocol.InArena, Arena: 5}}).Append(nil), protocol.CodeNoHandle},
		{protocol.KindFree, protocol.Numbers(nil, 77), protocol.CodeNoHandle},
		{protocol.KindDrop, protocol.AppendDrop(nil, 5), protocol.CodeNoHandle},
		{protocol.KindNew, protocol.Numbers(nil, 0), protocol.CodeBadArgument},
		{protocol.KindNew, protocol.Numbers(nil, 1<<63-1), protocol.CodeOutOfMemory},
		{protocol.KindNew, protocol.Numbers(nil, 1<<64-1), protocol.CodeOutOfMemory},
		{protocol.KindNew, protocol.Numbers(nil, 1<<45), protocol.CodeOutOfMemory},
		{protocol.KindDefine, nil, protocol.CodeDefinition},
		{protocol.Kind(15), nil, protocol.CodeUnsupported},
		{protocol.KindOK, nil, protocol.CodeUnsupported},
		{protocol.KindCancel, make([]byte, 9), protocol.CodeMalformed},
		{protocol.KindStats, make([]byte, 9), protocol.CodeMalformed},
	} {
		c.refused(test.code, test.kind, test.body)
	}
	c.must(protocol.KindFree, protocol.Numbers(nil, h))
	c.refused(protocol.CodeNoHandle, protocol.KindFree, protocol.Numbers(nil, h))
	c.refused(protocol.CodeNoHandle, protocol.KindRead, read(0, 1))
	if again := c.newHandle(100); again <= h+1 {
		t.Errorf("handle %d is given again", again)
	}
	c.raw(frame(0, protocol.KindStats, nil))
	if _, failure := c.expect(0); failure == nil || failure.Code != protocol.CodeMalformed {
		t.Errorf("request 0: %v", describe(failure))
	}
	if m := c.stats(); m.Handles != 2 || m.HeldBytes != 101+2*handleBytes || m.PeakBytes < 201 || m.Errors < 20 || m.Requests <= m.Errors {
		t.Errorf("stats are %+v", m)
	}
}

// places puts an operand of a definition somewhere, with the data that are there before
// the call, and reads it back.
var places = []string{"frames", "arena", "handle"}

// Every definition gives the bits of a direct call, wherever its operands are.
func TestEveryDefinition(t *testing.T) {
	c := connect(t, Options{})
	const arenaBytes = 8 << 20
	memory := c.newArena(1, arenaBytes)
	handle := c.newHandle(arenaBytes)
	q := cpu.Queue()
	seen := map[*def.Definition]bool{}
	calls := 0
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if seen[d] {
				continue
			}
			seen[d] = true
			formats := d.Formats()
			few := testlevel.Pick(formats[:1], [][]num.DType{formats[0], formats[len(formats)-1]})
			for _, f := range few {
				for k, test := range engine.SelfTestCases(d, f) {
					if len(test.Operands[0].Data) > 100_000 || k%testlevel.Pick(3, 1) != 0 {
						continue
					}
					want := directly(t, q, d, test)
					for _, place := range testlevel.Pick(places[calls%len(places):][:1], places) {
						calls++
						got := c.remotely(d, test, place, memory, handle)
						for i := range d.Operands {
							if d.Operands[i].IsOut && !bytes.Equal(got[i], want[i]) {
								t.Errorf("%s %v %s: %s in %s has other bits", d.Name, f, test.Name, d.Operands[i].Name, place)
							}
						}
					}
				}
			}
		}
	}
	if calls < 100 {
		t.Errorf("%d calls were made", calls)
	}
}

// packed is an array without the gaps between its rows.
func packed(a num.Array) []byte {
	var b []byte
	for r := range a.Rows {
		b = append(b, a.Row(r)...)
	}
	return b
}

// directly runs a case in this process; results are by operand.
func directly(t *testing.T, q *engine.Queue, d *def.Definition, test engine.SelfTestCase) [][]byte {
	t.Helper()
	var tensors []*tensor.Tensor
	for i, a := range test.Operands {
		x, err := tensor.New(q.Device(), a.DType, d.Operands[i].Shape(&a)...)
		if err != nil {
			t.Fatal(err)
		}
		x.Buffer().CopyIn(0, packed(a))
		tensors = append(tensors, x)
	}
	if err := engine.Call(q, d, tensors, test.Params, engine.WithBadIndex(engine.Skip)); err != nil {
		t.Fatal(err)
	}
	var results [][]byte
	for _, x := range tensors {
		b, err := x.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, b)
		x.Close()
	}
	return results
}

// remotely runs a case through the server with all operands in one place; in memory, with
// gaps between rows that have to stay as they are.
func (c *client) remotely(d *def.Definition, test engine.SelfTestCase, place string, memory []byte, handle uint64) [][]byte {
	c.t.Helper()
	call := protocol.Call{Definition: d.Name, BadIndex: uint8(engine.Skip)}
	for i, p := range d.Params {
		call.Params = append(call.Params, protocol.Param{Name: p.Name, Value: test.Params[i]})
	}
	const gap = 3
	image := bytes.Repeat([]byte{0xa5}, len(memory))
	var data []byte
	offset := int64(0)
	offsets := make([]int64, len(d.Operands))
	order := []int{}
	for i := range d.Operands { // in the opposite order, which must not matter
		order = append([]int{i}, order...)
	}
	for _, i := range order {
		o, a := &d.Operands[i], test.Operands[i]
		x := protocol.Tensor{DType: a.DType, Shape: o.Shape(&a)}
		size := a.DType.Size()
		if place == "frames" {
			x.Carried = access(o)
			if o.IsIn {
				data = append(data, packed(a)...)
			}
		} else {
			x.Place, x.Arena, x.Handle = protocol.InArena, 1, 0
			if place == "handle" {
				x.Place, x.Arena, x.Handle = protocol.InHandle, 0, handle
			}
			x.Stride = a.Rows * a.Cols // of a vector or a single value
			if len(x.Shape) >= 2 {
				x.Stride = a.Cols + gap
			}
			x.Offset = offset
			offsets[i] = offset
			rows, row := 1, len(packed(a))
			if len(x.Shape) >= 2 {
				rows, row = a.Rows, a.Cols*size
			}
			for r := range rows {
				copy(image[offset+int64(r*x.Stride*size):], packed(a)[r*row:(r+1)*row])
			}
			offset += (int64(rows*x.Stride*size) + 8 + 7) &^ 7 // a multiple of every size
		}
		call.Operands = append(call.Operands, protocol.Operand{Name: o.Name, Tensor: x})
	}
	if int(offset) > len(memory) {
		c.t.Fatalf("%s %s needs %d bytes", d.Name, test.Name, offset)
	}
	transfer := protocol.Transfer{Handle: handle, Bytes: offset}
	switch place {
	case "arena":
		copy(memory, image[:offset])
	case "handle":
		c.must(protocol.KindWrite, append(transfer.Append(nil), image[:offset]...))
	}
	reply, failure := c.do(protocol.KindCall, append(protocol.AppendCalls(nil, []protocol.Call{call}), data...))
	if failure != nil {
		c.t.Fatalf("%s %s in %s: %v", d.Name, test.Name, place, failure)
	}
	results, err := protocol.ParseResults(reply)
	if err != nil || len(results.Lowerings) != 1 || !strings.HasPrefix(results.Lowerings[0], c.welcome.Device+".") || results.KernelNanoseconds == 0 {
		c.t.Fatalf("%s: %+v, %v", d.Name, results, err)
	}
	after := results.Data
	switch place {
	case "arena":
		after = bytes.Clone(memory[:offset])
	case "handle":
		after = c.must(protocol.KindRead, transfer.Append(nil))
	}
	got := make([][]byte, len(d.Operands))
	for _, i := range order {
		o, a := &d.Operands[i], test.Operands[i]
		n := len(packed(a))
		if place == "frames" {
			if o.IsOut {
				got[i], after = after[:n:n], after[n:]
			}
			continue
		}
		rows, row, stride := 1, n, n
		if len(o.Shape(&a)) >= 2 {
			rows, row, stride = a.Rows, a.Cols*a.DType.Size(), (a.Cols+gap)*a.DType.Size()
		}
		for r := range rows {
			at := after[offsets[i]+int64(r*stride):]
			got[i] = append(got[i], at[:row]...)
			if r < rows-1 && !bytes.Equal(at[row:stride], bytes.Repeat([]byte{0xa5}, stride-row)) {
				c.t.Errorf("%s %s in %s: %s has something written between its rows", d.Name, test.Name, place, o.Name)
			}
		}
	}
	return got
}

// In place, through arenas: y is x.
func TestInPlace(t *testing.T) {
	c := connect(t, Options{})
	memory := c.newArena(3, 4096)
	x := make([]byte, 2*3*5)
	g := gen.New("in place")
	for i := range len(x) / 2 {
		binary.LittleEndian.PutUint16(x[2*i:], uint16(num.Narrow(num.F16, g.Ordinary())))
	}
	results, _ := protocol.ParseResults(c.must(protocol.KindCall, softmax(num.F16, 3, 5, x)))
	copy(memory, x)
	c.must(protocol.KindCall, protocol.AppendCalls(nil, []protocol.Call{inArena(num.F16, 3, 5, 3, 0)}))
	if !bytes.Equal(memory[:len(x)], results.Data) || bytes.Equal(results.Data, x) {
		t.Errorf("in place is %x, want %x", memory[:len(x)], results.Data)
	}
	f := c.refused(protocol.CodeBadArgument, protocol.KindCall, protocol.AppendCalls(nil, []protocol.Call{inArena(num.F16, 3, 5, 3, 2)}))
	if f.Detail("op") != "softmax.forward" || f.Detail("operand") != "y" || !strings.Contains(f.Detail("got"), "overlaps") {
		t.Errorf("overlap: %+v", f)
	}
}

// One call reads what an earlier one wrote; both are checked before.
func TestSeveralCalls(t *testing.T) {
	c := connect(t, Options{})
	memory := c.newArena(3, 4096)
	x := bytesOf(2 * 3 * 5)
	first, second := inArena(num.F16, 3, 5, 3, 1024), inArena(num.F16, 3, 5, 3, 2048)
	second.Operands[0].Tensor.Offset = 1024
	copy(memory, x)
	results, _ := protocol.ParseResults(c.must(protocol.KindCall, protocol.AppendCalls(nil, []protocol.Call{first, second})))
	if len(results.Lowerings) != 2 {
		t.Errorf("lowerings are %q", results.Lowerings)
	}
	want, _ := protocol.ParseResults(c.must(protocol.KindCall, softmax(num.F16, 3, 5, memory[1024:1024+30])))
	if !bytes.Equal(memory[2048:2048+30], want.Data) {
		t.Error("the second call did not read what the first wrote")
	}
	clear(memory[1024:])
	second.Operands[1].Tensor.Shape = []int{3, 4}
	f := c.refused(protocol.CodeBadArgument, protocol.KindCall, protocol.AppendCalls(nil, []protocol.Call{first, second}))
	if !strings.HasPrefix(f.Message, "call 1: ") || f.Detail("call") != "" {
		t.Errorf("the failure is %+v", f)
	}
	if !bytes.Equal(memory[1024:1024+30], make([]byte, 30)) {
		t.Error("a call ran although a later one is bad")
	}
}

func TestRefusedCalls(t *testing.T) {
	c := connect(t, Options{})
	c.newArena(1, 4096)
	h := c.newHandle(64)
	good := func() protocol.Call {
		shape := []int{2, 8}
		return protocol.Call{Definition: "softmax.forward", Operands: []protocol.Operand{
			{Name: "x", Tensor: protocol.Tensor{DType: num.F16, Carried: protocol.WithRequest, Shape: shape}},
			{Name: "y", Tensor: protocol.Tensor{DType: num.F16, Carried: protocol.WithReply, Shape: shape}},
		}}
	}
	data := bytesOf(32)
	c.must(protocol.KindCall, append(protocol.AppendCalls(nil, []protocol.Call{good()}), data...))
	for _, test := range []struct {
		name, operand, got string
		code               protocol.Code
		change             func(*protocol.Call)
		data               []byte
	}{
		{"unknown definition", "definition", `is "softmax.fwd"`, protocol.CodeBadArgument, func(c *protocol.Call) { c.Definition = "softmax.fwd" }, data},
		{"empty definition", "definition", `is ""`, protocol.CodeBadArgument, func(c *protocol.Call) { c.Definition = "" }, data},
		{"unknown operand", "z", "is no operand", protocol.CodeBadArgument, func(c *protocol.Call) { c.Operands[1].Name = "z" }, data},
		{"operand twice", "x", "is given twice", protocol.CodeBadArgument, func(c *protocol.Call) { c.Operands[1].Name = "x" }, data},
		{"operand missing", "y", "is missing", protocol.CodeBadArgument, func(c *protocol.Call) { c.Operands = c.Operands[:1] }, data},
		{"data not sent", "x", "has data 2", protocol.CodeBadArgument, func(c *protocol.Call) { c.Operands[0].Tensor.Carried = 2 }, nil},
		{"data sent for nothing", "y", "has data 3", protocol.CodeBadArgument, func(c *protocol.Call) { c.Operands[1].Tensor.Carried = 3 }, bytesOf(64)},
		{"unknown parameter", "eps", "is no parameter", protocol.CodeBadArgument, func(c *protocol.Call) { c.Params = []protocol.Param{{Name: "eps"}} }, data},
		{"unknown lowering", "lowering", "", protocol.CodeBadArgument, func(c *protocol.Call) { c.Lowering = "cpu.magic" }, data},
		{"other shape", "y", "has shape", protocol.CodeBadArgument, func(c *protocol.Call) { c.Operands[1].Tensor.Shape = []int{8, 2} }, data},
		{"rank 0", "x", "", protocol.CodeBadArgument, func(c *protocol.Call) { c.Operands[0].Tensor.Shape = nil }, data[:2]},
		{"other dtype", "y", "is f32", protocol.CodeBadArgument, func(c *protocol.Call) { c.Operands[1].Tensor.DType = num.F32 }, data},
		{"size 0", "y", "has shape [2 8]", protocol.CodeBadArgument, func(c *protocol.Call) { c.Operands[0].Tensor.Shape = []int{0, 8} }, nil},
		{"data missing", "", "", protocol.CodeMalformed, func(c *protocol.Call) {}, data[1:]},
		{"data left over", "", "", protocol.CodeMalformed, func(c *protocol.Call) {}, bytesOf(33)},
		{"huge output", "y", "has shape [1073741824 1048576]", protocol.CodeBadArgument, func(c *protocol.Call) { c.Operands[1].Tensor.Shape = []int{1 << 30, 1 << 20} }, data},
		{"no such handle", "", "", protocol.CodeNoHandle, func(c *protocol.Call) {
			c.Operands[1].Tensor = protocol.Tensor{DType: num.F16, Place: protocol.InHandle, Handle: 99, Shape: []int{2, 8}, Stride: 8}
		}, data},
		{"no such arena", "", "", protocol.CodeNoHandle, func(c *protocol.Call) {
			c.Operands[1].Tensor = protocol.Tensor{DType: num.F16, Place: protocol.InArena, Arena: 99, Shape: []int{2, 8}, Stride: 8}
		}, data},
		{"beyond the handle", "y", "cannot be placed: buffer has 64 bytes", protocol.CodeBadArgument, func(c *protocol.Call) {
			c.Operands[1].Tensor = protocol.Tensor{DType: num.F16, Place: protocol.InHandle, Handle: h, Offset: 34, Shape: []int{2, 8}, Stride: 8}
		}, data},
		{"beyond the arena", "y", "cannot be placed: buffer has 4096 bytes", protocol.CodeBadArgument, func(c *protocol.Call) {
			c.Operands[1].Tensor = protocol.Tensor{DType: num.F16, Place: protocol.InArena, Arena: 1, Shape: []int{2, 8}, Stride: 1 << 40}
		}, data},
		{"odd offset", "y", "cannot be placed: offset is 1", protocol.CodeBadArgument, func(c *protocol.Call) {
			c.Operands[1].Tensor = protocol.Tensor{DType: num.F16, Place: protocol.InArena, Arena: 1, Offset: 1, Shape: []int{2, 8}, Stride: 8}
		}, data},
		{"small stride", "y", "cannot be placed: stride is 7", protocol.CodeBadArgument, func(c *protocol.Call) {
			c.Operands[1].Tensor = protocol.Tensor{DType: num.F16, Place: protocol.InArena, Arena: 1, Shape: []int{2, 8}, Stride: 7}
		}, data},
	} {
		call := good()
		test.change(&call)
		_, f := c.do(protocol.KindCall, append(protocol.AppendCalls(nil, []protocol.Call{call}), test.data...))
		if f == nil || f.Code != test.code || f.Detail("operand") != test.operand || !strings.Contains(f.Detail("got"), test.got) {
			t.Errorf("%s: got %v with %+v, want code %d", test.name, describe(f), f, test.code)
		}
	}
	c.refused(protocol.CodeMalformed, protocol.KindCall, protocol.AppendCalls(nil, nil))
	c.must(protocol.KindCall, append(protocol.AppendCalls(nil, []protocol.Call{good()}), data...))
	if m := c.stats(); m.HeldBytes != 4096+64+handleBytes {
		t.Errorf("%d bytes are held, want those of the arena and the handle", m.HeldBytes)
	}
}

// Parameters as people give them, or as LIST tells.
func TestDerivedParameters(t *testing.T) {
	c := connect(t, Options{})
	calls := adamwCalls(c, 2, 8)
	c.must(protocol.KindCall, protocol.AppendCalls(nil, calls))
	o := all.Find("adamw.step")
	given := engine.Params{}
	for _, p := range calls[0].Params {
		given[p.Name] = p.Value
	}
	derived, err := o.Derive(o.Definitions[0], given)
	if err != nil {
		t.Fatal(err)
	}
	run := func(params []protocol.Param) []byte {
		h := calls[0].Operands[0].Tensor.Handle
		image := bytesOf(2 * 8 * 12)
		c.must(protocol.KindWrite, append((&protocol.Transfer{Handle: h, Bytes: int64(len(image))}).Append(nil), image...))
		calls[0].Params, calls[1].Params = params, params
		c.must(protocol.KindCall, protocol.AppendCalls(nil, calls))
		after := c.must(protocol.KindRead, (&protocol.Transfer{Handle: h, Bytes: int64(len(image))}).Append(nil))
		if !bytes.Equal(after[:8*12], after[8*12:]) {
			t.Errorf("two calls with the same parameters gave %x", after)
		}
		return after
	}
	byPeople := calls[0].Params
	var byList []protocol.Param
	for _, p := range o.Definitions[0].Params {
		byList = append(byList, protocol.Param{Name: p.Name, Value: derived[p.Name]})
	}
	if a, b := run(byPeople), run(byList); !bytes.Equal(a, b) || bytes.Equal(a, bytesOf(2*8*12)) {
		t.Errorf("got %x and %x", a, b)
	}
	calls[0].Params = byPeople[1:]
	c.refused(protocol.CodeBadArgument, protocol.KindCall, protocol.AppendCalls(nil, calls))
	calls[0].Params = append(byPeople[:6:6], protocol.Param{Name: "momentum"})
	c.refused(protocol.CodeBadArgument, protocol.KindCall, protocol.AppendCalls(nil, calls))
	calls[0].Params = append(byPeople[:6:6], byPeople[0])
	c.refused(protocol.CodeBadArgument, protocol.KindCall, protocol.AppendCalls(nil, calls))
}

func TestBadIndices(t *testing.T) {
	c := connect(t, Options{})
	memory := c.newArena(1, 4096)
	d := all.Find("embedding.forward").Definitions[0]
	call := protocol.Call{Definition: d.Name}
	for i := range d.Operands {
		o := &d.Operands[i]
		x := protocol.Tensor{DType: num.F32, Place: protocol.InArena, Arena: 1, Shape: []int{3, 4}, Stride: 4, Offset: int64(1024 * i)}
		if o.IsIndex {
			x.DType, x.Shape, x.Stride = num.I32, []int{3}, 3
			binary.LittleEndian.PutUint32(memory[1024*i:], 2)
			binary.LittleEndian.PutUint32(memory[1024*i+4:], 3)
		}
		call.Operands = append(call.Operands, protocol.Operand{Name: o.Name, Tensor: x})
	}
	f := c.refused(protocol.CodeBadArgument, protocol.KindCall, protocol.AppendCalls(nil, []protocol.Call{call}))
	if f.Detail("position") != "1" || f.Detail("value") != "3" || f.Detail("bound") != "3" || f.Detail("call") != "" {
		t.Errorf("the failure is %+v", f)
	}
	call.BadIndex = 1
	c.must(protocol.KindCall, protocol.AppendCalls(nil, []protocol.Call{call}))
}

func TestArenaFaults(t *testing.T) {
	if !alone.Process(t) {
		return
	}
	c := connect(t, Options{MemoryLimit: 1 << 20})
	const size = 1 << 16
	memory := func(bytes int64, seals int) int {
		fd, err := unix.MemfdCreate("peer", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		unix.Fallocate(fd, 0, 0, bytes)
		if seals != 0 {
			unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		}
		return fd
	}
	const sealed = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	good := memory(size, sealed)
	holes := memory(size, 0)
	unix.Fallocate(holes, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, size/2)
	unix.FcntlInt(uintptr(holes), unix.F_ADD_SEALS, sealed)
	for _, test := range []struct {
		name  string
		bytes int64
		fds   []int
		code  protocol.Code
	}{
		{"unsealed", size, []int{memory(size, 0)}, protocol.CodeBadArgument},
		{"with holes", size, []int{holes}, protocol.CodeBadArgument},
		{"too small", size, []int{memory(size/2, sealed)}, protocol.CodeBadArgument},
		{"too large", size, []int{memory(size*2, sealed)}, protocol.CodeBadArgument},
		{"no pages", 100, []int{memory(100, sealed)}, protocol.CodeBadArgument},
		{"nothing", 0, []int{good}, protocol.CodeBadArgument},
		{"over the limit", 2 << 20, []int{memory(2<<20, sealed)}, protocol.CodeOutOfMemory},
		{"no descriptor", size, nil, protocol.CodeMalformed},
		{"two descriptors", size, []int{good, good}, protocol.CodeMalformed},
		{"sixteen descriptors", size, []int{good, good, good, good, good, good, good, good, good, good, good, good, good, good, good, good}, protocol.CodeMalformed},
	} {
		before := descriptors(t)
		if _, f := c.expect(c.sendArena(7, test.bytes, test.fds...)); f == nil || f.Code != test.code {
			t.Errorf("%s: got %v, want code %d", test.name, describe(f), test.code)
		}
		if after := descriptors(t); after != before {
			t.Errorf("%s: %d descriptors are open, want %d", test.name, after, before)
		}
	}
	before := descriptors(t)
	c.last++
	c.raw(frame(c.last, protocol.KindStats, nil), good) // not announced
	if _, f := c.expect(c.last); f == nil || f.Code != protocol.CodeMalformed {
		t.Errorf("a descriptor that is not announced: %v", describe(f))
	}
	c.last++
	b := frame(c.last, protocol.KindStats, nil)
	b[20] = 1
	c.raw(b, good)
	if _, f := c.expect(c.last); f == nil || f.Code != protocol.CodeMalformed {
		t.Errorf("a descriptor with STATS: %v", describe(f))
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors are open, want %d", after, before)
	}
	if _, f := c.expect(c.sendArena(7, size, good)); f != nil {
		t.Error(f)
	}
	for arena, what := range map[uint32]string{7: "the same arena again", 8: "the same memory as another arena"} {
		if _, f := c.expect(c.sendArena(arena, size, good)); f == nil || f.Code != protocol.CodeBadArgument {
			t.Errorf("%s: %v", what, describe(f))
		}
	}
	c.must(protocol.KindDrop, protocol.AppendDrop(nil, 7))
	if m := c.stats(); m.HeldBytes != 0 || m.Arenas != 0 {
		t.Errorf("stats are %+v", m)
	}
}

// Arenas and handles are not left behind.
func TestNoLeak(t *testing.T) {
	if isRaceEnabled {
		t.Skip("the race detector has mappings of its own")
	}
	if !alone.Process(t) {
		return
	}
	c := connect(t, Options{})
	before, maps := descriptors(t), mappings(t)
	for i := range 1000 {
		region, err := shm.Create(4096)
		if err != nil {
			t.Skip(err)
		}
		if _, f := c.expect(c.sendArena(uint32(i), 4096, region.FD())); f != nil {
			t.Fatal(f)
		}
		if i%2 == 0 {
			c.must(protocol.KindDrop, protocol.AppendDrop(nil, uint32(i)))
		}
		region.Close()
	}
	for range 10_000 {
		c.newHandle(1 << 12)
		c.must(protocol.KindFree, protocol.Numbers(nil, c.handle))
	}
	if m := c.stats(); m.Arenas != 500 || m.Handles != 0 || m.HeldBytes != 500*4096 {
		t.Errorf("stats are %+v", m)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors are open, want %d", after, before)
	}
	c.conn.Close()
	<-c.cleaned
	if after := mappings(t); after > maps+20 {
		t.Errorf("%d mappings are left, want about %d", after, maps)
	}
}

// TestContractOfParameters refuses numbers that the contract excludes, as typed calls do.
func TestContractOfParameters(t *testing.T) {
	c := connect(t, Options{})
	row := func(name string, carried uint8, shape ...int) protocol.Operand {
		return protocol.Operand{Name: name, Tensor: protocol.Tensor{DType: num.F32, Place: protocol.InFrame, Carried: carried, Shape: shape}}
	}
	for _, test := range []struct {
		call protocol.Call
		data int // bytes
	}{
		{protocol.Call{Definition: "norm.clip", Params: []protocol.Param{{Name: "max_norm", Value: -1}},
			Operands: []protocol.Operand{row("total", 1, 1), row("norm", 2, 1), row("factor", 2, 1)}}, 4},
		{protocol.Call{Definition: "layernorm.forward", Params: []protocol.Param{{Name: "eps", Value: -1}},
			Operands: []protocol.Operand{row("x", 1, 1, 4), row("gamma", 1, 4), row("beta", 1, 4), row("y", 2, 1, 4), row("mean", 2, 1), row("rstd", 2, 1)}}, 48},
		{protocol.Call{Definition: "adamw.step", Params: []protocol.Param{{Name: "lr", Value: 1}, {Name: "beta1"}, {Name: "beta2"}, {Name: "eps", Value: 1}, {Name: "weight_decay"}, {Name: "t", Value: 1.5}},
			Operands: []protocol.Operand{row("weight", 3, 4), row("m", 3, 4), row("v", 3, 4), row("grad", 1, 4)}}, 64},
	} {
		for _, isGood := range []bool{false, true} {
			if isGood {
				last := &test.call.Params[len(test.call.Params)-1]
				last.Value = 1
			}
			body := append(protocol.AppendCalls(nil, []protocol.Call{test.call}), make([]byte, test.data)...)
			_, f := c.expect(c.send(protocol.KindCall, body))
			if isGood != (f == nil) || f != nil && (f.Code != protocol.CodeBadArgument || f.Detail("clause") == "") {
				t.Errorf("%s %v: %v", test.call.Definition, test.call.Params, describe(f))
			}
		}
	}
}

// TestManyArenas has as many as there may be, and one more.
func TestManyArenas(t *testing.T) {
	c := connect(t, Options{})
	for i := range uint32(maxArenas + 1) {
		fd, err := unix.MemfdCreate("peer", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Skip(err)
		}
		unix.Fallocate(fd, 0, 0, 4096)
		unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
		_, f := c.expect(c.sendArena(i, 4096, fd))
		unix.Close(fd)
		if isMany := i == maxArenas; isMany != (f != nil) || f != nil && f.Code != protocol.CodeBadArgument {
			t.Fatalf("arena %d: %v", i, describe(f))
		}
	}
	c.must(protocol.KindDrop, protocol.AppendDrop(nil, 7))
	if m := c.stats(); m.Arenas != maxArenas-1 {
		t.Errorf("stats are %+v", m)
	}
}

// TestDescriptorsThatWait sends many behind a call that takes long: the server keeps few of
// them open, and answers all.
func TestDescriptorsThatWait(t *testing.T) {
	if !alone.Process(t) {
		return
	}
	c := connect(t, Options{})
	body, hasBegun := slow(c)
	c.send(protocol.KindCall, body)
	hasBegun()
	before := descriptors(t)
	const n = 100
	for i := range uint32(n) {
		fd, err := unix.MemfdCreate("peer", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Skip(err)
		}
		unix.Fallocate(fd, 0, 0, 4096)
		unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
		c.sendArena(100+i, 4096, fd)
		unix.Close(fd)
	}
	await.For(t, "the reader takes no more", func() bool {
		return await.IsBlocked("select", "child.(*server).takeDescriptors")
	})
	if open := descriptors(t) - before; open > maxDescriptors+2 {
		t.Errorf("%d descriptors wait, want about %d", open, maxDescriptors)
	}
	c.conn.Close() // CANCEL would not be read either
	<-c.cleaned
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors are left open, want %d", after, before)
	}
}
