package attention_test

import (
	"math"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/attention"
	"tokitai/verify/mutants"
)

// flashBackward computes the gradients query by query and key by key. The zero flashBackward is the
// definition; its fields are faults, or liberties.
type flashBackward struct {
	sees  func(key, query int) bool // key <= query if it is nil
	power func(x float32) float32   // 2^x if it is not the definition's
	step  func(x float32) float32   // rounds an exponent

	isAscending    bool // the blocks of dq
	isChained      bool // dk and dv are one sum over queries and heads
	turnsHeads     bool // the last head of a group comes first
	scalesNoKeys   bool // dk lacks the scale
	keepsGradients bool // ds is not rounded
	ownMean        bool // delta is the sum of p*dp, from which the mean is left out
	multipliesMask bool // what is not seen is multiplied by zero
	forgetsDelta   bool // ds is p*dp
	losesHead      bool // a key adds all heads of its group but the last
	isNatural      bool // lse is taken for a natural logarithm
}

func (k flashBackward) kernel() mutants.Plain {
	return mutants.Plain{Body: func(c *mutants.Call) { k.run(c) }}
}

// tile holds the weights of a sequence and head: a row for each query, a column for each key.
type tile struct {
	p, ds [][]float32 // rounded
	sees  [][]bool
}

func (k flashBackward) run(c *mutants.Call) {
	if k.sees == nil {
		k.sees = func(key, query int) bool { return key <= query }
	}
	dtype := c.Stored[0].DType
	if k.power == nil {
		k.power = shortPower
		if dtype == num.F32 {
			k.power = exactPower
		}
	}
	starts, keyStarts := c.Stored[3], c.Stored[4]
	groups := c.Stored[0].Batch.Axes[1].Size
	shared := c.Stored[0].Rows / c.Stored[0].Matrices()
	for b := range starts.Rows - 1 {
		s := sequence{first: int(starts.Int(b, 0)), end: int(starts.Int(b+1, 0)), key: int(keyStarts.Int(b, 0)), groups: groups, shared: shared}
		s.keys = int(keyStarts.Int(b+1, 0)) - s.key
		for group := range groups {
			s.group = group
			k.sequence(c, dtype, s)
		}
	}
}

type sequence struct{ first, end, key, keys, group, groups, shared int }

func (s *sequence) row(t, head int) int { return (t*s.groups+s.group)*s.shared + head }
func (s *sequence) keyRow(j int) int    { return (s.key+j)*s.groups + s.group }
func (s *sequence) place(t int) int     { return s.keys - (s.end - t) }

func (k *flashBackward) sequence(c *mutants.Call, dtype num.DType, s sequence) {
	scale := float32(math.Ln2) * c.Param("kappa")
	q, key, do, dk, dv := c.Operands[0], c.Operands[1], c.Operands[5], c.Operands[9], c.Operands[10]
	var tiles []tile // by head
	for head := range s.shared {
		x := k.weigh(c, dtype, s, head)
		tiles = append(tiles, x)
		for t := s.first; t < s.end; t++ {
			dq := c.Operands[8].Row(s.row(t, head))
			for d := range dq {
				dq[d] = num.FMA(k.overKeys(s, key, x, t-s.first, d), scale, 0)
			}
		}
	}
	for j := range s.keys {
		for d := range key.Cols {
			sums := [2]float32{} // of dk and dv
			for i := range tiles {
				head := i
				if k.losesHead && i > 0 && i == len(tiles)-1 {
					continue
				}
				if k.turnsHeads {
					head = len(tiles) - 1 - i
				}
				x := &tiles[head]
				parts := [2]float32{}
				for t := s.first; t < s.end; t++ {
					if t > s.first && s.place(t)%def.StreamSegment == 0 && !k.isChained {
						sums[0], sums[1], parts = sums[0]+parts[0], sums[1]+parts[1], [2]float32{}
					}
					if at := t - s.first; x.sees[at][j] || k.multipliesMask {
						parts[0] = num.FMA(x.ds[at][j], q.Row(s.row(t, head))[d], parts[0])
						parts[1] = num.FMA(x.p[at][j], do.Row(s.row(t, head))[d], parts[1])
					}
				}
				sums[0], sums[1] = sums[0]+parts[0], sums[1]+parts[1]
			}
			if k.scalesNoKeys {
				scale = 1
			}
			dk.Row(s.keyRow(j))[d] = num.FMA(sums[0], scale, 0)
			dv.Row(s.keyRow(j))[d] = sums[1]
		}
	}
}

// overKeys returns the sum of a query over keys, block by block.
func (k *flashBackward) overKeys(s sequence, key mutants.Matrix, x tile, t, d int) float32 {
	sum := float32(0)
	blocks := (s.keys + def.StreamBlock - 1) / def.StreamBlock
	for i := range blocks {
		if !k.isAscending {
			i = blocks - 1 - i
		}
		part := float32(0)
		for j := i * def.StreamBlock; j < min((i+1)*def.StreamBlock, s.keys); j++ {
			if x.sees[t][j] || k.multipliesMask {
				part = num.FMA(x.ds[t][j], key.Row(s.keyRow(j))[d], part)
			}
		}
		sum += part
	}
	return sum
}

// weigh computes the weights of a head, and the gradients of its scores.
func (k *flashBackward) weigh(c *mutants.Call, dtype num.DType, s sequence, head int) tile {
	key, v, kappa := c.Operands[1], c.Operands[2], c.Param("kappa")
	var x tile
	for t := s.first; t < s.end; t++ {
		row := s.row(t, head)
		q, do, o := c.Operands[0].Row(row), c.Operands[5].Row(row), c.Operands[6].Row(row)
		z := c.Operands[7].V[row]
		if math.IsInf(float64(z), -1) {
			z = 0
		}
		if k.isNatural {
			z *= math.Log2E
		}
		products := make([]float32, len(do))
		for d := range do {
			products[d] = do[d] * o[d]
		}
		delta := num.LaneSum(products, num.RowLanes(len(do)))
		p, dp, sees := make([]float32, s.keys), make([]float32, s.keys), make([]bool, s.keys)
		for j := range s.keys {
			score := float32(0)
			for d := range q {
				score = num.FMA(q[d], key.Row(s.keyRow(j))[d], score)
				dp[j] = num.FMA(do[d], v.Row(s.keyRow(j))[d], dp[j])
			}
			e := score * kappa
			if k.step != nil {
				e = k.step(e)
			}
			p[j], sees[j] = k.power(e-z), k.sees(j, s.place(t))
		}
		if k.ownMean {
			delta = 0
			for j := range p {
				if sees[j] {
					delta = num.FMA(p[j], dp[j], delta)
				}
			}
		}
		ds := make([]float32, s.keys)
		for j := range p {
			if ds[j] = p[j] * (dp[j] - delta); k.forgetsDelta {
				ds[j] = p[j] * dp[j]
			}
			if k.multipliesMask && !sees[j] {
				ds[j], p[j] = 0, 0
			}
			if !k.keepsGradients {
				ds[j] = num.Round(dtype, ds[j])
			}
			p[j] = num.Round(dtype, p[j])
		}
		x.p, x.ds, x.sees = append(x.p, p), append(x.ds, ds), append(x.sees, sees)
	}
	return x
}

func wrongBackward() []mutants.Mutant {
	l := mutants.NewList(attention.Operations)
	l.From(mutants.KernelPractice)
	add := func(name, fault string, p mutants.Promise, k flashBackward) { l.Add(name, fault, p, k.kernel()) }
	l.Of(attention.BackwardDefinition, num.BF16)
	add("mask-strict", "a query does not see its own key", mutants.PromisesBits, flashBackward{sees: func(key, query int) bool { return key < query }})
	add("mask-late", "a query sees the next key", mutants.PromisesBits, flashBackward{sees: func(key, query int) bool { return key <= query+1 }})
	add("mask-multiplied", "what a query does not see is multiplied by zero", mutants.PromisesBits, flashBackward{multipliesMask: true})
	add("delta-of-weights", "delta is the sum of p*dp, that of a mean that is not rounded", mutants.PromisesBits, flashBackward{ownMean: true})
	add("head-lost", "a key adds all heads of its group but the last", mutants.Stable, flashBackward{losesHead: true})
	add("gradients-not-rounded", "ds is kept in f32", mutants.PromisesBits, flashBackward{keepsGradients: true})
	l.Of(attention.BackwardDefinition, num.F16)
	add("key-without-scale", "dk is not multiplied by the scale", mutants.PromisesBits, flashBackward{scalesNoKeys: true})
	add("delta-forgotten", "ds is p*dp", mutants.Stable, flashBackward{forgetsDelta: true})
	l.Of(attention.BackwardDefinition, num.F32)
	add("natural-logarithm", "lse is taken for a natural logarithm", mutants.Stable, flashBackward{isNatural: true})
	add("query-ascending", "a query adds blocks of keys from the first to the last", mutants.PromisesBits, flashBackward{isAscending: true})
	add("heads-descending", "a key adds the last head of its group first", mutants.PromisesBits, flashBackward{turnsHeads: true})
	add("one-chain", "a key adds all queries of a head in one sum", mutants.PromisesBits, flashBackward{isChained: true})
	l.Need(mutants.Quick, "one-chain") // queries of two segments
	return l.All
}

func rightBackward() []mutants.Mutant {
	l := mutants.NewList(attention.Operations)
	l.Of(attention.BackwardDefinition, num.BF16)
	l.Add("definition", "the definition, query by query and key by key", mutants.PromisesBits, flashBackward{}.kernel())
	l.Add("not-rounded", "sums in one chain, blocks ascending, accurate powers, ds kept in f32", mutants.Declaring("exp2=2ulp"),
		flashBackward{isAscending: true, isChained: true, keepsGradients: true, power: hardwarePower}.kernel())
	l.Of(attention.BackwardDefinition, num.F32)
	l.Add("turned", "blocks ascending, the last head first, one chain over queries", mutants.Stable,
		flashBackward{isAscending: true, isChained: true, turnsHeads: true, power: hardwarePower}.kernel())
	return l.All
}
