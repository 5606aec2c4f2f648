// Package accuracy measures the errors of definitions against the real-number results.
// For every operation, storage format and named kind of data it runs the reference,
// encloses the truth, and states the promised error, the measured error, and how often
// the result is not the correctly rounded one. [Markdown] turns the measurements into a
// document. Operations also have bounds in closed form, for other data; every measurement
// is compared with them (closed.go).
//
// The package is given a list of operations and knows none itself. Its numbers depend
// only on the definitions and the generated data, so the document is the same on every
// machine. Start with Measure.
package accuracy

import (
	"fmt"
	"math"
	"slices"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/reference"
	"tokitai/trial"
	"tokitai/truth"
)

// Row is the measurement of one output on one kind of data.
type Row struct {
	Operation *op.Operation
	Data      op.Data
	DType     num.DType // of the operands whose format the caller chooses
	Output    string
	Storage   num.DType // of the output

	Elements   int
	Promise    Spread // of (ulp(y)/2 + radius) / ulp(y)
	Measured   Spread // of |y - truth| / ulp(truth)
	Misrounded int    // elements that are not the correctly rounded truth
	Undecided  int    // elements whose correct rounding is not known
	Unknown    int    // elements without a known enclosure; they count only in Elements
}

// Spread summarises a figure over all elements.
type Spread struct{ Median, Worst float64 }

// Options configures Measure.
type Options struct {
	// Only selects kinds of data and formats; nil selects all.
	Only func(o *op.Operation, data op.Data, d num.DType) bool

	// Tell, if not nil, is called with the rows of each kind of data and format once they
	// are measured, the number of these done so far, and the total.
	Tell func(rows []Row, done, total int)
}

// Measure runs all operations on all their kinds of data in all formats. A result
// outside its promise or outside its closed form is an error: then the reference, the
// truth or the closed form is wrong.
func Measure(ops []*op.Operation, o Options) ([]Row, error) {
	type subject struct {
		operation *op.Operation
		data      op.Data
		dtype     num.DType
	}
	var subjects []subject
	for _, operation := range ops {
		for _, data := range operation.Data {
			for _, dtype := range num.RealDTypes {
				if data.Definition.DTypes(dtype) != nil && (o.Only == nil || o.Only(operation, data, dtype)) {
					subjects = append(subjects, subject{operation, data, dtype})
				}
			}
		}
	}
	var rows []Row
	for i, s := range subjects {
		run, _ := NewRun(s.operation, s.data, s.dtype)
		r, err := run.Measure()
		if err != nil {
			return nil, err
		}
		rows = append(rows, r...)
		if o.Tell != nil {
			o.Tell(r, i+1, len(subjects))
		}
	}
	return rows, nil
}

// Run is one definition with generated operands.
type Run struct {
	Operation *op.Operation
	Data      op.Data
	DType     num.DType
	Operands  []num.Array
	Accum     def.Accum // contractions
}

// NewRun generates the operands of a kind of data. It returns false if the format does
// not apply: an operand cannot have it, or no operand depends on the choice.
func NewRun(operation *op.Operation, data op.Data, dtype num.DType) (*Run, bool) {
	d := data.Definition
	dtypes := d.DTypes(dtype)
	if dtypes == nil {
		return nil, false
	}
	run := &Run{Operation: operation, Data: data, DType: dtype}
	for i, o := range d.Operands {
		run.Operands = append(run.Operands, o.NewArray(dtypes[i], data.Sizes))
		if o.IsIn {
			run.fill(i, gen.New(fmt.Sprintf("%s/%s/%v/%s", operation.Name, data.Name, dtype, o.Name)))
		}
	}
	if err := operation.SavedBy(d).Fill(run.Operands, data.Params, func(name string) bool { return data.Values[name] == nil }); err != nil {
		panic("accuracy: " + err.Error())
	}
	return run, true
}

func (run *Run) fill(i int, g *gen.Generator) {
	a, o, data := run.Operands[i], &run.Data.Definition.Operands[i], &run.Data
	element := data.Values[o.Name]
	if element == nil {
		element = op.Normal
	}
	switch {
	case o.IsOffsets:
		trial.DivideEqually(a, data.Sizes[o.Bound])
		return
	case o.IsLengths || o.Lengths != "":
		trial.FillIndex(data.Definition, i, run.Operands, func(letter string) int { return data.Sizes[letter] }, func(row, col, limit int) int {
			return data.Index[o.Name].PageOf(g, row*a.Cols+col, limit)
		})
		return
	}
	for r := range a.Rows {
		for c := range a.Cols {
			if o.IsIndex {
				a.SetBits(r, c, uint32(g.Below(o.LimitIn(data.Sizes))))
			} else {
				a.Set(r, c, element(g, a.RowIn(r), c))
			}
		}
	}
}

// Enclose evaluates the truth of the run's operands.
func (run *Run) Enclose(mode truth.Mode) (*truth.Result, error) {
	return truth.Enclose(run.Data.Definition, run.Operands, truth.Options{Params: run.Data.Params, Mode: mode, Accum: run.Accum})
}

// Answer returns the operands after the reference has run; the run's own are unchanged.
func (run *Run) Answer() ([]num.Array, error) {
	operands := slices.Clone(run.Operands)
	for i, o := range run.Data.Definition.Operands {
		if o.IsOut {
			operands[i] = operands[i].Clone()
		}
	}
	return operands, reference.Run(run.Data.Definition, operands, reference.Options{Params: run.Data.Params, Accum: run.Accum})
}

// Measure measures every output of the run. An int32 output has no error in ulps and no
// row: its values must be among those that the rounded enclosure admits, or Measure fails.
func (run *Run) Measure() ([]Row, error) {
	rows, err := run.measure()
	if err != nil {
		return nil, fmt.Errorf("%s, %s, %v: %w", run.Data.Definition.Name, run.Data.Name, run.DType, err)
	}
	return rows, nil
}

func (run *Run) measure() ([]Row, error) {
	exact, err := run.Enclose(truth.Exact)
	if err != nil {
		return nil, err
	}
	rounded, err := run.Enclose(truth.Rounded)
	if err != nil {
		return nil, err
	}
	answer, err := run.Answer()
	if err != nil {
		return nil, err
	}
	var rows []Row
	for i, o := range run.Data.Definition.Operands {
		if !o.IsOut {
			continue
		}
		if o.IsInt() {
			if err := admits(rounded, i, answer[i]); err != nil {
				return nil, fmt.Errorf("%s%w", o.Name, err)
			}
			continue
		}
		row := Row{
			Operation: run.Operation, Data: run.Data, DType: run.DType,
			Output: o.Name, Storage: answer[i].DType,
		}
		j := judge{operand: i, y: answer[i], exact: exact, rounded: rounded, form: run.boundFor(o.Name)}
		if j.form != nil {
			j.bound = j.form.At(run.call())
		}
		if err := row.measure(j); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// admits returns an error unless every int32 of an output is among the admitted values.
func admits(rounded *truth.Result, operand int, y num.Array) error {
	for r := range y.Rows {
		for c := range y.Cols {
			if !rounded.Admits(operand, r, c, y.Bits(r, c)) {
				return fmt.Errorf("[%d,%d]: the reference gives %d, want one of %v", r, c, y.Int(r, c), rounded.Ints(operand, r, c))
			}
		}
	}
	return nil
}

func (row *Row) measure(j judge) error {
	correct, err := j.exact.Round(j.operand)
	if err != nil {
		return err
	}
	y := j.y
	var promised, measured []float64
	for r := range y.Rows {
		for c := range y.Cols {
			row.Elements++
			e, err := j.element(r, c)
			if err != nil {
				return fmt.Errorf("%s[%d,%d]: %w", row.Output, r, c, err)
			}
			state := correct.State[r*y.Cols+c]
			switch {
			case state == truth.Unknown || e.isUnknown:
				row.Unknown++
				continue
			case state == truth.Undecided:
				row.Undecided++
			case num.Distance(y.DType, y.Bits(r, c), correct.Bits[r*y.Cols+c]) != 0:
				row.Misrounded++
			}
			promised = append(promised, e.promise)
			measured = append(measured, e.measured)
		}
	}
	row.Promise, row.Measured = spread(promised), spread(measured)
	return nil
}

// judge compares the answers of one output with what is promised.
type judge struct {
	operand        int
	y              num.Array
	exact, rounded *truth.Result
	form           *bound.Form // nil if there is none
	bound          func(r, c int) float64
}

// estimate is the result for one element.
type estimate struct {
	promise   float64 // in ulps of the answer
	measured  float64 // in ulps of the truth
	isUnknown bool
}

// element checks one answer in three ways: it is one of the stored values that the
// rounded enclosure admits, its distance from the truth is at most the promised one, and
// at most that of the closed form.
func (j judge) element(r, c int) (estimate, error) {
	t, w := j.exact.At(j.operand, r, c), j.rounded.At(j.operand, r, c)
	if !t.Known() || !w.Known() {
		return estimate{isUnknown: true}, nil
	}
	d, bits := j.y.DType, j.y.Bits(r, c)
	lo, hi := j.rounded.Between(j.operand, r, c)
	if i := num.Index(d, bits); num.IsNaN(d, bits) || i < num.Index(d, lo) || i > num.Index(d, hi) {
		return estimate{}, fmt.Errorf("the reference gives %#x (%v), want %#x to %#x; truth %v, rounded %v", bits, j.y.At(r, c), lo, hi, t, w)
	}
	v := float64(j.y.At(r, c))
	if math.IsInf(v, 0) {
		return estimate{isUnknown: true}, nil
	}
	tlo, thi := t.Bounds()
	distance, radius := max(thi-v, v-tlo), truth.Radius(w, t)
	promise := num.ULP(d, v)/2 + radius
	if distance > promise {
		return estimate{}, fmt.Errorf("the reference gives %v, truth %v: %g apart, promised %g", v, t, distance, promise)
	}
	if j.form != nil {
		if err := check(j.form, j.bound(r, c), v, d, t, radius); err != nil {
			return estimate{}, err
		}
	}
	return estimate{promise: promise / num.ULP(d, v), measured: distance / num.ULP(d, t.Mid)}, nil
}

func spread(xs []float64) Spread {
	if len(xs) == 0 {
		return Spread{}
	}
	slices.Sort(xs)
	return Spread{Median: xs[len(xs)/2], Worst: xs[len(xs)-1]}
}
