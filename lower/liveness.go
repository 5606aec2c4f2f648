package lower

import (
	"cmp"
	"slices"

	"tokitai/def"
)

// finishKept sorts the kept values and marks the steps that compute them.
func (p *planner) finishKept() {
	slices.SortFunc(p.Kept, func(a, b *Kept) int { return cmp.Or(a.First-b.First, byID(a.Node, b.Node)) })
	for _, k := range p.Kept {
		if IsExchange(k.Node) {
			continue
		}
		steps := p.Passes[k.First].Elements.Steps
		steps[slices.IndexFunc(steps, func(s Step) bool { return s.Node == k.Node && s.Defines() })].Keep = true
	}
}

// analyze finds which values a block reads from others, and where its own are used for
// the last time.
func (p *planner) analyze() {
	isShared := make([]bool, len(p.isRead))
	for _, n := range p.part.Values {
		isShared[n.ID] = true
	}
	for b := range p.Blocks() {
		b.findUses()
		for _, n := range b.Reads {
			isShared[n.ID] = true
		}
	}
	for b := range p.Blocks() {
		for i := range b.Steps {
			if s := &b.Steps[i]; s.Defines() && isShared[s.Node.ID] {
				s.Keep = true
			}
		}
	}
	setExtent := func(e def.Extent, blocks ...*Block) {
		for _, b := range blocks {
			b.Extent = e
		}
	}
	setExtent(def.Scalar, &p.Once.Scalars, &p.Late.Scalars)
	setExtent(def.PerColumn, &p.Once.Columns, &p.Late.Columns)
	setExtent(def.PerRow, &p.Start, &p.End)
	for i := range p.Passes {
		setExtent(def.PerElement, &p.Passes[i].Elements)
		setExtent(def.PerRow, &p.Passes[i].After)
	}
}

// findUses fills in Reads and Kills.
func (b *Block) findUses() {
	isOwn, seen := map[*def.Node]bool{}, map[*def.Node]bool{}
	for i := range b.Steps {
		if s := &b.Steps[i]; s.Defines() {
			isOwn[s.Node] = true
		}
	}
	for i := range slices.Backward(b.Steps) {
		s := &b.Steps[i]
		for _, n := range slices.Backward(s.Uses()) {
			switch {
			case seen[n]:
			case isOwn[n]:
				s.Kills = append(s.Kills, n)
			default:
				b.Reads = append(b.Reads, n)
			}
			seen[n] = true
		}
		slices.Reverse(s.Kills)
	}
	slices.SortFunc(b.Reads, byID)
}
