package attention_test

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/num"
	"tokitai/op/attention"
	"tokitai/reference"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, attention.Operations, wrong(), right(), peers)
}

// peers returns a plain kernel in two passes that rounds exponents as the given parts round steps.
func peers(p mutants.Parts) map[*def.Definition]func(*mutants.Call) {
	return map[*def.Definition]func(*mutants.Call){
		attention.ForwardDefinition:  flash{block: 1 << 30, segment: 1 << 30, power: hardwarePower, step: p.Step}.run,
		attention.DecodeDefinition:   flash{block: 1 << 30, segment: 1 << 30, power: hardwarePower, step: p.Step}.run,
		attention.BackwardDefinition: flashBackward{power: hardwarePower, step: p.Step, isAscending: true, isChained: true}.run,
	}
}

// flash is a kernel that carries the largest exponent, the sum of the weights and the weighed sum of the
// values over blocks of keys. The zero flash is the definition; its fields are faults, or liberties.
type flash struct {
	block, segment int // 128 and 1,024 if they are 0

	sees    func(key, query int) bool   // key <= query if it is nil
	keyAt   func(first, key, n int) int // the row that is read as a key of a sequence of n keys
	valueAt func(first, key, n int) int

	// table returns which entry of a table of pages is read for a page of a sequence, given its last.
	table func(b, page, last int) (row, col int)

	power   func(x float32) float32 // 2^x if it is not the definition's
	step    func(x float32) float32 // rounds an exponent
	largest func(a, b float32) float32
	origin  func(largest float32) float32

	isDescending   bool // blocks
	keepsOld       bool // O and l are not rescaled
	roundsSum      bool // l is the sum of rounded weights
	keepsWeights   bool // weights are not rounded to the format of v
	signsZeros     bool // the last step is a product
	isNatural      bool // lse in base e
	forgetsSum     bool // the fold of segments takes l of the last
	foldsPlainly   bool // O of segments are added as they are
	countsFromCall bool // places count from the first key of the call
	isChained      bool // the weights of a block are added one after another
	scaleTwice     bool // kappa multiplies q, rounded to its format
}

type state struct {
	m, l    float32
	o       []float32
	isEmpty bool
}

func (k flash) kernel() mutants.Plain {
	return mutants.Plain{Body: func(c *mutants.Call) { k.run(c) }}
}

func (k flash) run(c *mutants.Call) {
	if k.block == 0 {
		k.block, k.segment = def.StreamBlock, def.StreamSegment
	}
	if k.sees == nil {
		k.sees = func(key, query int) bool { return key <= query }
	}
	plain := func(first, key, _ int) int { return first + key }
	if k.keyAt == nil {
		k.keyAt = plain
	}
	if k.valueAt == nil {
		k.valueAt = plain
	}
	if k.largest == nil {
		k.largest = num.Max
	}
	if k.origin == nil {
		k.origin = func(m float32) float32 {
			if math.IsInf(float64(m), -1) {
				return 0
			}
			return m
		}
	}
	dtype := c.Stored[0].DType
	if k.power == nil {
		k.power = shortPower
		if dtype == num.F32 {
			k.power = exactPower
		}
	}
	starts := c.Stored[3]
	groups := c.Stored[0].Batch.Axes[1].Size
	shared := c.Stored[0].Rows / c.Stored[0].Matrices()
	for b := range starts.Rows - 1 {
		first, n := 0, 0
		at := k
		if table := c.Definition.Operand("pages"); table < 0 {
			first, n = int(c.Stored[4].Int(b, 0)), int(c.Stored[4].Int(b+1, 0)-c.Stored[4].Int(b, 0))
		} else {
			n = int(c.Stored[4].Int(b, 0))
			at.keyAt = k.inPages(c, c.Stored[table], b, k.keyAt)
			at.valueAt = k.inPages(c, c.Stored[table], b, k.valueAt)
		}
		end := int(starts.Int(b+1, 0))
		for t := int(starts.Int(b, 0)); t < end; t++ {
			for head := range groups * shared {
				at.query(c, dtype, t*groups*shared+head, head/shared, groups, n-(end-t), first, n)
			}
		}
	}
}

// inPages returns where the keys of a sequence lie in pages. A kernel that reads a place of another page
// finds it by its own place in the table.
func (k *flash) inPages(c *mutants.Call, table num.Array, b int, at func(first, key, n int) int) func(first, key, n int) int {
	each := c.Stored[1].Batch.Axes[1].Size
	return func(_, key, n int) int {
		if key = at(0, key, n); k.table == nil {
			return int(table.Int(b, key/each))*each + key%each
		}
		row, page := k.table(b, key/each, (n-1)/each)
		if row < 0 || row >= table.Rows || page < 0 || page >= table.Cols {
			row, page = b, key/each
		}
		return int(table.Int(row, page))*each + key%each
	}
}

// query computes a row.
func (k *flash) query(c *mutants.Call, dtype num.DType, row, group, groups, place, first, n int) {
	q, key, value := c.Operands[0].Row(row), c.Operands[1], c.Operands[2]
	kappa := c.Param("kappa")
	if k.countsFromCall {
		place += first
	}
	exponents := make([]float32, n)
	for j := range n {
		at := k.keyAt(first, j, n)*groups + group
		if at < 0 || at >= key.Rows {
			at = (first+j)*groups + group
		}
		s := float32(0)
		for d, x := range q {
			if k.scaleTwice {
				x = num.Round(dtype, x*kappa)
			}
			s = num.FMA(x, key.Row(at)[d], s)
		}
		exponents[j] = s * kappa
		if k.scaleTwice {
			exponents[j] = s
		}
		if k.step != nil {
			exponents[j] = k.step(exponents[j])
		}
	}
	all := state{isEmpty: true}
	for begin := 0; begin < n; begin += k.segment {
		part := state{m: float32(math.Inf(-1)), o: make([]float32, len(q)), isEmpty: true}
		var blocks []int
		for at := begin; at < min(begin+k.segment, n); at += k.block {
			blocks = append(blocks, at)
		}
		for i := range blocks {
			at := blocks[i]
			if k.isDescending {
				at = blocks[len(blocks)-1-i]
			}
			k.take(&part, dtype, exponents, value, group, groups, place, first, n, at, min(at+k.block, n))
		}
		k.join(&all, part)
	}
	o, lse := c.In("o").Row(row), &c.In("lse").V[row]
	nan := float32(math.NaN())
	switch {
	case all.isEmpty || all.l == 0:
		clear(o)
		*lse = float32(math.Inf(-1))
	case all.m != all.m || math.IsInf(float64(all.m), 1):
		for i := range o {
			o[i] = nan
		}
		*lse = nan
	default:
		inverse := 1 / all.l
		for i := range o {
			o[i] = num.FMA(all.o[i], inverse, 0)
			if k.signsZeros {
				o[i] = all.o[i] * inverse
			}
		}
		*lse = all.m + logarithm(all.l)
		if k.isNatural {
			*lse *= math.Ln2
		}
	}
}

// take takes the keys from begin to end into a state.
func (k *flash) take(s *state, dtype num.DType, exponents []float32, value mutants.Matrix, group, groups, place, first, n, begin, end int) {
	largest, isEmpty := s.m, true
	for j := begin; j < end; j++ {
		if k.sees(j, place) {
			largest, isEmpty = k.largest(largest, exponents[j]), false
		}
	}
	if isEmpty {
		return
	}
	z := k.origin(largest)
	a := k.power(s.m - z)
	var lanes [def.StreamLanes]float32
	weights := make([]float32, end-begin)
	for j := begin; j < end; j++ {
		if !k.sees(j, place) {
			continue
		}
		p := k.power(exponents[j] - z)
		weights[j-begin] = p
		if !k.keepsWeights {
			weights[j-begin] = num.Round(dtype, p)
		}
		if k.roundsSum {
			p = weights[j-begin]
		}
		lane := j % def.StreamLanes
		if k.isChained {
			lane = 0
		}
		lanes[lane] += p
	}
	for m := len(lanes); m > 1; m /= 2 {
		for i := range m / 2 {
			lanes[i] = lanes[2*i] + lanes[2*i+1]
		}
	}
	if k.keepsOld {
		a = 1
	}
	s.m, s.isEmpty = largest, false
	s.l = num.FMA(s.l, a, lanes[0])
	for d := range s.o {
		x := s.o[d] * a
		for j := begin; j < end; j++ {
			if k.sees(j, place) {
				at := k.valueAt(first, j, n)*groups + group
				if at < 0 || at >= value.Rows {
					at = (first+j)*groups + group
				}
				x = num.FMA(weights[j-begin], value.Row(at)[d], x)
			}
		}
		s.o[d] = x
	}
}

// join adds the next segment.
func (k *flash) join(all *state, next state) {
	switch {
	case next.isEmpty:
		return
	case all.isEmpty:
		*all = next
		return
	}
	largest := num.Max(all.m, next.m)
	z := k.origin(largest)
	a, b := k.power(all.m-z), k.power(next.m-z)
	if k.foldsPlainly {
		a, b = 1, 1
	}
	all.m = largest
	if all.l = num.FMA(all.l, a, float32(next.l*b)); k.forgetsSum {
		all.l = next.l
	}
	for i := range all.o {
		all.o[i] = num.FMA(all.o[i], a, float32(next.o[i]*b))
	}
}

// shortPower and exactPower are the definition's powers of two, logarithm its logarithm.
var (
	shortPower = value(fn.Exp2Short3Function)
	exactPower = value(fn.Exp2Function)
	logarithm  = value(fn.Log2Function)
)

// value returns a function as the reference computes it.
func value(f *def.Function) func(x float32) float32 {
	d := def.Must(def.Rowwise("f", func(b *def.Builder) {
		b.Out("y", f.Of(b.In("x", def.Only(num.F32))), def.Only(num.F32))
	}))
	return func(x float32) float32 {
		y := num.NewArray(num.F32, 1, 1)
		if err := reference.Run(d, []num.Array{num.ArrayOf(num.F32, 1, 1, x), y}, reference.Options{}); err != nil {
			panic(err)
		}
		return y.At(0, 0)
	}
}

// hardwarePower is as good as that of a GPU.
func hardwarePower(x float32) float32 { return float32(math.Exp2(float64(x))) }

func wrong() []mutants.Mutant {
	l := mutants.NewList(attention.Operations)
	l.From(mutants.KernelPractice)
	add := func(name, fault string, p mutants.Promise, k flash) { l.Add(name, fault, p, k.kernel()) }
	l.Of(attention.ForwardDefinition, num.BF16)
	add("mask-strict", "a query does not see its own key", mutants.Stable, flash{sees: func(key, query int) bool { return key < query }})
	add("mask-late", "a query sees the next key", mutants.PromisesBits, flash{sees: func(key, query int) bool { return key <= query+1 }})
	add("mask-at-the-start", "the first query stands at the first key, as if there were no cache", mutants.PromisesBits, flash{countsFromCall: true})
	add("blocks-of-64", "blocks of 64 keys", mutants.PromisesBits, flash{block: 64, segment: 1024})
	add("descending", "blocks are taken from the last to the first", mutants.PromisesBits, flash{isDescending: true})
	add("no-rescale", "O and l are not rescaled when the maximum grows", mutants.Stable, flash{keepsOld: true})
	add("sum-of-rounded", "l is the sum of the weights as they are rounded for the product", mutants.PromisesBits, flash{roundsSum: true})
	add("weights-not-rounded", "weights are kept in f32", mutants.PromisesBits, flash{keepsWeights: true})
	add("scaled-queries", "kappa multiplies the queries, rounded to bf16", mutants.PromisesBits, flash{scaleTwice: true})
	add("lse-base-e", "lse is a natural logarithm", mutants.Stable, flash{isNatural: true})
	add("accurate-power", "weights by an accurate power of two", mutants.PromisesBits, flash{power: hardwarePower})
	l.Of(attention.ForwardDefinition, num.F16)
	add("nan-dropped", "maxima drop NaN, as fmax does, and so does the clamp of the exponential", mutants.PromisesBits, flash{
		largest: func(a, b float32) float32 {
			switch {
			case a != a:
				return b
			case b != b:
				return a
			}
			return max(a, b)
		},
		power: func(x float32) float32 {
			if x != x {
				x = -127
			}
			return shortPower(x)
		},
	})
	add("all-hidden-nan", "the maximum is subtracted even if it is -Inf", mutants.PromisesBits, flash{origin: func(m float32) float32 { return m }})
	add("initial-maximum", "the maximum begins at -1e4", mutants.PromisesBits, flash{largest: func(a, b float32) float32 {
		if math.IsInf(float64(a), -1) {
			a = -1e4
		}
		return num.Max(a, b)
	}})
	add("stale-value", "the last value of a block is that of the block before", mutants.Stable, flash{valueAt: func(first, key, _ int) int {
		if key%def.StreamBlock == def.StreamBlock-1 {
			return first + key - def.StreamBlock/2
		}
		return first + key
	}})
	add("other-sequence", "keys are counted from the end of the call", mutants.PromisesBits, flash{keyAt: func(_, key, _ int) int { return key }})
	l.Of(attention.ForwardDefinition, num.F32)
	add("sign-of-zero", "the last step is a product: the sign of a zero in O shows", mutants.PromisesBits, flash{signsZeros: true})
	before := func(first, key, n int) int {
		if n > def.StreamBlock && n%def.StreamBlock == 1 && key == n-1 {
			return first + key - 1
		}
		return first + key
	}
	add("lone-key-of-a-block", "a key that is alone in the last block is the one before it", mutants.Stable, flash{keyAt: before, valueAt: before})
	add("sum-in-a-chain", "the weights of a block are added one after another", mutants.PromisesBits, flash{isChained: true})
	add("one-segment", "all keys are one segment", mutants.PromisesBits, flash{block: 128, segment: 1 << 30})
	add("fold-forgets-sum", "segments are joined with l of the last", mutants.PromisesBits, flash{forgetsSum: true})
	add("fold-without-rescale", "segments are added as if their maxima were equal", mutants.PromisesBits, flash{foldsPlainly: true})
	l.Of(attention.DecodeDefinition, num.BF16)
	add("page-of-before", "the last page of a sequence is the one before: its entry is read before it is written", mutants.Stable, flash{table: func(b, page, last int) (int, int) {
		if page > 0 && page == last {
			page--
		}
		return b, page
	}})
	add("next-page", "every page is the next one of the table", mutants.Stable, flash{table: func(b, page, last int) (int, int) { return b, min(page+1, last) }})
	add("first-table", "all sequences read the table of the first", mutants.Stable, flash{table: func(_, page, _ int) (int, int) { return 0, page }})
	add("mask-strict", "a query does not see its own key", mutants.Stable, flash{sees: func(key, query int) bool { return key < query }})
	l.Of(attention.DecodeDefinition, num.F16)
	add("turned-pairs", "a key and the next one of its page change places", mutants.PromisesBits, flash{keyAt: func(_, key, n int) int { return min(key^1, n-1) }, valueAt: func(_, key, n int) int { return min(key^1, n-1) }})
	add("mask-late", "a query sees the next key", mutants.PromisesBits, flash{sees: func(key, query int) bool { return key <= query+1 }})
	add("split-at-pages", "blocks of 64 keys", mutants.PromisesBits, flash{block: 64, segment: 1024})
	l.Of(attention.DecodeDefinition, num.F32)
	add("one-segment", "all keys are one segment", mutants.PromisesBits, flash{block: 128, segment: 1 << 30})
	return append(l.All, wrongBackward()...)
}

func right() []mutants.Mutant {
	l := mutants.NewList(attention.Operations)
	add := func(name, text string, p mutants.Promise, k flash) { l.Add(name, text, p, k.kernel()) }
	l.Of(attention.ForwardDefinition, num.BF16)
	add("definition", "the definition, query by query", mutants.PromisesBits, flash{})
	add("online-64", "blocks of 64 keys in one segment, accurate powers, weights kept in f32", mutants.Declaring("exp2=2ulp"), flash{block: 64, segment: 1 << 30, power: hardwarePower, keepsWeights: true})
	l.Of(attention.ForwardDefinition, num.F16)
	add("from-the-right", "blocks of 176 keys from the last to the first, as FlashAttention-3 takes them", mutants.Declaring("exp2=2ulp"), flash{block: 176, segment: 1 << 30, isDescending: true, power: hardwarePower})
	l.Of(attention.ForwardDefinition, num.F32)
	add("two-pass", "the largest score first, then one sum", mutants.Stable, flash{block: 1 << 30, segment: 1 << 30, power: hardwarePower, isChained: true})
	add("split", "parts of 64 keys, each by itself, joined at the end", mutants.Stable, flash{block: 32, segment: 64, power: hardwarePower})
	l.Of(attention.DecodeDefinition, num.F32)
	add("by-pages", "blocks of 64 keys, each by itself, joined at the end", mutants.Stable, flash{block: 64, segment: 64, power: hardwarePower})
	return append(l.All, rightBackward()...)
}
