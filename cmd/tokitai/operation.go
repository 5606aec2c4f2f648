package main

import (
	"strings"

	"github.com/spf13/cobra"

	"tokitai/def"
	"tokitai/device"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
)

func findOperation(name string) (*op.Operation, error) {
	if o := all.Find(name); o != nil {
		return o, nil
	}
	var names []string
	for _, o := range all.Operations {
		names = append(names, o.Name)
	}
	return nil, unknownName("operation", name, names)
}

// completeOperation offers the operations as the first argument.
func completeOperation(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	if len(args) == 0 {
		for _, o := range all.Operations {
			names = append(names, cobra.CompletionWithDesc(o.Name, o.Summary))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// formats are the formats of a definition's operands: t where the contract leaves
// a choice that t is in, else the first of the choice.
func formats(d *def.Definition, t num.DType) []num.DType {
	all := make([]num.DType, len(d.Operands))
	for i := range d.Operands {
		o := &d.Operands[i]
		for o.DTypes.Like != "" {
			o = &d.Operands[d.Operand(o.DTypes.Like)]
		}
		for k, allowed := range o.DTypes.Allowed {
			if k == 0 || allowed == t {
				all[i] = allowed
			}
		}
	}
	return all
}

func dtypeNames() []string {
	var names []string
	for _, d := range num.FloatDTypes {
		names = append(names, d.String())
	}
	return names
}

// parseDTypes reads formats of floating-point numbers.
func parseDTypes(names []string) ([]num.DType, error) {
	var list []num.DType
	for _, name := range names {
		t, err := num.ParseDType(name)
		if err != nil || !t.IsFloat() {
			return nil, unknownName("dtype", name, dtypeNames())
		}
		list = append(list, t)
	}
	return list, nil
}

// deviceNames are the devices that this build has.
var deviceNames = []string{"auto", "cpu"}

// checkDevice refuses what no device can be called.
func checkDevice(name string) error {
	_, _, err := device.ParseName(name)
	if err == nil {
		return nil
	}
	if hint := didYouMean(name, deviceNames); hint != "" && !strings.Contains(name, ":") {
		return wrongUse("unknown device %q%s", name, hint)
	}
	return wrongUse("%v", err)
}
