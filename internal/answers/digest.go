package answers

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math"

	"tokitai/num"
)

// Digest hashes parameters and operands as the package comment describes.
type Digest struct {
	sum hash.Hash
	row []byte
}

// NewDigest returns an empty digest.
func NewDigest() *Digest { return &Digest{sum: sha256.New()} }

// Param adds a parameter.
func (d *Digest) Param(name string, v float64) {
	fmt.Fprintf(d.sum, "param %s %016x\n", name, math.Float64bits(v))
}

// Patterns adds an operand as it is stored.
func (d *Digest) Patterns(name string, a num.Array) {
	d.header(name, a)
	size := a.DType.Size()
	for r := range a.Rows {
		d.sum.Write(a.Data[r*a.Stride*size:][:a.Cols*size])
	}
}

// Values adds an operand with every NaN replaced by the canonical one.
func (d *Digest) Values(name string, a num.Array) {
	d.header(name, a)
	for r := range a.Rows {
		row := d.row[:0]
		for c := range a.Cols {
			bits := num.Canonical(a.DType, a.Bits(r, c))
			if a.DType.Size() == 2 {
				row = binary.LittleEndian.AppendUint16(row, uint16(bits))
			} else {
				row = binary.LittleEndian.AppendUint32(row, bits)
			}
		}
		d.sum.Write(row)
		d.row = row
	}
}

func (d *Digest) header(name string, a num.Array) {
	fmt.Fprintf(d.sum, "%s %s %d %d\n", name, a.DType, a.Rows, a.Cols)
}

// Sum returns the hash of what was added.
func (d *Digest) Sum() Hash { return Hash(d.sum.Sum(nil)) }
