package verify_test

import (
	"fmt"
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
	"tokitai/op"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/truth"
	"tokitai/verify"
)

var pairwiseOrder = def.Order{Kind: def.Pairwise}

// orders has honest ways to add up, and what they may declare.
var orders = []struct {
	name     string
	sum      func([]float32) float32
	declared []def.Order
}{
	{"sequential", sequential, []def.Order{def.Sequential, {}}},
	{"lanes16", lanes(16), []def.Order{lanes16, {Kind: def.Height, Width: 4096/16 + 3}, {}}},
	{"pairwise", pairwise, []def.Order{pairwiseOrder, {}}},
}

// scatterAdd adds rows up, each result in its order.
func scatterAdd(sum func([]float32) float32) kernelFunc {
	return func(d *def.Definition, l *engine.Launch) error {
		x := l.Arrays()
		index, rows, result := x[0], x[1], x[2]
		for v := range result.Rows {
			for c := range result.Cols {
				var terms []float32
				if d.Accumulates() {
					terms = append(terms, result.At(v, c))
				}
				for q := range index.Rows {
					if index.Int(q, 0) == int32(v) {
						terms = append(terms, rows.At(q, c))
					}
				}
				if !d.Accumulates() || len(terms) > 1 {
					result.Set(v, c, sum(append(terms, 0)))
				}
			}
		}
		return nil
	}
}

// TestHonestOrders checks that kernels that sum in an order other than the definition's are
// accepted under the order that they declare.
func TestHonestOrders(t *testing.T) {
	t.Parallel()
	isSmoke := testlevel.Current() == testlevel.Smoke
	for n, o := range orders {
		for turn, declared := range o.declared {
			for i, d := range []*def.Definition{gemm.ForwardDefinition, gemm.GradADefinition, gemm.GradBAccumulateDefinition} {
				if isSmoke && (i != 1 || n != 1 || turn > 0) {
					continue
				}
				dtype := num.FloatDTypes[(i+turn)%3]
				x := brief(target(d, dtype, bounded(declared, plainProduct(o.sum))))
				expectAllAccepted(t, x, o.name)
			}
			for i, dtype := range num.FloatDTypes {
				if isSmoke && (i != n || turn == 0) {
					continue
				}
				l := bounded(declared, softmaxOf(o.sum))
				l.Promise.FunctionULP = 1
				expectAllAccepted(t, target(softmax.ForwardDefinition, dtype, l), o.name)
			}
		}
		for _, d := range []*def.Definition{embedding.BackwardDefinition, embedding.AccumulateDefinition} {
			for i, dtype := range num.FloatDTypes {
				if isSmoke && (i != n || d.Accumulates() != (n == 1)) {
					continue
				}
				expectAllAccepted(t, target(d, dtype, bounded(def.Order{}, scatterAdd(o.sum))), o.name)
			}
		}
	}
}

// brief leaves out the longer sums of products at low test levels.
func brief(x *verify.Target) *verify.Target {
	if testLevel() == verify.Smoke && x.Definition.Product() != nil {
		o := *x.Operation
		o.Data = slices.DeleteFunc(slices.Clone(o.Data), func(d op.Data) bool { return d.Definition == x.Definition && work(x.Definition, d.Sizes) > 1<<18 })
		x.Operation = &o
	}
	return x
}

func work(d *def.Definition, sizes map[string]int) int {
	n := 1
	for _, letter := range d.Sizes() {
		n *= sizes[letter]
	}
	return n
}

func expectAllAccepted(t *testing.T, x *verify.Target, what string) *evidence.Report {
	t.Helper()
	r := run(t, x, verify.Options{Seed: 1, Level: testLevel()}).Report
	if r.Verdict != evidence.Accepted {
		t.Errorf("%s %s, %s kernel declared as %s: %s: %s %+v", x.Definition.Name, x.DType, what, x.Lowering.Promise.Order, r.Verdict, r.Reason, r.Failure)
	}
	return r
}

// TestAnswerIsAdmissible checks, for definitions whose results are not exact, that the reference is
// accepted as a kernel that promises no bits.
func TestAnswerIsAdmissible(t *testing.T) {
	t.Parallel()
	for _, x := range someOf(cpuTargets()) {
		if d := x.Definition; d.IsExact() {
			continue
		}
		free := *x.Lowering
		free.Promise.Name = promise.Stable
		r := expectAllAccepted(t, brief(&verify.Target{Operation: x.Operation, Definition: x.Definition, DType: x.DType, Lowering: &free}), "the definition's own")
		if r.Contract != evidence.ContractBounded || r.Model != "any order" {
			t.Errorf("%s: contract %s, model %s", x.ID(), r.Contract, r.Model)
		}
	}
}

// keep13 rounds to 13 significant bits before it stores.
func keep13(d num.DType, v float32) uint32 {
	bits := math.Float32bits(v)
	const dropped = 24 - 13
	half := uint32(1)<<(dropped-1) - 1 + bits>>dropped&1
	return num.Narrow(d, math.Float32frombits((bits+half)>>dropped<<dropped))
}

// cutOff16 sums in 16 lanes and rounds toward zero.
func cutOff16(terms []float32) float32 {
	return def.Fold(lanes16, terms, func(a, b float32) float32 { return towardZero(float64(a) + float64(b)) })
}

// TestStatisticsBite checks that each of three statistical tests rejects a kernel that no other
// tier rejects.
func TestStatisticsBite(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what  string
		order def.Order
		run   kernelFunc
		name  string
		text  string
	}{
		{"bias: sums are cut off", def.Order{}, plainProduct(cutOff16), "normal-64-summed/M=24,K=64,N=48/C=f32", "biased"},
		{"spread: another order than declared", lanes16, plainProduct(sequential), "normal-1024-summed/M=16,K=1024,N=48/C=f32", "errors are larger than order lanes(16) gives"},
		{"misrounding: rounded twice", def.Sequential, product(func(_ int, x []float32) float32 { return sequential(x) }, keep13),
			"normal-1024-summed/M=16,K=1024,N=48", "are not correctly rounded"},
	} {
		t.Run(test.what, func(t *testing.T) {
			x := target(gemm.ForwardDefinition, num.F16, bounded(test.order, test.run))
			r := expectRejected(t, x, test.name, test.text, evidence.Statistics)
			for _, tier := range r.Tiers {
				if tier.Name == evidence.Statistics && tier.Failed != 1 {
					t.Errorf("%d of %d tests failed, want 1: %s", tier.Failed, tier.Checks, r.Reason)
				}
			}
		})
	}
	// A rowwise kernel that gives the least admissible value everywhere: few columns
	// leave one, many leave two or three.
	order := def.Order{}
	least := bounded(order, func(d *def.Definition, l *engine.Launch) error {
		rounded, err := truth.Enclose(d, l.Arrays(), truth.Options{Mode: truth.Rounded, Order: &order})
		if err != nil {
			return err
		}
		out := answer(d, l)
		for r := range out[1].Rows {
			for c := range out[1].Cols {
				bits, _ := rounded.Between(1, r, c)
				out[1].SetBits(r, c, bits)
			}
		}
		store(d, l, out, nil)
		return nil
	})
	expectRejected(t, target(softmax.ForwardDefinition, num.F16, least), "normal/R=2,C=2000", "outputs are biased", evidence.Statistics)
	expectAccepted(t, target(softmax.ForwardDefinition, num.F16, least), "normal/R=64,C=9")
}

// TestNoFalseAlarms verifies honest kernels under many seeds.
func TestNoFalseAlarms(t *testing.T) {
	t.Parallel()
	seeds := testlevel.Pick[uint64](3, 50, 1000)
	for _, test := range []struct {
		d     *def.Definition
		dtype num.DType
		l     *engine.Lowering
		name  string
	}{
		{gemm.ForwardDefinition, num.F16, bounded(lanes16, plainProduct(lanes(16))), "normal-64-summed/M=16,K=64,N=16/C=f32"},
		{gemm.ForwardDefinition, num.F16, bounded(lanes16, plainProduct(lanes(16))), "normal-64-summed/M=16,K=64,N=16"},
		{gemm.ForwardDefinition, num.BF16, bounded(def.Sequential, plainProduct(sequential)), "normal-64-summed/M=16,K=64,N=16/C=f32"},
		{gemm.ForwardDefinition, num.BF16, bounded(pairwiseOrder, plainProduct(pairwise)), "normal-64-summed/M=16,K=64,N=16"},
		{gemm.ForwardDefinition, num.F32, bounded(pairwiseOrder, plainProduct(pairwise)), "normal-64-summed/M=16,K=64,N=16"},
		{gemm.ForwardDefinition, num.F32, bounded(def.Order{}, plainProduct(sequential)), "normal-64-summed/M=1,K=64,N=2"},
		{softmax.ForwardDefinition, num.F16, bounded(def.Sequential, softmaxOf(sequential)), "normal/R=1,C=2500"}, // few rows: their errors are alike
		{softmax.ForwardDefinition, num.F16, bounded(def.Sequential, softmaxOf(sequential)), "normal/R=1,C=3"},
		{softmax.ForwardDefinition, num.F16, bounded(def.Sequential, softmaxOf(sequential)), "one-dominates/R=4,C=100"},
		{softmax.ForwardDefinition, num.BF16, bounded(def.Sequential, softmaxOf(sequential)), "one-dominates/R=4,C=100"},
		{softmax.ForwardDefinition, num.BF16, bounded(def.Sequential, softmaxOf(sequential)), "spread/R=4,C=100"},
	} {
		test.l.Promise.FunctionULP = 1
		x := target(test.d, test.dtype, test.l)
		alarms, first := 0, ""
		for seed := range seeds {
			if r := run(t, x, verify.Options{Case: test.name, Seed: seed}).Report; r.Verdict != evidence.Accepted {
				if alarms++; first == "" {
					first = r.Reason
				}
			}
		}
		if alarms > 0 {
			t.Errorf("%s %s, %s, %s: %d alarms in %d seeds: %s", test.d.Name, test.dtype, test.l.Promise.Order, test.name, alarms, seeds, first)
		}
	}
}

// TestAlikeErrors checks that outputs that take only few values are not rejected for a bias: a
// function of 16-bit inputs has few results, whose errors do not average out.
func TestAlikeErrors(t *testing.T) {
	t.Parallel()
	free := *engine.Lowerings(cpu.Backend, gelu.ForwardDefinition)[0]
	free.Promise.Name = promise.Stable
	for _, dtype := range testlevel.Pick([]num.DType{num.F16}, []num.DType{num.F16, num.BF16}) {
		for _, data := range gelu.Operations[0].Data {
			name := strings.ReplaceAll(data.Name, " ", "-") + "/R=64,C=1024"
			r := expectAccepted(t, target(gelu.ForwardDefinition, dtype, &free), name)
			for _, tier := range r.Tiers {
				if tier.Name == evidence.Statistics && tier.Checks != 1 {
					t.Errorf("%s %s: %d tests, want 1", dtype, name, tier.Checks)
				}
			}
		}
	}
}

// TestReplayIsNoStricter checks that a case that passes in a verification passes when it is run by
// its name.
func TestReplayIsNoStricter(t *testing.T) {
	t.Parallel()
	x := brief(target(gemm.ForwardDefinition, num.F16, bounded(lanes16, plainProduct(lanes(16)))))
	for i, c := range verify.CasesOf(x, verify.Smoke) {
		name := verify.CaseName(x, c)
		if !isTried(i, 3) || strings.Contains(name, "concurrent:") || strings.Contains(name, "workers:") {
			continue
		}
		if r := run(t, x, verify.Options{Case: name, Seed: 1}).Report; r.Verdict != evidence.Accepted {
			t.Errorf("%s: %s %s", name, r.Verdict, r.Reason)
		}
	}
}

// TestGatherBounded checks that copies must be exact under every promise.
func TestGatherBounded(t *testing.T) {
	t.Parallel()
	n := 0
	l := bounded(def.Order{}, changing(&n, otherNaN(num.F16)))
	expectRejected(t, target(embedding.ForwardDefinition, num.F16, l), "special/Q=70,V=9,D=13", "differs", evidence.Set)
	if n == 0 {
		t.Error("nothing was changed")
	}
}

// TestTiersOfBounded checks the tiers of a kernel that promises no bits.
func TestTiersOfBounded(t *testing.T) {
	t.Parallel()
	r := run(t, brief(target(gemm.ForwardDefinition, num.F16, bounded(lanes16, plainProduct(lanes(16))))), verify.Options{Seed: 1}).Report
	var asked []evidence.TierName
	for _, tier := range r.Tiers {
		if tier.Checks > 0 {
			asked = append(asked, tier.Name)
		}
	}
	want := slices.DeleteFunc(slices.Clone(evidence.TierNames), func(n evidence.TierName) bool { return n == evidence.Bits })
	if !slices.Equal(asked, want) {
		t.Errorf("tiers %v, want %v", asked, want)
	}
	if got := fmt.Sprint(r.Model, r.Contract); got != "lanes(16)bounded" {
		t.Errorf("model and contract %s", got)
	}
}
