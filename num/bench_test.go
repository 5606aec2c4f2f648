package num

import (
	"math/rand/v2"
	"testing"
)

// Sizes that stay in the first-level cache: the conversion is measured, not memory.
const benchElems = 4096

// benchScales choose where the data lies in f16: normal, half of it subnormal,
// subnormal. The time should not depend on it.
var benchScales = []struct {
	name  string
	scale float64
}{{"normal", 1}, {"straddling", 1e-4}, {"subnormal", 1e-6}}

func benchData(scale float64) (wide []float32, narrow []uint16) {
	r := rand.New(rand.NewPCG(1, 1))
	wide, narrow = make([]float32, benchElems), make([]uint16, benchElems)
	for i := range wide {
		wide[i] = float32(r.NormFloat64() * scale)
	}
	return wide, narrow
}

func BenchmarkWiden(b *testing.B) {
	for _, data := range benchScales {
		wide, narrow := benchData(data.scale)
		for _, f := range []struct {
			dtype  DType
			narrow func([]uint16, []float32)
			widen  func([]float32, []uint16)
		}{{F16, F32sToF16s, F16sToF32s}, {BF16, F32sToBF16s, BF16sToF32s}} {
			f.narrow(narrow, wide)
			b.Run("dtype="+f.dtype.String()+"/data="+data.name, func(b *testing.B) {
				b.SetBytes(6 * benchElems)
				for b.Loop() {
					f.widen(wide, narrow)
				}
				perElem(b, benchElems)
			})
		}
	}
}

func BenchmarkNarrow(b *testing.B) {
	for _, data := range benchScales {
		wide, narrow := benchData(data.scale)
		for _, f := range []struct {
			dtype  DType
			narrow func([]uint16, []float32)
		}{{F16, F32sToF16s}, {BF16, F32sToBF16s}} {
			b.Run("dtype="+f.dtype.String()+"/data="+data.name, func(b *testing.B) {
				b.SetBytes(6 * benchElems)
				for b.Loop() {
					f.narrow(narrow, wide)
				}
				perElem(b, benchElems)
			})
		}
	}
}

func BenchmarkNarrowF64(b *testing.B) {
	wide, _ := benchData(1)
	for _, d := range []DType{F16, BF16} {
		b.Run("dtype="+d.String(), func(b *testing.B) {
			b.SetBytes(10 * benchElems)
			for b.Loop() {
				for _, x := range wide {
					sinkBits += NarrowF64(d, float64(x))
				}
			}
			perElem(b, benchElems)
		})
	}
}

func BenchmarkFMA(b *testing.B) {
	x, _ := benchData(1)
	y, _ := benchData(1e-4)
	ties := make([]float32, benchElems) // 2^-12·2^-12 + 1 is halfway
	for i := range ties {
		ties[i] = 0x1p-12
	}
	for _, data := range []struct {
		name string
		x, y []float32
		c    float32
	}{{"random", x, y, 0.5}, {"halfway", ties, ties, 1}, {"zero", make([]float32, benchElems), y, 0}} {
		b.Run("data="+data.name, func(b *testing.B) {
			b.SetBytes(8 * benchElems)
			for b.Loop() {
				for i, x := range data.x {
					sink = FMA(x, data.y[i], data.c)
				}
			}
			perElem(b, benchElems)
		})
	}
}

func BenchmarkMMADot(b *testing.B) {
	for _, d := range []DType{F16, BF16} {
		x, _ := benchData(1)
		patterns := make([]uint32, benchElems)
		for i := range patterns {
			patterns[i] = Narrow(d, x[i])
		}
		b.Run("dtype="+d.String()+"/model="+MMA{L: 16, F: 25}.String(), func(b *testing.B) {
			b.SetBytes(4 * benchElems)
			for b.Loop() {
				sink = MMA{L: 16, F: 25}.Dot(d, patterns, patterns, 0)
			}
			perElem(b, benchElems)
		})
	}
}

func BenchmarkStochasticRound(b *testing.B) {
	x, _ := benchData(1)
	for _, d := range []DType{F16, BF16} {
		b.Run("dtype="+d.String(), func(b *testing.B) {
			b.SetBytes(4 * benchElems)
			for b.Loop() {
				for i, v := range x {
					sink = StochasticRound(d, v, RandomWord(1, 2, 3, uint64(i)))
				}
			}
			perElem(b, benchElems)
		})
	}
}

func BenchmarkPhilox(b *testing.B) {
	b.SetBytes(16)
	for i := uint32(0); b.Loop(); i++ {
		sinkBits += Philox(1, [4]uint32{i})[0]
	}
}

func BenchmarkLaneSum(b *testing.B) {
	x, _ := benchData(1)
	b.SetBytes(4 * benchElems)
	for b.Loop() {
		sink = LaneSum(x, RowLanes(len(x)))
	}
	perElem(b, benchElems)
}

var (
	sink     float32
	sinkBits uint32
)

func perElem(b *testing.B, elems int) {
	b.ReportMetric(float64(elems)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Melem/s")
}
