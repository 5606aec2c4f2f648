package valu

import (
	"fmt"

	"tokitai/amdgpu/isa"
)

// lane is what the function of one lane knows besides its operands.
type lane struct {
	mode  Mode
	seed  uint64
	clamp bool // of integer instructions, which saturate; results of floats are clamped after it
	in    bool // the lane's bit of Call.In
	out   bool // the lane's bit of Call.Out
}

// laneFunc computes one lane. Operands and result are patterns in the low bits; operands beyond
// those of the instruction are 0.
type laneFunc func(l *lane, a, b, c uint64) uint64

// rounding returns the rounding mode of the format.
func (l *lane) rounding(f *format) uint8 {
	if f == single {
		return l.mode.Round32
	}
	return l.mode.Round64
}

func (l *lane) denormals(f *format) uint8 {
	if f == single {
		return l.mode.Denorm32
	}
	return l.mode.Denorm64
}

// operand returns x, or the zero of its sign if x is subnormal and the mode flushes operands.
func (l *lane) operand(f *format, x uint64) uint64 {
	if l.denormals(f)&1 == 0 && f.isSubnormal(x) {
		return x & f.sign
	}
	return x
}

// result returns x, or the zero of its sign if x is subnormal and the mode flushes results.
func (l *lane) result(f *format, x uint64) uint64 {
	if l.denormals(f)&2 == 0 && f.isSubnormal(x) {
		return x & f.sign
	}
	return x
}

// modify applies omod and clamp to a floating-point result. Omod is ignored in IEEE mode and
// where subnormal results are kept; it makes +0 of -0.
func (l *lane) modify(f *format, x uint64, omod uint8, clamp bool) uint64 {
	if omod != 0 && !l.mode.IEEE && l.denormals(f)&2 == 0 && !f.isNaN(x) && !f.isInf(x) {
		switch e := f.exponent(x) + [4]int{0, 1, 2, -1}[omod]; {
		case f.isZero(x) || e <= 0:
			x = 0
		case e >= 2*f.bias+1:
			x = x&f.sign | f.overflow(x&f.sign != 0, l.rounding(f))
		default:
			x = x&^(f.inf) | uint64(e)<<f.significand
		}
	}
	if clamp {
		switch {
		case f.isNaN(x):
			if l.mode.DX10Clamp {
				x = 0
			}
		case x&f.sign != 0:
			x = 0
		case x > f.one:
			x = f.one
		}
	}
	return x
}

// modifier returns the function that applies an instruction's omod and clamp to results of
// the type, nil if there is nothing to apply.
func modifier(in *isa.Instruction, result Type) (func(l *lane, r uint64) uint64, error) {
	omod, clamp := in.OutputMode, in.Clamp
	if omod != 0 && result != F16 && result != F32 && result != F64 {
		return nil, fmt.Errorf("%s: omod %d, but the result is not one floating-point number", in.Name, omod)
	}
	if omod == 0 && !clamp {
		return nil, nil
	}
	switch result {
	case F16:
		return func(l *lane, r uint64) uint64 { return l.modify(half, r, omod, clamp) }, nil
	case F32:
		return func(l *lane, r uint64) uint64 { return l.modify(single, r, omod, clamp) }, nil
	case F64:
		return func(l *lane, r uint64) uint64 { return l.modify(double, r, omod, clamp) }, nil
	case PKF16:
		return func(l *lane, r uint64) uint64 {
			return l.modify(half, r&0xffff, 0, true) | l.modify(half, r>>16, 0, true)<<16
		}, nil
	case PKF32:
		return func(l *lane, r uint64) uint64 {
			return l.modify(single, r&0xffffffff, 0, true) | l.modify(single, r>>32, 0, true)<<32
		}, nil
	}
	return nil, nil // integers saturate by themselves
}

// bindLanes returns the function that computes lane after lane.
func (op *Op) bindLanes(in *isa.Instruction, compute laneFunc) (Func, error) {
	modify, err := modifier(in, op.Result)
	if err != nil {
		return nil, err
	}
	var mask, words [3]uint64 // of each source: its bits in the lower word, and its registers
	n := 0
	for _, t := range op.Sources {
		if t != Mask {
			mask[n], words[n] = lowerMask(t), uint64(t.Words())
			n++
		}
	}
	if op.ReadsResult {
		mask[n], words[n] = lowerMask(op.Result), uint64(op.Result.Words())
		n++
	}
	clamp, isMask, wide := in.Clamp, op.Result == Mask, op.Result.Words() == 2
	return func(c *Call) {
		l := lane{mode: c.Mode, seed: c.Seed, clamp: clamp}
		c.Out = 0
		for i := range c.Lanes {
			var s [3]uint64
			for k := range n {
				s[k] = uint64(c.Source[k][0][i]) & mask[k]
				if words[k] == 2 {
					s[k] |= uint64(c.Source[k][1][i]) << 32
				}
			}
			l.in, l.out = c.In>>i&1 != 0, false
			r := compute(&l, s[0], s[1], s[2])
			if l.out {
				c.Out |= 1 << i
			}
			if isMask {
				continue
			}
			if modify != nil {
				r = modify(&l, r)
			}
			c.Result[0][i] = uint32(r)
			if wide {
				c.Result[1][i] = uint32(r >> 32)
			}
		}
	}, nil
}

func lowerMask(t Type) uint64 {
	if t.Is16() {
		return 0xffff
	}
	return 0xffffffff
}

// bindPlain binds an operation without modifiers of VOP3P: to its fast loop where neither omod
// nor clamp is set.
func (op *Op) bindPlain(in *isa.Instruction) (Func, error) {
	slow, err := op.bindLanes(in, op.lane)
	if err != nil || op.fast == nil || in.Clamp || in.OutputMode != 0 {
		return slow, err
	}
	return either(op.fast, slow), nil
}

// either returns the function that runs slow where fast leaves the call to it.
func either(fast func(c *Call) bool, slow Func) Func {
	return func(c *Call) {
		if !fast(c) {
			slow(c)
		}
	}
}
