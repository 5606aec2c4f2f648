// Package table lowers gathers, gather-sums and scatter-adds to machine code: copies of rows by
// index and sums of rows by index, for AVX2 and AVX-512.
//
// It computes the same bits as lower/cpu's programs in plain Go. Sums of bf16 and f32
// are taken in the order of the definition. Sums of f16 are taken in binary64, where up
// to 2^13 of them are exact, since f16 values are multiples of 2^-24 below 2^16; partial
// sums of more are added as integers.
//
// Start with [Compile].
package table

import (
	"fmt"
	"unsafe"

	"tokitai/def"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/asm/amd64"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// Supports reports whether there is code for an instruction set.
func Supports(set machine.Set) bool { return set == machine.AVX512 || set == machine.AVX2 }

// Compile lowers a gather, a gather-sum or a scatter-add for operands stored in the given formats to
// code of an instruction set.
func Compile(d *def.Definition, dtypes []num.DType, set machine.Set) (lowercpu.Program, error) {
	g, err := newGenerator(set)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	if len(dtypes) != len(d.Operands) {
		return nil, fmt.Errorf("%s: %d formats, want %d", d.Name, len(dtypes), len(d.Operands))
	}
	switch d.Form.(type) {
	case *def.Lookup:
		return compileGather(d, g)
	case *def.Scatter:
		return compileScatter(d, dtypes[1], dtypes[2], g)
	case *def.LookupSum:
		return compileGatherSum(d, dtypes[1], g)
	}
	return nil, fmt.Errorf("%s: got kind %s, want a gather, a gather-sum or a scatter-add", d.Name, d.Form)
}

// program is what the programs of this package have in common: their code.
type program struct {
	d       *def.Definition
	title   string
	code    *machine.Code
	listing func() string
}

// finish loads the code.
func (g *generator) finish(d *def.Definition, title string) (program, error) {
	code, err := g.a.Finish()
	if err != nil {
		return program{}, fmt.Errorf("%s: %w", d.Name, err)
	}
	loaded, err := machine.Load(code)
	if err != nil {
		return program{}, fmt.Errorf("%s: %w", d.Name, err)
	}
	return program{d: d, title: title, code: loaded, listing: g.a.Listing}, nil
}

// String lists the program: what it does and its instructions.
func (p *program) String() string {
	return fmt.Sprintf("%s: %s\n%s", p.d.Name, p.title, p.listing())
}

// streamed is the size of an output in bytes from which it is written past the caches.
// Only tests change it.
var streamed = 1 << 22

// canStream reports whether rows of an array can be written with non-temporal stores of
// whole vectors, and whether the array is large enough to be.
func canStream(a *num.Array, width amd64.Width) bool {
	size, unit := a.DType.Size(), uintptr(width.Bytes())
	return a.Rows*a.Cols*size >= streamed &&
		uintptr(unsafe.Pointer(unsafe.SliceData(a.Data)))%unit == 0 && uintptr(a.Stride*size)%unit == 0
}

// itemBytes returns how much of an output one item writes: 5 to 20 µs, and less if there
// are too few items for the workers to finish together. It is a multiple of 64 bytes.
func itemBytes(a *num.Array, workers int) int {
	return min(max(a.Rows*a.Cols*a.DType.Size()/(16*workers), 1<<16), 1<<18) &^ 63
}

// at returns the address of an element.
func at(a *num.Array, row, col int) unsafe.Pointer {
	return unsafe.Pointer(&a.Data[(row*a.Stride+col)*a.DType.Size()])
}
