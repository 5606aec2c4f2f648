package jit

import (
	"cmp"
	"math"
	"slices"
)

// allocator gives the values of a block registers while its instructions are made, one
// after the other. If there is no free register, the value whose next use is farthest away
// gives up its own: a uniform value is in memory anyway, others are spilled to a slot.
type allocator struct {
	target target
	layout *layout
	spills []place // slots for spilled values, shared by all blocks

	c       *code
	mode    mode
	holds   []value // by register; none if it is free
	isFixed []bool  // by register: it keeps its value in the whole loop
	where   []int   // by value: its register or -1
	memory  []place // by value: its place in memory; 0 if it has none
	uses    [][]int // by value: the instructions that are still to read it
	spilled int
	states  [][]int // registers of the loop's carried values, by copy
}

const noRegister = -1

// reserved stands for a value that has a register, but is not one of this code.
const reserved value = -2

// begin prepares the allocator for a block.
func (a *allocator) begin(c *code) {
	a.c = c
	a.holds = make([]value, a.target.registers())
	a.isFixed = make([]bool, a.target.registers())
	for r := range a.holds {
		a.holds[r] = none
	}
	a.where = make([]int, len(c.places))
	a.uses = make([][]int, len(c.places))
	a.memory = make([]place, len(c.places))
}

// fix gives a value a register for the whole loop.
func (a *allocator) fix(v value, register int) {
	a.holds[register], a.isFixed[register] = v, true
}

// run makes the block's instructions once.
func (a *allocator) run(m mode) {
	a.mode, a.spilled = m, 0
	copy(a.memory, a.c.places)
	for v := range a.where {
		a.where[v] = noRegister
		a.uses[v] = a.uses[v][:0]
	}
	for r, v := range a.holds {
		switch {
		case v == none || v == reserved:
		case a.isFixed[r]:
			a.where[v] = r
		default:
			a.holds[r] = none
		}
	}
	for i := range a.c.instructions {
		for _, v := range a.c.instructions[i].args {
			if v != none {
				a.uses[v] = append(a.uses[v], i)
			}
		}
	}
	for i := range a.c.instructions {
		a.instruction(i)
	}
}

func (a *allocator) instruction(i int) {
	in := &a.c.instructions[i]
	var inMemory [4]bool
	for k, v := range in.args {
		inMemory[k] = v != none && a.where[v] == noRegister
	}
	stays := a.target.folds(in, inMemory)
	var args [4]argument
	isLocked := func(r int) bool {
		v := a.holds[r]
		return v != none && slices.Contains(in.args[:], v)
	}
	for k, v := range in.args {
		if v == none {
			args[k].register = noRegister
			continue
		}
		if a.where[v] == noRegister && !stays[k] {
			r := a.take(isLocked)
			a.target.load(r, a.memory[v])
			a.holds[r], a.where[v] = v, r
		}
		args[k] = argument{a.where[v], a.memory[v]}
	}
	for k, v := range in.args { // drop the uses up to here
		if v != none && !slices.Contains(in.args[:k], v) {
			for len(a.uses[v]) > 0 && a.uses[v][0] <= i {
				a.uses[v] = a.uses[v][1:]
			}
		}
	}
	early := a.target.writesEarly(in.op)
	if !early {
		a.release(in)
	}
	dst := noRegister
	if in.dst != none {
		locked := isLocked
		if !early {
			locked = func(int) bool { return false }
		}
		dst = a.takeFor(in, args, early, locked)
		a.holds[dst], a.where[in.dst] = in.dst, dst
	}
	if in.note != "" {
		a.target.note(in.note)
	}
	if in.op == opCarry {
		a.carry(in, args[0].register)
	} else {
		a.target.emit(in, dst, args, position{a.mode, in.copy})
	}
	if in.keep != 0 {
		a.target.save(in.keep, dst)
	}
	if early {
		a.release(in)
	}
	if in.dst != none && len(a.uses[in.dst]) == 0 { // nobody reads it but other blocks
		a.holds[dst], a.where[in.dst] = none, noRegister
	}
}

// carry sets a state of the loop, which is in memory if there are not enough registers.
func (a *allocator) carry(in *instruction, src int) {
	state := a.states[in.copy][in.imm]
	if state != noRegister {
		a.target.carry(state, src, a.mode)
		return
	}
	left := a.c.carried[in.imm].left[in.copy]
	r := a.take(func(r int) bool { return r == src })
	a.target.load(r, left)
	a.target.carry(r, src, a.mode)
	a.target.save(left, r)
}

// release frees the registers of arguments that are not read again.
func (a *allocator) release(in *instruction) {
	for _, v := range in.args {
		if v == none || len(a.uses[v]) > 0 {
			continue
		}
		if r := a.where[v]; r != noRegister && !a.isFixed[r] {
			a.holds[r], a.where[v] = none, noRegister
		}
	}
}

// takeFor returns a register for the result of an instruction: one that an argument has
// just given up, if that saves a move.
func (a *allocator) takeFor(in *instruction, args [4]argument, early bool, locked func(int) bool) int {
	if !early {
		for k := len(args) - 1; k >= 0; k-- {
			if r := args[k].register; in.args[k] != none && r != noRegister && a.holds[r] == none {
				return r
			}
		}
	}
	return a.take(locked)
}

// take returns a free register. If there is none, it frees one.
func (a *allocator) take(locked func(int) bool) int {
	best, farthest := noRegister, -1
	for r, v := range a.holds {
		if a.isFixed[r] || locked(r) {
			continue
		}
		if v == none {
			return r
		}
		next := math.MaxInt32
		if len(a.uses[v]) > 0 {
			next = a.uses[v][0]
		}
		if a.memory[v] != 0 {
			next += 8 // it need not be saved
		}
		if next > farthest {
			best, farthest = r, next
		}
	}
	v := a.holds[best]
	if a.memory[v] == 0 {
		if a.spilled == len(a.spills) {
			a.spills = append(a.spills, a.layout.slot())
		}
		a.memory[v] = a.spills[a.spilled]
		a.spilled++
		a.target.save(a.memory[v], best)
	}
	a.holds[best], a.where[v] = none, noRegister
	return best
}

// reserve is how many registers loops leave free for uniform values that are read into
// one, and for results that are written early.
const reserve = 2

// pressure returns how many values that are not uniform are alive at once.
func (c *code) pressure() int {
	last := make([]int, len(c.places))
	for i := range c.instructions {
		for _, v := range c.instructions[i].args {
			if v != none {
				last[v] = i
			}
		}
	}
	isCarried := map[value]bool{}
	for _, x := range c.carried {
		isCarried[x.values[0]] = true
	}
	alive, most := 0, 0
	for i := range c.instructions {
		in := &c.instructions[i]
		if in.dst != none {
			alive++
			most = max(most, alive)
			if last[in.dst] <= i {
				alive--
			}
		}
		for k, v := range in.args {
			if v != none && c.places[v] == 0 && last[v] == i && !isCarried[v] && !slices.Contains(in.args[:k], v) {
				alive--
			}
		}
	}
	return most
}

// popular returns the uniform values of a loop, those first that are read most.
func (c *code) popular() []value {
	reads := make([]int, len(c.places))
	var values []value
	for i := range c.instructions {
		for _, v := range c.instructions[i].args {
			if v == none || c.places[v] == 0 {
				continue
			}
			if reads[v] == 0 {
				values = append(values, v)
			}
			reads[v]++
		}
	}
	slices.SortStableFunc(values, func(a, b value) int { return cmp.Compare(reads[b], reads[a]) })
	return values
}
