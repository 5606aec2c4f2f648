package cpu

// SetFusedRows has a program of products that end in an expression compute so many rows at a time.
func SetFusedRows(p Program, rows int) {
	f := p.(*fused)
	f.least, f.bytes = rows, 0
}
