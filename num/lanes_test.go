package num

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestLaneCounts(t *testing.T) {
	for C, want := range map[int]int{1: 256, 2048: 256, 2049: 1024, 8192: 1024, 8193: 8192, FlatRow: 8192} {
		if got := RowLanes(C); got != want {
			t.Errorf("RowLanes(%d) = %d, want %d", C, got, want)
		}
	}
	for C, want := range map[int]int{1: 2048, 256: 2048, 257: 512, 2048: 512, 2049: 256, 1 << 20: 256} {
		if got := ColLanes(C); got != want {
			t.Errorf("ColLanes(%d) = %d, want %d", C, got, want)
		}
	}
}

// levelTree follows the definition level by level, over width lanes of which the
// last are missing.
func levelTree(lanes []float32, width int) float32 {
	type lane struct {
		present bool
		sum     float32
	}
	s := make([]lane, width)
	for i, v := range lanes {
		s[i] = lane{true, v}
	}
	for ; len(s) > 1; s = s[:len(s)/2] {
		for i := range len(s) / 2 {
			l, r := s[2*i], s[2*i+1]
			switch {
			case !l.present:
				s[i] = r
			case !r.present:
				s[i] = l
			default:
				s[i] = lane{true, l.sum + r.sum}
			}
		}
	}
	return s[0].sum
}

func TestTree(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for n := range 300 {
		lanes := make([]float32, n)
		for i := range lanes {
			lanes[i] = randomFloat(r, -10, 10)
		}
		got := Tree(lanes)
		for width := 512; width >= max(n, 1); width /= 2 {
			if want := levelTree(lanes, width); !same(got, want) {
				t.Fatalf("%d lanes: got %v, over %d lanes it is %v", n, got, width, want)
			}
		}
	}
	if got := Tree([]float32{negativeZero32}); !same(got, negativeZero32) {
		t.Errorf("a single lane did not pass unchanged: %v", got)
	}
	if got := Tree(nil); !same(got, 0) {
		t.Errorf("no lanes give %v, want +0", got)
	}
}

func TestLaneSum(t *testing.T) {
	const big = 0x1p24 // big + 1 = big
	for _, c := range []struct {
		name  string
		x     []float32
		lanes int
		want  float32
	}{
		{"one lane, ascending", []float32{1, big, -big, 1}, 1, 1},
		{"two lanes", []float32{big, 1, 1, 1, -big, 1}, 2, 3},
		{"tree of neighbours", []float32{big, 1, 1, -big}, 4, 1},
		{"three elements in four lanes", []float32{big, 1, -big}, 4, 0},
		{"a lane starts at +0", []float32{negativeZero32}, 4, 0},
		{"nothing", nil, 4, 0},
		{"infinities", []float32{inf32, -inf32}, 2, nan32},
	} {
		if got := LaneSum(c.x, c.lanes); !same(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	x := make([]float32, 1000)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	lanes := make([]float32, 256)
	for i := range lanes {
		for j := i; j < len(x); j += len(lanes) {
			lanes[i] += x[j]
		}
	}
	if got, want := LaneSum(x, 256), levelTree(lanes, 256); !same(got, want) {
		t.Errorf("1000 elements in 256 lanes: got %v, want %v", got, want)
	}
}
