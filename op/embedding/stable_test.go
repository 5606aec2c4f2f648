package embedding_test

import (
	"math/rand/v2"
	"slices"

	"tokitai/num"
	"tokitai/op/embedding"
	"tokitai/verify/mutants"
)

// Kernels that promise to be stable: gradients of tables summed as sorts, segments and atomic
// additions do, and some that lose terms.

// shuffled adds in an order that depends on the number of terms alone, and on nothing that a
// reader could guess: as atomic additions do, but the same in every call.
func shuffled(x []float32) float32 {
	s := float32(0)
	for _, i := range rand.New(rand.NewPCG(1, uint64(len(x)))).Perm(len(x)) {
		s += x[i]
	}
	return s
}

// segmented adds segments of 32 pairwise and their sums one after another, as a segmented
// reduction of sorted indices does.
func segmented(x []float32) float32 {
	s := float32(0)
	for at := 0; at < len(x); at += 32 {
		s += mutants.InPairs(x[at:min(at+32, len(x))])
	}
	return s
}

// bySize adds from the smallest to the largest.
func bySize(x []float32) float32 {
	sorted := slices.Clone(x)
	slices.SortFunc(sorted, func(a, b float32) int {
		switch {
		case a*a < b*b:
			return -1
		case a*a > b*b:
			return 1
		}
		return 0
	})
	return mutants.Ascending(sorted)
}

func stableRight(l *mutants.List) {
	for _, k := range []struct {
		name, text string
		sum        func([]float32) float32
	}{
		{"shuffled", "f32 additions in an order like that of atomics", shuffled},
		{"segmented", "sorted by index, segments of 32 pairwise", segmented},
		{"by-size", "from the smallest term to the largest", bySize},
		{"binary64", "the sum in binary64", mutants.InDouble},
		{"compensated", "Kahan's sum", mutants.Compensated},
	} {
		l.AddAll(embedding.BackwardDefinition, k.name, k.text, mutants.Stable, mutants.Plain{Body: mutants.Scatter(k.sum)})
	}
	l.AddAll(embedding.AccumulateDefinition, "old-last", "the old value is added at the end", mutants.Stable, mutants.Plain{Body: mutants.Scatter(func(x []float32) float32 {
		return segmented(x[1:]) + x[0]
	})})
}

func stableWrong(l *mutants.List) {
	add := func(name, fault string, sum func([]float32) float32) {
		l.Add(name, fault, mutants.Stable, mutants.Plain{Body: mutants.Scatter(sum)})
	}
	l.From(mutants.KernelPractice)
	l.Of(embedding.BackwardDefinition, num.F32)
	add("segment-ends-lost", "the last term of every whole segment of 32 is lost", mutants.WithoutEvery(32, segmented))
	add("one-in-4096-lost", "the last of every 4,096 terms of a row is lost", mutants.WithoutEvery(4096, segmented))
	add("segments-in-bf16", "sums of segments of 32 meet as bf16", func(x []float32) float32 {
		s := float32(0)
		for at := 0; at < len(x); at += 32 {
			s = num.Round(num.BF16, s+mutants.InPairs(x[at:min(at+32, len(x))]))
		}
		return s
	})
	add("duplicates-in-a-warp", "of equal indices among 32 neighbours one counts twice and one not at all", func(x []float32) float32 {
		if len(x) > 1 {
			x = slices.Clone(x)
			x[1] = x[0]
		}
		return segmented(x)
	})
	add("fixed-point", "terms are added as multiples of 2^-20", func(x []float32) float32 {
		s := int64(0)
		for _, v := range x {
			if v != v || v-v != 0 || v > 1e12 || v < -1e12 {
				return mutants.Ascending(x)
			}
			s += int64(v * (1 << 20))
		}
		return float32(float64(s) / (1 << 20))
	})
	l.Of(embedding.BackwardDefinition, num.F16)
	add("f16-in-pairs", "pairs are added as f16 before they meet", func(x []float32) float32 {
		s := float32(0)
		for at := 0; at < len(x); at += 2 {
			s += num.Round(num.F16, mutants.InPairs(x[at:min(at+2, len(x))]))
		}
		return s
	})
	l.Of(embedding.AccumulateDefinition, num.BF16)
	add("old-rounded-sum", "the sum is rounded to bf16 before the old value is added", func(x []float32) float32 {
		return num.Round(num.BF16, segmented(x[1:])) + x[0]
	})
	l.Need(mutants.Quick, "one-in-4096-lost")
}

// cheats adds kernels that are right only where somebody looks.
func cheats(l *mutants.List) {
	l.From(mutants.KernelPractice)
	l.Of(embedding.BackwardDefinition, num.F32)
	l.AddCheats(mutants.Exactly, "cache-by-elements", "looks-alike", "input-as-scratch", "listed-shapes", "already-there", "writes-nan-only", "cancelled-half-way")
}
