package model

import "tokitai/def"

// Products returns how many products a run of the network's program adds up: those of linear layers, and those of
// attention over the keys that each query sees.
func (n *Network) Products() float64 {
	total := 0.0
	for _, c := range n.Program.Calls {
		total += n.ProductsOf(c)
	}
	return total
}

// ProductsOf returns how many products a call of the network's program adds up.
func (n *Network) ProductsOf(c *Call) float64 {
	all := c.products()
	switch c.Definition.Form.(type) {
	case *def.Stream, *def.StreamBackward:
		all *= seen(n.block, c.window())
	}
	return all
}

// Traffic returns the least number of bytes that a call moves: each input read once, each output written once. Of a
// table whose rows an index chooses, at most as many rows as the index has count.
func (c *Call) Traffic() float64 {
	elements := func(i int) float64 {
		n := 1.0
		for _, size := range c.Operands[i].shape {
			n *= float64(size)
		}
		return n
	}
	total := 0.0
	for i := range c.Definition.Operands {
		o, n := &c.Definition.Operands[i], elements(i)
		if index := c.Definition.ChosenBy(i); index >= 0 {
			n = min(n, n/float64(c.Operands[i].shape[0])*elements(index))
		}
		n *= float64(c.Operands[i].value.DType.Size())
		if o.IsIn {
			total += n
		}
		if o.IsOut {
			total += n
		}
	}
	return total
}

// products returns how many products a call adds up, in attention with invisible keys too.
func (c *Call) products() float64 {
	sizes := map[string]int{}
	for i, r := range c.Operands {
		if err := bind(&c.Definition.Operands[i], r.shape, sizes); err != nil {
			return 0 // no call of a program: its operands fit each other
		}
	}
	return c.Definition.MultiplyAdds(sizes)
}

// window returns how many keys a query of a call sees at most; 0 for all before it.
func (c *Call) window() int {
	if i := c.Definition.Param("window"); i >= 0 {
		return int(c.Params[i].Number)
	}
	return 0
}

// seen returns the share of all pairs of a query and a key of a sequence in which the query sees the key.
func seen(block, window int) float64 {
	n := 0
	for i := range block {
		if n += i + 1; window > 0 && window < i+1 {
			n += window - i - 1
		}
	}
	return float64(n) / float64(block) / float64(block)
}
