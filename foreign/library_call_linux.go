package foreign

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"tokitai/def"
	"tokitai/internal/dl"
	"tokitai/kernelprocess/protocol"
	"tokitai/num"
	"tokitai/trial"
)

// The structs of tokitai.h.
type (
	cOperand struct {
		name             *byte
		data             unsafe.Pointer
		dtype, use, rank int32
		_                int32
		shape, strides   *int64
	}
	cParam struct {
		name  *byte
		value float64
	}
	cCall struct {
		version, bytes           uint32
		operation                *byte
		operands                 *cOperand
		params                   *cParam
		operandCount, paramCount int32
		message                  *byte
		messageBytes             uintptr
	}
)

// libraryVersion is TOKITAI_VERSION.
const libraryVersion = 1

// messageBytes is the room for a function's message.
const messageBytes = 1024

// cString returns text with a 0 at its end.
func cString(text string) *byte { return unsafe.SliceData(append([]byte(text), 0)) }

// library is a function in the process that calls it.
type library struct {
	function  dl.Proc
	symbol    string
	operation string
	isStrided bool
	seed      uint64

	calls uint64
	last  *libraryCall // whose memory the function may still change
}

// libraryCall is the memory of one call.
type libraryCall struct {
	operands *trial.Operands
	places   []*place // by operand
}

// compute calls the function with what a CALL says, and returns the outputs without gaps.
func (l *library) compute(call *protocol.Call, data []byte) ([]byte, time.Duration, *protocol.Failure) {
	if failure := l.lookBack(); failure != nil {
		return nil, 0, failure
	}
	l.calls++
	x := l.layOut(call, data)
	before := x.Clone()
	c := &libraryCall{operands: x}
	defer func() { l.last = c }()
	isFar := l.isFar(call, data)
	for i := range call.Operands {
		place, err := newPlace(x, i, isFar)
		if err != nil {
			return nil, 0, &protocol.Failure{Code: protocol.CodeOutOfMemory, Message: err.Error()}
		}
		c.places = append(c.places, place)
	}
	frame, message := c.frame(call)
	began := time.Now()
	code := int32(l.function.Call([]uintptr{uintptr(unsafe.Pointer(frame))}))
	took := time.Since(began)
	runtime.KeepAlive(frame)
	for _, place := range c.places {
		place.takeBack()
	}
	if breach := x.Breach(before); breach != nil {
		return nil, took, wrongOperand(call.Operands[breach.Operand].Name, breach.String())
	}
	if code != 0 {
		return nil, took, l.refusal(code, message)
	}
	var results []byte
	for i := range call.Operands {
		if a := x.Array(i); call.Operands[i].Tensor.Carried&protocol.WithReply != 0 {
			for r := range a.Rows {
				results = append(results, a.Row(r)...)
			}
		}
	}
	return results, took, nil
}

// wrongOperand is the failure of a function that breaks a rule about an operand.
func wrongOperand(name, message string) *protocol.Failure {
	return &protocol.Failure{Code: protocol.CodeInternal, Message: message, Details: []protocol.Detail{{Name: "output", Value: name}}}
}

// refusal is what a number other than 0 means, with the function's words.
func (l *library) refusal(code int32, message []byte) *protocol.Failure {
	text := fmt.Sprintf("%s returned %d", l.symbol, code)
	f := &protocol.Failure{Code: protocol.CodeInternal}
	if code == ExitRefused {
		f.Code, text = protocol.CodeBadArgument, l.symbol+" refused"
	}
	if end := bytes.IndexByte(message, 0); end >= 0 { // it may not have ended it
		message = message[:end]
	}
	if f.Message = text; len(message) > 0 {
		f.Message += ": " + string(message)
	}
	return f
}

// lookBack compares the memory of the last call with what it was when the function returned.
func (l *library) lookBack() *protocol.Failure {
	last := l.last
	l.last = nil
	if last == nil {
		return nil
	}
	for i, place := range last.places {
		isChanged := place.isChanged()
		place.free()
		if isChanged {
			name := last.operands.Definition.Operands[i].Name
			return wrongOperand(name, fmt.Sprintf("%s changed %s after it had returned: it left work behind, in another thread", l.symbol, name))
		}
	}
	return nil
}

// choiceOf returns a number that depends on a call alone.
func choiceOf(call *protocol.Call, data []byte) uint64 {
	sum := sha256.Sum256(append(call.Append(nil), data...))
	return binary.LittleEndian.Uint64(sum[:])
}

// isFar reports whether the rows of a call's operands lie far apart, as those of one call in 16 do if
// rows may be apart.
func (l *library) isFar(call *protocol.Call, data []byte) bool {
	return l.isStrided && choiceOf(call, data)>>60 == 0
}

// layOut returns the operands of a call between guards, the outputs poisoned. The layout depends
// on the call alone, so that a case which fails in one process fails in another; what the guards
// and the outputs hold depends on the process and the number of the call as well.
func (l *library) layOut(call *protocol.Call, data []byte) *trial.Operands {
	choice := choiceOf(call, data)
	noise := choice ^ l.seed ^ l.calls*0x9e3779b97f4a7c15
	d, sizes, dtypes := definitionOf(call)
	x := trial.New(d, dtypes, sizes, func(i int) trial.Layout {
		word := choice >> (i * 7 % 48)
		layout := trial.Layout{Offset: int(word % 4 * (word >> 2 % 5)), Guards: trial.Guards(noise >> (i % 8) % 3), Key: noise + uint64(i)}
		if l.isStrided {
			layout.Gap = int(word >> 5 % 24)
		}
		return layout
	})
	x.Poison(int(noise >> 17 % 2))
	for i := range call.Operands {
		if a := x.Array(i); call.Operands[i].Tensor.Carried&protocol.WithRequest != 0 {
			for r := range a.Rows {
				data = data[copy(a.Row(r), data):]
			}
		}
	}
	return x
}

// definitionOf returns what a call tells of its definition: names, ranks and uses of operands,
// each with sizes of its own.
func definitionOf(call *protocol.Call) (*def.Definition, map[string]int, []num.DType) {
	d, sizes := &def.Definition{Name: call.Definition}, map[string]int{}
	var dtypes []num.DType
	for _, o := range call.Operands {
		t := &o.Tensor
		operand := def.Operand{Name: o.Name, IsIn: t.Carried&protocol.WithRequest != 0, IsOut: t.Carried&protocol.WithReply != 0}
		for axis, size := range t.Shape {
			letter := fmt.Sprintf("%s.%d", o.Name, axis)
			operand.Dims = append(operand.Dims, letter)
			sizes[letter] = size
		}
		if len(t.Shape) == 1 {
			operand.Extent = def.PerColumn // one row
		}
		d.Operands, dtypes = append(d.Operands, operand), append(dtypes, t.DType)
	}
	return d, sizes, dtypes
}

// frame returns the argument of the function, and the room for its message.
func (c *libraryCall) frame(call *protocol.Call) (*cCall, []byte) {
	var operands []cOperand
	for i, o := range call.Operands {
		var shape, strides []int64
		for axis, size := range o.Tensor.Shape {
			shape = append(shape, int64(size))
			strides = append(strides, int64(c.places[i].strideAlong(len(o.Tensor.Shape), axis)))
		}
		operands = append(operands, cOperand{
			name: cString(o.Name), data: c.places[i].first(), dtype: int32(slices.Index(libraryFormats, o.Tensor.DType) + 1),
			use: int32(o.Tensor.Carried), rank: int32(len(shape)), shape: unsafe.SliceData(shape), strides: unsafe.SliceData(strides),
		})
	}
	var params []cParam
	for _, p := range call.Params {
		params = append(params, cParam{cString(p.Name), p.Value})
	}
	message := make([]byte, messageBytes)
	return &cCall{
		version: libraryVersion, bytes: uint32(unsafe.Sizeof(cCall{})), operation: cString(call.Definition),
		operands: unsafe.SliceData(operands), params: unsafe.SliceData(params), operandCount: int32(len(operands)), paramCount: int32(len(params)),
		message: unsafe.SliceData(message), messageBytes: messageBytes,
	}, message
}

// libraryFormats are numbered from 1 as in tokitai.h.
var libraryFormats = []num.DType{num.F16, num.BF16, num.F32, num.I32, num.E4M3, num.E5M2, num.I8, num.I64}
