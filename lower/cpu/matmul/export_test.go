package matmul

import (
	"tokitai/internal/gen"
	lowercpu "tokitai/lower/cpu"
)

// DrawBlocking makes a program cut products into random small blocks, so that small
// products have all that large ones have: several tiles, blocks and regions.
func DrawBlocking(g *gen.Generator, p lowercpu.Program) {
	pick := func(values ...int) int { return values[g.Below(len(values))] }
	if around, ok := p.(*converted); ok {
		p, around.perItem = around.inner, pick(1, 50, 1000)
	}
	p.(*program).blocking = &blocking{
		panels: 1 + g.Below(3), vectors: pick(2, 4, 6), depth: pick(1, 4, 7, 16, 33), streamVectors: pick(2, 8), streamDepth: pick(1, 5, 64), streamBytes: pick(0, 0, 1<<40), lineDepth: pick(8, 24, 64),
		tinyWork: pick(0, 0, 1<<40), rowsBytes: pick(0, 1<<40), rightBytes: pick(0, 0, 1<<40), rightPanels: pick(0, 3), sharedWork: pick(0, 0, 1<<40), regionLines: pick(20, 50, 100), regionMemory: pick(1, 1<<12, 1<<16),
		storedBytes: pick(0, 1<<40), storedDepth: 1 << 40, fetchedSteps: pick(0, 3), itemWork: pick(1, 1000),
	}
}
