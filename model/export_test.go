package model

// FP8Linear returns the program of a linear layer of a network, for some rows: of "x" it makes "y".
func FP8Linear(c Config, name string, rows, in, out int) (*Program, error) {
	d := newBody(c, rows)
	y := d.linearFP8(name, d.Input("x", d.format, rows, in), in, out)
	d.Keep(y)
	return d.Program()
}
