package promise

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"tokitai/def"
	"tokitai/num"
)

// Declaration describes the arithmetic of a kernel, as its author states it. The zero value
// states nothing.
type Declaration struct {
	// Profile names a family of kernels, whose functions have known errors and some of
	// whose operations have allowances; "" means no particular family.
	Profile string

	// Formula names the form in which the operation is computed, where that makes a
	// difference that no rounding explains; "" is the definition's own.
	Formula string

	// Functions has the worst errors of functions by name (see [Functions]). A function that
	// is not listed has the profile's error; see [Declaration.Error].
	Functions map[string]Error

	// Roundings has the formats to which values that the definition names are rounded, such
	// as p to bf16, besides the roundings of the definition.
	Roundings map[string]num.DType

	// FlushesSubnormals says that subnormal results, and subnormal inputs, may become zeros.
	FlushesSubnormals bool

	// RawParams says that the kernel computes the definition's parameters, in binary32, from
	// those that users set, such as lr and t of AdamW.
	RawParams bool

	// Omits lists outputs that the kernel does not write.
	Omits []string
}

// Error returns the worst error of a function of the definition under the declaration: the
// widest of the function's own, as declared or else by the profile, and of those of the forms
// in which declared functions may stand for it (form.go). Resolve it once per node.
func (d Declaration) Error(function string) Error {
	if e, isKnown := d.errors()[functionName(function)]; isKnown {
		return e
	}
	return unlisted
}

// undeclared caches the errors of all functions by profile, for declarations without functions.
var undeclared sync.Map

// errors returns the errors of all functions under the declaration. Callers must not change them.
func (d Declaration) errors() map[string]Error {
	isKept := len(d.Functions) == 0
	if kept, ok := undeclared.Load(d.Profile); ok && isKept {
		return kept.(map[string]Error)
	}
	isDeclared := func(f string) bool { _, is := d.Functions[f]; return is }
	errors := counted(d.alone(), isDeclared, d.Profile != "")
	if _, err := LookupProfile(d.Profile); isKept && err == nil {
		undeclared.Store(d.Profile, errors)
	}
	return errors
}

// alone returns the errors of all functions, as declared or else by the profile.
func (d Declaration) alone() map[string]Error {
	p, err := LookupProfile(d.Profile)
	if err != nil {
		p = profiles[0] // Check refuses it
	}
	errors := p.alone()
	maps.Copy(errors, d.Functions)
	return errors
}

// TensorCores returns the profile's model of the tensor cores that may sum products of f16 and
// bf16, or the FMA chain if the profile has none.
func (d Declaration) TensorCores() def.Accum {
	p, err := LookupProfile(d.Profile)
	if err != nil {
		return def.FMAChain
	}
	return p.TensorCores
}

// Flushes reports whether subnormal numbers may become zeros, by the declaration or the profile.
func (d Declaration) Flushes() bool {
	p, err := LookupProfile(d.Profile)
	return d.FlushesSubnormals || err == nil && p.FlushesSubnormals
}

// String returns the declaration in the form that [ParseDeclaration] reads.
func (d Declaration) String() string { return Format(d, def.Order{}) }

// Format returns a declaration and an order of sums in the form that [ParseDeclaration] reads.
func Format(d Declaration, order def.Order) string {
	var items []string
	add := func(condition bool, format string, args ...any) {
		if condition {
			items = append(items, fmt.Sprintf(format, args...))
		}
	}
	if order.Kind == def.Height {
		add(true, "height=%d", order.Width)
	} else {
		add(order != def.Order{}, "order=%s", order)
	}
	add(d.Profile != "", "profile=%s", d.Profile)
	add(d.Formula != "", "formula=%s", d.Formula)
	for _, f := range slices.Sorted(maps.Keys(d.Functions)) {
		add(true, "%s=%s", f, d.Functions[f])
	}
	for _, name := range slices.Sorted(maps.Keys(d.Roundings)) {
		add(true, "round(%s)=%s", name, d.Roundings[name])
	}
	add(d.FlushesSubnormals, "ftz")
	add(d.RawParams, "raw")
	for _, name := range d.Omits {
		add(true, "omit=%s", name)
	}
	return strings.Join(items, " ")
}
