package matmul

import (
	"sync"

	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// Packer returns what packs matrices of a storage format.
func Packer(dtype num.DType, set machine.Set) (lowercpu.Packer, error) {
	c, err := codeFor(set, dtype)
	if err != nil {
		return nil, err
	}
	return &packer{code: c, movers: sync.Pool{New: func() any { return &mover{code: c} }}}, nil
}

type packer struct {
	code   *code
	movers sync.Pool
}

// Pack implements lower/cpu.Packer.
func (p *packer) Pack(to, from *num.Array, isTransposed bool) {
	m := p.movers.Get().(*mover)
	lines, count, depth := operandView(from, 0, !isTransposed), from.Cols, from.Rows
	if isTransposed {
		count, depth = depth, count
	}
	target := operandView(to, 0, false)
	m.pack(target.at, target.line, &lines, p.code.dtype, 0, count, 0, depth)
	m.forget()
	p.movers.Put(m)
}
