package main

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/op"
	"tokitai/promise"
	"tokitai/verify"
)

// promiseFlags say what kernels are held to, instead of what their lowerings say.
type promiseFlags struct {
	promise, profile      string
	declare, waive, shape []string
}

// terms are what promiseFlags say.
type terms struct {
	verify.Terms
	shapes []verify.Shape
	waived []string
}

// register adds the flags.
func (f *promiseFlags) register(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.promise, "promise", "", "hold kernels to this `PROMISE` instead of their own: bits, ordered or stable")
	flags.StringVar(&f.profile, "profile", "", "grant functions the errors of a family of kernels: `NAME` "+oneOf(promise.Profiles()))
	flags.StringArrayVar(&f.declare, "declare", nil, "what the kernel's author says about its arithmetic: `ITEMS` such as 'order=lanes(16) exp=2ulp+1.16|x|'; may be repeated")
	flags.StringArrayVar(&f.waive, "waive", nil, "leave out a `CLAUSE` of the contract, such as crossentropy.C5; may be repeated")
	flags.StringArrayVar(&f.shape, "shape", nil, "also run this `SHAPE`, such as R=5,C=4096; may be repeated")
	c.RegisterFlagCompletionFunc("promise", cobra.FixedCompletions(promise.Names(), cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("profile", cobra.FixedCompletions(promise.Profiles(), cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("declare", completeDeclaration)
	c.RegisterFlagCompletionFunc("waive", completeClause)
	c.RegisterFlagCompletionFunc("shape", cobra.NoFileCompletions)
}

// completeDeclaration completes the last item of a declaration up to its value.
func completeDeclaration(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := begun[:strings.LastIndexAny(begun, ", ")+1]
	var words []cobra.Completion
	for _, i := range promise.Items() {
		word, _, hasValue := strings.Cut(i.Form, "=")
		switch {
		case !hasValue:
			words = append(words, before+word)
		case word != "FUNCTION" && !strings.Contains(word, "("):
			words = append(words, before+word+"=")
		}
	}
	for _, f := range promise.Functions() {
		words = append(words, before+f+"=")
	}
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeClause completes the clauses of the named operations, or of all, that can be waived.
func completeClause(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	for _, o := range operationsOf(verifyTargets(backendOf("cpu"))) {
		isNamed := func(name string) bool {
			named, err := operationsNamed(name)
			return err == nil && slices.Contains(named, o)
		}
		if len(args) == 0 || slices.ContainsFunc(args, isNamed) {
			names = append(names, waivable(o)...)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// operationsOf returns the operations of targets, each once.
func operationsOf(targets []*verify.Target) []*op.Operation {
	var operations []*op.Operation
	for _, t := range targets {
		if t.Operation != nil && !slices.Contains(operations, t.Operation) {
			operations = append(operations, t.Operation)
		}
	}
	return operations
}

// waivable lists the clauses of an operation that can be waived.
func waivable(o *op.Operation) []string {
	var names []string
	for i := range o.Clauses {
		if o.Clauses[i].Covers != nil {
			names = append(names, o.Clauses[i].Name())
		}
	}
	return names
}

// parse reads the flags, as far as they do not depend on what is verified.
func (f *promiseFlags) parse() (*terms, error) {
	t := &terms{}
	t.IsDeclared = len(f.declare) > 0
	var err error
	if f.promise != "" {
		if t.Promise, err = promise.Parse(f.promise); err != nil {
			return nil, unknownName("promise", f.promise, promise.Names())
		}
	}
	if f.profile != "" {
		if _, err := promise.LookupProfile(f.profile); err != nil {
			return nil, unknownName("profile", f.profile, promise.Profiles())
		}
	}
	if t.Declares, t.Order, err = promise.ParseDeclaration(strings.Join(f.declare, " ")); err != nil {
		return nil, wrongUse("--declare: %s", strings.TrimPrefix(err.Error(), "declaration "))
	}
	if in := t.Declares.Profile; f.profile != "" && in != "" && in != f.profile {
		return nil, wrongUse("--profile is %s, and --declare says profile=%s: want one of them", f.profile, in)
	}
	t.Declares.Profile = cmp.Or(t.Declares.Profile, f.profile)
	for _, text := range f.shape {
		shape, err := verify.ParseShape(text)
		if err != nil {
			return nil, wrongUse("--shape: %v", err)
		}
		t.shapes = append(t.shapes, shape)
	}
	for _, name := range f.waive {
		if slices.Contains(t.waived, name) {
			return nil, wrongUse("--waive %s is given twice", name)
		}
		t.waived = append(t.waived, name)
	}
	return t, nil
}

// apply returns the targets with lowerings that promise and declare what the flags say. It
// refuses what does not fit one of them.
func (t *terms) apply(targets []*verify.Target) ([]*verify.Target, error) {
	if err := t.checkWaived(operationsOf(targets)); err != nil {
		return nil, err
	}
	if err := t.checkShapes(targets); err != nil {
		return nil, err
	}
	if t.Promise == promise.Default && !t.IsDeclared && t.Declares.Profile == "" {
		return targets, nil
	}
	type kernel struct {
		definition *def.Definition
		lowering   *engine.Lowering
	}
	held := map[kernel]*engine.Lowering{}
	var list []*verify.Target
	for _, old := range targets {
		k := kernel{old.Definition, old.Lowering}
		if held[k] == nil {
			l, err := t.hold(old)
			if err != nil {
				return nil, err
			}
			held[k] = l
		}
		list = append(list, old.Under(held[k]))
	}
	return list, nil
}

// hold returns a copy of a target's lowering that promises and declares what the flags say.
func (t *terms) hold(target *verify.Target) (*engine.Lowering, error) {
	l, err := t.Hold(target)
	if declaration, ok := errors.AsType[*verify.DeclarationError](err); ok {
		return nil, wrongUse("--declare: %v", declaration.Cause)
	}
	if err != nil {
		return nil, wrongUse("%v", err)
	}
	return l, nil
}

// checkWaived refuses clauses that no verified operation has, or that cannot be waived.
func (t *terms) checkWaived(operations []*op.Operation) error {
	for _, name := range t.waived {
		at := strings.LastIndex(name, ".")
		if at < 0 {
			return wrongUse("--waive %s: want an operation and the number of a clause, such as crossentropy.C5", name)
		}
		i := slices.IndexFunc(operations, func(o *op.Operation) bool {
			return slices.ContainsFunc(o.Definitions, func(d *def.Definition) bool { return d.Name == name[:at] })
		})
		if i < 0 {
			var verified []string
			for _, o := range operations {
				for _, d := range o.Definitions {
					verified = append(verified, d.Name)
				}
			}
			return wrongUse("--waive %s: %q is not among what is verified%s", name, name[:at], cmp.Or(didYouMean(name[:at], verified), ", want a clause of "+oneOf(verified)))
		}
		if _, err := operations[i].ClauseOf(name); err != nil {
			return wrongUse("--waive: %v", err)
		}
	}
	return nil
}

// checkShapes refuses shapes that fit nothing that is verified, or that do not fit the declared
// order of sums.
func (t *terms) checkShapes(targets []*verify.Target) error {
	for _, shape := range t.shapes {
		var misfit error
		isUsed := false
		for _, target := range targets {
			if err := target.CheckShape(shape); err != nil {
				misfit = cmp.Or(misfit, err)
				continue
			}
			isUsed = true
			if err := promise.CheckLengths(target.Definition, shape, t.Order); err != nil {
				return wrongUse("--shape %s: %v", shape, err)
			}
		}
		if !isUsed {
			return wrongUse("--shape: %v", misfit)
		}
	}
	return nil
}

// options returns the options of one target: with the clauses and shapes that are its own.
func (t *terms) options(o verify.Options, target *verify.Target) verify.Options {
	for _, name := range t.waived {
		if target.Operation != nil && slices.Contains(waivable(target.Operation), name) {
			o.Waive = append(o.Waive, name)
		}
	}
	for _, shape := range t.shapes {
		if target.CheckShape(shape) == nil {
			o.Shapes = append(o.Shapes, shape)
		}
	}
	return o
}
