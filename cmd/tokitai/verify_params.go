package main

import (
	"cmp"
	"slices"

	"github.com/spf13/cobra"

	"tokitai/verify"
)

// fixParams returns the targets with the parameters of --param. It refuses a parameter that none of
// them has.
func (f *verifyFlags) fixParams(targets []*verify.Target, operations []string) ([]*verify.Target, error) {
	given, names, err := parseParams(f.params)
	switch {
	case err != nil:
		return nil, err
	case len(names) == 0:
		return targets, nil
	case len(operations) == 0:
		return nil, wrongUse("--param needs OP: name the operations that have %s", allOf(names))
	}
	var fixable, declared []string
	for _, t := range targets {
		fixable = append(fixable, t.FixableParams()...)
		if t.Operation != nil {
			for _, p := range t.Operation.Params {
				declared = append(declared, p.Name)
			}
		}
	}
	slices.Sort(fixable)
	fixable = slices.Compact(fixable)
	for _, name := range names {
		if slices.Contains(fixable, name) {
			continue
		}
		of, want := allOf(operationNames(operationsOf(targets))), "no parameter"
		if len(fixable) > 0 {
			want = oneOf(fixable)
		}
		if slices.Contains(declared, name) { // cases vary what it chooses, and their names say so
			return nil, wrongUse("%s: verify cannot set parameter %s to %q, want %s", of, name, given[name], want)
		}
		return nil, wrongUse("%s: unknown parameter %q%s", of, name, cmp.Or(didYouMean(name, fixable), ", want "+want))
	}
	var list []*verify.Target
	for _, t := range targets {
		fixed, err := t.Fix(given)
		if err != nil {
			return nil, err
		}
		if fixed != nil && fixed.IsStored() {
			list = append(list, fixed)
		}
	}
	if len(list) == 0 {
		return nil, wrongUse("%s: --param selects another definition, which OP does not name", allOf(operations))
	}
	return list, nil
}

// hasAll reports whether a list has all of the names.
func hasAll(list, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(list, name) })
}

// completeFixable completes the parameters that the named operations have.
func completeFixable(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	if targets, err := namedTargets(verifyTargets(backendOf("cpu")), args); err == nil && len(args) > 0 {
		for _, t := range targets {
			for _, p := range t.FixableParams() {
				names = append(names, p+"=")
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
