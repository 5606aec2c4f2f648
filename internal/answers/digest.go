package answers

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"math"

	"tokitai/num"
)

// Digest hashes parameters and operands as the package comment describes.
type Digest struct{ sum hash.Hash }

// NewDigest returns an empty digest.
func NewDigest() *Digest { return &Digest{sum: sha256.New()} }

// Param adds a parameter.
func (d *Digest) Param(name string, v float64) {
	fmt.Fprintf(d.sum, "param %s %016x\n", name, math.Float64bits(v))
}

// Patterns adds an operand as it is stored.
func (d *Digest) Patterns(name string, a num.Array) {
	d.header(name, a)
	WriteElements(d.sum, a, false)
}

// Values adds an operand with every NaN replaced by the canonical one.
func (d *Digest) Values(name string, a num.Array) {
	d.header(name, a)
	WriteElements(d.sum, a, true)
}

// WriteElements adds the elements of an array to a hash, row by row and without the gaps
// between rows, each little-endian in the bytes of its format; if isCanonical, every NaN
// as the canonical one of its format.
func WriteElements(h hash.Hash, a num.Array, isCanonical bool) {
	size := a.DType.Size()
	row := num.NewArray(a.DType, 1, a.Cols)
	for r := range a.Rows {
		stored := a.Data[r*a.Stride*size:][:a.Cols*size]
		if !isCanonical || a.DType == num.I32 {
			h.Write(stored)
			continue
		}
		copy(row.Data, stored)
		for c := range a.Cols {
			if bits := row.Bits(0, c); num.IsNaN(a.DType, bits) {
				row.SetBits(0, c, num.Canonical(a.DType, bits))
			}
		}
		h.Write(row.Data)
	}
}

func (d *Digest) header(name string, a num.Array) {
	fmt.Fprintf(d.sum, "%s %s %d %d\n", name, a.DType, a.Rows, a.Cols)
}

// Sum returns the hash of what was added.
func (d *Digest) Sum() Hash { return Hash(d.sum.Sum(nil)) }
