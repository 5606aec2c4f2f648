package isa

import (
	"fmt"
	"strings"
)

// Architecture is an instruction set as compilers name it.
type Architecture struct {
	Name   string // "gfx1100"
	Family Family
}

var architectures = []Architecture{
	{"gfx90a", GFX9},
	{"gfx942", GFX9},
	{"gfx1100", GFX11},
	{"gfx1101", GFX11},
	{"gfx1102", GFX11},
	{"gfx1103", GFX11},
	{"gfx1150", GFX11},
	{"gfx1151", GFX11},
	{"gfx1152", GFX11},
	{"gfx1153", GFX11},
}

// Lookup returns the architecture with the given name. Features after a colon, as in
// "gfx90a:sramecc+:xnack-", do not change the encodings and are ignored.
func Lookup(name string) (Architecture, error) {
	base, _, _ := strings.Cut(name, ":")
	names := make([]string, len(architectures))
	for i, a := range architectures {
		if a.Name == base {
			return a, nil
		}
		names[i] = a.Name
	}
	return Architecture{}, fmt.Errorf("architecture %q: not decoded; want one of %s", name, strings.Join(names, ", "))
}
