package optest

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// recorder is a test whose failures are kept.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}
func (r *recorder) Helper()      {}
func (r *recorder) Failed() bool { return len(r.failures) > 0 }

var sizes = map[string]int{"R": 3, "C": 5}

var shifted = def.Must(def.Rowwise("test.shift", func(b *def.Builder) {
	x := b.In("x")
	by := b.InRow("by", def.Only(num.F32))
	b.Out("y", x.Add(by), def.Like("x"))
	b.OutRow("sum", def.RowSum(x), def.Only(num.F32))
	b.Formula("y = x + by")
	b.Clauses("R, C >= 1", "NaN gives NaN")
}))

func honest(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, shifted, x, nil, opts...)
}

func TestAcceptsHonestCalls(t *testing.T) {
	s := Subject{Definition: shifted, Call: honest}
	MatchReference(t, s, sizes, map[string]int{"R": 1, "C": 300})
	Errors(t, s, sizes)
}

// set changes one element of a contiguous tensor.
func set(x *tensor.Tensor, i int, bits uint32) {
	a, _ := x.Array()
	a.SetBits(i/a.Cols, i%a.Cols, bits)
}

func TestMatchReferenceFindsMutants(t *testing.T) {
	for name, damage := range map[string]func(x []*tensor.Tensor){
		"last element":  func(x []*tensor.Tensor) { set(x[2], x[2].Len()-1, 0x1234) },
		"sign of zero":  func(x []*tensor.Tensor) { flipZero(x[2]) },
		"an input":      func(x []*tensor.Tensor) { set(x[0], 0, 0x1234) },
		"row output":    func(x []*tensor.Tensor) { set(x[3], 1, 0x1234) },
		"behind a row":  func(x []*tensor.Tensor) { beyond(x[2], 1) },
		"before a row":  func(x []*tensor.Tensor) { beyond(x[2], -1) },
		"NaN to number": func(x []*tensor.Tensor) { replaceNaN(x[2]) },
	} {
		r := &recorder{TB: t}
		MatchReference(r, Subject{Definition: shifted, Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			err := honest(q, x, opts...)
			damage(x)
			return err
		}}, map[string]int{"R": 40, "C": 9})
		if !r.Failed() {
			t.Errorf("damage to %s was not found", name)
		}
	}
}

func flipZero(x *tensor.Tensor) {
	a, _ := x.Array()
	for r := range a.Rows {
		for c := range a.Cols {
			if a.At(r, c) == 0 {
				a.SetBits(r, c, a.Bits(r, c)^num.Narrow(a.DType, -1)^num.Narrow(a.DType, 1))
			}
		}
	}
}

func replaceNaN(x *tensor.Tensor) {
	a, _ := x.Array()
	for r := range a.Rows {
		for c := range a.Cols {
			if num.IsNaN(a.DType, a.Bits(r, c)) {
				a.SetBits(r, c, 0)
			}
		}
	}
}

// beyond writes an element behind the tensor, or in front of it.
func beyond(x *tensor.Tensor, side int64) {
	at := x.Offset() - int64(x.DType().Size())
	if side > 0 {
		at = x.Offset() + int64(((x.Rows()-1)*x.RowStride()+x.Cols())*x.DType().Size())
	}
	x.Buffer().CopyIn(at, []byte{1})
}

func TestErrorsFindsMutants(t *testing.T) {
	for name, call := range map[string]func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error{
		"accepts everything": func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			honest(q, x, opts...)
			return nil
		},
		"untyped error": func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			if err := honest(q, x, opts...); err != nil {
				return errors.New(err.Error())
			}
			return nil
		},
		"other operand": func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			err := honest(q, x, opts...)
			if bad := (*device.ArgumentError)(nil); errors.As(err, &bad) {
				bad.Operand = "call"
			}
			return err
		},
		"no want": func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			err := honest(q, x, opts...)
			if bad := (*device.ArgumentError)(nil); errors.As(err, &bad) {
				bad.Want = ""
			}
			return err
		},
		"writes first": func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			err := honest(q, x, opts...)
			if err != nil && tensor.Check("", "", x[3]) == nil {
				x[3].Buffer().CopyIn(x[3].Offset(), []byte{1})
			}
			return err
		},
	} {
		r := &recorder{TB: t}
		Errors(r, Subject{Definition: shifted, Call: call}, sizes)
		if !r.Failed() {
			t.Errorf("a call that %q was not found", name)
		}
	}
}

func TestErrorsCoverEveryOperand(t *testing.T) {
	r := &recorder{TB: t}
	Errors(r, Subject{Definition: shifted, Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
		honest(q, x, opts...)
		return nil
	}}, sizes)
	for _, mistake := range []string{
		"nil x", "closed by", "empty y", "x in i32", "by in f16", "y in f32", "sum in bf16",
		"x with C one larger", "x with R one larger", "by with R one larger", "y with C one larger", "sum with R one larger",
		"x as a vector", "y as a vector", "y on another device", "by on another device",
		"y partly on x", "sum partly on by", "sum being by",
	} {
		if !slices.ContainsFunc(r.failures, func(f string) bool { return strings.Contains(f, ": "+mistake+":") }) {
			t.Errorf("no row %q in the table", mistake)
		}
	}
}

func TestShapesFindsMutants(t *testing.T) {
	even := map[string]int{"R": 4, "C": 5}
	Shapes(t, Subject{Definition: shifted, Call: honest}, even)
	r := &recorder{TB: t}
	Shapes(r, Subject{Definition: shifted, Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
		err := honest(q, x, opts...)
		if x[0].Rank() > 2 {
			set(x[2], 0, 0x1234)
		}
		return err
	}}, even)
	if !r.Failed() {
		t.Error("another result for another shape was not found")
	}
}

func TestClauseTests(t *testing.T) {
	names, problems := clauseTests(shifted.Contract(), []string{"C1_sizes", "C2_inf", "C2_nan"})
	if !slices.Equal(names, []string{"C1_sizes", "C2_inf", "C2_nan"}) || len(problems) > 0 {
		t.Errorf("got %v, problems %v", names, problems)
	}
	for _, tests := range [][]string{{"C1_sizes"}, {"C1_sizes", "C2_"}, {"C1_sizes", "C2_nan", "C3_more"}, {"C1_sizes", "C2_nan", "C22_x"}} {
		if _, problems := clauseTests(shifted.Contract(), tests); len(problems) == 0 {
			t.Errorf("tests %v were accepted", tests)
		}
	}
}

func TestDoc(t *testing.T) {
	file := filepath.Join(t.TempDir(), "doc.go")
	text := "// Package shift shifts.\n//\n// # test.shift\n//\n" + strings.Join(comment(shifted.Contract().Table()), "\n") + "\n//\n// More.\npackage shift\n"
	write := func(s string) { OK(t, os.WriteFile(file, []byte(s), 0o644)) }
	write(text)
	Doc(t, file, shifted)
	for old, replacement := range map[string]string{
		"NaN gives NaN": "NaN gives 0",
		"# test.shift":  "# test.shaft",
		"More.":         "# test.more",
		"//\tC1":        "//\tC0 nothing\n//\tC1",
		"y = x + by":    "",
	} {
		write(strings.Replace(text, old, replacement, 1))
		r := &recorder{TB: t}
		if Doc(r, file, shifted); !r.Failed() {
			t.Errorf("%q instead of %q was not found", replacement, old)
		}
	}

	*update = true
	defer func() { *update = false }()
	block := "//\n" + strings.Join(comment(shifted.Contract().Table()), "\n") + "\n"
	for _, old := range []string{
		strings.Replace(text, "NaN gives NaN", "NaN gives 0", 1),
		strings.Replace(text, block, "", 1),
	} {
		write(old)
		Doc(t, file, shifted)
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("update gives %v\n%s\nwant\n%s", err, got, text)
		}
	}
}

func TestWantAndRefused(t *testing.T) {
	x := Vector(t, num.F16, 1, 2)
	nan := Patterns(t, num.F16, 0x7e01)
	Want(t, "x", x, 1, 2)
	WantBits(t, "nan", nan, 0xfe00)
	refusal := &device.ArgumentError{Op: "test.shift", Operand: "x", Clause: "test.shift.C1", Got: "is nil"}
	Refused(t, fmt.Errorf("deeper: %w", refusal), "test.shift", "x", "test.shift.C1")
	for name, mistake := range map[string]func(t testing.TB){
		"value":       func(t testing.TB) { Want(t, "x", x, 1, 2.001953125) },
		"length":      func(t testing.TB) { Want(t, "x", x, 1) },
		"zero's sign": func(t testing.TB) { Want(t, "zero", Vector(t, num.F32, 0), float32(math.Copysign(0, -1))) },
		"bits":        func(t testing.TB) { SameBits(t, "x", x, Vector(t, num.F16, 1, 3)) },
		"operand":     func(t testing.TB) { Refused(t, refusal, "test.shift", "y", "test.shift.C1") },
		"clause":      func(t testing.TB) { Refused(t, refusal, "test.shift", "x", "") },
		"no error":    func(t testing.TB) { Refused(t, nil, "test.shift", "x", "") },
	} {
		r := &recorder{TB: t}
		if mistake(r); !r.Failed() {
			t.Errorf("a wrong %s was not found", name)
		}
	}
}

func TestMessageFindsMutants(t *testing.T) {
	bad := &device.ArgumentError{Op: "test.shift", Operand: "x", Got: "is nil"}
	for name, c := range map[string]struct {
		err      error
		failures int
	}{
		"the text":            {bad, 0},
		"wrapped":             {fmt.Errorf("tensor 1: %w", bad), 1},
		"no error":            {nil, 1},
		"the text of another": {errors.New(bad.Error()), 1},
	} {
		r := &recorder{TB: t}
		Message(r, c.err, "test.shift: x is nil")
		if len(r.failures) != c.failures {
			t.Errorf("%s: %d failures %q, want %d", name, len(r.failures), r.failures, c.failures)
		}
	}
}
