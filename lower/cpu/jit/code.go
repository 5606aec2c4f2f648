package jit

import (
	"math"
	"slices"

	"tokitai/num"
)

// A block of a program becomes straight-line code over vectors. A value is a vector
// register that does not exist yet: it is defined once, and the allocator finds a register
// for it. A uniform value is the same in all lanes and has a slot in the worker's
// memory.

// value is an index into code.places.
type value int32

const none value = -1

// opcode is what an instruction does. Floats are binary32, integers int32; both
// are patterns in the same registers.
type opcode uint8

const (
	opMove opcode = iota // dst = a

	// Arithmetic, rounded to nearest even.
	opAdd
	opSub
	opMul
	opDiv
	opSqrt
	opFMA // a·b + c
	opMin // NaN if either is; -0 < +0
	opMax
	opMinOf // the same, if a is a number other than zero
	opMaxOf
	opRint

	opIntAdd
	opIntSub
	opIntMul  // the low half
	opAddOnce // a + b as integers; where one element is in all lanes, b counts in the first alone
	opMulHigh // the high half of the product of unsigned numbers
	opAnd
	opAndNot // a &^ b
	opOr
	opXor
	opShl  // by a vector of counts below 32
	opShr  // arithmetic
	opShrU // logical
	opShlBy
	opShrBy // by imm
	opShrUBy
	opIntToFloat
	opFloatToInt // toward zero, saturating, NaN gives 0
	opRoundF16   // to f16 and back
	opRoundHigh  // to bf16 in the high half; the low half is anything

	// Comparisons and choices. The predicate of opMask and opSelect compares a with b.
	opMask   // dst = all ones or zeros
	opSelect // dst = pred(a, b) ? c : d
	opBlend  // dst = a's top bit ? b : c

	// Memory. An array has a vector at the position of the loop.
	opLoad        // dst = array, widened from format; its pattern if isInt
	opLoadPartner // dst = the same of the other column of each pair, zeros outside the row
	opStore       // array = a, narrowed to format; of bf16 the high half, which must have been rounded
	opLoadOne     // dst = all lanes the first element of an array
	opStoreOne
	opLoadAt  // dst = all lanes element a of an array, +0 outside the row
	opFindRow // the array is row a of table imm, or of zeros if the table has no such row
	opColumn  // dst = the columns of the loop's position

	opAddTo   // array += a, as integers if isInt
	opAddLane // the lanes of row sum imm += a

	opCarry // the carried value imm = a, for lanes that exist

	// Across lanes, in code outside of loops.
	opSwap // dst = a with lanes exchanged at distance imm
	opTree // dst = all lanes the sum of the lanes of row sum imm, by the adjacent tree

	opCount
)

var opcodeNames = [opCount]string{
	opMove: "move", opAdd: "add", opSub: "sub", opMul: "mul", opDiv: "div", opSqrt: "sqrt", opFMA: "fma", opMin: "min", opMax: "max", opMinOf: "minof", opMaxOf: "maxof", opRint: "rint",
	opIntAdd: "iadd", opIntSub: "isub", opIntMul: "imul", opAddOnce: "addonce", opMulHigh: "mulhigh", opAnd: "and", opAndNot: "andnot", opOr: "or", opXor: "xor",
	opShl: "shl", opShr: "shr", opShrU: "shru", opShlBy: "shlby", opShrBy: "shrby", opShrUBy: "shruby",
	opIntToFloat: "itof", opFloatToInt: "ftoi", opRoundF16: "roundf16", opRoundHigh: "roundhigh", opMask: "mask", opSelect: "select", opBlend: "blend",
	opLoad: "load", opLoadPartner: "loadpartner", opStore: "store", opLoadOne: "loadone", opStoreOne: "storeone", opLoadAt: "loadat", opFindRow: "findrow", opColumn: "column",
	opAddTo: "addto", opAddLane: "addlane", opCarry: "carry",
	opSwap: "swap", opTree: "tree",
}

func (o opcode) String() string { return opcodeNames[o] }

// predicate is a comparison. Those of floats are false with NaN, but for notEqual.
type predicate uint8

const (
	less predicate = iota
	lessEqual
	equal
	notEqual
	intLess
	intLessEqual
	intEqual
	intNotEqual
	belowUnsigned
)

// instruction is one step of a block.
type instruction struct {
	op     opcode
	pred   predicate
	format num.DType
	isInt  bool // opLoad, opLoadPartner, opLoadOne: patterns; opAddTo: integers
	dst    value
	args   [4]value // none where there is no argument
	array  int      // opLoad, opStore and so on
	imm    int32
	copy   int    // of an unrolled loop
	keep   place  // where the result is stored too, for other blocks
	note   string // for listings
}

// place is the position of a uniform value in the worker's memory, in bytes; 0 for a value
// that is not uniform.
type place int32

// code is a block being built.
type code struct {
	instructions []instruction
	places       []place // by value
	at           map[place]value
	carried      []carried
}

// work estimates how long a turn takes, in simple instructions.
func (c *code) work() int {
	n := 0
	for i := range c.instructions {
		switch c.instructions[i].op {
		case opDiv, opSqrt:
			n += 8
		case opMulHigh, opFloatToInt, opMin, opMax, opRoundHigh:
			n += 5
		default:
			n++
		}
	}
	return n
}

// carried is a value that each turn of a loop takes over from the one before: the state
// of a reduction. Each copy of an unrolled loop has a state of its own.
type carried struct {
	values []value // by copy: as a turn finds it
	start  place   // what all lanes begin with
	left   []place // by copy: where the loop leaves it
}

// newValue returns a value that is not uniform.
func (c *code) newValue() value {
	c.places = append(c.places, 0)
	return value(len(c.places) - 1)
}

// uniform returns the value that lies at a place.
func (c *code) uniform(p place) value {
	v, ok := c.at[p]
	if !ok {
		v = c.newValue()
		c.places[v] = p
		if c.at == nil {
			c.at = map[place]value{}
		}
		c.at[p] = v
	}
	return v
}

// add appends an instruction and returns its result.
func (c *code) add(op opcode, args ...value) value {
	return c.addWith(instruction{op: op}, args...)
}

// addWith appends an instruction with its arguments and returns its result.
func (c *code) addWith(in instruction, args ...value) value {
	in.args = [4]value{none, none, none, none}
	copy(in.args[:], args)
	in.dst = none
	switch in.op {
	case opStore, opStoreOne, opFindRow, opAddTo, opAddLane, opCarry:
	default:
		in.dst = c.newValue()
	}
	c.instructions = append(c.instructions, in)
	return in.dst
}

// shift appends a shift by a constant.
func (c *code) shift(op opcode, a value, by int32) value {
	return c.addWith(instruction{op: op, imm: by}, a)
}

// choose appends a comparison and a choice.
func (c *code) choose(p predicate, a, b, yes, no value) value {
	return c.addWith(instruction{op: opSelect, pred: p}, a, b, yes, no)
}

func (c *code) mask(p predicate, a, b value) value {
	return c.addWith(instruction{op: opMask, pred: p}, a, b)
}

// unrolled returns code that does the work of several turns of a loop. Copies of an
// instruction follow each other: processors look ahead only so far, and see more
// instructions that do not wait for each other that way.
func (c *code) unrolled(copies int) *code {
	u := &code{places: slices.Clone(c.places), at: c.at}
	renamed := make([][]value, copies)
	for copy := range copies {
		for v, p := range c.places {
			if p == 0 && copy > 0 {
				renamed[copy] = append(renamed[copy], u.newValue())
			} else {
				renamed[copy] = append(renamed[copy], value(v))
			}
		}
	}
	for _, in := range c.instructions {
		for copy := range copies {
			next := in
			next.copy = copy
			for k, v := range in.args {
				if v != none {
					next.args[k] = renamed[copy][v]
				}
			}
			if in.dst != none {
				next.dst = renamed[copy][in.dst]
			}
			u.instructions = append(u.instructions, next)
		}
	}
	for _, x := range c.carried {
		var values []value
		for copy := range copies {
			values = append(values, renamed[copy][x.values[0]])
		}
		u.carried = append(u.carried, carried{values, x.start, x.left})
	}
	return u
}

// isPure reports whether an instruction computes from its arguments alone.
func (in *instruction) isPure() bool { return in.op < opLoad && in.dst != none }

func bitsOf(x float32) uint32 { return math.Float32bits(x) }
