package standin

import (
	"fmt"

	"tokitai/amdgpu/codeobject"
	"tokitai/device/gpu/amdemu"
	"tokitai/device/gpu/compile"
)

// openEmulator opens an emulated device of each architecture.
func openEmulator(architectures []string) (*server, error) {
	s := &server{
		compiler:  func() (compile.Compiler, error) { return compile.OpenClang() },
		arguments: argumentsOf,
	}
	for _, architecture := range architectures {
		table, err := amdemu.Table(architecture)
		if err != nil {
			return nil, err
		}
		s.devices = append(s.devices, table)
	}
	return s, nil
}

// argumentsOf returns the arguments of a kernel that a caller passes.
func argumentsOf(image []byte, architecture, entry string) ([]argument, error) {
	o, err := codeobject.Read(image, architecture)
	if err != nil {
		return nil, err
	}
	k, ok := o.Kernel(entry)
	if !ok {
		return nil, fmt.Errorf("no kernel %q", entry)
	}
	var list []argument
	for i := range k.Arguments {
		if a := &k.Arguments[i]; !a.IsHidden() {
			list = append(list, argument{uint32(a.Offset), uint32(a.Bytes)})
		}
	}
	return list, nil
}
