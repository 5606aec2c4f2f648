package model

import "testing"

// TestProducts counts the products of a decoder by hand: each weight of a linear layer takes one for every token that it
// sees in the forward pass, and two in the backward pass; attention two and five for every key that a query sees.
func TestProducts(t *testing.T) {
	t.Parallel()
	for name, c := range configs() {
		const sequences = 2
		tokens := float64(sequences * c.Block)
		linear, attention := 0.0, 0.0
		weights, err := c.Weights()
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range weights {
			switch {
			case len(w.Shape) == 3: // of experts, of which a token sees some
				linear += tokens * float64(c.Mixture.PerToken*w.Shape[1]*w.Shape[2])
			case len(w.Shape) == 2 && w.Name != "model.embed_positions.weight" && (w.Name != "model.embed_tokens.weight" || c.Tied):
				linear += tokens * float64(w.Len())
			}
		}
		for layer := range c.Layers {
			for query := range c.Block {
				for key := range query + 1 {
					if window := c.window(layer); window == 0 || query < key+window {
						attention += sequences * float64(c.Heads*c.headWidth())
					}
				}
			}
		}
		for training, want := range map[bool]float64{false: linear + 2*attention, true: 3*linear + 7*attention} {
			d, err := NewDecoder(c, sequences, training)
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Products(); got != want {
				t.Errorf("%s, training %v: %v products, want %v", name, training, got, want)
			}
		}
	}
}
