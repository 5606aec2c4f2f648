package child

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/kernelprocess/protocol"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/tensor"
)

// rmsnorm is a definition that the server does not ship.
var rmsnorm = def.Must(def.Rowwise("rmsnorm", func(b *def.Builder) {
	x, gamma, eps := b.In("x"), b.InCol("gamma", def.Like("x").Or(num.F32)), b.Param("eps", def.AtLeast(0), def.Default(0.25))
	meanSquare := def.RowSum(x.Mul(x)).Div(b.Columns())
	b.Out("y", x.Mul(fn.Rsqrt(meanSquare.Add(eps))).Mul(gamma), def.Like("x"))
}))

// define sends a definition.
func (c *client) define(text string) protocol.Defined {
	c.t.Helper()
	m, err := protocol.ParseDefined(c.must(protocol.KindDefine, []byte(text)))
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// normCall is a call of a definition with the operands of rmsnorm, on the row 3, 4 in f32.
func normCall(definition string, params ...protocol.Param) []byte {
	tensor := func(carried uint8, shape ...int) protocol.Tensor {
		return protocol.Tensor{DType: num.F32, Carried: carried, Shape: shape}
	}
	b := protocol.AppendCalls(nil, []protocol.Call{{Definition: definition, Params: params, Operands: []protocol.Operand{
		{Name: "x", Tensor: tensor(protocol.WithRequest, 1, 2)}, {Name: "gamma", Tensor: tensor(protocol.WithRequest, 2)},
		{Name: "y", Tensor: tensor(protocol.WithReply, 1, 2)},
	}}})
	for _, v := range []float32{3, 4, 1, 2} {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// checkNorm compares the reply to a normCall with the same computed here.
func checkNorm(t *testing.T, reply []byte, eps float64) {
	t.Helper()
	results, err := protocol.ParseResults(reply)
	if err != nil {
		t.Fatal(err)
	}
	q := cpu.Queue()
	x, _ := tensor.FromFloat32(q.Device(), num.F32, []float32{3, 4}, 1, 2)
	gamma, _ := tensor.FromFloat32(q.Device(), num.F32, []float32{1, 2}, 2)
	want, err := engine.Eval(q, rmsnorm, engine.Args{"x": x, "gamma": gamma}, engine.WithParams(engine.Params{"eps": eps}))
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := want["y"].Bytes(); err != nil || !bytes.Equal(results.Data, raw) {
		t.Errorf("y is %x, want %x (%v)", results.Data, raw, err)
	}
}

func TestDefine(t *testing.T) {
	c := connect(t, Options{})
	before := c.stats().HeldBytes
	m := c.define(rmsnorm.Text())
	want := protocol.Defined{
		Identity: "def:" + rmsnorm.Hash(), Name: "rmsnorm",
		Operands: []protocol.OperandForm{
			{Name: "x", Access: 1, Dims: []string{"R", "C"}, DTypes: []num.DType{num.F16, num.BF16, num.F32}},
			{Name: "gamma", Access: 1, Dims: []string{"C"}, DTypes: []num.DType{num.F32}, Like: "x"},
			{Name: "y", Access: 2, Dims: []string{"R", "C"}, DTypes: []num.DType{}, Like: "x"},
		},
		Params: []protocol.ParamForm{{Name: "eps", Default: new(0.25)}},
	}
	if !bytes.Equal(m.Append(nil), want.Append(nil)) {
		t.Errorf("got %+v, want %+v", m, want)
	}
	held := c.stats().HeldBytes
	if held < before+uint64(len(rmsnorm.Text())) || held > before+1<<20 {
		t.Errorf("a definition takes %d bytes", held-before)
	}
	if again := c.define(rmsnorm.Source()); !bytes.Equal(again.Append(nil), m.Append(nil)) {
		t.Errorf("the second time: %+v, want %+v", again, m)
	}
	if now := c.stats().HeldBytes; now != held {
		t.Errorf("the second time it takes %d bytes more", now-held)
	}
	checkNorm(t, c.must(protocol.KindCall, normCall(m.Identity, protocol.Param{Name: "eps", Value: 0.5})), 0.5)
	checkNorm(t, c.must(protocol.KindCall, normCall(m.Identity)), 0.25)

	list, err := protocol.ParseList(c.must(protocol.KindList, nil))
	if err != nil {
		t.Fatal(err)
	}
	last := list[len(list)-1]
	if last.Name != m.Identity || len(last.Operands) != 3 || last.Operands[2] != (protocol.OperandUse{Name: "y", Access: 2}) || !slices.Equal(last.Params, []string{"eps"}) {
		t.Errorf("LIST ends with %+v", last)
	}
}

// Definitions that the server ships have an identity too, and are not defined again.
func TestDefineShipped(t *testing.T) {
	c := connect(t, Options{})
	d := all.Operations[0].Definitions[0]
	before := c.stats().HeldBytes
	if m := c.define(d.Text()); m.Identity != "def:"+d.Hash() || m.Name != d.Name || len(m.Operands) != len(d.Operands) {
		t.Errorf("%s: got %+v", d.Name, m)
	}
	if now := c.stats().HeldBytes; now != before {
		t.Errorf("it takes %d bytes more", now-before)
	}
	list, err := protocol.ParseList(c.must(protocol.KindList, nil))
	if err != nil || slices.ContainsFunc(list, func(d protocol.Definition) bool { return strings.HasPrefix(d.Name, "def:") }) {
		t.Errorf("LIST has it twice: %v", err)
	}
	one := softmax(num.F32, 1, 2, make([]byte, 8))
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if d.Name == "softmax.forward" {
				call := protocol.Call{Definition: "def:" + d.Hash(), Operands: []protocol.Operand{
					{Name: "x", Tensor: protocol.Tensor{DType: num.F32, Carried: protocol.WithRequest, Shape: []int{1, 2}}},
					{Name: "y", Tensor: protocol.Tensor{DType: num.F32, Carried: protocol.WithReply, Shape: []int{1, 2}}},
				}}
				byIdentity := append(protocol.AppendCalls(nil, []protocol.Call{call}), make([]byte, 8)...)
				got, want := c.must(protocol.KindCall, byIdentity), c.must(protocol.KindCall, one)
				if !bytes.Equal(got[8:], want[8:]) { // but for the time
					t.Errorf("by identity %x, by name %x", got, want)
				}
			}
		}
	}
}

func TestDefineRefuses(t *testing.T) {
	c := connect(t, Options{})
	for name, text := range map[string]string{"nothing": "", "no definition": "rowwise\n", "no UTF-8": "tokitai-def 1\nrowwise \xff\n", "zeros": "\x00\x00"} {
		f := c.refused(protocol.CodeDefinition, protocol.KindDefine, []byte(text))
		if f.Detail("line") == "" || f.Detail("column") == "" || f.Detail("reason") == "" || !strings.Contains(f.Message, "line "+f.Detail("line")) {
			t.Errorf("%s: got %v %v, want the place of the mistake", name, f, f.Details)
		}
	}
	c.refused(protocol.CodeBadArgument, protocol.KindDefine, bytes.Repeat([]byte{'('}, def.MaxText+1))
	f := c.refused(protocol.CodeBadArgument, protocol.KindCall, normCall("def:"+rmsnorm.Hash()))
	if f.Detail("want") != "one that DEFINE has sent" {
		t.Errorf("got %v, want one that is not defined", f)
	}
	m := c.define(rmsnorm.Text())
	negative := protocol.Param{Name: "eps", Value: -1}
	if f := c.refused(protocol.CodeBadArgument, protocol.KindCall, normCall(m.Identity, negative)); f.Detail("operand") != "eps" || f.Detail("got") != "is -1" {
		t.Errorf("eps -1: %v %v", f, f.Details)
	}
	bare := c.define(strings.Replace(rmsnorm.Text(), " default 0.25", "", 1))
	if f := c.refused(protocol.CodeBadArgument, protocol.KindCall, normCall(bare.Identity)); f.Detail("operand") != "eps" || f.Detail("got") != "is missing" {
		t.Errorf("without eps: %v %v", f, f.Details)
	}
	many := "tokitai-def 1\nrowwise many\n  in x[R,C] f32\n  out y[R,C] as x\n"
	sum := "x"
	for i := range protocol.MaxParams + 1 {
		many += fmt.Sprintf("  param p%d float\n", i)
		sum += fmt.Sprintf(" + p%d", i)
	}
	many += "  y <- " + sum + "\n"
	if f := c.refused(protocol.CodeBadArgument, protocol.KindDefine, []byte(many)); f.Detail("got") != "has 33 parameters" {
		t.Errorf("33 parameters: %v", f)
	}
	long := strings.Replace(rmsnorm.Text(), "rmsnorm", strings.Repeat("n", def.MaxName+1), 1)
	if f := c.refused(protocol.CodeDefinition, protocol.KindDefine, []byte(long)); f.Detail("line") != "2" {
		t.Errorf("a long name: %v", f)
	}

	small := connect(t, Options{MemoryLimit: nodeBytes * def.MaxNodes})
	small.refused(protocol.CodeOutOfMemory, protocol.KindDefine, []byte(rmsnorm.Text()))
	if s := small.stats(); s.HeldBytes != 0 {
		t.Errorf("%d bytes are held after a refusal", s.HeldBytes)
	}
}

func TestDefineLimit(t *testing.T) {
	c := connect(t, Options{})
	text := func(i int) string {
		d, err := def.Rowwise(fmt.Sprintf("scaled.by%d", i), func(b *def.Builder) {
			b.Out("y", b.In("x").Mul(def.Const(float64(i))), def.Like("x"))
		})
		if err != nil {
			t.Fatal(err)
		}
		return d.Text()
	}
	for i := range maxDefined {
		c.define(text(i))
	}
	if f := c.refused(protocol.CodeBadArgument, protocol.KindDefine, []byte(text(maxDefined))); f.Detail("got") != "is one more than 1024" {
		t.Errorf("got %v", f)
	}
	c.define(text(7)) // which is there
	c.must(protocol.KindCall, softmax(num.F32, 1, 2, make([]byte, 8)))
}
