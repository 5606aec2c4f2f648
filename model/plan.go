package model

// plan assigns the results to buffers. A result lives from the first call that writes it to the
// last that uses it; one that is kept, or computed once for many runs, has a buffer of its own, which Instance makes. Of the buffers
// that are free a result gets the smallest that is large enough, else the largest, which grows.
func (p *Program) plan() {
	var uses [][]*Value
	for _, c := range p.Calls {
		uses = append(uses, valuesOf(c))
	}
	p.planUses(uses, func(v *Value) bool { return v.Kind == Result && !v.IsKept && !p.once[v] })
}

// planUses is plan for values that are used one after another. Those for which isPlanned holds get buffers.
func (p *Program) planUses(uses [][]*Value, isPlanned func(v *Value) bool) {
	last := map[*Value]int{}
	for i, values := range uses {
		for _, v := range values {
			last[v] = i
		}
	}
	p.buffer = map[*Value]int{}
	var free []int
	for i, values := range uses {
		for _, v := range values {
			if _, isPlaced := p.buffer[v]; !isPlanned(v) || isPlaced {
				continue
			}
			p.buffer[v], free = p.place(v, free)
		}
		for _, v := range values {
			if at, isPlaced := p.buffer[v]; isPlaced && last[v] == i {
				last[v] = -1 // once, if the call uses several parts
				free = append(free, at)
			}
		}
	}
}

// place takes a buffer for a value out of those that are free, or adds one.
func (p *Program) place(v *Value, free []int) (at int, rest []int) {
	best := -1
	for i, b := range free {
		size, need := p.Buffers[b], v.Bytes()
		switch {
		case best < 0:
			best = i
		case size >= need && (p.Buffers[free[best]] < need || size < p.Buffers[free[best]]):
			best = i
		case size < need && size > p.Buffers[free[best]]:
			best = i
		}
	}
	if best < 0 {
		p.Buffers = append(p.Buffers, v.Bytes())
		return len(p.Buffers) - 1, free
	}
	at = free[best]
	p.Buffers[at] = max(p.Buffers[at], v.Bytes())
	return at, append(free[:best:best], free[best+1:]...)
}
