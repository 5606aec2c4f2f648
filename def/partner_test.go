package def_test

import (
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/fn"
)

// TestPartner has the text of partners: those of computed values are computed from those of operands.
func TestPartner(t *testing.T) {
	const head = "tokitai-def 1\nrowwise d\n  in    x[R,C] f16 bf16 f32\n  in    w[C] as x\n  in    m[R] f32\n  out   y[R,C] as x"
	const inside = "  t1 = ixor(col(), 1i)\n  t2 = inside(t1)\n"
	for _, test := range []struct{ value, want string }{
		{"partner(x)", "  t1 = partner(x)\n  y <- t1\n"},
		{"partner(w)*x", "  t1 = partner(w)\n  t2 = mul(t1, x)\n  y <- t2\n"},
		{"partner(x*m)", inside + "  t3 = partner(x)\n  t4 = mul(t3, m)\n  t5 = select(t2, t4, 0)\n  y <- t5\n"},
		{"partner(partner(x))", inside + "  t3 = select(t2, x, 0)\n  y <- t3\n"},
		{"partner(exp(x))", inside + "  t3 = partner(x)\n  t4 = exp(t3)\n  t5 = select(t2, t4, 0)\n  y <- t5\n"},
		{"partner(colf())*x", inside + "  t3 = itof(t1)\n  t4 = select(t2, t3, 0)\n  t5 = mul(t4, x)\n  y <- t5\n"},
		{"itof(partner(stored(x)))", "  t1 = partner(stored(x))\n  t2 = itof(t1)\n  y <- t2\n"},
	} {
		d, err := def.Parse(head+"\n  y <- "+test.value, fn.All...)
		if err != nil {
			t.Errorf("%s: %v", test.value, err)
			continue
		}
		may := ", may be x"
		if strings.Contains(test.want, "partner(x)") || strings.Contains(test.want, "partner(stored(x))") {
			may = ""
		}
		text := head + may + "\n" + test.want
		if got := d.Text(); !strings.HasPrefix(got, text) {
			t.Errorf("%s: the text is\n%s\nwant\n%s", test.value, got, text)
		}
		if again, err := def.Parse(d.Text(), fn.All...); err != nil || again.Text() != d.Text() {
			t.Errorf("%s: the text reads back as %v, error %v", test.value, again, err)
		}
	}
}

func TestPartnerRefused(t *testing.T) {
	const head = "tokitai-def 1\nrowwise d\nin x[R,C]\nin m[R] f32\nparam n int32\ninout w[R,C] f32\nw <- "
	for value, want := range map[string]string{
		"partner(m)":                     "partner(m): m is one value per row, want one per element or per column",
		"partner(2)":                     "2 is one value, want one per element or per column",
		"select(partner(x < 1), x, 0)":   "is a bool, want a float or an int32",
		"partner(w) + x":                 "partner(w): w is written in place, want an input",
		"partner(itof(rank(x)) + x)":     "partner of rank(x): want a value that is computed from operands in its own column",
		"itof(partner(random(n,n,n,n)))": "partner of random(n, n, n, n): want a value",
	} {
		if d, err := def.Parse(head + value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, error %v, want one with %q", value, d, err, want)
		}
	}
}

// TestPartnerDerivative has the gradient of an operand and of a value per column: gradients go to partners.
func TestPartnerDerivative(t *testing.T) {
	d, err := def.Parse("tokitai-def 1\nrowwise d\nin x[R,C]\nin w[C] as x\nout y[R,C] as x\ny <- partner(x)*w + partner(w)")
	if err != nil {
		t.Fatal(err)
	}
	g, err := def.Derivative(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `tokitai-def 1
rowwise d.derivative
  in    x[R,C] f16 bf16 f32
  in    w[C] as x
  in    dy[R,C] as x
  out   dx[R,C] as x
  out   dw[C] as w
  t1 = ixor(col(), 1i)
  t2 = inside(t1)
  t3 = partner(dy)
  t4 = partner(w)
  t5 = mul(t3, t4)
  t6 = select(t2, t5, 0)
  t7 = partner(x)
  t8 = mul(dy, t7)
  t9 = colsum(t8)
  t10 = partner(dy)
  t11 = colsum(t10)
  t12 = add(t9, t11)
  dx <- t6
  dw <- t12
`
	if got := g.Text(); !strings.HasPrefix(got, want) {
		t.Errorf("the derivative is\n%s\nwant\n%s", got, want)
	}
}
