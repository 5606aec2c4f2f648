package def

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"tokitai/num"
)

// Contract is what a definition promises its callers.
type Contract struct {
	Operation string
	Formula   []string
	Operands  []Term
	Params    []string
	Clauses   []Clause
}

// Term describes one operand in a contract.
type Term struct {
	Name, Shape, DTypes, Note string
}

// Clause is a numbered promise. Error messages and test names refer to its ID.
type Clause struct {
	ID, Text string
}

// Contract returns the definition's contract.
func (d *Definition) Contract() Contract {
	c := Contract{Operation: d.Name, Formula: d.formula}
	for i := range d.Operands {
		o := &d.Operands[i]
		shape := strings.Join(o.Dims, ",")
		switch {
		case d.IsFlat() && o.Extent == PerElement:
			shape = "any"
		case len(o.Dims) == 0:
			shape = "one"
		}
		c.Operands = append(c.Operands, Term{Name: o.Name, Shape: shape, DTypes: o.DTypes.String(), Note: d.note(o)})
	}
	for _, p := range d.Params {
		c.Params = append(c.Params, p.Name)
	}
	for i, text := range d.clauses {
		c.Clauses = append(c.Clauses, Clause{ID: fmt.Sprintf("C%d", i+1), Text: text})
	}
	return c
}

// note returns how an operand is used, and what it may share memory with.
func (d *Definition) note(o *Operand) string {
	switch {
	case o.IsIn && o.IsOut:
		return "read, then written in place"
	case o.IsIndex:
		return indexNote(*o)
	case o.IsTable():
		return "read in the rows that " + strings.Join(d.indicesOf(o), " and ") + " name; no output may overlap it"
	case !o.IsOut:
		return ""
	}
	note := "fully written"
	if partners := d.InPlacePartners(o); len(partners) > 0 {
		note += "; may be " + strings.Join(partners, " or ") + " itself"
	}
	return note
}

// InPlacePartners returns the names of the inputs that an output may replace in
// place: for an element output of a rowwise definition, the element inputs that can
// be stored in its format. Every other overlap is an error.
func (d *Definition) InPlacePartners(out *Operand) []string {
	var names []string
	for i := range d.Operands {
		if in := &d.Operands[i]; d.MayReplace(out, in) {
			names = append(names, in.Name)
		}
	}
	return names
}

// MayReplace reports whether out may use exactly the memory of in: one is only
// written, the other only read, each element for its own column alone. An operand that is read and written
// needs no partner.
func (d *Definition) MayReplace(out, in *Operand) bool {
	return d.Expression() != nil && out.Extent == PerElement && in.Extent == PerElement &&
		out.IsOut && !out.IsIn && in.IsIn && !in.IsOut && (d.share(out, in) || out.holdsInt32() && in.holdsInt32()) && !d.isPaired(in)
}

// isPaired reports whether an element of an operand is read for the other column of its pair.
func (d *Definition) isPaired(o *Operand) bool {
	return slices.ContainsFunc(d.Exec().Nodes, func(n *Node) bool {
		return n.Op == OpPartner && n.Args[0].Op != OpLookup && d.Operands[n.Args[0].Operand].Name == o.Name
	})
}

// share reports whether two operands can be stored in the same format.
func (d *Definition) share(a, b *Operand) bool {
	for _, f := range num.FloatDTypes {
		if d.allows(a, f) && d.allows(b, f) {
			return true
		}
	}
	return false
}

// allows reports whether an operand may be stored in a format.
func (d *Definition) allows(o *Operand, f num.DType) bool {
	return slices.Contains(o.DTypes.Allowed, f) || o.DTypes.Like != "" && d.allows(&d.Operands[d.Operand(o.DTypes.Like)], f)
}

// Table returns the contract as a table, for the package comment of the operation.
func (c Contract) Table() string {
	var s strings.Builder
	for _, f := range c.Formula {
		fmt.Fprintln(&s, f)
	}
	s.WriteString("\n")
	w := tabwriter.NewWriter(&s, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "operand\tshape\tdtypes\tnote")
	for _, o := range c.Operands {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", o.Name, o.Shape, o.DTypes, o.Note)
	}
	w.Flush()
	s.WriteString("\n")
	for _, k := range c.Clauses {
		fmt.Fprintf(&s, "%-4s%s\n", k.ID, k.Text)
	}
	lines := strings.Split(strings.TrimRight(s.String(), "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// indexNote returns the range of an index.
func indexNote(o Operand) string {
	if o.IsOffsets {
		return "int32, ascending from 0 to " + o.Bound
	}
	if o.IsLengths {
		return "int32 in 0.." + o.Bound
	}
	if o.Lengths != "" {
		return fmt.Sprintf("int32 in 0..%s-1, as far as %s keys reach; anything behind", o.Bound, o.Lengths)
	}
	if o.Except != "" {
		return fmt.Sprintf("int32 in 0..%s-1 or %s", o.Bound, o.Except)
	}
	return fmt.Sprintf("int32 in 0..%s-1", o.Bound)
}
