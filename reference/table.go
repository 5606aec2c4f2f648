package reference

import (
	"fmt"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/exact"
)

// runGather copies rows, bit for bit.
func runGather(d *def.Definition, operands []num.Array) error {
	index, table, out := operands[0], operands[1], operands[2]
	if index.Rows != out.Rows || out.Cols != table.Cols {
		return fmt.Errorf("%s: sizes do not fit: %d indices, rows of %d, into %d×%d", d.Name, index.Rows, table.Cols, out.Rows, out.Cols)
	}
	for q := range out.Rows {
		v := int(index.Int(q, 0))
		for c := range out.Cols {
			bits := uint32(0)
			if v >= 0 && v < table.Rows {
				bits = table.Bits(v, c)
			}
			out.SetBits(q, c, bits)
		}
	}
	return nil
}

// runScatterAdd sums the rows of every index.
func runScatterAdd(d *def.Definition, operands []num.Array, o *Options) error {
	index, rows, result := operands[0], operands[1], operands[2]
	if index.Rows != rows.Rows || rows.Cols != result.Cols {
		return fmt.Errorf("%s: sizes do not fit: %d indices, %d×%d rows, into %d×%d", d.Name, index.Rows, rows.Rows, rows.Cols, result.Rows, result.Cols)
	}
	occurrences := make([][]int, result.Rows)
	for q := range index.Rows {
		if v := int(index.Int(q, 0)); v >= 0 && v < result.Rows {
			occurrences[v] = append(occurrences[v], q)
		}
	}
	for v, at := range occurrences {
		if err := o.err(); err != nil {
			return err
		}
		if d.Accumulates() && len(at) == 0 {
			continue // nothing is added: the row keeps its bits
		}
		for c := range result.Cols {
			if rows.DType == num.F16 {
				result.SetBits(v, c, exactSum(d, rows, result, at, v, c))
			} else {
				result.Set(v, c, chunkedSum(d, rows, result, at, v, c))
			}
		}
	}
	return nil
}

// exactSum returns the exact sum of f16 values, rounded once.
func exactSum(d *def.Definition, rows, result num.Array, at []int, v, c int) uint32 {
	var sum exact.SumF16
	if d.Accumulates() {
		sum.AddValue(result.DType, result.Bits(v, c))
	}
	for _, q := range at {
		sum.Add(uint16(rows.Bits(q, c)))
	}
	return sum.Round(result.DType)
}

// chunkedSum adds chunks of occurrences, each summed from +0.
func chunkedSum(d *def.Definition, rows, result num.Array, at []int, v, c int) float32 {
	total := float32(0)
	if d.Accumulates() {
		total = result.At(v, c)
	}
	for len(at) > 0 {
		chunk := at[:min(len(at), def.ScatterChunk)]
		sum := float32(0)
		for _, q := range chunk {
			sum += rows.At(q, c)
		}
		total += sum
		at = at[len(chunk):]
	}
	return total
}
