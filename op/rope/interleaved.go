package rope

import (
	"fmt"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// turnNeighbours turns the pairs of neighbours of x by the angles of their positions, or back. With a and b
// the first and the second of a pair, and w the cosine in the column of a and the sine in that of b,
// each element is fma(a, w, b*partner(w)), where the first column of a turn has -b, and the second of
// one back -a.
func turnNeighbours(b *def.Builder, x def.Value, isBack bool) def.Value {
	w := b.InTable("wave", "P", def.Only(num.F32)).At(b.InIndexOf("position", "P")).As("w")
	isFirst := b.Col().IAnd(def.IntConst(1)).Equal(def.IntConst(0))
	other := x.Partner()
	first, second := def.Select(isFirst, x, other), def.Select(isFirst, other.Neg(), x)
	if isBack {
		first, second = def.Select(isFirst, x, other.Neg()), def.Select(isFirst, other, x)
	}
	return def.FMA(first, w, second.Mul(w.Partner()))
}

const (
	neighboursClause = "R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided; position has one value for each row, and the last of an odd number of columns is turned with +0"
	wavePosition     = "a position below 0 or from P on is refused before anything is written; where bad indices are skipped, c and s of its row are +0"
	ownMemory        = " has memory of its own: every element reads its partner too, and any overlap is refused"
)

// InterleavedForwardDefinition turns pairs of neighbours, as GPT-J does.
var InterleavedForwardDefinition = def.Must(def.Rowwise("rope.interleaved.forward", func(b *def.Builder) {
	b.Out("y", turnNeighbours(b, b.In("x"), false), def.Like("x"))

	b.Formula(
		"y[r,2i] = x[r,2i]*c - x[r,2i+1]*s,  c = wave[position[r],2i],  s = wave[position[r],2i+1]",
		"y[r,2i+1] = x[r,2i]*s + x[r,2i+1]*c",
	)
	b.Clauses(
		neighboursClause,
		wavePosition,
		"wave is used as given: c and s need not belong to an angle; a NaN or an infinity in them counts as one in the products that it is part of",
		"a NaN in x gives NaN in both results of its pair",
		"an infinity in x makes each result of its pair infinite, or NaN: where c or s is zero, or where infinities of opposite signs meet",
		"the results are those of rope.forward with the even columns as x1 and the odd ones as x2, bit for bit",
		"subnormals are kept, and a result too large for its format is infinite",
		"y"+ownMemory,
	)
}))

// InterleavedBackwardDefinition turns the gradients of the results back.
var InterleavedBackwardDefinition = def.Must(def.Rowwise("rope.interleaved.backward", func(b *def.Builder) {
	b.Out("dx", turnNeighbours(b, b.In("dy"), true), def.Like("dy"))

	b.Formula(
		"dx[r,2i] = dy[r,2i]*c + dy[r,2i+1]*s,  c = wave[position[r],2i],  s = wave[position[r],2i+1]",
		"dx[r,2i+1] = dy[r,2i+1]*c - dy[r,2i]*s",
	)
	b.Clauses(
		"the results are those of rope.interleaved.forward with -s in the place of s, bit for bit",
		neighboursClause,
		wavePosition,
		"dx"+ownMemory,
	)
}))

// InterleavedForward computes y, which has memory of its own.
func InterleavedForward(q *engine.Queue, y, x, position, wave *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, InterleavedForwardDefinition, []*tensor.Tensor{x, wave, position, y}, nil, opts...)
}

// InterleavedBackward computes the gradient of x from that of y.
func InterleavedBackward(q *engine.Queue, dx, dy, position, wave *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, InterleavedBackwardDefinition, []*tensor.Tensor{dy, wave, position, dx}, nil, opts...)
}

// Waves returns the table of [InterleavedForward] in the memory of a device: the cosine of each angle
// and its sine are neighbours.
func Waves(dev device.Device, positions, pairs int, f Frequencies) (*tensor.Tensor, error) {
	cos, sin, err := Table(positions, pairs, f)
	if err != nil {
		return nil, err
	}
	t, err := tensor.FromFloat32(dev, num.F32, Interleave(cos, sin), positions, 2*pairs)
	if err != nil {
		return nil, fmt.Errorf("rope: %w", err)
	}
	return t, nil
}

// Interleave returns a table in which each cosine is followed by its sine.
func Interleave(cos, sin []float32) []float32 {
	wave := make([]float32, 0, 2*len(cos))
	for i := range cos {
		wave = append(wave, cos[i], sin[i])
	}
	return wave
}
