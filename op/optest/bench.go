package optest

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/trial"
)

// Timing describes a benchmark: a call on operands of given sizes and formats.
type Timing struct {
	Name    string // in parts key=value: dir=forward/dtype=f16/shape=256x1024
	Subject Subject
	DTypes  []num.DType
	Sizes   map[string]int
	Check   map[string]int // smaller sizes, checked before
	FLOPs   float64        // reported if it is not 0; otherwise the elements of the largest operand are
}

// Bench checks a call against the reference and times it on one worker and on as many as
// there are processors. The bytes reported are those of all operands.
func Bench(b *testing.B, timings ...Timing) {
	for _, tm := range timings {
		counts := []int{1}
		if n := runtime.GOMAXPROCS(0); n > 1 {
			counts = append(counts, n)
		}
		for _, workers := range counts {
			b.Run(fmt.Sprintf("%s/workers=%d", tm.Name, workers), func(b *testing.B) { tm.run(b, workers) })
		}
	}
}

func (tm *Timing) run(b *testing.B, workers int) {
	dev, err := cpu.New(cpu.Options{Workers: workers})
	OK(b, err)
	defer dev.Close()
	q, err := engine.NewQueue(dev)
	OK(b, err)

	s := &tm.Subject
	kind := s.kinds()[0]
	check := maps.Clone(tm.Sizes)
	maps.Copy(check, tm.Check)
	(&matcher{q: q, s: s, dtypes: tm.DTypes, kind: kind, sizes: check}).run(b)

	operands := s.operands(tm.DTypes, tm.Sizes, kind, trial.Layout{}, gen.New(tm.Name))
	var bytes, elements int64
	for _, a := range operands.Arrays() {
		n := int64(a.Rows) * int64(a.Cols)
		bytes += n * int64(a.DType.Size())
		elements = max(elements, n)
	}
	_, x := place(b, operands, dev)
	OK(b, s.Call(q, x))
	b.SetBytes(bytes)
	for b.Loop() {
		if err := s.Call(q, x); err != nil {
			b.Fatal(err)
		}
	}
	seconds := b.Elapsed().Seconds() / float64(b.N)
	if tm.FLOPs > 0 {
		b.ReportMetric(tm.FLOPs/seconds*1e-9, "GFLOP/s")
	} else {
		b.ReportMetric(float64(elements)/seconds*1e-6, "Melem/s")
	}
}

// Shape returns sizes as they are written in names: 256x1024.
func Shape(sizes ...int) string {
	var s strings.Builder
	for i, n := range sizes {
		if i > 0 {
			s.WriteString("x")
		}
		fmt.Fprint(&s, n)
	}
	return s.String()
}
