package arm64

import (
	"fmt"
	"math/bits"
	"strings"
)

// An Operand is what an instruction takes: a [Reg], a [View], [Element] or [List] of vector
// registers, an [Imm], a [Float], a [Mod], a [Mem], a [Label], a [Cond] or a [Prefetch].
type Operand interface {
	fmt.Stringer
	operand()
}

// Reg is a general register of 64 bits, or its lower half (see [Reg.W]).
type Reg uint8

const (
	X0 Reg = iota
	X1
	X2
	X3
	X4
	X5
	X6
	X7
	X8
	X9
	X10
	X11
	X12
	X13
	X14
	X15
	X16
	X17
	X18
	X19
	X20
	X21
	X22
	X23
	X24
	X25
	X26
	X27
	X28
	X29
	X30
	XZR // reads as zero; writes are ignored
	SP

	lowerHalf = 0x40
)

// W returns the lower 32 bits of r. An instruction that writes them clears the upper half.
func (r Reg) W() Reg { return r | lowerHalf }

func (r Reg) isW() bool { return r&lowerHalf != 0 }

// number returns the register's encoding.
func (r Reg) number() uint32 {
	if r&^lowerHalf == SP {
		return 31
	}
	return uint32(r &^ lowerHalf)
}

func (r Reg) String() string {
	prefix := "x"
	if r.isW() {
		prefix = "w"
	}
	switch r &^ lowerHalf {
	case SP:
		return strings.TrimPrefix(prefix, "x") + "sp"
	case XZR:
		return prefix + "zr"
	}
	return fmt.Sprintf("%s%d", prefix, r.number())
}

// Vec is a vector register.
type Vec uint8

const (
	V0 Vec = iota
	V1
	V2
	V3
	V4
	V5
	V6
	V7
	V8
	V9
	V10
	V11
	V12
	V13
	V14
	V15
	V16
	V17
	V18
	V19
	V20
	V21
	V22
	V23
	V24
	V25
	V26
	V27
	V28
	V29
	V30
	V31
)

// Arrangement says how an instruction divides a vector register: into how many elements of
// which size. Those with one element are the registers' scalar names.
type Arrangement uint8

const (
	B1 Arrangement = iota // b0: 8 bits
	H1                    // h0: 16 bits
	S1                    // s0: 32 bits
	D1                    // d0: 64 bits
	Q1                    // q0: 128 bits
	B8                    // v0.8b, and so on
	H4
	S2
	B16
	H8
	S4
	D2
)

var arrangements = [...]struct {
	name string
	size uint32 // log2 of an element's bytes
	full bool   // all 128 bits
}{
	B1: {"b", 0, false}, H1: {"h", 1, false}, S1: {"s", 2, false}, D1: {"d", 3, false}, Q1: {"q", 4, true},
	B8: {"8b", 0, false}, H4: {"4h", 1, false}, S2: {"2s", 2, false},
	B16: {"16b", 0, true}, H8: {"8h", 1, true}, S4: {"4s", 2, true}, D2: {"2d", 3, true},
}

func (t Arrangement) String() string { return arrangements[t].name }

func (t Arrangement) isScalar() bool { return t <= Q1 }

// size returns log2 of an element's bytes.
func (t Arrangement) size() uint32 { return arrangements[t].size }

// q returns 1 for 128 bits and 0 for less.
func (t Arrangement) q() uint32 {
	if arrangements[t].full {
		return 1
	}
	return 0
}

// bytes returns the bytes of all elements.
func (t Arrangement) bytes() uint32 {
	if t.isScalar() {
		return 1 << t.size()
	}
	return 8 << t.q()
}

// wide returns the full arrangement of elements twice as large, which a long instruction
// writes and a narrowing one reads.
func (t Arrangement) wide() Arrangement {
	switch t {
	case B8, B16:
		return H8
	case H4, H8:
		return S4
	}
	return D2
}

// element returns the arrangement of one element.
func (t Arrangement) element() Arrangement { return B1 + Arrangement(t.size()) }

// arrangementSet is a set of arrangements.
type arrangementSet uint16

func of(list ...Arrangement) arrangementSet {
	var s arrangementSet
	for _, t := range list {
		s |= 1 << t
	}
	return s
}

func (s arrangementSet) has(t Arrangement) bool { return s>>t&1 != 0 }

func (s arrangementSet) list() []Arrangement {
	var l []Arrangement
	for ; s != 0; s &= s - 1 {
		l = append(l, Arrangement(bits.TrailingZeros16(uint16(s))))
	}
	return l
}

// View is a vector register under an arrangement.
type View struct {
	Reg Vec
	T   Arrangement
}

// As returns the register under an arrangement.
func (v Vec) As(t Arrangement) View { return View{v, t} }

func (v View) String() string {
	if v.T.isScalar() {
		return fmt.Sprintf("%s%d", v.T, v.Reg)
	}
	return fmt.Sprintf("v%d.%s", v.Reg, v.T)
}

// Element is one element of a vector register.
type Element struct {
	Reg   Vec
	T     Arrangement // of one element: B1, H1, S1 or D1
	Index uint8
}

// Lane returns element i of the register, seen as elements of size t.
func (v Vec) Lane(t Arrangement, i int) Element { return Element{v, t, uint8(i)} }

func (e Element) String() string { return fmt.Sprintf("v%d.%s[%d]", e.Reg, e.T, e.Index) }

// List is 1 to 4 consecutive vector registers; V0 follows V31.
type List struct {
	First Vec
	N     int
	T     Arrangement
}

// List returns n consecutive registers that begin with v.
func (v Vec) List(t Arrangement, n int) List { return List{v, n, t} }

func (l List) String() string {
	var names []string
	for i := range l.N {
		names = append(names, ((l.First + Vec(i)) & 31).As(l.T).String())
	}
	return "{" + strings.Join(names, ", ") + "}"
}

// Imm is an immediate.
type Imm int64

func (i Imm) String() string { return fmt.Sprintf("#%d", int64(i)) }

// Float is an immediate of FMOV: ±(16…31)/16 · 2^(−3…4).
type Float float64

func (f Float) String() string { return fmt.Sprintf("#%.8f", float64(f)) }

// Mod shifts or extends the operand before it.
type Mod struct {
	kind   modKind
	Amount uint8
}

type modKind uint8

const (
	lsl modKind = iota
	lsr
	asr
	uxtw
	sxtw
)

var modNames = [...]string{lsl: "lsl", lsr: "lsr", asr: "asr", uxtw: "uxtw", sxtw: "sxtw"}

// Lsl, Lsr and Asr shift; Uxtw and Sxtw extend a W register and shift left.
func Lsl(n int) Mod  { return Mod{lsl, uint8(n)} }
func Lsr(n int) Mod  { return Mod{lsr, uint8(n)} }
func Asr(n int) Mod  { return Mod{asr, uint8(n)} }
func Uxtw(n int) Mod { return Mod{uxtw, uint8(n)} }
func Sxtw(n int) Mod { return Mod{sxtw, uint8(n)} }

func (m Mod) String() string {
	if m.kind >= uxtw && m.Amount == 0 {
		return modNames[m.kind]
	}
	return fmt.Sprintf("%s #%d", modNames[m.kind], m.Amount)
}

// Mem is a place in memory.
type Mem struct {
	base  Reg
	index Reg // with mod, or XZR
	disp  int64
	mode  memMode
	mod   Mod
}

type memMode uint8

const (
	offset    memMode = iota // [base, #disp] or [base, index, mod]
	preIndex                 // [base, #disp]!
	postIndex                // [base], #disp or [base], index
)

// At returns the memory at base + disp.
func At(base Reg, disp int64) Mem { return Mem{base: base, index: XZR, disp: disp} }

// Plus returns the memory at m's base + index << shift. m must have no displacement.
func (m Mem) Plus(index Reg, shift int) Mem {
	m.index, m.mod = index, Lsl(shift)
	if index.isW() {
		m.mod = Uxtw(shift)
	}
	return m
}

// PreIndex returns the memory at base + disp, which becomes the new base.
func PreIndex(base Reg, disp int64) Mem {
	return Mem{base: base, index: XZR, disp: disp, mode: preIndex}
}

// PostIndex returns the memory at base, which then grows by disp.
func PostIndex(base Reg, disp int64) Mem {
	return Mem{base: base, index: XZR, disp: disp, mode: postIndex}
}

// PostIndexBy returns the memory at base, which then grows by a register.
func PostIndexBy(base, step Reg) Mem { return Mem{base: base, index: step, mode: postIndex} }

func (m Mem) hasIndex() bool { return m.index != XZR }

func (m Mem) String() string {
	switch {
	case m.mode == postIndex && m.hasIndex():
		return fmt.Sprintf("[%s], %s", m.base, m.index)
	case m.mode == postIndex:
		return fmt.Sprintf("[%s], #%d", m.base, m.disp)
	case m.mode == preIndex:
		return fmt.Sprintf("[%s, #%d]!", m.base, m.disp)
	case m.hasIndex() && m.mod == Lsl(0):
		return fmt.Sprintf("[%s, %s]", m.base, m.index)
	case m.hasIndex():
		return fmt.Sprintf("[%s, %s, %s]", m.base, m.index, m.mod)
	case m.disp == 0:
		return fmt.Sprintf("[%s]", m.base)
	}
	return fmt.Sprintf("[%s, #%d]", m.base, m.disp)
}

// Label is a place in the code or a constant behind it.
type Label int

func (l Label) String() string { return fmt.Sprintf(".L%d", int(l)) }

// Cond is a condition of the flags.
type Cond uint8

const (
	EQ Cond = iota
	NE
	HS // unsigned ≥
	LO // unsigned <
	MI // negative; less, after FCMP
	PL
	VS // unordered, after FCMP
	VC
	HI // unsigned >
	LS // unsigned ≤; less or equal, after FCMP
	GE
	LT
	GT
	LE
	AL
)

var condNames = [...]string{"eq", "ne", "cs", "cc", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le", "al"}

func (c Cond) String() string { return condNames[c] }

// Prefetch is what PRFM fetches: for loads or stores, into which cache, to be kept or streamed.
type Prefetch uint8

const (
	PLDL1KEEP Prefetch = 0
	PLDL1STRM Prefetch = 1
	PLDL2KEEP Prefetch = 2
	PLDL2STRM Prefetch = 3
	PSTL1KEEP Prefetch = 16
	PSTL1STRM Prefetch = 17
	PSTL2KEEP Prefetch = 18
)

func (p Prefetch) String() string {
	kind, use := "pld", "keep"
	if p >= PSTL1KEEP {
		kind = "pst"
	}
	if p&1 != 0 {
		use = "strm"
	}
	return fmt.Sprintf("%sl%d%s", kind, p>>1&3+1, use)
}

func (Reg) operand()      {}
func (View) operand()     {}
func (Element) operand()  {}
func (List) operand()     {}
func (Imm) operand()      {}
func (Float) operand()    {}
func (Mod) operand()      {}
func (Mem) operand()      {}
func (Label) operand()    {}
func (Cond) operand()     {}
func (Prefetch) operand() {}
