package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tokitai/def"
	"tokitai/internal/newfile"
	"tokitai/op"
	"tokitai/tensor/file"
	"tokitai/tensor/safetensors"
)

// fileFlags are the flags of run that say where tensors come from and where they go.
type fileFlags struct {
	in, out, tensors []string
	shardSize        string
	replace          bool
}

// register adds the flags to a command.
func (f *fileFlags) register(c *cobra.Command) {
	flags := c.Flags()
	flags.StringArrayVar(&f.in, "in", nil, "read tensors from `FILE`, or one operand from OPERAND=FILE; may be repeated")
	flags.StringArrayVar(&f.out, "out", nil, "write tensors to `FILE`, or one operand to OPERAND=FILE; may be repeated")
	flags.StringArrayVar(&f.tensors, "tensor", nil, "read or write an operand as the tensor NAME, as `OPERAND=NAME`; may be repeated")
	flags.StringVar(&f.shardSize, "shard-size", "", "limit each shard to `BYTES`, such as 500MB, if --out is an index (default 5GB)")
	flags.BoolVar(&f.replace, "replace", false, "replace files of --out that hold other tensors, which are lost")
	for _, name := range []string{"in", "out"} {
		c.MarkFlagFilename(name, "safetensors", "npy", "npz", "json")
	}
}

// operandFile is a file of --in or --out, for one operand or, if that is empty, for all.
type operandFile struct {
	operand, path string
}

// parseOperandFile parses FILE or OPERAND=FILE. A path that contains = needs a slash
// before it.
func parseOperandFile(text string) operandFile {
	operand, path, ok := strings.Cut(text, "=")
	if !ok || strings.ContainsAny(operand, `/\`) {
		return operandFile{path: text}
	}
	return operandFile{operand, path}
}

// filePlan says which operands of an operation are read from and written to which files.
type filePlan struct {
	op         *op.Operation
	definition *def.Definition // whose operands are read and written; nil if the operation takes any tensors
	in, out    []operandFile
	tensors    map[string]string // operands to names of tensors
	shardBytes int64
	mayLose    bool // what files of out hold now

	// isGot says that the files of in have the outputs of a call, which somebody has computed
	// already, except those in omits.
	isGot bool
	omits []string
}

// kind returns what is read.
func (p *filePlan) kind() string {
	if p.isGot {
		return "output"
	}
	return "input"
}

// source returns the flag that names the files to read.
func (p *filePlan) source() string {
	if p.isGot {
		return "--got"
	}
	return "--in"
}

// plan checks the flags against the operation.
func (f *fileFlags) plan(o *op.Operation, params *op.Values) (*filePlan, error) {
	if len(f.in) == 0 || len(f.out) == 0 {
		return nil, wrongUse("--in and --out are needed: the files to read and to write")
	}
	p, err := f.reading(o, params)
	if err != nil {
		return nil, err
	}
	p.mayLose = f.replace
	if err := p.nameTargets(f.out); err != nil {
		return nil, err
	}
	return p, p.shard(f.shardSize)
}

// reading checks the flags that say what is read.
func (f *fileFlags) reading(o *op.Operation, params *op.Values) (*filePlan, error) {
	p := &filePlan{op: o, tensors: map[string]string{}}
	if o.Takes == nil {
		p.definition = o.Definitions[0]
		if o.Variant != nil {
			p.definition = o.Variant(params)
		}
		if params.Err() != nil {
			return nil, params.Err()
		}
	}
	if err := p.nameTensors(f.tensors); err != nil {
		return nil, err
	}
	return p, p.nameSources(f.in)
}

// inputs returns the operands to read, or nil if the operation takes any tensors.
func (p *filePlan) inputs() []string {
	if p.isGot {
		return p.operands(func(o def.Operand) bool { return o.IsOut && !slices.Contains(p.omits, o.Name) })
	}
	return p.operands(func(o def.Operand) bool { return o.IsIn })
}

// outputs returns the operands to write, or nil if they are known only after the run.
func (p *filePlan) outputs() []string {
	if p.definition == nil {
		return p.op.Results
	}
	return p.operands(func(o def.Operand) bool { return o.IsOut })
}

func (p *filePlan) operands(are func(def.Operand) bool) (names []string) {
	if p.definition == nil {
		return nil
	}
	for _, o := range p.definition.Operands {
		if are(o) {
			names = append(names, o.Name)
		}
	}
	return names
}

func (p *filePlan) isInput(name string) bool {
	if p.definition == nil {
		return p.op.Takes(name) && !slices.Contains(p.op.Results, name)
	}
	return slices.Contains(p.inputs(), name)
}

// isOutput reports whether an operand is written. An operation that takes any tensors and
// names no results updates its inputs.
func (p *filePlan) isOutput(name string) bool {
	return slices.Contains(p.outputs(), name) || p.definition == nil && p.op.Results == nil && p.op.Takes(name)
}

// unknown returns the error for an operand that the operation does not have.
func (p *filePlan) unknown(flag, what, name string, known []string) error {
	hint := didYouMean(name, known)
	if hint == "" && len(known) > 0 {
		hint = ", want " + oneOf(known)
	}
	return wrongUse("%s: %s has no %s %q%s", flag, p.op.Name, what, name, hint)
}

func (p *filePlan) nameTensors(flags []string) error {
	for _, text := range flags {
		operand, name, ok := strings.Cut(text, "=")
		_, isTwice := p.tensors[operand]
		switch {
		case !ok || operand == "" || name == "":
			return wrongUse("--tensor %q: want OPERAND=NAME", text)
		case isTwice:
			return wrongUse("--tensor names %s twice", operand)
		case !p.isInput(operand) && !p.isOutput(operand):
			known := p.inputs()
			for _, o := range p.outputs() {
				if !slices.Contains(known, o) {
					known = append(known, o)
				}
			}
			return p.unknown("--tensor", "operand", operand, known)
		}
		p.tensors[operand] = name
	}
	return nil
}

// tensorOf returns the name of the tensor that an operand is written as.
func (p *filePlan) tensorOf(operand string) string {
	if name, ok := p.tensors[operand]; ok {
		return name
	}
	return operand
}

func (p *filePlan) nameSources(flags []string) error {
	for _, text := range flags {
		f := parseOperandFile(text)
		if f.operand == "" && file.IsArray(f.path) {
			switch inputs := p.inputs(); {
			case p.definition == nil:
				f.operand = strings.TrimSuffix(filepath.Base(f.path), filepath.Ext(f.path))
			case len(inputs) == 1:
				f.operand = inputs[0]
			default:
				return wrongUse("%s %s: which of %s is it? give %s %s=%s", p.source(), f.path, allOf(inputs), p.source(), inputs[0], f.path)
			}
		}
		switch {
		case f.path == "":
			return wrongUse("%s %q: want FILE or OPERAND=FILE", p.source(), text)
		case f.operand != "" && !p.isInput(f.operand):
			return p.unknown(p.source(), p.kind(), f.operand, p.inputs())
		case f.operand != "" && hasOperand(p.in, f.operand):
			return wrongUse("%s names %s twice", p.source(), f.operand)
		}
		p.in = append(p.in, f)
	}
	return nil
}

func (p *filePlan) nameTargets(flags []string) error {
	for _, text := range flags {
		f := parseOperandFile(text)
		switch {
		case f.path == "":
			return wrongUse("--out %q: want FILE or OPERAND=FILE", text)
		case f.operand != "" && !p.isOutput(f.operand):
			return p.unknown("--out", "output", f.operand, p.outputs())
		case f.operand != "" && hasOperand(p.out, f.operand):
			return wrongUse("--out names %s twice", f.operand)
		case f.operand == "" && hasOperand(p.out, ""):
			return wrongUse("--out is given twice without an operand; give --out OPERAND=FILE")
		}
		for _, other := range p.out { // one file has one name in what follows
			if newfile.Resolve(other.path) == newfile.Resolve(f.path) {
				f.path = other.path
			}
		}
		p.out = append(p.out, f)
	}
	if p.outputs() == nil {
		return nil // known after the run
	}
	contents := p.divide(p.outputs())
	for _, path := range p.targets() {
		if err := p.checkTarget(path, contents[path]); err != nil {
			return err
		}
	}
	return nil
}

// checkTarget returns an error if the file cannot hold these outputs.
func (p *filePlan) checkTarget(path string, outputs []string) error {
	if len(outputs) == 0 {
		return wrongUse("--out %s: no output is left for this file", path)
	}
	if err := file.CheckTarget(path, len(outputs)); err != nil {
		if len(outputs) > 1 {
			return wrongUse("--out %v; give --out %s=FILE.npy for each of %s", err, outputs[0], allOf(outputs))
		}
		return wrongUse("--out %v", err)
	}
	by := map[string]string{}
	for _, operand := range outputs {
		if other, ok := by[p.tensorOf(operand)]; ok {
			return wrongUse("--tensor: %s and %s would both be %q in %s", other, operand, p.tensorOf(operand), path)
		}
		by[p.tensorOf(operand)] = operand
	}
	return nil
}

// checkLosses returns an error if a file of --out would lose what it holds now.
func (p *filePlan) checkLosses(outputs []string) error {
	contents := p.divide(outputs)
	for _, path := range p.targets() {
		var names []string
		for _, operand := range contents[path] {
			names = append(names, p.tensorOf(operand))
		}
		if err := p.loss(file.CheckReplaced(path, names)); err != nil {
			return err
		}
	}
	return nil
}

// loss returns err with the ways out if it says that a file of --out would lose what it holds,
// or nil if it may.
func (p *filePlan) loss(err error) error {
	switch _, isLoss := errors.AsType[*file.LossError](err); {
	case !isLoss:
		return err
	case p.mayLose:
		return nil
	}
	return wrongUse("--out %v; give another file, or --replace to lose what it holds", err)
}

func hasOperand(files []operandFile, operand string) bool {
	return slices.ContainsFunc(files, func(f operandFile) bool { return f.operand == operand })
}

// shard parses --shard-size.
func (p *filePlan) shard(size string) error {
	const usual = 5_000_000_000
	isIndex := slices.ContainsFunc(p.targets(), file.IsIndex)
	switch n, err := parseBytes(size); {
	case size == "":
		p.shardBytes = usual
	case err != nil:
		return wrongUse("--shard-size %v", err)
	case !isIndex:
		return wrongUse("--shard-size needs --out NAME%s", safetensors.IndexSuffix)
	default:
		p.shardBytes = n
	}
	return nil
}

// parseBytes parses a number of bytes such as 5GB, 500MB or 4GiB.
func parseBytes(text string) (int64, error) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	n, err := strconv.ParseInt(text[:digits], 10, 64)
	units := map[string]int64{"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
	unit, ok := units[strings.ToUpper(text[digits:])]
	if err != nil || !ok || n < 1 || n > (1<<62)/unit {
		return 0, fmt.Errorf("%q: want a number of bytes such as 5GB, 500MB or 4GiB", text)
	}
	return n * unit, nil
}
