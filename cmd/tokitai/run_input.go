package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/nearest"
	"tokitai/tensor"
	"tokitai/tensor/file"
)

// openedFiles are the files of --in, and the tensors that are read from them.
type openedFiles struct {
	plan   *filePlan
	sets   []*file.Set // in the order of plan.in
	inputs []inputTensor
}

// inputTensor is the tensor of an operand.
type inputTensor struct {
	operand string
	tensor  *file.Tensor
}

// open opens the files of --in and finds every input. It reads no tensor.
func (p *filePlan) open() (*openedFiles, error) {
	f := &openedFiles{plan: p}
	for _, in := range p.in {
		set, err := file.Open(in.path)
		if err != nil {
			f.close()
			return nil, err
		}
		f.sets = append(f.sets, set)
	}
	if err := f.find(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *openedFiles) close() {
	for _, set := range f.sets {
		set.Close()
	}
}

func (f *openedFiles) find() error {
	operands := f.plan.inputs()
	if f.plan.definition == nil {
		operands = f.anyTensors()
	}
	for _, operand := range operands {
		set, name, err := f.locate(operand)
		if err != nil {
			return err
		}
		find := set.Find
		if d := f.plan.definition; d != nil && isIndexLike(d, &d.Operands[d.Operand(operand)], f.plan.isGot) {
			find = set.FindIndices
		}
		t, err := find(name)
		if err != nil {
			return err
		}
		f.inputs = append(f.inputs, inputTensor{operand, t})
	}
	return nil
}

// isIndexLike reports whether an operand may be stored as int64 in a file, as NumPy and PyTorch do, and
// is read as int32.
func isIndexLike(d *def.Definition, o *def.Operand, isGot bool) bool {
	return o.IsIndex || o.IsInt() && (isGot || d.Expression() != nil)
}

// anyTensors returns the inputs of an operation that takes any tensors: those that --tensor
// names or, without it, all that the operation takes; and those with files of their own.
func (f *openedFiles) anyTensors() []string {
	chosen := map[string]bool{}
	for name := range f.plan.tensors {
		if f.plan.isInput(name) {
			chosen[name] = true
		}
	}
	isAll := len(chosen) == 0
	for i, in := range f.plan.in {
		switch {
		case in.operand != "":
			chosen[in.operand] = true
		case isAll:
			for _, name := range f.sets[i].Names() {
				if f.plan.op.Takes(name) {
					chosen[name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(chosen))
}

// locate finds the tensor of an operand by its name: in the file of its own, or else in
// those of all.
func (f *openedFiles) locate(operand string) (*file.Set, string, error) {
	name, isNamed := f.plan.tensors[operand]
	if isNamed = isNamed && f.plan.isInput(operand); !isNamed {
		name = operand
	}
	var sets []*file.Set
	for i, in := range f.plan.in {
		set := f.sets[i]
		if in.operand == operand {
			switch names := set.Names(); {
			case set.IsArray() && isNamed:
				return nil, "", wrongUse("--tensor %s=%s: %s has one array without a name", operand, name, set.Path())
			case set.IsArray(), !isNamed && !set.Has(name) && len(names) == 1:
				name = names[0]
			}
			sets = []*file.Set{set}
			break
		}
		if in.operand == "" {
			sets = append(sets, set)
		}
	}
	holding := slices.DeleteFunc(slices.Clone(sets), func(s *file.Set) bool { return !s.Has(name) })
	switch len(holding) {
	case 0:
		return nil, "", f.missing(operand, name, isNamed, sets)
	case 1:
		return holding[0], name, nil
	}
	return nil, "", wrongUse("tensor %q is in %s and in %s: say which with %s %s=FILE", name, holding[0].Path(), holding[1].Path(), f.plan.source(), operand)
}

// missing returns the error for an operand without a tensor, with nearby names.
func (f *openedFiles) missing(operand, name string, isNamed bool, sets []*file.Set) error {
	if len(sets) == 0 {
		hint := ""
		if f.plan.isGot {
			hint = ", or --declare omit=" + operand + " if there is none"
		}
		return wrongUse("%s: %s is missing: give %s %s=FILE%s", f.plan.op.Name, operand, f.plan.source(), operand, hint)
	}
	var paths, names []string
	for _, s := range sets {
		paths = append(paths, s.Path())
		names = append(names, s.Names()...)
	}
	has := "has"
	if len(paths) > 1 {
		has = "have"
	}
	if isNamed {
		hint := didYouMean(name, names)
		if hint == "" {
			hint = ", want " + some(names, "or")
		}
		return wrongUse("--tensor %s=%s: %s %s no such tensor%s", operand, name, allOf(paths), has, hint)
	}
	if near := nearest.Names(operand, names); len(near) > 0 {
		return wrongUse("%s: %s is missing in %s, did you mean --tensor %s=%s?", f.plan.op.Name, operand, allOf(paths), operand, oneOf(near))
	}
	return wrongUse("%s: %s is missing in %s, which %s %s; --tensor %s=NAME names it", f.plan.op.Name, operand, allOf(paths), has, some(names, "and"), operand)
}

// some lists the first few of many names.
func some(names []string, last string) string {
	const most = 8
	switch n := len(names); {
	case n == 0:
		return "no tensors"
	case n > most:
		names = append(slices.Clone(names[:most-1]), fmt.Sprintf("%d more", n-most+1))
	}
	return listed(names, last)
}

// note reports tensors that would be inputs with other parameters.
func (f *openedFiles) note(w io.Writer) {
	if f.plan.definition == nil {
		return
	}
	for _, d := range f.plan.op.Definitions {
		for _, o := range d.Operands {
			if !o.IsIn || f.plan.isInput(o.Name) {
				continue
			}
			for i, in := range f.plan.in {
				if in.operand == "" && f.sets[i].Has(o.Name) {
					fmt.Fprintf(w, "note: %s of %s is not used: %s takes it with other parameters, see 'tokitai explain %s'\n", o.Name, oneLine(f.sets[i].Path()), f.plan.op.Name, f.plan.op.Name)
				}
			}
		}
	}
}

// isAlsoWritten reports whether a file of --in is one of --out.
func (f *openedFiles) isAlsoWritten() bool {
	for _, set := range f.sets {
		for _, file := range set.Files() {
			in, err := os.Stat(file)
			for _, path := range f.plan.targets() {
				if out, outErr := os.Stat(path); err == nil && outErr == nil && os.SameFile(in, out) {
					return true
				}
			}
		}
	}
	return false
}

// read places the inputs on a device, one after the other.
func (f *openedFiles) read(ctx context.Context, dev device.Device) (engine.Args, error) {
	args := engine.Args{}
	for _, in := range f.inputs {
		t, err := place(ctx, dev, in.tensor)
		if err != nil {
			return nil, err
		}
		args[in.operand] = t
	}
	return args, nil
}

// place reads a tensor into the device's memory, through host memory if the host cannot
// address it. It allocates all of the memory first, so that it fails early.
func place(ctx context.Context, dev device.Device, on *file.Tensor) (*tensor.Tensor, error) {
	t, err := tensor.New(dev, on.DType, on.Shape...)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", on, err)
	}
	if err := fill(ctx, t, on); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func fill(ctx context.Context, t *tensor.Tensor, on *file.Tensor) error {
	if a, ok := t.Array(); ok {
		return on.Read(ctx, a.Data)
	}
	host, err := place(ctx, cpu.Queue().Device(), on)
	if err != nil {
		return err
	}
	defer host.Close()
	return t.CopyFrom(host)
}
