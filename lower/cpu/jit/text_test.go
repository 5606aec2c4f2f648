package jit_test

import (
	"fmt"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower/cpu/cputest"
	"tokitai/lower/cpu/jit"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
	"tokitai/trial/randdef"
)

// small are definitions as a user may write them: one for each kind of operand, value and
// reduction, and mixtures that no shipped definition has.
var small = []string{`
rowwise rmsnorm
  in    x[R,C] f16 bf16 f32
  in    gamma[C] as x or f32
  param eps float in [0,+Inf) default 1e-6
  out   y[R,C] as x
  ms = rowsum(x*x) / C
  y <- x * rsqrt(ms + eps) * gamma
`, `
rowwise polynomial
  in  x[R,C]
  out y[R,C] as x
  y <- fma(fma(fma(x, 0.25, -1.5), x, {1/3}), x, 7)
`, `
rowwise extremes
  in  x[R,C]
  out high[R] f32
  out low[R] f32
  out first[R] i32
  out last[R] i32
  high <- rowmax(x)
  low <- rowmin(x)
  first <- rowargmax(x)
  last <- rowargmin(x)
`, `
rowwise all.sums
  in  x[R,C]
  in  w[C] as x
  out row[R] f32
  out column[C] f32
  out total[] f32
  row <- rowsum(x*w)
  column <- colsum(x*x)
  total <- totalsum(x - w)
`, `
rowwise total
  in  x[R,C]
  out total[] f32
  out y[R,C] as x
  total <- totalsum(abs(x))
  y <- -x
`, `
rowwise pick
  in  x[R,C]
  in  label[R] i32 in [0,C) or ignore
  param ignore int32 default -100
  out y[R,C] as x
  out chosen[R] f32
  chosen <- at(x, label)
  y <- select(inside(label), x - at(x, label), x)
`, `
rowwise noise
  in  x[R,C] f32
  param low int32 default 1
  param high int32 default 2
  out y[R,C] f16 bf16
  y <- sround(storage(y), x, random(low, high, 3i, 4i))
`, `
rowwise update
  inout w[R,C] f32
  in    g[R,C] as w or f16
  param rate float default 0.1
  w <- w - rate * g
`, `
rowwise columns
  in  x[R,C]
  out y[R,C] as x
  in  w[C] f32
  out v[C] f32
  v <- exp(w) * 0.5
  y <- select(colf() < 40, x * exp(w), x * colf())
`, `
rowwise passes
  in  x[R,C]
  out y[R,C] as x
  a = x - rowmax(x)
  b = exp(a)
  c = b / rowsum(b)
  d = c - rowsum(c * a)
  y <- d * rsqrt(rowsum(d * d) + 1)
`, `
rowwise formats
  in  a[R,C] f16
  in  b[R,C] bf16
  in  c[R] f32
  in  d[C] f16
  out e[R,C] bf16
  out f[R,C] f16
  e <- round(f16, a * b) + c
  f <- max(min(a, b), d) / c
`, `
rowwise transcendental
  in  x[R,C]
  out y[R,C] as x
  y <- tanh(x) + erf(x) * sin(x) - log1p(abs(x)) + sqrt(abs(x)) + scale(x, rint(x))
`}

// large are definitions that need more registers than there are.
var large = map[string]string{
	"live values": manyLive(300),
	"reductions":  manyReductions(60),
	"operands":    manyOperands(8, "f32"),
	"f16":         manyOperands(8, "f16"),
}

// manyLive returns a definition with n values that are computed before the first is used.
func manyLive(n int) string {
	var b strings.Builder
	b.WriteString("rowwise live\n  in x[R,C]\n  out y[R,C] as x\n")
	for i := range n {
		fmt.Fprintf(&b, "  v%d = x * %d + %d.5\n", i, i+1, i)
	}
	fmt.Fprintf(&b, "  s0 = v0 * v%d\n", n-1)
	for i := 1; i < n; i++ { // first those that were computed last
		fmt.Fprintf(&b, "  s%d = max(s%d, v%d) * v%d\n", i, i-1, n-1-i, (i*7)%n)
	}
	fmt.Fprintf(&b, "  y <- s%d\n", n-1)
	return b.String()
}

// manyReductions returns a definition with n reductions in one pass, whose results a second
// pass uses.
func manyReductions(n int) string {
	var b strings.Builder
	b.WriteString("rowwise reductions\n  in x[R,C]\n  out y[R,C] as x\n  out best[R] i32\n  out sums[C] f32\n")
	sum := "x"
	for i := range n {
		fmt.Fprintf(&b, "  r%d = %s(x * %d + %d)\n", i, []string{"rowsum", "rowmax", "rowmin"}[i%3], i+1, i)
		sum = fmt.Sprintf("max(%s, x * r%d)", sum, i)
		if i%10 == 9 {
			fmt.Fprintf(&b, "  m%d = %s\n", i, sum)
			sum = fmt.Sprintf("m%d", i)
		}
	}
	fmt.Fprintf(&b, "  y <- %s\n  best <- rowargmax(x * r3)\n  sums <- colsum(%s)\n", sum, sum)
	return b.String()
}

// manyOperands returns a definition with n inputs and n outputs per element.
func manyOperands(n int, format string) string {
	var b strings.Builder
	b.WriteString("rowwise operands\n")
	for i := range n {
		fmt.Fprintf(&b, "  in x%d[R,C] %s\n  out y%d[R,C] %s\n", i, format, i, format)
	}
	for i := range n {
		fmt.Fprintf(&b, "  y%d <- x%d * x%d + x%d\n", i, i, (i+1)%n, (i+5)%n)
	}
	return b.String()
}

func parsed(t testing.TB, text string) *def.Definition {
	t.Helper()
	d, err := def.Parse("tokitai-def 1\n"+strings.TrimPrefix(text, "\n"), fn.All...)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return d
}

// texts returns the small definitions.
func texts(t testing.TB) []*def.Definition {
	t.Helper()
	var all []*def.Definition
	for _, text := range small {
		all = append(all, parsed(t, text))
	}
	return all
}

// TestTexts compares the small definitions with the interpreter, at every length from 1 to
// 300.
func TestTexts(t *testing.T) {
	step := testlevel.Pick(7, 1)
	for i, d := range texts(t) {
		t.Run(d.Name, func(t *testing.T) {
			g := gen.New(d.Name)
			for k, dtypes := range d.Formats() {
				w := newTwin(t, d, dtypes)
				for cols := 1 + (i+k)%step; cols <= 300; cols += step {
					c := randdef.NewCase(g, d, dtypes, map[string]int{"R": 1 + cols%4, "C": cols})
					w.compare(t, c, w.interpreted(t, c, g), g)
				}
			}
		})
	}
}

// TestLargeDefinitions compares definitions with far more values, reductions and operands
// than there are registers.
func TestLargeDefinitions(t *testing.T) {
	for name, text := range large {
		t.Run(name, func(t *testing.T) {
			d, g := parsed(t, text), gen.New(name)
			for _, dtypes := range d.Formats() {
				w := newTwin(t, d, dtypes)
				for _, cols := range testlevel.Pick([]int{1, 15, 16, 17, 64, 130}, []int{1, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 130, 300, 1025, 9000}) {
					c := randdef.NewCase(g, d, dtypes, map[string]int{"R": 1 + cols%4, "C": cols})
					w.compare(t, c, w.interpreted(t, c, g), g)
				}
			}
		})
	}
}

// TestTooManyWords has more row sums than the code's memory has words for: there is no code,
// and an error says why.
func TestTooManyWords(t *testing.T) {
	d := parsed(t, manyReductions(600))
	for _, set := range []machine.Set{machine.AVX512, machine.AVX2, machine.NEON} {
		p, err := jit.Compile(d, d.Formats()[0], 0, set)
		if p != nil || err == nil || !strings.HasPrefix(err.Error(), "reductions: its operands and sums take ") {
			t.Errorf("%v: got %v, error %v", set, p, err)
		}
	}
}

// TestParts computes rows in parts of 256 columns, and compares them with the interpreter.
func TestParts(t *testing.T) {
	list := append(shipped(), texts(t)...)
	for _, text := range large {
		list = append(list, parsed(t, text))
	}
	for i, d := range list {
		if d.LazyStages(d.Formats()[0]) != nil {
			continue // a program of several
		}
		t.Run(d.Name, func(t *testing.T) {
			g := gen.New("parts of " + d.Name)
			formats := d.Formats()
			for _, dtypes := range testlevel.Pick(formats[i%len(formats):][:1], formats) {
				w := newTwin(t, d, dtypes)
				for _, class := range []jit.Class{jit.Long, jit.Long | jit.Streamed} {
					for _, set := range w.sets {
						if !jit.SetPerCall(w.program(t, set, class), 256) {
							t.Fatalf("%v: rows of class %d have no parts", set, class)
						}
					}
					for _, cols := range []int{1, 255, 257, 512, 800, 1025} {
						c := randdef.NewCase(g, d, dtypes, map[string]int{"R": 1 + g.Below(4), "C": cols})
						want := w.interpreted(t, c, g)
						for _, set := range w.sets {
							p, got := w.program(t, set, class), c.Clone()
							cputest.Execute(p, cputest.CallOf(got), 1+g.Below(3), g)
							w.report(t, got, want, p, fmt.Sprintf("%v, class %d, %d columns in parts", set, class, cols))
						}
					}
				}
			}
		})
	}
}

// TestHeavyDefinitions has code that takes long for an element: a call into it computes fewer
// of them, whatever the class.
func TestHeavyDefinitions(t *testing.T) {
	heavy, light := parsed(t, large["live values"]), parsed(t, small[1])
	for _, set := range sets(t) {
		for _, class := range []jit.Class{0, jit.Long} {
			p, err := jit.Compile(heavy, heavy.Formats()[0], class, set)
			if err != nil {
				t.Fatal(err)
			}
			if n := jit.PerCall(p); n > num.FlatRow/2 || n < 256 || n%256 != 0 {
				t.Errorf("%v: a call computes %d elements of a long definition", set, n)
			}
			if p, err = jit.Compile(light, light.Formats()[0], class, set); err != nil {
				t.Fatal(err)
			}
			if n := jit.PerCall(p); n != num.FlatRow {
				t.Errorf("%v: a call computes %d elements of a short definition, want %d", set, n, num.FlatRow)
			}
		}
	}
}
