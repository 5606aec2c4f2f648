package gpu

import (
	"tokitai/def"
	"tokitai/num"
)

// CompileNamed compiles a rowwise definition whose entries begin with a name of the
// test's choice, so that many fit into one program.
func CompileNamed(d *def.Definition, dtypes []num.DType, v Variant, base string) *Kernel {
	return compileRowwise(d, dtypes, v, base)
}

// CompileTable does so for the other kinds of definition.
func CompileTable(d *def.Definition, dtypes []num.DType, base string) *Kernel {
	switch d.Kind {
	case def.KindContraction:
		return compileContraction(d, dtypes, base)
	case def.KindGather:
		return compileGather(d, dtypes, base)
	}
	return compileScatter(d, dtypes, base)
}
