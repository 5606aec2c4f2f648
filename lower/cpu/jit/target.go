package jit

// target makes the instructions of one instruction set. Its vectors are at most as long as
// a slot. Vector registers are numbered from 0; those from registers() on are the
// target's own.
type target interface {
	// lanes returns the number of values in a vector.
	lanes() int
	// registers returns the number of vector registers that values may have.
	registers() int
	// roundsHigh reports whether opRoundHigh is better than the instructions it stands for.
	roundsHigh() bool
	// folds returns which of the arguments that are in memory may stay there.
	folds(in *instruction, inMemory [4]bool) [4]bool
	// writesEarly reports whether the result is written before all arguments are read.
	writesEarly(op opcode) bool

	// emit makes an instruction. The result may have the register of an argument unless
	// it is written early.
	emit(in *instruction, dst int, args [4]argument, at position)
	load(dst int, from place)
	save(to place, src int)
	move(dst, src int)
	// carry moves a value to the register of a loop's state, for the lanes that exist.
	carry(dst, src int, m mode)
	note(text string)

	// stream says whether the code that follows stores vectors of operands past the caches,
	// to addresses that are multiples of a slot.
	stream(on bool)
	// function begins a function and returns its offset.
	function(name string) int
	// endFunction returns to the caller.
	endFunction()
	// rows repeats the body for each row, and moves the pointers of arrays on.
	rows(body func())
	// clear sets the lanes of a row sum to zero.
	clear(sum int)
	// loop makes what a loop over the columns of a row begins with: pointers to its
	// arrays in registers, and column 0, or the first column of a part of a pass. Its
	// turns fetch the next row of some arrays into the cache.
	loop(arrays, sums, next []int, isPart bool)
	// turns repeats the body while that many vectors of columns are left.
	turns(vectors int, body func())
	// tail does what is left of the row.
	tail(body func(m mode))

	// finish returns the code.
	finish() ([]byte, error)
	// listing returns the code as text.
	listing() string
}

// mode is how many elements an instruction handles.
type mode uint8

const (
	whole  mode = iota // a vector
	masked             // the first lanes of a vector
	single             // one element, in all lanes
)

// position is where in an unrolled loop an instruction is.
type position struct {
	mode mode
	copy int
}

// argument is an argument of an instruction: a register, or a place in memory.
type argument struct {
	register int // -1 if it is in memory
	place    place
}

func (a argument) isMemory() bool { return a.register < 0 }
