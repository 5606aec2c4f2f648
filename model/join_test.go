package model

import (
	"bytes"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/tensor"
)

// kept runs a program of a decoder with initial weights, and returns the bytes of what is kept by name.
func kept(t *testing.T, q *engine.Queue, d *Decoder, p *Program) map[string][]byte {
	t.Helper()
	given, err := d.Constants(q)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range slices.Concat(p.Of(Weight), p.Of(Fixed)) {
		values := d.Config.Initial(w, 7)
		if w.Kind == Fixed {
			values = make([]float32, w.Len())
		}
		for i := range values {
			values[i] += float32(i%5) / 8 // gradients of many sizes
		}
		if given[w.Name], err = tensor.FromFloat32(q.Device(), w.DType, values, w.Shape...); err != nil {
			t.Fatal(err)
		}
	}
	in, err := NewInstance(q, p, given)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for k, name := range []string{Tokens, Labels} {
		ids := make([]int32, d.Tokens())
		for i := range ids {
			ids[i] = int32((i*i + k) % d.Config.Vocabulary)
		}
		if err := in.Tensor(name).SetInt32s(ids); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.RunOnce(q); err != nil {
		t.Fatal(err)
	}
	for range 2 { // what depends on weights alone lasts
		if err := in.RunRest(q, Variables{ScaleVariable: 0.25}); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Wait(); err != nil {
		t.Fatal(err)
	}
	list := map[string][]byte{}
	for _, v := range p.Values {
		if v.IsKept {
			if list[v.Name], err = in.Tensor(v.Name).Bytes(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return list
}

// TestJoined: a joined program has fewer calls and keeps the same bits.
func TestJoined(t *testing.T) {
	t.Parallel()
	for name, storage := range map[string]string{"llama": "", "mixture": "bf16"} {
		c, sums := configs()[name], "fma"
		if c.Storage = storage; storage != "" {
			sums = "mma(16,25)"
		}
		rule, err := def.ParseAccum(sums)
		if err != nil {
			t.Fatal(err)
		}
		q := cpu.Queue().With(engine.WithRule(rule))
		d, err := NewDecoder(c, 2, true)
		if err != nil {
			t.Fatal(err)
		}
		joined := d.Program.Joined()
		adds := 0
		for _, c := range d.Program.Calls {
			if c.Definition == Add {
				adds++
			}
		}
		// Gradients of products are still added: of queries, keys and values, of gate and up, and of a router.
		left := 3 * c.Layers
		if c.Mixture.Experts > 0 {
			left += c.Layers
		}
		if got, want := len(joined.Calls), len(d.Program.Calls)-adds+left; got != want {
			t.Errorf("%s: %d calls, want %d, with %d additions of %d", name, got, want, left, adds)
		}
		if got, want := slices.ContainsFunc(joined.Calls, joined.IsOnce), storage != ""; got != want {
			t.Errorf("%s: calls that are made once: %v, want %v: those that widen weights of norms", name, got, want)
		}
		want, got := kept(t, q, d, d.Program), kept(t, q, d, joined)
		if len(want) != len(got) {
			t.Fatalf("%s: %d values are kept, want %d", name, len(got), len(want))
		}
		for v, bits := range want {
			if !bytes.Equal(got[v], bits) {
				t.Errorf("%s: %s has other bits", name, v)
			}
		}
	}
}
