package arm64

import "math"

// examples returns operands for every arrangement of a row: registers from both ends, and
// the smallest, largest and some other immediates. before and after are labels.
func examples(c *compiled, before, after Label) [][]Operand {
	var all [][]Operand
	arrangements := c.set.list()
	if c.set == 0 {
		arrangements = []Arrangement{S1}
	}
	for _, t := range arrangements {
		for _, whole := range []bool{true, false} {
			columns := make([][]Operand, len(c.slots))
			most := 1
			isGeneral := false
			for i, s := range c.slots {
				isGeneral = isGeneral || s.kind == generalReg || s.kind == bitReg
				columns[i] = candidates(c, s, t, whole, i, before, after)
				most = max(most, len(columns[i]))
			}
			if !isGeneral && !whole {
				continue
			}
			for n := range most {
				var operands []Operand
				for _, column := range columns {
					operands = append(operands, column[n%len(column)])
				}
				all = append(all, match(c, operands))
			}
		}
	}
	return all
}

// match makes a memory operand's increment that of its list.
func match(c *compiled, operands []Operand) []Operand {
	last := len(operands) - 1
	if last >= 0 && c.slots[last].kind == memPostBytes {
		m := operands[last].(Mem)
		m.disp = c.accessBytes(operands)
		operands[last] = m
	}
	return operands
}

// candidates returns operands for slot number i of a row.
func candidates(c *compiled, s slot, t Arrangement, whole bool, i int, before, after Label) []Operand {
	general := func(whole bool) []Operand {
		last := XZR
		if s.sp {
			last = SP
		}
		if c.op == LDP || c.op == LDNP {
			last -= Reg(i) // the two must differ
		}
		regs := []Reg{Reg(i + 1), X30 - Reg(i), X15 + Reg(i), last}
		var list []Operand
		for _, r := range regs {
			if !whole {
				r = r.W()
			}
			list = append(list, r)
		}
		return list
	}
	vectors := func(t Arrangement) []Operand {
		return []Operand{Vec(i).As(t), Vec(31 - i).As(t), Vec(14 + i).As(t)}
	}
	lanes := func() []Operand {
		n := int(16 >> t.size())
		return []Operand{Vec(i).Lane(t.element(), 0), Vec(31-i).Lane(t.element(), n-1), Vec(14+i).Lane(t.element(), n/2), Vec(3+i).Lane(t.element(), 1)}
	}
	immediates := func(values ...int64) []Operand {
		var list []Operand
		for _, v := range values {
			list = append(list, Imm(v))
		}
		return list
	}
	memories := func(make func(Reg, int64) Mem, disps ...int64) []Operand {
		var list []Operand
		for j, d := range disps {
			list = append(list, make([]Reg{X19, SP, X27, X0}[j%4], d))
		}
		return list
	}
	regBits := int64(32)
	if whole {
		regBits = 64
	}
	elementBits := int64(8) << t.size()
	access := int64(1) << c.size.bytes(t)
	switch s.kind {
	case generalReg:
		return general(whole)
	case bitReg:
		return general(whole)
	case xReg:
		return general(true)
	case wReg:
		return general(false)
	case elementReg:
		return general(t.size() == 3)
	case viewT, viewTwice:
		return vectors(t)
	case viewWide:
		return vectors(t.wide())
	case viewScalar:
		return vectors(t.element())
	case viewFixed:
		return vectors(s.fixed)
	case laneIndex, laneSecond, laneFloat, laneList:
		return lanes()
	case listT:
		return []Operand{V3.List(t, 1), V30.List(t, 2), V29.List(t, 4), V7.List(t, 3)}
	case listOne:
		return []Operand{V0.List(t, 1), V31.List(t, 1)}
	case listTable:
		return []Operand{V3.List(B16, 1), V31.List(B16, 2), V29.List(B16, 4), V7.List(B16, 3)}
	case immU12:
		return immediates(0, 4095, 4096, 0xfff000, 1234)
	case immBitmask:
		if !whole {
			return immediates(1, 0x55555555, 0x7fffffff, 0x80000001, 0xff00ff00, 0xfffffffe)
		}
		return immediates(1, 0x5555555555555555, math.MaxInt64, math.MinInt64+1, -256, 0x00ff00ff00ff00ff, 0x3ffffffffc)
	case immU16:
		return immediates(0, 65535, 4660)
	case immLSL, immLSR:
		return immediates(1, regBits-1, 7)
	case immBit:
		return immediates(regBits-32, regBits-1, regBits-27)
	case immShl:
		return immediates(1, elementBits-1, 3)
	case immShr:
		return immediates(1, elementBits, 3)
	case immSize:
		return immediates(elementBits)
	case immExt:
		return immediates(0, int64(t.bytes())-1, 4)
	case immZero:
		return immediates(0)
	case immZeroFloat:
		return []Operand{Float(0)}
	case immABC:
		return immediates(0, 255, 0xa5)
	case immMask:
		return immediates(0, 0x00ff00ff0000ff00, -1, -256)
	case immFloat, immFloatABC:
		return []Operand{Float(1), Float(-31), Float(0.125), Float(2.5), Float(-0.2421875)}
	case modShift:
		return []Operand{Lsl(1), Lsr(31), Asr(int(regBits) - 1)}
	case modExtend:
		return []Operand{Uxtw(0), Sxtw(4), Uxtw(2)}
	case modLSL16:
		if whole {
			return []Operand{Lsl(16), Lsl(32), Lsl(48)}
		}
		return []Operand{Lsl(16)}
	case modLSL8:
		if t.size() == 1 {
			return []Operand{Lsl(8)}
		}
		return []Operand{Lsl(8), Lsl(16), Lsl(24)}
	case condAt12, condSuffix:
		return []Operand{EQ, NE, HS, LO, MI, PL, VS, VC, HI, LS, GE, LT, GT, LE}
	case condInverted:
		return []Operand{EQ, LE, HI, LO}
	case prefetchOp:
		return []Operand{PLDL1KEEP, PLDL1STRM, PLDL2KEEP, PLDL2STRM, PSTL1KEEP, PSTL1STRM, PSTL2KEEP}
	case memBase:
		return memories(At, 0, 0, 0)
	case memU12:
		return memories(At, 0, access, 4095*access, 64*access)
	case memS9:
		return memories(At, -256, -1, -17)
	case memPost9:
		return memories(PostIndex, 0, 255, -256, 64)
	case memPre9:
		return memories(PreIndex, 0, 255, -256, 64)
	case memIndexed:
		shift := int(c.size.bytes(t))
		return []Operand{At(X5, 0).Plus(X6, 0), At(SP, 0).Plus(X30, shift), At(X5, 0).Plus(X7.W(), shift), At(X0, 0).Plus(X1.W(), 0)}
	case memS7:
		return memories(At, 0, 63*access, -64*access, 16*access)
	case memPost7:
		return memories(PostIndex, 0, 63*access, -64*access, 16*access)
	case memPre7:
		return memories(PreIndex, 0, 63*access, -64*access, 16*access)
	case memPostBytes:
		return memories(PostIndex, 0, 0, 0)
	case memPostReg:
		return []Operand{PostIndexBy(X5, X6), PostIndexBy(SP, X30)}
	case label26, label19, label14, label21:
		return []Operand{before, after}
	}
	panic("no example for a slot")
}

// assembleRows assembles the examples of every row, with the labels before and after them.
func assembleRows() *Assembler {
	a := New()
	before, after := a.Label(), a.Label()
	a.Bind(before)
	for op := range numOps {
		rows := table()[op]
		for i := range rows {
			for _, operands := range examples(&rows[i], before, after) {
				a.I(op, operands...)
			}
		}
	}
	a.Bind(after)
	a.I(RET)
	return a
}
