package protocol

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"tokitai/num"
)

// message is a kind of body: how it is parsed, how it is written again, and one made at
// random together with its bytes.
type message struct {
	name   string
	random func(random) (value any, body []byte)
	parse  func([]byte) (any, error)
	again  func(any) []byte
	isOpen bool // bytes at the end are its data, however many
}

var messages = []message{
	{
		name:   "hello",
		random: func(r random) (any, []byte) { m := r.hello(); return m, m.Append(nil) },
		parse:  func(b []byte) (any, error) { return ParseHello(b) },
		again:  func(v any) []byte { m := v.(Hello); return m.Append(nil) },
	},
	{
		name:   "welcome",
		random: func(r random) (any, []byte) { m := r.welcome(); return m, m.Append(nil) },
		parse:  func(b []byte) (any, error) { return ParseWelcome(b) },
		again:  func(v any) []byte { m := v.(Welcome); return m.Append(nil) },
	},
	{
		name: "calls",
		random: func(r random) (any, []byte) {
			calls, data := r.calls()
			return callsAndData{calls, data}, append(AppendCalls(nil, calls), data...)
		},
		parse: func(b []byte) (any, error) {
			calls, data, err := ParseCalls(b)
			return callsAndData{calls, data}, err
		},
		again: func(v any) []byte { m := v.(callsAndData); return append(AppendCalls(nil, m.Calls), m.Data...) },
	},
	{
		name:   "judge",
		random: func(r random) (any, []byte) { m := r.judge(); return m, m.Append(nil) },
		parse:  func(b []byte) (any, error) { return ParseJudge(b) },
		again:  func(v any) []byte { m := v.(Judge); return m.Append(nil) },
	},
	{
		name:   "truth",
		random: func(r random) (any, []byte) { m := r.question(); return m, m.Append(nil) },
		parse:  func(b []byte) (any, error) { return ParseTruth(b) },
		again:  func(v any) []byte { m := v.(Question); return m.Append(nil) },
	},
	{
		name:   "results",
		random: func(r random) (any, []byte) { m := r.results(); return m, m.Append(nil) },
		parse:  func(b []byte) (any, error) { return ParseResults(b) },
		again:  func(v any) []byte { m := v.(Results); return m.Append(nil) },
		isOpen: true,
	},
	{
		name:   "write",
		random: func(r random) (any, []byte) { m := r.transfer(true); return m, append(m.Append(nil), m.Data...) },
		parse:  func(b []byte) (any, error) { return ParseWrite(b) },
		again:  func(v any) []byte { m := v.(Transfer); return append(m.Append(nil), m.Data...) },
	},
	{
		name:   "read",
		random: func(r random) (any, []byte) { m := r.transfer(false); return m, m.Append(nil) },
		parse:  func(b []byte) (any, error) { return ParseRead(b) },
		again:  func(v any) []byte { m := v.(Transfer); return m.Append(nil) },
	},
	{
		name:   "number",
		random: func(r random) (any, []byte) { v := r.u64(); return v, Numbers(nil, v) },
		parse:  func(b []byte) (any, error) { return ParseNumber(b) },
		again:  func(v any) []byte { return Numbers(nil, v.(uint64)) },
	},
	{
		name:   "nothing",
		random: func(random) (any, []byte) { return nil, nil },
		parse:  func(b []byte) (any, error) { return nil, ParseNothing(b) },
		again:  func(any) []byte { return nil },
	},
	{
		name:   "arena",
		random: func(r random) (any, []byte) { m := ArenaBody{r.Uint32(), r.size()}; return m, m.Append(nil) },
		parse:  func(b []byte) (any, error) { return ParseArena(b) },
		again:  func(v any) []byte { m := v.(ArenaBody); return m.Append(nil) },
	},
	{
		name:   "drop",
		random: func(r random) (any, []byte) { v := r.Uint32(); return v, AppendDrop(nil, v) },
		parse:  func(b []byte) (any, error) { return ParseDrop(b) },
		again:  func(v any) []byte { return AppendDrop(nil, v.(uint32)) },
	},
	{
		name:   "list",
		random: func(r random) (any, []byte) { l := r.definitions(); return l, AppendList(nil, l) },
		parse:  func(b []byte) (any, error) { return ParseList(b) },
		again:  func(v any) []byte { return AppendList(nil, v.([]Definition)) },
	},
	{
		name:   "defined",
		random: func(r random) (any, []byte) { m := r.defined(); return m, m.Append(nil) },
		parse:  func(b []byte) (any, error) { return ParseDefined(b) },
		again:  func(v any) []byte { m := v.(Defined); return m.Append(nil) },
	},
	{
		name:   "stats",
		random: func(r random) (any, []byte) { m := r.stats(); return m, m.Append(nil) },
		parse:  func(b []byte) (any, error) { return ParseStats(b) },
		again:  func(v any) []byte { m := v.(Stats); return m.Append(nil) },
	},
	{
		name:   "failure",
		random: func(r random) (any, []byte) { f := r.failure(); return *f, f.Append(nil) },
		parse: func(b []byte) (any, error) {
			f, err := ParseFailure(b)
			if err != nil {
				return Failure{}, err
			}
			return *f, nil
		},
		again: func(v any) []byte { f := v.(Failure); return f.Append(nil) },
	},
}

type callsAndData struct {
	Calls []Call
	Data  []byte
}

func eachMessage(t *testing.T, test func(t *testing.T, m message)) {
	for _, m := range messages {
		t.Run(m.name, func(t *testing.T) { test(t, m) })
	}
}

func TestRoundTrip(t *testing.T) {
	eachMessage(t, func(t *testing.T, m message) {
		for seed := range uint64(500) {
			want, body := m.random(newRandom(seed))
			got, err := m.parse(body)
			if err != nil {
				t.Fatalf("seed %d: %+v as %x: %v", seed, want, body, err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: got %+v, want %+v", seed, got, want)
			}
			if again := m.again(got); !bytes.Equal(again, body) {
				t.Fatalf("seed %d: written again %x, want %x", seed, again, body)
			}
		}
	})
}

// TestCutsAndExtraBytes: a body that ends early, or has a byte too many, is refused as
// malformed wherever it is cut.
func TestCutsAndExtraBytes(t *testing.T) {
	eachMessage(t, func(t *testing.T, m message) {
		for seed := range uint64(50) {
			value, body := m.random(newRandom(seed))
			fixed := len(body)
			if m.isOpen {
				fixed -= len(value.(Results).Data)
			}
			for cut := range fixed {
				requireMalformed(t, m, body[:cut])
			}
			if !m.isOpen {
				for extra := range 256 {
					requireMalformed(t, m, append(bytes.Clone(body), byte(extra)))
				}
			}
		}
	})
}

func requireMalformed(t *testing.T, m message, body []byte) {
	t.Helper()
	_, err := m.parse(body)
	f, ok := errors.AsType[*Failure](err)
	if !ok || f.Code != CodeMalformed {
		t.Fatalf("%s %x: got error %v, want a malformed one", m.name, body, err)
	}
	if !strings.HasPrefix(f.Message, "byte ") {
		t.Fatalf("%s %x: %q does not tell the place", m.name, body, f.Message)
	}
}

// TestParsingHoldsNoFrame: strings of a parsed message stay what they are when the
// frame's memory is used again.
func TestParsingHoldsNoFrame(t *testing.T) {
	eachMessage(t, func(t *testing.T, m message) {
		for seed := range uint64(20) {
			want, body := m.random(newRandom(seed))
			got, err := m.parse(body)
			if err != nil {
				t.Fatal(err)
			}
			clear(body)
			switch got := got.(type) {
			case callsAndData:
				if !reflect.DeepEqual(got.Calls, want.(callsAndData).Calls) {
					t.Fatalf("seed %d: calls changed with the frame", seed)
				}
			case Results:
				if !reflect.DeepEqual(got.Lowerings, want.(Results).Lowerings) {
					t.Fatalf("seed %d: lowerings changed with the frame", seed)
				}
			case Judge:
				want := want.(Judge)
				got.Data, got.Outputs, want.Data, want.Outputs = nil, nil, nil, nil
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d: texts changed with the frame", seed)
				}
			case Question:
				if !reflect.DeepEqual(got.Call, want.(Question).Call) {
					t.Fatalf("seed %d: the call changed with the frame", seed)
				}
			case Transfer:
			default:
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d: changed with the frame", seed)
				}
			}
		}
	})
}

func frameTensor(shape ...int) Tensor {
	return Tensor{DType: num.F32, Place: InFrame, Carried: WithReply, Shape: shape}
}

func oneCall(t Tensor) []byte {
	return AppendCalls(nil, []Call{{Definition: "d", Operands: []Operand{{Name: "x", Tensor: t}}}})
}

// TestRefusals: what the page does not allow, one byte or one number away from what it does.
func TestRefusals(t *testing.T) {
	call := func(edit func(*Call)) []byte {
		c := Call{Definition: "d"}
		edit(&c)
		return AppendCalls(nil, []Call{c})
	}
	reserved := call(func(*Call) {})
	reserved[4+4+1+3] = 1
	ascending := func(n int) []int {
		shape := make([]int, n)
		for i := range shape {
			shape[i] = 1
		}
		return shape
	}
	long := func(n int) []byte { m := Hello{Client: strings.Repeat("x", n)}; return m.Append(nil) }
	parseCalls := func(b []byte) error { _, _, err := ParseCalls(b); return err }
	parseHello := func(b []byte) error { _, err := ParseHello(b); return err }
	parseList := func(b []byte) error { _, err := ParseList(b); return err }
	parseArena := func(b []byte) error { _, err := ParseArena(b); return err }
	parseRead := func(b []byte) error { _, err := ParseRead(b); return err }
	parseWelcome := func(b []byte) error { _, err := ParseWelcome(b); return err }
	access := func(a uint8) []byte {
		return AppendList(nil, []Definition{{Name: "d", Operands: []OperandUse{{Name: "x", Access: a}}}})
	}
	parseDefined := func(b []byte) error { _, err := ParseDefined(b); return err }
	defined := func(o OperandForm) []byte { m := Defined{Operands: []OperandForm{o}}; return m.Append(nil) }
	param := func(isInt, hasDefault byte, value float64) []byte {
		m := Defined{Params: []ParamForm{{Name: "p", Default: &value}}}
		b := m.Append(nil)
		b[len(b)-10], b[len(b)-9] = isInt, hasDefault
		return b
	}
	manyOperands := func(n int) []byte {
		m := Defined{Operands: slices.Repeat([]OperandForm{{Access: 1}}, n)}
		return m.Append(nil)
	}
	place := func(p Place) []byte { m := Transfer{End: End{Place: p}}; return m.Append(nil) }
	welcome := func(last byte) []byte {
		m := Welcome{HasArenas: true}
		b := m.Append(nil)
		b[len(b)-4] = last
		return b
	}
	for _, c := range []struct {
		name  string
		parse func([]byte) error
		good  []byte // nil: there is none
		bad   []byte
		words string
	}{
		{"magic", parseHello, long(0), append([]byte("Tokitai\n"), long(0)[8:]...), `want "tokitai\n"`},
		{"string too long", parseHello, long(maxString), long(maxString + 1), "4097 bytes, want at most 4096"},
		{"string no UTF-8", parseHello, []byte("tokitai\n\x01\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\xc3\xa9"),
			[]byte("tokitai\n\x01\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\xc3\x28"), "client is no UTF-8"},
		{"features", parseWelcome, welcome(3), welcome(4), "features is 4"},
		{"no calls", parseCalls, call(func(*Call) {}), AppendCalls(nil, nil), "no calls"},
		{"policy", parseCalls, call(func(c *Call) { c.Policy = 1 }), call(func(c *Call) { c.Policy = 2 }), "policy is 2"},
		{"bad index", parseCalls, call(func(c *Call) { c.BadIndex = 1 }), call(func(c *Call) { c.BadIndex = 2 }), "bad index is 2"},
		{"admission", parseCalls, call(func(c *Call) { c.Admission = 1 }), call(func(c *Call) { c.Admission = 2 }), "admission is 2"},
		{"reserved byte", parseCalls, call(func(*Call) {}), reserved, "is 1, want at most 0"},
		{"dtype 0", parseCalls, oneCall(frameTensor(2)), oneCall(Tensor{DType: 77, Carried: WithReply}), "dtype is 0, want 1 to 8"},
		{"dtype 9", parseCalls, nil, bytes.Replace(oneCall(frameTensor(2)), []byte{'x', 3}, []byte{'x', 9}, 1), "dtype is 9, want 1 to 8"},
		{"place", parseCalls, oneCall(Tensor{DType: num.F32, Place: InHandle}), oneCall(Tensor{DType: num.F32, Place: 3}), "place is 3, want 0 to 2"},
		{"frames without data", parseCalls, oneCall(frameTensor(2)), oneCall(Tensor{DType: num.F32}), "data are 0 with place 0"},
		{"frames with 4", parseCalls, nil, oneCall(Tensor{DType: num.F32, Carried: 4}), "data are 4 with place 0"},
		{"arena with data", parseCalls, oneCall(Tensor{DType: num.F32, Place: InArena}), oneCall(Tensor{DType: num.F32, Place: InArena, Carried: 1}), "data are 1 with place 1"},
		{"rank", parseCalls, oneCall(frameTensor(ascending(maxRank)...)), oneCall(frameTensor(ascending(maxRank + 1)...)), "256 sizes, want at most 255"},
		{"size", parseCalls, oneCall(Tensor{DType: num.F32, Place: InHandle, Shape: []int{math.MaxInt}}),
			oneCall(Tensor{DType: num.F32, Place: InHandle, Shape: []int{math.MinInt}}), "size is 9223372036854775808"},
		{"offset", parseCalls, oneCall(Tensor{DType: num.F32, Place: InHandle, Offset: math.MaxInt64}),
			oneCall(Tensor{DType: num.F32, Place: InHandle, Offset: -1}), "offset is 18446744073709551615"},
		{"stride", parseCalls, oneCall(Tensor{DType: num.F32, Place: InHandle, Stride: math.MaxInt}),
			oneCall(Tensor{DType: num.F32, Place: InHandle, Stride: -1}), "row stride is 18446744073709551615"},
		{"bytes beyond int64", parseCalls, nil, oneCall(Tensor{DType: num.F32, Carried: 1, Shape: []int{1 << 31, 1 << 30}}), "no frame can hold"},
		{"sum beyond int64", parseCalls, nil, AppendCalls(nil, []Call{
			{Operands: []Operand{{Tensor: Tensor{DType: num.F16, Carried: 1, Shape: []int{1 << 61}}}}},
			{Operands: []Operand{{Tensor: Tensor{DType: num.F16, Carried: 1, Shape: []int{1 << 61}}}}}}), "no frame can hold"},
		{"sum in a call beyond int64", parseCalls, nil, AppendCalls(nil, []Call{
			{Operands: []Operand{{Tensor: Tensor{DType: num.F16, Carried: 1, Shape: []int{1 << 61}}}, {Tensor: Tensor{DType: num.F16, Carried: 1, Shape: []int{1 << 61}}}}}}), "no frame can hold"},
		{"sum in a call beyond uint64", parseCalls, nil, AppendCalls(nil, []Call{{Operands: slices.Repeat([]Operand{
			{Tensor: Tensor{DType: num.F16, Carried: 1, Shape: []int{1 << 61}}}}, 4)}}), "no frame can hold"},
		{"data missing", parseCalls, append(oneCall(Tensor{DType: num.F32, Carried: 1, Shape: []int{1}}), 1, 2, 3, 4),
			append(oneCall(Tensor{DType: num.F32, Carried: 1, Shape: []int{1}}), 1, 2, 3), "3 bytes of data, want 4"},
		{"access 0", parseList, access(1), access(0), "access is 0"},
		{"access 4", parseList, access(3), access(4), "access is 4"},
		{"access of an operand that is defined", parseDefined, defined(OperandForm{Access: 2}), defined(OperandForm{}), "access is 0, want 1 to 3"},
		{"dtype of an operand that is defined", parseDefined, defined(OperandForm{Access: 1, DTypes: []num.DType{num.I32}}),
			defined(OperandForm{Access: 1, DTypes: []num.DType{num.NoDType}}), "dtype is 0, want 1 to 8"},
		{"operands that are defined", parseDefined, manyOperands(maxOperands), manyOperands(maxOperands + 1), "33 operands, want at most 32"},
		{"type of a parameter", parseDefined, param(1, 1, 7), param(2, 1, 7), "int32 is 2, want 0 or 1"},
		{"default of a parameter", parseDefined, param(0, 1, 7), param(0, 2, 7), "default is 2, want 0 or 1"},
		{"a default where there is none", parseDefined, param(0, 0, 0), param(0, 0, 7), "the default is 7 where there is none"},
		{"place of a transfer", parseRead, place(InArena), place(InHandle), "place is 2, want 0 or 1"},
		{"bytes of an arena", parseArena, (&ArenaBody{Bytes: math.MaxInt64}).Append(nil), (&ArenaBody{Bytes: -1}).Append(nil), "bytes is 18446744073709551615"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.good != nil {
				if err := c.parse(c.good); err != nil {
					t.Errorf("the good one: %v", err)
				}
			}
			err := c.parse(c.bad)
			f, ok := errors.AsType[*Failure](err)
			if !ok || f.Code != CodeMalformed || !strings.Contains(f.Message, c.words) {
				t.Errorf("got error %v, want a malformed one with %q", err, c.words)
			}
		})
	}
}

func TestReplyBytes(t *testing.T) {
	call := func(tensors ...Tensor) Call {
		var c Call
		for _, t := range tensors {
			c.Operands = append(c.Operands, Operand{Tensor: t})
		}
		return c
	}
	huge := Tensor{DType: num.F16, Carried: WithReply, Shape: []int{1 << 61}}
	for _, c := range []struct {
		name  string
		calls []Call
		want  int64
		ok    bool
	}{
		{"none", nil, 0, true},
		{"both and reply", []Call{call(frameTensor(2, 3), Tensor{DType: num.F16, Carried: 3, Shape: []int{5}}), call(frameTensor())}, 24 + 10 + 4, true},
		{"request alone", []Call{call(Tensor{DType: num.F32, Carried: WithRequest, Shape: []int{9}})}, 0, true},
		{"elsewhere", []Call{call(Tensor{DType: num.F32, Place: InHandle, Shape: []int{9}})}, 0, true},
		{"one too large", []Call{call(frameTensor(1<<62, 2))}, 0, false},
		{"size 0", []Call{call(frameTensor(0))}, 0, true},
		{"sum of a call too large", []Call{call(huge, huge)}, 0, false},
		{"sum of calls too large", []Call{call(huge), call(huge)}, 0, false},
		{"largest", []Call{call(huge)}, 1 << 62, true},
	} {
		if got, ok := ReplyBytes(c.calls); got != c.want || ok != c.ok {
			t.Errorf("%s: got %d, %v, want %d, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

// TestHostileCountsTakeNoMemory: a count that the body cannot hold costs nothing, and one
// that it seems to hold costs a small multiple of the body.
func TestHostileCountsTakeNoMemory(t *testing.T) {
	const multiple = 16
	const small = 1 << 16 // for an error, and for whatever else runs
	const many = 1 << 16
	filled := func(prefix []byte, fill byte) []byte {
		return append(prefix, bytes.Repeat([]byte{fill}, 1<<20)...)
	}
	count := func(n uint32) []byte { return appendU32(nil, n) }
	operands := appendU32(append(appendString(nil, "d"), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), (1<<20)/11)
	for _, c := range []struct {
		name string
		body []byte
	}{
		{"zeros", filled(nil, 0)},
		{"ones", filled(nil, 255)},
		{"as many calls as fit", filled(count((1<<20)/20), 0)},
		{"calls beyond the body", filled(count(math.MaxUint32), 0)},
		{"as many operands as fit", filled(append(count(1), operands...), 0)},
		{"results", filled(append(Numbers(nil, 0), count((1<<20)/4)...), 0)},
		{"definitions", filled(count((1<<20)/12), 0)},
		{"sizes of an operand", filled(append(append(make([]byte, 8), count(1)...), append(append(count(0), 1), count((1<<20)/4)...)...), 0)},
		{"details", filled(append(append(count(1), count(0)...), count((1<<20)/8)...), 0)},
		{"a few more calls than fit", append(count(many), 0)},
		{"a few more operands than fit", append(append(count(1), operands[:len(operands)-4]...), count(many)...)},
		{"a few more results than fit", append(Numbers(nil, 0), count(many)...)},
		{"a few more details than fit", append(append(count(1), count(0)...), count(many)...)},
	} {
		for _, m := range messages {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			m.parse(c.body)
			runtime.ReadMemStats(&after)
			if got, most := after.TotalAlloc-before.TotalAlloc, uint64(small+multiple*len(c.body)); got > most {
				t.Errorf("%s parsed as %s: %d bytes allocated for a body of %d, want at most %d", c.name, m.name, got, len(c.body), most)
			}
		}
	}
	for _, m := range messages {
		body := filled(count(math.MaxUint32), 255)[:64]
		if got := testing.AllocsPerRun(10, func() { m.parse(body) }); got > 24 {
			t.Errorf("%s: %v allocations to refuse 64 bytes", m.name, got)
		}
	}
}

func TestHeader(t *testing.T) {
	for seed := range uint64(200) {
		r := newRandom(seed)
		want := Header{Length: r.u64(), Request: r.u64(), Kind: Kind(r.Uint32()), Descriptors: r.Uint32()}
		b := want.Append([]byte("before"))
		if got := ParseHeader(b[6:]); got != want || len(b) != 6+HeaderBytes {
			t.Fatalf("got %+v in %d bytes, want %+v", got, len(b), want)
		}
	}
}

func TestAppendFrame(t *testing.T) {
	b := AppendFrame([]byte("before"), 7, KindWrite, 100, func(b []byte) []byte { return append(b, "abc"...) })
	h := ParseHeader(b[6:])
	if want := (Header{Length: 103, Request: 7, Kind: KindWrite}); h != want || string(b[6+HeaderBytes:]) != "abc" {
		t.Errorf("got %+v and %q, want %+v and abc", h, b[6+HeaderBytes:], want)
	}
	if h := ParseHeader(AppendFrame(nil, 8, KindList, 0, nil)); h != (Header{Request: 8, Kind: KindList}) {
		t.Errorf("an empty frame: %+v", h)
	}
}

func TestKindNames(t *testing.T) {
	for kind, want := range map[Kind]string{
		0: "kind 0", KindHello: "HELLO", KindDefine: "DEFINE", KindTruth: "TRUTH", KindFork: "FORK", 16: "kind 16", 255: "kind 255", KindOK: "OK", KindError: "ERROR",
		258: "kind 258", math.MaxUint32: "kind 4294967295",
	} {
		if got := kind.String(); got != want {
			t.Errorf("kind %d: got %q, want %q", uint32(kind), got, want)
		}
	}
}
