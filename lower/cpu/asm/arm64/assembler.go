package arm64

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"tokitai/lower/cpu/asm"
)

// Assembler collects the instructions of one piece of code. The first error is what Finish
// returns.
type Assembler struct {
	asm.Base[Label]

	fixups    []fixup
	constants []constant
	shared    map[string]Label // the constant with this alignment and data
	records   []record
	operands  []Operand // of all records
	finished  bool
}

// fixup is an instruction that refers to a label.
type fixup struct {
	at    int32
	label Label
	kind  slotKind
}

// constant is data behind the code, at a label.
type constant struct {
	data  []byte
	align int
	label Label
}

// record is what Listing needs of an instruction.
type record struct {
	row          *compiled
	first, count int32 // in operands
}

// New returns an empty Assembler.
func New() *Assembler { return &Assembler{} }

// Constant returns the label of data, for LDR and ADR. It is placed after the code at a
// multiple of align, a power of two from 4 to 64; equal constants share their place.
func (a *Assembler) Constant(data []byte, align int) Label {
	if align < 4 || align > 64 || align&(align-1) != 0 {
		a.Fail(fmt.Errorf("constant: alignment %d, want a power of two from 4 to 64", align))
	}
	key := string(append([]byte{byte(align)}, data...))
	if l, ok := a.shared[key]; ok {
		return l
	}
	if a.shared == nil {
		a.shared = make(map[string]Label)
	}
	l := a.Label()
	a.shared[key] = l
	a.constants = append(a.constants, constant{[]byte(key[1:]), align, l})
	return l
}

// Uint32 returns the constant x, four bytes.
func (a *Assembler) Uint32(x uint32) Label {
	return a.Constant(binary.LittleEndian.AppendUint32(nil, x), 4)
}

// Float32 returns the constant x, four bytes.
func (a *Assembler) Float32(x float32) Label { return a.Uint32(math.Float32bits(x)) }

// Uint64 returns the constant x, eight bytes.
func (a *Assembler) Uint64(x uint64) Label {
	return a.Constant(binary.LittleEndian.AppendUint64(nil, x), 8)
}

// I assembles an instruction, operands in the order of the architecture's assembly language:
// the destination first, except of stores.
func (a *Assembler) I(op Op, operands ...Operand) {
	if a.finished {
		a.Fail(fmt.Errorf("%v: the code is finished", op))
		return
	}
	if op >= numOps {
		a.Fail(fmt.Errorf("unknown instruction %v", op))
		return
	}
	rows := table()[op]
	var specific fault
	for i := range rows {
		word, f := rows[i].encode(operands)
		if !f.bad {
			a.append(&rows[i], word, operands)
			return
		}
		if f.what != "" {
			specific = f
		}
	}
	if specific.bad {
		a.Fail(fmt.Errorf("%v %s: %w", op, join(operands), specific))
		return
	}
	var forms []string
	for i := range rows {
		forms = append(forms, rows[i].form)
	}
	a.Fail(fmt.Errorf("%v %s: operands do not fit, want one of: %s", op, join(operands), strings.Join(forms, "; ")))
}

func join(operands []Operand) string {
	var texts []string
	for _, o := range operands {
		texts = append(texts, o.String())
	}
	return strings.Join(texts, ", ")
}

// V assembles an instruction whose operands are all vector registers of one arrangement.
func (a *Assembler) V(op Op, t Arrangement, regs ...Vec) {
	operands := make([]Operand, len(regs))
	for i, r := range regs {
		operands[i] = r.As(t)
	}
	a.I(op, operands...)
}

// append appends an instruction.
func (a *Assembler) append(r *compiled, word uint32, operands []Operand) {
	if a.records == nil {
		a.Code = make([]byte, 0, 1<<12)
		a.records = make([]record, 0, 1<<10)
		a.operands = make([]Operand, 0, 1<<11)
	}
	for i, s := range r.slots {
		if s.kind >= label26 {
			l := operands[i].(Label)
			if !a.Knows(l) {
				return
			}
			a.fixups = append(a.fixups, fixup{int32(len(a.Code)), l, s.kind})
		}
	}
	a.records = append(a.records, record{r, int32(len(a.operands)), int32(len(operands))})
	a.operands = append(a.operands, operands...)
	a.Code = binary.LittleEndian.AppendUint32(a.Code, word)
}

// Align appends NOPs up to a multiple of n bytes, a power of two from 4 to 64.
func (a *Assembler) Align(n int) {
	if n < 4 || n > 64 || n&(n-1) != 0 {
		a.Fail(fmt.Errorf("align: %d, want a power of two from 4 to 64", n))
		return
	}
	for len(a.Code)%n != 0 && a.Err() == nil {
		a.I(NOP)
	}
}

// Finish resolves labels, appends the constants and returns the code, or the first
// error of all. The code must be loaded at an address that is a multiple of 64.
func (a *Assembler) Finish() ([]byte, error) {
	if a.Err() != nil || a.finished {
		return a.Code, a.Err()
	}
	for _, c := range a.constants {
		for len(a.Code)%c.align != 0 {
			a.Code = append(a.Code, 0) // udf
		}
		a.Bind(c.label)
		a.Code = append(a.Code, c.data...)
	}
	for _, f := range a.fixups {
		if a.Place(f.label) == asm.Unbound {
			a.Fail(fmt.Errorf("label %v is not bound", f.label))
			return nil, a.Err()
		}
		distance := int64(a.Place(f.label) - f.at)
		bits, limit := f.kind.branch(distance)
		if distance < -limit || distance >= limit {
			a.Fail(fmt.Errorf("label %v is %d bytes away, want less than %d", f.label, distance, limit))
			return nil, a.Err()
		}
		word := binary.LittleEndian.Uint32(a.Code[f.at:])
		binary.LittleEndian.PutUint32(a.Code[f.at:], word|bits)
	}
	a.finished = true
	return a.Code, nil
}

// branch returns the bits of a distance to a label, and how far it may be.
func (k slotKind) branch(distance int64) (bits uint32, limit int64) {
	words := uint32(distance >> 2)
	switch k {
	case label26:
		return words & 0x03ffffff, 1 << 27
	case label19:
		return words & 0x7ffff << 5, 1 << 20
	case label14:
		return words & 0x3fff << 5, 1 << 15
	}
	return uint32(distance)&3<<29 | words&0x7ffff<<5, 1 << 20 // label21
}
