package main

import (
	"tokitai/backend/amdemu"
	"tokitai/def"
	emulator "tokitai/device/gpu/amdemu"
	"tokitai/device/gpu/compile"
	lowergpu "tokitai/lower/gpu"
	"tokitai/num"
)

// emitAMD lists the instructions that clang compiles for an architecture of AMD's.
func emitAMD(d *def.Definition, architecture string, t num.DType, access lowergpu.Variant) ([]emission, error) {
	dtypes := formatsIn(d, t)
	kernel, err := lowergpu.Compile(d, dtypes, access)
	if err != nil {
		return nil, err
	}
	clang, err := compile.OpenClang()
	if err != nil {
		return nil, err
	}
	program, err := compile.Default().Compile(clang.WithLines(), architecture, amdemu.Program(kernel.Source))
	if err != nil {
		return nil, err
	}
	listing, err := emulator.Disassemble(program.Image, architecture)
	if err != nil {
		return nil, err
	}
	e := emission{Of: architecture, DTypes: storedAs(d, dtypes), Listing: listing}
	if d.Expression() != nil {
		e.Access = access.String()
	}
	return []emission{e}, nil
}
