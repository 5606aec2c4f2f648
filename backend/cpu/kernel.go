package cpu

import (
	"context"
	"errors"
	"slices"
	"sync"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/integer"
	"tokitai/lower/cpu/jit"
	"tokitai/lower/cpu/machine"
	"tokitai/lower/cpu/matmul"
	"tokitai/lower/cpu/table"
	"tokitai/num"
	"tokitai/reference"
)

// preferred lists the lowerings that a call may choose, best first, by the word of the
// definition's form: machine code for each instruction set of this processor, then what every
// processor has.
var preferred = sync.OnceValue(func() map[string][]*engine.Lowering {
	all := map[string][]*engine.Lowering{}
	for _, form := range def.Forms() {
		name, generated := lowercpu.NameOf(form), compilerOf(form)
		var list []*engine.Lowering
		for _, set := range machine.Available() {
			switch {
			case set == machine.Plain && name != "":
				list = append(list, newPlain(name))
			case set != machine.Plain && generated != nil && generated.supports(set):
				list = append(list, newGenerated(set, generated))
			}
		}
		all[form.String()] = list
	}
	return all
})

// newPlain returns lower/cpu's way of computing a form of definition.
func newPlain(name string) *engine.Lowering {
	return &engine.Lowering{
		Name: Kind + "." + name, Device: Kind,
		Class: func(d *def.Definition, c *lower.Call) int { return int(lowercpu.ClassOf(d, c.Cols)) },
		Compile: func(_ device.Device, d *def.Definition, dtypes []num.DType, class int) (engine.Kernel, error) {
			p, err := lowercpu.Compile(d, dtypes, lowercpu.Class(class))
			return asKernel(d, p, err)
		},
	}
}

// compiler makes machine code for a form of definition.
type compiler struct {
	class    func(d *def.Definition, c *lower.Call) int // nil if all calls run the same code
	compile  func(d *def.Definition, dtypes []num.DType, class int, set machine.Set) (lowercpu.Program, error)
	supports func(machine.Set) bool
	factors  func(machine.Set) []num.DType                           // of contractions; nil for other forms
	suits    func(device.Device, *def.Definition, *lower.Call) error // nil for all calls
}

// compilerOf returns the compiler for a form, or nil.
func compilerOf(f def.Form) *compiler {
	switch f.(type) {
	case *def.Expression:
		return &compiler{
			func(d *def.Definition, c *lower.Call) int { return int(jit.ClassOf(d, c)) },
			func(d *def.Definition, dtypes []num.DType, class int, set machine.Set) (lowercpu.Program, error) {
				return jit.Compile(d, dtypes, jit.Class(class), set)
			},
			anySet, nil, storesNoFP8,
		}
	case *def.Product:
		return alike(multiply, anySet, factors)
	case *def.Fused:
		return alike(multiplyFused, anySet, func(machine.Set) []num.DType { return num.RealDTypes })
	case *def.Lookup, *def.Scatter, *def.LookupSum:
		return alike(table.Compile, table.Supports, nil)
	case *def.Stream, *def.StreamBackward:
		return alike(weigh, anySet, nil)
	}
	return nil
}

// multiply makes code for contractions: in binary32, or of i8 in Z/2^32.
func multiply(d *def.Definition, dtypes []num.DType, set machine.Set) (lowercpu.Program, error) {
	if d.Ring().IsExact() {
		return integer.Compile(d, dtypes, set)
	}
	return matmul.Compile(d, dtypes, set)
}

// multiplyFused makes code for products that end in an expression.
func multiplyFused(d *def.Definition, dtypes []num.DType, set machine.Set) (lowercpu.Program, error) {
	return lowercpu.CompileFused(d, dtypes, func(part *def.Definition, dtypes []num.DType) (lowercpu.Program, error) {
		return generate(lower.Piece{Definition: part}, dtypes, set, matmul.Compile)
	})
}

// generate makes code for a part of a definition: by multiply if it is a product, else for its rows.
func generate(part lower.Piece, dtypes []num.DType, set machine.Set, multiply func(*def.Definition, []num.DType, machine.Set) (lowercpu.Program, error)) (lowercpu.Program, error) {
	if part.Product() != nil {
		return multiply(part.Definition, dtypes, set)
	}
	if set == machine.Plain { // which has code for products alone
		return lowercpu.CompilePiece(part, dtypes)
	}
	return jit.CompilePiece(part, dtypes, set)
}

// weigh makes code for the parts of a stream or its gradients.
func weigh(d *def.Definition, dtypes []num.DType, set machine.Set) (lowercpu.Program, error) {
	return weighBy(d, dtypes, def.FMAChain, set, matmul.Compile)
}

// weighBy makes code for the parts of a stream or its gradients, with code of multiply for its products, which have the given model.
func weighBy(d *def.Definition, dtypes []num.DType, accum def.Accum, set machine.Set,
	multiply func(*def.Definition, []num.DType, machine.Set) (lowercpu.Program, error)) (lowercpu.Program, error) {
	var packer lowercpu.Packer
	if accum == def.FMAChain { // which has the same bits in binary32
		var err error
		if packer, err = packerOf(d, dtypes, set); err != nil {
			return nil, err
		}
	}
	compile := lowercpu.CompileStream
	if _, isBackward := d.Form.(*def.StreamBackward); isBackward {
		compile = lowercpu.CompileStreamBackward
	}
	return compile(d, dtypes, accum, packer, func(part lower.Piece, dtypes []num.DType) (lowercpu.Program, error) {
		return generate(part, dtypes, set, multiply)
	})
}

// packerOf returns what packs the operands of a stream or its gradients.
func packerOf(d *def.Definition, dtypes []num.DType, set machine.Set) (lowercpu.Packer, error) {
	query := 0
	switch f := d.Form.(type) {
	case *def.Stream:
		query = f.Query
	case *def.StreamBackward:
		query = f.Query
	}
	return matmul.Packer(dtypes[query], set)
}

// factors lists the formats of factors that code for an instruction set multiplies.
func factors(set machine.Set) []num.DType {
	if integer.Supports(set) {
		return append(slices.Clone(num.RealDTypes), num.I8)
	}
	return num.RealDTypes
}

func anySet(machine.Set) bool { return true }

// storesNoFP8 returns an error for a call with an output in FP8.
func storesNoFP8(_ device.Device, _ *def.Definition, c *lower.Call) error {
	for i := range c.Operands {
		if c.Operands[i].DType.IsFP8() {
			return errStoresFP8
		}
	}
	return nil
}

var errStoresFP8 = errors.New("the machine code for rowwise definitions stores nothing in FP8")

// alike returns a compiler whose code serves all calls.
func alike(compile func(d *def.Definition, dtypes []num.DType, set machine.Set) (lowercpu.Program, error), supports func(machine.Set) bool, factors func(machine.Set) []num.DType) *compiler {
	return &compiler{nil, func(d *def.Definition, dtypes []num.DType, _ int, set machine.Set) (lowercpu.Program, error) {
		return compile(d, dtypes, set)
	}, supports, factors, nil}
}

// newGenerated returns the way of computing a form of definition by code that is made for
// an instruction set when it is first needed.
func newGenerated(set machine.Set, c *compiler) *engine.Lowering {
	l := &engine.Lowering{
		Name: Kind + "." + set.String(), Device: Kind, Class: c.class, ClassesOfSpeed: true, Suits: c.suits,
		Compile: func(_ device.Device, d *def.Definition, dtypes []num.DType, class int) (engine.Kernel, error) {
			p, err := c.compile(d, dtypes, class, set)
			return asKernel(d, p, err)
		},
	}
	if c.factors != nil {
		l.Factors = c.factors(set)
	}
	return l
}

// asKernel returns a program as a kernel.
func asKernel(d *def.Definition, p lowercpu.Program, err error) (engine.Kernel, error) {
	if err != nil {
		return nil, err
	}
	return kernel{d, p}, nil
}

// kernel runs a program of lower/cpu on the workers of the device.
type kernel struct {
	d       *def.Definition
	program lowercpu.Program
}

// Launch implements engine.Kernel. What has begun is finished, whatever becomes of the
// context. Only a panic, or a device that is closed meanwhile, leaves outputs partly
// written.
func (k kernel) Launch(l *engine.Launch) error {
	if l.WritesNothing(k.d) {
		return nil
	}
	pool := l.Device.(*Device).Pool()
	job := k.program.Bind(&l.Call, pool.Workers())
	for {
		items, ok := job.Next()
		if !ok {
			job.Release()
			return nil
		}
		if err := pool.Run(context.Background(), items, job); err != nil {
			return err // the job's scratch memory is left to the collector
		}
	}
}

// String lists the program.
func (k kernel) String() string { return k.program.String() }

// The lowerings that only a name chooses: the interpreter, and more for contractions.
var (
	onDemand         = []*engine.Lowering{interpreter}
	productsOnDemand = append([]*engine.Lowering{interpreter, byValuation}, tensorCores...)
)

// byValuation computes contractions of i64 in Z/p^k, without the products that are 0 by the
// valuations of their factors.
var byValuation = &engine.Lowering{
	Name: "cpu.valuation", Device: Kind, Factors: []num.DType{num.I64},
	Compile: func(_ device.Device, d *def.Definition, dtypes []num.DType, _ int) (engine.Kernel, error) {
		p, err := lowercpu.CompileByValuation(d, dtypes)
		return asKernel(d, p, err)
	},
}

// interpreter is the interpreter of definitions itself.
var interpreter = &engine.Lowering{
	Name: "cpu.reference", Device: Kind,
	Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
		return engine.KernelFunc(func(l *engine.Launch) error {
			return reference.Run(d, l.Arrays(), reference.Options{Params: l.Params})
		}), nil
	},
}
