package verify_test

import (
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/embedding"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/trial"
	"tokitai/verify"
)

// TestTerms checks that the lost or misused terms of wrong kernels are named.
func TestTerms(t *testing.T) {
	t.Parallel()
	counted := func(weight func(k, n int) float32) *engine.Lowering {
		return bounded(def.Sequential, plainProduct(func(terms []float32) float32 {
			sum := float32(0)
			for k, x := range terms {
				sum += weight(k, len(terms)) * x
			}
			return sum
		}))
	}
	once := func(is bool, otherwise float32) float32 {
		if is {
			return 1
		}
		return otherwise
	}
	shifted := bitwise(func(_ *def.Definition, l *engine.Launch) error { // takes the next row of B
		arrays := l.Arrays()
		a, b, c := arrays[0], arrays[1], arrays[2]
		for row := range c.Rows {
			for col := range c.Cols {
				sum := float32(0)
				for k := range a.Cols {
					sum += a.At(row, k) * b.At(min(k+1, a.Cols-1), col)
				}
				c.Set(row, col, sum)
			}
		}
		return nil
	})
	for _, test := range []struct {
		what string
		d    *def.Definition
		l    *engine.Lowering
		name string
		want []string
		show string // the inputs that come first
	}{
		{"the last", gemm.ForwardDefinition, counted(func(k, n int) float32 { return once(k != n-1, 0) }), "normal/M=2,K=300,N=2",
			[]string{"product 299 of 300 seems to be missing: with ones in product 299 and zeros in all others, C[0,0] is 0"}, "A[0,299] = "},
		{"a tail", gemm.ForwardDefinition, counted(func(k, n int) float32 { return once(k < n/64*64, 0) }), "integers/M=1,K=300,N=3",
			[]string{"the products from 256 to the last, 299, seem to be missing: with ones in product 256"}, "A[0,256] = "},
		{"one of many", gemm.ForwardDefinition, counted(func(k, n int) float32 { return once(k != 37, 0) }), "normal/M=1,K=1000,N=1",
			[]string{"product 37 of 1000 seems to be missing"}, "A[0,37] = "},
		{"all", gemm.ForwardDefinition, counted(func(int, int) float32 { return 0 }), "normal/M=1,K=9,N=1", []string{"all 9 products seem to be missing"}, "A[0,0] = "},
		{"no sum", gemm.ForwardDefinition, bitwise(func(_ *def.Definition, l *engine.Launch) error {
			c := l.Arrays()[2]
			trial.Fill(c, func(int, int) float32 { return 3 })
			return nil
		}), "normal/M=1,K=9,N=1", []string{"with zeros in all products C[0,0] is 3: it seems not to be their sum"}, "A[0,"},
		{"twice", gemm.ForwardDefinition, counted(func(k, n int) float32 { return once(k != 5, 2) }), "normal/M=2,K=50,N=2",
			[]string{"product 5 of 50 seems to be counted twice: with ones in product 5 and zeros in all others, C[0,0] is 2"}, "A[0,5] = "},
		{"lost and twice", gemm.ForwardDefinition, counted(func(k, n int) float32 { return once(k != 5 && k != 7, float32(k-5)) }), "normal/M=1,K=50,N=2",
			[]string{"product 5 of 50 seems to be missing", "product 7 of 50 seems to be counted twice"}, "A[0,5] = "},
		{"subtracted", gemm.ForwardDefinition, counted(func(k, n int) float32 { return once(k != 5, -1) }), "normal/M=1,K=6,N=1",
			[]string{"product 5 of 6 seems to be subtracted"}, "A[0,5] = "},
		{"a lane", gemm.ForwardDefinition, counted(func(k, n int) float32 { return once(k%4 != 1, 0) }), "normal/M=1,K=32,N=1",
			[]string{"every 4th product from 1 to 29 seems to be missing"}, "A[0,1] = "},
		{"another row", gemm.ForwardDefinition, shifted, "normal/M=2,K=70,N=2", []string{"A[0,0] seems to be multiplied by B[1,0], not by B[0,0]"}, "A[0,0] = "},
		{"rounding", gemm.ForwardDefinition, bounded(def.Sequential, plainProduct(func(terms []float32) float32 {
			sum := float32(0)
			for _, x := range terms {
				sum = num.Round(num.BF16, sum+x)
			}
			return sum
		})), "normal/M=1,K=50,N=1", []string{"each of the 50 products in C[0,0] seems to count exactly once"}, "A[0,"},
		{"a transposed product with an old value", gemm.GradBAccumulateDefinition, counted(func(k, n int) float32 { return once(k != 3, 0) }), "integers/M=40,K=2,N=3",
			[]string{"product 3 of 40 seems to be missing"}, "A[3,0] = "},
		{"a sum by index", embedding.BackwardDefinition, bitwise(damaged(func(l *engine.Launch, out []num.Array) {
			index, dy, table := l.Operands[0], l.Operands[1], out[2]
			last := index.Rows - 1 // is not added
			if v := int(index.Int(last, 0)); v >= 0 && v < table.Rows {
				for c := range table.Cols {
					table.Set(v, c, table.At(v, c)-dy.At(last, c))
				}
			}
		})), "integers/Q=20,D=3,V=2", []string{" seems to be missing: with ones in term"}, "dout[19,0] = "},
		{"a row's tail", softmax.ForwardDefinition, bitwise(softmaxOf(func(x []float32) float32 { return sequential(x[:len(x)/32*32]) })), "normal/R=2,C=70",
			[]string{"changing only x[0,64] to x[0,69] (6 inputs) changes nothing in y[0,0], and should"}, ""},
		{"a row's element", softmax.ForwardDefinition, bitwise(softmaxOf(func(x []float32) float32 {
			return sequential(x[:31]) + sequential(x[32:])
		})), "normal/R=1,C=70", []string{"changing only x[0,31] changes nothing in y[0,0], and should"}, ""},
		{"the last row of a sum over rows", layernorm.BackwardDefinition, bitwise(damaged(func(l *engine.Launch, out []num.Array) {
			d := layernorm.BackwardDefinition
			dbeta, dy := d.Operand("dbeta"), out[d.Operand("dy")]
			for c := range dy.Cols {
				out[dbeta].Set(0, c, out[dbeta].At(0, c)-dy.At(dy.Rows-1, c))
			}
		})), "integers/R=5,C=3", []string{"changing only dy[4,0] changes nothing in dbeta[0], and should"}, ""},
	} {
		t.Run(test.what, func(t *testing.T) {
			texts, inputs, ok := verify.CulpritOf(target(test.d, num.F16, test.l), test.name)
			if !ok || len(texts) != len(test.want) {
				t.Fatalf("got %q, %v, want %q", texts, ok, test.want)
			}
			for i, want := range test.want {
				if !strings.Contains(texts[i], want) {
					t.Errorf("got %q, want %q", texts[i], want)
				}
			}
			if test.show != "" && !strings.HasPrefix(inputs[0], test.show) {
				t.Errorf("got the inputs %q, want %q first", inputs, test.show)
			}
		})
	}
}
