package protocol

import (
	"math"

	"tokitai/num"
)

// IdentityPrefix begins the identity of a definition; its SHA-256 in hexadecimal follows.
const IdentityPrefix = "def:"

// Defined is the good reply to a DEFINE: what a client needs to call the definition.
type Defined struct {
	Identity string // what a CALL names it by
	Name     string
	Operands []OperandForm
	Params   []ParamForm
}

// OperandForm is an operand of a definition.
type OperandForm struct {
	Name   string
	Access uint8
	Dims   []string    // sizes by letter
	DTypes []num.DType // that it may be stored in
	Like   string      // an operand whose dtype it may have too, or ""
}

// ParamForm is a parameter of a definition.
type ParamForm struct {
	Name    string
	IsInt   bool
	Default *float64 // nil where a call has to give it
}

// Append adds the body to b.
func (m *Defined) Append(b []byte) []byte {
	b = appendString(appendString(b, m.Identity), m.Name)
	b = appendU32(b, uint32(len(m.Operands)))
	for i := range m.Operands {
		o := &m.Operands[i]
		b = append(appendString(b, o.Name), o.Access)
		b = appendU32(b, uint32(len(o.Dims)))
		for _, letter := range o.Dims {
			b = appendString(b, letter)
		}
		b = appendU32(b, uint32(len(o.DTypes)))
		for _, d := range o.DTypes {
			b = append(b, dtypeNumber(d))
		}
		b = appendString(b, o.Like)
	}
	b = appendU32(b, uint32(len(m.Params)))
	for i := range m.Params {
		b = m.Params[i].append(b)
	}
	return b
}

func (p *ParamForm) append(b []byte) []byte {
	b = append(appendString(b, p.Name), bit(p.IsInt), bit(p.Default != nil))
	value := 0.0
	if p.Default != nil {
		value = *p.Default
	}
	return appendU64(b, math.Float64bits(value))
}

func bit(isSet bool) uint8 {
	if isSet {
		return 1
	}
	return 0
}

// ParseDefined is the inverse of Append.
func ParseDefined(body []byte) (m Defined, err error) {
	r := reader{rest: body}
	m.Identity, m.Name = r.string("identity"), r.string("name")
	m.Operands = make([]OperandForm, r.countUpTo(maxOperands, "operands", 17))
	for i := range m.Operands {
		o := &m.Operands[i]
		o.Name, o.Access = r.string("operand"), r.access()
		o.Dims = make([]string, r.count("sizes", 4))
		for k := range o.Dims {
			o.Dims[k] = r.string("size")
		}
		o.DTypes = make([]num.DType, r.count("dtypes", 1))
		for k := range o.DTypes {
			o.DTypes[k] = r.dtype()
		}
		o.Like = r.string("like")
	}
	m.Params = make([]ParamForm, r.countUpTo(MaxParams, "parameters", 14))
	for i := range m.Params {
		p := &m.Params[i]
		p.Name, p.IsInt = r.string("parameter"), r.bit("int32")
		hasDefault, value := r.bit("default"), r.f64("default")
		switch {
		case hasDefault:
			p.Default = &value
		case math.Float64bits(value) != 0:
			r.fail("the default is %v where there is none, want 0", value)
		}
	}
	return m, r.end()
}

func (r *reader) bit(what string) bool {
	v := r.u8(what)
	if v > 1 {
		r.fail("%s is %d, want 0 or 1", what, v)
	}
	return v == 1
}
