package def

import (
	"errors"
	"hash/maphash"
	"io"
	"strconv"
)

// errChanged is returned by CheckUnchanged.
var errChanged = errors.New("was changed after it was built")

// CheckUnchanged returns an error if a field of the definition or a node of its graphs has
// been changed since the definition was built. They are exported to be read: everything
// else depends on them, the identity in reports and known answers included.
func (d *Definition) CheckUnchanged() error {
	if d.identity == nil || d.digest() != d.built {
		return errChanged
	}
	return nil
}

// digestSeed makes the digests of a process. They are compared in that process alone.
var digestSeed = maphash.MakeSeed()

// digest hashes everything that others read of the definition.
func (d *Definition) digest() uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	var f fields
	f.text(d.Name)
	f.text(d.Form.String())
	f.flag(d.flat)
	for i := range d.Operands {
		d.Operands[i].digest(&f)
	}
	for i := range d.Params {
		f.text(d.Params[i].text())
	}
	h.Write(f)
	d.Form.digest(&h)
	return h.Sum64()
}

// fields is the values of fields, one after the other. Package fmt would take a tenth of the time in which a program starts,
// which builds its definitions.
type fields []byte

func (f *fields) number(v int) { *f = append(strconv.AppendInt(*f, int64(v), 10), ' ') }

func (f *fields) flag(v bool) { *f = strconv.AppendBool(*f, v) }

func (f *fields) text(s string) {
	f.number(len(s))
	*f = append(*f, s...)
}

func (o *Operand) digest(f *fields) {
	f.text(o.Name)
	f.number(len(o.Dims))
	for _, letter := range o.Dims {
		f.text(letter)
	}
	f.number(int(o.Extent))
	f.text(o.DTypes.Like)
	f.number(len(o.DTypes.Allowed))
	for _, d := range o.DTypes.Allowed {
		f.number(int(d))
	}
	for _, v := range [...]bool{o.IsIn, o.IsOut, o.IsIndex, o.IsOffsets, o.IsLengths} {
		f.flag(v)
	}
	for _, s := range [...]string{o.Bound, o.Except, o.Lengths, o.Each} {
		f.text(s)
	}
}

func (g Graph) digest(w io.Writer) {
	var f fields
	for _, n := range g.Nodes {
		if n == nil {
			n = &Node{ID: -1}
		}
		f.flag(n.Late)
		for _, v := range [...]int{n.ID, int(n.Op), int(n.Type), int(n.Extent), n.Operand, n.Param, int(n.Int), int(n.Storage.Fixed), len(n.Args)} {
			f.number(v)
		}
		for _, a := range n.Args {
			f.number(idOf(a))
		}
		f.text(n.Name)
		f.text(n.Storage.Of)
		if n.Real != nil {
			f.text(n.Real.String())
		}
		if n.Func != nil {
			f.text(n.Func.Name)
		}
	}
	for _, o := range g.Outputs {
		f.number(o.Operand)
		f.number(idOf(o.Value))
	}
	w.Write(f)
}

func idOf(n *Node) int {
	if n == nil {
		return -1
	}
	return n.ID
}
