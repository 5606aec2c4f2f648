package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tokitai/backend/cpu"
	"tokitai/def"
	emulator "tokitai/device/gpu/amdemu"
	"tokitai/device/gpu/compile"
	"tokitai/docs"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/machine"
	lowergpu "tokitai/lower/gpu"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
)

type explainFlags struct {
	emit    []string
	of      []string
	dtype   string
	access  string
	prelude bool
	json    bool
}

func newExplain() *cobra.Command {
	var f explainFlags
	c := &cobra.Command{
		Use:   "explain [OP]",
		Short: "show what an operation computes and promises",
		Long: `Print what an operation computes: its formula, operands, parameters and contract; its
definition, with every rounding and the order of every sum, and the SHA-256 of that
text; the functions it uses, with their proven largest errors; and its accuracy,
promised and measured. OP may be a group (softmax is softmax.forward and
softmax.backward) or a file that defines an operation (docs/definitions.md). Without
OP, all operations are listed.

OP may also be a folder of a language model, as transformers saves it: then print its
architecture, the number of its parameters, the formats they are stored in, the
definitions that compute it, and what is not supported (docs/models.md). --emit program
prints the text of its program for one token, with all that decides a bit.

With --emit, print what is executed instead: reference is the definition with its
functions expanded, one node per line; cpu is the machine code that the CPU runs, with
the definition's names beside the instructions, or its vector program if no code is
generated; cuda and hip are the sources that are compiled for NVIDIA's and AMD's GPUs;
gfx1100 and the other architectures of AMD's are the instructions that clang compiles
for them, which emulated GPUs execute, with the lines of the source. These are for operands stored in --dtype; an operand that cannot be stored in
it has its own format. OP may then also be one definition of an operation; for an
operation with several definitions, the source of the first is printed.

derivative is the definition of OP's gradients: given the gradient of each output, such as
dy for y, it computes that of each input, such as dx for x. --of restricts it to outputs
and inputs by name. Saved as a file, it can be run, verified and explained like any other
definition. A matrix product has a definition for each factor.

Machine code is for this processor's best instruction set. TOKITAI_CPU chooses another:
avx512, avx2 or neon, or plain for the vector program (docs/cpu.md).

Sources are complete files that compile as they are; --prelude=false leaves out the part
that all kernels share. They contain the kernels for rows of every length, for
operands that begin at multiples of 16 bytes (--access vector) or anywhere (element).`,
		Example: `  tokitai explain
  tokitai explain softmax.forward
  tokitai explain layernorm.backward --json
  tokitai explain gelu.forward --emit reference,cpu --dtype bf16
  tokitai explain rmsnorm.def
  tokitai explain rmsnorm.def --emit derivative
  tokitai explain ./llama
  tokitai explain layernorm.forward --emit derivative --of y,x
  tokitai explain softmax.forward --emit cuda
  tokitai explain gemm.grad_a.accumulate --emit hip --dtype f32 --prelude=false
  tokitai explain gelu.forward --emit gfx1100`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return wrongUse("unexpected argument %q", args[1])
			}
			return nil
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeOperations(c, args, word)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return f.list(c)
			}
			return f.explainNamed(c.OutOrStdout(), args[0])
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.emit, "emit", nil, "print what is executed: a `LIST` of "+strings.Join(emitted, ",")+"; of a model, "+emitProgram)
	flags.StringSliceVar(&f.of, "of", nil, "with derivative, a `LIST` of outputs and inputs (default all)")
	flags.StringVar(&f.dtype, "dtype", "f16", "for operands stored in `TYPE`: f16, bf16, f32, e4m3, e5m2, i32 or i64")
	flags.StringVar(&f.access, "access", lowergpu.Vector.String(), "with cuda, hip and gfx…, how operands are read and written: `WAY` vector or element")
	flags.BoolVar(&f.prelude, "prelude", true, "with cuda and hip, put the prelude before the kernels")
	jsonFlag(c, &f.json)
	c.RegisterFlagCompletionFunc("emit", cobra.FixedCompletions(append(emitted[:len(emitted):len(emitted)], emitProgram), cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("access", cobra.FixedCompletions(accessNames, cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("dtype", cobra.FixedCompletions(dtypeNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// emitted are the values of --emit.
var emitted = append([]string{"reference", "derivative", "cpu", "cuda", "hip"}, emulator.Architectures...)

// accessNames are the values of --access.
var accessNames = []string{lowergpu.Element: lowergpu.Element.String(), lowergpu.Vector: lowergpu.Vector.String()}

// operationList is the JSON output of explain without an operation.
type operationList struct {
	Operations []operationSummary `json:"operations"`
}

type operationSummary struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
}

func (f *explainFlags) list(c *cobra.Command) error {
	for _, name := range []string{"emit", "of", "dtype", "access", "prelude"} {
		if c.Flags().Changed(name) {
			return wrongUse("--%s needs an operation", name)
		}
	}
	var list operationList
	for _, o := range all.Operations {
		list.Operations = append(list.Operations, operationSummary{o.Name, o.Summary})
	}
	if f.json {
		return printJSON(c.OutOrStdout(), list)
	}
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, o := range list.Operations {
		fmt.Fprintf(w, "%s\t%s\n", o.Name, o.Summary)
	}
	return w.Flush()
}

// explanation is the JSON output of explain.
type explanation struct {
	Operation   string              `json:"operation"`
	Summary     string              `json:"summary"`
	Parameters  []explainedParam    `json:"parameters"`
	Definitions []explainedVariant  `json:"definitions"`
	Accuracy    string              `json:"accuracy,omitempty"` // Markdown
	word        string              // the argument that names it: its name, or the file that defines it
	contracts   []def.Contract      // of the definitions
	functions   []explainedFunction // of all definitions, each once
}

type explainedParam struct {
	Name    string `json:"name"`
	Default string `json:"default,omitempty"`
	Help    string `json:"help"`
}

// explainedVariant is one of an operation's definitions.
type explainedVariant struct {
	Name      string              `json:"name"`
	Kind      string              `json:"kind"`
	SHA256    string              `json:"sha256"` // of Text
	Text      string              `json:"text"`
	Keys      *explainedKeys      `json:"keys,omitempty"` // of attention
	Formula   []string            `json:"formula"`
	Operands  []explainedOperand  `json:"operands"`
	Clauses   []explainedClause   `json:"clauses"`
	Functions []explainedFunction `json:"functions"`
	Emitted   []emission          `json:"emitted,omitempty"`
}

// explainedKeys has the comparisons of a stream's condition, as the text has them.
type explainedKeys struct {
	Bounded  []string `json:"bounded"`
	Computed []string `json:"computed"`
}

type explainedOperand struct {
	Name   string `json:"name"`
	Role   string `json:"role"` // in, out or inout
	Shape  string `json:"shape"`
	DTypes string `json:"dtypes"`
	Note   string `json:"note,omitempty"`
}

type explainedClause struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

type explainedFunction struct {
	Name     string  `json:"name"`
	Math     string  `json:"math"`
	ULPs     float64 `json:"ulps"`
	Absolute float64 `json:"absolute,omitempty"` // added to ULPs
	Domain   string  `json:"domain"`
	Outside  string  `json:"outside,omitempty"`
	Proven   bool    `json:"proven"` // for every argument; otherwise claimed by the definition

	within string
}

// emission is a listing of what is executed.
type emission struct {
	Of      string   `json:"of"`               // one of --emit
	DTypes  []string `json:"dtypes,omitzero"`  // of the operands
	Rows    string   `json:"rows,omitempty"`   // short or long, if the program depends on it
	Access  string   `json:"access,omitempty"` // one of --access, if the program depends on it
	Listing string   `json:"listing"`
}

// explainedGroup is the JSON output of explain for a group.
type explainedGroup struct {
	Group      string        `json:"group"`
	Operations []explanation `json:"operations"`
}

// explainNamed explains an operation, or those of a group one after the other.
func (f *explainFlags) explainNamed(w io.Writer, name string) error {
	if isModelFolder(name) {
		return f.explainFolder(w, name)
	}
	operations, err := operationsNamed(name)
	named := err == nil && isGroup(operations, name)
	if err != nil && len(f.emit) > 0 {
		if o := onlyDefinition(name); o != nil {
			operations, err = []*op.Operation{o}, nil
		}
	}
	if err != nil {
		return err
	}
	group := explainedGroup{Group: name}
	for _, o := range operations {
		x, err := f.explain(o)
		if err != nil {
			return err
		}
		group.Operations = append(group.Operations, *x)
	}
	switch {
	case f.json && named:
		return printJSON(w, group)
	case f.json:
		return printJSON(w, group.Operations[0])
	}
	for i := range group.Operations {
		if i > 0 {
			fmt.Fprintln(w)
		}
		x := &group.Operations[i]
		write := x.print
		if len(f.emit) > 0 {
			write = x.printEmitted
		}
		if err := write(w); err != nil {
			return err
		}
	}
	return nil
}

// onlyDefinition returns an operation reduced to its definition of that name, or nil.
func onlyDefinition(name string) *op.Operation {
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if d.Name == name {
				only := *o
				only.Definitions = []*def.Definition{d}
				return &only
			}
		}
	}
	return nil
}

func (f *explainFlags) explain(o *op.Operation) (*explanation, error) {
	dtype, err := num.ParseDType(f.dtype)
	if err != nil || !slices.Contains(chosenDTypes(), dtype) {
		return nil, wrongUse("--dtype %q: want %s", f.dtype, oneOf(dtypeNames()))
	}
	for _, e := range f.emit {
		if !slices.Contains(emitted, e) {
			return nil, wrongUse("--emit %q: want %s", e, oneOf(emitted))
		}
	}
	if len(f.of) > 0 && !slices.Contains(f.emit, "derivative") {
		return nil, wrongUse("--of names what --emit derivative is restricted to")
	}
	access := lowergpu.Variant(slices.Index(accessNames, f.access))
	if !slices.Contains(accessNames, f.access) {
		return nil, wrongUse("--access %q: want %s", f.access, oneOf(accessNames))
	}
	x := &explanation{word: cmp.Or(o.File, o.Name), Operation: o.Name, Summary: o.Summary, Parameters: []explainedParam{}, Accuracy: docs.Accuracy(o.Name)}
	for _, p := range o.Params {
		x.Parameters = append(x.Parameters, explainedParam(p))
	}
	for i, d := range o.Definitions {
		v := explainDefinition(d)
		for _, e := range f.emit {
			var listings []emission
			var err error
			switch {
			case e == "reference":
				listings = emitReference(d)
			case e == "cpu":
				listings, err = emitCPU(d, dtype)
			case slices.Contains(emulator.Architectures, e):
				listings, err = emitAMD(d, e, dtype, access)
			case i > 0: // two sources are no file
			case e == "derivative":
				listings, err = f.emitDerivative(d)
			default:
				listings, err = f.emitSource(d, e, dtype, access)
			}
			if err != nil {
				return nil, err
			}
			v.Emitted = append(v.Emitted, listings...)
		}
		for _, called := range v.Functions {
			if !slices.Contains(x.functions, called) {
				x.functions = append(x.functions, called)
			}
		}
		x.Definitions = append(x.Definitions, v)
		x.contracts = append(x.contracts, d.Contract())
	}
	return x, nil
}

func explainDefinition(d *def.Definition) explainedVariant {
	v := explainedVariant{Name: d.Name, Kind: d.Form.String(), SHA256: d.Hash(), Text: d.Text(), Functions: functionsOf(d)}
	if f := streamOf(d); f != nil {
		v.Keys = &explainedKeys{Bounded: []string{}, Computed: []string{}}
		bounded, computed := lower.Comparisons(f)
		for _, n := range bounded {
			v.Keys.Bounded = append(v.Keys.Bounded, f.Math.Line(n))
		}
		for _, n := range computed {
			v.Keys.Computed = append(v.Keys.Computed, f.Math.Line(n))
		}
	}
	contract := d.Contract()
	v.Formula = contract.Formula
	for i, t := range contract.Operands {
		role := "in"
		switch o := d.Operands[i]; {
		case o.IsIn && o.IsOut:
			role = "inout"
		case o.IsOut:
			role = "out"
		}
		v.Operands = append(v.Operands, explainedOperand{Name: t.Name, Role: role, Shape: t.Shape, DTypes: t.DTypes, Note: t.Note})
	}
	for _, c := range contract.Clauses {
		v.Clauses = append(v.Clauses, explainedClause(c))
	}
	return v
}

// functionsOf returns the functions that a definition calls, each once.
func functionsOf(d *def.Definition) []explainedFunction {
	functions := []explainedFunction{}
	for _, f := range d.Functions() {
		functions = append(functions, explainedFunction{f.Name, f.Math.String(), f.ULPs, f.Absolute, f.Domain.String(), f.Outside, fn.IsProven(f), f.Within()})
	}
	return functions
}

// emitReference lists a definition's lines with functions expanded.
func emitReference(d *def.Definition) []emission {
	listing := d.Text() // the definition's own lines are what is executed
	if d.Expression() != nil {
		listing = strings.Join(d.Exec().Lines(d), "\n") + "\n"
	}
	return []emission{{Of: "reference", Listing: listing}}
}

// emitDerivative lists the definition of the gradients: one of each factor for a matrix product
// of which none is named.
func (f *explainFlags) emitDerivative(d *def.Definition) (all []emission, err error) {
	each := [][]string{f.of}
	if d.Product() != nil && len(f.of) == 0 {
		each = [][]string{{d.Operands[0].Name}, {d.Operands[1].Name}}
	}
	for _, of := range each {
		gradients, err := def.Derivative(d, of, fn.All...)
		if err != nil {
			return nil, err
		}
		all = append(all, emission{Of: "derivative", Listing: gradients.Source()})
	}
	return all, nil
}

// emitCPU lists the programs for short and for long rows, or one if they are the same.
func emitCPU(d *def.Definition, t num.DType) ([]emission, error) {
	if err := machine.Check(); err != nil {
		return nil, err
	}
	dtypes := formatsIn(d, t)
	var all []emission
	for class, rows := range []string{lowercpu.Short: "short", lowercpu.Long: "long"} {
		kernel, err := engine.Lowerings(cpu.Backend, d)[0].Compile(nil, d, dtypes, class)
		if err != nil {
			return nil, err
		}
		listing := fmt.Sprint(kernel)
		if class > 0 && listing == all[0].Listing {
			all[0].Rows = ""
			continue
		}
		all = append(all, emission{Of: "cpu", DTypes: storedAs(d, dtypes), Rows: rows, Listing: listing})
	}
	return all, nil
}

// storedAs returns the operands with their formats.
func storedAs(d *def.Definition, dtypes []num.DType) (names []string) {
	for i, o := range d.Operands {
		names = append(names, o.Name+" "+dtypes[i].String())
	}
	return names
}

// sourceNotes say how to compile a source so that its bits are right.
var sourceNotes = map[string]string{
	"cuda": "// For NVRTC: " + strings.Join(new(compile.NVRTC).Options("sm_90a"), " ") + "\n",
	"hip": "// The text is that for CUDA: the prelude tells them apart, by __HIP__.\n" +
		"// For clang: " + strings.Join(new(compile.Clang).Options("gfx942"), " ") + "\n",
}

// emitSource lists the source that is compiled for a GPU.
func (f *explainFlags) emitSource(d *def.Definition, of string, t num.DType, access lowergpu.Variant) ([]emission, error) {
	dtypes := formatsIn(d, t)
	kernel, err := lowergpu.Compile(d, dtypes, access)
	if err != nil {
		return nil, err
	}
	prelude := "#include \"prelude.h\"\n"
	if f.prelude {
		prelude = lowergpu.Prelude
	}
	e := emission{Of: of, DTypes: storedAs(d, dtypes), Listing: sourceNotes[of] + "\n" + prelude + "\n" + kernel.Source.Text}
	if d.Expression() != nil { // other kinds have the kernels for both in one source
		e.Access = access.String()
	}
	return []emission{e}, nil
}

func (x *explanation) printEmitted(w io.Writer) error {
	for i, v := range x.Definitions {
		for k, e := range v.Emitted {
			if i > 0 || k > 0 {
				fmt.Fprintln(w)
			}
			comment := "#"
			if e.Of == "cuda" || e.Of == "hip" {
				comment = "//"
			}
			fmt.Fprintf(w, "%s %s, %s", comment, v.Name, strings.Join(append([]string{e.Of}, e.DTypes...), ", "))
			if e.Rows != "" {
				fmt.Fprintf(w, ", %s rows", e.Rows)
			}
			if e.Access != "" {
				fmt.Fprintf(w, ", %s access", e.Access)
			}
			fmt.Fprintf(w, "\n%s", e.Listing)
		}
	}
	return nil
}

func (x *explanation) print(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s\n", x.Operation, x.Summary)
	fmt.Fprintf(w, "verify: tokitai verify %s\n", x.word)
	x.printParameters(w)
	for i, v := range x.Definitions {
		if fmt.Fprintln(w); len(x.Definitions) > 1 {
			fmt.Fprintf(w, "%s\n\n", v.Name)
		}
		printIndented(w, x.contracts[i].Table())
	}
	if len(x.functions) > 0 {
		fmt.Fprint(w, "\nfunctions\n")
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, f := range x.functions {
			how := "proven"
			if !f.Proven {
				how = "claimed, and tested by verify"
			}
			fmt.Fprintf(table, "  %s\t%s\twithin %s for %s\t%s\n", f.Name, f.Math, f.within, f.Domain, how)
		}
		table.Flush()
	}
	if x.Accuracy != "" {
		fmt.Fprint(w, "\naccuracy, in ulps of the output; docs/accuracy.md tells how to read it\n")
		printIndented(w, x.Accuracy)
	}
	for _, v := range x.Definitions {
		if v.Keys != nil {
			fmt.Fprint(w, "\nkeys that queries do not see\n")
			for _, line := range v.Keys.Bounded {
				fmt.Fprintf(w, "  decided for whole blocks of keys: %s\n", line)
			}
			for _, line := range v.Keys.Computed {
				fmt.Fprintf(w, "  computed for each query and key: %s\n", line)
			}
		}
		fmt.Fprintf(w, "\ndefinition, sha256 %s\n", v.SHA256)
		printIndented(w, v.Text)
	}
	return nil
}

func (x *explanation) printParameters(w io.Writer) {
	if len(x.Parameters) == 0 {
		return
	}
	fmt.Fprint(w, "\nparameters\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range x.Parameters {
		initial := "no default"
		if p.Default != "" {
			initial = "default " + p.Default
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\n", p.Name, initial, p.Help)
	}
	table.Flush()
}

func printIndented(w io.Writer, text string) {
	for line := range strings.Lines(text) {
		if line != "\n" {
			line = "  " + line
		}
		io.WriteString(w, line)
	}
}

// streamOf returns the form of a stream or of its gradients, or nil.
func streamOf(d *def.Definition) *def.Stream {
	switch f := d.Form.(type) {
	case *def.Stream:
		return f
	case *def.StreamBackward:
		return &f.Stream
	}
	return nil
}
