package def

import (
	"strings"
	"testing"

	"tokitai/num"
)

// linear is bias, a power and a residual behind a product.
const linear = `tokitai-def 1
fused test.linear
  in    A[M,K] f16 bf16 f32
  in    B[N,K] as A
  in    bias[N] f16 bf16 f32
  in    weight[M] f32
  in    residual[M,N] as A
  out   stored[M,N] as A
  out   Y[M,N] as A or f32
  param slope float default 0.5
  formula "Y = max(A·Bᵀ + bias, 0)·slope"
  sum[m,n] = +0 + sum over k ascending of A[m,k] * B[n,k]
  stored = round(storage(stored), sum)
  t1 = add(stored, bias)
  t2 = mul(t1, weight)
  t3 = fma(t2, slope, residual)
  stored <- stored
  Y <- t3
`

// pair is two products of the same left operand, in groups.
const pair = `tokitai-def 1
fused test.pair
  in    X[M,K] bf16
  in    W[E,K,N] as X
  in    starts[E+1] i32 ascending from 0 to M
  in    V[E,K,N] as X
  out   Y[M,N] as X
  gate[m,n] = +0 + sum over k ascending of X[m,k] * W[e,k,n], starts[e] <= m < starts[e+1]
  up[m,n] = +0 + sum over k ascending of X[m,k] * V[e,k,n], starts[e] <= m < starts[e+1]
  t1 = mul(gate, up)
  Y <- t1
`

func TestFusedText(t *testing.T) {
	for _, text := range []string{linear, pair} {
		d, err := Parse(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if got := d.Source(); got != text {
			t.Errorf("the text changes:\n%s\nwant\n%s", got, text)
		}
		if err := d.CheckUnchanged(); err != nil {
			t.Error(err)
		}
	}
}

// TestFusedBuilt builds a definition in Go and compares it with its text.
func TestFusedBuilt(t *testing.T) {
	d, err := FusedOf("test.linear", func(b *FusedBuilder) {
		sum := b.Product(ContractionForm{Left: "A", LeftDims: []string{"M", "K"}, Right: "B", RightDims: []string{"N", "K"}, TransposeRight: true, Result: "sum", ResultDims: []string{"M", "N"}})
		bias, weight := b.In("bias", []string{"N"}), b.In("weight", []string{"M"}, Only(num.F32))
		residual, slope := b.In("residual", []string{"M", "N"}, Like("A")), b.Param("slope", Default(0.5))
		stored := sum.Round(StorageOf("stored")).As("stored")
		b.Out("stored", stored, Like("A"))
		b.Out("Y", FMA(stored.Add(bias).Mul(weight), slope, residual), Like("A").Or(num.F32))
		b.Formula("Y = max(A·Bᵀ + bias, 0)·slope")
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := Parse(linear)
	if err != nil {
		t.Fatal(err)
	}
	if d.Source() != want.Source() || d.Hash() != want.Hash() {
		t.Errorf("built:\n%s\nparsed:\n%s", d.Source(), want.Source())
	}
	if f := d.Fused(); len(f.Products) != 1 || d.Operands[f.Factors[0][1]].Name != "B" || f.Reads[0] != -1 || d.Operands[f.Reads[1]].Name != "bias" {
		t.Errorf("the parts are %v, %v", f.Factors, f.Reads)
	}
	if use, _ := d.BatchUse(d.Operand("Y")); use != OwnRow || !d.Multiplies() || d.Divisible() != "M" || d.Access() != OfProducts || d.MultiplyAdds(map[string]int{"M": 2, "N": 3, "K": 5}) != 30 {
		t.Error("the facts of the definition are wrong")
	}
}

// TestFusedRefused checks what is refused, and that the error says why.
func TestFusedRefused(t *testing.T) {
	tests := []struct{ text, old, new, want string }{
		{linear, "  t1 = add(stored, bias)", "  t1 = rowsum(stored)\n  t4 = add(t1, bias)", "computes each element from its own row and column"},
		{linear, "add(stored, bias)", "add(stored, sm)", "sm is not the name of a value above"},
		{linear, "bias[N]", "bias[K]", "has the sizes [K], want [M N], [M] or [N]"},
		{linear, "A[m,k] * B[n,k]", "A[m,k] * B[k,n]", `want "sum[m,n] = +0 + sum over k ascending of A[m,k] * B[n,k]"`},
		{linear, "of A[m,k]", "of Q[m,k]", "Q is not an input that was declared"},
		{linear, "  Y <- t3\n", "", "output Y has no value"},
		{linear, "in    B[N,K] as A", "in    B[N,K] f16", "operand B is"},
		{linear, "in    B[N,K] as A", "in    B[N,L] as A", "there is nothing to sum over"},
		{linear, "round(storage(stored), sum)", "add(bias, bias)", "is one value per column, want one value per element"},
		{linear, "in    residual[M,N] as A", "inout residual[M,N] as A", "none in place"},
		{linear, "out   Y[M,N] as A or f32", "out   Y[M] as A or f32", "output Y has one value per row, want one value per element"},
		{linear, "  in    A[M,K] f16 bf16 f32\n  in    B[N,K] as A\n", "  in    first[M] f32\n  in    A[M,K] f16 bf16 f32\n  in    B[N,K] as A\n", "its first operand is first, want A"},
		{pair, "mul(gate, up)", "mul(gate, gate)", "product up is not used"},
		{pair, "up[m,n] = +0 + sum over k ascending of X[m,k] * V[e,k,n], starts[e] <= m < starts[e+1]", "up[m,n] = +0 + sum over k ascending of X[m,k] * V[e,k,n]", "differ in more than their right operands"},
		{pair, "up", "t7", "names of this form are for values without a name"},
	}
	for _, test := range tests {
		text := strings.ReplaceAll(test.text, test.old, test.new)
		if _, err := Parse(text); test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%q in the place of %q: error %v, want %q", test.new, test.old, err, test.want)
		}
	}
}
