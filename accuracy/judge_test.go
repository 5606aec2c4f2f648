package accuracy

import (
	"math"
	"strings"
	"testing"

	"tokitai/num"
	"tokitai/op"
	"tokitai/op/softmax"
	"tokitai/truth"
)

func softmaxRun(t *testing.T, dtype num.DType) *Run {
	t.Helper()
	o := softmax.Operations[0]
	data := op.Data{Name: "small", Definition: softmax.ForwardDefinition, Sizes: map[string]int{"R": 3, "C": 5}}
	run, ok := NewRun(o, data, dtype)
	if !ok {
		t.Fatal("no run")
	}
	return run
}

// An answer that is off is refused: by its distance, or for being no number.
func TestJudge(t *testing.T) {
	for _, dtype := range num.FloatDTypes {
		run := softmaxRun(t, dtype)
		exact, err := run.Enclose(truth.Exact)
		if err != nil {
			t.Fatal(err)
		}
		rounded, err := run.Enclose(truth.Rounded)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := run.Answer()
		if err != nil {
			t.Fatal(err)
		}
		right := answer[1].Bits(1, 2)
		lo, hi := rounded.Between(1, 1, 2)
		for _, test := range []struct {
			name string
			bits uint32
			ok   bool
		}{
			{"the answer", right, true},
			{"the lowest admitted", lo, true},
			{"the highest admitted", hi, true},
			{"one below", num.NextDown(dtype, lo), false},
			{"one above", num.NextUp(dtype, hi), false},
			{"the negative", right ^ num.Narrow(dtype, -1) ^ num.Narrow(dtype, 1), false},
			{"NaN", num.Canonical(dtype, num.Narrow(dtype, float32(nan()))), false},
			{"zero", 0, false},
		} {
			answer[1].SetBits(1, 2, test.bits)
			row := Row{Output: "y"}
			err := row.measure(judge{operand: 1, y: answer[1], exact: exact, rounded: rounded})
			if (err == nil) != test.ok {
				t.Errorf("%v, %s: error %v", dtype, test.name, err)
			}
			if err != nil && !strings.Contains(err.Error(), "y[1,2]") {
				t.Errorf("%v, %s: the error does not name the element: %v", dtype, test.name, err)
			}
		}
	}
}

func nan() float64 { z := 0.0; return z / z }

// A closed form that is too small is refused, on either side.
func TestClosedFormIsHeld(t *testing.T) {
	run := softmaxRun(t, num.F32)
	exact, err := run.Enclose(truth.Exact)
	if err != nil {
		t.Fatal(err)
	}
	rounded, err := run.Enclose(truth.Rounded)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := run.Answer()
	if err != nil {
		t.Fatal(err)
	}
	form := *run.boundFor("y")
	at := form.At(run.call())
	for _, test := range []struct {
		factor    float64
		isTighter bool
		want      string
	}{{1, false, ""}, {0.5, false, "radius"}, {0.5, true, ""}, {0, true, "closed form"}} {
		form.IsTighter = test.isTighter
		row := Row{Output: "y"}
		err := row.measure(judge{
			operand: 1, y: answer[1], exact: exact, rounded: rounded, form: &form,
			bound: func(r, c int) float64 { return test.factor * at(r, c) },
		})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v times the bound: error %v, want %q", test.factor, err, test.want)
		}
	}
}

// A value that is admitted but not the nearest counts as misrounded.
func TestMisroundedIsCounted(t *testing.T) {
	run := softmaxRun(t, num.F32)
	exact, err := run.Enclose(truth.Exact)
	if err != nil {
		t.Fatal(err)
	}
	rounded, err := run.Enclose(truth.Rounded)
	if err != nil {
		t.Fatal(err)
	}
	correct, err := exact.Round(1)
	if err != nil {
		t.Fatal(err)
	}
	y := num.NewArray(num.F32, 3, 5)
	for i, bits := range correct.Bits {
		y.SetBits(i/5, i%5, bits)
	}
	count := func() Row {
		row := Row{Output: "y"}
		if err := row.measure(judge{operand: 1, y: y, exact: exact, rounded: rounded}); err != nil {
			t.Fatal(err)
		}
		return row
	}
	if row := count(); row.Misrounded != 0 || row.Measured.Worst > 0.5+0x1p-20 || row.Elements != 15 {
		t.Errorf("correctly rounded: %+v", row)
	}
	y.SetBits(2, 3, num.NextUp(num.F32, y.Bits(2, 3)))
	y.SetBits(0, 0, num.NextDown(num.F32, y.Bits(0, 0)))
	if row := count(); row.Misrounded != 2 || row.Measured.Worst <= 0.5 {
		t.Errorf("two off by one: %+v", row)
	}
}

// Which formats a run takes follows from the contract.
func TestRunFormats(t *testing.T) {
	for _, dtype := range num.FloatDTypes {
		run := softmaxRun(t, dtype)
		for i, a := range run.Operands {
			if a.DType != dtype {
				t.Errorf("operand %d is %v, want %v", i, a.DType, dtype)
			}
		}
		again := softmaxRun(t, dtype)
		if string(again.Operands[0].Data) != string(run.Operands[0].Data) {
			t.Error("the same names give other data")
		}
	}
}

func TestFigures(t *testing.T) {
	for _, test := range [][2]string{
		{figure(0.50049), "0.500"}, {figure(99.9994), "99.999"}, {figure(123.45), "123.5"}, {figure(1234567.8), "1,234,568"}, {figure(2.38e25), "2.38e+25"}, {figure(math.Inf(1)), "+Inf"},
		{share(0, 10), "0"}, {share(1, 3), "33.333 %"}, {thousands(12), "12"}, {thousands(123456), "123,456"}, {thousands(1000), "1,000"},
	} {
		if test[0] != test[1] {
			t.Errorf("got %s, want %s", test[0], test[1])
		}
	}
}
