package def

import (
	"errors"
	"fmt"
	"slices"
)

// InTable declares an input with rows of its own, as many as the letter size stands for, and
// one value for each of them and each column. [Value.At] reads the row that an index names.
func (b *Builder) InTable(name, size string, dtypes ...Rule) Value {
	return Value{b.table(name, size, Chosen|PerColumn, dtypes)}
}

// InList declares an input with one value for each of its own rows, as many as the letter size
// stands for. [Value.At] reads the one that an index names.
func (b *Builder) InList(name, size string, dtypes ...Rule) Value {
	return Value{b.table(name, size, Chosen, dtypes)}
}

// InIndexOf declares an int32 input with one index per row, of a row of the tables with that
// size. Calls reject or skip an index outside 0 … size−1, unless it equals the int32 parameter
// in except; a row that is not rejected reads +0.
func (b *Builder) InIndexOf(name, size string, except ...Value) Value {
	v := b.InIndex(name, except...)
	b.d.Operands[v.node.Operand].Bound = size
	return v
}

func (b *Builder) table(name, size string, e Extent, dtypes []Rule) *Node {
	n := b.input(name, e, dtypes)
	if err := checkSize(size); err != nil {
		b.fail("operand %s: %w", name, err)
	}
	b.d.Operands[n.Operand].Dims = append([]string{size}, dimsOf(e&PerColumn)...)
	return n
}

// checkSize returns an error if a letter cannot stand for the number of a table's rows.
func checkSize(letter string) error {
	if meaning, taken := reservedNames[letter]; taken {
		return fmt.Errorf("the name %s stands for %s, want another letter for the rows of a table", letter, meaning)
	}
	if letter == "K" {
		return errors.New("the name K stands for the slots of a row, want another letter for the rows of a table")
	}
	if !nameForm.MatchString(letter) {
		return fmt.Errorf("size %q, want a letter such as P", letter)
	}
	return nil
}

// lookup returns the row of a table that an index names.
func lookup(table, index Value) Value {
	v := newNode(OpLookup, table, index)
	v.check(Float, Float, Int)
	v.Extent = PerRow | table.Extent()&PerColumn
	if v.err == nil {
		v.err = v.checkLookup()
	}
	return Value{v}
}

// checkLookup returns an error unless x reads a table by an index of its rows. What is known
// of an operand is known of a leaf that has an owner.
func (x *Node) checkLookup() error {
	table, index := x.Args[0], x.Args[1]
	if !table.IsTable() || table.Op != OpInput || index.Op != OpInput || index.owner == nil || table.owner != index.owner {
		return fmt.Errorf("%s: want an input that is an index of the table's rows", x.brief())
	}
	d := index.owner.d
	i, size := &d.Operands[index.Operand], d.Operands[table.Operand].Dims[0]
	if !i.IsIndex || i.Bound != size {
		return fmt.Errorf("%s: want an index in [0,%s), the rows of %s", x.brief(), size, table.Name)
	}
	return nil
}

// checkTables returns an error for an index into tables that do not exist.
func (b *Builder) checkTables() error {
	for _, o := range b.d.Operands {
		if o.IsIndex && o.Bound != "C" && !slices.ContainsFunc(b.d.Operands, func(t Operand) bool { return t.IsTable() && t.Dims[0] == o.Bound }) {
			return fmt.Errorf("index %s: no table has %s rows", o.Name, o.Bound)
		}
	}
	return nil
}

// IsTable reports whether an index chooses the rows of the operand that are read.
func (o *Operand) IsTable() bool { return o.Extent&Chosen != 0 }

// tableSizes returns the letters of the numbers of tables' rows.
func (d *Definition) tableSizes() (letters []string) {
	for i := range d.Operands {
		if o := &d.Operands[i]; o.IsTable() && !slices.Contains(letters, o.Dims[0]) {
			letters = append(letters, o.Dims[0])
		}
	}
	return letters
}

// lookupName is the name that a parsed lookup has in the place of a function's.
const lookupName = "[]"

// readTable returns the row of a table that an index names, of a text.
func readTable(table, index Value) Value {
	v := newNode(OpLookup, table, index)
	if !table.node.IsTable() {
		v.err = fmt.Errorf("%s is no table: it is %s", table.node.label(), table.Extent())
		return Value{v}
	}
	return lookup(table, index)
}

// keepTables adds a table for each index among the nodes that has none left: its rows limit
// the index.
func (x *differentiator) keepTables(nodes map[*Node]bool) {
	has := func(letter string) bool {
		return slices.ContainsFunc(x.d.Operands, func(o Operand) bool { return o.IsTable() && o.Dims[0] == letter && nodes[x.leaves[o.Name]] })
	}
	for _, index := range x.d.Operands {
		if !index.IsIndex || index.Bound == "C" || !nodes[x.leaves[index.Name]] || has(index.Bound) {
			continue
		}
		i := slices.IndexFunc(x.d.Operands, func(o Operand) bool { return o.IsTable() && o.Dims[0] == index.Bound })
		o := &x.d.Operands[i]
		x.leaves[o.Name] = &Node{Op: OpInput, Name: o.Name, Extent: o.Extent}
		nodes[x.leaves[o.Name]] = true
	}
}

// indicesOf returns the names of the indices into the rows of a table.
func (d *Definition) indicesOf(table *Operand) (names []string) {
	for i := range d.Operands {
		if o := &d.Operands[i]; o.IsIndex && o.Bound == table.Dims[0] {
			names = append(names, o.Name)
		}
	}
	return names
}
