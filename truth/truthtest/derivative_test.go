package truthtest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/truth"
)

// TestDerivative compares def.Derivative with central differences over exact results. The
// error of a difference shrinks like the square of its step, so a quarter of the step must
// leave less than a quarter of the error, beyond what the enclosures leave open. Of a wrong
// derivative nearly all of it is left.
func TestDerivative(t *testing.T) {
	for _, body := range []string{
		"y <- x*w + m - x/(w + m)",
		"y <- fma(x, w, m) * fma(x, x, x)",
		"y <- sqrt(x) * -abs(x - 1.3046875) + abs(w)",
		"y <- min(x, w*w + 0.02) * max(m, x) - min(x, 1.3046875)",
		"y <- scale(x, 3) * scale(w, rint(x + 0.2))",
		"y <- round(bf16, x * round(f16, w))",
		"y <- select(x < w, x*x, select(m < x, w*m, x/w))",
		"y <- x / rowsum(x*w)",
		"y <- x * rowmax(x*w) - rowmin(x/m)*w",
		"y <- x * at(x*w, 1i) * at(x, rowargmax(w*x)) + at(x, label)",
		"y <- select(col() == label, x*m, w) * colf()",
		"y <- select(rank(x*w) < 2i, x*m, w) * at(x, rowkth(x*w, 1i)) * at(w*x, rownucleus(x, w*x, 0.5))",
		"z <- packed(rank(x) < 2i, x*w*m)",
		"y <- (w*C + m*R) * x",
		"y <- x - w*m\ns <- rowsum(x - m) * m\nt <- colsum(x*x - w*m)\ntotal <- totalsum(x*m) * scaling",
		"s <- rowsum(w*x)\ny <- x*scaling - m*scaling",
		"t <- w*scaling*scaling\ns <- m*scaling\ny <- x*w*m*scaling",
		"total <- totalsum(x*w*scaling) * 2 + scaling",
		"s <- rowsum(x)\ntotal <- totalsum(x - m)\ny <- select(inside(col()), m, 0) * 1",
		"y <- select(x < 0, rowsum(x), m*scaling)",
		"s <- rowsum(x - m) * m",
		"y <- x*(select(x < w, x, 0.5) - m*select(x < w, x*m, w))",
		"z = 1.3046875 - x\ny <- abs(z)*w + select(z < 0, x*w, x*m)",
		"t <- colsum(select(m < 1.2, x, -m)) * w",
	} {
		checkDerivative(t, body)
	}
	for m := def.MathExp; m <= def.MathErfcx; m++ {
		checkDerivative(t, fmt.Sprintf("y <- f(x*w) * m\nfunction f(x): %s within 0 ulp for every x\n  return x", m))
	}
}

func checkDerivative(t *testing.T, body string) {
	has := func(word string) bool { return regexp.MustCompile(`\b` + word + `\b`).MatchString(body) }
	text := "tokitai-def 1\nrowwise tried\nin x[R,C] f32\nin w[C] f32\nin m[R] f32\nin label[R] i32 in [0,C)\nparam scaling float\n"
	for name, size := range map[string]string{"y": "R,C", "s": "R", "t": "C", "total": "", "z": "R,K"} {
		if strings.Contains("\n"+body, "\n"+name+" <-") {
			text += fmt.Sprintf("out %s[%s] f32\n", name, size)
		}
	}
	d, err := def.Parse(text + body)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	// Functions for the derivatives of others; their expansions do not matter here.
	var known []*def.Function
	for _, m := range []def.Math{def.MathExp, def.MathSin, def.MathCos} {
		known = append(known, &def.Function{Name: "of_" + m.String(), Math: m, Expand: func(x def.Value) def.Value { return x.Add(def.Zero) }})
	}
	for _, of := range []string{"x", "w", "m", "scaling"} {
		if !has(of) {
			continue
		}
		g, err := def.Derivative(d, []string{of}, known...)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		p := newPoint()
		exact := p.enclose(t, g)["d"+of]
		for i := range exact {
			coarse := p.difference(t, d, of, i, 0x1p-9).Sub(exact[i])
			fine := p.difference(t, d, of, i, 0x1p-11).Sub(exact[i])
			least, _ := fine.Abs().Bounds()
			_, most := coarse.Abs().Bounds()
			if !(least <= most/4) {
				t.Errorf("%s: d%s[%d] is %v; differences are off by %v, then %v\n%s", body, of, i, exact[i], coarse, fine, g.Text())
			}
		}
	}
}

// point holds values for the operands and parameters of a definition and of its derivative,
// by name. No two values that are compared are close to each other.
type point map[string][]float32

var pointSizes = map[string]int{"R": 3, "C": 4, "K": 2}

func newPoint() point {
	p := point{"scaling": {0.8125}, "dtotal": {-0.6875}, "label": {2, 0, 3}, "m": {1.09375, 1.3125, 1.53125}, "w": {0.6875, 0.9375, 1.1875, 1.4375}}
	for k := range 12 {
		p["x"] = append(p["x"], 0.5+float32(7*k%12)/8)
		p["dy"] = append(p["dy"], float32(5*k%13)/4-1.625)
	}
	p["ds"], p["dt"], p["dz"] = p["dy"][5:8], p["dy"][8:12], p["dy"][2:8]
	return p
}

// enclose returns the exact outputs, by name.
func (p point) enclose(t *testing.T, d *def.Definition) map[string][]ball.Ball {
	var operands []num.Array
	for i := range d.Operands {
		o := &d.Operands[i]
		dtype := num.F32
		if o.IsIndex {
			dtype = num.I32
		}
		a := o.NewArray(dtype, pointSizes)
		for k, v := range p[o.Name] {
			if o.IsIndex {
				a.SetBits(k/a.Cols, k%a.Cols, uint32(v))
			} else {
				a.Set(k/a.Cols, k%a.Cols, v)
			}
		}
		operands = append(operands, a)
	}
	var params []float64
	for _, q := range d.Params {
		params = append(params, float64(p[q.Name][0]))
	}
	r, err := truth.Enclose(d, operands, truth.Options{Params: params})
	if err != nil {
		t.Fatal(err)
	}
	results := map[string][]ball.Ball{}
	for i, o := range d.Operands {
		for k := range operands[i].Rows * operands[i].Cols {
			if o.IsOut {
				results[o.Name] = append(results[o.Name], r.At(i, k/operands[i].Cols, k%operands[i].Cols))
			}
		}
	}
	return results
}

// difference returns the central difference of the sum of all outputs, each times its
// gradient, by one element.
func (p point) difference(t *testing.T, d *def.Definition, of string, i int, h float32) (q ball.Ball) {
	x := p[of][i]
	defer func() { p[of][i] = x }()
	for _, sign := range []float32{1, -1} {
		p[of][i] = x + sign*h
		for name, values := range p.enclose(t, d) {
			for k, v := range values {
				weight := float64(sign * p["d"+name][k])
				q = q.Add(v.Mul(ball.FromFloat64(weight / (2 * float64(h)))))
			}
		}
	}
	return q
}
