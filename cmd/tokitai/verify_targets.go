package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tokitai/engine"
	"tokitai/op"
	"tokitai/verify"
)

// everyLowering is the value of --lowering that stands for all that a call may choose.
const everyLowering = "all"

// targets returns the targets that the command line names, and the definitions that have
// none because of --dtype.
func (f *verifyFlags) targets(b engine.Backend, names []string) (chosen []*verify.Target, leftOut []string, err error) {
	dtypes, err := parseDTypes(f.dtypes)
	if err != nil {
		return nil, nil, err
	}
	every := verifyTargets(b)
	for _, name := range names {
		if isDefinitionFile(name) {
			o, err := readDefinition(name)
			if err != nil {
				return nil, nil, err
			}
			every = append(every, verify.Targets([]*op.Operation{o}, b)...)
		}
	}
	if chosen, err = namedTargets(every, names); err != nil {
		return nil, nil, err
	}
	if chosen, err = f.fixParams(chosen, names); err != nil {
		return nil, nil, err
	}
	known := append(loweringsOf(chosen), everyLowering)
	if f.lowering = fullName(b, f.lowering, known); f.lowering != "" && !slices.Contains(known, f.lowering) {
		if slices.Contains(loweringsOf(every), f.lowering) {
			return nil, nil, wrongUse("lowering %q exists, but not for %s, want %s", f.lowering, oneOf(names), oneOf(loweringNamesOf(chosen)))
		}
		return nil, nil, unknownName("lowering", f.lowering, known)
	}
	chosen = slices.DeleteFunc(chosen, func(t *verify.Target) bool {
		switch f.lowering {
		case "":
			return slices.Contains(b.OnDemand(t.Definition), t.Lowering) || t.IsFallback()
		case everyLowering:
			return slices.Contains(b.OnDemand(t.Definition), t.Lowering)
		}
		return t.Lowering.Name != f.lowering && t.ID() != f.lowering
	})
	if len(chosen) == 0 {
		return nil, nil, wrongUse("%s has no lowering that a call chooses by itself: name one with --lowering", b.Kind())
	}
	if len(dtypes) > 0 {
		before := slices.Clone(chosen)
		chosen = slices.DeleteFunc(chosen, func(t *verify.Target) bool { return !slices.Contains(dtypes, t.DType) })
		if len(chosen) == 0 {
			return nil, nil, wrongUse("%s cannot be stored in %s", before[0].ID(), strings.Join(f.dtypes, " or "))
		}
		for _, t := range before {
			isLeft := slices.ContainsFunc(chosen, func(c *verify.Target) bool { return c.Definition == t.Definition })
			if !isLeft && !slices.Contains(leftOut, t.Definition.Name) {
				leftOut = append(leftOut, t.Definition.Name)
			}
		}
	}
	if f.only == "" {
		return chosen, leftOut, nil
	}
	one, err := targetOfCase(chosen, f.only)
	return []*verify.Target{one}, leftOut, err
}

// fullName completes a lowering's name that lacks the kind of device: cublaslt on cuda is
// cuda.cublaslt.
func fullName(b engine.Backend, name string, known []string) string {
	if full := b.Kind() + "." + name; !slices.Contains(known, name) && slices.Contains(known, full) {
		return full
	}
	return name
}

// namedTargets returns the targets of all names, in the order of all. A name is that of a
// definition, an operation or a group. Without names it returns all.
func namedTargets(all []*verify.Target, names []string) ([]*verify.Target, error) {
	if len(names) == 0 {
		return slices.Clone(all), nil
	}
	isChosen := make([]bool, len(all))
	for _, name := range names {
		operations, err := operationsNamed(name)
		isKnown := false
		for i, t := range all {
			runs := func(o *op.Operation) bool { return slices.Contains(o.Definitions, t.Definition) }
			if name == t.Definition.Name || slices.ContainsFunc(operations, runs) {
				isKnown, isChosen[i] = true, true
			}
		}
		switch {
		case isKnown:
		case err != nil:
			var definitions []string
			for _, t := range all {
				definitions = append(definitions, t.Definition.Name)
			}
			return nil, unknownOperation(name, definitions...)
		default:
			return nil, wrongUse("%s has no kernel to verify", name)
		}
	}
	var chosen []*verify.Target
	for i, t := range all {
		if isChosen[i] {
			chosen = append(chosen, t)
		}
	}
	return chosen, nil
}

// loweringNamesOf returns the names of the targets' lowerings, each once.
func loweringNamesOf(targets []*verify.Target) (names []string) {
	for _, t := range targets {
		names = append(names, t.Lowering.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// loweringsOf returns the names and the ids of the targets' lowerings, each once.
func loweringsOf(targets []*verify.Target) []string {
	var ids []string
	for _, t := range targets {
		ids = append(ids, t.ID())
	}
	return append(loweringNamesOf(targets), slices.Compact(ids)...)
}

// targetOfCase returns the target that has the case. There must be exactly one.
func targetOfCase(targets []*verify.Target, name string) (*verify.Target, error) {
	var having []*verify.Target
	var known, reasons []string
	for _, t := range targets {
		err := t.CheckCase(name)
		var unknown *verify.UnknownError
		switch {
		case err == nil:
			having = append(having, t)
		case errors.As(err, &unknown):
			known, reasons = append(known, unknown.Known...), append(reasons, unknown.Error())
		default:
			return nil, err
		}
	}
	slices.Sort(known)
	known, reasons = slices.Compact(known), slices.Compact(reasons)
	switch {
	case len(having) == 1:
		return having[0], nil
	case len(having) == 0 && len(reasons) == 1:
		return nil, wrongUse("%s%s", reasons[0], didYouMean(name, known))
	case len(having) == 0:
		return nil, wrongUse("case %q: none of %d lowerings and formats has it%s", name, len(targets), didYouMean(name, known))
	}
	var places []string
	for _, t := range having[:min(len(having), 3)] {
		places = append(places, fmt.Sprintf("%s in %s", t.ID(), t.DType))
	}
	return nil, wrongUse("case %q is one of %d lowerings and formats, such as %s: choose one with OP, --lowering and --dtype", name, len(having), oneOf(places))
}
