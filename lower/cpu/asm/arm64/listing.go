package arm64

import (
	"fmt"
	"strings"
)

// Listing returns the code as text: for each instruction its offset, its bits, its name
// and operands as GNU as writes them, and the comments recorded before it. Labels and constants
// are named L with their numbers.
func (a *Assembler) Listing() string {
	var b strings.Builder
	for _, l := range a.lines() {
		switch {
		case l.bytes == nil:
			b.WriteString(l.text)
		case l.isConstant:
			fmt.Fprintf(&b, "%6x  % x", l.offset, l.bytes)
		case l.remark == "":
			fmt.Fprintf(&b, "%6x  %02x%02x%02x%02x  %s", l.offset, l.bytes[3], l.bytes[2], l.bytes[1], l.bytes[0], l.text)
		default:
			fmt.Fprintf(&b, "%6x  %02x%02x%02x%02x  %-42s // %s", l.offset, l.bytes[3], l.bytes[2], l.bytes[1], l.bytes[0], l.text, l.remark)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// line is a label, an instruction, a constant or a comment behind the last instruction.
type line struct {
	offset     int
	bytes      []byte // of an instruction or a constant
	text       string // in the syntax of GNU as
	remark     string
	isConstant bool
}

func (a *Assembler) lines() []line {
	var lines []line
	remarks := a.Remarks()
	before := func(at int) string {
		labels, remark := remarks(at)
		for _, l := range labels {
			lines = append(lines, line{offset: at, text: l.String() + ":"})
		}
		return remark
	}
	for i, r := range a.records {
		at := 4 * i
		remark := before(at)
		lines = append(lines, line{
			offset: at, bytes: a.Code[at:][:4:4], remark: remark,
			text: r.row.text(a.operands[r.first:][:r.count]),
		})
	}
	if remark := before(4 * len(a.records)); remark != "" {
		lines = append(lines, line{offset: 4 * len(a.records), text: "// " + remark})
	}
	for _, c := range a.constants {
		if at := int(a.Place(c.label)); a.finished {
			before(at)
			bytes := strings.Join(strings.Fields(fmt.Sprint(c.data)), ", ")
			lines = append(lines, line{offset: at, bytes: c.data, text: ".byte " + strings.Trim(bytes, "[]"), isConstant: true})
		}
	}
	return lines
}

// text returns an instruction in the syntax of GNU as.
func (c *compiled) text(operands []Operand) string {
	var b strings.Builder
	b.WriteString(c.name)
	separator := " "
	for i, o := range operands {
		if c.slots[i].kind == condSuffix {
			fmt.Fprintf(&b, ".%v", o)
			continue
		}
		b.WriteString(separator)
		separator = ", "
		switch l, isElement := o.(Element); {
		case c.slots[i].kind == laneList && isElement:
			fmt.Fprintf(&b, "{v%d.%s}[%d]", l.Reg, l.T, l.Index)
		default:
			b.WriteString(o.String())
		}
	}
	return b.String()
}
