package model

import "tokitai/num"

// FP8Linear returns the program of a linear layer of a network, for some rows: of "x" it makes "y".
func FP8Linear(c Config, name string, rows, in, out int) (*Program, error) {
	d := newBody(c, rows)
	y := d.linearFP8(name, d.Input("x", d.format, rows, in), in, out)
	d.Keep(y)
	return d.Program()
}

// FP8Grouped returns the program of a projection of experts, for some rows that are sorted: of "x", and the "offsets" of
// each expert, it makes "y".
func FP8Grouped(c Config, name string, rows, in, out int) (*Program, error) {
	c.Mixture.PerToken = 1
	d := newBody(c, rows)
	x := d.Input("x", d.format, rows, in)
	y := d.groupedFP8(name, x, &sortedRows{experts: c.Mixture.Experts, offsets: d.Input("offsets", num.I32, c.Mixture.Experts+1)}, in, out)
	d.Keep(y)
	return d.Program()
}
