package matmul

import (
	"fmt"
	"slices"
	"sync"

	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// generator makes the functions of a piece of code. Its methods append one and return its
// offset; code, multiplyFrame and moveFrame say what the functions do.
type generator interface {
	multiply(rows, vectors int, left adjacency, right num.DType) int
	widen(vectors int, dtype num.DType, fetches bool) int
	transpose(dtype num.DType) int
	narrow(dtype num.DType) int
	Finish() ([]byte, error)
	Listing() string
}

// lineGenerator is a generator for a target with lineRows.
type lineGenerator interface {
	generator
	multiplyLines(rows int, dtype num.DType) int
}

// newGenerator returns the target of an instruction set and its generator.
func newGenerator(set machine.Set) (target, generator, error) {
	switch set {
	case machine.AVX512, machine.AVX2:
		return amd64Targets[set], newAMD64(set), nil
	case machine.NEON:
		return neonTarget, newNEON(), nil
	}
	return target{}, nil, fmt.Errorf("matmul: no code for the instruction set %s", set)
}

// generate generates the code for operands of a format.
func generate(set machine.Set, dtype num.DType) (*code, error) {
	t, g, err := newGenerator(set)
	if err != nil {
		return nil, err
	}
	c := &code{target: t, dtype: dtype}
	for rows := 1; rows <= t.rows; rows++ {
		for vectors := 1; vectors <= t.widest(rows); vectors *= 2 {
			if vectors <= t.vectors || dtype == num.F32 {
				c.multiply[rowsAdjacent][rows][vectors] = g.multiply(rows, vectors, rowsAdjacent, num.F32)
			}
			if dtype == num.F32 {
				c.multiply[stepsAdjacent][rows][vectors] = g.multiply(rows, vectors, stepsAdjacent, num.F32)
			} else {
				c.multiplyStored[rows][vectors] = g.multiply(rows, vectors, rowsAdjacent, dtype)
			}
		}
	}
	for rows := 1; rows <= t.lineRows; rows++ {
		c.multiplyLines[rows] = g.(lineGenerator).multiplyLines(rows, dtype)
	}
	for _, d := range slices.Compact([]num.DType{num.F32, dtype}) {
		for i := range c.widen {
			c.widen[i][d], c.widenFar[i][d] = g.widen(i+1, d, false), g.widen(i+1, d, true)
		}
		c.transpose[d] = g.transpose(d)
		if !d.IsFP8() { // in which no result is stored
			c.narrow[d] = g.narrow(d)
		}
	}
	bytes, err := g.Finish()
	if err != nil {
		return nil, fmt.Errorf("matmul: code for %s: %w", set, err)
	}
	if c.program, err = machine.Load(bytes); err != nil {
		return nil, fmt.Errorf("matmul: code for %s: %w", set, err)
	}
	c.listing = func() string {
		_, full, _ := newGenerator(set)
		full.multiply(t.rows, t.vectors, rowsAdjacent, num.F32)
		return full.Listing()
	}
	return c, nil
}

type codeKey struct {
	set   machine.Set
	dtype num.DType
}

var codes struct {
	sync.Mutex
	all map[codeKey]*code
}

// codeFor returns the code for operands of a format. Equal ones are generated once.
func codeFor(set machine.Set, dtype num.DType) (*code, error) {
	codes.Lock()
	defer codes.Unlock()
	key := codeKey{set, dtype}
	if c := codes.all[key]; c != nil {
		return c, nil
	}
	c, err := generate(set, dtype)
	if err != nil {
		return nil, err
	}
	if codes.all == nil {
		codes.all = map[codeKey]*code{}
	}
	codes.all[key] = c
	return c, nil
}
