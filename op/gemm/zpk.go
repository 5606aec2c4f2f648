package gemm

import (
	"errors"
	"fmt"
	"sync"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/num/zpk"
	"tokitai/op"
	"tokitai/tensor"
)

// ZPKDefinition is the product of matrices of integers in Z/3^39, the largest power of 3 below
// 2^63. ZPKDefinitionOf returns that of any other ring.
var ZPKDefinition = def.Must(ZPKDefinitionOf(def.Ring{P: 3, K: 39}))

var zpkDefinitions sync.Map // by ring

// ZPKDefinitionOf returns the product of matrices of integers in Z/p^k. It returns an error if p
// is not a prime, or p^k is beyond 2^63.
func ZPKDefinitionOf(r def.Ring) (*def.Definition, error) {
	if d, ok := zpkDefinitions.Load(r); ok {
		return d.(*def.Definition), nil
	}
	made, err := def.Contraction("gemm.zpk", def.ContractionForm{
		Left: "A", LeftDims: []string{"M", "K"},
		Right: "B", RightDims: []string{"K", "N"},
		Result: "C", ResultDims: []string{"M", "N"},
		Factors: def.Only(num.I64), Ring: r,
		Formula: []string{fmt.Sprintf("C[m,n] = sum over k of A[m,k] * B[k,n] in %s", r)},
		Clauses: []string{
			sizesClause,
			"every int64 stands for its residue: -1 for p^k - 1; the sum is exact, and its order makes no difference",
			"the result is the residue from 0 to p^k - 1",
			apartClause,
		},
	})
	if err != nil {
		return nil, err
	}
	d, _ := zpkDefinitions.LoadOrStore(r, made)
	return d.(*def.Definition), nil
}

// ZPK computes C = A·B in a ring.
func ZPK(q *engine.Queue, r def.Ring, c, a, b *tensor.Tensor, opts ...engine.CallOption) error {
	d, err := ZPKDefinitionOf(r)
	if err != nil {
		return err
	}
	return engine.Call(q, d, []*tensor.Tensor{a, b, c}, nil, opts...)
}

// mostPower returns the largest k, from 1 on, for which p^k is at most 2^63.
func mostPower(p uint64) int {
	k := 1
	for q := p; p > 1 && q <= 1<<63/p; q *= p {
		k++
	}
	return k
}

// zpkOperation returns the operation on the product in one ring. Parameters choose others.
func zpkOperation(d *def.Definition) *op.Operation {
	variant := func(v *op.Values) (*def.Definition, error) {
		r := def.Ring{P: v.Uint("p"), K: int(v.Int("k", 1, 63))}
		if v.Err() != nil {
			return d, v.Err()
		}
		if !v.IsGiven("k") {
			r.K = min(r.K, mostPower(r.P))
		}
		chosen, err := ZPKDefinitionOf(r)
		if err != nil {
			switch {
			case errors.Is(err, zpk.ErrNotPrime):
				v.Refuse("p", "a prime")
			case errors.Is(err, zpk.ErrTooLarge):
				v.Refuse("k", "less: p^k is at most 2^63")
			}
			v.Fail(err)
			return d, v.Err()
		}
		return chosen, nil
	}
	o := &op.Operation{
		Name: d.Name, Summary: "exact product of matrices of integers modulo p^k", Definitions: []*def.Definition{d},
		Params: []op.Param{
			{Name: "p", Default: fmt.Sprint(d.Ring().P), Help: "the prime p"},
			{Name: "k", Default: fmt.Sprint(d.Ring().K), Help: "the exponent k; p^k is at most 2^63, by default too"},
		},
		Variant: func(v *op.Values) *def.Definition {
			chosen, _ := variant(v)
			return chosen
		},
		Run: func(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.CallOption) (engine.Args, error) {
			chosen, err := variant(v)
			if err != nil {
				return nil, err
			}
			return op.Eval(q, chosen, in, nil, opts...)
		},
		For:      zpkOperation,
		Patterns: zpkPatterns(d),
		Clauses:  op.ClausesOf(d, op.Interfaces(), op.Calculates(), op.Calculates(), op.Interfaces()),
	}
	for _, k := range []int{64, 1024} {
		o.Data = append(o.Data, op.Data{
			Name: fmt.Sprintf("wide, %d summed", k), Definition: d, Sizes: map[string]int{"M": 48, "N": 48, "K": k},
			Values: map[string]op.Element{"A": wideIntegers(63), "B": wideIntegers(63)},
		})
	}
	return o
}

// wideIntegers returns integers of either sign with up to the given number of bits. float32 has 24
// digits of them; pattern any-bits has all.
func wideIntegers(bits int) op.Element {
	return func(g *gen.Generator, _, _ int) float32 { return g.Exponents(-1, bits) }
}

// zpkPatterns have the ends of int64, and multiples of powers of p, whose products are 0 or
// nearly so.
func zpkPatterns(d *def.Definition) []op.Pattern {
	p, k := d.Ring().P, d.Ring().K
	powers := func(most int) op.Element {
		return func(g *gen.Generator, _, _ int) float32 {
			v := float32(1 + g.Below(2))
			for range g.Below(most + 1) {
				v *= float32(p)
			}
			return v
		}
	}
	// power returns p^e times 1, -1, 2 or -2.
	power := func(g *gen.Generator, e int) int64 {
		v := int64([]int{1, -1, 2, -2}[g.Below(4)])
		for range e {
			v *= int64(p)
		}
		return v
	}
	var list []op.Pattern
	add := func(name string, left, right op.Element) {
		list = append(list, op.Pattern{Name: name, Definition: d, Values: map[string]op.Element{"A": left, "B": right}})
	}
	add("least", func(*gen.Generator, int, int) float32 { return -0x1p63 }, wideIntegers(63))
	add("minus-one", func(*gen.Generator, int, int) float32 { return -1 }, func(*gen.Generator, int, int) float32 { return -1 })
	add("small-valuations", powers(min(8, k-1)), powers(min(8, k-1)))
	add("wide-left", wideIntegers(63), func(g *gen.Generator, _, _ int) float32 { return float32(g.Below(3) - 1) })
	half := (k + 1) / 2
	return append(list, op.Pattern{ // products of valuation k-1, the largest that is not 0, and k
		Name: "large-valuations", Definition: d, Integers: map[string]op.Integer{
			"A": func(g *gen.Generator, _, c int) int64 { return power(g, c%half) },
			"B": func(g *gen.Generator, r, _ int) int64 { return power(g, k-1-r%half+g.Below(2)) },
		},
	})
}
