package reference

import (
	"fmt"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/exact"
)

// runScatterAdd sums the rows of every index.
func runScatterAdd(d *def.Definition, f *def.Scatter, operands []num.Array, o *Options) error {
	index, rows, result := operands[f.Index], operands[f.Rows], operands[f.Result]
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
		if f.Accumulate && len(at) == 0 {
			continue // nothing is added: the row keeps its bits
		}
		for c := range result.Cols {
			if rows.DType == num.F16 {
				result.SetBits(v, c, exactSum(f, rows, result, at, v, c))
			} else {
				result.Set(v, c, chunkedSum(f, rows, result, at, v, c))
			}
		}
	}
	return nil
}

// exactSum returns the exact sum of f16 values, rounded once.
func exactSum(f *def.Scatter, rows, result num.Array, at []int, v, c int) uint32 {
	var sum exact.SumF16
	if f.Accumulate {
		sum.AddValue(result.DType, result.Bits(v, c))
	}
	for _, q := range at {
		sum.Add(uint16(rows.Bits(q, c)))
	}
	return sum.Round(result.DType)
}

// chunkedSum adds chunks of occurrences, each summed from +0.
func chunkedSum(f *def.Scatter, rows, result num.Array, at []int, v, c int) float32 {
	total := float32(0)
	if f.Accumulate {
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
