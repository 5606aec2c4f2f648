package child

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"tokitai/evidence"
	"tokitai/kernelprocess/judge"
	"tokitai/kernelprocess/protocol"
	"tokitai/num"
)

func f32s(values ...float32) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// softmaxQuestion is a question about softmax of the row 1, 2, 3 in f32.
func softmaxQuestion() protocol.Question {
	tensor := func(carried uint8) protocol.Tensor {
		return protocol.Tensor{DType: num.F32, Carried: carried, Shape: []int{1, 3}}
	}
	return protocol.Question{
		Call: protocol.Call{Definition: "softmax.forward", Operands: []protocol.Operand{
			{Name: "x", Tensor: tensor(protocol.WithRequest)}, {Name: "y", Tensor: tensor(protocol.WithReply)},
		}},
		Data: f32s(1, 2, 3),
	}
}

// answer is the answer to it, from docs/protocol.md.
var answer = f32s(0.0900305733, 0.244728476, 0.665240943)

func (c *client) judge(m protocol.Judge) *evidence.Report {
	c.t.Helper()
	var r evidence.Report
	if err := json.Unmarshal(c.must(protocol.KindJudge, m.Append(nil)), &r); err != nil {
		c.t.Fatal(err)
	}
	if err := r.Check(); err != nil {
		c.t.Error(err)
	}
	return &r
}

// TestJudge: outputs in a request are held to a promise, and the answer is a report.
func TestJudge(t *testing.T) {
	c := connect(t, Options{Judge: judge.Judge{Version: "test"}})
	before := c.stats().HeldBytes
	good := c.judge(protocol.Judge{Question: softmaxQuestion(), Outputs: answer})
	if good.Verdict != evidence.Accepted || good.Promise != "stable" || good.Lowering != "softmax.forward/check.given" || good.Elements != 3 || good.Level != "call" {
		t.Errorf("the right answer: got %s, %q under %s of %s, %d outputs", good.Verdict, good.Reason, good.Promise, good.Lowering, good.Elements)
	}
	off := append([]byte(nil), answer...)
	off[8] ^= 1 << 6 // 64 ulp of f32
	bad := c.judge(protocol.Judge{Promise: "stable", Question: softmaxQuestion(), Outputs: off})
	if bad.Verdict != evidence.Rejected || bad.Failure == nil || bad.Failure.Place != "y[0,2]" {
		t.Errorf("an answer that is off: got %s, %+v, want rejected at y[0,2]", bad.Verdict, bad.Failure)
	}
	wide := c.judge(protocol.Judge{Declaration: "exp=200ulp", Question: softmaxQuestion(), Outputs: off})
	if wide.Verdict == evidence.Rejected || wide.Declared != "exp=200ulp" {
		t.Errorf("the same under a declaration: got %s, declared %q, want not rejected", wide.Verdict, wide.Declared)
	}
	if bits := c.judge(protocol.Judge{Promise: "bits", Question: softmaxQuestion(), Outputs: answer}); bits.Verdict != evidence.Accepted || bits.Contract != evidence.ContractBits {
		t.Errorf("under promise bits: got %s, %s", bits.Verdict, bits.Contract)
	}
	if now := c.stats().HeldBytes; now != before {
		t.Errorf("%d bytes are held after it", now-before)
	}
}

// TestJudgeBeforeAndAfter: an operand that is read and written is given twice, before and after.
func TestJudgeBeforeAndAfter(t *testing.T) {
	c := connect(t, Options{Judge: judge.Judge{Version: "test"}})
	operand := func(name string, carried uint8, shape ...int) protocol.Operand {
		return protocol.Operand{Name: name, Tensor: protocol.Tensor{DType: num.F32, Carried: carried, Shape: shape}}
	}
	call := protocol.Call{Definition: "gemm.forward.accumulate", Operands: []protocol.Operand{operand("A", 1, 1, 2), operand("B", 1, 2, 1), operand("C", 3, 1, 1)}}
	for i, p := range c.params("gemm.forward.accumulate") {
		call.Params = append(call.Params, protocol.Param{Name: p, Value: float64(1 + i)})
	}
	data := f32s(3, 4, 5, 6, 100)
	for after, want := range map[float32]evidence.Verdict{139: evidence.Accepted, 39: evidence.Rejected} {
		if r := c.judge(protocol.Judge{Question: protocol.Question{Call: call, Data: data}, Outputs: f32s(after)}); r.Verdict != want {
			t.Errorf("3·5 + 4·6 + 100 = %v: got %s, %s, want %s", after, r.Verdict, r.Reason, want)
		}
	}
}

// params returns the parameters of a definition.
func (c *client) params(definition string) []string {
	c.t.Helper()
	list, err := protocol.ParseList(c.must(protocol.KindList, nil))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, d := range list {
		if d.Name == definition {
			return d.Params
		}
	}
	c.t.Fatalf("LIST has no %s", definition)
	return nil
}

// TestTruth: the reply has the lower ends of all enclosures of an output, then the upper ones.
func TestTruth(t *testing.T) {
	c := connect(t, Options{Judge: judge.Judge{Version: "test"}})
	q := softmaxQuestion()
	ends := c.must(protocol.KindTruth, q.Append(nil))
	if len(ends) != 2*3*8 {
		t.Fatalf("got %d bytes, want 48", len(ends))
	}
	at := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(ends[8*i:])) }
	for i, want := range []float64{0.09003057317038046, 0.24472847105479767, 0.6652409557748219} { // e^(x-3) / (e^-2 + e^-1 + 1), to half an ulp
		lo, hi := at(i), at(3+i)
		if lo > math.Nextafter(want, 1) || hi < math.Nextafter(want, 0) || hi-lo >= 0x1p-27 { // an ulp of f32 there, at most
			t.Errorf("y[0,%d]: got [%v, %v], want about %v", i, lo, hi, want)
		}
	}
	q.Data = f32s(1, float32(math.NaN()), 3)
	ends = c.must(protocol.KindTruth, q.Append(nil))
	if !math.IsNaN(at(0)) || !math.IsNaN(at(5)) {
		t.Errorf("of a row with NaN: got [%v, %v], want NaN", at(0), at(5))
	}
}

// TestJudgeOfOwnDefinition: what DEFINE has sent can be asked about.
func TestJudgeOfOwnDefinition(t *testing.T) {
	c := connect(t, Options{Judge: judge.Judge{Version: "test"}})
	m := c.define(rmsnorm.Text())
	calls, data, err := protocol.ParseCalls(normCall(m.Identity))
	if err != nil {
		t.Fatal(err)
	}
	results, err := protocol.ParseResults(c.must(protocol.KindCall, normCall(m.Identity)))
	if err != nil {
		t.Fatal(err)
	}
	q := protocol.Question{Call: calls[0], Data: data}
	if r := c.judge(protocol.Judge{Promise: "bits", Question: q, Outputs: results.Data}); r.Verdict != evidence.Accepted || r.Op != "rmsnorm" {
		t.Errorf("got %s of %s: %s", r.Verdict, r.Op, r.Reason)
	}
	if ends := c.must(protocol.KindTruth, q.Append(nil)); len(ends) != 2*2*8 {
		t.Errorf("truth: got %d bytes, want 32", len(ends))
	}
}

// TestJudgeRefuses: wrong questions are refused, and the server goes on.
func TestJudgeRefuses(t *testing.T) {
	c := connect(t, Options{Judge: judge.Judge{Version: "test"}})
	for _, bad := range []struct {
		what   string
		change func(*protocol.Judge)
		code   protocol.Code
		want   string
	}{
		{"an unknown definition", func(m *protocol.Judge) { m.Call.Definition = "softmax.sideways" }, protocol.CodeBadArgument, "softmax.sideways"},
		{"an unknown promise", func(m *protocol.Judge) { m.Promise = "sure" }, protocol.CodeBadArgument, "sure"},
		{"an unknown profile", func(m *protocol.Judge) { m.Profile = "mine" }, protocol.CodeBadArgument, "mine"},
		{"a bad declaration", func(m *protocol.Judge) { m.Declaration = "exp=-2ulp" }, protocol.CodeBadArgument, "exp"},
		{"a declaration under promise bits", func(m *protocol.Judge) { m.Promise, m.Declaration = "bits", "exp=2ulp" }, protocol.CodeBadArgument, "promise bits leaves no room"},
		{"an unknown clause", func(m *protocol.Judge) { m.Waived = []string{"softmax.forward.C999"} }, protocol.CodeBadArgument, "C999"},
		{"a lowering", func(m *protocol.Judge) { m.Call.Lowering = "cpu.rowwise" }, protocol.CodeBadArgument, "no kernel runs"},
		{"a missing operand", func(m *protocol.Judge) { m.Call.Operands, m.Outputs = m.Call.Operands[:1], nil }, protocol.CodeBadArgument, "y is missing"},
		{"an output of another shape", func(m *protocol.Judge) { m.Call.Operands[1].Tensor.Shape = []int{3, 1} }, protocol.CodeBadArgument, "y"},
		{"an output of another format", func(m *protocol.Judge) {
			m.Call.Operands[1].Tensor.DType, m.Outputs = num.F16, m.Outputs[:6]
		}, protocol.CodeBadArgument, "y"},
		{"no outputs", func(m *protocol.Judge) { m.Outputs = nil }, protocol.CodeMalformed, "bytes of data"},
		{"too many outputs", func(m *protocol.Judge) { m.Outputs = append(m.Outputs[:12:12], 0) }, protocol.CodeMalformed, "too many"},
		{"an operand in an arena", func(m *protocol.Judge) {
			m.Call.Operands[0].Tensor = protocol.Tensor{DType: num.F32, Place: protocol.InArena, Shape: []int{1, 3}, Stride: 3}
			m.Data = nil
		}, protocol.CodeMalformed, "x has place 1, want 0"},
	} {
		m := protocol.Judge{Question: softmaxQuestion(), Outputs: answer}
		bad.change(&m)
		if f := c.refused(bad.code, protocol.KindJudge, m.Append(nil)); !strings.Contains(f.Message, bad.want) {
			t.Errorf("%s: got %q, want %q in it", bad.what, f.Message, bad.want)
		}
	}
	c.refused(protocol.CodeMalformed, protocol.KindJudge, nil)
	c.refused(protocol.CodeMalformed, protocol.KindTruth, []byte{1, 2, 3})
	q := softmaxQuestion()
	c.refused(protocol.CodeMalformed, protocol.KindTruth, append(q.Append(nil), 0))
	q.Call.Operands[1].Tensor.Shape = []int{1 << 40, 1 << 20}
	c.refused(protocol.CodeMalformed, protocol.KindTruth, q.Append(nil))
	q.Call.Operands[1].Tensor.Shape = []int{1 << 40}
	c.refused(protocol.CodeOutOfMemory, protocol.KindTruth, q.Append(nil))
	if r := c.judge(protocol.Judge{Question: softmaxQuestion(), Outputs: answer}); r.Verdict != evidence.Accepted {
		t.Errorf("afterwards: got %s", r.Verdict)
	}
}

// TestNoJudge: a server without a judge refuses its requests as kinds that it does not know.
func TestNoJudge(t *testing.T) {
	c := connect(t, Options{})
	q := softmaxQuestion()
	m := protocol.Judge{Question: q, Outputs: answer}
	c.refused(protocol.CodeUnsupported, protocol.KindJudge, m.Append(nil))
	c.refused(protocol.CodeUnsupported, protocol.KindTruth, q.Append(nil))
}
