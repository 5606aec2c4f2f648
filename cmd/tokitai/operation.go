package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	backends "tokitai/backend/all"
	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
)

// operationsNamed returns the operations of a name: the operation itself, those of a group
// (softmax is softmax.forward and softmax.backward), or the one that a file defines.
func operationsNamed(name string) ([]*op.Operation, error) {
	if isDefinitionFile(name) {
		o, err := readDefinition(name)
		if err != nil {
			return nil, err
		}
		return []*op.Operation{o}, nil
	}
	if o := all.Find(name); o != nil {
		return []*op.Operation{o}, nil
	}
	var members []*op.Operation
	for _, o := range all.Operations {
		if group, _, ok := strings.Cut(o.Name, "."); ok && group == name {
			members = append(members, o)
		}
	}
	if members == nil {
		return nil, unknownOperation(name)
	}
	return members, nil
}

// chosenOperations returns the operations of all names, each once, in the order of the
// names; all operations if there are no names.
func chosenOperations(names []string) ([]*op.Operation, error) {
	if len(names) == 0 {
		return all.Operations, nil
	}
	var chosen []*op.Operation
	for _, name := range names {
		meant, err := operationsNamed(name)
		if err != nil {
			return nil, err
		}
		for _, o := range meant {
			if !slices.Contains(chosen, o) {
				chosen = append(chosen, o)
			}
		}
	}
	return chosen, nil
}

// findOperation returns the operation of a name, which must not be a group.
func findOperation(name string) (*op.Operation, error) {
	meant, err := operationsNamed(name)
	if err != nil {
		return nil, err
	}
	if isGroup(meant, name) {
		return nil, wrongUse("%s is a group of operations, want %s", name, oneOf(operationNames(meant)))
	}
	return meant[0], nil
}

// isGroup reports whether name is a group of the operations.
func isGroup(operations []*op.Operation, name string) bool {
	return operations[0].Name != name && !operations[0].IsOwn
}

func operationNames(operations []*op.Operation) (names []string) {
	for _, o := range operations {
		names = append(names, o.Name)
	}
	return names
}

// unknownOperation returns the error for a name that is neither an operation nor one of
// others. The name of a definition gets another message than a misspelling.
func unknownOperation(name string, others ...string) error {
	known := slices.Clone(others)
	lower := strings.ToLower(name)
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if d.Name == name {
				return wrongUse("%s is a definition of the operation %s: use that name", name, o.Name)
			}
		}
		group, _, _ := strings.Cut(o.Name, ".")
		known = append(known, group, o.Name)
	}
	if lower != name && slices.Contains(known, lower) {
		return wrongUse("unknown operation %q: names are lower case: %s", name, lower)
	}
	return unknownName("operation", name, known)
}

// completeOperation completes the first argument with operations.
func completeOperation(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if isDefinitionFile(word) {
		return []cobra.Completion{"def"}, cobra.ShellCompDirectiveFilterFileExt
	}
	var names []cobra.Completion
	if len(args) == 0 {
		for _, o := range all.Operations {
			names = append(names, cobra.CompletionWithDesc(o.Name, o.Summary))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeOperations completes any number of operations and groups.
func completeOperations(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if isDefinitionFile(word) {
		return []cobra.Completion{"def"}, cobra.ShellCompDirectiveFilterFileExt
	}
	var names []cobra.Completion
	for _, o := range all.Operations {
		if group, _, ok := strings.Cut(o.Name, "."); ok && !slices.Contains(names, group) {
			names = append(names, group)
		}
		names = append(names, cobra.CompletionWithDesc(o.Name, o.Summary))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// formatsIn returns the storage formats of a definition in t, or in its first format if it
// cannot be stored in t.
func formatsIn(d *def.Definition, t num.DType) []num.DType {
	if dtypes := d.DTypes(t); dtypes != nil {
		return dtypes
	}
	return d.Formats()[0]
}

// chosenDTypes returns the formats that a caller may choose: those of real values, and of the
// integers that an operation computes with.
var chosenDTypes = sync.OnceValue(func() []num.DType {
	list := slices.Clone(num.RealDTypes)
	for _, t := range num.IntegerDTypes {
		if slices.ContainsFunc(all.Operations, func(o *op.Operation) bool { return o.Definitions[0].DTypes(t) != nil }) {
			list = append(list, t)
		}
	}
	return list
})

func dtypeNames() []string {
	var names []string
	for _, d := range chosenDTypes() {
		names = append(names, d.String())
	}
	return names
}

// parseDTypes parses names of formats that a caller may choose.
func parseDTypes(names []string) ([]num.DType, error) {
	var list []num.DType
	for _, name := range names {
		t, err := num.ParseDType(name)
		if err != nil || !slices.Contains(chosenDTypes(), t) {
			return nil, unknownDType(name)
		}
		list = append(list, t)
	}
	return list, nil
}

// unknownDType returns the error for a format that cannot be chosen: its other name if it has
// one, or else all that there are. A similar name would be another format.
func unknownDType(name string) error {
	other := map[string]string{
		"half": "f16", "float16": "f16", "fp16": "f16", "bfloat16": "bf16", "brain": "bf16", "float": "f32", "float32": "f32", "fp32": "f32", "single": "f32",
		"float8_e4m3fn": "e4m3", "f8_e4m3": "e4m3", "fp8_e4m3": "e4m3", "float8_e5m2": "e5m2", "f8_e5m2": "e5m2", "fp8_e5m2": "e5m2", "int64": "i64", "long": "i64",
	}[strings.ToLower(name)]
	if lower := strings.ToLower(name); slices.Contains(dtypeNames(), lower) {
		other = lower
	}
	if other != "" {
		return wrongUse("unknown dtype %q, did you mean %s?", name, other)
	}
	return wrongUse("unknown dtype %q, want %s", name, oneOf(dtypeNames()))
}

// deviceNames lists common device names, for completion and help.
var deviceNames = []string{"auto", "cpu", "cuda:0", "hip:0", "sim", "sim:64", "amdemu:gfx1100", "amdemu:gfx942"}

// deviceFlag defines the flag --device; verb says what is done on the device.
func deviceFlag(flags *pflag.FlagSet, to *string, standard, verb string) {
	last := len(deviceNames) - 1
	flags.StringVar(to, "device", standard, fmt.Sprintf("%s `DEVICE`: %s or %s", verb, strings.Join(deviceNames[:last], ", "), deviceNames[last]))
}

// backendOf returns the backend of a device name, or the CPU's if the name is invalid.
func backendOf(name string) engine.Backend {
	if b, _, err := backends.Parse(name); err == nil {
		return b
	}
	return cpu.Backend
}

// checkDevice returns a usage error if name is not a valid device name.
func checkDevice(name string) error {
	_, _, err := backends.Parse(name)
	if err == nil {
		return nil
	}
	if hint := didYouMean(name, deviceNames); hint != "" && !strings.Contains(name, ":") {
		return wrongUse("unknown device %q%s", name, hint)
	}
	return wrongUse("%v", err)
}
