package model

import (
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/op/cache"
	"tokitai/op/crossentropy"
	"tokitai/op/embedding"
	"tokitai/op/norm"
	"tokitai/op/rmsnorm"
)

// TestInferenceCalls: inference makes the calls of the decoder, in its order, but for the keys' places, the choice of rows, and
// sums of the residual stream that are one call with the norm behind them.
func TestInferenceCalls(t *testing.T) {
	t.Parallel()
	other := tiny
	other.Norm, other.Positions, other.FeedForward, other.Bias, other.Tied, other.Dropout = "layer", "learned", "gelu", true, true, 0.25
	list := []Config{tiny, other}
	for _, c := range configs() {
		list = append(list, c)
		c.Storage = "bf16"
		list = append(list, c)
	}
	packed := map[*def.Definition]*def.Definition{}
	for _, s := range streams() {
		packed[s.packed] = s.paged
	}
	for _, c := range list {
		full, err := NewDecoder(c, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		paged, err := NewInference(c, InferenceShape{Tokens: c.Block, Sequences: 2, Rows: c.Block, Pages: 3, PageSize: 16, PerSequence: 2})
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for _, call := range full.Program.Calls {
			name := call.Definition.Name
			switch call.Definition {
			case crossentropy.Definition, norm.TotalDefinition:
				continue
			}
			if paged := packed[call.Definition]; paged != nil {
				name = paged.Name
			}
			want = append(want, call.Name+" "+name)
		}
		for _, call := range paged.Program.Calls {
			if call.Definition == rmsnorm.ResidualForwardDefinition { // a sum and the norm behind it
				gamma := call.Operands[slices.IndexFunc(call.Definition.Operands, func(o def.Operand) bool { return o.Name == "gamma" })]
				got = append(got, call.Name+" "+Add.Name, strings.TrimSuffix(gamma.Value().Name, ".weight")+" "+rmsnorm.ForwardDefinition.Name)
				continue
			}
			if call.Definition != cache.AppendDefinition && (call.Definition != embedding.ForwardDefinition || call.Name != "rows") {
				got = append(got, call.Name+" "+call.Definition.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("inference makes the calls\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if len(paged.Caches) != 2*c.Layers || len(paged.Program.Of(State)) != 2*c.Layers {
			t.Errorf("caches %v, want two for each of %d layers", paged.Caches, c.Layers)
		}
		for _, shape := range []InferenceShape{{}, {Tokens: 1, Sequences: 1, Rows: 1, Pages: 1, PageSize: 24, PerSequence: 1}, {Tokens: 1, Sequences: 1, Rows: 0, Pages: 1, PageSize: 16, PerSequence: 1}} {
			if _, err := NewInference(c, shape); err == nil {
				t.Errorf("inference of %+v is accepted", shape)
			}
		}
	}
}
