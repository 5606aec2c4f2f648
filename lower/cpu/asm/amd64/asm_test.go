package amd64

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/golden.txt")

// golden assembles a few instances of every encoding and returns a line for each: bytes
// and text.
func golden(t *testing.T) []string {
	a := New()
	instances(rand.New(rand.NewPCG(5, 6)), 2, func(op Op, w Width, operands []Operand) { a.V(op, w, operands...) })
	if a.Err() != nil {
		t.Fatal(a.Err())
	}
	g := program(t, 1)
	if g.Err() != nil {
		t.Fatal(g.Err())
	}
	var lines []string
	for _, a := range []*Assembler{a, g} {
		for i := range a.records {
			lines = append(lines, fmt.Sprintf("%-22x %s", a.bytesOf(i), a.text(&a.records[i])))
		}
	}
	return lines
}

// TestGolden compares the encodings with bytes that agreed with GNU as when they
// were written (go test -run 'GNU|Golden' -update).
func TestGolden(t *testing.T) {
	const file = "testdata/golden.txt"
	got := golden(t)
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(got, "\n")+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	n := 0
	for ; s.Scan(); n++ {
		if n >= len(got) || got[n] != s.Text() {
			t.Fatalf("%s:%d: got %q, want %q", file, n+1, got[min(n, len(got)-1)], s.Text())
		}
	}
	if s.Err() != nil || n != len(got) {
		t.Fatalf("%s: %d lines, want %d (%v)", file, n, len(got), s.Err())
	}
}

// mixed assembles labels in both directions, near and far, and constants of all
// alignments with immediates after them.
func mixed() *Assembler {
	a := New()
	forward, start, far := a.Label(), a.Label(), a.Label()
	a.Comment("the beginning of %s", "all")
	a.Bind(start)
	a.Jmp(forward)
	a.J(NotEqual, start)
	a.Call(far)
	one, two := a.Float32(1), a.Float32(2)
	again := a.Float32(1)
	wide := a.Constant(make([]byte, 64), 64)
	a.V(VADDPS, Z, Vec(1), Vec(2), one.Broadcast())
	a.V(VADDPS, Z, Vec(1), Vec(2), wide)
	a.V(VCMPPS, Z, K1, Vec(2), two.Broadcast(), Imm(4))
	a.V(VADDSS, X, Vec(1), Vec(2), again)
	a.V(VADDSS, X, Vec(1), Vec(20), two)
	a.V(VBLENDVPS, X, Vec(1), Vec(2), wide.Offset(16), Vec(3))
	a.G(ADD, 32, one, Imm(1000))
	a.G(ADD, 64, one, Imm(1))
	a.G(MOV, 16, two, Imm(0x1234))
	a.G(TEST, 8, two, Imm(3))
	a.G(IMUL, 64, RAX, a.Uint64(7), Imm(1000))
	a.G(SHL, 64, a.Uint64(7), Imm(5))
	a.G(LEA, 64, R9, a.Address(far))
	a.G(LEA, 64, R9, a.Address(start).Offset(4))
	a.Align(32)
	a.Comment("forward")
	a.Comment("twice")
	a.Bind(forward)
	for range 200 {
		a.Nop(1)
	}
	a.Jmp(start)
	a.J(Below, start)
	a.Call(start)
	a.J(Greater, forward)
	a.Bind(far)
	a.Ret()
	return a
}

// TestAddresses compares the targets of jumps and of addresses relative to the code with
// objdump's.
func TestAddresses(t *testing.T) {
	a := mixed()
	code, err := a.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if len(a.constants) != 4 {
		t.Errorf("%d constants, want 4: equal ones are shared", len(a.constants))
	}
	for _, c := range a.constants {
		if int(c.offset)%c.align != 0 || string(code[c.offset:][:len(c.data)]) != string(c.data) {
			t.Errorf("constant % x at %d, want it there and aligned to %d", c.data, c.offset, c.align)
		}
	}
	dis := gnuDisassemble(t, code)
	address := regexp.MustCompile(`(?:# |^(?:j\w+|call) +)0x([0-9a-f]+)`)
	checked := 0
	for i := range a.records {
		r := &a.records[i]
		for _, x := range a.args[r.firstArg:][:r.args] {
			if x.kind != memArg || x.mem.kind < constant {
				continue
			}
			want := x.mem.Disp
			if x.mem.kind == constant {
				want += a.constants[x.mem.number].offset
			} else {
				want += a.Place(Label(x.mem.number))
			}
			m := address.FindStringSubmatch(dis[int(r.offset)])
			if m == nil {
				t.Errorf("%x: objdump %q has no address", r.offset, dis[int(r.offset)])
				continue
			}
			if got, _ := strconv.ParseInt(m[1], 16, 64); int32(got) != want {
				t.Errorf("%s: target %#x, want %#x (objdump %q)", a.text(r), got, want, dis[int(r.offset)])
			}
			checked++
		}
	}
	if checked < 20 {
		t.Errorf("%d addresses checked, want at least 20", checked)
	}
}

func TestListing(t *testing.T) {
	a := mixed()
	if _, err := a.Finish(); err != nil {
		t.Fatal(err)
	}
	got := a.Listing()
	for _, want := range []string{
		"L1:\n     0  e9",
		"jmp L0",
		"; the beginning of all\n",
		"; forward; twice\n",
		"vaddps zmm1, zmm2, dword ptr [rip+C0]{1to16}",
		"vcmpps k1, zmm2, dword ptr [rip+C1]{1to16}, 0x4",
		"vblendvps xmm1, xmm2, xmmword ptr [rip+C2+0x10], xmm3",
		"C0: 00 00 80 3f\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

func TestNops(t *testing.T) {
	for n := range 40 {
		a := New()
		a.Nop(n)
		a.Ret()
		dis := gnuDisassemble(t, a.Code)
		if len(a.Code) != n+1 || dis[n] != "ret" {
			t.Errorf("nop of %d bytes: %x", n, a.Code)
		}
		for offset, text := range dis {
			if offset < n && !strings.HasPrefix(text, "nop") && text != "xchg   ax,ax" {
				t.Errorf("nop of %d bytes: %q", n, text)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		do   func(*Assembler)
		want string
	}{
		{func(a *Assembler) { a.V(VADDPS, X, Vec(1), Vec(2)) }, "vaddps, width X: it takes no operands such as a vector register, a vector register"},
		{func(a *Assembler) { a.V(VADDPS, X, Vec(1), Vec(2), Vec(32)) }, "vector register 32, want at most 31"},
		{func(a *Assembler) { a.V(VADDPS, 3, Vec(1), Vec(2), Vec(3)) }, "width Width(3): unknown width"},
		{func(a *Assembler) { a.V(ADD, X) }, "add, width X: not a vector instruction"},
		{func(a *Assembler) { a.VEXOnly = true; a.V(VADDPS, Z, Vec(1), Vec(2), Vec(3)) }, "it needs EVEX"},
		{func(a *Assembler) { a.VEXOnly = true; a.V(VADDPS, X, Vec(1), Vec(2), Vec(16)) }, "it needs EVEX"},
		{func(a *Assembler) { a.V(VHADDPS, Z, Vec(1), Vec(2), Vec(3)) }, "cannot be encoded in VEX"},
		{func(a *Assembler) { a.V(VPERMPS, X, Vec(1), Vec(2), Vec(3)) }, "no encoding of that width"},
		{func(a *Assembler) { a.V(VADDSS, Y, Vec(1), Vec(2), Vec(3)) }, "no encoding of that width"},
		{func(a *Assembler) { a.V(VADDPS, Y, Vec(1), Vec(2), Vec(3), RZ) }, "at 512 bits only"},
		{func(a *Assembler) { a.V(VADDPS, Z, Vec(1), Vec(2), At(RAX, 0), RZ) }, "rounding cannot be chosen with a memory operand"},
		{func(a *Assembler) { a.V(VMAXPS, Z, Vec(1), Vec(2), Vec(3), RZ) }, "its rounding cannot be chosen so"},
		{func(a *Assembler) { a.V(VPSHUFB, Z, Vec(1), Vec(2), At(RAX, 0).Broadcast()) }, "cannot be broadcast"},
		{func(a *Assembler) { a.V(VMOVUPS, Z, At(RAX, 0), Vec(1), Zero(K1)) }, "its destination cannot be zeroed"},
		{func(a *Assembler) { a.V(VMOVUPS, Z, Vec(1), Vec(2), Zero(K0)) }, "k0 is no mask"},
		{func(a *Assembler) { a.V(VMOVD, X, Vec(1), RAX, Merge(K1)) }, "it takes no mask"},
		{func(a *Assembler) { a.V(VGATHERDPS, Z, Vec(1), At(RAX, 0).PlusVec(2, 4)) }, "it needs a mask"},
		{func(a *Assembler) { a.V(VMOVUPS, Z, Vec(1), At(RAX, 0).Plus(RSP, 1)) }, "index rsp cannot be encoded"},
		{func(a *Assembler) { a.V(VMOVUPS, Z, Vec(1), At(RAX, 0).Plus(RCX, 3)) }, "scale 3, want 1, 2, 4 or 8"},
		{func(a *Assembler) { a.V(VSHUFPS, Z, Vec(1), Vec(1), Vec(1), Imm(256)) }, "immediate 256, want 8 bits"},
		{func(a *Assembler) { a.V(VADDPS, X, nil) }, "unknown operand"},
		{func(a *Assembler) { a.G(ADD, 64, RAX, Imm(1<<31)) }, "immediate 0x80000000 does not fit"},
		{func(a *Assembler) { a.G(ADD, 65, RAX, Imm(1)) }, "size 65, want 8, 16, 32 or 64"},
		{func(a *Assembler) { a.G(ADD, 64, At(RAX, 0), At(RAX, 0)) }, `no encoding with operands "mm"`},
		{func(a *Assembler) { a.G(ADD, 64, RAX, Vec(0)) }, `no encoding with operands "?"`},
		{func(a *Assembler) { a.G(SHL, 32, RAX, Imm(32)) }, "want a count of 0 to 31 or rcx"},
		{func(a *Assembler) { a.G(VADDPS, 32, RAX) }, "not a general instruction"},
		{func(a *Assembler) { a.G(ADD, 64, RAX, At(RAX, 0).Broadcast()) }, "without broadcast"},
		{func(a *Assembler) { a.Jmp(a.Label()) }, "label L0 is not bound"},
		{func(a *Assembler) { a.Jmp(7) }, "unknown label L7"},
		{func(a *Assembler) { l := a.Label(); a.Bind(l); a.Bind(l) }, "label L0 is bound twice"},
		{func(a *Assembler) { a.Constant(nil, 3) }, "alignment 3, want a power of two"},
		{func(a *Assembler) { a.Align(65) }, "align: 65"},
		{func(a *Assembler) { a.J(16, a.Label()) }, "unknown condition 16"},
		{func(a *Assembler) { a.Cmov(Equal, 8, RAX, RCX) }, "want a size of 16, 32 or 64"},
		{func(a *Assembler) { a.Set(Equal, Imm(1)) }, `no encoding with operands "i"`},
		{func(a *Assembler) { _, _ = a.Finish(); a.Ret() }, "code is finished"},
	} {
		a := New()
		c.do(a)
		if code, err := a.Finish(); err == nil || !strings.Contains(err.Error(), c.want) || code != nil {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
}

// TestFirstErrorStays checks that errors are collected and the first one is returned.
func TestFirstErrorStays(t *testing.T) {
	a := New()
	a.V(VADDPS, X, Vec(1))
	a.V(VSUBPS, X, Vec(1))
	if _, err := a.Finish(); err == nil || !strings.HasPrefix(err.Error(), "vaddps") {
		t.Errorf("got %v, want the error of vaddps", err)
	}
}

// TestNames checks that the rows are in their ops' places.
func TestNames(t *testing.T) {
	seen := make(map[string]bool)
	for op := range Op(numVector) {
		if name := op.String(); name == "" || seen[name] || table[op].encodings == nil {
			t.Errorf("op %d: name %q is empty or not unique, or it has no encoding", op, name)
		} else {
			seen[name] = true
		}
	}
	for op, want := range map[Op]string{VADDPS: "vaddps", VPMOVQ2M: "vpmovq2m", ADD: "add", XOR: "xor", MOVSX32: "movsxd", SAR: "sar", ANDN: "andn", PREFETCHW: "prefetchw", ud2: "ud2"} {
		if got := op.String(); got != want {
			t.Errorf("op %d: name %q, want %q", op, got, want)
		}
	}
}

func BenchmarkAssemble(b *testing.B) {
	for b.Loop() {
		a := New()
		for i := range 1000 {
			a.V(VFMADD231PS, Z, Vec(i%32), Vec(1), At(RSI, int32(i)*64))
			a.V(VMOVUPS, Y, At(RSI, int32(i)*64).Plus(RCX, 4), Vec(1))
			a.G(ADD, 64, RSI, Imm(int64(i)))
		}
		if _, err := a.Finish(); err != nil {
			b.Fatal(err)
		}
	}
}
