package mutants

import (
	"errors"
	"math"
	"runtime"
	"strconv"
	"sync/atomic"

	"tokitai/num"
)

// The faults that any kernel can have, each as a change of one part.

// edited changes what the reference has computed.
func edited(change func(m matrix)) plain {
	return plain{body: answer, edit: func(c *call) { c.computed(change) }}
}

func zeros(m matrix) { clear(m.v) }

// doubled is one element that is twice what it should be.
func doubled(m matrix) { m.v[len(m.v)*2/3] *= 2 }

func negated(m matrix) {
	for i := range m.v {
		m.v[i] = -m.v[i]
	}
}

// identity returns the first input that has the output's size.
func identity(c *call) {
	for _, o := range c.outputs() {
		for i := range c.x {
			if op := &c.d.Operands[i]; op.IsIn && !op.IsOut && len(c.x[i].v) == len(c.x[o].v) {
				copy(c.x[o].v, c.x[i].v)
				break
			}
		}
	}
}

// nanWhere makes a result NaN where it is hard, that is large or tiny.
func nanWhere(m matrix) {
	for i, v := range m.v {
		if a := math.Abs(float64(v)); a > 3 || a != 0 && a < 0x1p-20 {
			m.v[i] = float32(math.NaN())
		}
	}
}

// writesNothing, and writesHalf the rows.
func writesNothing(*call, int, int, int) bool        { return false }
func writesHalf(c *call, i, r, _ int) bool           { return r < (c.a[i].Rows+1)/2 }
func writesWholeTiles(c *call, i, _, col int) bool   { return col < c.a[i].Cols/16*16 }
func writesWholeVectors(c *call, i, _, col int) bool { return col < c.a[i].Cols/4*4 }

// firstOutput is true for places of the first output only.
func firstOutput(c *call, i, _, _ int) bool { return i == c.outputs()[0] }

// wholeRowTiles leaves out the rows after the last whole tile of 16.
func wholeRowTiles(c *call, i, r, _ int) bool { return r < c.a[i].Rows/16*16 }

// Faults of the store.

func storeTowardZero(d num.DType, v float32) uint32 {
	p := num.Narrow(d, v)
	if math.Abs(float64(num.Widen(d, p))) > math.Abs(float64(v)) {
		p--
	}
	return p
}

// storeVia rounds twice.
func storeVia(first func(float32) float32) func(num.DType, float32) uint32 {
	return func(d num.DType, v float32) uint32 { return num.Narrow(d, first(v)) }
}

// to13Bits keeps 13 bits, as an accumulator of that width would.
func to13Bits(v float32) float32 { return keepBits(13)(float64(v)) }

func storeSaturated(d num.DType, v float32) uint32 {
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

func storeFlushed(d num.DType, v float32) uint32 {
	p := num.Narrow(d, v)
	if math.Abs(float64(num.Widen(d, p))) < smallestNormal(d) {
		return num.Narrow(d, float32(math.Copysign(0, float64(v))))
	}
	return p
}

// storeSmallestAsTwo encodes the smallest normal number as 2.
func storeSmallestAsTwo(d num.DType, v float32) uint32 {
	p := num.Narrow(d, v)
	if w := num.Widen(d, p); math.Abs(float64(w)) == smallestNormal(d) {
		return num.Narrow(d, float32(math.Copysign(2, float64(w))))
	}
	return p
}

func storeNaNAsZero(d num.DType, v float32) uint32 {
	if v != v {
		v = 0
	}
	return num.Narrow(d, v)
}

// storePositiveZero loses the sign of a zero.
func storePositiveZero(d num.DType, v float32) uint32 {
	if v == 0 {
		v = 0
	}
	return num.Narrow(d, v)
}

// storeText writes six significant digits and reads them back.
func storeText(d num.DType, v float32) uint32 {
	x, _ := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'e', 5, 32), 32)
	return num.Narrow(d, float32(x))
}

// Faults of the load.

func loadFlushed(a num.Array, r, c int) float32 {
	v := a.At(r, c)
	if math.Abs(float64(v)) < smallestNormal(a.DType) {
		return float32(math.Copysign(0, float64(v)))
	}
	return v
}

// loadPacked takes the rows for neighbours, whatever their stride.
func loadPacked(a num.Array, r, c int) float32 {
	a.Stride = a.Cols
	return a.At(r, c)
}

// loadShort counts elements in 16 bits.
func loadShort(a num.Array, r, c int) float32 {
	at := int(int16(r*a.Cols + c))
	if at < 0 || at >= a.Rows*a.Cols {
		return 0
	}
	return a.At(at/a.Cols, at%a.Cols)
}

// loadTF32 keeps ten bits of the fraction.
func loadTF32(a num.Array, r, c int) float32 { return keepBits(11)(float64(a.At(r, c))) }

// Faults of memory.

// writesBeyond writes one element behind the last, where the buffer goes on.
func writesBeyond(c *call) {
	i := c.outputs()[0]
	a := c.a[i]
	end := ((a.Rows-1)*a.Stride + a.Cols) * a.DType.Size()
	if whole := a.Data[:cap(a.Data)]; len(whole) >= end+a.DType.Size() {
		whole[end] ^= 1
	}
}

// writesGap writes the whole stride of every row but the last.
func writesGap(c *call) {
	a := c.a[c.outputs()[0]]
	for r := range a.Rows - 1 {
		for col := a.Cols; col < a.Stride; col++ {
			a.SetBits(r, col, 0)
		}
	}
}

// changesInput overwrites the last element of the first input.
func changesInput(c *call) {
	for i := range c.a {
		if o := &c.d.Operands[i]; o.IsIn && !o.IsOut && !o.IsIndex {
			a := c.a[i]
			a.Set(a.Rows-1, a.Cols-1, 0)
			return
		}
	}
}

// clearsFirst sets the outputs to zero before the inputs are read.
func clearsFirst(c *call) error {
	for _, i := range c.outputs() {
		for r := range c.a[i].Rows {
			for col := range c.a[i].Cols {
				c.a[i].SetBits(r, col, 0)
			}
		}
	}
	return nil
}

// needsAlignment is right only where every operand begins at a multiple of 16 bytes.
func needsAlignment(c *call) {
	for i := range c.a {
		if c.launch.Operands[i].Address()%16 != 0 {
			c.computed(doubled)
			return
		}
	}
}

// needsPackedRows is right only where rows have no gaps.
func needsPackedRows(c *call) {
	for i := range c.a {
		if c.a[i].Rows > 1 && c.a[i].Stride != c.a[i].Cols {
			c.computed(zeros)
			return
		}
	}
}

// Faults of a kernel that is called more than once.

// stale returns the outputs of the call before, where they have the same size.
func stale(k plain) stateful {
	return func() func(*call) error {
		var last atomic.Pointer[[]matrix]
		k := k
		k.edit = func(c *call) {
			now := make([]matrix, len(c.x))
			for _, i := range c.outputs() {
				now[i] = newMatrix(c.x[i].rows, c.x[i].cols)
				copy(now[i].v, c.x[i].v)
			}
			before := last.Swap(&now)
			if before == nil {
				return
			}
			for _, i := range c.outputs() {
				if len((*before)[i].v) == len(c.x[i].v) {
					copy(c.x[i].v, (*before)[i].v)
				}
			}
		}
		return k.run
	}
}

// after is right for n calls, and then wrong.
func after(n int64, k plain, wrong func(m matrix)) stateful {
	return func() func(*call) error {
		var calls atomic.Int64
		k := k
		k.edit = func(c *call) {
			if calls.Add(1) > n {
				c.computed(wrong)
			}
		}
		return k.run
	}
}

// alternating takes one body and the other in turn.
func alternating(one, other func(c *call)) stateful {
	return func() func(*call) error {
		var calls atomic.Int64
		return plain{body: func(c *call) {
			if calls.Add(1)%2 == 1 {
				one(c)
			} else {
				other(c)
			}
		}}.run
	}
}

// byWorkers cuts a sum into as many parts as there are workers.
func byWorkers(body func(sum func([]float32) float32) func(c *call)) plain {
	return plain{body: func(c *call) {
		body(func(x []float32) float32 {
			s := float32(0)
			for w := range c.workers {
				s += ascending(x[len(x)*w/c.workers : len(x)*(w+1)/c.workers])
			}
			return s
		})(c)
	}}
}

// sharedScratch keeps one value for all calls at once, which others overwrite.
type sharedScratch struct{ slot atomic.Uint32 }

// through passes a value through the scratch, while others may run.
func (s *sharedScratch) through(x float32) float32 {
	s.slot.Store(math.Float32bits(x))
	for range 8 {
		runtime.Gosched()
	}
	return math.Float32frombits(s.slot.Load())
}

// refusesWhere returns an error for some shapes, and panicsWhere panics.
func refusesWhere(isBad func(c *call) bool) plain {
	return plain{body: answer, before: func(c *call) error {
		if isBad(c) {
			return errors.New("the shape is not supported")
		}
		return nil
	}}
}

func panicsWhere(isBad func(c *call) bool) plain {
	return plain{body: answer, edit: func(c *call) {
		if isBad(c) {
			var none []float32
			none[len(c.x)] = 0
		}
	}}
}
