package def

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// errChanged is returned by CheckUnchanged.
var errChanged = errors.New("was changed after it was built")

// CheckUnchanged returns an error if a field of the definition or a node of its graphs has
// been changed since the definition was built. They are exported to be read: everything
// else depends on them, the identity in reports and known answers included.
func (d *Definition) CheckUnchanged() error {
	if d.text == "" || d.digest() != d.built {
		return errChanged
	}
	return nil
}

// digest hashes everything that others read of the definition.
func (d *Definition) digest() [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintln(h, d.Name, d.Form, d.flat)
	for i := range d.Operands {
		fmt.Fprintf(h, "%+v\n", d.Operands[i])
	}
	for i := range d.Params {
		fmt.Fprintln(h, d.Params[i].text())
	}
	d.Form.digest(h)
	return [sha256.Size]byte(h.Sum(nil))
}

func (g Graph) digest(w io.Writer) {
	for _, n := range g.Nodes {
		if n == nil {
			n = &Node{ID: -1}
		}
		fmt.Fprint(w, n.ID, n.Op, n.Type, n.Extent, n.Late, n.Name, n.Operand, n.Param, n.Int, n.Storage)
		if n.Real != nil {
			fmt.Fprint(w, " ", n.Real)
		}
		if n.Func != nil {
			fmt.Fprint(w, " ", n.Func.Name)
		}
		for _, a := range n.Args {
			fmt.Fprint(w, " ", idOf(a))
		}
		fmt.Fprintln(w)
	}
	for _, o := range g.Outputs {
		fmt.Fprintln(w, o.Operand, idOf(o.Value))
	}
}

func idOf(n *Node) int {
	if n == nil {
		return -1
	}
	return n.ID
}
