package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"tokitai/def"
)

// Program is a list of calls over named values. It is immutable.
type Program struct {
	Values  []*Value
	Calls   []*Call
	Buffers []int64 // sizes, in bytes, of the buffers that results share

	buffer map[*Value]int
	once   map[*Value]bool // results of calls that read weights alone, which keep their memory until the weights change; nil for none
}

// IsOnce reports whether a call has results that depend on weights alone, in a program that makes such calls apart from others: a
// joined one.
func (p *Program) IsOnce(c *Call) bool {
	return slices.ContainsFunc(c.Operands, func(r Ref) bool { return p.once[r.value] && c.writes(r.value) })
}

// writes reports whether a value is an output of the call.
func (c *Call) writes(v *Value) bool {
	for i, r := range c.Operands {
		if r.value == v && c.Definition.Operands[i].IsOut {
			return true
		}
	}
	return false
}

// Value returns a value by name, or nil.
func (p *Program) Value(name string) *Value {
	for _, v := range p.Values {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// Of returns the values of a kind, in the order of their names.
func (p *Program) Of(k Kind) []*Value {
	var list []*Value
	for _, v := range p.Values {
		if v.Kind == k {
			list = append(list, v)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// Bytes returns the memory of results that are not kept.
func (p *Program) Bytes() int64 {
	n := int64(0)
	for v := range p.once {
		n += v.Bytes()
	}
	for _, size := range p.Buffers {
		n += size
	}
	return n
}

// Text returns all that decides a bit of the program's results: its definitions by their hashes,
// the values that it is given, and the calls. Two programs with the same text compute the same.
func (p *Program) Text() string {
	var s strings.Builder
	s.WriteString("program 1\n")
	known := map[*def.Definition]bool{}
	for _, c := range p.Calls {
		if !known[c.Definition] {
			known[c.Definition] = true
			fmt.Fprintf(&s, "definition %s %s\n", c.Definition.Name, c.Definition.Hash())
		}
	}
	for _, v := range p.Values {
		if v.Kind != Result {
			fmt.Fprintf(&s, "%s %s %v%s\n", v.Kind, v.Name, v.DType, shapeText(v.Shape))
		}
	}
	for _, c := range p.Calls {
		s.WriteString(c.String() + "\n")
	}
	return s.String()
}

// Identity returns the SHA-256 of the text, in hexadecimal.
func (p *Program) Identity() string {
	sum := sha256.Sum256([]byte(p.Text()))
	return hex.EncodeToString(sum[:])
}

// String returns the call as it stands in the text of a program.
func (c *Call) String() string {
	var outputs, inputs []string
	for i, r := range c.Operands {
		if c.Definition.Operands[i].IsOut {
			outputs = append(outputs, r.String()+" "+r.value.DType.String()+shapeText(r.value.Shape))
		} else {
			inputs = append(inputs, r.String())
		}
	}
	for i, p := range c.Params {
		text := p.Variable
		if text == "" {
			text = strconv.FormatFloat(p.Number, 'g', -1, 64)
		}
		inputs = append(inputs, c.Definition.Params[i].Name+"="+text)
	}
	return strings.Join(outputs, ", ") + " = " + c.Definition.Name + " " + strings.Join(inputs, ", ")
}
