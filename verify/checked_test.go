package verify_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/op/embedding"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/tensor"
	"tokitai/verify"
)

// operand makes a tensor of an operand, in memory with gaps between its rows.
func operand(t *testing.T, q *engine.Queue, o *def.Operand, dtype num.DType, sizes map[string]int, gap int) *tensor.Tensor {
	t.Helper()
	g := gen.New(o.Name)
	var shape []int
	for _, letter := range o.Dims {
		shape = append(shape, sizes[letter])
	}
	if len(shape) == 0 {
		shape = []int{1}
	}
	if o.IsIndex {
		count := 1
		for _, n := range shape {
			count *= n
		}
		values := make([]int32, count)
		for i := range values {
			if values[i] = int32(g.Below(o.LimitIn(sizes))); o.IsOffsets {
				values[i] = int32(i * sizes[o.Bound] / (count - 1))
			}
		}
		return must(t)(tensor.FromInt32(q.Device(), values, shape...))
	}
	if len(shape) == 2 && gap > 0 {
		wide := must(t)(tensor.New(q.Device(), dtype, shape[0], shape[1]+gap))
		x := must(t)(wide.Slice(0, shape[0], 0, shape[1]))
		fillNormal(t, g, x)
		return x
	}
	x := must(t)(tensor.New(q.Device(), dtype, shape...))
	fillNormal(t, g, x)
	return x
}

func fillNormal(t *testing.T, g *gen.Generator, x *tensor.Tensor) {
	t.Helper()
	a, ok := x.Array()
	if !ok {
		t.Fatalf("%v is not in the memory of the host", x)
	}
	for r := range a.Rows {
		for c := range a.Cols {
			a.Set(r, c, abs(g.Normal())+0.25)
		}
	}
}

func must(t *testing.T) func(x *tensor.Tensor, err error) *tensor.Tensor {
	return func(x *tensor.Tensor, err error) *tensor.Tensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

// sizesOf has a small size for every letter.
var sizesOf = map[string]int{"T": 6, "S": 3, "E": 5, "E+1": 6, "R": 5, "C": 37, "H": 2, "M": 4, "K": 9, "N": 16, "Q": 12, "V": 7, "D": 3, "P": 4, "G": 2, "G+1": 3, "J": 2, "B": 2, "B+1": 3}

// expectReports checks that the reports of checked calls are valid and have a verdict.
func expectReports(t *testing.T, what string, r *verify.CallReport, want evidence.Verdict) []*evidence.Report {
	t.Helper()
	if got := r.Verdict(); got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
	for _, part := range r.Reports() {
		if err := part.Check(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if part.Verdict != want {
			t.Errorf("%s: %s is %s: %s", what, part.Lowering, part.Verdict, part.Reason)
		}
	}
	return r.Reports()
}

// TestCheckedCalls makes a checked call of every definition: in every format, with contiguous and
// strided rows, and in place.
func TestCheckedCalls(t *testing.T) {
	t.Parallel()
	q := cpu.Queue()
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			for i, formats := range d.Formats() {
				if !isTried(i, 3) {
					continue
				}
				for _, gap := range testlevel.Pick([]int{3}, []int{0, 3}) {
					args, params := engine.Args{}, engine.Params{}
					for i := range d.Operands {
						args[d.Operands[i].Name] = operand(t, q, &d.Operands[i], formats[i], sizesOf, gap)
					}
					for i, p := range d.Params {
						params[p.Name] = 0.125 * float64(i+1)
						if p.IsInt {
							params[p.Name] = p.Range.Clamp(float64(i + 1))
						}
					}
					report := &verify.CallReport{Tool: "test", Version: "0"}
					if err := engine.Run(q, d, args, engine.WithParams(params), verify.Checked(report)); err != nil {
						t.Fatalf("%s %v: %v", d.Name, formats, err)
					}
					parts := expectReports(t, d.Name, report, evidence.Accepted)
					if len(parts) != 1 || parts[0].Level != "call" || parts[0].Elements == 0 || parts[0].Formats[0] == "" {
						t.Errorf("%s: %d reports", d.Name, len(parts))
					}
					for i := range d.Operands {
						for _, partner := range d.InPlacePartners(&d.Operands[i]) {
							if formats[i] != formats[d.Operand(partner)] {
								continue
							}
							inPlace := engine.Args{}
							for name, x := range args {
								inPlace[name] = x
							}
							inPlace[d.Operands[i].Name] = args[partner]
							report := &verify.CallReport{Tool: "test", Version: "0"}
							if err := engine.Run(q, d, inPlace, engine.WithParams(params), verify.Checked(report)); err != nil {
								t.Fatalf("%s in place: %v", d.Name, err)
							}
							expectReports(t, d.Name+" in place", report, evidence.Accepted)
						}
					}
				}
			}
		}
	}
}

// TestCheckedOperations runs all operations as users call them. One may run several kernels.
func TestCheckedOperations(t *testing.T) {
	t.Parallel()
	q := cpu.Queue()
	square := operand(t, q, &softmax.ForwardDefinition.Operands[0], num.F32, sizesOf, 0)
	other := operand(t, q, &softmax.ForwardDefinition.Operands[0], num.F32, sizesOf, 0)
	special := map[string]engine.Args{ // those whose inputs are not one definition's
		"norm.square_sum": {"a": square, "b": other},
		"norm.clip":       {"a": square, "b": other},
		"adamw.step_all":  {"a.weight": square, "a.m": square, "a.v": square, "a.grad": other, "b.weight": other, "b.m": other, "b.v": other, "b.grad": square},
	}
	kernels := map[string]int{"norm.square_sum": 3, "norm.clip": 4, "adamw.step_all": 2}
	for _, o := range all.Operations {
		params := map[string]string{}
		for _, p := range o.Params {
			if p.Default == "" {
				params[p.Name] = "1"
			}
			if p.Name == "vocab" {
				params[p.Name] = fmt.Sprint(sizesOf["V"])
			}
			if p.Name == "experts" {
				params[p.Name] = fmt.Sprint(sizesOf["E"])
			}
		}
		values, err := o.NewValues(params)
		if err != nil {
			t.Fatal(err)
		}
		d, in := o.Definitions[0], special[o.Name]
		if in == nil {
			in = engine.Args{}
			for i := range d.Operands {
				if d.Operands[i].IsIn {
					in[d.Operands[i].Name] = operand(t, q, &d.Operands[i], d.Formats()[0][i], sizesOf, 0)
				}
			}
		}
		report := &verify.CallReport{Tool: "test", Version: "0"}
		if _, err := o.Run(q, in, values, verify.Checked(report)); err != nil {
			t.Errorf("%s: %v", o.Name, err)
			continue
		}
		want := max(1, kernels[o.Name])
		if got := len(expectReports(t, o.Name, report, evidence.Accepted)); got != want {
			t.Errorf("%s: %d reports, want %d", o.Name, got, want)
		}
	}
}

// TestCheckedSkippedIndices checks that a skipped index out of range gives zeros, and that these are
// accepted.
func TestCheckedSkippedIndices(t *testing.T) {
	t.Parallel()
	q := cpu.Queue()
	index := must(t)(tensor.FromInt32(q.Device(), []int32{0, -1, 3, 1, 0}, 5))
	weight := must(t)(tensor.FromFloat32(q.Device(), num.F16, []float32{1, 2, 3, 4, 5, 6}, 3, 2))
	out := must(t)(tensor.New(q.Device(), num.F16, 5, 2))
	report := &verify.CallReport{Tool: "test", Version: "0"}
	if err := embedding.Forward(q, out, index, weight, engine.WithBadIndex(engine.Skip), verify.Checked(report)); err != nil {
		t.Fatal(err)
	}
	if err := embedding.Backward(q, weight, index, out, engine.WithBadIndex(engine.Skip), verify.Checked(report)); err != nil {
		t.Fatal(err)
	}
	if n := len(expectReports(t, "skipped", report, evidence.Accepted)); n != 2 {
		t.Errorf("%d reports, want 2", n)
	}
}

// rmsnorm is a definition that no folder of op has.
var rmsnorm = def.Must(def.Rowwise("rmsnorm", func(b *def.Builder) {
	x, gamma, eps := b.In("x"), b.InCol("gamma"), b.Param("eps")
	b.Out("y", x.Mul(fn.Rsqrt(def.RowSum(x.Mul(x)).Div(b.Columns()).Add(eps))).Mul(gamma), def.Like("x"))
}))

func TestCheckedDefinitionOfAUser(t *testing.T) {
	t.Parallel()
	q := cpu.Queue()
	x := must(t)(tensor.FromFloat32(q.Device(), num.F16, []float32{3, -4, 0, 0, 1, 1, 1, 1}, 2, 4))
	gamma := must(t)(tensor.FromFloat32(q.Device(), num.F32, []float32{1, 1, 1, 2}, 4))
	report := &verify.CallReport{Tool: "test", Version: "0"}
	if _, err := engine.Eval(q, rmsnorm, engine.Args{"x": x, "gamma": gamma}, engine.WithParams(engine.Params{"eps": 1e-6}), verify.Checked(report)); err != nil {
		t.Fatal(err)
	}
	part := expectReports(t, "rmsnorm", report, evidence.Accepted)[0]
	if part.Op != "rmsnorm" || part.TruthElements != 8 || part.WorstErrorULP == nil {
		t.Errorf("%s: %d outputs compared with the truth", part.Op, part.TruthElements)
	}
	// And it is verified without an operation.
	for _, l := range engine.Lowerings(cpu.Backend, rmsnorm) {
		for _, dtype := range num.FloatDTypes {
			r := run(t, &verify.Target{Definition: rmsnorm, DType: dtype, Lowering: l}, verify.Options{Seed: 1}).Report
			if r.Verdict != evidence.Accepted {
				t.Errorf("%s %s: %s %s", r.Lowering, dtype, r.Verdict, r.Reason)
			}
		}
	}
}

// TestCheckedRejects checks a lowering that is wrong at one place, which its self-tests do not
// reach.
func TestCheckedRejects(t *testing.T) {
	t.Parallel()
	q := cpu.Queue()
	x := must(t)(tensor.FromFloat32(q.Device(), num.F16, []float32{3, -4, 0, 0, 1, 1, 1, 1}, 2, 4))
	y := must(t)(tensor.New(q.Device(), num.F16, 2, 4))
	wrong := flipWhere(func(_ *engine.Launch, r, c int) bool { return r == 1 && c == 2 })
	for _, replay := range []string{"", "run my program"} {
		report := &verify.CallReport{Tool: "test", Version: "0", Replay: replay}
		if err := softmax.Forward(q, y, x, engine.Using(wrong), engine.WithAdmission(engine.Off), verify.Checked(report)); err != nil {
			t.Fatal(err)
		}
		part := expectReports(t, "wrong", report, evidence.Rejected)[0]
		f := part.Failure
		if f.Place != "y[1,2]" || f.Tier != evidence.Bits || f.Want != "0x3400 (0.25)" || f.Got != "0x3401 (0.25024414)" || f.Truth != "0.25" || f.Inputs[0] != "x[1,2] = 0x3c00 (1)" {
			t.Errorf("%+v", f)
		}
		if part.Mismatches != 1 || f.Replay != replay || (replay == "") != strings.Contains(f.Note, part.CaseList[0].InputsSHA256) {
			t.Errorf("%d mismatches, replay %q", part.Mismatches, f.Replay)
		}
	}
	// Writing to an input is seen, and taking its place is not taken for that.
	writing := bitwise(func(d *def.Definition, l *engine.Launch) error {
		store(d, l, answer(d, l), nil)
		poke(l, 0, 0)
		return nil
	})
	report := &verify.CallReport{Tool: "test", Version: "0"}
	if err := softmax.Forward(q, y, x, engine.Using(writing), engine.WithAdmission(engine.Off), verify.Checked(report)); err != nil {
		t.Fatal(err)
	}
	part := expectReports(t, "writing", report, evidence.Rejected)[0]
	if part.Failure.Tier != evidence.Structure || !strings.Contains(part.Reason, "it writes to its input x") {
		t.Errorf("%+v", part.Failure)
	}
}

// TestCheckedBounded holds a call to the set of what its lowering declares, tile by tile.
func TestCheckedBounded(t *testing.T) {
	defer verify.SetTileElements(3)()
	q := cpu.Queue()
	a := operand(t, q, &gemm.ForwardDefinition.Operands[0], num.F16, sizesOf, 0)
	b := operand(t, q, &gemm.ForwardDefinition.Operands[1], num.F16, sizesOf, 0)
	c := must(t)(tensor.New(q.Device(), num.F32, sizesOf["M"], sizesOf["N"]))
	for want, l := range map[evidence.Verdict]*engine.Lowering{
		evidence.Accepted: bounded(lanes16, plainProduct(lanes(16))),
		evidence.Rejected: bounded(lanes16, plainProduct(func(x []float32) float32 { return sequential(x) + 1 })),
	} {
		report := &verify.CallReport{Tool: "test", Version: "0"}
		if err := gemm.Forward(q, c, a, b, engine.Using(l), engine.WithAdmission(engine.Off), verify.Checked(report)); err != nil {
			t.Fatal(err)
		}
		part := expectReports(t, "bounded", report, want)[0]
		if part.Contract != evidence.ContractBounded || part.Model != "lanes(16)" || part.Coverage.Tiles < 2 {
			t.Errorf("%s %s, %d tiles", part.Contract, part.Model, part.Coverage.Tiles)
		}
	}
}

// TestCheckedCallFails checks that a failing call returns its error, and that the report then has
// no decision.
func TestCheckedCallFails(t *testing.T) {
	t.Parallel()
	q := cpu.Queue()
	x := must(t)(tensor.New(q.Device(), num.F16, 2, 4))
	broken := errors.New("no luck today")
	l := bitwise(func(*def.Definition, *engine.Launch) error { return broken })
	report := &verify.CallReport{Tool: "test", Version: "0"}
	if err := softmax.Forward(q, x, x, engine.Using(l), engine.WithAdmission(engine.Off), verify.Checked(report)); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	part := expectReports(t, "failing", report, evidence.Inadmissible)[0]
	if !strings.Contains(part.Reason, "no luck today") || part.Cases != 0 {
		t.Errorf("reason %q, %d cases", part.Reason, part.Cases)
	}
	// A call that is refused never was one.
	refused := &verify.CallReport{}
	if err := softmax.Forward(q, x, nil, verify.Checked(refused)); err == nil {
		t.Error("a call without x was not refused")
	}
	if got := refused.Verdict(); got != evidence.Skipped || len(refused.Reports()) != 0 {
		t.Errorf("%s, %d reports; want skipped without one", got, len(refused.Reports()))
	}
	// Nobody has to look at the report.
	if err := softmax.Forward(q, x, x, verify.Checked(nil)); err != nil {
		t.Error(err)
	}
}

// TestVerdictOfSeveral checks that the verdict of several reports is the worst.
func TestVerdictOfSeveral(t *testing.T) {
	t.Parallel()
	q := cpu.Queue()
	x := must(t)(tensor.FromFloat32(q.Device(), num.F16, []float32{1, 2, 3}, 1, 3))
	y := must(t)(tensor.New(q.Device(), num.F16, 1, 3))
	report := &verify.CallReport{Tool: "test", Version: "0"}
	for _, step := range []struct {
		l    *engine.Lowering
		want evidence.Verdict
	}{
		{bitwise(honest), evidence.Accepted},
		{bitwise(func(*def.Definition, *engine.Launch) error { return errors.New("no") }), evidence.Inadmissible},
		{bitwise(honest), evidence.Inadmissible},
		{flipWhere(func(*engine.Launch, int, int) bool { return true }), evidence.Rejected},
		{bitwise(honest), evidence.Rejected},
	} {
		softmax.Forward(q, y, x, engine.Using(step.l), engine.WithAdmission(engine.Off), verify.Checked(report))
		if got := report.Verdict(); got != step.want {
			t.Errorf("after %d calls: %s, want %s", len(report.Reports()), got, step.want)
		}
	}
}

// TestCheckedTogether checks that two observers can observe one call, and that concurrent calls do
// not mix their data.
func TestCheckedTogether(t *testing.T) {
	t.Parallel()
	q := cpu.Queue()
	shared, own := &verify.CallReport{Tool: "test", Version: "0"}, make([]verify.CallReport, 8)
	var group sync.WaitGroup
	for i := range own {
		own[i].Tool, own[i].Version = "test", "0"
		group.Go(func() {
			values := make([]float32, 6*(i+1))
			for k := range values {
				values[k] = float32(k*i) / 7
			}
			x, err := tensor.FromFloat32(q.Device(), num.F32, values, 2, 3*(i+1))
			if err == nil {
				err = softmax.Forward(q, x, x, verify.Checked(shared), verify.Checked(&own[i]))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := len(expectReports(t, "shared", shared, evidence.Accepted)); n != len(own) {
		t.Errorf("%d reports, want %d", n, len(own))
	}
	for i := range own {
		parts := expectReports(t, "own", &own[i], evidence.Accepted)
		if want := fmt.Sprintf("x f32[2,%d]", 3*(i+1)); len(parts) != 1 || parts[0].CaseList[0].Shapes[0] != want {
			t.Errorf("call %d: %d reports, shapes %v; want %s", i, len(parts), parts[0].CaseList[0].Shapes, want)
		}
	}
}

// TestCheckedLeavesResults checks that a checked call computes the same as any other.
func TestCheckedLeavesResults(t *testing.T) {
	t.Parallel()
	q := cpu.Queue()
	d := layernorm.ForwardDefinition
	args := engine.Args{}
	for i := range d.Operands {
		args[d.Operands[i].Name] = operand(t, q, &d.Operands[i], d.Formats()[0][i], sizesOf, 2)
	}
	read := func(opts ...engine.CallOption) string {
		if err := engine.Run(q, d, args, append(opts, engine.WithParams(engine.Params{"eps": 1e-5}))...); err != nil {
			t.Fatal(err)
		}
		raw, err := args["y"].Bytes()
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if plain, checked := read(), read(verify.Checked(nil)); plain != checked {
		t.Error("a checked call gives other bits")
	}
}

// TestCheckedInterrupted checks that a call does not wait for the comparison when its context ends,
// and that the report then claims nothing.
func TestCheckedInterrupted(t *testing.T) {
	defer verify.SetTileElements(3)()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q := cpu.Queue().WithContext(ctx)
	x, err := tensor.FromFloat32(q.Device(), num.F16, []float32{1, 2, 3, 4, 5, 6, 7, 8}, 4, 2)
	if err != nil {
		t.Fatal(err)
	}
	y, err := tensor.New(q.Device(), num.F16, 4, 2)
	if err != nil {
		t.Fatal(err)
	}
	report := &verify.CallReport{Tool: "test", Version: "0", Progress: func(definition string, done, total int) {
		if definition != softmax.ForwardDefinition.Name || total != 4 {
			t.Errorf("told of %d of %d of %s", done, total, definition)
		}
		cancel()
	}}
	if err := softmax.Forward(q, y, x, verify.Checked(report)); err != nil {
		t.Error(err)
	}
	parts := report.Reports()
	if len(parts) != 1 || report.Verdict() != evidence.Interrupted || !strings.HasPrefix(parts[0].Reason, "interrupted: ") {
		t.Fatalf("%s, %+v", report.Verdict(), parts)
	}
	if err := parts[0].Check(); err != nil {
		t.Error(err)
	}
}
