package protocol

import (
	"math"
	"math/rand/v2"
	"slices"

	"tokitai/num"
)

// random makes messages: all lengths short, all numbers of all magnitudes.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 1))} }

// list has up to four elements, and no nil: parsed messages have none either.
func list[T any](r random, item func() T) []T {
	l := make([]T, r.IntN(5))
	for i := range l {
		l[i] = item()
	}
	return l
}

func (r random) text() string {
	runes := []rune("az.9 \n\x00é€𝄞")
	return string(list(r, func() rune { return runes[r.IntN(len(runes))] }))
}

func (r random) u64() uint64   { return r.Uint64() >> r.IntN(64) }
func (r random) size() int64   { return int64(r.u64() >> 1) }
func (r random) bytes() []byte { return list(r, func() byte { return byte(r.Uint32()) }) }

func (r random) hello() Hello {
	return Hello{Lowest: r.Uint32(), Highest: r.Uint32(), Client: r.text()}
}

func (r random) welcome() Welcome {
	return Welcome{Version: r.Uint32(), Generation: r.u64(), Build: r.text(), Device: r.text(), Description: r.text(),
		MaxFrame: r.size(), MemoryLimit: r.size(), HasArenas: r.IntN(2) == 1, CanFork: r.IntN(2) == 1}
}

func (r random) tensor() Tensor {
	t := Tensor{DType: []num.DType{num.F16, num.BF16, num.F32, num.I32, num.E4M3, num.E5M2}[r.IntN(6)], Place: Place(r.IntN(3))}
	if t.Place == InFrame {
		t.Carried = uint8(1 + r.IntN(3))
		t.Shape = list(r, func() int { return 1 + r.IntN(3) })
		return t
	}
	t.Shape = list(r, func() int { return int(r.size()) })
	t.Offset, t.Stride = r.size(), int(r.size())
	if t.Place == InArena {
		t.Arena = r.Uint32()
	} else {
		t.Handle = r.u64()
	}
	return t
}

func (r random) call() Call {
	flag := func() uint8 { return uint8(r.IntN(2)) }
	return Call{
		Definition: r.text(), Policy: flag(), BadIndex: flag(), Admission: flag(), Lowering: r.text(),
		Params: list(r, func() Param {
			return Param{Name: r.text(), Value: []float64{math.Copysign(0, -1), math.Inf(1), 0.1, r.NormFloat64()}[r.IntN(4)]}
		}),
		Operands: list(r, func() Operand { return Operand{Name: r.text(), Tensor: r.tensor()} }),
	}
}

// calls has the data that the calls carry.
func (r random) calls() ([]Call, []byte) {
	calls := append(list(r, r.call), r.call())
	var bytes int64
	for i := range calls {
		n, ok := calls[i].carried(WithRequest)
		if !ok {
			panic("small tensors do not fit")
		}
		bytes += n
	}
	data := make([]byte, bytes)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return calls, data
}

// question has all operands in the frame, with their data.
func (r random) question() Question {
	q := Question{Call: r.call()}
	q.Call.Operands = slices.DeleteFunc(q.Call.Operands, func(o Operand) bool { return o.Tensor.Place != InFrame })
	q.Data = r.carried(&q.Call, WithRequest)
	return q
}

func (r random) judge() Judge {
	m := Judge{Promise: r.text(), Profile: r.text(), Declaration: r.text(), Waived: list(r, r.text), Question: r.question()}
	m.Outputs = r.carried(&m.Call, WithReply)
	return m
}

// carried makes the data of operands.
func (r random) carried(c *Call, with uint8) []byte {
	n, ok := c.carried(with)
	if !ok {
		panic("small tensors do not fit")
	}
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

func (r random) results() Results {
	return Results{KernelNanoseconds: r.u64(), Lowerings: list(r, r.text), Data: r.bytes()}
}

// transfer is a WRITE, or a READ, which has no data.
func (r random) transfer(isWrite bool) Transfer {
	m := Transfer{Handle: r.u64(), Offset: r.size(), Bytes: r.size()}
	switch {
	case r.IntN(2) == 0:
		m.End = End{Place: InArena, Arena: r.Uint32(), Offset: r.size()}
	case isWrite:
		m.Data = r.bytes()
		m.Bytes = int64(len(m.Data))
	}
	return m
}

func (r random) definitions() []Definition {
	return list(r, func() Definition {
		return Definition{
			Name:     r.text(),
			Operands: list(r, func() OperandUse { return OperandUse{Name: r.text(), Access: uint8(1 + r.IntN(3))} }),
			Params:   list(r, r.text),
		}
	})
}

func (r random) defined() Defined {
	dtypes := []num.DType{num.F16, num.BF16, num.F32, num.I32}
	return Defined{
		Identity: r.text(), Name: r.text(),
		Operands: list(r, func() OperandForm {
			return OperandForm{Name: r.text(), Access: uint8(1 + r.IntN(3)), Dims: list(r, r.text),
				DTypes: list(r, func() num.DType { return dtypes[r.IntN(4)] }), Like: r.text()}
		}),
		Params: list(r, func() ParamForm {
			p := ParamForm{Name: r.text(), IsInt: r.IntN(2) == 1}
			if r.IntN(2) == 1 {
				value := r.NormFloat64()
				p.Default = &value
			}
			return p
		}),
	}
}

func (r random) failure() *Failure {
	return &Failure{Code: Code(r.Uint32()), Message: r.text(), Details: list(r, func() Detail { return Detail{r.text(), r.text()} })}
}

func (r random) stats() Stats {
	return Stats{r.u64(), r.u64(), r.u64(), r.u64(), r.u64(), r.u64(), r.u64()}
}
