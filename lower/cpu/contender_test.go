package cpu_test

import (
	"sync"
	"testing"

	"tokitai/def"
	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/jit"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// contender is a way to compute rowwise definitions: the interpreter, or machine code for
// an instruction set of this processor.
type contender struct {
	name string
	// class returns the class of a call, and program the program of a class.
	class   func(d *def.Definition, c *lower.Call) int
	program func(d *def.Definition, dtypes []num.DType, class int) (lowercpu.Program, error)
}

var contenders = func() []contender {
	interpreter := func(d *def.Definition, dtypes []num.DType, class int) (lowercpu.Program, error) {
		return lowercpu.Compile(d, dtypes, lowercpu.Class(class))
	}
	always := func(class lowercpu.Class) func(*def.Definition, *lower.Call) int {
		return func(*def.Definition, *lower.Call) int { return int(class) }
	}
	all := []contender{{"short rows", always(lowercpu.Short), interpreter}, {"long rows", always(lowercpu.Long), interpreter}}
	for _, set := range machine.Available() {
		if set == machine.Plain {
			continue
		}
		compile := func(d *def.Definition, dtypes []num.DType, class int) (lowercpu.Program, error) {
			return jit.Compile(d, dtypes, jit.Class(class), set)
		}
		all = append(all,
			contender{set.String(), func(d *def.Definition, c *lower.Call) int { return int(jit.ClassOf(d, c)) }, compile},
			contender{set.String() + ", long rows", func(d *def.Definition, c *lower.Call) int { return int(jit.ClassOf(d, c) | jit.Long) }, compile},
			contender{set.String() + ", streamed", func(d *def.Definition, c *lower.Call) int { return int(jit.ClassOf(d, c) | jit.Streamed) }, compile})
	}
	return all
}()

// byClass is a program for each class of calls, made when it is first needed.
type byClass struct {
	contender
	t        testing.TB
	d        *def.Definition
	dtypes   []num.DType
	mu       sync.Mutex
	programs map[int]lowercpu.Program
}

// compile returns the contender's program for calls of all classes.
func (k contender) compile(t testing.TB, d *def.Definition, dtypes []num.DType) lowercpu.Program {
	return &byClass{contender: k, t: t, d: d, dtypes: dtypes, programs: map[int]lowercpu.Program{}}
}

func (p *byClass) of(class int) lowercpu.Program {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.programs[class] == nil {
		made, err := p.program(p.d, p.dtypes, class)
		if err != nil {
			p.t.Errorf("%s: %v\n%s", p.name, err, p.d.Text())
			p.t.FailNow()
		}
		p.programs[class] = made
	}
	return p.programs[class]
}

// Bind implements lowercpu.Program.
func (p *byClass) Bind(c *lower.Call, workers int) lowercpu.Job {
	return p.of(p.class(p.d, c)).Bind(c, workers)
}

func (p *byClass) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := ""
	for _, made := range p.programs {
		text += made.String()
	}
	return p.name + "\n" + text
}
