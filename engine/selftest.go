package engine

import (
	"context"
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/reference"
)

// A self-test is a small case, derived from a definition, that a compiled kernel
// has to compute with the reference's bits before its first use. Together the
// cases reach the tails of chunks and lanes, special values, gaps between rows,
// and outputs in the place of inputs. They stay below 10⁵ elements an operand.
type selfTest struct {
	name    string
	sizes   map[string]int
	values  func(*gen.Generator) float32
	gap     int  // elements between rows
	inPlace bool // element outputs take the place of element inputs
}

// selfTestsOf lists the cases of a definition.
func selfTestsOf(d *def.Definition) []selfTest {
	switch d.Kind {
	case def.KindRowwise:
		tests := []selfTest{}
		for _, c := range []int{1, 7, 255, 257, 515, 1027, 2049} {
			tests = append(tests, selfTest{name: fmt.Sprintf("C=%d", c), sizes: map[string]int{"R": 2, "C": c}, values: (*gen.Generator).Ordinary})
		}
		return append(tests,
			selfTest{name: "special", sizes: map[string]int{"R": 40, "C": 9}, values: (*gen.Generator).Special},
			selfTest{name: "rarely-special", sizes: map[string]int{"R": 40, "C": 9}, values: rarelySpecial},
			selfTest{name: "strided", sizes: map[string]int{"R": 3, "C": 261}, values: (*gen.Generator).Ordinary, gap: 3},
			selfTest{name: "in-place", sizes: map[string]int{"R": 2, "C": 520}, values: (*gen.Generator).Ordinary, inPlace: true},
			selfTest{name: "tall", sizes: map[string]int{"R": 521, "C": 3}, values: (*gen.Generator).Ordinary},
			selfTest{name: "long", sizes: map[string]int{"R": 1, "C": 1<<16 + 515}, values: (*gen.Generator).Ordinary},
		)
	case def.KindContraction:
		m, n, k := d.Operands[2].Dims[0], d.Operands[2].Dims[1], d.SummedOver()
		return []selfTest{
			{name: "one", sizes: map[string]int{m: 1, n: 1, k: 1}, values: (*gen.Generator).Ordinary},
			{name: "tails", sizes: map[string]int{m: 5, n: 7, k: 259}, values: (*gen.Generator).Ordinary},
			{name: "tiles", sizes: map[string]int{m: 66, n: 131, k: 3}, values: (*gen.Generator).Ordinary},
			{name: "special", sizes: map[string]int{m: 9, n: 9, k: 5}, values: (*gen.Generator).Special},
			{name: "rarely-special", sizes: map[string]int{m: 9, n: 9, k: 5}, values: rarelySpecial},
			{name: "strided", sizes: map[string]int{m: 6, n: 5, k: 9}, values: (*gen.Generator).Ordinary, gap: 3},
		}
	}
	return []selfTest{
		{name: "one", sizes: map[string]int{"Q": 1, "V": 1, "D": 1}, values: (*gen.Generator).Ordinary},
		{name: "duplicates", sizes: map[string]int{"Q": 300, "V": 3, "D": 7}, values: (*gen.Generator).Ordinary},
		{name: "wide", sizes: map[string]int{"Q": 9, "V": 70, "D": 515}, values: (*gen.Generator).Ordinary},
		{name: "special", sizes: map[string]int{"Q": 40, "V": 5, "D": 9}, values: (*gen.Generator).Special},
		{name: "rarely-special", sizes: map[string]int{"Q": 40, "V": 5, "D": 9}, values: rarelySpecial},
		{name: "strided", sizes: map[string]int{"Q": 6, "V": 5, "D": 9}, values: (*gen.Generator).Ordinary, gap: 3},
	}
}

// rarelySpecial leaves most rows and sums without a special value: where half of
// the values are special, nearly every reduction is NaN.
func rarelySpecial(g *gen.Generator) float32 {
	if g.Below(24) == 0 {
		return g.Special()
	}
	return g.Ordinary()
}

// corrupt, if set by a test, may damage the outputs of a self-test before they are
// compared: it shows that the self-test can fail.
var corrupt func(test string, output num.Array)

// Admit compiles and admits the lowering that calls of d on operands in these
// formats would choose, for every class of shapes that its self-tests reach, and
// returns it.
func Admit(q *Queue, d *def.Definition, dtypes []num.DType, opts ...Option) (*Lowering, error) {
	if err := checkCall(q, d, "engine.Admit"); err != nil {
		return nil, err
	}
	if len(dtypes) != len(d.Operands) {
		return nil, bad(d, "call", fmt.Sprintf("has %d formats", len(dtypes)), fmt.Sprint(len(d.Operands)))
	}
	s := q.settings
	s.apply(opts)
	if err := s.check(d); err != nil {
		return nil, err
	}
	var chosen *Lowering
	for _, test := range selfTestsOf(d) {
		p, err := q.plan(d, &s, newSelfTestCase(d, dtypes, test).operands)
		if err != nil {
			return nil, err
		}
		chosen = p.lowering
	}
	return chosen, nil
}

// admit runs the self-tests of the plan's class.
func (q *Queue) admit(p *plan, d *def.Definition, dtypes []num.DType, class int) error {
	ran := 0
	for _, test := range selfTestsOf(d) {
		c := newSelfTestCase(d, dtypes, test)
		if p.lowering.Class != nil && p.lowering.Class(d, c.operands) != class {
			continue
		}
		ran++
		if err := q.runSelfTest(p, d, test, c); err != nil {
			return err
		}
	}
	if ran == 0 {
		return &InadmissibleError{Lowering: p.lowering.ID(d), Device: q.device.Name(), Reason: fmt.Sprintf("no self-test reaches its class %d", class)}
	}
	return nil
}

// selfTestCase is a self-test's data, twice: what the kernel gets and what the
// reference gets.
type selfTestCase struct {
	operands []Operand
	memory   [][]byte // of the operands, with a guard at both ends
	taken    []bool   // inputs whose place an output has taken
	want     []num.Array
	params   []float64
}

// guardBytes lie before and after each operand; nothing may disturb them.
const (
	guardBytes = 64
	guardByte  = 0xa5
)

func newSelfTestCase(d *def.Definition, dtypes []num.DType, test selfTest) selfTestCase {
	g := gen.New(d.Name + "/" + test.name)
	c := selfTestCase{taken: make([]bool, len(d.Operands))}
	for i := range d.Operands {
		o := &d.Operands[i]
		a := newTestArray(o, dtypes[i], test)
		fillTestArray(a, o, g, test)
		c.want = append(c.want, a)
		memory := make([]byte, guardBytes+len(a.Data)+guardBytes)
		for k := range memory {
			memory[k] = guardByte
		}
		c.memory = append(c.memory, memory)
		held := a
		held.Data = memory[guardBytes : guardBytes+len(a.Data) : guardBytes+len(a.Data)]
		copy(held.Data, a.Data)
		if test.inPlace {
			for k := range i {
				if in := &d.Operands[k]; d.MayReplace(o, in) && !c.taken[k] && dtypes[k] == dtypes[i] {
					c.taken[k] = true
					held.Data = c.operands[k].Host
					break
				}
			}
		}
		c.operands = append(c.operands, Operand{DType: a.DType, Rows: a.Rows, Cols: a.Cols, Stride: a.Stride, Host: held.Data})
	}
	for i, p := range d.Params {
		v := float64(i+1) * 0.171875
		if p.IsInt {
			v = float64(i + 1)
		}
		c.params = append(c.params, v)
	}
	return c
}

// newTestArray allocates an operand; gaps are filled with a pattern that nothing
// may disturb.
func newTestArray(o *def.Operand, dtype num.DType, test selfTest) num.Array {
	rows, cols := 1, 1
	switch {
	case len(o.Dims) == 2:
		rows, cols = test.sizes[o.Dims[0]], test.sizes[o.Dims[1]]
	case len(o.Dims) == 1 && o.Dims[0] == "C":
		cols = test.sizes["C"]
	case len(o.Dims) == 1:
		rows = test.sizes[o.Dims[0]]
	}
	stride := cols
	if len(o.Dims) == 2 {
		stride += test.gap
	}
	a := num.Array{DType: dtype, Rows: rows, Cols: cols, Stride: stride, Data: make([]byte, rows*stride*dtype.Size())}
	for i := range a.Data {
		a.Data[i] = guardByte
	}
	return a
}

func fillTestArray(a num.Array, o *def.Operand, g *gen.Generator, test selfTest) {
	for r := range a.Rows {
		for c := range a.Cols {
			switch {
			case o.IsIndex: // mostly valid, some beyond both ends
				a.SetBits(r, c, uint32(int32(g.Below(test.sizes[o.Bound]+2))-1))
			case !o.IsIn: // outputs start as what must be overwritten
			default:
				a.Set(r, c, test.values(g))
			}
		}
	}
}

func (q *Queue) runSelfTest(p *plan, d *def.Definition, test selfTest, c selfTestCase) error {
	inadmissible := func(cause error, format string, args ...any) error {
		return &InadmissibleError{Lowering: p.lowering.ID(d), Device: q.device.Name(), Test: test.name, Reason: fmt.Sprintf(format, args...), Cause: cause}
	}
	l := &Launch{Context: context.Background(), Device: q.device, Queue: q.queue, Operands: c.operands, Params: c.params}
	if err := launchRecovering(p.kernel, l); err != nil {
		return inadmissible(err, "%v", err)
	}
	if err := reference.Run(d, c.want, reference.Options{Params: c.params, Model: p.lowering.Model}); err != nil {
		return inadmissible(err, "the reference refused: %v", err)
	}
	for i := range d.Operands {
		o := &d.Operands[i]
		got, want := c.operands[i].Array(), c.want[i]
		if corrupt != nil && o.IsOut {
			corrupt(test.name, got)
		}
		if !c.taken[i] {
			if reason := differs(d, o, got, want); reason != "" {
				return inadmissible(nil, "%s", reason)
			}
		}
		if m := c.memory[i]; isDisturbed(m[:guardBytes]) || isDisturbed(m[len(m)-guardBytes:]) {
			return inadmissible(nil, "it writes outside %s", o.Name)
		}
	}
	return nil
}

// differs says where an operand differs from the answer. Inputs and the gaps
// between rows have to be what they were.
func differs(d *def.Definition, o *def.Operand, got, want num.Array) string {
	digits := 2 * want.DType.Size()
	for r := range want.Rows {
		for c := range want.Stride {
			x, y := got.Bits(r, c), want.Bits(r, c)
			switch {
			case x == y:
			case c >= want.Cols:
				return fmt.Sprintf("it writes between the rows of %s", o.Name)
			case !o.IsOut:
				return fmt.Sprintf("it writes to its input %s", o.Name)
			case d.Kind == def.KindGather || num.Canonical(want.DType, x) != num.Canonical(want.DType, y):
				return fmt.Sprintf("%s[%d,%d] is 0x%0*x, want 0x%0*x", o.Name, r, c, digits, x, digits, y)
			}
		}
	}
	return ""
}

func isDisturbed(guard []byte) bool {
	return slices.ContainsFunc(guard, func(b byte) bool { return b != guardByte })
}

// launchRecovering turns a kernel's panic into an error: an untested kernel may
// do anything.
func launchRecovering(k Kernel, l *Launch) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the kernel panicked: %v", r)
		}
	}()
	return k.Launch(l)
}
