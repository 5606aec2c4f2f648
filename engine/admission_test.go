package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/backend/cuda"
	"tokitai/backend/sim"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/answers"
	"tokitai/internal/testlevel"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/op/embedding"
	"tokitai/op/gemm"
	"tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/reference"
	"tokitai/tensor"
)

// definitions are those of all shipped operations, each once.
func definitions() []*def.Definition {
	var found []*def.Definition
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if !slices.Contains(found, d) {
				found = append(found, d)
			}
		}
	}
	return found
}

// flip changes the lowest bit of the first element that is no NaN; where all are,
// it makes the first one a number.
func flip(a num.Array) {
	for r := range a.Rows {
		for c := range a.Cols {
			isNaN := func(bits uint64) bool { return !a.DType.IsInteger() && num.IsNaN(a.DType, uint32(bits)) }
			if bits := a.Bits64(r, c); !isNaN(bits) && !isNaN(bits^1) {
				a.SetBits64(r, c, bits^1)
				return
			}
		}
	}
	a.Set(0, 0, 1)
}

// TestEverySelfTestCanFail changes one bit of one output of one self-test, for
// every self-test of every shipped definition in every format, and once again for
// every output. At level smoke, it is one format of a quarter of the definitions, and long runs for an eighth.
func TestEverySelfTestCanFail(t *testing.T) {
	q := newQueue(t)
	defer setCorrupt(nil)
	for i, d := range definitions() {
		if !testlevel.InSample(i, testlevel.Pick(4, 1)) {
			continue
		}
		l := engine.Lowerings(cpu.Backend, d)[0]
		outputs := 0
		for i := range d.Operands {
			if d.Operands[i].IsOut {
				outputs++
			}
		}
		for _, dtypes := range d.Formats() {
			if testlevel.Current() == testlevel.Smoke && d.Format(dtypes) != num.F16 {
				continue
			}
			values := make([]map[uint64]bool, outputs) // numbers that an output has been compared with
			for i := range values {
				values[i] = map[uint64]bool{}
			}
			for k, name := range private.SelfTests(d) {
				if name == "long" && !testlevel.InSample(i, testlevel.Pick(8, 1)) { // it takes longer than all others
					continue
				}
				seen := 0
				setCorrupt(func(test string, output num.Array) {
					if test != name {
						t.Errorf("%s: self-test %s runs as %s", d.Name, name, test)
					}
					for r := range output.Rows {
						for c := range output.Cols {
							if v := output.At(r, c); v-v == 0 {
								values[seen][output.Bits64(r, c)] = true
							}
						}
					}
					if seen == k%outputs {
						flip(output)
					}
					seen++
				})
				err := private.RunSelfTest(q, l, d, dtypes, name)
				var inadmissible *engine.InadmissibleError
				switch {
				case !errors.As(err, &inadmissible):
					t.Errorf("%s %v: self-test %s passes with a wrong bit: %v", d.Name, dtypes, name, err)
				case inadmissible.Test != name || inadmissible.Lowering != l.ID(d) || inadmissible.Device != "cpu":
					t.Errorf("%s %v: self-test %s failed as %+v", d.Name, dtypes, name, inadmissible)
				case !strings.Contains(err.Error(), "] is ") || !errors.Is(err, engine.ErrInadmissible):
					t.Errorf("%s %v: self-test %s: got %v", d.Name, dtypes, name, err)
				}
			}
			for i, v := range values {
				if len(v) < 3 {
					t.Errorf("%s %v: output %d is compared with %d numbers in all self-tests, want at least 3", d.Name, dtypes, i, len(v))
				}
			}
		}
	}
}

// TestKnownAnswersNeedNoReference admits every shipped definition in every format by
// the committed answers alone. At level smoke, it is a quarter of them in one format.
func TestKnownAnswersNeedNoReference(t *testing.T) {
	defer setReference(func(d *def.Definition, _ []num.Array, _ reference.Options) error {
		return errors.New("the reference of " + d.Name + " runs")
	})()
	looked := 0
	defer setFindAnswer(func(definition string, formats []num.DType, test string) (answers.Answer, bool, error) {
		looked++
		return answers.Find(definition, formats, test)
	})()
	q := newQueue(t, engine.WithLog(slog.New(slog.DiscardHandler)))
	want := 0
	for i, d := range definitions() {
		if !testlevel.InSample(i, testlevel.Pick(4, 1)) {
			continue
		}
		for _, dtypes := range d.Formats() {
			if testlevel.Current() == testlevel.Smoke && d.Format(dtypes) != num.F16 {
				continue
			}
			want += len(private.SelfTests(d))
			if _, err := engine.Admit(q, d, dtypes); err != nil {
				t.Errorf("%s %v: %v", d.Name, dtypes, err)
			}
		}
	}
	if looked != want {
		t.Errorf("%d answers were looked up, want %d", looked, want)
	}
}

// TestKnownAnswerFailures breaks the kernel, the reference and the committed answers
// in turn, and wants the exact reason. The first output of the first self-test of
// softmax is 1, 0x3c00.
func TestKnownAnswerFailures(t *testing.T) {
	const test = "C=1"
	d, dtypes := softmax.ForwardDefinition, []num.DType{num.F16, num.F16}
	known, isKnown, err := answers.Find(d.Hash(), dtypes, test)
	if err != nil || !isKnown {
		t.Fatalf("softmax has no known answer: %v", err)
	}
	outputs := func(first uint32) answers.Hash {
		y := num.ArrayOf(num.F16, 2, 1, 1, 1)
		y.SetBits(0, 0, first)
		h := answers.NewDigest()
		h.Values("y", y)
		return h.Sum()
	}
	if known.Outputs != outputs(0x3c00) {
		t.Fatal("the known answer of softmax is not 1")
	}
	var none answers.Hash
	noReproduction := func(got, want answers.Hash) string {
		return fmt.Sprintf("the reference does not reproduce the known answer on this machine: its outputs have hash %v, want %v", got, want)
	}
	damaged := errors.New("known answers: line 7: damaged")
	for _, c := range []struct {
		name              string
		kernel, reference uint32 // the first output that they give
		answer            answers.Answer
		isUnknown         bool
		err               error
		runs              int // of the reference
		want              string
	}{
		{name: "all are right", kernel: 0x3c00, reference: 0x3c00, answer: known},
		{name: "the reference alone is wrong", kernel: 0x3c00, reference: 0x3c01, answer: known},
		{name: "the kernel is wrong", kernel: 0x3c01, reference: 0x3c00, answer: known, runs: 1, want: "y[0,0] is 0x3c01, want 0x3c00 (1.0009766, 1)"},
		{name: "kernel and reference are wrong alike", kernel: 0x3c01, reference: 0x3c01, answer: known, runs: 1,
			want: noReproduction(outputs(0x3c01), known.Outputs)},
		{name: "kernel and reference are wrong, each in its way", kernel: 0x3c01, reference: 0x3c02, answer: known, runs: 1,
			want: "y[0,0] is 0x3c01, want 0x3c02 (1.0009766, 1.0019531); " + noReproduction(outputs(0x3c02), known.Outputs)},
		{name: "the known answer is wrong", kernel: 0x3c00, reference: 0x3c00, answer: answers.Answer{Inputs: known.Inputs}, runs: 1,
			want: noReproduction(known.Outputs, none)},
		{name: "the inputs are wrong", kernel: 0x3c00, reference: 0x3c00, answer: answers.Answer{Outputs: known.Outputs},
			want: fmt.Sprintf("its inputs have hash %v, want %v: this machine does not generate them right", known.Inputs, none)},
		{name: "the table is damaged", kernel: 0x3c00, reference: 0x3c00, err: damaged, want: damaged.Error()},
		{name: "there is no known answer", kernel: 0x3c00, reference: 0x3c00, isUnknown: true, runs: 1},
		{name: "there is no known answer, and the kernel is wrong", kernel: 0x3c01, reference: 0x3c00, isUnknown: true, runs: 1,
			want: "y[0,0] is 0x3c01, want 0x3c00 (1.0009766, 1)"},
	} {
		runs := 0
		restoreAnswers := setFindAnswer(func(string, []num.DType, string) (answers.Answer, bool, error) {
			return c.answer, !c.isUnknown && c.err == nil, c.err
		})
		restoreReference := setReference(func(d *def.Definition, operands []num.Array, o reference.Options) error {
			runs++
			err := reference.Run(d, operands, o)
			operands[1].SetBits(0, 0, c.reference)
			return err
		})
		l := lowering("cpu.test", func(d *def.Definition, l *engine.Launch) error {
			err := right(d, l)
			l.Arrays()[1].SetBits(0, 0, c.kernel)
			return err
		})
		err := private.RunSelfTest(newQueue(t), l, d, dtypes, test)
		restoreAnswers()
		restoreReference()
		var inadmissible *engine.InadmissibleError
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: got %v, want it admitted", c.name, err)
		case c.want != "" && (!errors.As(err, &inadmissible) || inadmissible.Reason != c.want || inadmissible.Test != test):
			t.Errorf("%s:\ngot  %v\nwant %s", c.name, err, c.want)
		case c.err != nil && !errors.Is(err, c.err):
			t.Errorf("%s: %v does not wrap its cause", c.name, err)
		}
		if runs != c.runs {
			t.Errorf("%s: the reference ran %d times, want %d", c.name, runs, c.runs)
		}
	}
}

// TestOtherModelsHaveNoKnownAnswers asks the reference, under the lowering's model,
// where the committed answers are those of model fma.
func TestOtherModelsHaveNoKnownAnswers(t *testing.T) {
	var asked []def.Accum
	defer setReference(func(d *def.Definition, operands []num.Array, o reference.Options) error {
		asked = append(asked, o.Accum)
		return reference.Run(d, operands, o)
	})()
	core := def.Accum{L: 16, F: 25}
	l := lowering("cpu.core", func(d *def.Definition, l *engine.Launch) error {
		return reference.Run(d, l.Arrays(), reference.Options{Accum: core})
	})
	l.Promise.Accum = core
	if err := private.RunSelfTest(newQueue(t), l, gemm.ForwardDefinition, []num.DType{num.F16, num.F16, num.F32}, "tails"); err != nil {
		t.Error(err)
	}
	if !slices.Equal(asked, []def.Accum{core}) {
		t.Errorf("the reference was asked for models %v, want %v", asked, core)
	}
}

// TestSelfTestsAreComplete wants every listed self-test to run before a first use,
// each in the class that it is of, and no other.
func TestSelfTestsAreComplete(t *testing.T) {
	rowwise := []string{
		"C=1", "C=7", "C=255", "C=257", "C=515", "C=1027", "C=2049", "special", "rarely-special", "strided", "strided-others", "in-place", "tall", "long",
	}
	table := []string{"one", "duplicates", "wide", "special", "rarely-special", "strided", "strided-others"}
	want := map[def.Access][]string{
		def.AlongRows: rowwise, def.FromIndex: table, def.ToIndex: table,
		def.OfProducts: {"one", "tails", "tiles", "special", "rarely-special", "strided", "strided-others", "aligned", "aligned-special", "aligned-rarely-special", "aligned-strided", "aligned-strided-others"},
		def.OfSequence: {"one", "blocks", "segments", "tiles", "special", "rarely-special", "strided", "strided-others", "aligned", "aligned-rarely-special", "aligned-strided", "aligned-strided-others"},
	}
	defer setCorrupt(nil)
	for _, d := range definitions() {
		want := want[d.Access()]
		if slices.ContainsFunc(d.Exec().Nodes, func(n *def.Node) bool { return n.Op.IsOrdering() }) {
			want = slices.Insert(slices.Clone(want), slices.Index(want, "special"), "ties", "ties-wide")
		}
		if got := private.SelfTests(d); !slices.Equal(got, want) {
			t.Errorf("%s: self-tests %v, want %v", d.Name, got, want)
		}
	}

	var ran []string
	setCorrupt(func(test string, _ num.Array) { ran = append(ran, test) })
	q := newQueue(t)
	x, y := matrix(t, q, num.F16, 2, 3), matrix(t, q, num.F16, 2, 3)
	if err := softmax.Forward(q, y, x); err != nil {
		t.Fatal(err)
	}
	if short := slices.DeleteFunc(slices.Clone(rowwise), func(n string) bool { return n == "long" }); !slices.Equal(ran, short) {
		t.Errorf("a short row: ran %v, want %v", ran, short)
	}
	ran = nil
	if err := softmax.Forward(q, y, x); err != nil || ran != nil {
		t.Errorf("a second call: ran %v, error %v", ran, err)
	}
	x, y = matrix(t, q, num.F16, 1, 1<<16+1), matrix(t, q, num.F16, 1, 1<<16+1)
	if err := softmax.Forward(q, y, x); err != nil || !slices.Equal(ran, []string{"long"}) {
		t.Errorf("a long row: ran %v, error %v", ran, err)
	}
}

// TestAdmissionNamesTheSelfTest goes the way of a call: the self-test that fails
// stands in the error, nothing is written, and the verdict stays.
func TestAdmissionNamesTheSelfTest(t *testing.T) {
	defer setCorrupt(nil)
	for _, name := range private.SelfTests(embedding.BackwardDefinition) {
		setCorrupt(func(test string, output num.Array) {
			if test == name {
				flip(output)
			}
		})
		q := newQueue(t, engine.WithLog(slog.New(slog.DiscardHandler)))
		index, dout, dweight := indices(t, q, 1, 0), matrix(t, q, num.F16, 2, 3), matrix(t, q, num.F16, 2, 3)
		before := mustBytes(t, dweight)
		for range 2 {
			err := embedding.Backward(q, dweight, index, dout)
			var inadmissible *engine.InadmissibleError
			if !errors.As(err, &inadmissible) || inadmissible.Test != name {
				t.Errorf("self-test %s damaged: got %v", name, err)
			}
			if want := "embedding.backward/cpu.scatter is inadmissible on cpu: self-test " + name + ": dweight["; !strings.HasPrefix(fmt.Sprint(err), want) {
				t.Errorf("got %q, want it to begin with %q", err, want)
			}
			setCorrupt(nil) // the second call is not tested again
		}
		if !bytes.Equal(before, mustBytes(t, dweight)) {
			t.Errorf("self-test %s damaged: the call has written", name)
		}
	}
}

// lowering makes a lowering of a function of each launch's arrays, after which the
// reference's answer is right unless the function did something else.
func lowering(name string, launch func(d *def.Definition, l *engine.Launch) error) *engine.Lowering {
	return &engine.Lowering{
		Name: name, Device: "cpu",
		Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
			return engine.KernelFunc(func(l *engine.Launch) error { return launch(d, l) }), nil
		},
	}
}

func right(d *def.Definition, l *engine.Launch) error {
	return reference.Run(d, l.Arrays(), reference.Options{Params: l.Params})
}

// beyond is the memory after an operand's last element, which no lowering may touch.
func beyond(o *lower.Operand) []byte {
	return unsafeBytes(&o.Data[len(o.Data)-1], 1, 1)
}

// TestBadLowerings are found out before their first use, each with its reason.
func TestBadLowerings(t *testing.T) {
	failure := errors.New("no such instruction")
	for _, test := range []struct {
		name  string
		l     *engine.Lowering
		test  string // the self-test that finds it
		want  string
		cause error
	}{
		{"it panics", lowering("bad", func(*def.Definition, *engine.Launch) error { panic("broken") }),
			"C=1", "the kernel panicked: broken", nil},
		{"it fails", lowering("bad", func(*def.Definition, *engine.Launch) error { return failure }), "C=1", "no such instruction", failure},
		{"it writes nothing", lowering("bad", func(*def.Definition, *engine.Launch) error { return nil }), "C=1", "y[0,0] is 0xa5a5, want 0x", nil},
		{"it leaves the last element out", lowering("bad", func(d *def.Definition, l *engine.Launch) error {
			y := l.Arrays()[1]
			old := y.Bits(y.Rows-1, y.Cols-1)
			err := right(d, l)
			y.SetBits(y.Rows-1, y.Cols-1, old)
			return err
		}), "C=1", "y[1,0] is 0xa5a5, want 0x", nil},
		{"it leaves columns beyond 256 out", lowering("bad", func(d *def.Definition, l *engine.Launch) error {
			y := l.Arrays()[1]
			err := right(d, l)
			if y.Cols > 256 {
				y.SetBits(0, 256, 0)
			}
			return err
		}), "C=257", "y[0,256] is 0x0000, want 0x", nil},
		{"it writes before its output", lowering("bad", func(d *def.Definition, l *engine.Launch) error {
			unsafeBytes(&l.Operands[1].Data[0], -1, 1)[0] = 0
			return right(d, l)
		}), "C=1", "it writes outside y", nil},
		{"it writes behind its output", lowering("bad", func(d *def.Definition, l *engine.Launch) error {
			beyond(&l.Operands[1])[0]++
			return right(d, l)
		}), "C=1", "it writes outside y", nil},
		{"it writes behind its input", lowering("bad", func(d *def.Definition, l *engine.Launch) error {
			beyond(&l.Operands[0])[0]++
			return right(d, l)
		}), "C=1", "it writes outside x", nil},
		{"it writes between rows", lowering("bad", func(d *def.Definition, l *engine.Launch) error {
			if y := l.Arrays()[1]; y.Stride > y.Cols {
				y.SetBits(0, y.Cols, 0)
			}
			return right(d, l)
		}), "strided-others", "it writes between the rows of y", nil},
		{"it writes between the rows of its input", lowering("bad", func(d *def.Definition, l *engine.Launch) error {
			if x := l.Arrays()[0]; x.Stride > x.Cols {
				x.SetBits(0, x.Cols, 0)
			}
			return right(d, l)
		}), "strided", "it writes between the rows of x", nil},
		{"it ignores the stride", lowering("bad", func(d *def.Definition, l *engine.Launch) error {
			operands := l.Arrays()
			for i := range operands {
				operands[i].Stride = operands[i].Cols
			}
			return reference.Run(d, operands, reference.Options{})
		}), "strided", "", nil},
		{"it writes to its input", lowering("bad", func(d *def.Definition, l *engine.Launch) error {
			err := right(d, l)
			x, y := l.Arrays()[0], l.Arrays()[1]
			if &x.Data[0] != &y.Data[0] {
				x.SetBits(0, 0, x.Bits(0, 0)^1)
			}
			return err
		}), "C=1", "it writes to its input x", nil},
		{"it reads what it has overwritten", lowering("bad", func(d *def.Definition, l *engine.Launch) error {
			y := l.Arrays()[1]
			for r := range y.Rows {
				for c := range y.Cols {
					y.SetBits(r, c, 0)
				}
			}
			return right(d, l)
		}), "in-place", "y[0,0] is 0x", nil},
		{"it puts its output elsewhere", lowering("bad", func(d *def.Definition, l *engine.Launch) error {
			l.Operands[1].Data = make([]byte, len(l.Operands[1].Data))
			return right(d, l)
		}), "C=1", "y[0,0] is 0xa5a5, want 0x", nil},
		{"it loses NaN", lowering("bad", func(d *def.Definition, l *engine.Launch) error {
			err := right(d, l)
			y := l.Arrays()[1]
			for r := range y.Rows {
				for c := range y.Cols {
					if num.IsNaN(y.DType, y.Bits(r, c)) {
						y.SetBits(r, c, 0)
					}
				}
			}
			return err
		}), "special", "is 0x0000, want 0x7", nil},

		{"it does not compile", &engine.Lowering{Name: "bad", Device: "cpu", Compile: func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) {
			return nil, failure
		}}, "", "it does not compile: no such instruction", failure},
		{"its compilation panics", &engine.Lowering{Name: "bad", Device: "cpu", Compile: func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) {
			panic("broken")
		}}, "", "its compilation panicked: broken", nil},
		{"it compiles to nothing", &engine.Lowering{Name: "bad", Device: "cpu", Compile: func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) {
			return nil, nil
		}}, "", "its compilation gave no kernel", nil},
		{"no self-test reaches it", &engine.Lowering{Name: "bad", Device: "cpu",
			Class: func(_ *def.Definition, c *lower.Call) int {
				if c.Rows == 2 && c.Cols == 3 {
					return 1
				}
				return 0
			},
			Compile: func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) {
				return engine.KernelFunc(func(*engine.Launch) error { return nil }), nil
			}}, "", "no self-test reaches its class 1", nil},
	} {
		q := newQueue(t, engine.WithLog(slog.New(slog.DiscardHandler)))
		x, y := matrix(t, q, num.F16, 2, 3), matrix(t, q, num.F16, 2, 3)
		before := mustBytes(t, y)
		err := softmax.Forward(q, y, x, engine.Using(test.l))
		var inadmissible *engine.InadmissibleError
		if !errors.As(err, &inadmissible) {
			t.Errorf("%s: got %v, want an InadmissibleError", test.name, err)
			continue
		}
		if inadmissible.Test != test.test || !strings.Contains(inadmissible.Reason, test.want) {
			t.Errorf("%s: got self-test %q, %q; want %q, %q", test.name, inadmissible.Test, inadmissible.Reason, test.test, test.want)
		}
		if test.cause != nil && !errors.Is(err, test.cause) {
			t.Errorf("%s: %v does not wrap its cause", test.name, err)
		}
		if !bytes.Equal(before, mustBytes(t, y)) {
			t.Errorf("%s: the output has changed", test.name)
		}
	}
}

// TestGatherIsHeldToPatterns refuses a gather that changes the payload of a NaN.
func TestGatherIsHeldToPatterns(t *testing.T) {
	q := newQueue(t, engine.WithLog(slog.New(slog.DiscardHandler)))
	out, index, weight := matrix(t, q, num.F16, 2, 3), indices(t, q, 0, 1), matrix(t, q, num.F16, 2, 3)
	quiet := lowering("quiet", func(d *def.Definition, l *engine.Launch) error {
		err := right(d, l)
		o := l.Arrays()[2]
		for r := range o.Rows {
			for c := range o.Cols {
				if num.IsNaN(o.DType, o.Bits(r, c)) {
					o.SetBits(r, c, o.Bits(r, c)|1)
				}
			}
		}
		return err
	})
	err := embedding.Forward(q, out, index, weight, engine.Using(quiet))
	if !errors.Is(err, engine.ErrInadmissible) {
		t.Errorf("got %v, want it inadmissible", err)
	}
}

// TestChoice takes the first admitted candidate of the table, warns of those
// before it, and takes a named one or none.
func TestChoice(t *testing.T) {
	var used atomic.Value
	record := func(name string, launch func(d *def.Definition, l *engine.Launch) error) *engine.Lowering {
		return lowering(name, func(d *def.Definition, l *engine.Launch) error {
			used.Store(name)
			return launch(d, l)
		})
	}
	wrong := record("cpu.wrong", func(*def.Definition, *engine.Launch) error { return nil })
	good := record("cpu.good", right)
	last := record("cpu.last", right)

	var log bytes.Buffer
	q := newQueue(t, engine.WithLog(slog.New(slog.NewTextHandler(&log, nil))))
	setLowerings(q, new(def.Expression), wrong, good, last)
	x, y := matrix(t, q, num.F16, 2, 3), matrix(t, q, num.F16, 2, 3)
	for range 2 {
		if err := softmax.Forward(q, y, x); err != nil || used.Load() != "cpu.good" {
			t.Errorf("automatic: used %v, error %v, want cpu.good", used.Load(), err)
		}
	}
	if n := strings.Count(log.String(), "softmax.forward/cpu.wrong"); n != 2 || strings.Count(log.String(), "level=WARN") != 1 {
		t.Errorf("want one warning that names the lowering and says why, got:\n%s", log.String())
	}
	for _, name := range []string{"cpu.last", "softmax.forward/cpu.last"} {
		if err := softmax.Forward(q, y, x, engine.WithLowering(name)); err != nil || used.Load() != "cpu.last" {
			t.Errorf("named %s: used %v, error %v", name, used.Load(), err)
		}
	}
	if err := softmax.Forward(q, y, x, engine.WithLowering("cpu.wrong")); !errors.Is(err, engine.ErrInadmissible) {
		t.Errorf("a bad lowering, named: got %v, want it inadmissible", err)
	}
	if err := softmax.Forward(q, y, x, engine.WithLowering("cpu.reference")); err != nil {
		t.Errorf("the reference, named: %v", err)
	}
	err := softmax.Forward(q, y, x, engine.WithLowering("cuda.rowwise"))
	wantRefusal(t, err, `softmax.forward: lowering "cuda.rowwise" is unknown on cpu, want cpu.wrong or cpu.good or cpu.last or cpu.reference`)

	// Untested, the first one is used whatever it does, and the verdicts of tested
	// calls do not change.
	if err := softmax.Forward(q, y, x, engine.WithAdmission(engine.Off)); err != nil || used.Load() != "cpu.wrong" {
		t.Errorf("untested: used %v, error %v, want cpu.wrong", used.Load(), err)
	}
	if err := softmax.Forward(q, y, x); err != nil || used.Load() != "cpu.good" {
		t.Errorf("tested again: used %v, error %v, want cpu.good", used.Load(), err)
	}

	setLowerings(q, new(def.Expression), wrong)
	if err := softmax.Forward(q, y, x); !errors.Is(err, engine.ErrInadmissible) {
		t.Errorf("nothing admissible: got %v", err)
	}
	setLowerings(q, new(def.Expression))
	if err := softmax.Forward(q, y, x); err == nil || err.Error() != "softmax.forward is inadmissible on cpu: policy fast leaves no lowering" {
		t.Errorf("nothing at all: got %v", err)
	}
}

// TestPolicies leaves out, under policy same, what does not have the bits of
// model fma.
func TestPolicies(t *testing.T) {
	core := lowering("cpu.core", func(d *def.Definition, l *engine.Launch) error {
		return reference.Run(d, l.Arrays(), reference.Options{Accum: def.Accum{L: 16, F: 25}})
	})
	core.Promise.Accum = def.Accum{L: 16, F: 25}
	bounded := lowering("cpu.bounded", right)
	bounded.Promise.Name = promise.Stable
	chain := lowering("cpu.chain", right)
	q := newQueue(t)
	setLowerings(q, new(def.Product), core, bounded, chain)
	a, b, c := matrix(t, q, num.F16, 2, 40), matrix(t, q, num.F16, 40, 3), matrix(t, q, num.F32, 2, 3)
	var o recorder
	for _, test := range []struct {
		name string
		opts []engine.CallOption
		want string
	}{
		{"fast", nil, "cpu.core"},
		{"same", []engine.CallOption{engine.WithPolicy(engine.Same)}, "cpu.chain"},
		{"fast, named", []engine.CallOption{engine.WithLowering("cpu.chain")}, "cpu.chain"},
		{"same, given", []engine.CallOption{engine.WithPolicy(engine.Same), engine.Using(chain)}, "cpu.chain"},
		{"rule", []engine.CallOption{engine.WithRule(def.MMA(16, 25))}, "cpu.core"},
		{"rule, named", []engine.CallOption{engine.WithRule(def.MMA(16, 25)), engine.WithLowering("cpu.core")}, "cpu.core"},
		{"rule fma", []engine.CallOption{engine.WithRule(def.FMAChain)}, "cpu.chain"},
		{"rule, then policy", []engine.CallOption{engine.WithRule(def.MMA(16, 25)), engine.WithPolicy(engine.Same)}, "cpu.chain"},
	} {
		if err := gemm.Forward(q, c, a, b, append(test.opts, engine.WithObserver(&o))...); err != nil || o.lowering() != test.want {
			t.Errorf("%s: used %s, error %v, want %s", test.name, o.lowering(), err, test.want)
		}
	}
	same := engine.WithPolicy(engine.Same)
	for _, opts := range [][]engine.CallOption{{same, engine.WithLowering("cpu.core")}, {same, engine.Using(core)}} {
		wantRefusal(t, gemm.Forward(q, c, a, b, opts...),
			"gemm.forward: lowering cpu.core adds by the rule mma(16,25), want the rule fma and the reference's bits under policy same")
	}
	for _, opts := range [][]engine.CallOption{{same, engine.WithLowering("cpu.bounded")}, {same, engine.Using(bounded)}} {
		wantRefusal(t, gemm.Forward(q, c, a, b, opts...),
			"gemm.forward: lowering cpu.bounded does not promise bits, want the rule fma and the reference's bits under policy same")
	}
	rule := engine.WithRule(def.MMA(16, 25))
	wantRefusal(t, gemm.Forward(q, c, a, b, rule, engine.WithLowering("cpu.chain")),
		"gemm.forward: lowering cpu.chain adds by the rule fma, want the rule mma(16,25) and the reference's bits under policy same")
	wantRefusal(t, gemm.Forward(q, c, a, b, engine.WithRule(def.MMA(0, 3))), "gemm.forward: rule mma(0,3) has steps of 0 products and 3 fractional bits, want 1 to 32 of each")
	wantRefusal(t, gemm.Forward(q, c, a, b, rule, engine.WithCaller(refused{})), "gemm.forward: rule is mma(16,25), want fma, where calls are computed elsewhere")
	if err := gemm.Forward(q, c, a, b, engine.WithRule(def.MMA(9, 9))); !errors.Is(err, engine.ErrInadmissible) || !strings.Contains(err.Error(), "nothing here computes the rule mma(9,9)") {
		t.Errorf("a rule that nothing computes: got %v", err)
	}
	cuda := *chain
	cuda.Device = "cuda"
	wantRefusal(t, gemm.Forward(q, c, a, b, engine.Using(&cuda)), "gemm.forward: lowering cpu.chain is for cuda, want cpu, the queue's device")

	// The model has no answer for f32: the next one is taken, and none if it is named.
	quiet := engine.WithLog(slog.New(slog.DiscardHandler))
	af, bf := matrix(t, q, num.F32, 2, 40), matrix(t, q, num.F32, 40, 3)
	if err := gemm.Forward(q, c, af, bf, quiet, engine.WithObserver(&o)); err != nil || o.lowering() != "cpu.bounded" {
		t.Errorf("f32: used %s, error %v, want cpu.bounded", o.lowering(), err)
	}
	if err := gemm.Forward(q, c, af, bf, rule, engine.WithObserver(&o)); err != nil || o.lowering() != "cpu.chain" {
		t.Errorf("f32 by a rule for 16 bits: used %s, error %v, want cpu.chain", o.lowering(), err)
	}
	if err := gemm.Forward(q, c, af, bf, quiet, engine.Using(core)); !errors.Is(err, engine.ErrInadmissible) ||
		!strings.Contains(err.Error(), "rule mma(16,25) takes f16, bf16, e4m3 or e5m2, got f32") {
		t.Errorf("f32, given: got %v", err)
	}

	setLowerings(q, new(def.Product), core)
	if err := gemm.Forward(q, c, a, b, same); err == nil || err.Error() != "gemm.forward is inadmissible on cpu: policy same leaves no lowering" {
		t.Errorf("nothing under same: got %v", err)
	}
}

func TestLowerings(t *testing.T) {
	for kind, want := range map[*def.Definition][]string{
		softmax.ForwardDefinition:   {"cpu.rowwise", "cpu.reference"},
		gemm.ForwardDefinition:      {"cpu.packed", "cpu.reference", "cpu.mma-16-25", "cpu.mma-8-24", "cpu.mma-4-23"},
		embedding.ForwardDefinition: {"cpu.gather", "cpu.reference"},
		embedding.BackwardDefinition: {
			"cpu.scatter", "cpu.reference"},
	} {
		var got []string
		for _, l := range engine.Lowerings(cpu.Backend, kind) {
			got = append(got, l.Name)
			if l.Device != "cpu" || l.ID(kind) != kind.Name+"/"+l.Name {
				t.Errorf("%s: %+v", kind.Name, l)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", kind.Name, got, want)
		}
	}
	for _, b := range []engine.Backend{cuda.Backend, sim.Backend} {
		if got := engine.Lowerings(b, softmax.ForwardDefinition); len(got) != 1 || got[0].Name != b.Kind()+".rowwise" {
			t.Errorf("%s: got %v, want its rowwise lowering", b.Kind(), got)
		}
	}
	first := engine.Lowerings(cpu.Backend, softmax.ForwardDefinition)
	first[0], first[1] = nil, nil
	if engine.Lowerings(cpu.Backend, softmax.ForwardDefinition)[1] == nil {
		t.Error("callers share a list that they can change")
	}
}

// TestConcurrentFirstCalls compiles once, however many calls wait for the plan.
func TestConcurrentFirstCalls(t *testing.T) {
	var compiled, launched atomic.Int32
	once := &engine.Lowering{
		Name: "cpu.once", Device: "cpu",
		Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
			compiled.Add(1)
			return engine.KernelFunc(func(l *engine.Launch) error {
				launched.Add(1)
				return right(d, l)
			}), nil
		},
	}
	q := newQueue(t)
	var all sync.WaitGroup
	for range 8 {
		x, y := matrix(t, q, num.F16, 2, 3), matrix(t, q, num.F16, 2, 3)
		all.Go(func() {
			if err := softmax.Forward(q, y, x, engine.Using(once)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := int(launched.Load()); compiled.Load() != 1 || n != 8+len(private.SelfTests(softmax.ForwardDefinition)) {
		t.Errorf("compiled %d times and launched %d times, want 1 and %d", compiled.Load(), n, 8+len(private.SelfTests(softmax.ForwardDefinition)))
	}
	if private.Plans(q) != 1 {
		t.Errorf("%d plans, want 1", private.Plans(q))
	}

	// What a plan depends on gives another one.
	x, y := matrix(t, q, num.F32, 2, 3), matrix(t, q, num.F32, 2, 3)
	for i, opts := range [][]engine.CallOption{{engine.Using(once)}, {engine.Using(once), engine.WithAdmission(engine.Off)}, nil} {
		for range 2 {
			if err := softmax.Forward(q, y, x, opts...); err != nil {
				t.Fatal(err)
			}
		}
		if private.Plans(q) != 2+i {
			t.Errorf("%d plans, want %d", private.Plans(q), 2+i)
		}
	}
	other := newQueue(t)
	if private.Plans(other) != 0 {
		t.Error("devices share plans")
	}
	second, err := engine.NewQueue(q.Device())
	if err != nil || private.Plans(second) != 4 {
		t.Errorf("queues of one device do not share plans: %d, %v", private.Plans(second), err)
	}
}

// wantRefusal wants an ArgumentError with that text.
func wantRefusal(t *testing.T, err error, want string) {
	t.Helper()
	if !errors.Is(err, tensor.ErrBadArgument) || err.Error() != want {
		t.Errorf("got %v (%T)\nwant %s", err, err, want)
	}
}

// refused is a Caller that must not be asked.
type refused struct{}

func (refused) Call(context.Context, []engine.RemoteCall) (int, error) { panic("a call arrived") }
func (refused) Reaches(device.Device) bool                             { return true }
