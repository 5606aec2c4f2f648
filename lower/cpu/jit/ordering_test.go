package jit

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"tokitai/internal/gen"
	"tokitai/lower/cpu"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
	"tokitai/trial/randdef"
)

// orderers returns the orderers of this processor by instruction set.
func orderers(t testing.TB) map[machine.Set]cpu.Orderer {
	t.Helper()
	list := map[machine.Set]cpu.Orderer{}
	for _, set := range machine.Available() {
		code, err := orderCodeOf(set)
		if err != nil {
			t.Fatal(err)
		}
		if code != nil {
			list[set] = code.NewOrderer()
		}
	}
	if len(list) == 0 {
		t.Skip("no code orders rows here: ", machine.Available())
	}
	return list
}

// TestRank compares ranks with rows that the standard library sorts: rows of every number of columns up to
// several vectors, with numbers that are often equal, NaN, infinities, zeros of both signs and subnormals.
func TestRank(t *testing.T) {
	t.Parallel()
	g := gen.New(t.Name())
	for set, o := range orderers(t) {
		for cols := 1; cols <= 131; cols++ {
			rows := 1 + g.Below(4)
			x := num.NewArray(num.F32, rows, cols)
			randdef.Contenders(g, x)
			if g.Below(3) == 0 {
				for i := range rows * cols {
					x.Set(i/cols, i%cols, g.Special())
				}
			}
			row := make([]float32, rows*cols)
			for i := range row {
				row[i] = x.At(i/cols, i%cols)
			}
			rank := make([]int32, rows*cols+1)
			rank[rows*cols] = -7
			o.Rank(rank[:rows*cols], row, cols)
			if rank[rows*cols] != -7 {
				t.Fatalf("%s: %d columns: wrote behind the last row", set, cols)
			}
			for r := range rows {
				in := row[r*cols:][:cols]
				for want, c := range sorted(in) {
					if got := rank[r*cols+c]; int(got) != want {
						t.Fatalf("%s: of %v: column %d has rank %d, want %d", set, in, c, got, want)
					}
				}
			}
		}
	}
}

// sorted returns the columns of a row, NaN first and then larger numbers before smaller ones.
func sorted(row []float32) []int {
	order := make([]int, len(row))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := row[a], row[b]
		switch isA, isB := math.IsNaN(float64(x)), math.IsNaN(float64(y)); {
		case isA && !isB || x > y:
			return -1
		case isB && !isA || y > x:
			return 1
		}
		return 0
	})
	return order
}

// TestPack compares rows that are packed with a loop over their columns: more slots than columns are kept, fewer and
// as many, more than 64 columns, and one row of values for all.
func TestPack(t *testing.T) {
	t.Parallel()
	g := gen.New(t.Name())
	for set, o := range orderers(t) {
		for cols := 1; cols <= 150; cols++ {
			rows, slots := 1+g.Below(4), 1+g.Below(min(cols, 9)+2)
			stride := slots + g.Below(3)
			keep, x, out := make([]int32, rows*cols), make([]float32, rows*cols), make([]float32, rows*stride+1)
			share := g.Below(5)
			for i := range keep {
				if g.Below(4) < share {
					keep[i] = 1
				}
				x[i] = float32(1 + i)
			}
			isShared := g.Below(2) == 0
			if isShared {
				x = x[:cols]
			}
			want := slices.Clone(out)
			for r := range rows {
				n := 0
				for c := range cols {
					if keep[r*cols+c] != 0 && n < slots {
						if want[r*stride+n] = x[c]; !isShared {
							want[r*stride+n] = x[r*cols+c]
						}
						n++
					}
				}
				for ; n < slots; n++ {
					want[r*stride+n] = 0.5
				}
			}
			o.Pack(cpu.Packing{
				Keep: keep, X: x, Cols: cols, Out: unsafe.Pointer(&out[0]), OutStride: 4 * stride, Slots: slots, Fill: math.Float32bits(0.5),
			})
			if !slices.Equal(out, want) {
				t.Fatalf("%s: %d columns, %d slots at a distance of %d: got %v, want %v; kept %v", set, cols, slots, stride, out, want, keep)
			}
		}
	}
}

func BenchmarkRank(b *testing.B) {
	for set, o := range orderers(b) {
		for _, cols := range []int{8, 32, 64, 128, 256} {
			b.Run(fmt.Sprintf("%s/%d", set, cols), func(b *testing.B) {
				const rows = 64
				g := gen.New("rank")
				x, rank := make([]float32, rows*cols), make([]int32, rows*cols)
				for i := range x {
					x[i] = g.Normal()
				}
				for b.Loop() {
					o.Rank(rank, x, cols)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
			})
		}
	}
}
