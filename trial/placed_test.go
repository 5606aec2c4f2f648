package trial_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/device"
	"tokitai/device/cpu"
	"tokitai/num"
	"tokitai/trial"
)

// far is a device whose memory the host cannot address. It has room for a number of
// buffers.
type far struct {
	device.Device
	room, open int
	copyErr    error
}

func (f *far) Name() string { return "far" }

func (f *far) Alloc(bytes int64) (device.Buffer, error) {
	if f.room == 0 {
		return nil, device.ErrClosed
	}
	f.room--
	f.open++
	return &farBuffer{device: f, memory: make([]byte, bytes)}, nil
}

type farBuffer struct {
	device   *far
	memory   []byte
	isClosed bool
}

func (b *farBuffer) Device() device.Device { return b.device }
func (b *farBuffer) Bytes() int64          { return int64(len(b.memory)) }
func (b *farBuffer) Closed() bool          { return b.isClosed }

func (b *farBuffer) CopyIn(offset int64, src []byte) error {
	copy(b.memory[offset:], src)
	return b.device.copyErr
}

func (b *farBuffer) CopyOut(offset int64, dst []byte) error {
	copy(dst, b.memory[offset:])
	return b.device.copyErr
}

func (b *farBuffer) Close() error {
	if !b.isClosed {
		b.isClosed = true
		b.device.open--
	}
	return nil
}

// TestPlaced takes operands to a device and back, where the host addresses its memory and
// where it does not.
func TestPlaced(t *testing.T) {
	near, err := cpu.New(cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	for _, dev := range []device.Device{near, &far{room: 100}} {
		for _, inPlace := range []bool{false, true} {
			before := all(t)
			y, x := operand(t, "y"), operand(t, "x")
			if inPlace {
				before.Replace(y, x)
			}
			p, err := before.Place(dev)
			if err != nil {
				t.Fatal(err)
			}
			after, err := p.Read()
			if err != nil {
				t.Fatal(err)
			}
			if b, d := after.Breach(before), after.Difference(before.Copies()); b != nil || d != nil {
				t.Errorf("%s: nothing ran: got %v, %v", dev.Name(), b, d)
			}
			// What a kernel writes on the device is read back, and only then.
			buffer, offset, a := p.At(y)
			if _, isHost := buffer.(device.HostBuffer); isHost != (a.Data != nil) || len(a.Data) != cap(a.Data) {
				t.Errorf("%s: the memory is addressed: %v, want %v", dev.Name(), a.Data != nil, isHost)
			}
			at := offset + int64(a.Stride+1)*2 // y[1,1]
			if err := buffer.CopyIn(at, []byte{0x34, 0x12}); err != nil {
				t.Fatal(err)
			}
			if a.Data != nil && a.Bits(1, 1) != 0x1234 {
				t.Error("the array is not the memory on the host")
			}
			if operandOf(after, y).Bits(1, 1) == 0x1234 || operandOf(before, y).Bits(1, 1) == 0x1234 {
				t.Errorf("%s: a kernel reaches what was read back, or the operands", dev.Name())
			}
			if after, err = p.Read(); err != nil {
				t.Fatal(err)
			}
			d := after.Difference(before.Copies())
			if d == nil || d.Name != "y" || d.Row != 1 || d.Col != 1 || d.Got != 0x1234 {
				t.Errorf("%s: y[1,1] was written: got %v", dev.Name(), d)
			}
			if b := after.Breach(before); b != nil {
				t.Errorf("%s, in place %v: %s", dev.Name(), inPlace, b.Reason)
			}
			if got := operandOf(after, x).Bits(1, 1) == 0x1234; got != inPlace {
				t.Errorf("%s: x is y: got %v, want %v", dev.Name(), got, inPlace)
			}
			if err := p.Write(before); err != nil {
				t.Fatal(err)
			}
			if after, err = p.Read(); err != nil || after.Difference(before.Copies()) != nil {
				t.Errorf("%s: written again: %v, %v", dev.Name(), err, after.Difference(before.Copies()))
			}
			if err := buffer.CopyIn(offset-1, []byte{0}); err != nil {
				t.Fatal(err)
			}
			name := map[bool]string{false: "y", true: "x"}[inPlace]
			if after, err = p.Read(); err != nil || after.Breach(before) == nil || after.Breach(before).Reason != "it writes outside "+name {
				t.Errorf("%s: the byte before y was written: got %v, %v", dev.Name(), err, after.Breach(before))
			}
			tensors, err := p.Tensors()
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range tensors {
				b, offset, a := p.At(i)
				if x.Buffer() != b || x.Offset() != offset || x.DType() != a.DType || x.Len() != a.Rows*a.Cols || a.Cols > 1 && x.RowStride() != a.Stride || x.Rank() != map[bool]int{true: 1, false: 2}[pair.Operands[i].Name == "g"] {
					t.Errorf("%s: tensor %v is not %s", dev.Name(), x, pair.Operands[i].Name)
				}
				raw, err := x.Bytes()
				if want := before.Copies()[i].Data; err != nil || !bytes.Equal(raw, want) {
					t.Errorf("%s: tensor %s holds %x, want %x, error %v", dev.Name(), pair.Operands[i].Name, raw, want, err)
				}
			}
			if err := p.Close(); err != nil || !buffer.Closed() {
				t.Errorf("%s: closing: %v, closed %v", dev.Name(), err, buffer.Closed())
			}
		}
	}
}

// TestPlaceFails gives memory back whatever goes wrong.
func TestPlaceFails(t *testing.T) {
	dev := &far{room: 2}
	if _, err := all(t).Place(dev); !errors.Is(err, device.ErrClosed) || !strings.HasPrefix(err.Error(), "operand w: ") || dev.open != 0 {
		t.Errorf("the third allocation fails: got %v, with %d buffers open", err, dev.open)
	}
	failure := errors.New("no wire")
	dev = &far{room: 100, copyErr: failure}
	if _, err := all(t).Place(dev); !errors.Is(err, failure) || dev.open != 0 {
		t.Errorf("copying fails: got %v, with %d buffers open", err, dev.open)
	}
	dev = &far{room: 100}
	p, err := all(t).Place(dev)
	if err != nil {
		t.Fatal(err)
	}
	dev.copyErr = failure
	if _, err := p.Read(); !errors.Is(err, failure) {
		t.Errorf("reading fails: got %v", err)
	}
	dev.copyErr = nil
	other := trial.New(pair, all(t).DTypes(), map[string]int{"R": 3, "C": 6}, layouts)
	const want = "operand x is not laid out like the memory on far: got 554 bytes, the first element at 256, want 548 and 256"
	if err := p.Write(other); err == nil || err.Error() != want {
		t.Errorf("operands of another layout: got %v, want %s", err, want)
	}
	shifted := trial.New(pair, all(t).DTypes(), map[string]int{"R": 3, "C": 5}, func(i int) trial.Layout { return trial.Layout{Offset: 3, Gap: 0} })
	if err := p.WriteOperand(shifted, 0); err == nil {
		t.Error("an operand at another offset is written")
	}
}

// TestReadOperand changes every byte of an operand on the device, alone.
func TestReadOperand(t *testing.T) {
	for _, name := range []string{"x", "y", "s", "g"} {
		i := operand(t, name)
		before := all(t)
		p, err := trial.Allocate(&far{room: 100}, pair, before.DTypes(), map[string]int{"R": 3, "C": 5}, layouts)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Write(before); err != nil {
			t.Fatal(err)
		}
		memory, offset := before.Memory(i)
		buffer, _, _ := p.At(i)
		for at := range memory {
			if err := buffer.CopyIn(int64(at), []byte{memory[at] ^ 0x10}); err != nil {
				t.Fatal(err)
			}
			a, breach, err := p.ReadOperand(i)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"outside": "it writes outside " + name, "gap": "it writes between the rows of " + name}[kindOf(before.Array(i), offset, at)]
			got := ""
			if breach != nil {
				got = breach.Reason
			}
			if got != want {
				t.Errorf("byte %d of %s changed: got %q, want %q", at, name, got, want)
			}
			if isSame := trial.Patterns.Difference(name, a, before.Array(i)) == nil; isSame != (want != "") {
				t.Errorf("byte %d of %s changed: the elements are the same: %v", at, name, isSame)
			}
			if err := buffer.CopyIn(int64(at), memory[at:at+1]); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Clear(i); err != nil {
			t.Fatal(err)
		}
		a, breach, err := p.ReadOperand(i)
		if err != nil || breach != nil || bytes.Count(a.Data, []byte{trial.GuardByte}) != len(a.Data) {
			t.Errorf("%s was cleared: got %x, %v, %v", name, a.Data, breach, err)
		}
	}
}

// TestAllocate refuses what cannot be counted, and what the device has no room for.
func TestAllocate(t *testing.T) {
	dtypes := pair.Formats()[0]
	for _, sizes := range []map[string]int{{"R": 1 << 40, "C": 1 << 40}, {"R": 1 << 32, "C": 1 << 30}, {"R": 1, "C": math.MaxInt}, {"R": math.MaxInt, "C": 1}} {
		dev := &far{room: 100}
		if _, err := trial.Allocate(dev, pair, dtypes, sizes, nil); err == nil || !strings.HasPrefix(err.Error(), "operand x: has ") || dev.open != 0 {
			t.Errorf("%v: got %v, with %d buffers open", sizes, err, dev.open)
		}
	}
	dev := &far{room: 2}
	if _, err := trial.Allocate(dev, pair, dtypes, map[string]int{"R": 3, "C": 5}, nil); !errors.Is(err, device.ErrClosed) || dev.open != 0 {
		t.Errorf("got %v, with %d buffers open", err, dev.open)
	}
}

// TestHashes recomputes hashes from the bytes that the documents list.
func TestHashes(t *testing.T) {
	d := pair
	x := all(t)
	contiguous := x.Copies()
	if trial.EvidenceInputs(d, x.Arrays(), nil) != trial.EvidenceInputs(d, contiguous, nil) || trial.AnswerInputs(d, x.Arrays(), nil) != trial.AnswerInputs(d, contiguous, nil) ||
		trial.EvidenceOutputs(d, x.Arrays()) != trial.EvidenceOutputs(d, contiguous) || trial.AnswerOutputs(d, x.Arrays()) != trial.AnswerOutputs(d, contiguous) {
		t.Error("a hash depends on gaps between rows")
	}
	type hashes struct {
		in, out     string
		known, made string
	}
	of := func(a []num.Array) hashes {
		return hashes{trial.EvidenceInputs(d, a, nil), trial.EvidenceOutputs(d, a), trial.AnswerInputs(d, a, nil).String(), trial.AnswerOutputs(d, a).String()}
	}
	base := of(contiguous)
	for i := range d.Operands {
		o := &d.Operands[i]
		for r := range contiguous[i].Rows {
			for c := range contiguous[i].Cols {
				changed := x.Copies()
				changed[i].SetBits(r, c, changed[i].Bits(r, c)^1)
				now := of(changed)
				if (now.in != base.in) != o.IsIn || (now.known != base.known) != o.IsIn || (now.out != base.out) != o.IsOut || (now.made != base.made) != o.IsOut {
					t.Errorf("%s[%d,%d] changed: input %v, output %v, hashes %v and %v", o.Name, r, c, o.IsIn, o.IsOut, base, now)
				}
			}
		}
	}
	// NaNs: one value in what was computed, patterns in what was read or copied.
	nan := func(bits uint32, i int) []num.Array {
		a := x.Copies()
		a[i].SetBits(0, 0, bits)
		return a
	}
	y, in := operand(t, "y"), operand(t, "x")
	if of(nan(0x7e00, y)) != of(nan(0xfe01, y)) {
		t.Error("two NaNs of an output have two hashes")
	}
	if a, b := of(nan(0x7e00, in)), of(nan(0xfe01, in)); a.in == b.in || a.known == b.known {
		t.Error("two NaNs of an input have one hash")
	}
	if a, b := of(nan(0, y)), of(nan(0x8000, y)); a.out == b.out || a.made == b.made {
		t.Error("zeros of both signs have one hash")
	}
	copied := []num.Array{num.IndexArray(0), num.NewArray(num.F16, 1, 1), num.NewArray(num.F16, 1, 1)}
	copied[2].SetBits(0, 0, 0x7e00)
	one, known := trial.EvidenceOutputs(gather, copied), trial.AnswerOutputs(gather, copied)
	copied[2].SetBits(0, 0, 0x7e01)
	if one == trial.EvidenceOutputs(gather, copied) || known == trial.AnswerOutputs(gather, copied) {
		t.Error("two NaNs that were copied have one hash")
	}
}

// TestHashedBytes is the example of docs/reports.md, and one with parameters.
func TestHashedBytes(t *testing.T) {
	scaled := def.Must(def.Rowwise("scaled", func(b *def.Builder) { b.Out("y", b.In("x").Mul(b.Param("by"))) }))
	x := num.ArrayOf(num.F16, 2, 2, 1, 2, 3, 4)
	y := num.ArrayOf(num.F16, 2, 2, 1, 2, 3, float32(math.NaN()))
	y.SetBits(1, 1, 0xfe77)
	sizes := "\x02\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00"
	hash := func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }
	for _, test := range []struct{ got, bytes string }{
		{trial.EvidenceInputs(scaled, []num.Array{x, y}, []float64{1}), "x\x00f16\x00" + sizes + "\x00\x3c\x00\x40\x00\x42\x00\x44" + "by\x00\x00\x00\x00\x00\x00\x00\xf0\x3f"},
		{trial.EvidenceOutputs(scaled, []num.Array{x, y}), "y\x00f16\x00" + sizes + "\x00\x3c\x00\x40\x00\x42\x00\x7e"},
		{trial.AnswerInputs(scaled, []num.Array{x, y}, []float64{1}).String(), "param by 3ff0000000000000\nx f16 2 2\n\x00\x3c\x00\x40\x00\x42\x00\x44"},
		{trial.AnswerOutputs(scaled, []num.Array{x, y}).String(), "y f16 2 2\n\x00\x3c\x00\x40\x00\x42\x00\x7e"},
	} {
		if want := hash(test.bytes); test.got != want {
			t.Errorf("got %s, want %s, the SHA-256 of %q", test.got, want, test.bytes)
		}
	}
}
