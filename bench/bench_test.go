package bench

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tokitai/backend/cpu"
	"tokitai/backend/cuda"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/adamw"
	"tokitai/op/all"
	"tokitai/op/crossentropy"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/op/rope"
	"tokitai/op/softmax"
	"tokitai/reference"
	"tokitai/trial"
)

var operations = slices.Concat(gemm.Operations, softmax.Operations, crossentropy.Operations, gelu.Operations,
	embedding.Operations, layernorm.Operations, adamw.Operations, norm.Operations)

func find(t *testing.T, name string) *op.Operation {
	t.Helper()
	i := slices.IndexFunc(operations, func(o *op.Operation) bool { return o.Name == name })
	if i < 0 {
		t.Fatalf("no operation %s", name)
	}
	return operations[i]
}

// tiny sizes: more rows than a sample has, so that there is one.
func tiny() *Plan {
	return &Plan{Backend: cpu.Backend, Sizes: map[string]int{"R": 70, "C": 33, "H": 3, "M": 65, "N": 66, "K": 67, "Q": 50, "V": 40, "D": 5}}
}

func newTestMeter(t *testing.T, options Options, opts ...engine.Option) *Meter {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	q, err := engine.NewQueue(dev, append(opts, engine.WithLog(slog.New(slog.NewTextHandler(io.Discard, nil))))...)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMeter(q, options)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var short = Options{CopyBytes: 1 << 16, Repetitions: 3, Time: time.Nanosecond}

// Every operation with data is measured in every format, and every figure is there.
func TestMeasure(t *testing.T) {
	m := newTestMeter(t, short)
	for _, o := range operations {
		cases := tiny().Cases(o)
		if len(cases) == 0 && len(o.Data) > 0 {
			t.Errorf("%s has no cases", o.Name)
		}
		for _, c := range cases {
			r, err := m.Measure(t.Context(), c)
			if err != nil {
				t.Error(err)
				continue
			}
			isContraction := c.Data.Definition.Product() != nil
			if r.Case != c || r.Seconds < 0 || r.Repetitions != 3 || r.Bytes <= 0 || !(r.CopyGBps > 0) || (r.FLOPs > 0) != isContraction || (r.TFLOPS() > 0) != isContraction {
				t.Errorf("%v: %+v", c, r)
			}
		}
	}
	if c := m.Copies(); c.Bytes != 2<<16 || c.Count < 100 || !(0 < c.Least && c.Least <= c.Median && c.Median <= c.Most) {
		t.Errorf("copies: %+v", c)
	}
}

func TestOptions(t *testing.T) {
	m := newTestMeter(t, Options{CopyBytes: 1 << 10, Time: 3 * time.Millisecond})
	c := tiny().Cases(find(t, "softmax.forward"))[0]
	r, err := m.Measure(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Repetitions < 5 {
		t.Errorf("%d repetitions, want at least 5", r.Repetitions)
	}
	if m := newTestMeter(t, Options{}); m.Copies().Bytes != 128<<20 || m.options.Time != 200*time.Millisecond || m.Copies().Count != 5 {
		t.Errorf("defaults: a copy moves %d bytes, %v", m.Copies().Bytes, m.options)
	}
}

func TestCases(t *testing.T) {
	for _, row := range []struct {
		op     string
		dtypes []num.DType
		want   string
	}{
		{"softmax.forward", nil, "softmax.forward/cpu.rowwise f16 R=4096,C=1024; softmax.forward/cpu.rowwise bf16 R=4096,C=1024; softmax.forward/cpu.rowwise f32 R=4096,C=1024"},
		{"crossentropy", []num.DType{num.BF16}, "crossentropy/cpu.rowwise bf16 R=128,C=32768"},
		{"gemm.forward", []num.DType{num.F16}, "gemm.forward/cpu.packed f16 M=256,K=512,N=256"},
		{"gemm.grad_b", []num.DType{num.F16}, "gemm.grad_b/cpu.packed f16 M=512,K=256,N=256"},
		{"embedding.backward", []num.DType{num.F32}, "embedding.backward/cpu.scatter f32 Q=8192,D=1024,V=32768"},
		{"adamw.step_all", nil, ""},
		{"norm.clip", nil, "norm.clip/cpu.rowwise f32 R=4096,C=1024"},
		{"norm.clip", []num.DType{num.F16}, ""},
	} {
		plan := &Plan{Backend: cpu.Backend, DTypes: row.dtypes}
		var texts []string
		for _, c := range plan.Cases(find(t, row.op)) {
			texts = append(texts, c.String())
		}
		if got := strings.Join(texts, "; "); got != row.want {
			t.Errorf("%s: %s, want %s", row.op, got, row.want)
		}
	}
	plan := &Plan{Backend: cpu.Backend, DTypes: []num.DType{num.F16}, IsQuick: true, Sizes: map[string]int{"R": 3}}
	if got := plan.Cases(find(t, "softmax.forward"))[0].Shape(); got != "R=3,C=1024" {
		t.Errorf("with R=3 the shape is %s", got)
	}
}

// Smaller sizes have an eighth of the products, a quarter of the pairs of a sequence, and a quarter of
// the rows of everything else; what a row is stays.
func TestSmaller(t *testing.T) {
	for name, want := range map[string]string{
		"softmax.forward":      "R=4096,C=1024 R=1024,C=1024 R=256,C=1024",
		"gemm.forward":         "M=256,K=512,N=256 M=128,K=256,N=128 M=64,K=128,N=64",
		"gemm.batched.forward": "H=8,M=128,K=256,N=128 H=8,M=64,K=128,N=64 H=8,M=32,K=64,N=32",
		"embedding.backward":   "Q=8192,D=1024,V=32768 Q=2048,D=1024,V=32768 Q=512,D=1024,V=32768",
	} {
		plan := &Plan{Backend: cpu.Backend, DTypes: []num.DType{num.F32}, Smaller: 2}
		var shapes []string
		for _, c := range plan.Cases(find(t, name)) {
			shapes = append(shapes, c.Shape())
		}
		if got := strings.Join(slices.Compact(shapes), " "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// The format that names a case is that of as many operands as possible.
func TestFormats(t *testing.T) {
	for d, want := range map[*def.Definition][]num.DType{
		adamw.InPlaceDefinition:      {num.BF16, num.F32, num.F32, num.BF16},
		gemm.ForwardDefinition:       {num.BF16, num.BF16, num.BF16},
		embedding.BackwardDefinition: {num.I32, num.BF16, num.BF16},
	} {
		if got := d.DTypes(num.BF16); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", d.Name, got, want)
		}
	}
	if got := norm.ClipDefinition.DTypes(num.BF16); got != nil {
		t.Errorf("norm.clip has formats %v", got)
	}
}

// Least traffic, worked out by hand.
func TestTraffic(t *testing.T) {
	for name, want := range map[string]int64{
		"softmax.forward":    2 * 70 * 33 * 2,
		"softmax.backward":   3 * 70 * 33 * 2,
		"adamw.step":         70 * 33 * (2*2 + 2*4 + 2*4 + 2),
		"norm.square_sum":    70*33*2 + 4,
		"gemm.forward":       (65*67 + 67*66 + 65*66) * 2,
		"embedding.backward": 50*4 + (50+40)*5*2,
	} {
		m := newTestMeter(t, short)
		c := tiny().Cases(find(t, name))[0]
		r, err := m.Measure(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if r.Bytes != want {
			t.Errorf("%v: %d bytes, want %d", c, r.Bytes, want)
		}
		if name == "gemm.forward" && r.FLOPs != 2*65*66*67 {
			t.Errorf("%v: %v operations", c, r.FLOPs)
		}
	}
	// Of a table of 7 rows, three indices name two.
	operands := []num.Array{num.IndexArray(3, 5, 3), num.NewArray(num.F16, 7, 10), num.NewArray(num.F16, 3, 10)}
	if got, want := Traffic(embedding.ForwardDefinition, operands), int64(3*4+2*20+3*20); got != want {
		t.Errorf("gather: %d bytes, want %d", got, want)
	}
}

func TestFigures(t *testing.T) {
	r := &Result{Seconds: 0.25, Bytes: 5e9, CopyGBps: 80, FLOPs: 1e12}
	if r.GBps() != 20 || r.Share() != 0.25 || r.TFLOPS() != 4 {
		t.Errorf("%v GB/s, share %v, %v TFLOP/s", r.GBps(), r.Share(), r.TFLOPS())
	}
	r.Seconds = 0
	if math.IsInf(r.GBps(), 0) {
		t.Error("no time at all gives an infinite rate")
	}
	for _, row := range []struct {
		xs   []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 5}, 5}, {[]float64{9, 1, 5, 6}, 5.5}} {
		given := slices.Clone(row.xs)
		if got := median(row.xs); got != row.want || !slices.Equal(row.xs, given) {
			t.Errorf("the median of %v is %v, want %v", given, got, row.want)
		}
	}
}

// fault is what a kernel does wrong, by the number of its call, from 1.
type fault struct {
	isWrong  func(call int) bool // one bit of the last element differs
	isSilent func(call int) bool // nothing is written
	watch    func(call int, l *engine.Launch)
}

// lowering computes as the reference does, but for its fault.
func (f fault) lowering() *engine.Lowering {
	return &engine.Lowering{
		Name: "cpu.faulty", Device: "cpu",
		Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
			calls := 0
			return engine.KernelFunc(func(l *engine.Launch) error {
				calls++
				if f.watch != nil {
					f.watch(calls, l)
				}
				if f.isSilent != nil && f.isSilent(calls) {
					return nil
				}
				operands := l.Arrays()
				if err := reference.Run(d, operands, reference.Options{Params: l.Params}); err != nil {
					return err
				}
				if f.isWrong != nil && f.isWrong(calls) {
					i := len(d.Operands) - 1
					for !d.Operands[i].IsOut {
						i--
					}
					a := operands[i]
					a.SetBits64(a.Rows-1, a.Cols-1, a.Bits64(a.Rows-1, a.Cols-1)^1)
				}
				return nil
			}), nil
		},
	}
}

// A case calls once to check, once to warm up, three times to be timed, and once more
// to check.
const callsOfShort = 1 + 1 + 3 + 1

func from(first int) func(int) bool { return func(call int) bool { return call >= first } }
func only(one int) func(int) bool   { return func(call int) bool { return call == one } }

// A kernel that is wrong, or becomes wrong, is caught, whatever the operation.
func TestWrong(t *testing.T) {
	for n, row := range []struct {
		name  string
		fault fault
		when  string // "" if it is right
	}{
		{"right", fault{}, ""},
		{"wrong at once", fault{isWrong: from(1)}, "before"},
		{"wrong the first time", fault{isWrong: only(1)}, "before"},
		{"wrong later", fault{isWrong: from(4)}, "after"},
		{"wrong in the last timed call", fault{isWrong: only(callsOfShort - 1)}, "after"},
		{"wrong in the last call", fault{isWrong: only(callsOfShort)}, "after"},
		{"wrong afterwards", fault{isWrong: from(callsOfShort + 1)}, ""},
		{"silent at once", fault{isSilent: from(1)}, "before"},
		{"silent later", fault{isSilent: from(4)}, "after"},
	} {
		for i, o := range operations {
			if testlevel.Current() == testlevel.Smoke && i%4 != n%4 {
				continue
			}
			for _, c := range tiny().Cases(o)[:min(1, len(o.Data))] {
				m := newTestMeter(t, short, engine.WithAdmission(engine.Off))
				c.Lowering = row.fault.lowering()
				r, err := m.Measure(t.Context(), c)
				var wrong *WrongError
				switch {
				case row.when == "" && (err != nil || r == nil):
					t.Errorf("%s: %v: %v", row.name, c, err)
				case row.when != "" && (!errors.As(err, &wrong) || wrong.When != row.when || wrong.Case != c || r != nil):
					t.Errorf("%s: %v: got %v, want a result that is wrong %s timing", row.name, c, err, row.when)
				}
			}
		}
	}
}

func TestWrongError(t *testing.T) {
	m := newTestMeter(t, short, engine.WithAdmission(engine.Off))
	c := tiny().Cases(find(t, "norm.clip"))[0]
	c.Lowering = fault{isWrong: from(1)}.lowering()
	_, err := m.Measure(t.Context(), c)
	const want = "norm.clip/cpu.faulty f32 R=70,C=33: wrong before timing: factor[69,32] is 0x"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s...", err, want)
	}
}

// A kernel that writes beside its outputs is caught, though its results are right.
func TestWritesOutside(t *testing.T) {
	for _, row := range []struct {
		name string
		call int
		when string
		at   func(bytes int) int // the byte of the output's memory that is written
	}{
		{"before y at once", 1, "before", func(int) int { return trial.GuardBytes - 1 }},
		{"after y at once", 1, "before", func(bytes int) int { return bytes - trial.GuardBytes }},
		{"before y in the last timed call", callsOfShort - 1, "after", func(int) int { return 0 }},
		{"after y in the last call", callsOfShort, "after", func(bytes int) int { return bytes - 1 }},
	} {
		m := newTestMeter(t, short, engine.WithAdmission(engine.Off))
		c := tiny().Cases(find(t, "softmax.forward"))[0]
		c.Lowering = fault{watch: func(call int, l *engine.Launch) {
			if y := l.Buffers[1].(device.HostBuffer).Memory(); call == row.call {
				y[row.at(len(y))] ^= 1
			}
		}}.lowering()
		_, err := m.Measure(t.Context(), c)
		var wrong *WrongError
		if !errors.As(err, &wrong) || wrong.When != row.when || wrong.Reason != "it writes outside y" {
			t.Errorf("%s: got %v, want that it writes outside y, %s timing", row.name, err, row.when)
		}
	}
}

// Products of many matrices whose rows cannot be sampled are compared as a whole.
func TestWholeProducts(t *testing.T) {
	shared := def.Must(def.Contraction("shared", def.ContractionForm{
		Left: "A", Right: "B", Result: "C",
		LeftDims: []string{"H", "M", "K"}, RightDims: []string{"K", "N"}, ResultDims: []string{"H", "M", "N"},
	}))
	grouped := def.Must(def.Contraction("grouped", def.ContractionForm{
		Left: "A", Right: "B", Result: "C", LeftDims: []string{"M", "K"}, RightDims: []string{"G", "K", "N"}, ResultDims: []string{"M", "N"},
		Groups: def.Groups{Number: "G", Of: "M", Offsets: "offsets"},
	}))
	for _, d := range []*def.Definition{shared, grouped} {
		o := &op.Operation{Name: d.Name, Definitions: []*def.Definition{d}, Data: []op.Data{{Definition: d, Name: "normal"}}}
		for _, c := range (&Plan{Backend: cpu.Backend, Sizes: map[string]int{"H": 3, "G": 4, "M": 9, "N": 7, "K": 5}}).Cases(o) {
			m := newTestMeter(t, short)
			if _, err := m.Measure(t.Context(), c); err != nil {
				t.Error(err)
			}
			m = newTestMeter(t, short, engine.WithAdmission(engine.Off))
			c.Lowering = fault{isWrong: from(1)}.lowering()
			var wrong *WrongError
			if _, err := m.Measure(t.Context(), c); !errors.As(err, &wrong) || wrong.When != "before" {
				t.Errorf("%v: got %v, want a result that is wrong before timing", c, err)
			}
		}
	}
}

// A kernel that fails its self-test is not timed.
func TestInadmissible(t *testing.T) {
	m := newTestMeter(t, short)
	c := tiny().Cases(find(t, "gelu.forward"))[0]
	c.Lowering = fault{isWrong: from(1)}.lowering()
	if _, err := m.Measure(t.Context(), c); !errors.Is(err, engine.ErrInadmissible) {
		t.Errorf("got %v, want that the lowering is inadmissible", err)
	}
}

// Every call of an operation that updates in place starts from the same values.
func TestRestore(t *testing.T) {
	m := newTestMeter(t, short, engine.WithAdmission(engine.Off))
	for _, c := range tiny().Cases(find(t, "adamw.step")) {
		var first [][]byte
		calls := 0
		c.Lowering = fault{watch: func(_ int, l *engine.Launch) {
			calls++
			for i, a := range l.Arrays() {
				switch {
				case calls == 1:
					first = append(first, slices.Clone(a.Data))
				case !slices.Equal(a.Data, first[i]):
					t.Errorf("%v: in call %d, %s is not what it was", c, calls, c.Data.Definition.Operands[i].Name)
				}
			}
		}}.lowering()
		if _, err := m.Measure(t.Context(), c); err != nil {
			t.Error(err)
		}
		if calls != callsOfShort {
			t.Errorf("%v: %d calls, want %d", c, calls, callsOfShort)
		}
	}
}

// An interrupt ends the measurement of a case, not only that of the list.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := newTestMeter(t, short, engine.WithAdmission(engine.Off))
	c := tiny().Cases(find(t, "softmax.forward"))[0]
	calls := 0
	c.Lowering = fault{watch: func(call int, _ *engine.Launch) {
		if calls = call; call == 3 {
			cancel()
		}
	}}.lowering()
	if r, err := m.Measure(ctx, c); !errors.Is(err, context.Canceled) || r != nil || calls != 3 {
		t.Errorf("after %d calls: %v, %v", calls, r, err)
	}
	if m.Copies().Count == 0 {
		t.Error("the copies are forgotten")
	}
}

// A sample has the first row and the last, and sees a bit in each of its rows.
func TestSample(t *testing.T) {
	for _, o := range operations {
		for _, c := range tiny().Cases(o) {
			d := c.Data.Definition
			operands := make([]num.Array, len(d.Operands))
			for i := range d.Operands {
				operands[i] = d.Operands[i].NewArray(c.DTypes[i], c.Data.Sizes)
				if d.Operands[i].IsIn {
					Fill(operands[i], &d.Operands[i], c.Data)
				}
			}
			s, err := NewSample(t.Context(), d, operands, c.Data.Params, def.FMAChain)
			if err != nil {
				t.Fatal(err)
			}
			onCPU := make([]num.Array, len(operands))
			for i := range operands {
				onCPU[i] = operands[i].Clone()
			}
			if err := runOnCPU(t.Context(), d, onCPU, c.Data.Params, def.FMAChain); err != nil {
				t.Fatal(err)
			}
			for i, a := range onCPU {
				if d.Operands[i].IsOut {
					if text := s.Differs(i, a); text != "" {
						t.Errorf("%v: the CPU's own lowering: %s", c, text)
					}
				}
			}
			if err := reference.Run(d, operands, reference.Options{Params: c.Data.Params}); err != nil {
				t.Fatal(err)
			}
			for i, a := range operands {
				if !d.Operands[i].IsOut {
					continue
				}
				if text := s.Differs(i, a); text != "" {
					t.Errorf("%v: the reference on all rows: %s", c, text)
				}
				rows := s.Rows
				if rows == nil {
					for r := range a.Rows {
						rows = append(rows, r)
					}
				}
				if rows[0] != 0 || rows[len(rows)-1] != a.Rows-1 || !slices.IsSorted(rows) {
					t.Errorf("%v: rows %v of %d", c, rows, a.Rows)
				}
				for _, r := range rows {
					bits := a.Bits64(r, a.Cols/2)
					a.SetBits64(r, a.Cols/2, bits^1)
					if s.Differs(i, a) == "" {
						t.Errorf("%v: a wrong bit of %s in row %d is not seen", c, d.Operands[i].Name, r)
					}
					a.SetBits64(r, a.Cols/2, bits)
				}
			}
			p := d.Product()
			whole := d == layernorm.BackwardDefinition || d == norm.SquareSumDefinition || p != nil && p.Groups.Offsets != ""
			if whole != (s.Rows == nil) {
				t.Errorf("%v: rows %v", c, s.Rows)
			}
		}
	}
	if canSample(adamw.StochasticDefinition) {
		t.Error("random words belong to a row, and are sampled")
	}
	perColumn := def.Must(def.Rowwise("test.column", func(b *def.Builder) {
		b.Out("y", b.In("x"))
		b.OutCol("twice", b.InCol("bias").Add(b.InCol("bias2")))
	}))
	count := def.Must(def.Rowwise("test.rows", func(b *def.Builder) { b.Out("y", b.In("x").Mul(b.Rows())) }))
	for _, d := range []*def.Definition{perColumn, count} {
		if canSample(d) {
			t.Errorf("%s is sampled by row", d.Name)
		}
	}
}

// Indices reach the whole table, and operands do not depend on how many processors
// fill them.
func TestFill(t *testing.T) {
	data := tiny().Cases(find(t, "embedding.forward"))[0].Data
	data.Sizes = maps.Clone(data.Sizes)
	data.Sizes["V"] = 9
	index := num.NewArray(num.I32, 200_000, 1)
	Fill(index, &data.Definition.Operands[0], data)
	counts := map[int32]int{}
	for r := range index.Rows {
		counts[index.Int(r, 0)]++
	}
	for v := range int32(9) {
		if counts[v] < 20_000 || len(counts) != 9 {
			t.Errorf("index %d stands %d times among %d different ones", v, counts[v], len(counts))
		}
	}
	again := num.NewArray(num.I32, 200_000, 1)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	Fill(again, &data.Definition.Operands[0], data)
	if !slices.Equal(index.Data, again.Data) {
		t.Error("one processor fills other values")
	}
}

// Heads of a token have its position, and positions begin again behind the last.
func TestFillUsual(t *testing.T) {
	data := tiny().Cases(rope.Operations[0])[0].Data
	data.Sizes = maps.Clone(data.Sizes)
	data.Sizes["P"] = 3
	i := data.Definition.Operand("position")
	index := num.NewArray(num.I32, 130, 1)
	Fill(index, &data.Definition.Operands[i], data)
	for r := range index.Rows {
		if got, want := index.Int(r, 0), []int32{0, 1, 2, 0, 1}[r/32]; got != want {
			t.Errorf("row %d has the position %d, want %d", r, got, want)
		}
	}
}

// The copy copies everything, also what is no whole number of pieces.
func TestCopy(t *testing.T) {
	m := newTestMeter(t, Options{CopyBytes: 2*pieceBytes + 3, Repetitions: 1})
	c := m.track.(*hostTrack)
	if !slices.Equal(c.from, c.to) {
		t.Error("the copy is not equal")
	}
	if _, moves, _ := c.copying(1); moves != 2*(2*pieceBytes+3) {
		t.Errorf("the copy moves %d bytes", moves)
	}
}

// Sizes for which there is no memory are an error, not a crash.
func TestTooLarge(t *testing.T) {
	m := newTestMeter(t, short)
	for _, n := range []int{1 << 31, math.MaxInt} {
		plan := &Plan{Backend: cpu.Backend, Sizes: map[string]int{"R": n, "C": n}}
		if _, err := m.Measure(t.Context(), plan.Cases(find(t, "gelu.forward"))[0]); err == nil || !strings.Contains(err.Error(), "operand x") {
			t.Errorf("%d rows: %v", n, err)
		}
	}
}

// Bytes counts every operand twice, and does not overflow.
func TestCaseBytes(t *testing.T) {
	plan := &Plan{Backend: cpu.Backend, DTypes: []num.DType{num.F16}, Sizes: map[string]int{"Q": 3, "V": 5, "D": 7}}
	if got, want := plan.Cases(embedding.Operations[0])[0].Bytes(), int64(2*(3*4+5*7*2+3*7*2)); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
	plan.Sizes = map[string]int{"R": math.MaxInt, "C": math.MaxInt}
	if got := plan.Cases(softmax.Operations[0])[0].Bytes(); got != math.MaxInt64 {
		t.Errorf("got %d, want the most", got)
	}
}

// TestDistinct counts the values of all columns of an index.
func TestDistinct(t *testing.T) {
	index := num.NewArray(num.I32, 2, 3)
	for i, v := range []uint32{4, 1, 4, 2, 4, 7} {
		index.SetBits(i/3, i%3, v)
	}
	if got := Distinct(index); got != 4 {
		t.Errorf("got %d different values, want 4", got)
	}
}

// The default sizes fit any machine that has a device of the kind, and are those that a model has.
func TestDefaultSizes(t *testing.T) {
	for _, b := range []struct {
		backend engine.Backend
		most    int64
	}{{cpu.Backend, 1 << 30}, {cuda.Backend, 8 << 30}} {
		p := &Plan{Backend: b.backend}
		for _, o := range all.Operations {
			if len(o.Data) == 0 {
				continue
			}
			d := o.Data[0].Definition
			sizes := p.sizes(d, o.Usual)
			for letter, n := range o.Usual {
				if sizes[letter] != n {
					t.Errorf("%s has %d for %s, which usually is %d", o.Name, sizes[letter], letter, n)
				}
			}
			for _, f := range num.AllDTypes {
				c := &Case{Operation: o, Data: op.Data{Definition: d, Sizes: sizes}, DType: f, DTypes: d.DTypes(f)}
				if c.DTypes != nil && c.Bytes() > b.most {
					t.Errorf("%s of %v on %s needs %d bytes", o.Name, f, b.backend.Kind(), c.Bytes())
				}
			}
		}
	}
}
