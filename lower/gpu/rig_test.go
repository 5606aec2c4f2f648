package gpu_test

import (
	"bytes"
	"testing"

	"tokitai/lower"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial"
)

// piece is the part of an operand's memory that is a buffer of a run.
type piece struct{ buffer, from, to int }

// lay adds the memory of operands to a run, each as a buffer of its own: with its guards,
// or, if isBare, up to the last element, so that AddressSanitizer sees its bounds. It
// returns the buffers, and the operands as a kernel gets them.
func lay(run *simtest.Run, x *trial.Operands, isBare bool) ([]piece, []lower.Operand) {
	known := map[*byte]piece{} // an output in the place of an input shares its buffer
	var pieces []piece
	var operands []lower.Operand
	for i, a := range x.Arrays() {
		memory, offset := x.Memory(i)
		p, ok := known[&memory[0]]
		if !ok {
			p = piece{buffer: len(run.Buffers), to: len(memory)}
			if isBare {
				p.from, p.to = offset/16*16, offset+len(a.Data)
			}
			known[&memory[0]] = p
			run.Buffers = append(run.Buffers, append([]byte(nil), memory[p.from:p.to]...))
		}
		pieces = append(pieces, p)
		a.Data = nil
		operands = append(operands, lower.Operand{Array: a, Pointer: simtest.Pointer(p.buffer) + uint64(offset-p.from)})
	}
	return pieces, operands
}

// readBack returns the operands as a run has left them.
func readBack(run *simtest.Run, before *trial.Operands, pieces []piece) *trial.Operands {
	after := before.Clone()
	for i, p := range pieces {
		memory, _ := after.Memory(i)
		copy(memory[p.from:p.to], run.Buffers[p.buffer])
	}
	return after
}

// amongNaNs fills all that lies between and around the rows of operands with bytes that are
// NaN in every format: not even a product with zero hides that one of them was read.
func amongNaNs(x *trial.Operands) {
	for i, a := range x.Copies() {
		memory, _ := x.Memory(i)
		copy(memory, bytes.Repeat([]byte{0xff}, len(memory)))
		trial.Copy(x.Array(i), a)
	}
}

// answered returns operands with the reference's outputs.
func answered(t testing.TB, before *trial.Operands, params []float64) *trial.Operands {
	t.Helper()
	return answeredWith(t, before, reference.Options{Params: params})
}

func answeredWith(t testing.TB, before *trial.Operands, o reference.Options) *trial.Operands {
	t.Helper()
	want := before.Clone()
	if err := reference.Run(want.Definition, want.Arrays(), o); err != nil {
		t.Fatal(err)
	}
	return want
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// alignedGap returns a gap of at least the given elements with which rows begin at
// multiples of 16 bytes.
func alignedGap(a num.Array, gap int) int {
	size := a.DType.Size()
	return roundUp((a.Cols+gap)*size, 16)/size - a.Cols
}
