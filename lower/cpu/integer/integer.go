// Package integer multiplies matrices of i8 with machine code that is generated for this processor.
//
// Sums are taken in int32, which wrap: they are exact in Z/2^32, so that neither their order nor
// the way in which a product is computed can change a bit. The code multiplies words of 32 bits,
// each with neighbours along the summed index:
//
//	vnni   four bytes, by VPDPBUSD, which adds four products to an int32 and does not saturate.
//	       It takes bytes without a sign on one side: the right operand is stored as b+128, and
//	       128·Σa is subtracted from the sums of a row.
//	pairs  two bytes, widened to 16 bits, by VPMADDWD and VPADDD. A pair of products is at most
//	       2^15, which fits.
//
// A micro-kernel holds 6 rows by a few vectors of sums in registers, reads the left operand by
// broadcasts and the right operand by vectors. Both operands are packed before, in a phase of their
// own, so that all workers share them.
//
// Start with [Compile]. code.go generates the micro-kernel, pack.go packs, job.go cuts a product
// into regions that fit into memory and those into tiles.
package integer

import (
	"fmt"
	"sync"
	"unsafe"

	"tokitai/def"
	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// Supports reports whether code is generated for an instruction set.
func Supports(set machine.Set) bool { return set == machine.AVX2 || set == machine.AVX512 }

// kernel is a micro-kernel: what it takes, and its code.
type kernel struct {
	set     machine.Set
	isVNNI  bool
	vectors int // of one row of sums
	lanes   int // sums of a vector
	perWord int // bytes along the summed index
	listing func() string
	code    *machine.Code
}

// cols returns the number of columns of a strip.
func (k *kernel) cols() int { return k.vectors * k.lanes }

// wordsOf returns the number of words of a sum over n products.
func (k *kernel) wordsOf(n int) int { return (n + k.perWord - 1) / k.perWord }

// run adds products to a block of sums.
func (k *kernel) run(b *block) { k.code.Call(0, unsafe.Pointer(b)) }

// name returns how bytes are multiplied.
func (k *kernel) name() string {
	if k.isVNNI {
		return "vnni"
	}
	return "pairs"
}

type kernelKey struct {
	set    machine.Set
	isVNNI bool
}

var kernels sync.Map // of kernelKey

// kernelFor returns the micro-kernel of an instruction set.
func kernelFor(set machine.Set, isVNNI bool) (*kernel, error) {
	if k, ok := kernels.Load(kernelKey{set, isVNNI}); ok {
		return k.(*kernel), nil
	}
	k, err := newKernel(set, isVNNI)
	if err != nil {
		return nil, err
	}
	made, _ := kernels.LoadOrStore(kernelKey{set, isVNNI}, k)
	return made.(*kernel), nil
}

// program is a product of matrices of i8.
type program struct {
	d      *def.Definition
	kernel *kernel
	most   int // bytes of a packed operand of a region
	jobs   sync.Pool
}

// mostPacked limits the memory of a packed operand, unless one tile needs more.
const mostPacked = 32 << 20

// Compile lowers a contraction of i8 to machine code for one instruction set.
func Compile(d *def.Definition, dtypes []num.DType, set machine.Set) (lowercpu.Program, error) {
	return compile(d, dtypes, set, set == machine.AVX512 && machine.HasVNNI())
}

func compile(d *def.Definition, dtypes []num.DType, set machine.Set, isVNNI bool) (lowercpu.Program, error) {
	if d.Product() == nil || !d.Ring().IsExact() || len(dtypes) < 3 || dtypes[0] != num.I8 || dtypes[1] != num.I8 {
		return nil, fmt.Errorf("%s: got operands of %v, want a product of i8 in Z/2^32", d.Name, dtypes)
	}
	if !Supports(set) {
		return nil, fmt.Errorf("%s: no code is generated for %s, want avx2 or avx512", d.Name, set)
	}
	k, err := kernelFor(set, isVNNI)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	return &program{d: d, kernel: k, most: mostPacked}, nil
}

// String describes the blocks and lists the code.
func (p *program) String() string {
	k := p.kernel
	return fmt.Sprintf("contraction %s of i8 in %s: %s by %s, register blocks of %d×%d, tiles of %d×%d, blocks of %d words\n\n%s",
		p.d.Name, p.d.Ring(), k.set, k.name(), blockRows, k.cols(), tileRows, tileCols, tileWords, k.listing())
}

// Bind implements lowercpu.Program.
func (p *program) Bind(c *lower.Call, workers int) lowercpu.Job {
	j, _ := p.jobs.Get().(*job)
	if j == nil {
		j = &job{p: p}
	}
	j.bind(c, workers)
	return j
}
