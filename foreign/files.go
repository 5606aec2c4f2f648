package foreign

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/kernelprocess/spawn"
	"tokitai/num"
	"tokitai/tensor/safetensors"
)

// Names of what the metadata of an input file has.
const (
	metaDefinition = "tokitai.definition"
	metaParam      = "tokitai.param."  // and the name of a parameter
	metaOutput     = "tokitai.output." // and the name of an output: its format and shape, such as F16 2,8
	metaSeed       = "tokitai.seed"
)

// ExitRefused is the exit status by which a program of [Files] refuses a call.
const ExitRefused = 77

// Files returns a kernel that is a program which reads and writes safetensors files. In the words
// of the command, {in} and {out} stand for their paths. The program is started for every call:
// the input file has the operands that are read, by name, and the definition and the parameters
// in its metadata; the program writes the outputs to the other file and exits with status 0, or
// with [ExitRefused] if it does not compute such shapes or formats.
func Files(command []string, o Options) (*Kernel, error) {
	if o.Definition == nil {
		return nil, errors.New("foreign: the options have no definition")
	}
	if len(command) == 0 {
		return nil, errors.New("the command is empty, want a program and its arguments")
	}
	for _, place := range []string{"{in}", "{out}"} {
		if !slices.ContainsFunc(command[1:], func(word string) bool { return strings.Contains(word, place) }) {
			return nil, fmt.Errorf("the command %q has no %s, want one for the file's path", strings.Join(command, " "), place)
		}
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return nil, &StartError{Program: command[0], Cause: err}
	}
	if program, err = filepath.Abs(program); err != nil {
		return nil, &StartError{Program: command[0], Cause: err}
	}
	f := &files{program: program, command: command, options: o}
	return &Kernel{
		Lowering: o.promising(engine.Lowering{
			Name: "check.files", Device: "cpu", Compile: f.compile,
			Origin: func() string {
				return fmt.Sprintf("%s; processes started: %d", strings.Join(command, " "), f.started.Load())
			},
		}),
		Source:   strings.Join(command, " "),
		Device:   "cpu",
		Overhead: endWait,
		Close:    func() error { f.isClosed.Store(true); return nil },
	}, nil
}

// files is a program that knows files.
type files struct {
	program  string
	command  []string
	options  Options
	started  atomic.Int64
	isClosed atomic.Bool
}

func (f *files) compile(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
	return engine.KernelFunc(func(l *engine.Launch) error { return f.launch(d, l) }), nil
}

// launch runs the program in a folder of its own.
func (f *files) launch(d *def.Definition, l *engine.Launch) error {
	if f.isClosed.Load() {
		return device.ErrClosed
	}
	folder, err := os.MkdirTemp("", "tokitai-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	in, out := filepath.Join(folder, "in.safetensors"), filepath.Join(folder, "out.safetensors")
	if err := safetensors.WriteFile(in, f.question(d, l)); err != nil {
		return err
	}
	if err := f.run(d, in, out); err != nil {
		return err
	}
	answer, err := safetensors.ReadFile(out)
	if err != nil {
		return wrongFile(d, out, err)
	}
	return takeFile(d, l, answer)
}

// question returns the input file of a call.
func (f *files) question(d *def.Definition, l *engine.Launch) *safetensors.File {
	n := f.started.Add(1)
	file := &safetensors.File{Metadata: map[string]string{metaDefinition: d.Name, metaSeed: strconv.FormatUint(f.options.Seed^uint64(n)*0x9e3779b97f4a7c15, 10)}}
	for i, v := range l.Params {
		file.Metadata[metaParam+d.Params[i].Name] = strconv.FormatFloat(v, 'g', -1, 64)
	}
	for i := range d.Operands {
		o, a := &d.Operands[i], &l.Operands[i].Array
		entry := safetensors.Entry{Name: o.Name, DType: a.DType, Shape: o.Shape(a)}
		if o.IsOut {
			file.Metadata[metaOutput+o.Name] = strings.TrimSpace(entry.DType.String() + " " + sizes(entry.Shape))
		}
		if !o.IsIn {
			continue
		}
		for r := range a.Rows {
			entry.Data = append(entry.Data, a.Row(r)...)
		}
		file.Entries = append(file.Entries, entry)
	}
	return file
}

// sizes formats a shape as 2,8.
func sizes(shape []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ","), "[]")
}

// run runs the program to its end.
func (f *files) run(d *def.Definition, in, out string) error {
	var words []string
	for _, word := range f.command[1:] {
		words = append(words, strings.ReplaceAll(strings.ReplaceAll(word, "{in}", in), "{out}", out))
	}
	child, err := spawn.Start(spawn.Spec{
		Program: f.program, Args: words, Env: append(os.Environ(), f.options.Environment...), JoinsOutput: true, Stderr: f.options.Stderr,
	})
	if err != nil {
		return &StartError{Program: f.command[0], Cause: err}
	}
	timer := time.NewTimer(f.options.deadline())
	defer timer.Stop()
	select {
	case <-child.Done():
	case <-timer.C:
		child.KillGroup()
		child.Close(0)
		return withLastWords(child, fmt.Errorf("process %d did not end within %v, and was killed", child.PID(), f.options.deadline()))
	}
	err = child.Close(0)
	if exit, ok := errors.AsType[*spawn.ExitError](err); ok && exit.Code == ExitRefused {
		return &engine.UnsuitedError{Lowering: d.Name + "/check.files", Cause: withLastWords(child, fmt.Errorf("the program refused the call: exit status %d", ExitRefused)), IsRefused: true}
	}
	return err
}

// withLastWords adds the last lines that a process has printed to an error.
func withLastWords(child *spawn.Child, err error) error {
	if words := child.LastWords(); len(words) > 0 {
		return fmt.Errorf("%w; its last words: %s", err, strings.Join(words, " | "))
	}
	return err
}

// wrongFile returns the error for an output file that is missing or malformed.
func wrongFile(d *def.Definition, out string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		err = errors.New("the program ended with exit status 0 and wrote no file {out}")
	} else {
		err = errors.New(strings.ReplaceAll(err.Error(), out, "{out}"))
	}
	return &engine.OutputError{Operand: firstOutput(d), Cause: err}
}

func firstOutput(d *def.Definition) string {
	for i := range d.Operands {
		if d.Operands[i].IsOut {
			return d.Operands[i].Name
		}
	}
	return ""
}

// takeFile copies the outputs of a file to the operands, once all of them are found to be right.
// An output that is missing stays unwritten.
func takeFile(d *def.Definition, l *engine.Launch, answer *safetensors.File) error {
	var names []string
	for _, e := range answer.Entries {
		names = append(names, e.Name)
	}
	found := 0
	for i := range d.Operands {
		o, a := &d.Operands[i], &l.Operands[i].Array
		e, ok := answer.Entry(o.Name)
		if !o.IsOut || !ok {
			continue
		}
		found++
		if want := o.Shape(a); e.DType != a.DType || !slices.Equal(e.Shape, want) {
			wrong := &engine.OutputError{Operand: o.Name, Cause: fmt.Errorf("the file has %s %s, want %s", o.Name, describe(e.DType, e.Shape), describe(a.DType, want))}
			if slices.Equal(e.Shape, want) {
				wrong.Format = e.DType.String()
			}
			return wrong
		}
	}
	if found == 0 {
		return &engine.OutputError{Operand: firstOutput(d), Cause: fmt.Errorf("the file has no output, but %q", names)}
	}
	for i := range d.Operands {
		o, a := &d.Operands[i], &l.Operands[i].Array
		if e, ok := answer.Entry(o.Name); ok && o.IsOut {
			data := e.Data
			for r := range a.Rows {
				data = data[copy(a.Row(r), data):]
			}
		}
	}
	return nil
}
