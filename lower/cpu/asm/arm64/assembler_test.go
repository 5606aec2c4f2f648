package arm64

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestErrors has one instruction each that must not be assembled, and what is said.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		code func(a *Assembler)
		want string
	}{
		{"other operands", func(a *Assembler) { a.I(FADD, V0.As(S4), X1, V2.As(S4)) }, "fadd v0.4s, x1, v2.4s: operands do not fit, want one of: Vd.T, Vn.T, Vm.T; Vd.T, Vn.T, Vm.T"},
		{"mixed arrangements", func(a *Assembler) { a.I(FADD, V0.As(S4), V1.As(S4), V2.As(D2)) }, "operands do not fit"},
		{"an arrangement that the row lacks", func(a *Assembler) { a.V(MUL, D2, V0, V1, V2) }, "mul v0.2d, v1.2d, v2.2d: operands do not fit"},
		{"mixed widths", func(a *Assembler) { a.I(ADD, X0, X1.W(), X2) }, "add x0, w1, x2: operands do not fit"},
		{"sp where zr is", func(a *Assembler) { a.I(ADD, X0, SP, X2) }, "operands do not fit"},
		{"zr where sp is", func(a *Assembler) { a.I(ADD, XZR, X1, Imm(1)) }, "operands do not fit"},
		{"too few", func(a *Assembler) { a.I(ADD, X0, X1) }, "operands do not fit"},
		{"immediate", func(a *Assembler) { a.I(ADD, X0, X1, Imm(4097)) }, "add x0, x1, #4097: immediate 4097, want 0 to 4095, or a multiple of 4096 below 2^24"},
		{"bitmask", func(a *Assembler) { a.I(AND, X0, X1, Imm(5)) }, "immediate 5, want a repeated run of ones"},
		{"no bits", func(a *Assembler) { a.I(AND, X0, X1, Imm(0)) }, "immediate 0"},
		{"more than 32 bits", func(a *Assembler) { a.I(AND, X0.W(), X1.W(), Imm(1<<32)) }, "immediate 4294967296"},
		{"shift", func(a *Assembler) { a.I(SHL, V0.As(S4), V1.As(S4), Imm(32)) }, "shift 32, want 0 to 31"},
		{"right shift by nothing", func(a *Assembler) { a.I(USHR, V0.As(H8), V1.As(H8), Imm(0)) }, "shift 0, want 1 to 16"},
		{"element", func(a *Assembler) { a.I(FMLA, V0.As(S4), V1.As(S4), V2.Lane(S1, 4)) }, "element 4, want at most 3"},
		{"displacement", func(a *Assembler) { a.I(LDR, V0.As(Q1), At(X0, 65536)) }, "displacement 65536, want -256 to 255"},
		{"pair", func(a *Assembler) { a.I(LDP, X0, X1, At(X2, 512)) }, "displacement 512, want a multiple of 8 in -512 to 504"},
		{"index and displacement", func(a *Assembler) { a.I(LDR, X0, At(X1, 8).Plus(X2, 3)) }, "operands do not fit"},
		{"index shift", func(a *Assembler) { a.I(LDR, X0, At(X1, 0).Plus(X2, 2)) }, "shift 2, want 0 or 3"},
		{"base", func(a *Assembler) { a.I(LDR, X0, At(X1.W(), 0)) }, "operands do not fit"},
		{"increment", func(a *Assembler) { a.I(LD1R, V0.List(S4, 1), PostIndex(X1, 16)) }, "increment 16, want the 4 bytes accessed"},
		{"list", func(a *Assembler) { a.I(LD1, V0.List(S4, 5), At(X1, 0)) }, "registers in the list 5, want 1 to 4"},
		{"float", func(a *Assembler) { a.I(FMOV, V0.As(S4), Float(0.1)) }, "immediate 0.1, want ±(16 to 31)/16"},
		{"unknown instruction", func(a *Assembler) { a.I(numOps) }, "unknown instruction"},
		{"unbound label", func(a *Assembler) { a.I(B, a.Label()) }, "label .L0 is not bound"},
		{"unknown label", func(a *Assembler) { a.I(B, Label(3)) }, "unknown label .L3"},
		{"label bound twice", func(a *Assembler) { l := a.Label(); a.Bind(l); a.Bind(l) }, "label .L0 is bound twice"},
		{"far label", func(a *Assembler) {
			l := a.Label()
			a.I(TBZ, X0, Imm(1), l)
			for range 1 << 13 {
				a.I(NOP)
			}
			a.Bind(l)
		}, "label .L0 is 32772 bytes away, want less than 32768"},
		{"alignment of code", func(a *Assembler) { a.Align(3) }, "align: 3"},
		{"alignment", func(a *Assembler) { a.Constant([]byte{1}, 3) }, "alignment 3"},
	} {
		a := New()
		c.code(a)
		a.I(RET) // a later instruction does not hide the error
		if _, err := a.Finish(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.want)
		}
	}
}

// TestMovImm runs the instructions of MovImm.
func TestMovImm(t *testing.T) {
	values := []uint64{0, 1, 0xffff, 0x10000, 0xffffffff, 1 << 32, 1<<64 - 1, 1<<64 - 2, 0xffff0000ffff0000, 0x1234567890abcdef, 0xffffffff12345678, 0x8000000000000000}
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		v := r.Uint64()
		for i := range 4 {
			switch r.IntN(4) {
			case 0:
				v &^= 0xffff << (16 * i)
			case 1:
				v |= 0xffff << (16 * i)
			}
		}
		values = append(values, v)
	}
	for _, v := range values {
		for _, dst := range []Reg{X3, X3.W()} {
			a := New()
			a.MovImm(dst, v)
			code, err := a.Finish()
			if err != nil {
				t.Fatal(err)
			}
			want := v
			if dst.isW() {
				want = uint64(uint32(v))
			}
			if got, most := moved(t, code), len(code)/4; got != want || most > 4 {
				t.Errorf("MovImm(%v, %#x): got %#x in %d instructions", dst, v, got, most)
			}
		}
	}
}

// moved returns what MOVZ, MOVN, MOVK and ORR with zero leave in their register.
func moved(t *testing.T, code []byte) uint64 {
	var x uint64
	for ; len(code) > 0; code = code[4:] {
		word := binary.LittleEndian.Uint32(code)
		whole := word>>31 != 0
		part, shift := uint64(word>>5&0xffff), 16*(word>>21&3)
		switch word >> 23 & 0xff {
		case 0xa5: // movz
			x = part << shift
		case 0x25: // movn
			x = ^(part << shift)
		case 0xe5: // movk
			x = x&^(0xffff<<shift) | part<<shift
		case 0x64: // orr
			x = unmask(word)
		default:
			t.Fatalf("unexpected instruction %08x", word)
		}
		if !whole {
			x = uint64(uint32(x))
		}
	}
	return x
}

// unmask returns a logical immediate, decoded as the architecture manual says.
func unmask(word uint32) uint64 {
	n, immr, imms := word>>22&1, word>>16&63, word>>10&63
	length := bits.Len32(n<<6|^imms&63) - 1
	size := uint32(1) << length
	ones := imms&(size-1) + 1
	run := uint64(1)<<ones - 1
	rotate := immr & (size - 1)
	element := run>>rotate | run<<(size-rotate)
	if size < 64 {
		element &= 1<<size - 1
	}
	var x uint64
	for at := uint32(0); at < 64; at += size {
		x |= element << at
	}
	return x
}

// TestBitmask encodes every logical immediate there is.
func TestBitmask(t *testing.T) {
	count := 0
	for size := 2; size <= 64; size *= 2 {
		for ones := 1; ones < size; ones++ {
			for rotate := range size {
				run := uint64(1)<<ones - 1
				element := run<<rotate | run>>(size-rotate)
				if size < 64 {
					element &= 1<<size - 1
				}
				var v uint64
				for at := 0; at < 64; at += size {
					v |= element << at
				}
				fields, ok := bitmask(v, 64)
				if !ok || unmask(fields) != v {
					t.Fatalf("bitmask(%#x): got fields %#x, %v, which mean %#x", v, fields, ok, unmask(fields))
				}
				count++
			}
		}
	}
	if count != 5334 {
		t.Errorf("got %d immediates, want 5334", count)
	}
}

// TestListing compares the listing of a small piece of code.
func TestListing(t *testing.T) {
	a := New()
	loop := a.Label()
	one := a.Float32(1)
	a.I(LDR, V1.As(S1), one)
	a.Comment("for %d rows", 3)
	a.Align(8)
	a.Bind(loop)
	a.I(CBNZ, X0, loop)
	a.I(RET)
	if same := a.Float32(1); same != one {
		t.Errorf("equal constants: got labels %v and %v", one, same)
	}
	a.I(LDR, V2.As(S1), a.Float32(2))
	a.Comment("the end")
	code, err := a.Finish()
	if err != nil {
		t.Fatal(err)
	}
	want := `     0  1c0000a1  ldr s1, .L1
     4  d503201f  nop                                        // for 3 rows
.L0:
     8  b5000000  cbnz x0, .L0
     c  d65f03c0  ret
    10  1c000042  ldr s2, .L2
.L1:
// the end
    14  00 00 80 3f
.L2:
    18  00 00 00 40
`
	compareLines(t, strings.Split(a.Listing(), "\n"), strings.Split(want, "\n"))
	if len(code) != 28 {
		t.Errorf("got %d bytes, want 28", len(code))
	}
	a.I(RET)
	if a.Err() == nil {
		t.Error("an instruction after Finish is no error")
	}
}

// BenchmarkAssemble measures instructions of the kind that loops have.
func BenchmarkAssemble(b *testing.B) {
	b.ReportAllocs()
	for range b.N {
		a := New()
		for range 250 {
			a.I(LDR, V0.As(Q1), PostIndex(X1, 16))
			a.V(FADD, S4, V0, V0, V1)
			a.I(FMLA, V0.As(S4), V1.As(S4), V2.Lane(S1, 3))
			a.I(STR, V0.As(Q1), At(X2, -16))
		}
		if _, err := a.Finish(); err != nil {
			b.Fatal(err)
		}
	}
}
