package gpu

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"tokitai/def"
	"tokitai/device/gpu"
	"tokitai/device/gpu/driver"
	"tokitai/engine"
	lowergpu "tokitai/lower/gpu"
	"tokitai/num"
)

// kernel is a program of lower/gpu that is loaded on a device.
type kernel struct {
	d         *def.Definition
	device    *gpu.Device
	lowered   *lowergpu.Kernel
	functions []*gpu.Function // as the source's entries
	limits    lowergpu.Limits
	images    []string // the SHA-256 of the compiled programs, in hexadecimal
	many      *many    // computes many calls; nil if the definition has no such kernels

	checksAlike bool // the check of indices does not depend on parameters
}

// load compiles and loads what lower/gpu made.
func load(dev *Device, d *def.Definition, lowered *lowergpu.Kernel, dtypes []num.DType, v lowergpu.Variant, file string) (engine.Kernel, error) {
	p := dev.Limits()
	k := &kernel{
		d: d, device: dev.Device, lowered: lowered, checksAlike: checksAlike(d),
		limits: lowergpu.Limits{WarpWidth: p.WarpWidth, Multiprocessors: p.Multiprocessors, SharedBytes: p.SharedBytes},
	}
	var err error
	if k.functions, k.images, err = loadSource(dev, lowered.Source, fileName(file, dtypes, v)); err != nil {
		return nil, err
	}
	if lowergpu.TakesMany(d) {
		if k.many, err = newMany(dev, d, dtypes, v); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// loadSource compiles a source and returns its entries, and the SHA-256 of the compiled
// programs.
func loadSource(dev *Device, source lowergpu.Source, file string) (functions []*gpu.Function, images []string, err error) {
	functions = make([]*gpu.Function, len(source.Entries))
	if !dev.family.CompilesParts {
		images = make([]string, 1)
		images[0], err = loadPart(dev, source, file, functions)
		return functions, images, err
	}
	parts := source.Parts()
	images = make([]string, len(parts))
	errs := make([]error, len(parts))
	var group sync.WaitGroup
	for i, part := range parts {
		compiling <- struct{}{}
		group.Go(func() {
			defer func() { <-compiling }()
			name := strings.TrimPrefix(strings.TrimPrefix(part.Entries[0], part.Name), "_")
			images[i], errs[i] = loadPart(dev, part, strings.TrimSuffix(file, ".cu")+"."+name+".cu", functions[i:i+1])
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, nil, err
		}
	}
	return functions, images, nil
}

// compiling has an element for each part that is being compiled.
var compiling = make(chan struct{}, runtime.NumCPU())

// loadPart compiles a part, finds its entries, and returns the SHA-256 of its image.
func loadPart(dev *Device, part lowergpu.Source, file string, entries []*gpu.Function) (image string, err error) {
	module, err := dev.Load(dev.family.Program(part, file), part.Entries...)
	if err != nil {
		return "", err
	}
	for i, entry := range part.Entries {
		if entries[i], err = module.Entry(entry); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", sha256.Sum256(module.Program().Image)), nil
}

// fileName tells in a compiler's messages, and in the list of a cache, what was compiled.
func fileName(name string, dtypes []num.DType, v lowergpu.Variant) string {
	parts := []string{}
	for _, t := range dtypes {
		parts = append(parts, t.String())
	}
	return fmt.Sprintf("%s.%s.%s.cu", name, strings.Join(parts, "-"), v)
}

// scratch is memory that launches use again.
type scratch struct {
	plan   lowergpu.Plan
	call   gpu.Call
	tensor driver.TensorMap
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// Launch implements engine.Kernel. It returns before the work is done.
func (k *kernel) Launch(l *engine.Launch) error { return k.run(l, false) }

// LaunchChecked implements engine.IndexChecker.
func (k *kernel) LaunchChecked(l *engine.Launch) error { return k.run(l, true) }

// SubmitsAll implements engine.Sequenced.
func (k *kernel) SubmitsAll() bool { return true }

func (k *kernel) run(l *engine.Launch, isChecked bool) error {
	if l.WritesNothing(k.d) {
		return nil
	}
	s := scratches.Get().(*scratch)
	err := k.submit(s, l, isChecked)
	clear(s.call.Uses) // buffers must not live for the sake of memory
	clear(s.call.Indices)
	s.call.Indices = s.call.Indices[:0]
	scratches.Put(s)
	return err
}

func (k *kernel) submit(s *scratch, l *engine.Launch, isChecked bool) error {
	call := &s.call
	call.Uses = call.Uses[:0]
	err := k.use(call, l)
	if err != nil {
		return err
	}
	if isChecked {
		err = k.lowered.PlanChecked(&s.plan, &l.Call, k.limits)
	} else {
		err = k.lowered.Plan(&s.plan, &l.Call, k.limits)
	}
	if err != nil {
		return err
	}
	s.launch(k.functions)
	for i := range s.plan.Maps {
		m := &s.plan.Maps[i]
		s.tensor = driver.TensorMap(m.Tensor)
		if err := k.device.EncodeTensorMap(s.plan.Launches[m.Launch].Params[m.At:], &s.tensor); err != nil {
			return err
		}
	}
	for _, check := range s.plan.Checks {
		call.Checks = append(call.Checks, gpu.Check{By: k, Facts: [4]int64{int64(check.Operand), int64(check.Bound), int64(check.Except), int64(l.Operands[check.Operand].Cols)}})
	}
	if len(call.Checks) > 0 && k.checksAlike {
		for i := range k.d.Operands {
			if k.d.Operands[i].IsIndex {
				call.Indices = append(call.Indices, call.Uses[i].Buffer)
			}
		}
	}
	return l.Queue.(*gpu.Queue).Run(call, &s.plan)
}

// checksAlike reports whether the check of a definition's indices does not depend on parameters.
func checksAlike(d *def.Definition) bool {
	return !slices.ContainsFunc(d.Operands, func(o def.Operand) bool { return o.IsIndex && o.Except != "" })
}

// use adds the buffers of a call's operands.
func (k *kernel) use(call *gpu.Call, l *engine.Launch) error {
	n := len(call.Uses)
	call.Uses = slices.Grow(call.Uses, len(l.Buffers))[:n+len(l.Buffers)]
	for i := range l.Buffers {
		b, ok := l.Buffers[i].(*gpu.Buffer)
		if !ok {
			return fmt.Errorf("%s is not in the memory of a GPU", k.d.Operands[i].Name)
		}
		call.Uses[n+i].Buffer, call.Uses[n+i].IsWrite = b, k.d.Operands[i].IsOut
	}
	return nil
}

// launch fills in the call with the plan's launches, without checks. A launch of no blocks, which drivers
// refuse, has nothing to do.
func (s *scratch) launch(functions []*gpu.Function) {
	call := &s.call
	call.Launches = resized(call.Launches, len(s.plan.Launches))
	n := 0
	for i := range s.plan.Launches { // field by field: copying structs as a whole costs more than all the rest
		p, to := &s.plan.Launches[i], &call.Launches[n]
		if p.Grid[0] == 0 {
			continue
		}
		n++
		to.Function, to.Grid, to.Block, to.Shared, to.Params = functions[p.Entry], p.Grid, p.Block, p.Shared, p.Params
		to.IsEarly = p.IsEarly
	}
	call.Launches = call.Launches[:n]
	call.ScratchBytes, call.TableBytes, call.Checks = s.plan.ScratchBytes, len(s.plan.Table), call.Checks[:0]
}

// resized returns a list of n elements with anything in them, in the memory of s if that
// is enough.
func resized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// Refusal implements gpu.Checker: a call was given an index out of range.
func (k *kernel) Refusal(word uint64, facts [4]int64) error {
	return engine.NewIndexError(k.d, int(facts[0]), int(word>>32), int(facts[3]), int32(word), int(facts[1]), int32(facts[2]))
}

// Artifacts implements engine.Compiled.
func (k *kernel) Artifacts() []string { return k.images }

// String lists the source, and names the prelude below it by its hash.
func (k *kernel) String() string {
	return fmt.Sprintf("// prelude.h has SHA-256 %x.\n%s", sha256.Sum256([]byte(lowergpu.Prelude)), k.lowered.Source.Text)
}
