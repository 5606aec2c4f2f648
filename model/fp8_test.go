package model_test

import (
	"bytes"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/internal/tool"
	"tokitai/model"
	"tokitai/model/huggingface"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/tensor"
	"tokitai/tensor/safetensors"
)

// TestFP8Linear compares linear layers in FP8 with what a script has computed by itself in Python, bit for bit: rows
// with a scale each, with one of the file, and with one for each block of 128 columns. Neither the rows nor the columns
// of all weights are multiples of 128; rows are all zeros, have subnormal scales, or lie beyond a static scale.
func TestFP8Linear(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "folders")
	if text, err := exec.Command(tool.Need(t, "python3"), "huggingface/testdata/fp8.py", out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	layers := 0
	for _, name := range []string{"tensor", "static", "channel", "blocks", "compressed"} {
		f, err := huggingface.Open(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		w, err := f.Load(cpu.Queue().Device())
		if err != nil {
			t.Fatal(err)
		}
		trace, err := safetensors.ReadFile(filepath.Join(out, name+".trace"))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range trace.Entries {
			layer, isInput := strings.CutSuffix(x.Name, ".x")
			if !isInput {
				continue
			}
			layers++
			y, _ := trace.Entry(layer + ".y")
			rows, in, out := x.Shape[0], x.Shape[1], y.Shape[1]
			for _, format := range []num.DType{num.BF16, num.F32} {
				x, want, c := stored(format, x), stored(format, y), f.Config
				c.Storage = format.String()
				p, err := model.FP8Linear(c, layer, rows, in, out)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if got := run(t, p, w.Tensors, x, layer+".y"); !bytes.Equal(got, want.Data) {
					t.Errorf("%s: %s in %s is\n%x, want\n%x", name, layer, format, got, want.Data)
				}
				// A row alone has the same bits.
				if p, err = model.FP8Linear(c, layer, 1, in, out); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				size := format.Size()
				last := safetensors.Entry{DType: format, Shape: []int{1, in}, Data: x.Data[len(x.Data)-size*in:]}
				if got := run(t, p, w.Tensors, last, layer+".y"); !bytes.Equal(got, want.Data[len(want.Data)-size*out:]) {
					t.Errorf("%s: the last row of %s in %s is another one alone", name, layer, format)
				}
			}
		}
		w.Close()
		f.Close()
	}
	if layers < 10 {
		t.Errorf("%d layers were compared, want 10", layers)
	}
}

// stored returns values in another format, each rounded once.
func stored(format num.DType, e safetensors.Entry) safetensors.Entry {
	n := len(e.Data) / e.DType.Size()
	from, to := num.Array{DType: e.DType, Rows: 1, Cols: n, Stride: n, Data: e.Data}, num.NewArray(format, 1, n)
	for i := range n {
		to.Set(0, i, from.At(0, i))
	}
	e.DType, e.Data = format, to.Data
	return e
}

// run computes a program of an input x.
func run(t *testing.T, p *model.Program, weights map[string]*tensor.Tensor, x safetensors.Entry, result string) []byte {
	t.Helper()
	q := cpu.Queue()
	input, err := tensor.FromBytes(q.Device(), x.DType, x.Data, x.Shape...)
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	given := map[string]*tensor.Tensor{"x": input}
	for _, v := range p.Of(model.Fixed) {
		given[v.Name] = weights[v.Name]
	}
	in, err := model.NewInstance(q, p, given)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Run(q, nil); err != nil {
		t.Fatal(err)
	}
	raw, err := in.Tensor(result).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(raw)
}

// TestQuantize has the rows that no ordinary number is in, and hand-worked ones.
func TestQuantize(t *testing.T) {
	t.Parallel()
	type row struct {
		x     []float32
		scale float32
		q     []float32
	}
	const tiny = 0x1p-149
	nanOf, infinity := num.Widen(num.F32, 0x7fc00000), num.Widen(num.F32, 0x7f800000)
	rows := []row{
		{[]float32{0, num.Widen(num.F32, 1<<31), 0}, 0, []float32{0, num.Widen(num.F32, 1<<31), 0}},
		{[]float32{448, -448, 1}, 1, []float32{448, -448, 1}},
		{[]float32{896, 17, -0x1p-8}, 2, []float32{448, 8, -0x1p-9}}, // 8.5 lies between 8 and 9: even is 8
		{[]float32{224, 1, 0}, 0.5, []float32{224 / 0.5, 2, 0}},
		{[]float32{nanOf, 1, 2}, nanOf, []float32{nanOf, nanOf, nanOf}},
		{[]float32{infinity, 1, -2}, infinity, []float32{nanOf, 0, num.Widen(num.F32, 1<<31)}},
		{[]float32{600 * tiny, tiny, -600 * tiny}, tiny, []float32{448, 1, -448}}, // the scale is rounded down by a quarter
		{[]float32{224 * tiny, tiny, 0}, 0, []float32{0, 0, 0}},                   // half of the least scale is zero, and so are the values
		{[]float32{num.Widen(num.F32, 0x7f7fffff), 1, 0}, math.MaxFloat32 / 448, []float32{448, 0, 0}},
	}
	for i, r := range rows {
		x := num.ArrayOf(num.F32, 1, 3, r.x...)
		for _, by := range []string{"interpreter", "device"} {
			q, scale := num.NewArray(num.E4M3, 1, 3), num.NewArray(num.F32, 1, 1)
			if by == "interpreter" {
				if err := reference.Run(model.Quantize, []num.Array{x, q, scale}, reference.Options{}); err != nil {
					t.Fatal(err)
				}
			} else {
				in, err := tensor.FromFloat32(cpu.Queue().Device(), num.F32, r.x, 1, 3)
				if err != nil {
					t.Fatal(err)
				}
				out, err := engine.Eval(cpu.Queue(), model.Quantize, engine.Args{"x": in}, nil)
				if err != nil {
					t.Fatal(err)
				}
				q.Data, _ = out["q"].Bytes()
				scale.Data, _ = out["scale"].Bytes()
			}
			same := func(d num.DType, got uint32, want float32) bool {
				return num.Canonical(d, got) == num.Canonical(d, num.Narrow(d, want))
			}
			if !same(num.F32, uint32(scale.Bits(0, 0)), r.scale) {
				t.Errorf("row %d by the %s: the scale is %v, want %v", i, by, scale.At(0, 0), r.scale)
			}
			for c, want := range r.q {
				if !same(num.E4M3, uint32(q.Bits(0, c)), want) {
					t.Errorf("row %d by the %s: q[%d] is %v, want %v", i, by, c, q.At(0, c), want)
				}
			}
		}
	}
}
