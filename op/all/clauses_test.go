package all_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/adamw"
	"tokitai/op/all"
	"tokitai/op/attention"
	"tokitai/op/cache"
	"tokitai/op/combine"
	"tokitai/op/crossentropy"
	"tokitai/op/dispatch"
	"tokitai/op/dropout"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/linear"
	"tokitai/op/norm"
	"tokitai/op/relu2"
	"tokitai/op/rmsnorm"
	"tokitai/op/rope"
	"tokitai/op/router"
	"tokitai/op/sample"
	"tokitai/op/sgd"
	"tokitai/op/silu"
	"tokitai/op/softmax"
	"tokitai/op/swiglu"
)

// TestEveryClauseIsClassified: every clause of every definition is of one kind, and those about
// special values say where they hold.
func TestEveryClauseIsClassified(t *testing.T) {
	for _, o := range all.Operations {
		seen := map[string]op.Clause{}
		for _, c := range o.Clauses {
			if _, ok := seen[c.Name()]; ok {
				t.Errorf("%s: %s occurs twice", o.Name, c.Name())
			}
			if seen[c.Name()] = c; (c.Kind == op.Special) != (c.Covers != nil) {
				t.Errorf("%s is %s, and says where it holds: %v", c.Name(), c.Kind, c.Covers != nil)
			}
			if c.Text() == "" {
				t.Errorf("%s is no clause of the contract", c.Name())
			}
		}
		count := 0
		for _, d := range o.Definitions {
			for _, line := range d.Contract().Clauses {
				c, ok := seen[d.Name+"."+line.ID]
				if count++; !ok {
					t.Errorf("%s: %s.%s is not classified", o.Name, d.Name, line.ID)
				}
				isSharing := strings.Contains(line.Text, "overlap") || strings.Contains(line.Text, "strided")
				if isSharing && c.Kind != op.Interface {
					t.Errorf("%s is %s: %s", c.Name(), c.Kind, line.Text)
				}
				isSpecial := strings.Contains(line.Text, "NaN") || strings.Contains(line.Text, "Inf") || strings.Contains(line.Text, "subnormals are kept")
				if isSpecial && c.Kind != op.Special {
					t.Errorf("%s is %s: %s", c.Name(), c.Kind, line.Text)
				}
			}
		}
		if count != len(o.Clauses) {
			t.Errorf("%s has %d clauses, and %d that are classified", o.Name, count, len(o.Clauses))
		}
	}
}

func TestClausesByName(t *testing.T) {
	o := crossentropy.Operations[0]
	if c, err := o.ClauseOf("crossentropy.C5"); err != nil || !strings.HasPrefix(c.Text(), "-Inf gives") {
		t.Errorf("crossentropy.C5: got %v, %v", c, err)
	}
	for name, want := range map[string]string{
		"crossentropy.C1":    "clause crossentropy.C1 cannot be waived: it is about the interface (R >= 0, C >= 1",
		"crossentropy.C11":   `clause "crossentropy.C11": crossentropy has none to waive of that name, want crossentropy.C2, crossentropy.C3, crossentropy.C4, crossentropy.C5,`,
		"C5":                 `clause "C5": crossentropy has none to waive`,
		"softmax.forward.C2": "want crossentropy.C2",
	} {
		if _, err := o.ClauseOf(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	if _, err := softmax.Operations[0].ClauseOf("softmax.forward.C5"); err == nil || !strings.Contains(err.Error(), "about arithmetic, which is what the kernel promises") {
		t.Errorf("softmax.forward.C5: got %v", err)
	}
	if _, err := op.Of(softmax.ForwardDefinition, "").ClauseOf("softmax.forward.C2"); err == nil || !strings.HasSuffix(err.Error(), "want none") {
		t.Errorf("a definition of one's own: got %v", err)
	}
}

var (
	inf, nan = math.Inf(1), math.NaN()
	minus    = math.Copysign(0, -1)
)

// TestClausesCover holds the places of every clause about special values against a list, for
// inputs made for it. A place is an output with its row and column, or its row alone: y3, y1[3].
func TestClausesCover(t *testing.T) {
	type rows [][]float64
	covered := map[string]bool{}
	for _, test := range []struct {
		d      *def.Definition
		params []float64
		inputs map[string]rows
		format num.DType
		want   map[string]string // by clause; clauses that are not listed cover nothing
	}{
		{softmax.ForwardDefinition, nil, map[string]rows{"x": {{1, 2, 3}, {1, nan, 3}, {inf, 1, 2}, {-inf, 1, 2}, {-inf, -inf, -inf}, {0, -90, -200}, {minus, 1, 0x1p-130}}}, num.F32, map[string]string{
			"C2": "y1", "C3": "y2", "C4": "y[3,0] y4", "C6": "y[5,1] y[5,2]", "C7": "y[6,0] y[6,2]"}},
		{softmax.ForwardDefinition, nil, map[string]rows{"x": {{0, -10}, {0, -9}, {1, 0x1p-20}}}, num.F16, map[string]string{"C6": "y[0,1]", "C7": "y[2,1]"}},
		{softmax.BackwardDefinition, nil, map[string]rows{"dy": {{1, 2}, {nan, 1}, {1, inf}, {3e38, 3e38}, {1, 2}, {0x1p-140, 1}}, "y": {{0.5, 0.25}, {1, 1}, {1, 1}, {1, 1}, {0, 1}, {1, 0.5}}}, num.F32, map[string]string{
			"C2": "dx1", "C3": "dx2 dx3", "C4": "dx[4,0] dx[5,0]"}}, // the sum of a row of 3e38 is no number to judge dx by
		{gelu.ForwardDefinition, nil, map[string]rows{"x": {{1, nan, inf, -inf, 0, minus, 0x1p-140, 7}}}, num.F32, map[string]string{
			"C2": "y[0,1]", "C3": "y[0,2] y[0,3]", "C4": "y[0,4] y[0,5]", "C6": "y[0,6]"}},
		{gelu.BackwardDefinition, nil, map[string]rows{"dy": {{1, nan, 1, 1, inf, 1, 65504, 0x1p-20, 0x1p-14}}, "x": {{1, 1, nan, -inf, 1, 0, 1.5, 1, -1.5}}}, num.F16, map[string]string{
			"C2": "dx[0,1] dx[0,2]", "C3": "dx[0,3]", "C4": "dx[0,4]", "C5": "dx[0,5]", "C7": "dx[0,6] dx[0,7] dx[0,8]"}},
		{gelu.ErfForwardDefinition, nil, map[string]rows{"x": {{1, nan, inf, -inf, 0, minus, 0x1p-140, 7}}}, num.F32, map[string]string{
			"C2": "y[0,1]", "C3": "y[0,2] y[0,3]", "C4": "y[0,4] y[0,5]", "C6": "y[0,6]"}},
		{gelu.ErfBackwardDefinition, nil, map[string]rows{"dy": {{1, nan, 1, 1, inf, 1, 65504, 0x1p-20, 0x1p-14}}, "x": {{1, 1, nan, -inf, 1, 0, 1.5, 1, -1.5}}}, num.F16, map[string]string{
			"C2": "dx[0,1] dx[0,2]", "C3": "dx[0,3]", "C4": "dx[0,4]", "C5": "dx[0,5]", "C7": "dx[0,6] dx[0,7] dx[0,8]"}},
		{gelu.BackwardDefinition, nil, map[string]rows{"dy": {{1, 1}}, "x": {{0x1p43, 20}}}, num.F32, map[string]string{"C6": "dx[0,0]"}},
		{relu2.ForwardDefinition, nil, map[string]rows{"x": {{1, nan, inf, -inf, 0, minus, -2, 0x1p-20, 300, 0x1p-8}}}, num.F16, map[string]string{
			"C2": "y[0,1] y[0,2] y[0,3]", "C3": "y[0,3] y[0,4] y[0,5] y[0,6]", "C4": "y[0,7] y[0,8] y[0,9]"}},
		{relu2.BackwardDefinition, nil, map[string]rows{"dy": {{1, nan, 1, 1, inf, 1, 65504, 0x1p-20, 0x1p-14, 1}}, "x": {{1, 1, nan, inf, 1, -1, 2, 1, 0.25, 0}}}, num.F16, map[string]string{
			"C2": "dx[0,1] dx[0,2]", "C3": "dx[0,3]", "C4": "dx[0,4]", "C5": "dx[0,5] dx[0,9]", "C6": "dx[0,6] dx[0,7] dx[0,8]"}},
		{silu.ForwardDefinition, nil, map[string]rows{"x": {{1, nan, inf, -inf, 0, minus, 0x1p-140, 7}}}, num.F32, map[string]string{
			"C2": "y[0,1]", "C3": "y[0,2] y[0,3]", "C4": "y[0,4] y[0,5]", "C6": "y[0,6]"}},
		{silu.BackwardDefinition, nil, map[string]rows{"dy": {{1, nan, 1, 1, inf, 1, 65504, 0x1p-20, 0x1p-14}}, "x": {{1, 1, nan, -inf, 1, 0, 2.4, 1, -1.5}}}, num.F16, map[string]string{
			"C2": "dx[0,1] dx[0,2]", "C3": "dx[0,3]", "C4": "dx[0,4]", "C5": "dx[0,5]", "C7": "dx[0,6] dx[0,7] dx[0,8]"}},
		{swiglu.ForwardDefinition, nil, map[string]rows{"gate": {{1, nan, 1, inf, -inf, 1, minus, 0x1p-20, 300, 1, 1}}, "up": {{1, 1, nan, 1, 1, -inf, 1, 1, 300, 0x1p-20, 0x1p-14}}}, num.F16, map[string]string{
			"C2": "y[0,1] y[0,2]", "C3": "y[0,3] y[0,4]", "C4": "y[0,5]", "C5": "y[0,6]", "C7": "y[0,7] y[0,8] y[0,9] y[0,10]"}},
		{swiglu.BackwardDefinition, nil, map[string]rows{
			"dy": {{1, nan, 1, 1, 1, inf, 1, 1, 300, 1}}, "gate": {{1, 1, nan, 1, -inf, 1, 1, 0, 100, 1}}, "up": {{1, 1, 1, nan, 1, 1, inf, 1, 300, 0x1p-20}}}, num.F16, map[string]string{
			"C2": "dgate[0,1] dup[0,1] dgate[0,2] dup[0,2] dgate[0,3]", "C3": "dgate[0,4] dup[0,4]", "C4": "dgate[0,5] dup[0,5] dgate[0,6]", "C5": "dgate[0,7] dup[0,7]", "C7": "dgate[0,8] dgate[0,9]"}},
		{router.SoftmaxForwardDefinition, []float64{2, 1, 1}, map[string]rows{
			"logits": {{1, 2, 3}, {nan, 1, 2}, {inf, 1, 2}, {-inf, 1, 2}, {-inf, -inf, -inf}, {0, -200, -300}}, "bias": {{0, 0, 0}}, "weight": {{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}}}, num.F32, map[string]string{
			"C4": "weight1 expert1 weight2 expert2 weight4 expert4", "C5": "weight3 expert3 weight4 expert4", "C6": "weight5 expert5"}},
		{router.SoftmaxForwardDefinition, []float64{1, 0, 1}, map[string]rows{"logits": {{1, 2}}, "bias": {{nan, 0}}, "weight": {{0}}}, num.F32, map[string]string{"C3": "weight0 expert0"}},
		{router.SigmoidForwardDefinition, []float64{2, 1, 1}, map[string]rows{
			"logits": {{1, 2}, {nan, 1}, {inf, 1}, {-105, 1}, {0, -90}}, "bias": {{0, 0}}, "weight": {{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}}}, num.F32, map[string]string{
			"C4": "weight1 expert1", "C5": "weight2 expert2 weight3 expert3", "C6": "weight3 expert3 weight4 expert4"}},
		{router.SigmoidForwardDefinition, []float64{1, 0, 1}, map[string]rows{"logits": {{1, 2}}, "bias": {{0, nan}}, "weight": {{0}}}, num.F32, map[string]string{"C3": "weight0 expert0"}},
		{router.SoftmaxBackwardDefinition, []float64{1, 0, 1}, map[string]rows{
			"logits": {{1, 2}, {nan, 1}, {1, inf}, {0, 0}}, "bias": {{0, 0}}, "dweight": {{1}, {1}, {1}, {0x1p-140}}}, num.F32, map[string]string{"C3": "dlogits1 dlogits2", "C5": "dlogits3"}},
		{router.SigmoidBackwardDefinition, []float64{1, 0, 1}, map[string]rows{
			"logits": {{1, 2}, {nan, 1}, {1, -100}, {0, 0}}, "bias": {{0, 0}}, "dweight": {{1}, {1}, {1}, {0x1p-140}}}, num.F32, map[string]string{"C3": "dlogits1", "C5": "dlogits[2,1] dlogits3"}},
		{router.BalanceForwardDefinition, []float64{4}, map[string]rows{"logits": {{1, 2}, {nan, 1}, {1, inf}, {-inf, 1}, {-inf, -inf}, {0x1p-70, -200}, {1e30, 0}}, "count": {{3, 1}}}, num.F32, map[string]string{
			"C3": "balance1 z1 balance2 z2 balance4 z4", "C4": "balance3 z3 balance4 z4", "C5": "z5 z6"}},
		{router.BalanceBackwardDefinition, []float64{4}, map[string]rows{
			"logits": {{1, 2}, {nan, 1}, {1, inf}, {-inf, 1}, {-inf, -inf}, {0, -95}}, "count": {{3, 1}}, "dbalance": {{1}, {1}, {1}, {1}, {1}, {1}}, "dz": {{1}, {1}, {1}, {1}, {1}, {1}}}, num.F32, map[string]string{
			"C2": "dlogits1 dlogits2 dlogits4", "C3": "dlogits[3,0] dlogits4", "C4": "dlogits[5,1]"}},
		{router.BiasDefinition, []float64{0x1p127}, map[string]rows{"bias": {{2, nan, inf, 0x1.8p127}}, "count": {{1, 2, 3, 4}}}, num.F32, map[string]string{"C3": "bias[0,1] bias[0,2]", "C4": "bias[0,3]"}},
		{sample.Definition, []float64{1, 2, 3}, map[string]rows{
			"logits":   {{1, 2}, {1, 2}, {1, 2}, {1, 2}, {1, 2}, {-inf, 2}, {-inf, -inf}, {1, nan}, {inf, 1}},
			"sequence": {{0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}}, "position": {{0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}}, "top_k": {{0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}},
			"temperature": {{1}, {nan}, {1}, {1}, {inf}, {1}, {1}, {1}, {1}}, "top_p": {{1}, {1}, {nan}, {1}, {1}, {1}, {1}, {1}, {1}}, "min_p": {{1}, {1}, {1}, {nan}, {1}, {1}, {1}, {1}, {1}}}, num.F32, map[string]string{
			"C6": "token1 logprob1 token2 logprob2 token3 logprob3", "C7": "token4 logprob4", "C8": "token5 logprob5 token6 logprob6", "C9": "token6 logprob6 token7 logprob7 token8 logprob8"}},
		{layernorm.ForwardDefinition, []float64{1e-5}, map[string]rows{"x": {{1, 2}, {1, inf}, {nan, 2}, {1e38, -1e38}, {3, 3}}, "gamma": {{1, 1}}, "beta": {{0, 0}}}, num.F32, map[string]string{
			"C3": "y1 mean1 rstd1 y2 mean2 rstd2", "C5": "y3 mean3 rstd3", "C8": "rstd3"}},
		{layernorm.ForwardDefinition, []float64{0}, map[string]rows{"x": {{1, 2}, {3, 3}, {0x1p-80, 0}, {60000, 0}}, "gamma": {{65504, nan}}, "beta": {{100, 1}}}, num.F16, map[string]string{
			"C6": "y1 mean1 rstd1 y2 mean2 rstd2", "C7": "y[0,1] y[1,1] y[2,1] y[3,1]", "C8": "y[3,0]"}},
		{layernorm.BackwardDefinition, nil, map[string]rows{
			"dy": {{1, 2}, {nan, 1}, {1, 1}, {0x1p-130, 1}}, "x": {{1, 2}, {1, 1}, {inf, 1}, {1, 2}}, "gamma": {{1, 1}}, "mean": {{1}, {1}, {1}, {1}}, "rstd": {{1}, {1}, {1}, {0}}}, num.F32, map[string]string{
			"C2": "dx1", "C3": "dgamma[0,0] dbeta[0,0]", "C4": "dx2", "C5": "dgamma[0,0]", "C6": "dx3", "C7": "dx[3,0]"}},
		{rmsnorm.ForwardDefinition, []float64{1e-5}, map[string]rows{"x": {{1, 2}, {1, nan}, {1, inf}, {1e25, 1}, {0x1p-140, 1}}, "gamma": {{1, 1}}}, num.F32, map[string]string{
			"C3": "y1 rstd1", "C4": "y2 rstd2 y3 rstd3", "C7": "y[4,0]"}},
		{rmsnorm.ForwardDefinition, []float64{0}, map[string]rows{"x": {{3, 3}, {0, 0}}, "gamma": {{inf, 0x1p-20}}}, num.F16, map[string]string{
			"C5": "y1 rstd1", "C6": "y[0,0] y[1,0]", "C7": "y[0,1]"}},
		{rmsnorm.ResidualForwardDefinition, []float64{1e-5}, map[string]rows{"x": {{1, 2}, {1, nan}, {1, inf}, {1e25, 1}, {0x1p-140, 1}}, "residual": {{1, 2}, {1, 1}, {1, -inf}, {1, 1}, {0, 0}}, "gamma": {{1, 1}}}, num.F32, map[string]string{
			"C4": "sum[1,1] sum[2,1]", "C5": "y1 rstd1 y2 rstd2", "C6": "y3 rstd3", "C9": "sum[4,0] y[4,0]"}},
		{rmsnorm.ResidualForwardDefinition, []float64{0}, map[string]rows{"x": {{3, 3}, {1, 0}, {65504, 1}}, "residual": {{1, 1}, {-1, 0}, {65504, 1}}, "gamma": {{1, inf}}}, num.F16, map[string]string{
			"C4": "sum[2,0]", "C6": "y2 rstd2", "C7": "y1 rstd1", "C8": "y[0,1] y[1,1] y[2,1]"}},
		{rmsnorm.BackwardDefinition, nil, map[string]rows{
			"dy": {{1, 2}, {nan, 1}, {1, 1}, {0x1p-130, 1}}, "x": {{1, 2}, {1, 1}, {inf, 1}, {1, 2}}, "gamma": {{1, 1}}, "rstd": {{1}, {1}, {1}, {0}}}, num.F32, map[string]string{
			"C2": "dx1", "C3": "dgamma[0,0]", "C4": "dx2", "C5": "dgamma[0,0]", "C6": "dx3", "C7": "dx[3,0]"}},
		{rmsnorm.ResidualBackwardDefinition, nil, map[string]rows{
			"dy": {{1, 2}, {nan, 1}, {1, 1}, {0x1p-130, 1}}, "sum": {{1, 2}, {1, 1}, {inf, 1}, {1, 2}}, "dsum": {{1, nan}, {1, 1}, {1, 1}, {1, -inf}}, "gamma": {{1, 1}}, "rstd": {{1}, {1}, {1}, {0}}}, num.F32, map[string]string{
			"C2": "dx1 dx[0,1]", "C3": "dgamma[0,0]", "C4": "dx2 dx[3,1]", "C5": "dgamma[0,0]", "C6": "dx3", "C7": "dx[3,0]"}},
		{crossentropy.Definition, []float64{-100, 1}, map[string]rows{
			"logits": {{1, 2}, {nan, 2}, {nan, 2}, {1, 2}, {-inf, 2}, {2, -inf}, {-inf, -inf}, {minus, 2}, {1e38, -3e38}, {0, -90}, {1, 2}, {1e38, 2}, {1, -inf}}, "label": {{0}, {-100}, {1}, {7}, {0}, {0}, {0}, {0}, {1}, {0}, {-100}, {-100}, {-100}}}, num.F32, map[string]string{
			"C2": "loss1 dlogits1 loss11 dlogits11 loss12 dlogits12", "C3": "loss3 dlogits3", "C4": "loss2 dlogits2", "C5": "loss4 dlogits[4,0] dlogits[5,1] loss6 dlogits6",
			"C7": "loss8", "C8": "dlogits[9,1]", "C9": "loss7 dlogits[7,0]"}},
		{adamw.InPlaceDefinition, []float64{0.5, 0.5, 0.5, 0.5, 0.25, 1, 0, 0}, map[string]rows{
			"weight": {{1, nan, 1, 1, 1, 1, inf, 1, 1}}, "m": {{1, 1, nan, 1, 1, inf, 1, 0, 0x1p-130}}, "v": {{1, 1, 1, nan, 1, 1, 1, 0, 1}}, "grad": {{1, 1, 1, 1, nan, 1, 1, 0, 1}}}, num.F32, map[string]string{
			"C3": "weight[0,1] weight[0,2] m[0,2] weight[0,3] v[0,3] weight[0,4] m[0,4] v[0,4]", "C6": "weight[0,5] m[0,5] weight[0,6]", "C8": "weight[0,7]",
			"C9": "weight[0,8] m[0,8] v[0,8]"}},
		{adamw.InPlaceDefinition, []float64{0.5, 0.5, 0.5, 0.5, 0.25, 1, 1e-8, 0}, map[string]rows{
			"weight": {{1, 1, 1}}, "m": {{0, 1, 1}}, "v": {{0, -4, 1}}, "grad": {{0, 1, 1e20}}}, num.F32, map[string]string{
			"C7": "weight[0,1] v[0,1] weight[0,2] v[0,2]", "C9": "v[0,2]", "C10": "weight[0,0]"}},
		{sgd.StepDefinition, []float64{0.5, 0.5, 0, 0}, map[string]rows{"weight": {{1, nan, 1, 1, inf, 1, 1, 0x1p-130}}, "buffer": {{1, 1, nan, 1, 1, 1, 0, 1}}, "grad": {{1, 1, 1, nan, 1, inf, 0, 1}}}, num.F32, map[string]string{
			"C3": "weight[0,1] buffer[0,1] weight[0,2] buffer[0,2] weight[0,3] buffer[0,3]", "C6": "weight[0,4] buffer[0,4] weight[0,5] buffer[0,5]", "C7": "weight[0,7] buffer[0,7]", "C8": "weight[0,6]"}},
		{sgd.NesterovDefinition, []float64{0.5, 0.5, 0, 0}, map[string]rows{"weight": {{1, nan, 1, 1, inf, 1, 1, 0x1p-130}}, "buffer": {{1, 1, nan, 1, 1, 1, 0, 1}}, "grad": {{1, 1, 1, nan, 1, inf, 0, 1}}}, num.F32, map[string]string{
			"C3": "weight[0,1] buffer[0,1] weight[0,2] buffer[0,2] weight[0,3] buffer[0,3]", "C6": "weight[0,4] buffer[0,4] weight[0,5] buffer[0,5]", "C7": "weight[0,7] buffer[0,7]", "C8": "weight[0,6]"}},
		{sgd.MasterDefinition, []float64{0.5, 0.5, 0, 0}, map[string]rows{"weight": {{1, nan, 1, inf, 1, 70000}}, "buffer": {{1, 1, 1, 1, 0, 0}}, "grad": {{1, 1, nan, 1, 0, 1}}}, num.F16, map[string]string{
			"C3": "weight[0,1] buffer[0,1] copy[0,1] weight[0,2] buffer[0,2] copy[0,2]", "C6": "weight[0,3] buffer[0,3] copy[0,3]", "C7": "copy[0,5]", "C8": "weight[0,4] copy[0,4]"}},
		{sgd.NesterovMasterDefinition, []float64{0.5, 0.5, 0, 0}, map[string]rows{"weight": {{1, nan, 1, inf, 1, 70000}}, "buffer": {{1, 1, 1, 1, 0, 0}}, "grad": {{1, 1, nan, 1, 0, 1}}}, num.F16, map[string]string{
			"C3": "weight[0,1] buffer[0,1] copy[0,1] weight[0,2] buffer[0,2] copy[0,2]", "C6": "weight[0,3] buffer[0,3] copy[0,3]", "C7": "copy[0,5]", "C8": "weight[0,4] copy[0,4]"}},
		{gemm.ForwardDefinition, nil, map[string]rows{"A": {{1, 2}, {0, 1}, {nan, 1}}, "B": {{1, inf}, {1, 1}}}, num.F32, map[string]string{
			"C3": "C[0,1] C[1,1] C[2,0] C[2,1]", "C4": "C[1,1]"}},
		{gemm.GroupedForwardDefinition, nil, map[string]rows{"A": {{1}, {0}, {inf}, {0x1p-130}}, "B": {{inf, 2}, {1, nan}}, "offsets": {{0}, {1}, {4}}}, num.F32, map[string]string{
			"C3": "C[0,0] C[1,1] C[2,0] C[2,1] C[3,1]", "C4": "C[1,1]", "C6": "C[1,0]", "C7": "C[3,0]"}},
		{gemm.GroupedGradBDefinition, nil, map[string]rows{"A": {{1}, {0}, {inf}, {0x1p-130}}, "dC": {{inf, 1}, {1, nan}, {1, 2}, {1, 0}}, "offsets": {{0}, {1}, {1}, {3}, {4}}}, num.F32, map[string]string{
			"C3": "dB[0,0] dB[2,0] dB[2,1]", "C4": "dB[2,1]", "C6": "dB[1,0] dB[1,1] dB[3,1]", "C7": "dB[3,0]"}},
		{gemm.ForwardDefinition, nil, map[string]rows{"A": {{300, 1}, {1, -1}, {0x1p-20, 0}}, "B": {{300, 1}, {1, 1}}}, num.F16, map[string]string{
			"C6": "C[1,1]", "C7": "C[0,0] C[2,1]"}},
		{gemm.Int8Definition, nil, map[string]rows{
			"A": {{1, 2}, {1, -1}, {0, 0}, {127, 127}, {1, 1}}, "B": {{1, 1}, {3, 1}}, "scale_a": {{1}, {inf}, {nan}, {0x1p121}, {0x1p-140}}, "scale_b": {{1}, {-0x1p-8}}}, num.F32, map[string]string{
			"C4": "C1 C2", "C5": "C[1,0] C2", "C7": "C3 C4"}},
		{gemm.Int8Definition, nil, map[string]rows{"A": {{1, 2}, {127, 127}, {1, 0}}, "B": {{1, 1}}, "scale_a": {{1}, {300}, {0x1p-20}}, "scale_b": {{1}}}, num.F16, map[string]string{
			"C7": "C1 C2"}},
		{gemm.GradBAccumulateDefinition, nil, map[string]rows{"A": {{1}, {2}}, "dC": {{1}, {nan}}, "dB": {{1}}}, num.F32, map[string]string{"C3": "dB[0,0]"}},
		{linear.ResidualDefinition, nil, map[string]rows{"A": {{1, 2}, {nan, 1}, {0x1p-130, 0}}, "B": {{1, 1}, {1, inf}}, "X": {{1, 1}, {1, 1}, {0, inf}}}, num.F32, map[string]string{
			"C3": "Y[0,1] Y1 Y[2,1]", "C5": "Y[2,0]"}},
		{linear.ResidualDefinition, nil, map[string]rows{"A": {{300, 0}, {1, 1}, {1, 1}}, "B": {{300, 1}}, "X": {{1}, {65504}, {1}}}, num.F16, map[string]string{"C5": "Y0 Y1"}},
		{linear.SwiGLUDefinition, nil, map[string]rows{"A": {{1}, {nan}, {0x1p-130}}, "G": {{1}, {inf}}, "U": {{1}, {2}}}, num.F32, map[string]string{
			"C3": "gate[0,1] Y[0,1] gate1 up1 Y1 gate[2,1] Y[2,1]", "C5": "gate[2,0] up[2,0] Y[2,0] up[2,1] Y[2,1]"}},
		{embedding.ForwardDefinition, nil, map[string]rows{"index": {{0}, {1}, {5}}, "weight": {{1, 2}, {nan, 2}}}, num.F32, map[string]string{"C2": "out[1,0]", "C3": "out2"}},
		{embedding.BackwardDefinition, nil, map[string]rows{"index": {{0}, {0}, {1}}, "dout": {{1, 40000}, {2, 40000}, {inf, 1}}, "dweight": {{0, 0}, {0, 0}, {0, 0}}}, num.F16, map[string]string{
			"C4": "dweight[1,0]", "C6": "dweight2", "C7": "dweight[0,1]"}},
		{embedding.BackwardDefinition, nil, map[string]rows{"index": {{-1}, {0}}, "dout": {{1}, {2}}, "dweight": {{1}}}, num.F32, map[string]string{"C5": "dweight0"}},
		{embedding.AccumulateDefinition, nil, map[string]rows{"index": {{-1}}, "dout": {{1}}, "dweight": {{1}}}, num.F32, map[string]string{"C5": "dweight0", "C6": "dweight0"}},
		{rope.ForwardDefinition, nil, map[string]rows{
			"x1": {{1, nan, 1}, {1, -inf, 60000}, {1, 1, 1}}, "x2": {{1, 1, 0x1p-20}, {inf, 1, -60000}, {1, 1, 1}}, "position": {{0}, {0}, {2}}, "cos": {{1, 1, 1}, {nan, 1, 1}}, "sin": {{0.5, 0.5, 0.5}, {1, 1, 1}}}, num.F16, map[string]string{
			"C2": "y1[2] y2[2]", "C4": "y1[0,1] y2[0,1]", "C5": "y1[1,0] y2[1,0] y1[1,1] y2[1,1]", "C7": "y1[0,2] y2[0,2] y1[1,2]"}},
		{rope.ForwardDefinition, nil, map[string]rows{"x1": {{1, 1}}, "x2": {{1, 1}}, "position": {{1}}, "cos": {{1, 1}, {nan, 1}}, "sin": {{1, 1}, {1, 1}}}, num.F32, map[string]string{"C3": "y1[0,0] y2[0,0]"}},
		{rope.BackwardDefinition, nil, map[string]rows{"dy1": {{1}, {1}}, "dy2": {{1}, {1}}, "position": {{-1}, {0}}, "cos": {{1}}, "sin": {{1}}}, num.F32, map[string]string{"C3": "dx1[0,0] dx2[0,0]"}},
		{rope.InterleavedForwardDefinition, nil, map[string]rows{
			"x": {{1, 1, nan, 1, 1, 0x1p-20}, {1, inf, 1, -inf, 60000, -60000}, {1, 1, 1, 1, 1, 1}}, "position": {{0}, {1}, {2}}, "wave": {{1, 0.5, 1, 0.5, 1, 0.5}, {nan, 1, 1, 1, 1, 1}}}, num.F16, map[string]string{
			"C2": "y2", "C3": "y[1,0] y[1,1]", "C4": "y[0,2] y[0,3]", "C5": "y[1,0] y[1,1] y[1,2] y[1,3]", "C7": "y[0,4] y[0,5] y[1,4]"}},
		{rope.InterleavedBackwardDefinition, nil, map[string]rows{"dy": {{1, 1}, {1, 1}}, "position": {{-1}, {0}}, "wave": {{1, 1}}}, num.F32, map[string]string{"C3": "dx0"}},
		{rope.NormForwardDefinition, []float64{0}, map[string]rows{
			"x1": {{1, 1}, {1, nan}, {1, inf}, {0, 0}, {1e20, 1}}, "x2": {{1, 1}, {1, 1}, {1, 1}, {0x1p-80, 0}, {1, 1}}, "gamma1": {{1, nan}}, "gamma2": {{1, 1}},
			"position": {{3}, {0}, {0}, {0}, {0}}, "cos": {{1, 1}}, "sin": {{1, 1}}}, num.F32, map[string]string{
			"C3": "y1[0] y2[0]", "C5": "y1[1] y2[1] rstd1", "C6": "y1[2] y2[2] rstd2 y1[4] y2[4] rstd4", "C7": "y1[3] y2[3] rstd3", "C8": "y1[0,1] y1[1,1] y1[2,1] y1[3,1] y1[4,1] y2[0,1] y2[1,1] y2[2,1] y2[3,1] y2[4,1]"}},
		{rope.NormForwardDefinition, []float64{1}, map[string]rows{"x1": {{1, 0x1p-20}}, "x2": {{1, 1}}, "gamma1": {{65504, 1}}, "gamma2": {{-65504, 1}}, "position": {{0}}, "cos": {{1, 1}}, "sin": {{1, 1}}}, num.F16, map[string]string{
			"C9": "y1[0,0] y1[0,1] y2[0,1]"}},
		{rope.NormBackwardDefinition, nil, map[string]rows{
			"dy1": {{1, 1}, {nan, 1}, {1, 1}, {1, 1}}, "dy2": {{1, 1}, {1, 1}, {1, 1}, {1, 1}}, "x1": {{1, 1}, {1, 1}, {1, inf}, {1, 1}}, "x2": {{1, 1}, {1, 1}, {1, 1}, {1, 1}}, "gamma1": {{1, 1}}, "gamma2": {{1, 1}},
			"rstd": {{1}, {1}, {1}, {0}}, "position": {{0}, {0}, {0}, {0}}, "cos": {{1, 1}}, "sin": {{0.5, 0.5}}}, num.F32, map[string]string{
			"C3": "dx1[1] dx2[1]", "C4": "dgamma1[0,0] dgamma2[0,0]", "C5": "dx1[2] dx2[2]", "C6": "dx1[3] dx2[3]"}},
		{rope.NormBackwardDefinition, nil, map[string]rows{
			"dy1": {{1, 0x1p-130}, {1, 1}}, "dy2": {{1, 1}, {1, 1}}, "x1": {{1, 1}, {1, 1}}, "x2": {{1, 1}, {1, nan}}, "gamma1": {{1, 1}}, "gamma2": {{1, 1}},
			"rstd": {{1}, {1}}, "position": {{0}, {7}}, "cos": {{1, 1}}, "sin": {{0.5, 0.5}}}, num.F32, map[string]string{
			"C2": "dx1[1] dx2[1] dgamma1[0] dgamma2[0]", "C3": "dx1[1] dx2[1]", "C4": "dgamma2[0,1]", "C7": "dx1[0,1] dx2[0,1]"}},
		{rope.InterleavedNormForwardDefinition, []float64{0}, map[string]rows{
			"x": {{1, 1, 1, 1}, {1, 1, nan, 1}, {1, 1, inf, 1}, {0, 0x1p-80, 0, 0}, {1e20, 1, 1, 1}}, "gamma": {{1, 1, nan, 1}},
			"position": {{3}, {0}, {0}, {0}, {0}}, "wave": {{1, 1, 1, 1}}}, num.F32, map[string]string{
			"C3": "y0", "C5": "y1 rstd1", "C6": "y2 rstd2 y4 rstd4", "C7": "y3 rstd3", "C8": "y[0,2] y[0,3] y[1,2] y[1,3] y[2,2] y[2,3] y[3,2] y[3,3] y[4,2] y[4,3]"}},
		{rope.InterleavedNormForwardDefinition, []float64{1}, map[string]rows{"x": {{1, 1, 0x1p-20, 1}}, "gamma": {{65504, -65504, 1, 1}}, "position": {{0}}, "wave": {{1, 1, 1, 1}}}, num.F16, map[string]string{
			"C9": "y[0,0] y[0,2] y[0,3]"}},
		{rope.InterleavedNormBackwardDefinition, nil, map[string]rows{
			"dy": {{1, 1, 1, 1}, {nan, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}}, "x": {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, inf, 1}, {1, 1, 1, 1}}, "gamma": {{1, 1, 1, 1}},
			"rstd": {{1}, {1}, {1}, {0}}, "position": {{0}, {0}, {0}, {0}}, "wave": {{1, 0.5, 1, 0.5}}}, num.F32, map[string]string{
			"C4": "dx1", "C5": "dgamma[0,0] dgamma[0,1]", "C6": "dx2", "C7": "dx3"}},
		{rope.InterleavedNormBackwardDefinition, nil, map[string]rows{
			"dy": {{1, 1, 0x1p-130, 1}, {1, 1, 1, 1}}, "x": {{1, 1, 1, 1}, {1, 1, 1, nan}}, "gamma": {{1, 1, 1, 1}},
			"rstd": {{1}, {1}}, "position": {{0}, {7}}, "wave": {{1, 0.5, 1, 0.5}}}, num.F32, map[string]string{
			"C2": "dx1 dgamma0", "C4": "dx1", "C5": "dgamma[0,3]", "C8": "dx[0,2] dx[0,3]"}},
		{attention.ForwardDefinition, []float64{1}, map[string]rows{ // three queries of two keys, and two of two
			"q": {{1}, {1}, {1}, {1}, {1}}, "k": {{-inf}, {1}, {2}, {nan}}, "v": {{1}, {1}, {inf}, {1}}, "qstart": {{0}, {3}, {5}}, "kstart": {{0}, {2}, {4}}}, num.F32, map[string]string{
			"C5": "o0 lse0 o1 lse1", "C6": "o1 lse1 o2 lse2 o4 lse4", "C7": "o3 o4", "C8": "o0 lse0 o1 lse1 o2 lse2 o3 lse3 o4 lse4"}},
		{attention.ForwardDefinition, []float64{1}, map[string]rows{
			"q": {{1}, {1}, {1}}, "k": {{0}, {-20}, {inf}}, "v": {{1}, {1}, {1}}, "qstart": {{0}, {3}}, "kstart": {{0}, {3}}}, num.F16, map[string]string{
			"C6": "o2 lse2", "C8": "o0 lse0 o1 lse1", "C9": "o1 lse1"}},
		{attention.DecodeDefinition, []float64{1}, map[string]rows{ // pages of one key: two queries of one, and one of two
			"q": {{1}, {1}, {1}}, "k": {{1}, {nan}}, "v": {{1}, {inf}}, "qstart": {{0}, {2}, {3}}, "klen": {{1}, {2}}, "pages": {{0, 9}, {0, 1}}}, num.F32, map[string]string{
			"C5": "o0 lse0", "C6": "o2 lse2", "C7": "o2", "C8": "o0 lse0 o1 lse1"}},
		{attention.DecodeDefinition, []float64{1}, map[string]rows{
			"q": {{1}}, "k": {{0}, {-20}}, "v": {{1}, {1}}, "qstart": {{0}, {1}}, "klen": {{2}}, "pages": {{0, 1}}}, num.F16, map[string]string{"C9": "o0 lse0"}},
		{attention.BackwardDefinition, []float64{1}, map[string]rows{ // three queries of two keys, and one of two
			"q": {{1}, {1}, {1}, {1}}, "k": {{0}, {1}, {0}, {1}}, "v": {{1}, {1}, {1}, {inf}}, "qstart": {{0}, {3}, {4}}, "kstart": {{0}, {2}, {4}},
			"do": {{nan}, {1}, {1}, {1}}, "o": {{1}, {1}, {1}, {1}}, "lse": {{1}, {-inf}, {1}, {1}}}, num.F32, map[string]string{
			"C6": "dq0", "C7": "dq1 dk0 dv0", "C8": "dq3 dk3 dv3", "C9": "dq0 dq1 dq2 dk0 dk1 dk2 dk3 dv0 dv1 dv2 dv3"}},
		{attention.BackwardDefinition, []float64{1}, map[string]rows{ // a query of one key, and one of another with a small weight
			"q": {{1}, {1}}, "k": {{0}, {0}}, "v": {{1}, {1}}, "qstart": {{0}, {1}, {2}}, "kstart": {{0}, {1}, {2}}, "do": {{1}, {1}}, "o": {{1}, {1}}, "lse": {{0}, {20}}}, num.F16, map[string]string{
			"C10": "dq1 dk1 dv1"}},
		{dispatch.ForwardDefinition, nil, map[string]rows{"expert": {{0, 1}}, "counts": {{0}, {0}}}, num.I32, nil},
		{dispatch.ForwardDefinition, nil, map[string]rows{"expert": {{0, 2}}, "counts": {{0}, {0}}}, num.I32, map[string]string{
			"C5": "counts0 counts1 offsets0 offsets1 offsets2 source0 slot0 place0"}},
		{combine.ForwardDefinition, nil, map[string]rows{"place": {{0, 1}, {1, 2}, {0, 5}, {0, 0}}, "o": {{1, 40000}, {2, 30000}, {inf, 1}}, "weight": {{1, 1}, {1, 1}, {1, nan}, {1, 0}}}, num.F16, map[string]string{
			"C3": "y[1,0]", "C4": "y2", "C5": "y[0,1]"}},
		{combine.PermuteBackwardDefinition, nil, map[string]rows{"place": {{0, 1}, {1, 2}, {-1, 5}}, "drows": {{1, 40000}, {2, 30000}, {nan, 1}}}, num.F16, map[string]string{
			"C3": "dx[1,0]", "C4": "dx2", "C5": "dx[0,1]"}},
		{combine.PermuteDefinition, nil, map[string]rows{"source": {{0}, {1}, {5}}, "x": {{1, 2}, {nan, 2}}}, num.F32, map[string]string{"C2": "rows[1,0]", "C3": "rows2"}},
		{combine.BackwardDefinition, nil, map[string]rows{"o": {{1, 2}, {1, 2}, {inf, 2}, {1, 1}}, "dy": {{1, 2}, {nan, 2}, {1, 2}, {60000, 1}}, "weight": {{1}, {1}, {1}, {2}}}, num.F16, map[string]string{
			"C2": "do[1,0] dweight1 dweight2", "C3": "do[3,0]"}},
		{cache.AppendDefinition, nil, map[string]rows{"slot": {{0}, {1}, {1}}, "rows": {{1, 2}, {nan, 1}, {1, nan}}, "cache": {{0, 0}, {0, 0}, {0, 0}}}, num.F32, map[string]string{
			"C2": "cache[1,1]", "C3": "cache2", "C4": "cache1"}},
		{cache.AppendDefinition, nil, map[string]rows{"slot": {{-1}}, "rows": {{1}}, "cache": {{0}}}, num.F32, map[string]string{"C3": "cache0", "C5": "cache0"}},
		{norm.SquareSumDefinition, nil, map[string]rows{"x": {{1, nan}}}, num.F32, map[string]string{"C2": "total[0,0]"}},
		{norm.SquareSumDefinition, nil, map[string]rows{"x": {{1e20, 1}}}, num.F32, map[string]string{"C4": "total[0,0]", "C5": "total[0,0]"}},
		{norm.TotalDefinition, nil, map[string]rows{"sums": {{1, 2}, {1, -1}, {inf, 1}, {3e38, 3e38}}}, num.F32, map[string]string{"C3": "total1 total2 total3"}},
		{norm.ClipDefinition, []float64{1}, map[string]rows{"total": {{4, nan, inf, -1, minus, 0x1p-140}}}, num.F32, map[string]string{
			"C2": "norm[0,1] factor[0,1] norm[0,2] factor[0,2]", "C4": "norm[0,3] factor[0,3] norm[0,4] factor[0,4] norm[0,5] factor[0,5]"}},
		{dropout.ForwardDefinition, []float64{0, 0, 0, 0, 0, 0, 0, 2}, map[string]rows{"x": {{1, nan, -inf, minus, 0x1p-20, 40000}}}, num.F16, map[string]string{
			"C4": "y[0,1] y[0,2] y[0,3]", "C5": "y[0,4] y[0,5]"}},
		{dropout.BackwardDefinition, []float64{0, 0, 0, 0, 0, 0, math.MinInt32, 2}, map[string]rows{"dy": {{40000, 40000, 1, nan}}}, num.F16, map[string]string{
			"C4": "dx[0,3]", "C5": "dx[0,1]"}}, // element 0 is dropped, and those after it are kept
	} {
		o := operationOf(test.d)
		call := &bound.Call{Definition: test.d, Params: test.params, Operands: operandsOf(test.d, test.format, func(name string) [][]float64 { return test.inputs[name] })}
		for _, c := range o.Clauses {
			if c.Definition != test.d || c.Covers == nil {
				continue
			}
			covers, got := c.Covers(call), map[string]bool{}
			for i, operand := range test.d.Operands {
				a := call.Operands[i]
				for r := range a.Rows {
					for col := range a.Cols {
						if operand.IsOut && covers(i, r, col) {
							got[fmt.Sprintf("%s[%d,%d]", operand.Name, r, col)] = true
						}
					}
				}
			}
			want := map[string]bool{}
			for _, place := range strings.Fields(test.want[c.Number]) {
				if strings.Contains(place, ",") {
					want[place] = true
					continue
				}
				name := strings.TrimRight(place, "0123456789")
				row := place[len(name):]
				if before, after, ok := strings.Cut(place, "["); ok { // of an output whose name ends with a digit
					name, row = before, strings.TrimSuffix(after, "]")
				}
				for col := range call.Operands[test.d.Operand(name)].Cols {
					want[fmt.Sprintf("%s[%s,%d]", name, row, col)] = true
				}
			}
			for place := range got {
				if !want[place] {
					t.Errorf("%s covers %s of %v, which it does not speak about", c.Name(), place, test.inputs)
				}
			}
			for place := range want {
				covered[c.Name()] = true
				if !got[place] {
					t.Errorf("%s does not cover %s of %v", c.Name(), place, test.inputs)
				}
			}
		}
	}
	for _, o := range all.Operations {
		for _, c := range o.Clauses {
			if isSame := slices.ContainsFunc([]string{"adamw.step.", "gemm.batched", "gemm.grouped.grad_a", "gemm.grad", "gemm.fp8", ".accumulate"}, func(s string) bool { return strings.Contains(c.Definition.Name, s) }); c.Covers != nil && !covered[c.Name()] && !isSame {
				t.Errorf("%s covers nothing in this test", c.Name())
			}
		}
	}
}

func operationOf(d *def.Definition) *op.Operation {
	for _, o := range all.Operations {
		if slices.Contains(o.Definitions, d) {
			return o
		}
	}
	panic("no operation has " + d.Name)
}

// operandsOf returns operands with the given values, and outputs of the sizes that these have.
func operandsOf(d *def.Definition, format num.DType, values func(name string) [][]float64) []num.Array {
	sizes := map[string]int{}
	for _, o := range d.Operands {
		v := values(o.Name)
		if v == nil {
			continue
		}
		switch {
		case len(o.Dims) == 2:
			sizes[o.Dims[0]], sizes[o.Dims[1]] = len(v), len(v[0])
		case len(o.Dims) > 2: // one matrix, or one head, of each row
			for _, letter := range o.Dims {
				sizes[letter] = 1
			}
			sizes[o.Dims[0]], sizes[o.Dims[len(o.Dims)-1]] = len(v), len(v[0])
		case o.IsOffsets:
			sizes[strings.TrimSuffix(o.Dims[0], "+1")] = len(v) - 1
		case o.Extent == def.PerColumn:
			sizes[o.Dims[0]] = len(v[0])
		case len(o.Dims) == 1:
			sizes[o.Dims[0]] = len(v)
		}
	}
	operands := make([]num.Array, len(d.Operands))
	formats := d.Formats()[slices.IndexFunc(d.Formats(), func(f []num.DType) bool {
		return slices.ContainsFunc(f, func(x num.DType) bool { return x == format }) && !slices.ContainsFunc(f, func(x num.DType) bool { return x != format && !x.IsInteger() && x != num.F32 })
	})]
	for i := range d.Operands {
		o := &d.Operands[i]
		operands[i] = o.NewArray(formats[i], sizes)
		for r, row := range values(o.Name) {
			for c, v := range row {
				if formats[i] == num.I32 {
					operands[i].SetBits(r, c, uint32(int32(v)))
				} else {
					operands[i].Set(r, c, float32(v))
				}
			}
		}
	}
	return operands
}

// TestRangesHold holds the reference to the ranges, on every pattern and on special values.
func TestRangesHold(t *testing.T) {
	checked := 0
	for _, o := range all.Operations {
		patterns := slices.Clone(o.Patterns)
		for _, d := range o.Definitions {
			special := ordinary(o, d)
			special.Name, special.Values = "special", map[string]op.Element{}
			for _, operand := range d.Operands {
				special.Values[operand.Name] = func(g *gen.Generator, _, _ int) float32 {
					if g.Below(8) == 0 {
						return g.Special()
					}
					return g.Normal()
				}
			}
			patterns = append(patterns, special)
		}
		for n, p := range patterns {
			for _, r := range o.Ranges {
				if r.Definition != p.Definition {
					continue
				}
				at := r.Definition.Operand(r.Output)
				if at < 0 || !r.Definition.Operands[at].IsOut {
					t.Fatalf("%s: %s has no output %s", o.Name, r.Definition.Name, r.Output)
				}
				for _, sizes := range sizesOf(p.Definition) {
					for _, formats := range formatsOf(p.Definition, n) {
						inputs := fill(p, sizes, formats)
						answer, err := run(p.Definition, inputs, paramsOf(o, p), def.FMAChain)
						if err != nil {
							continue // indices that are refused
						}
						between := r.Between(&bound.Call{Definition: p.Definition, Params: paramsOf(o, p), Operands: inputs})
						for row := range answer[at].Rows {
							for col := range answer[at].Cols {
								lo, hi := between(row, col)
								v := float64(answer[at].At(row, col))
								if checked++; v-v == 0 && !(num.Widen(formats[at], num.NarrowF64(formats[at], lo)) <= float32(v) && float32(v) <= num.Widen(formats[at], num.NarrowF64(formats[at], hi))) {
									t.Errorf("%s, %s: %s[%d,%d] is %v, want %v to %v", p.Name, describe(p.Definition, sizes, formats), r.Output, row, col, v, lo, hi)
								}
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d outputs", checked)
}
