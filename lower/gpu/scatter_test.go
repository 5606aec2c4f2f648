package gpu_test

import (
	"fmt"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/op/embedding"
)

// skewed are indices that choose the first rows most often, row 0 more than 64 times.
func skewed(g *gen.Generator, n, v int) num.Array {
	a := num.NewArray(num.I32, n, 1)
	for q := range n {
		i := g.Below(v)
		if g.Below(3) != 0 {
			i = g.Below(1 + g.Below(min(v, 4)))
		}
		a.SetBits(q, 0, uint32(i))
	}
	return a
}

// counted are indices in which row v occurs v times, in an order of no kind.
func counted(g *gen.Generator, v int) num.Array {
	var list []int32
	for i := range v {
		for range i {
			list = append(list, int32(i))
		}
	}
	for i := range list {
		k := g.Below(i + 1)
		list[i], list[k] = list[k], list[i]
	}
	return num.IndexArray(list...)
}

// zipf are indices that choose row v in proportion to 1/(v+1).
func zipf(g *gen.Generator, n, v int) num.Array {
	var sums []float64
	sum := 0.0
	for i := range v {
		sum += 1 / float64(i+1)
		sums = append(sums, sum)
	}
	a := num.NewArray(num.I32, n, 1)
	for q := range n {
		i, _ := slices.BinarySearch(sums, sum*float64(g.Below(1<<30))/(1<<30))
		a.SetBits(q, 0, uint32(i))
	}
	return a
}

func addScatters(t testing.TB, p *tables, d *def.Definition, dtypes []num.DType) {
	k := p.compile(t, d, dtypes)
	g := gen.New(fmt.Sprint(d.Name, dtypes))
	p.limits.Multiprocessors = 2
	cases := []struct {
		index num.Array
		v, c  int
	}{
		{num.IndexArray(0), 1, 1},
		{indices(g, 7, 3, false), 3, 9},
		{counted(g, 70), 70, 3},
		{indices(g, 300, 40, true), 40, 33},
		{skewed(g, 1100, 300), 300, 8},
		{skewed(g, 2049, 70000), 70000, 1},
		{skewed(g, 700, 5), 5, 300},
		{indices(g, 60, 4, true), 4, 16},
		{zipf(g, 3000, 900), 900, 9},
		{indices(g, 700, 1, false), 1, 17},
		{indices(g, 9000, 2, true), 2, 2}, // too many for one sort by comparing
		{indices(g, 64, 1, false), 1, 24},
		{indices(g, 65, 1, false), 1, 24},
		{zipf(g, 140000, 6), 6, 1}, // more than one window of bits
	}
	for i, c := range cases {
		value := valueKinds[i%len(valueKinds)]
		if c.index.Rows > 100000 && (dtypes[1] != num.F32 || d.Accumulates()) {
			continue // sorted in one way, once
		}
		operands := []num.Array{c.index, filled(g, dtypes[1], c.index.Rows, c.c, value), filled(g, dtypes[2], c.v, c.c, valueKinds[(i+i/2)%len(valueKinds)])}
		lead, gap := 0, (8-c.c%8)%8
		if i%2 == 1 {
			lead, gap = 4, i%4
		}
		p.add(t, fmt.Sprint(d.Name, dtypes, c.index.Rows, c.v, c.c, i), d, k, operands, lead, gap)
	}
}

// TestScatterAdds: every format, exact sums and chunks, duplicates from none to
// hundreds, bad indices, the old value.
func TestScatterAdds(t *testing.T) {
	for i, d := range []*def.Definition{embedding.BackwardDefinition, embedding.AccumulateDefinition} {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			p := &tables{}
			formats := d.Formats()
			if isSmoke() { // one that is summed exactly, one that is sorted
				formats = formats[i*(len(formats)-1):][:1]
			}
			for _, dtypes := range formats {
				addScatters(t, p, d, dtypes)
			}
			if text := p.run(t, simtest.Plain, 32, uint64(i)); text != "" {
				t.Fatal(text)
			}
		})
	}
}
