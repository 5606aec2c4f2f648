package ondevice

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"tokitai/backend/cpu"
	backendgpu "tokitai/backend/gpu"
	"tokitai/backend/gputest"
	"tokitai/def"
	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/norm"
	"tokitai/op/softmax"
	"tokitai/reference"
	"tokitai/tensor"
)

// A large tensor repeats a pattern of rows. Their number is a prime, so that an offset
// that lost its upper bits leads to another row; every element is compared, and the
// reference computes the pattern alone.
var (
	patternRows = choose(61, 1021)
	patternCols = choose(135, 1031) // 16 bytes are 8 elements: one less
)

// beyond returns a number of rows with more than 2³² elements in all, or a small number in
// the simulator.
func beyond(cols int) int { return choose(3*patternRows/2, 1<<32/cols+patternRows) }

func newPattern(name string, d num.DType) num.Array {
	g, a := gen.New(name), num.NewArray(d, patternRows, patternCols)
	for r := range a.Rows {
		for c := range a.Cols {
			a.Set(r, c, g.Ordinary())
		}
	}
	return a
}

// needsMemory skips a test on a GPU that is too small for it.
func needsMemory(t *testing.T, dev *backendgpu.Device, bytes int64) {
	t.Helper()
	if limit := dev.Usage().LimitBytes; bytes > limit {
		t.Skipf("needs %d bytes of a GPU's memory, this one has %d", bytes, limit)
	}
}

// repeated returns a tensor that repeats the rows of a pattern, made on the device. The
// rows are stride elements apart, with zeros between them.
func repeated(t *testing.T, dev *backendgpu.Device, pattern num.Array, rows, stride int) *tensor.Tensor {
	t.Helper()
	size := pattern.DType.Size()
	x := got[*tensor.Tensor](t)(tensor.New(dev, pattern.DType, rows, stride))
	wide := num.NewArray(pattern.DType, min(pattern.Rows, rows), stride)
	for r := range wide.Rows {
		copy(wide.Data[r*stride*size:], pattern.Data[r*pattern.Cols*size:][:pattern.Cols*size])
	}
	b := x.Buffer().(*gpu.Buffer)
	must(t, b.CopyIn(0, wide.Data))
	q := got[*gpu.Queue](t)(dev.NewQueueWith(gpu.QueueOptions{}))
	for done, all := int64(len(wide.Data)), b.Bytes(); done < all; { // twice as much each time
		n := min(done, all-done)
		must(t, q.Copy(b, done, b, 0, n))
		done += n
	}
	must(t, q.Close())
	return x
}

// checkRepeated compares all rows of a tensor with a pattern, and what lies between
// them with 0.
func checkRepeated(t *testing.T, what string, x *tensor.Tensor, pattern num.Array, rowOf func(r int) int) {
	t.Helper()
	size := pattern.DType.Size()
	stride, width := x.Cols()*size, pattern.Cols*size
	const perRead = 1 << 12
	raw := make([]byte, perRead*stride)
	gap := make([]byte, stride-width)
	for first := 0; first < x.Rows(); first += perRead {
		n := min(perRead, x.Rows()-first)
		must(t, x.Buffer().CopyOut(int64(first)*int64(stride), raw[:n*stride]))
		for i := range n {
			row := raw[i*stride:][:stride]
			if want := pattern.Data[rowOf(first+i)*width:][:width]; !bytes.Equal(row[:width], want) || !bytes.Equal(row[width:], gap) {
				t.Fatalf("%s: row %d of %d is not row %d of the pattern, or what follows it has changed", what, first+i, x.Rows(), rowOf(first+i))
			}
		}
	}
}

func byPattern(r int) int { return r % patternRows }

// answerOf returns the reference's result for a pattern.
func answerOf(t *testing.T, d *def.Definition, pattern num.Array) num.Array {
	t.Helper()
	out := num.NewArray(pattern.DType, pattern.Rows, pattern.Cols)
	must(t, reference.Run(d, []num.Array{pattern, out}, reference.Options{}))
	return out
}

// timed logs how long the device took.
func timed(t *testing.T, q *engine.Queue, what string, run func() error) {
	t.Helper()
	must(t, q.Wait())
	start := time.Now()
	must(t, errors.Join(run(), q.Wait()))
	t.Logf("%s: %v", what, time.Since(start).Round(time.Millisecond))
}

// TestLargeElements: a flat definition over more than 2³² elements.
func TestLargeElements(t *testing.T) {
	dev := gputest.Needs(t)
	rows := beyond(patternCols)
	needsMemory(t, dev, int64(rows)*int64(patternCols)*4)
	q := newQueue(t, dev)
	pattern := newPattern("large elements", num.F16)
	x := repeated(t, dev, pattern, rows, patternCols)
	y := got[*tensor.Tensor](t)(tensor.New(dev, num.F16, rows, patternCols))
	must(t, gelu.Forward(q, y, x, engine.CheckOnly()))
	timed(t, q, fmt.Sprintf("gelu.forward of %d elements", x.Len()), func() error { return gelu.Forward(q, y, x) })
	checkRepeated(t, "y", y, answerOf(t, gelu.ForwardDefinition, pattern), byPattern)
	checkRepeated(t, "x", x, pattern, byPattern)
}

// TestLargeRows: rows of a view whose offsets go beyond 2³² elements, in both ways to
// access memory.
func TestLargeRows(t *testing.T) {
	dev := gputest.Needs(t)
	q := newQueue(t, dev)
	pattern := newPattern("large rows", num.F16)
	want := answerOf(t, softmax.ForwardDefinition, pattern)
	for _, stride := range []int{patternCols + 2, patternCols + 9} { // the second is a multiple of 16 bytes
		rows := beyond(stride)
		needsMemory(t, dev, int64(rows)*int64(stride)*4)
		x := repeated(t, dev, pattern, rows, stride)
		y := got[*tensor.Tensor](t)(tensor.New(dev, num.F16, rows, stride))
		xs := got[*tensor.Tensor](t)(x.Slice(0, rows, 0, patternCols))
		ys := got[*tensor.Tensor](t)(y.Slice(0, rows, 0, patternCols))
		must(t, softmax.Forward(q, ys, xs, engine.CheckOnly()))
		timed(t, q, fmt.Sprintf("softmax.forward of %d rows, stride %d", rows, stride), func() error { return softmax.Forward(q, ys, xs) })
		checkRepeated(t, "y", y, want, byPattern)
		must(t, errors.Join(x.Close(), y.Close()))
	}
}

// TestLargeTable: a table of more than 2³² elements is read and written by index, and
// the rows that are read fill more than that too.
func TestLargeTable(t *testing.T) {
	dev := gputest.Needs(t)
	rows := beyond(patternCols)
	needsMemory(t, dev, int64(rows)*int64(patternCols)*4)
	q := newQueue(t, dev)
	pattern := newPattern("large table", num.F16)
	weight := repeated(t, dev, pattern, rows, patternCols)
	g := gen.New("large table indices")
	index := make([]int32, rows)
	for i := range index {
		index[i] = int32(g.Below(rows))
	}
	index[0], index[1], index[len(index)-1] = int32(rows-1), 0, int32(rows-2)
	ix := got[*tensor.Tensor](t)(tensor.FromInt32(dev, index, rows))
	out := got[*tensor.Tensor](t)(tensor.New(dev, num.F16, rows, patternCols))
	must(t, embedding.Forward(q, out, ix, weight, engine.CheckOnly()))
	timed(t, q, fmt.Sprintf("embedding.forward of %d rows from a table of %d elements", rows, weight.Len()),
		func() error { return embedding.Forward(q, out, ix, weight) })
	checkRepeated(t, "out", out, pattern, func(r int) int { return int(index[r]) % patternRows })
	must(t, weight.Close())

	// A permutation scatters every row to one place: its own value is the sum.
	order := make([]int, rows)
	for i := range order {
		order[i] = i
	}
	for i := range order {
		k := i + g.Below(rows-i)
		order[i], order[k] = order[k], order[i]
	}
	source := make([]int, rows) // of each row of the table
	for i, at := range order {
		index[i] = int32(at)
		source[at] = i
	}
	must(t, errors.Join(out.Close(), ix.SetInt32s(index)))
	dout := repeated(t, dev, pattern, rows, patternCols)
	dweight := got[*tensor.Tensor](t)(tensor.New(dev, num.F16, rows, patternCols))
	must(t, embedding.Backward(q, dweight, ix, dout, engine.CheckOnly()))
	timed(t, q, fmt.Sprintf("embedding.backward of %d rows", rows), func() error { return embedding.Backward(q, dweight, ix, dout) })
	checkRepeated(t, "dweight", dweight, pattern, func(r int) int { return source[r] % patternRows })
}

// TestLargeProduct multiplies matrices whose rows lie far apart.
func TestLargeProduct(t *testing.T) {
	testlevel.Need(t, testlevel.Quick, "it compiles kernels of its own")
	dev := gputest.Needs(t)
	q := newQueue(t, dev)
	const m, n, k = 70, 136, 72 // rows of whole multiples of 16 bytes, for tensor maps
	stride := choose(512, 1<<26)
	needsMemory(t, dev, int64(m+k+m)*int64(stride)*2)
	i := slices.IndexFunc(inF16(), func(s shipped) bool { return s.d == gemm.ForwardDefinition })
	s := inF16()[i]
	c := got[*call](t)(s.newCall(map[string]int{"M": m, "N": n, "K": k}))
	var wholes []*tensor.Tensor
	for _, a := range c.operands {
		wholes = append(wholes, got[*tensor.Tensor](t)(tensor.New(dev, a.DType, a.Rows, stride)))
	}
	defer closeAll(wholes)
	accum := got[def.Accum](t)(modelOn(q, s))
	must(t, reference.Run(s.d, c.operands, reference.Options{Accum: accum}))
	for _, lead := range []int{8, 9} { // elements; a multiple of 16 bytes, and none
		var views []*tensor.Tensor
		for i, a := range c.operands {
			at := (stride-a.Cols)/8*8 - lead // near the end of each row
			views = append(views, got[*tensor.Tensor](t)(wholes[i].Slice(0, a.Rows, at, at+a.Cols)))
			if s.d.Operands[i].IsIn {
				must(t, views[i].SetBytes(a.Data))
			}
		}
		timed(t, q, fmt.Sprintf("%v of matrices with a row stride of %d", s, stride), func() error { return engine.Call(q, s.d, views, nil) })
		result := got[[]byte](t)(views[2].Bytes())
		if !bytes.Equal(result, c.operands[2].Data) {
			t.Errorf("%v: the result is not the reference's", s)
		}
	}
}

// TestLargeSum adds more than 2³² squares, as the CPU does.
func TestLargeSum(t *testing.T) {
	dev := gputest.Needs(t)
	rows := beyond(patternCols)
	needsMemory(t, dev, int64(rows)*int64(patternCols)*2)
	q := newQueue(t, dev)
	pattern := newPattern("large sum", num.F16)
	x := repeated(t, dev, pattern, rows, patternCols)
	total := got[*tensor.Tensor](t)(tensor.New(dev, num.F32, 1))
	must(t, norm.SquareSum(q, total, []*tensor.Tensor{x}, engine.CheckOnly()))
	timed(t, q, fmt.Sprintf("norm.square_sum of %d elements", x.Len()), func() error { return norm.SquareSum(q, total, []*tensor.Tensor{x}) })

	host := cpu.Queue()
	onHost := got[*tensor.Tensor](t)(tensor.New(host.Device(), num.F16, rows, patternCols))
	defer onHost.Close()
	memory := onHost.Buffer().(device.HostBuffer).Memory()
	for done := copy(memory, pattern.Data); done < len(memory); {
		done += copy(memory[done:], memory[:done])
	}
	want := got[*tensor.Tensor](t)(tensor.New(host.Device(), num.F32, 1))
	must(t, norm.SquareSum(host, want, []*tensor.Tensor{onHost}))
	a, b := got[[]byte](t)(total.Bytes()), got[[]byte](t)(want.Bytes())
	if !bytes.Equal(a, b) {
		t.Errorf("the sum is %x, on the CPU %x", a, b)
	}
}
