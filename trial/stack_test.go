package trial_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"tokitai/def"
	"tokitai/device"
	"tokitai/device/cpu"
	"tokitai/num"
	"tokitai/trial"
)

// heads is a product of many matrices: A and C have one for each b and h, B one for each h.
var heads = def.Must(def.Contraction("heads", def.ContractionForm{
	Left: "A", Right: "B", Result: "C",
	LeftDims: []string{"B", "H", "M", "K"}, RightDims: []string{"H", "K", "N"}, ResultDims: []string{"B", "H", "M", "N"},
}))

var headSizes = map[string]int{"B": 2, "H": 3, "M": 2, "K": 3, "N": 4}

// interleaved puts the batch axis b within the rows, exchanged puts h before b; B has no b.
func interleaved(i int) trial.Layout {
	return [...]trial.Layout{{Order: []int{1, 2, 0}}, {}, {Order: []int{1, 2, 0}}}[i]
}
func exchanged(i int) trial.Layout {
	return [...]trial.Layout{{Order: []int{1, 0, 2}}, {}, {Order: []int{1, 0, 2}}}[i]
}

// stacked lays A out by h, then rows, then b, repeats all of B, and leaves C in its order.
func stacked(i int) trial.Layout {
	return [...]trial.Layout{
		{Offset: 1, Gap: 2, Order: []int{1, 2, 0}},
		{Gap: 1, IsRepeated: []bool{true}},
		{Offset: 3, Gap: 1},
	}[i]
}

// positions returns where the elements of heads are, in elements from the first, worked out
// from the layouts by hand: by operand, row and column.
func positions() [3][][]int {
	const B, H, M, K, N = 2, 3, 2, 3, 4
	var at [3][][]int
	for b := range B {
		for h := range H {
			for m := range M {
				at[0] = append(at[0], row(((h*M+m)*B+b)*(K+2), K))
				at[2] = append(at[2], row(((b*H+h)*M+m)*(N+1), N))
			}
		}
	}
	for range H {
		for k := range K {
			at[1] = append(at[1], row(k*(N+1), N))
		}
	}
	return at
}

func row(from, n int) []int {
	var list []int
	for c := range n {
		list = append(list, from+c)
	}
	return list
}

func newStacks() *trial.Operands {
	x := trial.New(heads, []num.DType{num.F16, num.F16, num.F32}, headSizes, stacked)
	for i := range 2 {
		a := x.Array(i)
		trial.FillBits(a, func(r, c int) uint32 { return uint32(1000*i + 10*a.RowIn(r) + c + 100*(r/2)*(1-i)) })
	}
	return x
}

func TestStackLayout(t *testing.T) {
	x := newStacks()
	for i, rows := range positions() {
		a := x.Array(i)
		memory, offset := x.Memory(i)
		size := a.DType.Size()
		if a.Rows != len(rows) || a.Cols != len(rows[0]) {
			t.Fatalf("%s is %d×%d, want %d×%d", heads.Operands[i].Name, a.Rows, a.Cols, len(rows), len(rows[0]))
		}
		for r := range rows {
			for c, at := range rows[r] {
				stored := make([]byte, 4)
				copy(stored, memory[offset+at*size:][:size])
				if got, want := binary.LittleEndian.Uint32(stored), a.Bits(r, c); got != want {
					t.Errorf("%s[%d,%d]: got %d at its place in memory, want %d", heads.Operands[i].Name, r, c, got, want)
				}
			}
		}
	}
}

// TestStackBreach changes every byte of stacks, alone.
func TestStackBreach(t *testing.T) {
	before := newStacks()
	lengths := []int{3 * 2 * 2 * (3 + 2), 3 * (4 + 1), 2 * 3 * 2 * (4 + 1)} // with gaps, in elements
	for i, rows := range positions() {
		name := heads.Operands[i].Name
		elements := map[int]bool{}
		for _, row := range rows {
			for _, at := range row {
				elements[at] = true
			}
		}
		memory, offset := before.Memory(i)
		size := before.Array(i).DType.Size()
		for at := range memory {
			want := ""
			switch element := (at - offset) / size; {
			case at < offset || element >= lengths[i]:
				want = "it writes outside " + name
			case !elements[element]:
				want = "it writes between the rows of " + name
			case name != "C":
				want = "it writes to its input " + name
			}
			after := before.Clone()
			changed, _ := after.Memory(i)
			changed[at] ^= 0x10
			got := ""
			if b := after.Breach(before); b != nil {
				got = b.Reason
			}
			if got != want {
				t.Errorf("byte %d of %s changed: got %q, want %q", at, name, got, want)
			}
			if isSame := after.Difference(before.Copies()) == nil; isSame != (name != "C" || want != "") {
				t.Errorf("byte %d of %s changed: the outputs are the same: %v", at, name, isSame)
			}
		}
	}
}

func TestPlacedStacks(t *testing.T) {
	near, err := cpu.New(cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	for _, dev := range []device.Device{near, &far{room: 100}} {
		before := newStacks()
		p, err := before.Place(dev)
		if err != nil {
			t.Fatal(err)
		}
		tensors, err := p.Tensors()
		if err != nil {
			t.Fatal(err)
		}
		shapes := []string{"[2 3 2 3]", "[3 3 4]", "[2 3 2 4]"}
		for i, x := range tensors {
			raw, err := x.Bytes()
			if want := before.Copies()[i].Data; err != nil || fmt.Sprint(x.Shape()) != shapes[i] || !bytes.Equal(raw, want) {
				t.Errorf("%s: tensor %s has shape %v and holds %x, want %s and %x, error %v", dev.Name(), heads.Operands[i].Name, x.Shape(), raw, shapes[i], want, err)
			}
		}
		after, err := p.Read()
		if err != nil {
			t.Fatal(err)
		}
		if text := after.Fault(before); text != "" {
			t.Errorf("%s: nothing ran: got %q", dev.Name(), text)
		}
		for i := range tensors {
			a, breach, err := p.ReadOperand(i)
			if d := trial.Patterns.Difference(heads.Operands[i].Name, a, before.Array(i)); err != nil || breach != nil || d != nil {
				t.Errorf("%s: %s read back: %v, %v, %v", dev.Name(), heads.Operands[i].Name, err, breach, d)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestStackCopies lays stacks out anew.
func TestStackCopies(t *testing.T) {
	x := newStacks()
	for _, y := range []*trial.Operands{trial.CopyOf(heads, x.Arrays(), nil), trial.Wrap(heads, x.Copies()), trial.CopyOf(heads, x.Copies(), stacked)} {
		for i := range heads.Operands {
			a, b := y.Array(i), x.Array(i)
			if d := trial.Patterns.Difference(heads.Operands[i].Name, a, b); d != nil || a.Matrices() != b.Matrices() {
				t.Errorf("a copy has %d matrices, want %d, and differs: %v", a.Matrices(), b.Matrices(), d)
			}
		}
		if trial.EvidenceInputs(heads, y.Arrays(), nil) != trial.EvidenceInputs(heads, x.Arrays(), nil) || trial.AnswerInputs(heads, y.Arrays(), nil) != trial.AnswerInputs(heads, x.Arrays(), nil) {
			t.Error("hashes depend on the layout")
		}
	}
	// Between the rows of a matrix are rows of others: no gap, but what a kernel writes.
	apart := trial.New(heads, x.DTypes(), headSizes, interleaved)
	own := trial.Wrap(heads, []num.Array{x.Array(0), x.Array(1), apart.Array(2)})
	written := own.Clone()
	c := written.Array(2)
	trial.FillBits(c, func(r, c int) uint32 { return uint32(r + c) })
	if b := written.Breach(own); b != nil {
		t.Errorf("the result alone was written: got %q", b.Reason)
	}
	swapped := trial.New(heads, x.DTypes(), headSizes, exchanged)
	if b := trial.New(heads, x.DTypes(), headSizes, nil).Breach(swapped); b == nil || b.Reason != "A is not laid out as it was before the call" {
		t.Errorf("batch axes in another order: got %v", b)
	}
	wrapped := trial.Wrap(heads, x.Copies())
	after := wrapped.Clone()
	a := after.Array(0)
	a.SetBits(5, 1, 7)
	if b := after.Breach(wrapped); b == nil || b.Reason != "it writes to its input A" {
		t.Errorf("a wrapped stack has changed: got %v", b)
	}
}
