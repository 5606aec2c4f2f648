package isa

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Decode decodes code, whose first byte is at the offset base, to its end. An error names the
// offset, the encoding, the opcode and the words of the instruction that is not known.
func Decode(a Architecture, code []byte, base uint64) ([]Instruction, error) {
	t, err := tableOf(a)
	if err != nil {
		return nil, err
	}
	list := make([]Instruction, 0, len(code)/6)
	for at := 0; at < len(code); {
		list = append(list, Instruction{})
		d := &decoder{family: a.Family, arch: a.Name, table: t, code: code[at:], in: &list[len(list)-1]}
		err := d.decode()
		if err == nil {
			err = d.in.validate()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: offset %#x: %w: words %s", a.Name, base+uint64(at), err, hexWords(code[at:]))
		}
		d.in.Offset = base + uint64(at)
		at += d.in.Size
	}
	return list, nil
}

// hexWords returns the first words of code, at most three.
func hexWords(code []byte) string {
	var words []string
	for len(code) >= 4 && len(words) < 3 {
		words = append(words, fmt.Sprintf("%08x", binary.LittleEndian.Uint32(code)))
		code = code[4:]
	}
	if len(words) < 3 && len(code) > 0 {
		words = append(words, fmt.Sprintf("and bytes % x", code))
	}
	return strings.Join(words, " ")
}

// decoder decodes one instruction.
type decoder struct {
	family Family
	arch   string
	table  *table
	code   []byte // from the instruction's first byte
	in     *Instruction

	literal    uint32
	hasLiteral bool

	neg, abs int // of the operands, before they are decoded
}

var errTruncated = errors.New("instruction is cut off by the end of the code")

// word returns the next word of the instruction.
func (d *decoder) word() (uint32, error) {
	if len(d.code) < d.in.Size+4 {
		return 0, errTruncated
	}
	w := binary.LittleEndian.Uint32(d.code[d.in.Size:])
	d.in.Size += 4
	return w, nil
}

// readLiteral reads the literal behind the instruction, once.
func (d *decoder) readLiteral() (err error) {
	if !d.hasLiteral {
		d.literal, err = d.word()
		d.hasLiteral = err == nil
	}
	return err
}

// field returns the bits low to low+width-1 of x.
func field[T uint32 | uint64](x T, low, width int) int {
	return int(x >> low & (1<<width - 1))
}

// signed returns a field of the given width, sign-extended.
func signed(x, width int) int64 {
	return int64(x) << (64 - width) >> (64 - width)
}

// begin finds the row of an opcode and fills in what every instruction has.
func (d *decoder) begin(e Encoding, opcode int) (*form, error) {
	f := d.table.find(e, opcode)
	if f == nil {
		return nil, fmt.Errorf("encoding %s: opcode %d: unknown", e, opcode)
	}
	d.in.Encoding = e
	d.in.Name = f.name
	d.in.form = f
	d.in.family, d.in.architecture = d.family, d.arch
	return f, nil
}

// decode decodes the instruction by the leading bits of its first word.
func (d *decoder) decode() error {
	w, err := d.word()
	if err != nil {
		return err
	}
	d.in.raw = uint64(w)
	switch {
	case w>>31 == 0:
		return d.shortVector(w)
	case w>>23 == 0x17d:
		return d.sop1(w)
	case w>>23 == 0x17e:
		return d.sopc(w)
	case w>>23 == 0x17f:
		return d.sopp(w)
	case w>>28 == 0xb:
		return d.sopk(w)
	case w>>30 == 2:
		return d.sop2(w)
	}
	second, err := d.word()
	if err != nil {
		return err
	}
	x := uint64(w) | uint64(second)<<32
	d.in.raw = x
	top := w >> 26
	if d.family == GFX11 {
		switch {
		case top == 0x35:
			return d.vop3(x)
		case w>>24 == 0xcc:
			return d.vop3p(x)
		case top == 0x32:
			return d.vopd(x)
		case top == 0x3d:
			return d.smem11(x)
		case w>>24 == 0xcd:
			return errors.New("encoding VINTERP: not decoded")
		case w>>24 == 0xce:
			return errors.New("encoding LDSDIR: not decoded")
		case top == 0x3c:
			return errors.New("encoding MIMG: not decoded")
		case top == 0x3e:
			return errors.New("encoding EXP: not decoded")
		}
	} else {
		switch {
		case w>>23 == 0x1a7:
			return d.vop3p(x)
		case top == 0x34:
			return d.vop3(x)
		case top == 0x30:
			return d.smem9(x)
		}
	}
	switch top {
	case 0x36:
		return d.ds(x)
	case 0x37:
		return d.flat(x)
	case 0x38:
		return d.mubuf(x)
	case 0x3a:
		return errors.New("encoding MTBUF: not decoded")
	}
	return errors.New("encoding: unknown")
}
