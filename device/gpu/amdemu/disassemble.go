package amdemu

import (
	"fmt"
	"strings"

	"tokitai/amdgpu/codeobject"
	"tokitai/amdgpu/isa"
)

// Disassemble lists the instructions of a code object's kernels, as LLVM's disassembler prints
// them, each after the line of the source that it was compiled from where that changes.
func Disassemble(image []byte, architecture string) (string, error) {
	set, err := isa.Lookup(architecture)
	if err != nil {
		return "", err
	}
	o, err := codeobject.Read(image, architecture)
	if err != nil {
		return "", err
	}
	lines := o.Lines()
	var b strings.Builder
	for i := range o.Kernels {
		k := &o.Kernels[i]
		instructions, err := isa.Decode(set, k.Code, k.Entry)
		if err != nil {
			return "", fmt.Errorf("kernel %s: %w", k.Name, err)
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %d VGPRs, %d bytes of LDS, %d bytes of private memory\n", k.Name, k.VectorRegisters, k.GroupBytes, k.PrivateBytes)
		last, next := "", 0
		for j := range instructions {
			in := &instructions[j]
			line := last
			for ; next < len(lines) && lines[next].Address <= in.Offset; next++ {
				line = lines[next].Text
			}
			if line != last && line != "" {
				fmt.Fprintf(&b, "; %s\n", line)
			}
			last = line
			fmt.Fprintf(&b, "  %06x  %s\n", in.Offset-k.Entry, in)
		}
	}
	return b.String(), nil
}
