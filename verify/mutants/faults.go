package mutants

import (
	"errors"
	"math"
	"runtime"
	"strconv"
	"sync/atomic"

	"tokitai/num"
)

// Faults that any kernel can have, each a change of one part.

// Edited returns a kernel that changes the reference's results.
func Edited(change func(m Matrix)) Plain {
	return Plain{Body: Answer, Edit: func(c *Call) { c.Computed(change) }}
}

func Zeros(m Matrix) { clear(m.V) }

// Doubled doubles one element.
func Doubled(m Matrix) { m.V[len(m.V)*2/3] *= 2 }

func Negated(m Matrix) {
	for i := range m.V {
		m.V[i] = -m.V[i]
	}
}

// Identity copies the first input that has the output's size.
func Identity(c *Call) {
	for _, o := range c.outputs() {
		for i := range c.Operands {
			if op := &c.Definition.Operands[i]; op.IsIn && !op.IsOut && len(c.Operands[i].V) == len(c.Operands[o].V) {
				copy(c.Operands[o].V, c.Operands[i].V)
				break
			}
		}
	}
}

// NanWhere makes large or tiny results NaN.
func NanWhere(m Matrix) {
	for i, v := range m.V {
		if a := math.Abs(float64(v)); a > 3 || a != 0 && a < 0x1p-20 {
			m.V[i] = float32(math.NaN())
		}
	}
}

// Which elements a kernel writes: none, the first half of the rows, whole tiles of 16
// columns, whole vectors of 4.
func WritesNothing(*Call, int, int, int) bool        { return false }
func WritesHalf(c *Call, i, r, _ int) bool           { return r < (c.Stored[i].Rows+1)/2 }
func WritesWholeTiles(c *Call, i, _, col int) bool   { return col < c.Stored[i].Cols/16*16 }
func WritesWholeVectors(c *Call, i, _, col int) bool { return col < c.Stored[i].Cols/4*4 }

// FirstOutput reports whether an element belongs to the first output.
func FirstOutput(c *Call, i, _, _ int) bool { return i == c.outputs()[0] }

// WholeRowTiles leaves out the rows after the last whole tile of 16.
func WholeRowTiles(c *Call, i, r, _ int) bool { return r < c.Stored[i].Rows/16*16 }

// Faults of the store.

func StoreTowardZero(d num.DType, v float32) uint32 {
	p := num.Narrow(d, v)
	if math.Abs(float64(num.Widen(d, p))) > math.Abs(float64(v)) {
		p--
	}
	return p
}

// StoreVia rounds to another format first.
func StoreVia(first func(float32) float32) func(num.DType, float32) uint32 {
	return func(d num.DType, v float32) uint32 { return num.Narrow(d, first(v)) }
}

// To13Bits keeps 13 bits, as an accumulator of that width would.
func To13Bits(v float32) float32 { return KeepBits(13)(float64(v)) }

func StoreSaturated(d num.DType, v float32) uint32 {
	limit := float32(num.MaxFinite(d))
	if v > limit || v < -limit {
		v = float32(math.Copysign(float64(limit), float64(v)))
	}
	return num.Narrow(d, v)
}

func smallestNormal(d num.DType) float64 {
	if d == num.F16 {
		return 0x1p-14
	}
	return 0x1p-126
}

func StoreFlushed(d num.DType, v float32) uint32 {
	p := num.Narrow(d, v)
	if math.Abs(float64(num.Widen(d, p))) < smallestNormal(d) {
		return num.Narrow(d, float32(math.Copysign(0, float64(v))))
	}
	return p
}

// StoreSmallestAsTwo encodes the smallest normal number as 2.
func StoreSmallestAsTwo(d num.DType, v float32) uint32 {
	p := num.Narrow(d, v)
	if w := num.Widen(d, p); math.Abs(float64(w)) == smallestNormal(d) {
		return num.Narrow(d, float32(math.Copysign(2, float64(w))))
	}
	return p
}

func StoreNaNAsZero(d num.DType, v float32) uint32 {
	if v != v {
		v = 0
	}
	return num.Narrow(d, v)
}

// StorePositiveZero loses the sign of a zero.
func StorePositiveZero(d num.DType, v float32) uint32 {
	if v == 0 {
		v = 0
	}
	return num.Narrow(d, v)
}

// StoreText writes six significant digits and reads them back.
func StoreText(d num.DType, v float32) uint32 {
	x, _ := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'e', 5, 32), 32)
	return num.Narrow(d, float32(x))
}

// Faults of the load.

func LoadFlushed(a num.Array, r, c int) float32 {
	v := a.At(r, c)
	if math.Abs(float64(v)) < smallestNormal(a.DType) {
		return float32(math.Copysign(0, float64(v)))
	}
	return v
}

// LoadPacked ignores the stride: it reads rows as if there were no gaps.
func LoadPacked(a num.Array, r, c int) float32 {
	a.Stride = a.Cols
	return a.At(r, c)
}

// LoadShort counts elements in 16 bits.
func LoadShort(a num.Array, r, c int) float32 {
	at := int(int16(r*a.Cols + c))
	if at < 0 || at >= a.Rows*a.Cols {
		return 0
	}
	return a.At(at/a.Cols, at%a.Cols)
}

// LoadTF32 keeps ten bits of the fraction.
func LoadTF32(a num.Array, r, c int) float32 { return KeepBits(11)(float64(a.At(r, c))) }

// Faults of memory.

// WritesBeyond writes one element after the last, if the buffer is longer.
func WritesBeyond(c *Call) {
	i := c.outputs()[0]
	a := c.Stored[i]
	end := ((a.Rows-1)*a.Stride + a.Cols) * a.DType.Size()
	if whole := a.Data[:cap(a.Data)]; len(whole) >= end+a.DType.Size() {
		whole[end] ^= 1
	}
}

// WritesGap writes the whole stride of every row but the last.
func WritesGap(c *Call) {
	a := c.Stored[c.outputs()[0]]
	for r := range a.Rows - 1 {
		for col := a.Cols; col < a.Stride; col++ {
			a.SetBits(r, col, 0)
		}
	}
}

// ChangesInput overwrites the last element of the first input.
func ChangesInput(c *Call) {
	for i := range c.Stored {
		if o := &c.Definition.Operands[i]; o.IsIn && !o.IsOut && !o.IsIndex {
			a := c.Stored[i]
			a.Set(a.Rows-1, a.Cols-1, 0)
			return
		}
	}
}

// ClearsFirst sets the outputs to zero before the inputs are read.
func ClearsFirst(c *Call) error {
	for _, i := range c.outputs() {
		for r := range c.Stored[i].Rows {
			for col := range c.Stored[i].Cols {
				c.Stored[i].SetBits(r, col, 0)
			}
		}
	}
	return nil
}

// NeedsAlignment is right only if every operand begins at a multiple of 16 bytes.
func NeedsAlignment(c *Call) {
	for i := range c.Stored {
		if c.launch.Operands[i].Address()%16 != 0 {
			c.Computed(Doubled)
			return
		}
	}
}

// NeedsPackedRows is right only if rows have no gaps.
func NeedsPackedRows(c *Call) {
	for i := range c.Stored {
		if c.Stored[i].Rows > 1 && c.Stored[i].Stride != c.Stored[i].Cols {
			c.Computed(Zeros)
			return
		}
	}
}

// Faults of a kernel that is called more than once.

// Stale returns the outputs of the previous call if they have the same size.
func Stale(k Plain) Stateful {
	return func() func(*Call) error {
		var last atomic.Pointer[[]Matrix]
		k := k
		k.Edit = func(c *Call) {
			now := make([]Matrix, len(c.Operands))
			for _, i := range c.outputs() {
				now[i] = NewMatrix(c.Operands[i].Rows, c.Operands[i].Cols)
				copy(now[i].V, c.Operands[i].V)
			}
			before := last.Swap(&now)
			if before == nil {
				return
			}
			for _, i := range c.outputs() {
				if len((*before)[i].V) == len(c.Operands[i].V) {
					copy(c.Operands[i].V, (*before)[i].V)
				}
			}
		}
		return k.Run
	}
}

// After is right for n calls and then wrong.
func After(n int64, k Plain, wrong func(m Matrix)) Stateful {
	return func() func(*Call) error {
		var calls atomic.Int64
		k := k
		k.Edit = func(c *Call) {
			if calls.Add(1) > n {
				c.Computed(wrong)
			}
		}
		return k.Run
	}
}

// Alternating uses two bodies in turn.
func Alternating(one, other func(c *Call)) Stateful {
	return func() func(*Call) error {
		var calls atomic.Int64
		return Plain{Body: func(c *Call) {
			if calls.Add(1)%2 == 1 {
				one(c)
			} else {
				other(c)
			}
		}}.Run
	}
}

// ByWorkers cuts a sum into as many parts as there are workers.
func ByWorkers(body func(sum func([]float32) float32) func(c *Call)) Plain {
	return Plain{Body: func(c *Call) {
		body(func(x []float32) float32 {
			s := float32(0)
			for w := range c.workers {
				s += Ascending(x[len(x)*w/c.workers : len(x)*(w+1)/c.workers])
			}
			return s
		})(c)
	}}
}

// SharedScratch keeps one value for all concurrent calls, which overwrite it.
type SharedScratch struct{ slot atomic.Uint32 }

// Through passes a value through the scratch memory while other calls may run.
func (s *SharedScratch) Through(x float32) float32 {
	s.slot.Store(math.Float32bits(x))
	for range 8 {
		runtime.Gosched()
	}
	return math.Float32frombits(s.slot.Load())
}

// RefusesWhere returns an error for some shapes, and PanicsWhere panics.
func RefusesWhere(isBad func(c *Call) bool) Plain {
	return Plain{Body: Answer, Before: func(c *Call) error {
		if isBad(c) {
			return errors.New("the shape is not supported")
		}
		return nil
	}}
}

func PanicsWhere(isBad func(c *Call) bool) Plain {
	return Plain{Body: Answer, Edit: func(c *Call) {
		if isBad(c) {
			var none []float32
			none[len(c.Operands)] = 0
		}
	}}
}
