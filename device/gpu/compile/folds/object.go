package folds

import (
	"fmt"

	"tokitai/amdgpu/codeobject"
	"tokitai/amdgpu/isa"
)

// Check returns an error if a kernel of a code object for an architecture has a fold. Code that
// cannot be read, or is for an architecture that package isa does not decode, is not searched.
func Check(image []byte, architecture string) error {
	found, err := FindInObject(image, architecture)
	if err != nil || len(found) == 0 {
		return nil
	}
	return fmt.Errorf("the compiler changed results in %d places; the first is in kernel %s: %s: %s", len(found), found[0].Kernel, found[0].Text, found[0].Why)
}

// FindInObject returns the folds in a code object, whose lines are 0. There are none in code
// for an architecture that package isa does not decode.
func FindInObject(image []byte, architecture string) ([]Fold, error) {
	known, err := isa.Lookup(architecture)
	if err != nil {
		return nil, nil
	}
	object, err := codeobject.Read(image, known.Name)
	if err != nil {
		return nil, err
	}
	var found []Fold
	for i := range object.Kernels {
		k := &object.Kernels[i]
		d := &k.Descriptor
		for _, x := range []struct {
			mode      string
			got, want uint8
		}{
			{"round_mode_32", d.Round32, 0}, {"round_mode_16_64", d.Round64, 0},
			{"denorm_mode_32", d.Denorm32, 3}, {"denorm_mode_16_64", d.Denorm64, 3},
		} {
			if x.got != x.want {
				found = append(found, Fold{Kernel: k.Name, Text: fmt.Sprintf("%s %d", x.mode, x.got), Why: modes[x.mode].why})
			}
		}
		code, err := isa.Decode(known, k.Code, k.Entry)
		if err != nil {
			return nil, fmt.Errorf("kernel %s: %w", k.Name, err)
		}
		for j := range code {
			found = append(found, inDecoded(k.Name, &code[j])...)
		}
	}
	return found, nil
}

// inDecoded returns the folds of one instruction or of both halves of a pair.
func inDecoded(kernel string, decoded *isa.Instruction) (found []Fold) {
	if len(rulesFor(decoded.Name)) == 0 && (decoded.Second == nil || len(rulesFor(decoded.Second.Name)) == 0) {
		return nil
	}
	for i := range Instructions("\t" + decoded.String()) {
		if why := i.Why(); why != "" {
			found = append(found, Fold{Kernel: kernel, Text: i.Text, Why: why})
		}
	}
	return found
}
