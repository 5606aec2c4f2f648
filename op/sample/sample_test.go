package sample_test

import (
	"math"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/optest"
	"tokitai/op/sample"
	"tokitai/tensor"
)

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

var words = sample.Words{Seed: 0x123456789abcdef0, Use: 2}

var subject = optest.Subject{
	Definition: sample.Definition, Params: []float64{float64(int32(words.Seed)), float64(int32(words.Seed >> 32)), float64(words.Use)}, Data: sample.Operations[0].Data,
	Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
		return sample.Draw(q, x[7], x[8], x[0], sample.Settings{x[1], x[2], x[3], x[4], x[5], x[6]}, words, opts...)
	},
}

func size(r, c int) map[string]int { return map[string]int{"R": r, "C": c} }

func TestDoc(t *testing.T) { optest.Doc(t, "doc.go", sample.Definition) }
func TestMatchReference(t *testing.T) {
	optest.MatchReference(t, subject, size(5, 77), size(2, 1025), size(3, 1))
}
func TestErrors(t *testing.T) { optest.Errors(t, subject, size(3, 5)) }

// one holds the settings of all rows of a call.
type one struct {
	temperature, topP, minP float32
	topK                    int32
	first                   int32 // position of the first row
}

// plain samples from the logits as they are.
var plain = one{temperature: 1, topP: 1}

func draw(t *testing.T, s one, cols int, logits ...float32) (token []int32, logprob []float32) {
	t.Helper()
	rows := len(logits) / cols
	fill := func(v float32) *tensor.Tensor {
		all := make([]float32, rows)
		for i := range all {
			all[i] = v
		}
		return optest.Vector(t, num.F32, all...)
	}
	ints := func(of func(r int) int32) *tensor.Tensor {
		all := make([]int32, rows)
		for i := range all {
			all[i] = of(i)
		}
		x, err := tensor.FromInt32(cpu.Queue().Device(), all, rows)
		optest.OK(t, err)
		return x
	}
	y, p := optest.Garbage(t, num.I32, rows), optest.Garbage(t, num.F32, rows)
	settings := sample.Settings{
		Sequence: ints(func(int) int32 { return 7 }), Position: ints(func(r int) int32 { return s.first + int32(r) }),
		Temperature: fill(s.temperature), TopK: ints(func(int) int32 { return s.topK }), TopP: fill(s.topP), MinP: fill(s.minP),
	}
	optest.OK(t, sample.Draw(cpu.Queue(), y, p, optest.Matrix(t, num.F32, rows, logits...), settings, words))
	token, err := y.Int32s()
	optest.OK(t, err)
	logprob, err = p.Float32s()
	optest.OK(t, err)
	return token, logprob
}

// repeated returns a row n times.
func repeated(n int, row ...float32) (all []float32) {
	for range n {
		all = append(all, row...)
	}
	return all
}

// frequencies draws from a row 4096 times, at as many positions, and holds the frequencies of tokens to their
// probabilities. By Hoeffding's inequality a frequency of n independent draws is off by e with probability at
// most 2*exp(-2*n*e^2), which is 2^-64 for e = 0.075.
func frequencies(t *testing.T, s one, row []float32, want ...float64) {
	t.Helper()
	const n = 4096
	token, _ := draw(t, s, len(row), repeated(n, row...)...)
	counts := make([]float64, len(row))
	for _, c := range token {
		counts[c]++
	}
	e := math.Sqrt(65 * math.Ln2 / (2 * n))
	for c, p := range want {
		if f := counts[c] / n; math.Abs(f-p) > e || p == 0 && f != 0 || p == 1 && f != 1 {
			t.Errorf("token %d of %v with %+v: drawn with frequency %v, want %v", c, row, s, f, p)
		}
	}
}

func wantTokens(t *testing.T, s one, row []float32, want int32) {
	t.Helper()
	token, _ := draw(t, s, len(row), repeated(64, row...)...)
	for r, c := range token {
		if c != want {
			t.Fatalf("%v with %+v: row %d draws token %d, want %d", row, s, r, c, want)
		}
	}
}

func TestSample(t *testing.T) {
	ln2 := float32(math.Ln2)
	row := []float32{0, 2 * ln2, ln2, 2 * ln2} // probabilities 1, 4, 2, 4 of 11
	with := func(edit func(s *one)) one {
		s := plain
		edit(&s)
		return s
	}
	optest.Clauses(t, sample.Definition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, subject, size(6, 5)) },
		"C2_words": func(t *testing.T) {
			g := gen.New("words")
			const rows, cols = 50, 37
			logits := make([]float32, rows*cols)
			for i := range logits {
				logits[i] = 2 * g.Normal()
			}
			token, _ := draw(t, with(func(s *one) { s.first = -20 }), cols, logits...)
			for r := range rows {
				best, at := math.Inf(-1), 0
				for c := range cols {
					word := num.Philox(words.Seed, [4]uint32{uint32(c) / 4, 7, uint32(r - 20), uint32(words.Use)})[c%4]
					score := float64(logits[r*cols+c]) - math.Log(-math.Log1p(-(float64(word)+0.5)/(1<<32)))
					if score > best {
						best, at = score, c
					}
				}
				if token[r] != int32(at) {
					t.Errorf("row %d: token %d, want %d", r, token[r], at)
				}
				alone, _ := draw(t, with(func(s *one) { s.first = int32(r) - 20 }), cols, logits[r*cols:(r+1)*cols]...)
				if alone[0] != token[r] {
					t.Errorf("row %d: token %d alone, %d in the batch", r, alone[0], token[r])
				}
			}
			frequencies(t, plain, row, 1./11, 4./11, 2./11, 4./11)
		},
		"C3_filters": func(t *testing.T) {
			for _, k := range []int32{0, -3, 4, 1 << 30} {
				frequencies(t, with(func(s *one) { s.topK = k }), row, 1./11, 4./11, 2./11, 4./11)
			}
			frequencies(t, with(func(s *one) { s.topK = 3 }), row, 0, 0.4, 0.2, 0.4)
			frequencies(t, with(func(s *one) { s.topK = 2 }), row, 0, 0.5, 0, 0.5)
			wantTokens(t, with(func(s *one) { s.topK = 1 }), row, 1)
			frequencies(t, with(func(s *one) { s.topP = 8.5 / 11 }), row, 0, 0.4, 0.2, 0.4)
			frequencies(t, with(func(s *one) { s.topP = 7.5 / 11 }), row, 0, 0.5, 0, 0.5)
			frequencies(t, with(func(s *one) { s.topP, s.topK = 0.7, 3 }), row, 0, 0.5, 0, 0.5) // 0.8 of what top_k keeps
			for _, p := range []float32{0, -1, -inf, 0x1p-149} {
				wantTokens(t, with(func(s *one) { s.topP = p }), row, 1)
			}
			for _, p := range []float32{1, 2, inf} {
				frequencies(t, with(func(s *one) { s.topP = p }), row, 1./11, 4./11, 2./11, 4./11)
			}
			frequencies(t, with(func(s *one) { s.minP = 0.4 }), row, 0, 0.4, 0.2, 0.4)
			for _, p := range []float32{0.6, 1, 5, inf} {
				frequencies(t, with(func(s *one) { s.minP = p }), row, 0, 0.5, 0, 0.5)
			}
			frequencies(t, with(func(s *one) { s.minP = -1 }), row, 1./11, 4./11, 2./11, 4./11)
			// A token without mass: exp(-40) is below 2^-31. At temperature +Inf it would have one.
			token, _ := draw(t, with(func(s *one) { s.topP = 1 }), 2, repeated(4096, 0, -20)...)
			limited, _ := draw(t, with(func(s *one) { s.topP = 1 - 0x1p-24 }), 2, repeated(4096, 0, -20)...)
			for r := range token {
				if limited[r] != 0 {
					t.Fatalf("row %d: top_p keeps a token without mass", r)
				}
			}
		},
		"C4_cold": func(t *testing.T) {
			for _, v := range []float32{0, -1, -inf} {
				wantTokens(t, with(func(s *one) { s.temperature = v }), row, 1)
			}
			frequencies(t, with(func(s *one) { s.temperature = 0x1p-149 }), row, 0, 0.5, 0, 0.5)
			frequencies(t, with(func(s *one) { s.temperature = 0.5 }), row, 1./37, 16./37, 4./37, 16./37)
		},
		"C5_logprob": func(t *testing.T) {
			for _, s := range []one{plain, {temperature: 0, topP: 1}, {temperature: 3, topP: 0.1}, {temperature: 1, topP: 1, topK: 1}} {
				token, logprob := draw(t, s, 4, repeated(16, 0, 0, 0, 0)...)
				for r := range token {
					if logprob[r] != float32(-2*math.Ln2) {
						t.Errorf("%+v: token %d has logprob %v, want -ln 4", s, token[r], logprob[r])
					}
				}
			}
		},
		"C6_nan_settings": func(t *testing.T) {
			wantTokens(t, with(func(s *one) { s.temperature = nan }), row, 1)
			wantTokens(t, with(func(s *one) { s.topP = nan }), row, 1)
			frequencies(t, with(func(s *one) { s.minP = nan }), row, 1./11, 4./11, 2./11, 4./11)
		},
		"C7_hot": func(t *testing.T) {
			frequencies(t, with(func(s *one) { s.temperature = inf }), []float32{0, -0x1p95, 3, -inf}, 1./3, 1./3, 1./3, 0)
		},
		"C8_masked": func(t *testing.T) {
			frequencies(t, plain, []float32{-inf, 1, -inf, 1}, 0, 0.5, 0, 0.5)
			wantTokens(t, with(func(s *one) { s.topP = 0.75 }), []float32{-inf, -inf, -inf, 1}, 3)
			wantTokens(t, with(func(s *one) { s.topK = 3 }), []float32{-inf, -inf, -inf, 1}, 3)
		},
		"C9_no_number": func(t *testing.T) {
			for _, s := range []one{plain, {temperature: 0, topP: 1}, {temperature: 1, topP: 0.5, topK: 2}} {
				token, logprob := draw(t, s, 4, 1, nan, inf, nan, 1, inf, 2, inf, -inf, -inf, -inf, -inf, 0, 0, 90, 0)
				for r, want := range []int32{1, 1, 0, 2} {
					if token[r] != want || (logprob[r] == logprob[r]) != (r == 3) {
						t.Errorf("%+v: row %d gives token %d and logprob %v, want token %d", s, r, token[r], logprob[r], want)
					}
				}
			}
		},
	})
}
