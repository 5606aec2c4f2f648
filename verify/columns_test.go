package verify_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/tensor"
	"tokitai/verify"
)

// argmax finds the maximum of an input, which is exact; scores that of rounded values.
var (
	argmax = def.Must(def.Rowwise("argmax", func(b *def.Builder) {
		x := b.In("x")
		best := def.RowArgMax(x)
		b.OutRow("index", best)
		b.OutRow("value", x.At(best), def.Like("x"))
	}))
	scores = def.Must(def.Rowwise("scores", func(b *def.Builder) {
		x := b.In("x")
		b.OutRow("index", def.RowArgMin(x.Mul(def.Number("0.1")).Add(b.InCol("bias"))))
	}))
)

// column makes a kernel of argmax from a way to choose a column.
func column(choose func(x []float32) int) kernelFunc {
	return damaged(func(l *engine.Launch, out []num.Array) {
		for r := range out[0].Rows {
			var row []float32
			for c := range out[0].Cols {
				row = append(row, out[0].At(r, c))
			}
			c := choose(row)
			out[1].SetBits(r, 0, uint32(int32(c)))
			if c >= 0 && c < len(row) {
				out[2].Set(r, 0, row[c])
			}
		}
	})
}

// columnMutants has the mistakes that are usual in such kernels.
var columnMutants = []struct {
	name   string
	which  string // of level quick, where level smoke has none that shows it
	choose func(x []float32) int
}{
	{"the last of equals", "", func(x []float32) int {
		return scan(x, 0, len(x), func(v, m float32) bool { return v >= m || v != v && m == m })
	}},
	{"NaN is passed over", "", func(x []float32) int {
		return scan(x, 0, len(x), func(v, m float32) bool { return v > m || m != m && v == v })
	}},
	{"NaN counts in the first column alone", "", func(x []float32) int { return scan(x, 0, len(x), func(v, m float32) bool { return v > m }) }},
	{"the last NaN", "", func(x []float32) int { return scan(x, 0, len(x), func(v, m float32) bool { return v > m || v != v }) }},
	{"NaN is less than infinity", "", func(x []float32) int {
		return scan(x, 0, len(x), func(v, m float32) bool { return v > m || v != v && m == m && m < math.MaxFloat32 })
	}},
	{"-0 is less than +0", "", func(x []float32) int {
		return scan(x, 0, len(x), func(v, m float32) bool {
			return !(v <= m) && m == m || v == 0 && m == 0 && math.Signbit(float64(m)) && !math.Signbit(float64(v))
		})
	}},
	{"the first column is left out", "", func(x []float32) int { return scan(x, min(1, len(x)-1), len(x), isBetter) }},
	{"the last column is left out", "", func(x []float32) int { return scan(x, 0, max(1, len(x)-1), isBetter) }},
	{"the tail of eight is left out", "", func(x []float32) int { return scan(x, 0, max(1, len(x)&^7), isBetter) }},
	{"the maximum begins at 0", "", func(x []float32) int {
		best, m := 0, float32(0)
		for c, v := range x {
			if isBetter(v, m) {
				best, m = c, v
			}
		}
		return best
	}},
	{"nothing exceeds -Inf", "", func(x []float32) int {
		best, m := -1, float32(math.Inf(-1))
		for c, v := range x {
			if isBetter(v, m) {
				best, m = c, v
			}
		}
		return best
	}},
	{"the largest magnitude", "", func(x []float32) int {
		return scan(x, 0, len(x), func(v, m float32) bool { return isBetter(max(v, -v), max(m, -m)) })
	}},
	{"of equals, the lowest lane of eight", "", func(x []float32) int {
		return scan(x, 0, len(x), isBetter, 8)
	}},
	{"equal in bf16", "", func(x []float32) int {
		return scan(x, 0, len(x), func(v, m float32) bool { return isBetter(num.Round(num.BF16, v), num.Round(num.BF16, m)) })
	}},
	{"columns are numbered from 1", "", func(x []float32) int { return scan(x, 0, len(x), isBetter) + 1 }},
	{"of equals in two chunks of 512, the later", "contenders/R=168,C=1030", func(x []float32) int {
		best := 0
		for first := 0; first < len(x); first += 512 {
			c := scan(x, first, min(first+512, len(x)), isBetter)
			if x[c] >= x[best] || x[c] != x[c] && x[best] == x[best] {
				best = c
			}
		}
		return best
	}},
	{"the column is an f16", "contenders/R=24,C=8200", func(x []float32) int { return int(num.Round(num.F16, float32(scan(x, 0, len(x), isBetter)))) }},
	{"the column has 16 bits", "contenders/R=24,C=66000", func(x []float32) int { return int(uint16(scan(x, 0, len(x), isBetter))) }},
}

func isBetter(v, m float32) bool { return !(v <= m) && m == m }

// scan goes over the columns, in the order of their lanes if there are any.
func scan(x []float32, from, to int, isBetter func(v, m float32) bool, lanes ...int) int {
	best, width := from, 1
	if len(lanes) > 0 {
		width = lanes[0]
	}
	for lane := range width {
		for c := from + lane; c < to; c += width {
			if isBetter(x[c], x[best]) {
				best = c
			}
		}
	}
	return best
}

// TestColumnMutants checks that verification rejects every mutant, under either promise, and accepts
// the kernel without mistakes.
func TestColumnMutants(t *testing.T) {
	t.Parallel()
	for _, contract := range []func(kernelFunc) *engine.Lowering{bitwise, func(k kernelFunc) *engine.Lowering { return bounded(def.Order{}, k) }} {
		right := &verify.Target{Definition: argmax, DType: num.F32, Lowering: contract(column(func(x []float32) int { return scan(x, 0, len(x), isBetter) }))}
		if r := run(t, right, verify.Options{Seed: 1, Level: verify.Smoke}).Report; r.Verdict != evidence.Accepted {
			t.Errorf("the right kernel, promise %s: %s %s", right.Promised(), r.Verdict, r.Reason)
		}
		for i, m := range columnMutants {
			if i%testlevel.Pick(4, 1) != 0 {
				continue
			}
			x := &verify.Target{Definition: argmax, DType: num.F32, Lowering: contract(column(m.choose))}
			r := run(t, x, verify.Options{Seed: 1, Level: verify.Smoke, Case: m.which}).Report
			if r.Verdict != evidence.Rejected {
				t.Errorf("%s, promise %s: %s %s", m.name, x.Promised(), r.Verdict, r.Reason)
			}
		}
	}
}

// TestIntReports checks what reports say about int32 outputs.
func TestIntReports(t *testing.T) {
	t.Parallel()
	for _, l := range engine.Lowerings(cpu.Backend, argmax) {
		for _, d := range []*def.Definition{argmax, scores} {
			r := run(t, &verify.Target{Definition: d, DType: num.BF16, Lowering: l}, verify.Options{Seed: 1, Level: verify.Smoke}).Report
			if r.Verdict != evidence.Accepted || !slices.ContainsFunc(r.NonClaims, func(s string) bool { return strings.Contains(s, "int32 outputs have no error in ulps") }) {
				t.Errorf("%s %s: %s %s, non-claims %q", d.Name, l.Name, r.Verdict, r.Reason, r.NonClaims)
			}
		}
	}
	second := column(func(x []float32) int { return scan(x, 0, len(x), func(v, m float32) bool { return v >= m }) })
	r := expectRejected(t, &verify.Target{Definition: argmax, DType: num.F32, Lowering: bitwise(second)}, "ones/R=1,C=3", "index[0] differs", evidence.Bits)
	if f := r.Failure; f.Got != "2" || f.Want != "0" || f.Truth != "0" {
		t.Errorf("got %s, want %s, truth %s; want 2, 0, 0", f.Got, f.Want, f.Truth)
	}
	unwritten := func(d *def.Definition, l *engine.Launch) error {
		store(d, l, answer(d, l), func(operand, r, _ int) bool { return operand == 1 && r == 2 })
		return nil
	}
	expectRejected(t, &verify.Target{Definition: argmax, DType: num.F32, Lowering: bitwise(unwritten)}, "normal/R=3,C=5", "index[2]: it is not written", evidence.Structure, evidence.Bits)
}

// TestBoundedColumns checks that a kernel that rounds differently may return any column whose
// enclosure overlaps, and no other.
func TestBoundedColumns(t *testing.T) {
	t.Parallel()
	smallest := func(of func(x, bias float32) float64, isSecond bool) kernelFunc {
		return damaged(func(l *engine.Launch, out []num.Array) {
			for r := range out[0].Rows {
				best, m := 0, math.Inf(1)
				for c := range out[0].Cols {
					v := of(out[0].At(r, c), out[1].At(0, c))
					if v != v {
						best = c
						break
					}
					if v < m {
						best, m = c, v
					}
				}
				if isSecond && best+1 < out[0].Cols {
					best++
				}
				out[2].SetBits(r, 0, uint32(best))
			}
		})
	}
	exactly := func(x, bias float32) float64 { return float64(x)*0.1 + float64(bias) }
	order := def.Order{}
	x := &verify.Target{Definition: scores, DType: num.F32, Lowering: bounded(order, smallest(exactly, false))}
	r := run(t, x, verify.Options{Seed: 1, Level: verify.Smoke}).Report
	if r.Verdict != evidence.Accepted || r.WorstErrorULP != nil {
		t.Errorf("sums in binary64: %s %s, worst error %v", r.Verdict, r.Reason, r.WorstErrorULP)
	}
	if r.WorstAdmissible == nil || *r.WorstAdmissible < 2 || *r.MedianAdmissible != 1 {
		t.Errorf("admissible sets: worst %v, median %v; want several columns now and then, one mostly", r.WorstAdmissible, r.MedianAdmissible)
	}
	x.Lowering = bounded(order, smallest(exactly, true))
	if r := run(t, x, verify.Options{Seed: 1, Level: verify.Smoke}).Report; r.Verdict != evidence.Rejected || r.Failure.Tier != evidence.Set {
		t.Errorf("the column after it: %s %s", r.Verdict, r.Reason)
	}
	// Equal sums: every column is admissible, but none beyond.
	x.Lowering = bounded(order, damaged(func(_ *engine.Launch, out []num.Array) { out[2].SetBits(0, 0, uint32(out[0].Cols-1)) }))
	expectAccepted(t, x, "ones/R=1,C=3")
	x.Lowering = bounded(order, damaged(func(_ *engine.Launch, out []num.Array) { out[2].SetBits(0, 0, uint32(out[0].Cols)) }))
	r = expectRejected(t, x, "ones/R=1,C=3", "index[0] differs", evidence.Set)
	if want := "one of 0, 1, 2"; r.Failure.Got != "3" || r.Failure.Want != want || r.Failure.Truth != want {
		t.Errorf("got %s, want %s, truth %s; want 3 and twice %q", r.Failure.Got, r.Failure.Want, r.Failure.Truth, want)
	}
}

// TestCheckedColumns checks a call on a caller's own data.
func TestCheckedColumns(t *testing.T) {
	t.Parallel()
	q := cpu.Queue()
	x := must(t)(tensor.FromFloat32(q.Device(), num.F16, []float32{3, -4, 7, 7, 1, 1, 1, 1}, 2, 4))
	report := &verify.CallReport{Tool: "test", Version: "0"}
	out, err := engine.Eval(q, argmax, engine.Args{"x": x}, verify.Checked(report))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := out["index"].Int32s(); err != nil || !slices.Equal(got, []int32{2, 0}) {
		t.Errorf("got columns %v, error %v, want [2 0]", got, err)
	}
	part := expectReports(t, "argmax", report, evidence.Accepted)[0]
	if part.TruthElements != 2 || part.Elements != 4 {
		t.Errorf("%d of %d outputs compared with the truth, want the values alone, 2 of 4", part.TruthElements, part.Elements)
	}
}

// TestNoInputs verifies a definition that reads nothing.
func TestNoInputs(t *testing.T) {
	t.Parallel()
	ramp := def.Must(def.Rowwise("ramp", func(b *def.Builder) {
		b.Out("y", b.ColFloat().Mul(b.Param("step")))
		b.Out("i", b.Col())
	}))
	for _, l := range engine.Lowerings(cpu.Backend, ramp) {
		r := run(t, &verify.Target{Definition: ramp, DType: num.F16, Lowering: l}, verify.Options{Seed: 1, Level: verify.Smoke}).Report
		if r.Verdict != evidence.Accepted {
			t.Errorf("%s: %s %s", l.Name, r.Verdict, r.Reason)
		}
	}
}
