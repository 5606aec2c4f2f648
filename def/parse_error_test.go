package def_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/fn"
)

// body is the text of a rowwise definition with an input x, an output y and these lines.
func body(lines ...string) string {
	return "tokitai-def 1\nrowwise test\nin x[R,C]\nout y[R,C] as x\n" + strings.Join(lines, "\n") + "\n"
}

// TestParseByHand reads what people write: nested expressions and operators, comments,
// functions by name, lines that continue inside parentheses.
func TestParseByHand(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       []string // the lines of the definition itself
	}{
		{"operators", body("y <- -x*2 + (x - 1)/x"), []string{"t1 = neg(x)", "t2 = mul(t1, 2)", "t3 = sub(x, 1)", "t4 = div(t3, x)", "t5 = add(t2, t4)", "y <- t5"}},
		{"a minus before a number", body("y <- x -1 - -2"), []string{"t1 = sub(x, 1)", "t2 = sub(t1, -2)", "y <- t2"}},
		{"comparisons", body("y <- select(x > 0, x, select(x >= -1, 1, -0))"),
			[]string{"t1 = less(0, x)", "t2 = lesseq(-1, x)", "t3 = select(t2, 1, -0)", "t4 = select(t1, x, t3)", "y <- t4"}},
		{"names", body("s = rowsum(x)", "mean = s / C", "a = mean # an alias", "y <- x - a"), []string{"s = rowsum(x)", "mean = div(s, C)", "t1 = sub(x, mean)", "y <- t1"}},
		{"several lines", body("y <- fma(x, # a", "  2,", "\t3", ")"), []string{"t1 = fma(x, 2, 3)", "y <- t1"}},
		{"a known function", body("y <- exp(x)"), []string{"t1 = exp(x)", "y <- t1"}},
		{"constants", body("y <- max(x * {sqrt(2/pi)}, {1/4}) + 0.10 + 0x1p-1 + {log(2)*2 + (1 - 3)} - +Inf"),
			[]string{"t1 = mul(x, {sqrt(2/pi)})", "t2 = max(t1, 0.25)", "t3 = add(t2, 0.10)", "t4 = add(t3, 0.5)", "t5 = add(t4, {log(2)*2+(1-3)})", "t6 = sub(t5, +Inf)", "y <- t6"}},
		{"a function of its own, below", body("y <- twice(x)", "function twice(x): exp within 2 ulp for no x", "return x + x"), []string{"t1 = twice(x)", "y <- t1"}},
		{"keywords as names", "tokitai-def 1\nrowwise test\nin in[R,C]\nout out[R,C] as in\nformula = in + 1\nout <- formula", []string{"formula = add(in, 1)", "out <- formula"}},
		{"a value of the output's name", body("y = x + 1", "y <- y"), []string{"y = add(x, 1)", "y <- y"}},
		{"Windows' lines", strings.ReplaceAll(body("y <- x + 1"), "\n", "\r\n"), []string{"t1 = add(x, 1)", "y <- t1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, err := def.Parse(test.text, fn.All...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range strings.Split(d.Text(), "\n") {
				if strings.HasPrefix(l, "function") || strings.HasPrefix(l, "rule") {
					break
				}
				if strings.Contains(l, " = ") || strings.Contains(l, " <- ") {
					got = append(got, strings.TrimSpace(l))
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

// TestParseErrors reads texts with one mistake each, and wants its place.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	gather := "tokitai-def 1\ngather rows\nin index[Q] i32 in [0,V)\nin table[V,D] f16 bf16 f32\nout o[Q,D] as table\n"
	for _, test := range []struct{ name, text, want string }{
		{"nothing", "", `line 1, column 1: the text is empty, want "tokitai-def 1" in its first line`},
		{"another version", "tokitai-def 2\nrowwise x", `line 1, column 1: unexpected "tokitai-def 2", want "tokitai-def 1" in the first line`},
		{"no kind", "tokitai-def 1\n", `line 2, column 1: the text ends, want the kind and name of a definition, such as "rowwise softmax.forward"`},
		{"an unknown kind", "tokitai-def 1\nelementwise x", `line 2, column 1: unexpected "elementwise x", want rowwise, contraction, gather, scatter-add, gather-sum, dispatch, row-write, fused, stream or stream-backward and a name`},
		{"a bad name", "tokitai-def 1\nrowwise Soft-Max", `line 2, column 1: definition "Soft-Max": want a name like softmax.forward`},
		{"not UTF-8", body("y <- x # \xff"), "line 5, column 10: the text is not UTF-8"},
		{"a strange character", body("y <- x × 2"), `line 5, column 8: unexpected character '×'`},
		{"an unknown statement", body("y : x"), `line 5, column 1: unexpected "y", want an operand, a parameter, NAME = EXPRESSION, OUTPUT <- EXPRESSION, a function or a rule`},
		{"an unknown value", body("y <- x + z"), "line 5, column 10: z is not the name of a value above"},
		{"a cycle", body("a = b + 1", "b = a + 1", "y <- a"), "line 5, column 5: b is used before line 6 defines it"},
		{"itself", body("a = a + 1", "y <- a"), "line 5, column 5: a is not the name of a value above"},
		{"an output used", body("y <- y + 1"), "line 5, column 6: y is an output; name the value that is stored there, and use that"},
		{"numpy's select", body("y <- where(x < 0, 0, x)"), "line 5, column 6: where is neither a node nor a function; write select(b, x, y)"},
		{"torch's clamp", body("y <- clamp(x, 0, 1)"), "line 5, column 6: clamp is neither a node nor a function; write min(max(x, low), high)"},
		{"a sum of no kind", body("y <- x / sum(x)"), "line 5, column 10: sum is neither a node nor a function; write rowsum(x), colsum(x) or totalsum(x)"},
		{"a misspelt node", body("y <- selcet(x < 0, 0, x)"), "line 5, column 6: selcet is neither a node nor a function, did you mean select?"},
		{"upper case", body("y <- Sqrt(x)"), "line 5, column 6: Sqrt is neither a node nor a function; names are lower case: sqrt"},
		{"upper case in a value", body("y <- X + 1"), "line 5, column 6: X is not the name of a value above, did you mean x?"},
		{"upper case in the name", "tokitai-def 1\nrowwise Mine.Forward", `line 2, column 1: definition "Mine.Forward": names are lower case: mine.forward`},
		{"a module", body("y <- np.exp(x)"), "line 5, column 8: unexpected character '.'; a function is written without a module or a value before it: exp(x), rowsum(x)"},
		{"a power", body("y <- x ** 2"), `line 5, column 8: unexpected "**": there are no powers; write x*x`},
		{"another power", body("y <- x^2"), `line 5, column 7: unexpected "^", want the end of the line; there are no powers: write x*x`},
		{"Python's if", body("y <- x if x < 0 else 0"), `line 5, column 8: unexpected "if", want the end of the line; write select(b, x, y)`},
		{"an unknown node", body("y <- sinh(x)"), "line 5, column 6: sinh is neither a node nor a function"},
		{"too few arguments", body("y <- fma(x, 2)"), "line 5, column 6: fma has 2 arguments, want 3"},
		{"a truncated expression", body("y <- x +"), "line 5, column 9: unexpected the end of the line, want a value"},
		{"an open parenthesis", body("y <- (x + 1"), `line 5, column 6: "(" is never closed`},
		{"a closing one", body("y <- x)"), `line 5, column 7: unexpected ")", want the end of the line`},
		{"a name twice", body("a = x + 1", "a = x + 2", "y <- a"), "line 6, column 1: the name a is taken by line 5"},
		{"an operand twice", body("in x[R]", "y <- x"), "line 5, column 4: the name x is taken by line 3"},
		{"a reserved name", body("C = x + 1", "y <- C"), "line 5, column 1: the name C stands for the number of columns"},
		{"a control character", body("y <- x", "formula \"a\\x1b[2J\""), "line 2, column 1: test: a formula or clause"},
		{"an output without a value", body("a = x + 1"), "line 4, column 5: output y has no value: y <- EXPRESSION is missing"},
		{"an output twice", body("y <- x", "y <- x"), "line 6, column 1: output y has a value already"},
		{"an undeclared output", body("y <- x", "z <- x"), "line 6, column 1: z is not an output that was declared"},
		{"a wrong extent", body("y <- rowsum(x)"), "line 5, column 1: output y: rowsum(x) is one value per row, want one value per element"},
		{"a wrong type", body("y <- x < 1"), "line 5, column 1: output y: less(x, 1) is a bool, want a float"},
		{"types that do not meet", body("y <- x + col()"), "line 5, column 8: add(x, col()): col() is an int32, want a float"},
		{"a late value", body("y <- x + colsum(x)"), "line 5, column 8: add(x, colsum(x)): x is one value per element, but the sum it meets is known only after the last row"},
		{"int32 arithmetic", body("y <- float(bits(x))"), "line 5, column 12: bits(x): patterns and integers of floats belong inside a function's expansion"},
		{"wrong sizes", "tokitai-def 1\nrowwise t\nin x[C,R]", "line 3, column 5: operand x has the sizes [C R], want [R,C], [R], [C], [R,K] or []"},
		{"an unknown format", "tokitai-def 1\nrowwise t\nin x[R,C] f64", `line 3, column 11: unexpected "f64", want a format: f16, bf16, f32 or i32`},
		{"stored like nothing", "tokitai-def 1\nrowwise t\nin x[R,C]\nout y[R,C] as z\ny <- x", "line 2, column 1: t: operand y is stored like z, which is not an operand"},
		{"a wrong permission", "tokitai-def 1\nrowwise t\nin x[R,C]\nin w[R]\nout y[R,C] as x, may be w\ny <- x", "line 5, column 25: operand y may be the memory of w, want x"},
		{"an index of another size", "tokitai-def 1\nrowwise t\nin x[R,C]\nin i[R] i32 in [0,R)", "line 4, column 16: operand i: want an index to be an input with one value per row, in [0,C) or in the rows of a table"},
		{"an exception that is none", "tokitai-def 1\nrowwise t\nin x[R,C]\nin i[R] i32 in [0,C) or p\nparam p float\nout y[R]\ny <- at(x, i)",
			"line 4, column 4: index i: its exception p is not an int32 parameter"},
		{"a parameter's kind", body("param p double", "y <- x"), `line 5, column 9: unexpected "double", want float or int32`},
		{"a parameter's range", body("param p float in [0,+Inf]", "y <- x"), `line 5, column 25: unexpected "]": a range ends with a number and "]", or with +Inf and ")"`},
		{"a default outside", body("param p float in [0,1] default 2", "y <- x"), "line 5, column 7: parameter p: its default 2 is not a binary32 in [0,1]"},
		{"a constant that cannot be computed", body("y <- x * {1/(sqrt(2)*sqrt(2)-2)}"), "line 5, column 11: 1/(sqrt(2)*sqrt(2)-2) has no value that can be computed, or one too close to 0"},
		{"a huge exponent", body("y <- x * 1e999999999"), "line 5, column 10: 1e999999999 is not a number with an exponent from -400 to 400"},
		{"an int32 beyond", body("y <- select(equal(col(), 3000000000i), x, 0)"), "line 5, column 26: 3000000000i is not an int32, such as 23i, -1i or 0x80000000"},
		{"a function twice", body("y <- f(x)", "function f(x): exp within 1 ulp for no x", "return x", "function f(x): exp within 1 ulp for no x", "return x"),
			"line 8, column 1: function f is defined twice, first in line 6"},
		{"a function without an end", body("y <- f(x)", "function f(x): exp within 1 ulp for no x", "a = x"), "line 6, column 1: function f ends without a return"},
		{"an unknown mathematics", body("y <- f(x)", "function f(x): gamma within 1 ulp for no x", "return x"), "line 6, column 1: function f: its mathematics \"gamma\" is unknown, want one of "},
		{"a function's domain", body("y <- f(x)", "function f(x): exp within 1 ulp for x near 0", "return x"), "line 6, column 1: function f: its domain \"x near 0\" is not like "},
		{"a function that calls itself", body("y <- f(x)", "function f(x): exp within 1 ulp for no x", "return f(x)"), "line 7, column 8: f is neither a node nor a function that stands before this one"},
		{"another rule", body("s = rowsum(x)", "y <- x - s", "rule rowsum(x): the sum of x[0], ..., x[n-1], a row of n elements", "L = 128"),
			`line 8, column 1: unexpected "L = 128", want "L = 256 if n <= 2048, 1024 if n <= 8192, else 8192": rowsum has this rule alone`},
		{"an unknown rule", body("y <- x", "rule product(x): by heart"), `line 6, column 1: unexpected "rule product(x): by heart", want the rule of rowsum, colsum, totalsum, weigh, weigh_backward or pages`},
		{"no outputs", "tokitai-def 1\nrowwise t\nin x[R,C]\n", "line 2, column 1: it has no output"},
		{"a truncated gather", gather, `line 2, column 1: the text ends too early, want "o[q,d] <- bits of table[index[q],d], +0 for a bad index"`},
		{"another gather", gather + "o[q,d] <- table[q,d]\n", `line 6, column 1: unexpected "o[q,d] <- table[q,d]", want "o[q,d] <- bits of table[index[q],d], +0 for a bad index"`},
		{"a product of one operand", "tokitai-def 1\ncontraction c\nin A[M,K]\n", "line 2, column 1: a contraction with 1 operands, want 3"},
		{"a product that does not fit", "tokitai-def 1\ncontraction c\nin A[M,K]\nin B[N,L]\nout C[M,N]\n", "line 2, column 1: c: A ends in K and B begins with L: there is nothing to sum over"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, err := def.Parse(test.text, fn.All...)
			if d != nil || err == nil {
				t.Fatalf("got %v, %v", d, err)
			}
			var syntax *def.SyntaxError
			if !errors.As(err, &syntax) || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("\n got %v\nwant %s", err, test.want)
			}
		})
	}
}

// TestParseLimits reads texts that are too much: each is refused, without taking long.
func TestParseLimits(t *testing.T) {
	t.Parallel()
	var doubling strings.Builder // functions that would expand to 2⁴⁰ nodes
	doubling.WriteString(body("y <- f40(x)", "function f0(x): exp within 1 ulp for no x", "return x + x"))
	for i := 1; i <= 40; i++ {
		fmt.Fprintf(&doubling, "function f%d(x): exp within 1 ulp for no x\na = f%d(x)\nreturn f%d(a)\n", i, i-1, i-1)
	}
	chain := "y <- x" + strings.Repeat(" + x", def.MaxNodes)
	for _, test := range []struct{ name, text, want string }{
		{"parentheses", body("y <- " + strings.Repeat("(", 1<<19)), `"(" is never closed`},
		{"closed parentheses", body("y <- " + strings.Repeat("(", 1<<18) + "x" + strings.Repeat(")", 1<<18)), "expressions nest more than 200 deep"},
		{"braces", body("y <- {" + strings.Repeat("(", 1<<18) + "1" + strings.Repeat(")", 1<<18) + "}"), "a constant has more than 100 numbers"},
		{"minuses", body("y <- " + strings.Repeat("-", 1<<18) + "x"), "expressions nest more than 200 deep"},
		{"bytes", strings.Repeat("\n", def.MaxText+1), "the text has 1048577 bytes, want at most 1048576"},
		{"nodes", body(chain), "the definition has more than 10000 nodes"},
		{"nodes of functions", doubling.String(), "has more than 10000 nodes"},
		{"a long constant", body("y <- x * {1" + strings.Repeat("*3", 200) + "}"), "a constant has more than 100 numbers"},
		{"a long name", body("y <- " + strings.Repeat("a", 300)), "a name has 300 characters, want at most 200"},
		{"digits", body("y <- x * 0." + strings.Repeat("1", 1000)), "a number has 1002 characters, want at most 400"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := def.Parse(test.text); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %.200v, want %s", err, test.want)
			}
		})
	}
}

// FuzzParse looks for texts that panic, and for definitions that do not read back.
func FuzzParse(f *testing.F) {
	for _, d := range append(golden(), axes()...) {
		f.Add(d.Source())
	}
	f.Add(body("param p float in (0,1] default 0x1p-1", "y <- exp(select(x >= p, {pi/2}, NaN)) # c", `clause "é"`))
	f.Fuzz(func(t *testing.T, text string) {
		d, err := def.Parse(text, fn.All...)
		if err != nil {
			return
		}
		again, err := def.Parse(d.Source(), fn.All...)
		if err != nil || again.Source() != d.Source() || again.Hash() != d.Hash() {
			t.Fatalf("%v\n%s\n%s", err, d.Source(), again)
		}
	})
}
