package model_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
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

// fp8Folders has fp8.py write its folders, which also says what layers of them compute. It is written in Python and
// knows nothing of this project.
func fp8Folders(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "folders")
	if text, err := exec.Command(tool.Need(t, "python3"), "huggingface/testdata/fp8.py", out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// openFP8 opens a folder, with what its layers compute.
func openFP8(t *testing.T, path string) (*huggingface.Folder, *huggingface.Weights, *safetensors.File) {
	t.Helper()
	f, err := huggingface.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	w, err := f.Load(cpu.Queue().Device())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	trace, err := safetensors.ReadFile(path + ".trace")
	if err != nil {
		t.Fatal(err)
	}
	return f, w, trace
}

// TestFP8Linear compares linear layers in FP8 with what a script has computed by itself in Python, bit for bit: rows
// with a scale each, with one of the file, and with one for each block of 128 columns. Neither the rows nor the columns
// of all weights are multiples of 128; rows are all zeros, have subnormal scales, or lie beyond a static scale.
func TestFP8Linear(t *testing.T) {
	t.Parallel()
	out := fp8Folders(t)
	layers := 0
	for _, name := range []string{"tensor", "static", "transformers", "channel", "blocks", "compressed"} {
		f, w, trace := openFP8(t, filepath.Join(out, name))
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
				if got := run(t, p, w.Tensors, layer+".y", map[string]safetensors.Entry{"x": x}); !bytes.Equal(got, want.Data) {
					t.Errorf("%s: %s in %s is\n%x, want\n%x", name, layer, format, got, want.Data)
				}
				// A row alone has the same bits.
				if p, err = model.FP8Linear(c, layer, 1, in, out); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				size := format.Size()
				last := safetensors.Entry{DType: format, Shape: []int{1, in}, Data: x.Data[len(x.Data)-size*in:]}
				if got := run(t, p, w.Tensors, layer+".y", map[string]safetensors.Entry{"x": last}); !bytes.Equal(got, want.Data[len(want.Data)-size*out:]) {
					t.Errorf("%s: the last row of %s in %s is another one alone", name, layer, format)
				}
			}
		}
	}
	if layers < 10 {
		t.Errorf("%d layers were compared, want 10", layers)
	}
}

// TestFP8Experts does so for the projections of experts, whose rows are sorted: of each expert as many as there are,
// none, or one.
func TestFP8Experts(t *testing.T) {
	t.Parallel()
	out := fp8Folders(t)
	for _, name := range []string{"experts_tensor", "experts_static", "experts_channel", "experts_blocks"} {
		f, w, trace := openFP8(t, filepath.Join(out, name))
		experts := f.Config.Mixture.Experts
		for _, layer := range []string{"gate_proj", "down_proj"} {
			const prefix = "model.layers.0.mlp.experts."
			for _, format := range []num.DType{num.BF16, num.F32} {
				for _, most := range [][]int{{9, 9, 9}, {0, 9, 0}, {1, 0, 9}} {
					var x, want safetensors.Entry
					offsets := make([]byte, 4*(experts+1))
					rows := 0
					for e := range experts {
						one, _ := trace.Entry(fmt.Sprintf("%s%d.%s.x", prefix, e, layer))
						result, ok := trace.Entry(fmt.Sprintf("%s%d.%s.y", prefix, e, layer))
						if !ok {
							t.Fatalf("%s: the script computed nothing of %s of expert %d", name, layer, e)
						}
						n := min(most[e], one.Shape[0])
						rows += n
						binary.LittleEndian.PutUint32(offsets[4*(e+1):], uint32(rows))
						x, want = appended(x, stored(format, one), n), appended(want, stored(format, result), n)
					}
					c := f.Config
					c.Storage = format.String()
					p, err := model.FP8Grouped(c, prefix+layer, rows, x.Shape[1], want.Shape[1])
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					index := safetensors.Entry{DType: num.I32, Shape: []int{experts + 1}, Data: offsets}
					got := run(t, p, w.Tensors, prefix+layer+".y", map[string]safetensors.Entry{"x": x, "offsets": index})
					if !bytes.Equal(got, want.Data) {
						t.Errorf("%s: %s in %s with at most %v rows is\n%x, want\n%x", name, layer, format, most, got, want.Data)
					}
				}
			}
		}
	}
}

// appended returns the rows of a and the first rows of b.
func appended(a, b safetensors.Entry, rows int) safetensors.Entry {
	before := 0
	if a.Shape != nil {
		before = a.Shape[0]
	}
	return safetensors.Entry{DType: b.DType, Shape: []int{before + rows, b.Shape[1]}, Data: append(slices.Clip(a.Data), b.Data[:rows*b.Shape[1]*b.DType.Size()]...)}
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

// run computes a program of inputs.
func run(t *testing.T, p *model.Program, weights map[string]*tensor.Tensor, result string, inputs map[string]safetensors.Entry) []byte {
	t.Helper()
	q := cpu.Queue()
	given := map[string]*tensor.Tensor{}
	for name, x := range inputs {
		input, err := tensor.FromBytes(q.Device(), x.DType, x.Data, x.Shape...)
		if err != nil {
			t.Fatal(err)
		}
		defer input.Close()
		given[name] = input
	}
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
		// The quotient in binary32 lies halfway between two values, and rounds to the even one: x / scale lies on the other side.
		{[]float32{129, 129 * 0x1p-16, 0}, 129. / 448, []float32{448, 0x1.8p-8, 0}},
		{[]float32{130, 195 * 0x1p-15, -195 * 0x1p-11}, 130. / 448, []float32{448, 0x1.6p-6, -0x1.6p-2}},
		{[]float32{0x1.bffd32p-118, 0x1.3ffep-134, 0}, 8388403 * tiny, []float32{448, 3 * 0x1p-9, 0}},
		{[]float32{0x1.bffebap-118, 0x1.5fffp-133, 0}, 8388515 * tiny, []float32{448, 5 * 0x1p-9, 0}},
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
