package isa

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// The tables of opcodes. A row is
//
//	encoding opcode mnemonic results = operands [short] [@architectures]
//
// with results and operands in the order of the assembly's text. Each is a type (type.go),
// with "s." before it for a scalar register in a vector register's field, "a." for an
// accumulation register, and "?" after it if only the bit glc adds the result. The words
// that are no types:
//
//	i16 u16           in SOPK, the constant of 16 bits, sign-extended or not
//	decimal hex       in SOPP, the constant of 16 bits and how it is printed
//	optional          the same, printed if it is not 0
//	branch            a branch's distance
//	hwreg message waitcnt delay depctr gpr_idx version   constants with a notation of their own
//	k                 a literal of 32 bits after the instruction
//	imm               a small constant in the result's field
//	offset            SMEM's offset: a constant, a register, or both
//	addr base buffer  the address of an access to memory
//	offsets swizzle   how a DS instruction uses its 16 bits of offset, if not as one offset
//	gds               the instruction is of the global data share
//
// "short" marks instructions of VOP1 and VOP2 without a long form. All others, and VOPC's,
// have one in VOP3, at a fixed distance from their own opcode. A row with "@" is of
// architectures whose names begin so.
var (
	//go:embed gfx9.txt
	gfx9Text string
	//go:embed gfx11.txt
	gfx11Text string
)

// slotKind is what a word of a row says.
type slotKind uint8

const (
	slotValue slotKind = iota // a typed register or constant
	slotDecimal
	slotHex
	slotOptional
	slotSigned16
	slotUnsigned16
	slotBranch
	slotHwreg
	slotMessage
	slotWaitcnt
	slotDelay
	slotDepctr
	slotGPRIndex
	slotVersion
	slotLiteral
	slotSmall
	slotOffset
	slotAddress
	slotBase
	slotBuffer
	slotOffsets
	slotSwizzle
	slotGDS
)

var slotNames = map[string]slotKind{
	"decimal": slotDecimal, "hex": slotHex, "optional": slotOptional, "branch": slotBranch,
	"hwreg": slotHwreg, "message": slotMessage, "waitcnt": slotWaitcnt, "delay": slotDelay,
	"depctr": slotDepctr, "gpr_idx": slotGPRIndex, "version": slotVersion, "k": slotLiteral, "imm": slotSmall,
	"offset": slotOffset, "addr": slotAddress, "base": slotBase, "buffer": slotBuffer,
	"offsets": slotOffsets, "swizzle": slotSwizzle, "gds": slotGDS,
}

// slot is one result or operand of a row.
type slot struct {
	kind     slotKind
	typ      Type
	register Kind // SGPR or AGPR where the row says so
	optional bool
}

// form is a row.
type form struct {
	encoding Encoding
	opcode   int
	name     string
	results  []slot
	operands []slot
	short    bool // of VOP1 and VOP2: has no long form
}

// has reports whether the row has an operand of the given kind.
func (f *form) has(k slotKind) bool {
	for _, s := range f.operands {
		if s.kind == k {
			return true
		}
	}
	return false
}

// valueCount returns how many of the slots have types.
func valueCount(list []slot) (n int) {
	for _, s := range list {
		if s.kind == slotValue {
			n++
		}
	}
	return n
}

// table holds the rows of an architecture, by encoding and opcode.
type table [encodings][]*form

func (t *table) find(e Encoding, opcode int) *form {
	if opcode >= len(t[e]) {
		return nil
	}
	return t[e][opcode]
}

func (t *table) add(e Encoding, opcode int, f *form) {
	for len(t[e]) <= opcode {
		t[e] = append(t[e], nil)
	}
	t[e][opcode] = f
}

// vop3Base returns the opcode in VOP3 of the first instruction of VOP1, VOP2 or VOPC.
func vop3Base(f Family, e Encoding) int {
	switch {
	case e == VOPC:
		return 0
	case e == VOP2:
		return 0x100
	case f == GFX11:
		return 0x180
	}
	return 0x140
}

var tables struct {
	sync.Mutex
	of map[string]*table
}

// tableOf returns the table of an architecture.
func tableOf(a Architecture) (*table, error) {
	tables.Lock()
	defer tables.Unlock()
	if t := tables.of[a.Name]; t != nil {
		return t, nil
	}
	known, err := Lookup(a.Name)
	if err != nil {
		return nil, err
	}
	t := &table{}
	text := gfx9Text
	if known.Family == GFX11 {
		text = gfx11Text
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		if strings.HasPrefix(line, "#") {
			continue
		}
		f, of, err := parseRow(line)
		if err != nil {
			return nil, fmt.Errorf("table of %s: line %d: %w", a.Name, number, err)
		}
		if !matches(a.Name, of) {
			continue
		}
		t.add(f.encoding, f.opcode, f)
		switch f.encoding {
		case VOP1, VOP2, VOPC:
			if !f.short {
				t.add(VOP3, vop3Base(known.Family, f.encoding)+f.opcode, f)
			}
		}
	}
	if tables.of == nil {
		tables.of = map[string]*table{}
	}
	tables.of[a.Name] = t
	return t, nil
}

// matches reports whether a name begins with one of a list of prefixes, or the list is
// empty.
func matches(name, prefixes string) bool {
	for _, p := range strings.Split(prefixes, ",") {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

func parseRow(line string) (f *form, architectures string, err error) {
	words := strings.Fields(line)
	if len(words) < 4 {
		return nil, "", fmt.Errorf("row of %d words: want at least 4", len(words))
	}
	f = &form{name: words[2]}
	if f.encoding, err = parseEncoding(words[0]); err != nil {
		return nil, "", err
	}
	if f.opcode, err = strconv.Atoi(words[1]); err != nil {
		return nil, "", err
	}
	list := &f.results
	for _, w := range words[3:] {
		switch {
		case w == "=":
			list = &f.operands
		case w == "short":
			f.short = true
		case strings.HasPrefix(w, "@"):
			architectures = w[1:]
		default:
			s, err := parseSlot(f.encoding, w)
			if err != nil {
				return nil, "", err
			}
			*list = append(*list, s)
		}
	}
	return f, architectures, nil
}

func parseSlot(e Encoding, w string) (slot, error) {
	if k, ok := slotNames[w]; ok {
		return slot{kind: k}, nil
	}
	if e == SOPK && w == "i16" {
		return slot{kind: slotSigned16}, nil
	}
	if e == SOPK && w == "u16" {
		return slot{kind: slotUnsigned16}, nil
	}
	s := slot{}
	w, s.optional = strings.CutSuffix(w, "?")
	switch {
	case strings.HasPrefix(w, "s."):
		s.register, w = SGPR, w[2:]
	case strings.HasPrefix(w, "a."):
		s.register, w = AGPR, w[2:]
	}
	t, ok := parseType(w)
	if !ok {
		return s, fmt.Errorf("operand %q: unknown", w)
	}
	s.typ = t
	return s, nil
}
