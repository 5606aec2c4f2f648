package def_test

import (
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/trial/randdef"
)

// TestDerivativeText holds the derivative of softmax to its lines.
func TestDerivativeText(t *testing.T) {
	d := def.Must(def.Rowwise("softmax", softmax))
	g, err := def.Derivative(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `tokitai-def 1
rowwise softmax.derivative
  in    x[R,C] f16 bf16 f32
  in    dy[R,C] as x
  out   dx[R,C] as x, may be x or dy
  max = rowmax(x)
  t1 = sub(x, max)
  e = power(t1)
  t2 = rowsum(e)
  t3 = div(1, t2)
  t4 = mul(dy, t3)
  t5 = mul(dy, e)
  t6 = rowsum(t5)
  t7 = mul(t6, t3)
  t8 = mul(t7, t3)
  de = sub(t4, t8)
  t9 = mul(de, e)
  t10 = rowargmax(x)
  t11 = equal(col(), t10)
  t12 = rowsum(t9)
  dmax = neg(t12)
  t13 = select(t11, dmax, 0)
  t14 = add(t9, t13)
  dx <- t14
`
	if got := g.Text(); !strings.HasPrefix(got, want) {
		t.Errorf("the derivative is\n%s\nwant\n%s", got, want)
	}
}

// TestDerivativeRefusals asks for gradients that do not exist or cannot be written, and wants
// to hear why.
func TestDerivativeRefusals(t *testing.T) {
	for _, c := range []struct{ text, of, want string }{
		{"rowwise d\nin x[R,C]\nout y[R,C]\ny <- x", "z", "z is neither a real input (x) nor a real output (y)"},
		{"rowwise d\nin x[R,C]\nin w[C]\nout y[R,C]\ny <- select(w < 1, x, 0)", "w", "no output depends on w in a differentiable way"},
		{"rowwise d\nin x[R,C]\nout y[R,C]\ny <- rint(x)", "", "no output (y) depends on an input (x) in a differentiable way"},
		{"rowwise d\nin x[R,C]\nout best[R] i32\nbest <- rowargmax(x)", "", "no output holds real numbers"},
		{"rowwise d\nin x[R,C]\nout t[C] f32\nt <- sqrt(colsum(x))", "", "known only after the last row"},
		{"rowwise d\nin x[R,C]\nin w[C]\nparam p float\nout y[R,C]\ny <- x + w*p", "p", "sums mul(colsum(dy), w) over the columns, after the last row"},
		{"rowwise d\ninout w[R,C] f32\nin x[R,C]\nw <- w*w + x", "", "the gradient of w, x needs the old value of w, which is overwritten"},
		{"rowwise d\nin x[R,C]\nout y[R,C]\ny <- f(x)\nfunction f(x): sin within 1 ulp for |x| <= 4\n  return x", "", "needs a function with the mathematics of cos for |x| <= 4"},
		{"contraction d\nin A[M,K] f16 bf16 f32\nin B[K,N] as A\nout C[M,N] as A or f32\nC[m,n] <- +0 + sum over k ascending of A[m,k] * B[k,n]", "", "A, B have a gradient each, and a contraction has one result: name one of them"},
		{"contraction d\nin A[H,M,K] f16 bf16 f32\nin B[K,N] as A\nout C[H,M,N] as A or f32\nC[h,m,n] <- +0 + sum over k ascending of A[h,m,k] * B[k,n]", "B", "B is the same for all of H, so its gradient is summed over H too"},
		{"contraction d\nin A[M,K] e4m3\nin B[K,N] as A\nout C[M,N] f32 f16 bf16\nC[m,n] <- +0 + sum over k ascending of A[m,k] * B[k,n]", "A", "A is stored in one byte"},
		{sumOfRows, "", "table, weight have a gradient each, and a gather-sum has one result: name one of them"},
		{sumOfRows, "table", "the gradient of table is a sum by an index of several columns, which no form of definition has: scatter-add the rows of dout times weight by index, all of its columns in one"},
		{strings.Replace(strings.Replace(strings.Replace(sumOfRows, "in weight[Q,S] as table or f32\n", "", 1), "weight[q,s] * ", "", 1), "product and its addition are rounded to f32 once", "addition is rounded to f32", 1), "", "scatter-add the rows of dout, S times each, by index, all of its columns in one"},
		{"rowwise d\nin x[R,C]\nin pos[R] i32 in [0,P)\nin cos[P,C] f32\nout y[R,C]\ny <- x * cos[pos]", "cos", "the gradient of table cos is a sum of rows by index, which no rowwise definition has: a scatter-add sums the gradients of its rows"},
	} {
		d, err := def.Parse("tokitai-def 1\n" + c.text)
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		var of []string
		if c.of != "" {
			of = []string{c.of}
		}
		if g, err := def.Derivative(d, of); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "derivative of d: ") {
			t.Errorf("%s: got %v, %v, want an error with %q", c.text, g, err, c.want)
		}
	}
	if _, err := def.Derivative(nil, nil); err == nil {
		t.Error("the derivative of nothing exists")
	}
}

const sumOfRows = "gather-sum d\nin index[Q,S] i32 in [0,V)\nin table[V,D] f16 bf16 f32\nin weight[Q,S] as table or f32\nout out[Q,D] as table\n" +
	"out[q,d] <- +0 + sum over s ascending of weight[q,s] * table[index[q,s],d], without those of bad indices\nevery product and its addition are rounded to f32 once"

// TestDerivativeOfWeights holds the gradient of the weights of a gather-sum to its lines.
func TestDerivativeOfWeights(t *testing.T) {
	d, err := def.Parse("tokitai-def 1\n" + sumOfRows)
	if err != nil {
		t.Fatal(err)
	}
	g, err := def.Derivative(d, []string{"weight"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `tokitai-def 1
rowwise d.derivative.dweight
  in    index[R] i32 in [0,V)
  in    table[V,C] f16 bf16 f32
  in    dout[R,C] as table
  out   dweight[R] as table or f32
  t1 = table[index]
  t2 = mul(dout, t1)
  t3 = rowsum(t2)
  dweight <- t3
`
	if got := g.Text(); !strings.HasPrefix(got, want) {
		t.Errorf("the derivative is\n%s\nwant\n%s", got, want)
	}
}

// TestDerivativeNames declares operands whose names gradients would have.
func TestDerivativeNames(t *testing.T) {
	d, err := def.Parse("tokitai-def 1\nrowwise d\nin x[R,C]\nin dx[R,C]\nout y[R,C]\ny <- x*dx")
	if err != nil {
		t.Fatal(err)
	}
	g, err := def.Derivative(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x", "dx", "d_y", "d_x", "d_dx"} {
		if g.Operand(name) < 0 {
			t.Errorf("there is no operand %s in\n%s", name, g.Text())
		}
	}
}

// TestDerivativeOfRandom differentiates random definitions: those that have a derivative have
// one that is read back from its text.
func TestDerivativeOfRandom(t *testing.T) {
	count := 0
	for seed := range uint64(300) {
		d, err := randdef.New(gen.Seeded(seed))
		if err != nil {
			t.Fatal(err)
		}
		g, err := def.Derivative(d, nil, fn.All...)
		if err != nil {
			continue
		}
		count++
		if again, err := def.Parse(g.Source()); err != nil || again.Hash() != g.Hash() {
			t.Fatalf("seed %d: %v\n%s\nof\n%s", seed, err, g.Text(), d.Text())
		}
	}
	t.Logf("%d of 300 have a derivative", count)
	if count < 100 {
		t.Errorf("only %d of 300 random definitions have a derivative", count)
	}
}
