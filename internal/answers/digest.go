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
	const piece = 1 << 15 // bytes that are hashed together: many short rows, or one long
	buffer := make([]byte, 0, min(piece, a.Rows*a.Cols*a.DType.Size()))
	flush := func() {
		if isCanonical {
			num.MakeCanonical(a.DType, buffer)
		}
		h.Write(buffer)
		buffer = buffer[:0]
	}
	for r := range a.Rows {
		row := a.Row(r)
		if len(buffer)+len(row) > piece {
			flush()
		}
		buffer = append(buffer, row...)
	}
	flush()
}

func (d *Digest) header(name string, a num.Array) {
	fmt.Fprintf(d.sum, "%s %s %d %d\n", name, a.DType, a.Rows, a.Cols)
}

// Sum returns the hash of what was added.
func (d *Digest) Sum() Hash { return Hash(d.sum.Sum(nil)) }
