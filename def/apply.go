package def

import (
	"fmt"
	"maps"
)

// Apply returns the results of d, a rowwise definition, by the names of its outputs, as
// values of the definition being built. of holds a value for each input and parameter of d,
// with its type and extent. The results are not rounded to a storage format: Round does that.
// The names of values inside d are not kept.
func (b *Builder) Apply(d *Definition, of map[string]Value) map[string]Value {
	results := map[string]Value{}
	if err := b.apply(d, of, results); err != nil {
		b.fail("%w", err)
	}
	return results
}

func (b *Builder) apply(d *Definition, of, results map[string]Value) error {
	if d == nil || d.Expression() == nil {
		return fmt.Errorf("%v is applied, want a rowwise definition", d)
	}
	unused := maps.Clone(of)
	copies := map[*Node]*Node{}
	for _, n := range d.Math().Nodes {
		c := *n
		c.ID, c.Name, c.Args = 0, "", nil
		for _, a := range n.Args {
			c.Args = append(c.Args, copies[a])
		}
		v := Value{&c}
		switch {
		case n.Op == OpInput || n.Op == OpParam:
			v = of[n.Name]
			delete(unused, n.Name)
			switch {
			case v.node == nil:
				return fmt.Errorf("%s is applied to no %s", d.Name, n.Name)
			case v.node.err != nil:
				return v.node.err
			case v.IsLate():
				return fmt.Errorf("%s is applied to %s, which is known only after the last row", d.Name, v.node.label())
			case v.Type() != n.Type || v.Extent() != n.Extent:
				return fmt.Errorf("%s is applied to %s as %s, %s, %s; want %s, %s", d.Name, v.node.label(), n.Name, article(v.Type()), v.Extent(), article(n.Type), n.Extent)
			}
		case n.Op == OpCall:
			v = n.Func.Of(Value{c.Args[0]})
		case len(n.Args) == 0:
			c.Name = n.Name
		case n.Storage.Of != "":
			stored := of[n.Storage.Of].node
			if stored == nil || stored.Op != OpInput {
				return fmt.Errorf("%s, which is applied, rounds to the format of %s: want an input for it", d.Name, n.Storage.Of)
			}
			c.Storage.Of = stored.Name
		}
		copies[n] = v.node
	}
	for name := range unused {
		if d.Operand(name) < 0 && d.Param(name) < 0 {
			return fmt.Errorf("%s is applied to a value for %s, which it does not have", d.Name, name)
		}
	}
	for _, o := range d.Math().Outputs {
		results[d.Operands[o.Operand].Name] = Value{copies[o.Value]}
	}
	return nil
}
