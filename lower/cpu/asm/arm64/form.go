package arm64

import "strings"

// slotKind is a word of a form: what an operand is, and where its bits go. A register's
// number goes where the word's letter says: d to bit 0, n to 5, a to 10, m to 16.
type slotKind uint8

const (
	// General registers.
	generalReg slotKind = iota // R: X or W, the same in the whole instruction; bit 31 says which
	bitReg                     // Rb: X or W, bit 0; #bit says which
	xReg                       // X
	wReg                       // W
	elementReg                 // RE: W, or X for elements of 64 bits

	// Vector registers.
	viewT      // V.T: any arrangement of the row's set, the same in the whole instruction
	viewWide   // V.Tw: elements twice as large
	viewScalar // V.E: one element
	viewTwice  // Vnm.T: the number goes to both places
	viewFixed  // H, S, D, Q
	laneIndex  // V.E[i]: size and index in bits 16 to 20
	laneSecond // Vn.E[j]: the index in bits 11 to 14
	laneFloat  // Vm.E[h]: the index in bits 11 and 21
	laneList   // {V.E}[i]: the index in bits 30 and 10 to 12
	listT      // {V.T}: 1 to 4 registers
	listOne    // {V.T}1
	listTable  // {Vn.16b}: 1 to 4 registers

	// Immediates.
	immU12     // 12 bits, or 12 bits with 12 zeros below
	immBitmask // a repeated pattern of ones
	immU16     // bits 5 to 20
	immLSL     // shifts of general registers
	immLSR
	immBit // the number of a bit
	immShl // shifts of elements
	immShr
	immSize      // the bits of an element
	immExt       // a number of bytes
	immZero      // 0
	immZeroFloat // 0.0
	immABC       // 8 bits
	immMask      // bytes of 0 or 255
	immFloat     // see Float
	immFloatABC

	// Modifiers and conditions.
	modShift
	modExtend
	modLSL16 // by a multiple of 16
	modLSL8  // by a multiple of 8
	condAt12
	condInverted
	condSuffix
	prefetchOp

	// Memory.
	memBase
	memU12
	memS9
	memPost9
	memPre9
	memIndexed
	memS7
	memPost7
	memPre7
	memPostBytes
	memPostReg

	// Places in the code.
	label26
	label19
	label14
	label21
)

// slot is a parsed word.
type slot struct {
	kind  slotKind
	pos   uint8       // of a register's number
	sp    bool        // 31 is SP, not ZR
	fixed Arrangement // of viewFixed
}

// words has the words that stand for one slot each; the others name registers.
var words = map[string]slotKind{
	"Rb":     bitReg,
	"{Vd.T}": listT, "{Vd.T}1": listOne, "{Vd.E}[i]": laneList, "{Vn.16b}": listTable,
	"#u12": immU12, "#bitmask": immBitmask, "#u16": immU16, "#lsl": immLSL, "#lsr": immLSR, "#bit": immBit,
	"#shl": immShl, "#shr": immShr, "#esize": immSize, "#ext": immExt, "#0": immZero, "#0.0": immZeroFloat,
	"#abc": immABC, "#mask": immMask, "#f8": immFloat, "#fabc": immFloatABC,
	"shift": modShift, "extend": modExtend, "lsl16": modLSL16, "lsl8": modLSL8,
	"cond": condAt12, "!cond": condInverted, ".cond": condSuffix, "prefetch": prefetchOp,
	"[Xn]": memBase, "[Xn, #u12]": memU12, "[Xn, #s9]": memS9, "[Xn], #s9": memPost9, "[Xn, #s9]!": memPre9,
	"[Xn, Xm]": memIndexed, "[Xn, #s7]": memS7, "[Xn], #s7": memPost7, "[Xn, #s7]!": memPre7,
	"[Xn], #bytes": memPostBytes, "[Xn], Xm": memPostReg,
	"label26": label26, "label19": label19, "label14": label14, "label21": label21,
}

// registers has what precedes and follows a register's letter.
var registers = []struct {
	before, after string
	kind          slotKind
	fixed         Arrangement
}{
	{"RE", "", elementReg, 0}, {"R", "", generalReg, 0}, {"X", "", xReg, 0}, {"W", "", wReg, 0},
	{"V", ".T", viewT, 0}, {"V", ".Tw", viewWide, 0}, {"V", ".E", viewScalar, 0},
	{"V", ".E[i]", laneIndex, 0}, {"V", ".E[j]", laneSecond, 0}, {"V", ".E[h]", laneFloat, 0},
	{"H", "", viewFixed, H1}, {"S", "", viewFixed, S1}, {"D", "", viewFixed, D1}, {"Q", "", viewFixed, Q1},
}

var positions = map[string]uint8{"d": 0, "n": 5, "a": 10, "m": 16}

// parseForm returns the slots of a form, which the package's tables contain.
func parseForm(form string) []slot {
	var slots []slot
	for rest := form; rest != ""; {
		word := rest
		if i := strings.Index(rest, ", "); i >= 0 && rest[0] != '[' { // memory comes last
			word = rest[:i]
		}
		rest = strings.TrimPrefix(rest[len(word):], ", ")
		slots = append(slots, parseWord(word))
	}
	return slots
}

func parseWord(word string) slot {
	if kind, ok := words[word]; ok {
		return slot{kind: kind}
	}
	if word == "Vnm.T" {
		return slot{kind: viewTwice, pos: positions["n"]}
	}
	name, sp := strings.CutSuffix(word, "|SP")
	for _, r := range registers {
		letter, ok := strings.CutPrefix(name, r.before)
		if !ok {
			continue
		}
		letter, ok = strings.CutSuffix(letter, r.after)
		if pos, known := positions[letter]; ok && known {
			return slot{kind: r.kind, pos: pos, sp: sp, fixed: r.fixed}
		}
	}
	panic("arm64: the table has the unknown word " + word)
}

// sizing is how a row's bits depend on its arrangement.
type sizing uint8

const (
	noSize      sizing = iota
	fullOnly           // bit 30 for 128 bits
	intSize            // and the element's size in bits 22 and 23
	floatSize          // and bit 22 for binary64
	narrowFloat        // and bit 22 for binary32, of the narrower element
	unshifted          // and the element's size where a shift has its amount, which is 0
	fromGeneral        // and the element's size in bits 16 to 20
	wholeIfD           // bit 30 for elements of 64 bits
	scalarSize         // bit 22 for binary64
	listSize           // bit 30, and the element's size in bits 10 and 11
	accessT            // loads and stores of a vector register
	pairT              // of two
	access1            // of 1, 2, 4 or 8 bytes of a general register
	access2
	access4
	access8
)

// sizeBits returns the bits for arrangement t.
func (s sizing) sizeBits(t Arrangement) uint32 {
	full := t.q() << 30
	switch s {
	case fullOnly:
		return full
	case intSize:
		return full | t.size()<<22
	case floatSize:
		return full | (t.size()-2)<<22
	case narrowFloat:
		return full | (t.size()-1)<<22
	case unshifted:
		return full | 8<<t.size()<<16
	case fromGeneral:
		return full | 1<<t.size()<<16
	case wholeIfD:
		return t.size() / 3 << 30
	case scalarSize:
		return (t.size() - 2) << 22
	case listSize:
		return full | t.size()<<10
	case accessT:
		return t.size()&3<<30 | t.size()>>2<<23
	case pairT:
		return (t.size() - 2) << 30
	}
	return 0
}

// bytes returns log2 of the bytes that the row accesses per register.
func (s sizing) bytes(t Arrangement) uint32 {
	if s >= access1 {
		return uint32(s - access1)
	}
	return t.size()
}
