package tokitai_test

import (
	"errors"
	"fmt"
	"log"
	"testing"

	"tokitai"
	"tokitai/device"
	"tokitai/op/softmax"
)

func Example() {
	q, err := tokitai.Open("cpu") // or auto, for the best device there is
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	x, err := tokitai.FromFloat32(q, tokitai.F16, []float32{1, 2, 3, 4}, 1, 4)
	if err != nil {
		log.Fatal(err)
	}
	if err := softmax.Forward(q, x, x); err != nil {
		log.Fatal(err)
	}
	p, err := x.Float32s()
	fmt.Println(p, err)
	// Output: [0.032043457 0.0871582 0.23693848 0.64404297] <nil>
}

func ExampleEval() {
	double, err := tokitai.Parse(`tokitai-def 1
rowwise double
  in  x[R,C]
  out y[R,C] as x
  y <- 2 * x
`)
	if err != nil {
		log.Fatal(err)
	}
	q := tokitai.CPU()
	x, err := tokitai.FromFloat32(q, tokitai.F32, []float32{1, 2, 3}, 1, 3)
	if err != nil {
		log.Fatal(err)
	}
	out, err := tokitai.Eval(q, double, tokitai.Args{"x": x})
	if err != nil {
		log.Fatal(err)
	}
	y, err := out["y"].Float32s()
	fmt.Println(y, err)
	// Output: [2 4 6] <nil>
}

func TestOpen(t *testing.T) {
	q, err := tokitai.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	x, err := tokitai.New(q, tokitai.BF16, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Device().NewQueue(); !errors.Is(err, device.ErrClosed) {
		t.Errorf("the device of a closed queue: got %v, want %v", err, device.ErrClosed)
	}
	if !x.Buffer().Closed() {
		t.Error("a tensor outlives its device")
	}
	if q, err := tokitai.Open("abacus"); q != nil || !errors.Is(err, device.ErrNoDevice) {
		t.Errorf("Open(abacus) = %v, %v", q, err)
	}
}

func TestParse(t *testing.T) {
	d, err := tokitai.Parse("tokitai-def 1\nrowwise decay\n  in x[R,C]\n  out y[R,C] as x\n  y <- exp(-x)\n")
	if err != nil || d.Name != "decay" {
		t.Errorf("got %v, %v, want decay, which uses a function of package fn", d, err)
	}
	if _, err := tokitai.Parse("tokitai-def 2"); err == nil {
		t.Error("another version of the language is accepted")
	}
}
