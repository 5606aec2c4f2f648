package verify_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/op/gemm"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// TestLaunchesOverlap checks that the launches of check concurrent begin together: no launch ends
// before four have begun, none of the next round begins before all have ended, and each has a queue
// of its own.
func TestLaunchesOverlap(t *testing.T) {
	t.Parallel()
	const callers = 4
	var mu sync.Mutex
	cond := sync.NewCond(&mu)
	launches, inside, most := 0, 0, 0
	queues := map[device.Queue]bool{}
	kernel := bitwise(func(d *def.Definition, l *engine.Launch) error {
		mu.Lock()
		launches++
		if launches > 1+callers { // the first run, and each caller's alone
			round := (launches - 1 - callers - 1) / callers
			queues[l.Queue] = true
			inside++
			most = max(most, inside)
			cond.Broadcast()
			for launches < 1+callers+(round+1)*callers {
				cond.Wait()
			}
			inside--
		}
		mu.Unlock()
		return honest(d, l)
	})
	expectAccepted(t, target(softmax.ForwardDefinition, num.F32, kernel), "concurrent:normal/R=3,C=9")
	if most != callers || len(queues) != callers {
		t.Errorf("up to %d launches at once on %d queues, want %d on %d", most, len(queues), callers, callers)
	}
}

// TestBusyLaunches checks that every target's check concurrent has a case of at least 400
// elements at level smoke.
func TestBusyLaunches(t *testing.T) {
	t.Parallel()
	seen := map[*def.Definition]bool{}
	for _, x := range verify.Targets(all.Operations, cpu.Backend) {
		if seen[x.Definition] {
			continue
		}
		seen[x.Definition] = true
		most := int64(0)
		for _, c := range verify.CasesOf(x, verify.Smoke) {
			if c.Check == "concurrent" {
				most = max(most, verify.LargestOperand(x, c))
			}
		}
		if most < 400 {
			t.Errorf("%s: the largest operand of check concurrent has %d elements", x.ID(), most)
		}
	}
}

// TestRepeatedMatricesAreSeveral checks that whatever the seed, a check that repeats the matrices of
// an operand has at least two of them along every batch axis, and that kernels which promise no
// order have the check too.
func TestRepeatedMatricesAreSeveral(t *testing.T) {
	t.Parallel()
	for _, l := range []*engine.Lowering{bitwise(honest), bounded(def.Order{}, honest)} {
		x := target(gemm.BatchedForwardDefinition, num.F32, l)
		for seed := range uint64(6) {
			for _, level := range []verify.Level{verify.Smoke, verify.Quick} {
				n := 0
				for _, c := range verify.CasesUnder(x, verify.Options{Level: level, Seed: seed}) {
					operand, isRepeat := strings.CutPrefix(c.Check, "repeat-")
					if !isRepeat {
						continue
					}
					n++
					o := x.Definition.Operands[x.Definition.Operand(operand)]
					for _, s := range c.Sizes {
						if slices.Contains(o.BatchDims(), s.Letter) && s.N < 2 {
							t.Errorf("seed %d: %s has one matrix", seed, verify.CaseName(x, c))
						}
					}
				}
				if n == 0 {
					t.Errorf("seed %d, %s: nothing repeats matrices", seed, level)
				}
			}
		}
	}
}

// TestPopularShapes checks that level quick has a shape whose axes all have at least 256 elements,
// whatever the seed, and level full one of 4096 by 4096.
func TestPopularShapes(t *testing.T) {
	t.Parallel()
	isLong := func(c *verify.Case) bool {
		return c.Check == "" && !slices.ContainsFunc(c.Sizes, func(s verify.Size) bool { return s.N < 256 })
	}
	seen := map[*def.Definition]bool{}
	for _, x := range verify.Targets(all.Operations, cpu.Backend) {
		d := x.Definition
		if d.HasAxes() || d.Accumulates() || seen[d] {
			continue
		}
		seen[d] = true
		for seed := range uint64(2) {
			if !slices.ContainsFunc(verify.CasesUnder(x, verify.Options{Level: verify.Quick, Seed: seed}), isLong) {
				t.Errorf("%s %s, seed %d: no case of level quick has 256 elements along every axis", x.ID(), x.DType, seed)
			}
		}
		if d.Expression() == nil && d.Product() == nil {
			continue
		}
		if !slices.ContainsFunc(verify.CasesUnder(x, verify.Options{Level: verify.Full}), func(c *verify.Case) bool {
			n := 0
			for _, s := range c.Sizes {
				if s.N == 4096 {
					n++
				}
			}
			return n >= 2
		}) {
			t.Errorf("%s: no case of level full is 4096 by 4096", x.ID())
		}
	}
}
