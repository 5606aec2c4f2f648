package cases

import (
	"slices"

	"tokitai/def"
)

// shapesOf are the shapes that cases of one class of definitions have, whatever the seed. A shape gives
// rows and columns; of a product, rows, length and columns; of a table, queries, rows and columns.
type shapesOf struct {
	usual   [][]int // small, with tails of chunks, lanes and panels, and several rows
	pairs   [][]int // axes that are both long: loops over both, and stages that only many rows of many columns need
	long    []int   // sums over about a thousand terms
	busy    []int   // large enough that launches which begin together overlap
	busier  []int   // the same, from level quick on
	sampled []int   // operands of several hundred elements
	indexed []int   // what chooses and what it chooses from are both several, for patterns of indices
	counted []int   // many short rows, for patterns of integers that rows bring along: some are the number of columns, nearly

	batch [][]int // what rows of batches have besides their number: columns; of a product, length and columns
	rows  [][]int // rows, each compared with itself alone: numbers that cross the edges of tiles

	identity [][]int // many rows, columns and terms, to tell one version of a pattern from another
}

var byAccess = map[def.Access]*shapesOf{
	def.AlongRows: {
		usual:   [][]int{{5, 33}, {3, 261}, {2, 1030}, {40, 9}, {1, 2500}, {7, 515}, {521, 3}, {2, 8200}},
		pairs:   [][]int{{32, 32}, {260, 257}, {1030, 70}, {1100, 40}, {5, 8200}, {7, 4200}, {5, 5120}, {4, 16_400}, {1, 131_073}, {65_537, 2}},
		long:    []int{2, 1030},
		busy:    []int{2, 200},
		busier:  []int{48, 515},
		sampled: []int{2, 200},
		indexed: []int{24, 5},
		counted: []int{100, 3},

		batch: [][]int{{3}, {256}, {8200}},
		rows:  [][]int{{17, 33}, {65, 67}, {33, 1030}, {257, 130}, {1025, 33}, {9, 4099}, {1025, 1024}, {4097, 257}, {65, 16_400}},

		identity: [][]int{{70, 43}, {3, 1100}, {200, 5}},
	},
	def.OfProducts: {
		usual:   [][]int{{5, 37, 7}, {66, 9, 131}, {3, 300, 5}, {17, 64, 33}, {2, 1029, 3}, {65, 17, 130}, {1, 4100, 2}, {31, 257, 29}},
		pairs:   [][]int{{16, 16, 16}, {24, 24, 24}, {32, 32, 32}, {64, 64, 64}, {136, 80, 140}, {130, 130, 130}, {12, 2100, 5}, {5, 2100, 12}, {9, 40, 1100}, {1100, 40, 9}, {4100, 5, 6}, {6, 5, 4100}, {40, 1030, 20}, {6, 4200, 5}},
		long:    []int{2, 1029, 3},
		busy:    []int{40, 40, 40},
		busier:  []int{128, 128, 128},
		sampled: []int{7, 60, 8},

		batch: [][]int{{37, 7}, {64, 16}},
		rows:  [][]int{{17, 37, 7}, {65, 64, 16}, {65, 512, 48}, {33, 4096, 8}, {257, 100, 24}, {1025, 64, 16}, {129, 4096, 64}, {1025, 512, 64}, {4097, 128, 64}},

		identity: [][]int{{67, 43, 7}, {3, 1100, 35}},
	},
	def.OfSequence: { // queries, keys and columns
		usual:   [][]int{{9, 37, 7}, {20, 20, 5}, {3, 131, 33}, {2, 1029, 3}, {33, 129, 2}, {1, 257, 64}, {5, 9, 96}, {17, 127, 16}},
		pairs:   [][]int{{16, 16, 16}, {64, 64, 64}, {1, 1025, 128}, {3, 255, 256}, {128, 128, 8}, {129, 129, 1}, {2, 2100, 5}, {40, 1030, 20}},
		long:    []int{2, 1029, 3},
		busy:    []int{24, 40, 16},
		busier:  []int{64, 128, 32},
		sampled: []int{7, 30, 8},
		indexed: []int{20, 390, 3}, // blocks of keys, too

		batch: [][]int{{37, 7}, {130, 16}},
		rows:  [][]int{{17, 37, 7}, {33, 130, 16}, {65, 300, 8}},

		identity: [][]int{{67, 43, 7}, {3, 1100, 35}},
	},
	def.FromIndex: {
		usual:   [][]int{{70, 9, 13}, {300, 3, 7}, {9, 70, 515}, {1000, 33, 5}, {33, 1000, 3}, {2050, 2, 9}, {5, 5, 4099}, {130, 31, 64}},
		pairs:   [][]int{{300, 70_000, 3}, {4100, 300, 9}, {70, 9000, 17}, {1100, 1100, 40}},
		long:    []int{1000, 3, 5},
		busy:    []int{200, 33, 9},
		busier:  []int{700, 300, 33},
		sampled: []int{40, 31, 13},
		indexed: []int{24, 31, 5},

		batch: [][]int{{9, 7}, {33, 64}},
		rows:  [][]int{{17, 9, 7}, {65, 33, 64}, {257, 100, 40}, {1025, 33, 8}, {4097, 1000, 256}},

		identity: [][]int{{300, 43, 7}, {9, 3, 1100}},
	},
	def.ToIndex: { // no output has rows of its own: there are no batches
		usual:   [][]int{{70, 9, 13}, {300, 3, 7}, {9, 70, 515}, {1000, 33, 5}, {33, 1000, 3}, {2050, 2, 9}, {5, 5, 4099}, {130, 31, 64}},
		pairs:   [][]int{{4200, 1, 5}, {20_001, 1, 1}, {50, 9000, 3}, {300, 40_000, 2}, {1100, 300, 40}, {9000, 3, 4}},
		long:    []int{1000, 3, 5},
		busy:    []int{200, 33, 9},
		busier:  []int{700, 300, 33},
		sampled: []int{40, 31, 13},
		indexed: []int{24, 31, 5},

		identity: [][]int{{300, 43, 7}, {9, 3, 1100}},
	},
}

// fixed returns the shapes of the definition's class.
func (l *lister) fixed() *shapesOf { return byAccess[l.t.Definition.Access()] }

// busyShape returns the shape for launches that overlap. The arithmetic of a matrix is verified without
// axes: products that have some are small.
func (l *lister) busyShape() []int {
	if l.p.pairs && !(l.t.Definition.Multiplies() && l.t.Definition.HasAxes()) {
		return l.fixed().busier
	}
	return l.fixed().busy
}

// shape makes a case's sizes: rows and columns; of a product, rows, length and columns;
// of a table, queries, rows and columns.
func (l *lister) shape(n ...int) []Size {
	letters := l.matrix()
	var sizes []Size
	for i, letter := range l.t.Definition.Sizes() {
		s := Size{Letter: letter, N: 1 + (n[0]+n[1]+i)%3} // of a batch axis, or the number of groups
		if l.isTable(letter) {
			s.N = 1 + (n[0]+7*n[1]+i)%37
		}
		if k := slices.Index(letters, letter); k >= 0 && k < len(n) {
			s.N = n[k]
		}
		s.N = l.t.Definition.FitSize(letter, s.N)
		sizes = append(sizes, s)
	}
	return sizes
}

// isTable reports whether a letter is the number of a table's rows, in a definition that is no table
// itself.
func (l *lister) isTable(letter string) bool {
	d := l.t.Definition
	return d.Access() == def.AlongRows && slices.Contains(d.Axes(), def.Axis{Letter: letter, Role: def.Indexed})
}

// lines returns sizes with a number of lines of n elements each: rows, or those of a product's left
// operand.
func (l *lister) lines(count, n int) []Size {
	switch l.t.Definition.Access() {
	case def.OfSequence: // few: each reads all that are before it
		return l.shape(min(count, 40), 40, n)
	case def.OfProducts:
		return l.shape(count, n, 3)
	case def.FromIndex, def.ToIndex:
		return l.shape(count, 7, n)
	}
	return l.shape(count, n, 3)
}

// matrix returns the letters of rows and columns, and between them that of a product's length or of a
// table's rows.
func (l *lister) matrix() []string {
	var letters []string
	for _, a := range l.t.Definition.MatrixAxes() {
		letters = append(letters, a.Letter)
	}
	return letters
}

// edges are sizes at which loops, lanes, chunks and tiles end.
func edges(most int) []int {
	list := []int{45, 61, 97, 100, 251, 1000, 1600, 3000, 5000, 10007, 40009, 50257}
	for p := 32; p <= 1<<24; p *= 2 {
		list = append(list, p-1, p, p+1)
		if p <= 1<<13 && most > 3000 { // widths of models: three, five and seven of a power of two
			list = append(list, 3*p/2, 3*p/2+1, 5*p/4, 7*p/4, 7*p/4+1)
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	return slices.DeleteFunc(list, func(n int) bool { return n > most })
}
