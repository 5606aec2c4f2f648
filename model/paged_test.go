package model

import (
	"maps"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/internal/testlevel"
	"tokitai/tensor"
)

// TestPaged: logits are the same bits from a whole sequence and from pieces of it with keys in pages, whatever
// blocks a decoder has: windows, soft caps, norms, mixtures, heads of 256 columns.
func TestPaged(t *testing.T) {
	t.Parallel()
	wide := configs()["gemma"]
	wide.HeadWidth, wide.Layers, wide.Windows = 256, 1, NumbersOf(3)
	list := configs()
	list["heads of 256"] = wide
	quick := map[string]string{"gemma": "", "mixture": "bf16", "heads of 256": ""}
	for name, c := range list {
		for _, storage := range []string{"", "bf16"} {
			if first, isQuick := quick[name]; testlevel.Current() == testlevel.Smoke && !(isQuick && storage == first) {
				continue
			}
			c.Block, c.Storage = 20, storage
			tokens := make([]int32, c.Block)
			for i := range tokens {
				tokens[i] = int32(i * i % c.Vocabulary)
			}
			whole := wholeLogits(t, c, tokens)
			got := pagedLogits(t, c, tokens, []int{7, 1, 9, 3})
			if !slices.Equal(whole, got) {
				t.Errorf("%s %s: logits of pieces differ from those of the whole", name, storage)
			}
			if slices.Equal(whole[:c.Vocabulary], whole[c.Vocabulary:2*c.Vocabulary]) {
				t.Errorf("%s: tokens have the same logits", name)
			}
		}
	}
}

// weightsOf returns initial weights with noise, so that no part of the network is nearly linear.
func weightsOf(t *testing.T, c Config) map[string]*tensor.Tensor {
	t.Helper()
	list, err := c.Weights()
	if err != nil {
		t.Fatal(err)
	}
	weights := map[string]*tensor.Tensor{}
	for _, w := range list {
		values := c.Initial(w, 3)
		for i, v := range c.Initial(&Value{Name: w.Name + ".noise", Shape: []int{w.Len(), 1}}, 4) {
			values[i] += 12 * v
		}
		if weights[w.Name], err = tensor.FromFloat32(cpu.Queue().Device(), w.DType, values, w.Shape...); err != nil {
			t.Fatal(err)
		}
	}
	return weights
}

func wholeLogits(t *testing.T, c Config, tokens []int32) []float32 {
	t.Helper()
	q := cpu.Queue()
	d, err := NewDecoder(c, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	given, err := d.Constants(q)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(given, weightsOf(t, c))
	in, err := NewInstance(q, d.Program, given)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	in.Tensor(Tokens).SetInt32s(tokens)
	in.Tensor(Labels).SetInt32s(tokens)
	if err := in.Run(q, Variables{ScaleVariable: 1}); err != nil {
		t.Fatal(err)
	}
	logits, err := in.Tensor(Logits).Float32s()
	if err != nil {
		t.Fatal(err)
	}
	return logits
}

// pagedLogits runs pieces of a sequence one after another. Its keys lie in pages 2 and 0.
func pagedLogits(t *testing.T, c Config, tokens []int32, pieces []int) []float32 {
	t.Helper()
	q := cpu.Queue()
	tables, err := c.ropeTables(q.Device())
	if err != nil {
		t.Fatal(err)
	}
	given := weightsOf(t, c)
	maps.Copy(given, tables)
	const pageSize = 16
	pages := []int32{2, 0}
	var logits []float32
	at := 0
	for _, n := range pieces {
		p, err := NewInference(c, InferenceShape{Tokens: n, Sequences: 1, Rows: n, Pages: 3, PageSize: pageSize, PerSequence: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range p.Program.Of(State) {
			if given[v.Name] == nil {
				if given[v.Name], err = tensor.New(q.Device(), v.DType, v.Shape...); err != nil {
					t.Fatal(err)
				}
			}
		}
		in, err := NewInstance(q, p.Program, given)
		if err != nil {
			t.Fatal(err)
		}
		set := func(name string, values []int32) {
			if x := in.Tensor(name); x != nil {
				if err := x.SetInt32s(values); err != nil {
					t.Fatal(name, err)
				}
			}
		}
		var positions, slots, rows []int32
		for i := range n {
			place := int32(at + i)
			positions, rows = append(positions, place), append(rows, int32(i))
			slots = append(slots, pages[place/pageSize]*pageSize+place%pageSize)
		}
		times := func(n int) []int32 {
			var list []int32
			for _, p := range positions {
				list = append(list, slices.Repeat([]int32{p}, n)...)
			}
			return list
		}
		set(Tokens, tokens[at:at+n])
		set(QueryStarts, []int32{0, int32(n)})
		set(KeyLengths, []int32{int32(at + n)})
		set(PageTable, pages)
		set(Slots, slots)
		set(LogitRows, rows)
		set("position", positions)
		set("position.q", times(c.Heads))
		set("position.k", times(c.KVHeads))
		if err := in.Run(q, nil); err != nil {
			t.Fatal(err)
		}
		part, err := in.Tensor(Logits).Float32s()
		if err != nil {
			t.Fatal(err)
		}
		logits = append(logits, part...)
		at += n
		in.Close()
	}
	return logits
}
