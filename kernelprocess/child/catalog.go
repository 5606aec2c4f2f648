package child

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/kernelprocess/protocol"
	"tokitai/op"
)

// catalog holds the definitions that can be called: those of operations by name, and all of
// them by identity.
type catalog struct {
	byName     map[string]*entry
	byIdentity map[string]*entry
	list       []protocol.Definition // the reply to LIST
	defined    int                   // how many came by DEFINE
}

type entry struct {
	*def.Definition
	operation *op.Operation
	derive    func(*def.Definition, engine.Params) (engine.Params, error)
}

func newCatalog(operations []*op.Operation) *catalog {
	c := &catalog{byName: map[string]*entry{}, byIdentity: map[string]*entry{}}
	for _, o := range operations {
		for _, d := range o.Definitions {
			e := c.byName[d.Name]
			if e == nil {
				e = &entry{Definition: d, operation: o}
				c.byName[d.Name] = e
				c.byIdentity[identityOf(d)] = e
				c.list = append(c.list, described(d, d.Name))
			}
			if o.Derive != nil {
				e.derive = o.Derive
			}
		}
	}
	return c
}

func identityOf(d *def.Definition) string { return protocol.IdentityPrefix + d.Hash() }

// described returns a definition as LIST has it, under the name that CALL takes.
func described(d *def.Definition, name string) protocol.Definition {
	described := protocol.Definition{Name: name}
	for i := range d.Operands {
		described.Operands = append(described.Operands, protocol.OperandUse{Name: d.Operands[i].Name, Access: access(&d.Operands[i])})
	}
	for _, p := range d.Params {
		described.Params = append(described.Params, p.Name)
	}
	return described
}

func access(o *def.Operand) (a uint8) {
	if o.IsIn {
		a |= protocol.IsRead
	}
	if o.IsOut {
		a |= protocol.IsWritten
	}
	return a
}

// find returns a definition by name or identity.
func (c *catalog) find(name string) (*entry, error) {
	if e := c.byName[name]; e != nil {
		return e, nil
	}
	if e := c.byIdentity[name]; e != nil {
		return e, nil
	}
	want := "one that LIST tells"
	if strings.HasPrefix(name, protocol.IdentityPrefix) {
		want = "one that DEFINE has sent"
	}
	family, _, _ := strings.Cut(name, ".")
	var near []string
	for known := range c.byName {
		if family != "" && strings.HasPrefix(known, family) {
			near = append(near, known)
		}
	}
	if len(near) > 0 {
		slices.Sort(near)
		want = strings.Join(near, ", ")
	}
	return nil, &device.ArgumentError{Op: "CALL", Operand: "definition", Got: fmt.Sprintf("is %q", name), Want: want}
}

const (
	maxDefined   = 1024 // definitions by DEFINE
	parsingBytes = 256  // of memory for a byte of text while it is parsed, about
	nodeBytes    = 256  // of memory for a node of a definition, about
)

// define answers DEFINE, whose body is the text of a definition. A definition that is known
// already gets the same reply.
func (s *server) define(text []byte) error {
	if len(text) > def.MaxText {
		return badText(fmt.Sprintf("has %d bytes", len(text)), fmt.Sprintf("at most %d", def.MaxText))
	}
	sum := sha256.Sum256(text)
	e := s.definitions.byIdentity[protocol.IdentityPrefix+hex.EncodeToString(sum[:])] // found if the text is canonical
	if e == nil {
		d, err := s.parse(text)
		if err != nil {
			return err
		}
		if e, err = s.enter(d); err != nil {
			return err
		}
	}
	s.start = formOf(e.Definition).Append(s.start)
	return nil
}

func badText(got, want string) error {
	return &device.ArgumentError{Op: "DEFINE", Operand: "definition", Got: got, Want: want}
}

// parse reads the text of a definition, within the memory limit.
func (s *server) parse(text []byte) (*def.Definition, error) {
	bytes := parsingBytes*int64(len(text)) + nodeBytes*def.MaxNodes
	if err := s.memory.take(forState, bytes); err != nil {
		return nil, err
	}
	defer s.memory.giveBack(forState, bytes)
	d, err := def.Parse(string(text), fn.All...)
	if err != nil {
		return nil, err
	}
	if len(d.Params) > protocol.MaxParams {
		return nil, badText(fmt.Sprintf("has %d parameters", len(d.Params)), fmt.Sprintf("at most %d", protocol.MaxParams))
	}
	return d, nil
}

// enter keeps a definition, unless one of its identity is known.
func (s *server) enter(d *def.Definition) (*entry, error) {
	c, identity := s.definitions, identityOf(d)
	if e := c.byIdentity[identity]; e != nil {
		return e, nil
	}
	if c.defined == maxDefined {
		return nil, badText(fmt.Sprintf("is one more than %d", maxDefined), "fewer, or another process")
	}
	if err := s.memory.take(forState, int64(len(d.Text()))+nodeBytes*int64(len(d.Math().Nodes)+len(d.Exec().Nodes))); err != nil {
		return nil, err
	}
	e := &entry{Definition: d, operation: op.Of(d, "")}
	c.byIdentity[identity] = e
	c.list = append(c.list, described(d, identity))
	c.defined++
	return e, nil
}

// formOf returns the good reply to a DEFINE.
func formOf(d *def.Definition) *protocol.Defined {
	m := &protocol.Defined{Identity: identityOf(d), Name: d.Name}
	for i := range d.Operands {
		o := &d.Operands[i]
		m.Operands = append(m.Operands, protocol.OperandForm{Name: o.Name, Access: access(o), Dims: o.Dims, DTypes: o.DTypes.Allowed, Like: o.DTypes.Like})
	}
	for i := range d.Params {
		p := &d.Params[i]
		m.Params = append(m.Params, protocol.ParamForm{Name: p.Name, IsInt: p.IsInt, Default: p.Default})
	}
	return m
}
