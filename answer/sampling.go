package answer

import (
	"math"
	"slices"
	"strconv"
)

// Sampling says how tokens are drawn from logits. Penalties and biases change the logits that are drawn from; logprobs
// are those of the logits as they are.
type Sampling struct {
	Temperature float64 `json:"temperature"` // 0 for the largest logit
	TopK        int     `json:"top_k"`       // 0 for all tokens
	TopP        float64 `json:"top_p"`
	MinP        float64 `json:"min_p"`
	Frequency   float64 `json:"frequency_penalty"`  // times the number of times that a token is in the answer so far
	Presence    float64 `json:"presence_penalty"`   // once, if it is
	Repetition  float64 `json:"repetition_penalty"` // divides positive logits of tokens in prompt or answer, multiplies negative ones
	Bias        []Bias  `json:"logit_bias,omitempty"`
	Seed        uint64  `json:"seed"`
}

// Bias is added to the logit of a token.
type Bias struct {
	Token int32   `json:"token"`
	Value float64 `json:"value"`
}

// DefaultSampling draws tokens with the probabilities that the model gives them.
var DefaultSampling = Sampling{Temperature: 1, TopP: 1, Repetition: 1}

// Check returns an error for parameters that are out of range, for a vocabulary of a size.
func (s *Sampling) Check(vocabulary int) error {
	for _, p := range []struct {
		name      string
		v         float64
		low, high float64
	}{
		{"temperature", s.Temperature, 0, 100}, {"top_p", s.TopP, 0, 1}, {"min_p", s.MinP, 0, 1},
		{"frequency_penalty", s.Frequency, -2, 2}, {"presence_penalty", s.Presence, -2, 2}, {"repetition_penalty", s.Repetition, 0x1p-10, 0x1p10},
	} {
		if !(p.v >= p.low && p.v <= p.high) {
			return badInput("%s is %v, want %v to %v", p.name, p.v, p.low, p.high)
		}
	}
	if s.TopK < 0 || s.TopK > math.MaxInt32 {
		return badInput("top_k is %d, want at least 1, or 0 for all tokens", s.TopK)
	}
	for _, b := range s.Bias {
		if b.Token < 0 || int(b.Token) >= vocabulary {
			return badInput("logit_bias has the token %d, want 0 to %d", b.Token, vocabulary-1)
		}
		if !(b.Value >= -100 && b.Value <= 100) {
			return badInput("logit_bias of token %d is %v, want -100 to 100", b.Token, b.Value)
		}
	}
	return nil
}

// changes reports whether logits are changed before tokens are drawn.
func (s *Sampling) changes() bool {
	return s.Frequency != 0 || s.Presence != 0 || s.Repetition != 1 || len(s.Bias) > 0
}

// adjust changes the logits of the token behind others: repetition, then frequency and presence, then
// biases, each rounded to binary32 after every step.
func (s *Sampling) adjust(logits []float32, prompt, output []int32) {
	if s.Repetition != 1 {
		by := float32(s.Repetition)
		seen := map[int32]bool{}
		for _, list := range [][]int32{prompt, output} {
			for _, t := range list {
				if seen[t] {
					continue
				}
				seen[t] = true
				if logits[t] > 0 {
					logits[t] = float32(logits[t] / by)
				} else {
					logits[t] = float32(logits[t] * by)
				}
			}
		}
	}
	if s.Frequency != 0 || s.Presence != 0 {
		count := map[int32]int{}
		for _, t := range output {
			count[t]++
		}
		for t, n := range count { // each token by itself: the order does not matter
			total := float32(float32(float32(s.Frequency)*float32(n)) + float32(s.Presence))
			logits[t] = float32(logits[t] - total)
		}
	}
	for _, b := range s.Bias {
		logits[b.Token] = float32(logits[b.Token] + float32(b.Value))
	}
}

// normal returns the parameters with the biases in the order of their tokens.
func (s Sampling) normal() Sampling {
	s.Bias = slices.Clone(s.Bias)
	slices.SortStableFunc(s.Bias, func(a, b Bias) int { return int(a.Token) - int(b.Token) })
	return s
}

// MostLikely is the largest number of likeliest tokens that people ask for.
const MostLikely = 100

// Biases returns biases that are given by the numbers of tokens, as JSON has them.
func Biases(given map[string]float64) ([]Bias, error) {
	var list []Bias
	for token, v := range given {
		id, err := strconv.ParseInt(token, 10, 32)
		if err != nil || id < 0 {
			return nil, badInput("logit_bias has the token %q, want a number", token)
		}
		list = append(list, Bias{int32(id), v})
	}
	return Sampling{Bias: list}.normal().Bias, nil
}
