package mutants

import (
	"context"
	"fmt"
	"maps"
	"math"
	"sync"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/op"
	"tokitai/reference"
	"tokitai/trial"
)

// Practice says which of the checks in use today accept a kernel.
type Practice struct {
	AllClose  bool `json:"allclose"`   // |got - want| <= 1e-2 + 1e-2·|want|, as KernelBench and BackendBench have it
	Defaults  bool `json:"defaults"`   // torch.testing.assert_close with its defaults for the format
	TwicePeer bool `json:"twice_peer"` // the largest error is at most twice that of a plain kernel in the same format, as FlashAttention has it
}

// Such a check takes five random inputs, here with 16 rows.
const (
	trials = 5
	rows   = 16
)

// Practitioner checks kernels as such a test does: five random inputs of one usual size,
// rows without gaps, new outputs of zeros, one call each. It is safe for concurrent use.
type Practitioner struct {
	device *cpu.Device
	mu     sync.Mutex
	known  map[subject]*experiment
}

type subject struct {
	d     *def.Definition
	dtype num.DType
}

// experiment is one input with its expected outputs.
type experiment struct {
	once   sync.Once
	trials [trials]struct {
		operands []num.Array
		params   []float64
		outputs  []expected // nil for what is an input only
	}
	err error
}

// expected is the answer for one output: as stored, before it was stored, and the largest
// error of a peer.
type expected struct {
	want, wide []float64
	worstPeer  float64
}

// NewPractitioner opens a device for kernels that ask for the number of workers.
func NewPractitioner() (*Practitioner, error) {
	device, err := cpu.New(cpu.Options{Workers: 2})
	return &Practitioner{device: device, known: map[subject]*experiment{}}, err
}

// Close closes the device.
func (p *Practitioner) Close() error { return p.device.Close() }

// Check returns the results of the checks for m. All of them reject a call that fails.
func (p *Practitioner) Check(m *Mutant) (Practice, error) {
	p.mu.Lock()
	key := subject{m.Definition, m.DType}
	if p.known[key] == nil {
		p.known[key] = &experiment{}
	}
	x := p.known[key]
	p.mu.Unlock()
	if x.once.Do(func() { x.err = x.prepare(m, p.device) }); x.err != nil {
		return Practice{}, x.err
	}
	k, err := m.Lowering.Compile(p.device, m.Definition, m.formats(), 0)
	if err != nil {
		return Practice{}, err
	}
	verdict := Practice{AllClose: true, Defaults: true, TwicePeer: true}
	for i := range x.trials {
		t := &x.trials[i]
		got := roomyClones(t.operands)
		if launch(k, launchOf(p.device, got, t.params)) != nil {
			return Practice{}, nil
		}
		for i, e := range t.outputs {
			if e.want != nil {
				verdict.compare(got[i], e)
			}
		}
	}
	return verdict, nil
}

func (x *experiment) prepare(m *Mutant, device *cpu.Device) error {
	for i := range x.trials {
		t := &x.trials[i]
		t.operands, t.params = m.inputs(i)
		want, wide, peer := clones(t.operands), widened(t.operands), clones(t.operands)
		for _, run := range [][]num.Array{want, wide} {
			if err := reference.Run(m.Definition, run, reference.Options{Params: t.params}); err != nil {
				return err
			}
		}
		if m.Definition.IsExact() {
			peer = want // no other result is right
		} else if err := m.peer().Run(newCall(m.Definition, launchOf(device, peer, t.params))); err != nil {
			return err
		}
		t.outputs = make([]expected, len(want))
		for i, o := range m.Definition.Operands {
			if o.IsOut {
				t.outputs[i] = expected{want: values(want[i]), wide: values(wide[i])}
				for k, v := range values(peer[i]) {
					t.outputs[i].worstPeer = nanMax(t.outputs[i].worstPeer, math.Abs(v-t.outputs[i].wide[k]))
				}
			}
		}
	}
	return nil
}

// values returns the elements of a contiguous array; integers are rounded to binary64.
func values(a num.Array) []float64 {
	list := make([]float64, 0, a.Rows*a.Cols)
	for r := range a.Rows {
		for c := range a.Cols {
			if a.DType.IsInteger() {
				list = append(list, float64(a.Integer(r, c)))
			} else {
				list = append(list, float64(a.At(r, c)))
			}
		}
	}
	return list
}

func launchOf(device *cpu.Device, operands []num.Array, params []float64) *engine.Launch {
	l := &engine.Launch{Context: context.Background(), Device: device}
	l.Params = params
	for _, a := range operands {
		l.Operands = append(l.Operands, lower.Operand{Array: a})
	}
	return l
}

// launch launches a kernel and returns a panic as an error.
func launch(k engine.Kernel, l *engine.Launch) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return k.Launch(l)
}

// The defaults of torch.testing.assert_close; integers must be equal.
var defaults = map[num.DType]struct{ rtol, atol float64 }{
	num.F16: {1e-3, 1e-5}, num.BF16: {1.6e-2, 1e-5}, num.F32: {1.3e-6, 1e-5},
}

// compare compares one output.
func (p *Practice) compare(got num.Array, e expected) {
	worst, tolerance := 0.0, defaults[got.DType]
	for i, g := range values(got) {
		p.AllClose = p.AllClose && isClose(g, e.want[i], 1e-2, 1e-2)
		p.Defaults = p.Defaults && isClose(g, e.want[i], tolerance.rtol, tolerance.atol)
		worst = nanMax(worst, math.Abs(g-e.wide[i]))
	}
	p.TwicePeer = p.TwicePeer && worst <= 2*e.worstPeer
}

func isClose(got, want, rtol, atol float64) bool {
	return got == want || math.Abs(got-want) <= atol+rtol*math.Abs(want)
}

func nanMax(a, b float64) float64 {
	if a != a || b != b {
		return math.NaN()
	}
	return max(a, b)
}

// formats returns the usual formats: as many operands as possible in the mutant's format.
func (m *Mutant) formats() []num.DType {
	for _, f := range m.Definition.Formats() {
		if m.Definition.Format(f) == m.DType {
			return f
		}
	}
	panic(fmt.Sprintf("mutants: %s: no formats named %s", m.Name, m.DType))
}

// inputs returns random data as in an author's test.
func (m *Mutant) inputs(turn int) ([]num.Array, []float64) {
	d, data, dtypes := m.Definition, m.usualData(), m.formats()
	var operands []num.Array
	for i, o := range d.Operands {
		a := d.Operands[i].NewArray(dtypes[i], data.Sizes)
		g := gen.New(fmt.Sprintf("practice/%s/%s/%d", d.Name, o.Name, turn))
		element := data.Values[o.Name]
		if element == nil {
			element = op.Normal
		}
		operands = append(operands, a)
		isPaged := o.IsLengths || o.Lengths != ""
		switch {
		case o.IsOffsets:
			trial.DivideEqually(a, data.Sizes[o.Bound])
		case isPaged:
			trial.FillIndex(d, i, operands, func(letter string) int { return data.Sizes[letter] }, func(row, col, limit int) int {
				return data.Index[o.Name].PageOf(g, row*a.Cols+col, limit)
			})
		}
		for r := range a.Rows {
			for c := range a.Cols {
				switch {
				case o.IsOffsets || isPaged:
				case o.IsIndex:
					a.SetBits(r, c, uint32(g.Below(data.Sizes[o.Bound])))
				case o.IsIn:
					a.Set(r, c, element(g, a.RowIn(r), c))
				}
			}
		}
	}
	if err := m.Operation.SavedBy(d).Fill(operands, data.Params, func(name string) bool { return data.Values[name] == nil }); err != nil {
		panic("mutants: " + err.Error())
	}
	return operands, data.Params
}

// roomyClones returns copies with memory after their end, as a device's allocator gives.
func roomyClones(a []num.Array) []num.Array {
	list := clones(a)
	for i := range list {
		n := len(list[i].Data)
		list[i].Data = append(list[i].Data, make([]byte, 64)...)[:n]
	}
	return list
}

// usualData returns the operation's first kind of data, fitted to the definition.
func (m *Mutant) usualData() op.Data {
	d, data := m.Definition, op.Data{Sizes: map[string]int{"R": rows, "C": 1024}}
	if len(m.Operation.Data) > 0 {
		data = m.Operation.Data[0]
	}
	data.Sizes = maps.Clone(data.Sizes)
	if data.Sizes["R"] > rows {
		data.Sizes["R"] = rows
	}
	if d.Product() != nil {
		for _, letter := range d.Sizes() {
			data.Sizes[letter] = 64
		}
		for _, letter := range d.Operands[2].BatchDims() {
			data.Sizes[letter] = 3
		}
		data.Sizes[d.SummedOver()] = 256
	}
	for n := len(data.Params); n < len(d.Params); n++ {
		data.Params = append(data.Params[:n:n], 1) // seed, tensor and step
	}
	return data
}

func clones(a []num.Array) []num.Array {
	list := make([]num.Array, len(a))
	for i := range a {
		list[i] = a[i].Clone()
	}
	return list
}

// widened returns the operands in binary32, so that results are visible before they are
// rounded to be stored.
func widened(a []num.Array) []num.Array {
	list := clones(a)
	for i, x := range a {
		if x.DType.IsFloat() {
			list[i] = x.Like(num.F32)
			for r := range x.Rows {
				for c := range x.Cols {
					list[i].Set(r, c, x.At(r, c))
				}
			}
		}
	}
	return list
}

// peer returns a plain kernel in the mutant's format: every step of an expression is rounded
// to it; sums and matrix products are computed in binary32.
func (m *Mutant) peer() Plain {
	switch m.Definition.Form.(type) {
	case *def.Product:
		return Plain{Body: Contraction(Products(Ascending)), Edit: Scale}
	case *def.Lookup:
		return Gather(RowOf)
	case *def.Scatter:
		return Plain{Body: Scatter(Ascending)}
	case *def.LookupSum, *def.RowWrite:
		return Plain{Body: Answer}
	}
	p := Ordered(Ascending)
	p.Step = To(m.DType)
	return Plain{Body: m.peers(p)[m.Definition]}
}
