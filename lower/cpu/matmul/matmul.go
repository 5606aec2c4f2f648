package matmul

import (
	"fmt"

	"tokitai/def"
	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// Compile lowers a contraction for operands stored in the given formats to code of an
// instruction set.
func Compile(d *def.Definition, dtypes []num.DType, set machine.Set) (lowercpu.Program, error) {
	if d.Product() == nil {
		return nil, fmt.Errorf("%s: no matrix product but of kind %s", d.Name, d.Form)
	}
	if needsConversion(d, dtypes, set) {
		return compileConverted(d, dtypes, set)
	}
	p, err := compilePlain(d, dtypes, set)
	if err != nil {
		return nil, err // not a nil *program in an interface
	}
	return p, nil
}

// compilePlain lowers a contraction of formats that the code reads and writes.
func compilePlain(d *def.Definition, dtypes []num.DType, set machine.Set) (*program, error) {
	if len(dtypes) < 3 || dtypes[0] != dtypes[1] || dtypes[2] != dtypes[0] && dtypes[2] != num.F32 {
		return nil, fmt.Errorf("%s: got operands of %v, want two of one format and a result of the same or %v", d.Name, dtypes, num.F32)
	}
	c, err := codeFor(set, dtypes[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	return &program{d: d, code: c, blocking: &defaultBlocking, result: dtypes[2], grouping: lower.GroupingOf(d)}, nil
}

// program is a contraction for one choice of formats.
type program struct {
	d        *def.Definition
	code     *code
	blocking *blocking
	result   num.DType
	grouping lower.Grouping
}

// String describes the blocks and lists the code of the full register block.
func (p *program) String() string {
	t, b := &p.code.target, p.blocking
	return fmt.Sprintf("contraction %s of %v to %v: %s, register blocks of %d×%d, blocks of %d, tiles of %d×%d, rule fma\n\n%s",
		p.d.Name, p.code.dtype, p.result, t.set, t.rows, t.vectors*t.lanes, b.depth, b.panels*t.rows, b.vectors*t.lanes, p.code.listing())
}
