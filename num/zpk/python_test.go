package zpk_test

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
	"tokitai/num/zpk"
)

//go:embed testdata/integers.py
var integersScript string

// question is a case for testdata/integers.py, with what this package answers.
type question struct {
	P    string   `json:"p"`
	K    int      `json:"k"`
	Op   string   `json:"op"`
	Word bool     `json:"word"` // elements are uint64
	X    []string `json:"x"`
	Y    []string `json:"y,omitempty"`
	N    int      `json:"n,omitempty"` // the length of a sum

	got string
}

// TestAgainstPython compares every operation with Python's integers, which compute it in another
// way: in words up to 2^63, and in math/big up to there and beyond.
func TestAgainstPython(t *testing.T) {
	python := tool.Need(t, "python3")
	random := rand.New(rand.NewPCG(7, 8))
	rounds := testlevel.Pick(8, 60, 600)
	var list []*question
	for _, r := range rings {
		p := new(big.Int).SetUint64(r.p)
		w, b := word(t, r.p, r.k), bigRing(t, r.p, r.k)
		list = ask(list, questions[uint64]{w, p, r.k, true, func(x *big.Int) uint64 { return x.Uint64() }, random}, rounds)
		list = ask(list, questions[*big.Int]{b, p, r.k, false, func(x *big.Int) *big.Int { return x }, random}, rounds)
	}
	mersenne := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 127), big.NewInt(1))
	for _, r := range []struct {
		p *big.Int
		k int
	}{
		{big.NewInt(3), 60}, {big.NewInt(2), 64}, {big.NewInt(2), 1000}, {big.NewInt(3), 40}, {big.NewInt(7), 200}, {big.NewInt(4294967291), 2},
		{new(big.Int).SetUint64(18446744073709551557), 1}, {new(big.Int).SetUint64(18446744073709551557), 5}, {mersenne, 1}, {mersenne, 3},
	} {
		b, err := zpk.NewBig(r.p, r.k)
		if err != nil {
			t.Fatal(err)
		}
		list = ask(list, questions[*big.Int]{b, r.p, r.k, false, func(x *big.Int) *big.Int { return x }, random}, rounds)
	}
	list = append(list, askRings(mersenne)...)

	var input bytes.Buffer
	for _, q := range list {
		line, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		input.Write(append(line, '\n'))
	}
	command := exec.Command(python, "-c", integersScript)
	command.Stdin = &input
	output, err := command.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, exit.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	answers := strings.Split(strings.TrimSuffix(string(output), "\n"), "\n")
	if len(answers) != len(list) {
		t.Fatalf("Python gave %d answers to %d cases", len(answers), len(list))
	}
	counts, refusals := map[string]int{}, map[string]int{}
	for i, q := range list {
		if q.got != answers[i] {
			t.Fatalf("%s in Z/%s^%d (in words: %v) of %s and %s: got %s, want %s", q.Op, q.P, q.K, q.Word, q.X, q.Y, q.got, answers[i])
		}
		counts[q.Op]++
		if strings.Contains(q.got, "-") {
			refusals[q.Op+": "+q.got]++
		}
	}
	for _, wanted := range []string{"ring: not-prime", "ring: too-large", "ring: bad-exponent", "inverse: not-unit", "div: not-unit", "inverse-matrix: not-unit", "lift: not-unit", "lift: not-root"} {
		if refusals[wanted] == 0 {
			t.Errorf("no case has the answer %q", wanted)
		}
	}
	t.Logf("%d cases, all equal: %v; refused by both: %v", len(list), counts, refusals)
}

// askRings asks which rings there are.
func askRings(mersenne *big.Int) (list []*question) {
	add := func(p *big.Int, k int, isWord bool, q string, err error) {
		list = append(list, &question{P: p.String(), K: k, Op: "ring", Word: isWord, got: outcome(q, err)})
	}
	for _, p := range []uint64{0, 1, 2, 3, 4, 6, 9, 15, 561, 341550071728321, 3215031751, 3037000493, 3037000499, 4294967291, 4294967297, 9223372036854775783, 9223372036854775837, 18446744073709551557, math.MaxUint64} {
		for _, k := range []int{-1, 0, 1, 2, 3, 39, 40, 60, 62, 63, 64} {
			w, err := zpk.NewWord(p, k)
			q := ""
			if err == nil {
				q = fmt.Sprint(w.Q())
			}
			wide := new(big.Int).SetUint64(p)
			add(wide, k, true, q, err)
			b, err := zpk.NewBig(wide, k)
			if err == nil {
				q = b.Q().String()
			}
			add(wide, k, false, q, err)
		}
	}
	for _, p := range []*big.Int{mersenne, new(big.Int).Add(mersenne, big.NewInt(2)), new(big.Int).Mul(mersenne, mersenne), big.NewInt(-3), big.NewInt(-1)} {
		b, err := zpk.NewBig(p, 2)
		q := ""
		if err == nil {
			q = b.Q().String()
		}
		add(p, 2, false, q, err)
	}
	return list
}

// questions asks about one ring.
type questions[E any] struct {
	r      zpk.Arithmetic[E]
	p      *big.Int
	k      int
	isWord bool
	of     func(*big.Int) E // the element of an integer from 0 to p^k-1
	random *rand.Rand
}

// division is what the rings have beyond Arithmetic.
type division[E any] interface {
	Div(x, y E) (E, error)
}

// element returns a random element: of any valuation, small, or near p^k.
func (s questions[E]) element() *big.Int {
	q := new(big.Int).Exp(s.p, big.NewInt(int64(s.k)), nil)
	x := new(big.Int)
	for range q.BitLen()/64 + 1 {
		x.Lsh(x, 64).Or(x, new(big.Int).SetUint64(s.random.Uint64()))
	}
	switch s.random.IntN(4) {
	case 0: // of a random valuation
		x.Mul(x, new(big.Int).Exp(s.p, big.NewInt(s.random.Int64N(int64(s.k)+1)), nil))
	case 1:
		x.SetInt64(s.random.Int64N(7) - 3)
	}
	return x.Mod(x, q)
}

func (s questions[E]) elements(n int) (texts []string, list []E) {
	for range n {
		x := s.element()
		texts, list = append(texts, x.String()), append(list, s.of(x))
	}
	return texts, list
}

// matrix cuts elements into rows.
func matrix[E any](list []E, columns int) (rows [][]E) {
	for len(list) > 0 {
		rows, list = append(rows, list[:columns]), list[columns:]
	}
	return rows
}

func ask[E any](list []*question, s questions[E], rounds int) []*question {
	add := func(op string, x, y []string, n int, err error, answer ...E) {
		var texts []string
		for _, v := range answer {
			texts = append(texts, fmt.Sprint(v))
		}
		list = append(list, &question{P: s.p.String(), K: s.k, Op: op, Word: s.isWord, X: x, Y: y, N: n, got: outcome(strings.Join(texts, " "), err)})
	}
	r := s.r
	for _, v := range []int64{0, 1, -1, 7, -7, math.MaxInt64, math.MinInt64, math.MinInt64 + 1} {
		add("int", []string{fmt.Sprint(v)}, nil, 0, nil, r.Int(v))
	}
	for round := range rounds {
		tx, x := s.elements(1)
		ty, y := s.elements(1)
		if round == 0 { // (-1)², which overflows where a product is cut to a word
			x, y = []E{r.Int(-1)}, []E{r.Int(-1)}
			tx, ty = []string{fmt.Sprint(x[0])}, []string{fmt.Sprint(y[0])}
		}
		add("add", tx, ty, 0, nil, r.Add(x[0], y[0]))
		add("sub", tx, ty, 0, nil, r.Sub(x[0], y[0]))
		add("mul", tx, ty, 0, nil, r.Mul(x[0], y[0]))
		list = append(list, &question{P: s.p.String(), K: s.k, Op: "valuation", Word: s.isWord, X: tx, got: fmt.Sprint(r.Valuation(x[0]))})
		inverse, err := r.Inverse(x[0])
		add("inverse", tx, nil, 0, err, inverse)
		quotient, err := r.(division[E]).Div(x[0], y[0])
		add("div", tx, ty, 0, err, quotient)

		m, depth, n := 1+s.random.IntN(5), 1+s.random.IntN(9), 1+s.random.IntN(5)
		ta, a := s.elements(m * depth)
		tb, b := s.elements(depth * n)
		product, err := zpk.Product(r, matrix(a, depth), matrix(b, n))
		add("product", ta, tb, depth, err, flat(product)...)
		ta, a = s.elements(n * n)
		inverted, err := zpk.InverseMatrix(r, matrix(a, n))
		add("inverse-matrix", ta, nil, n, err, flat(inverted)...)

		// A polynomial of degree up to 4 with a root that is known, mod p alone.
		tf, f := s.elements(2 + s.random.IntN(4))
		root := s.element()
		root.Mod(root, s.p)
		value, _ := zpk.Evaluate(r, f, s.of(root))
		if round%4 != 0 { // otherwise it is a root by chance only
			f[0] = r.Sub(f[0], value)
			if round%4 == 2 && s.k > 1 { // mod p, and not mod p^k
				f[0] = r.Add(f[0], s.of(s.p))
			}
			tf[0] = fmt.Sprint(f[0])
		}
		lifted, err := zpk.Lift(r, f, s.of(root))
		add("lift", tf, []string{root.String()}, 0, err, lifted)
	}
	return list
}

func flat[E any](rows [][]E) (list []E) {
	for _, row := range rows {
		list = append(list, row...)
	}
	return list
}

// outcome returns an answer as the script prints it, or the kind of an error.
func outcome(answer string, err error) string {
	switch {
	case err == nil:
		return answer
	case errors.Is(err, zpk.ErrNotPrime):
		return "not-prime"
	case errors.Is(err, zpk.ErrTooLarge):
		return "too-large"
	case errors.Is(err, zpk.ErrNotUnit):
		return "not-unit"
	case strings.Contains(err.Error(), "want a root mod p"):
		return "not-root"
	case strings.Contains(err.Error(), "want at least 1"):
		return "bad-exponent"
	}
	return err.Error()
}
