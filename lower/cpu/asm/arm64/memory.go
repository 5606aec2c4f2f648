package arm64

import "slices"

// memory has the loads, the stores and PRFM.
var memory = slices.Concat(
	access(LDR, "ldr", "ldur", "Wd", 0xb9400000, access4, 0),
	access(LDR, "ldr", "ldur", "Xd", 0xf9400000, access8, 0),
	access(LDR, "ldr", "ldur", "Vd.T", 0x3d400000, accessT, of(B1, H1, S1, D1, Q1)),
	access(LDRB, "ldrb", "ldurb", "Wd", 0x39400000, access1, 0),
	access(LDRH, "ldrh", "ldurh", "Wd", 0x79400000, access2, 0),
	access(LDRSH, "ldrsh", "ldursh", "Wd", 0x79c00000, access2, 0),
	access(LDRSW, "ldrsw", "ldursw", "Xd", 0xb9800000, access4, 0),
	access(STR, "str", "stur", "Wd", 0xb9000000, access4, 0),
	access(STR, "str", "stur", "Xd", 0xf9000000, access8, 0),
	access(STR, "str", "stur", "Vd.T", 0x3d000000, accessT, of(B1, H1, S1, D1, Q1)),
	access(STRB, "strb", "sturb", "Wd", 0x39000000, access1, 0),
	access(STRH, "strh", "sturh", "Wd", 0x79000000, access2, 0),
	[]row{
		{LDR, "ldr", "Wd, label19", 0x18000000, noSize, 0},
		{LDR, "ldr", "Xd, label19", 0x58000000, noSize, 0},
		{LDR, "ldr", "Sd, label19", 0x1c000000, noSize, 0},
		{LDR, "ldr", "Dd, label19", 0x5c000000, noSize, 0},
		{LDR, "ldr", "Qd, label19", 0x9c000000, noSize, 0},
		{PRFM, "prfm", "prefetch, [Xn, #u12]", 0xf9800000, access8, 0},
		{PRFM, "prfum", "prefetch, [Xn, #s9]", 0xf8800000, access8, 0},
		{PRFM, "prfm", "prefetch, [Xn, Xm]", 0xf8a00800, access8, 0},
	},
	pair(LDP, "ldp", "Wd, Wa", 0x29400000, access4, 0),
	pair(LDP, "ldp", "Xd, Xa", 0xa9400000, access8, 0),
	pair(LDP, "ldp", "Vd.T, Va.T", 0x2d400000, pairT, of(S1, D1, Q1)),
	pair(STP, "stp", "Wd, Wa", 0x29000000, access4, 0),
	pair(STP, "stp", "Xd, Xa", 0xa9000000, access8, 0),
	pair(STP, "stp", "Vd.T, Va.T", 0x2d000000, pairT, of(S1, D1, Q1)),
	[]row{
		{LDNP, "ldnp", "Xd, Xa, [Xn, #s7]", 0xa8400000, access8, 0},
		{LDNP, "ldnp", "Vd.T, Va.T, [Xn, #s7]", 0x2c400000, pairT, of(S1, D1, Q1)},
		{STNP, "stnp", "Xd, Xa, [Xn, #s7]", 0xa8000000, access8, 0},
		{STNP, "stnp", "Vd.T, Va.T, [Xn, #s7]", 0x2c000000, pairT, of(S1, D1, Q1)},
	},
	structure(LD1, "ld1", "{Vd.T}", 0x0c400000, listSize, allInts),
	structure(LD1, "ld1", "{Vd.E}[i]", 0x0d400000, noSize, of(B1, H1, S1, D1)),
	structure(LD1R, "ld1r", "{Vd.T}1", 0x0d40c000, listSize, allInts),
	structure(ST1, "st1", "{Vd.T}", 0x0c000000, listSize, allInts),
	structure(ST1, "st1", "{Vd.E}[i]", 0x0d000000, noSize, of(B1, H1, S1, D1)),
)

// access returns the ways to address one register's memory. bits are those of the form with
// an unsigned, scaled displacement. One that does not fit takes the unscaled form, which has a name
// of its own.
func access(op Op, name, unscaled, reg string, bits uint32, size sizing, set arrangementSet) []row {
	other := bits - 0x01000000
	return []row{
		{op, name, reg + ", [Xn, #u12]", bits, size, set},
		{op, unscaled, reg + ", [Xn, #s9]", other, size, set},
		{op, name, reg + ", [Xn], #s9", other | 0x400, size, set},
		{op, name, reg + ", [Xn, #s9]!", other | 0xc00, size, set},
		{op, name, reg + ", [Xn, Xm]", other | 0x00200800, size, set},
	}
}

// pair returns the ways to address the memory of two registers.
func pair(op Op, name, regs string, bits uint32, size sizing, set arrangementSet) []row {
	return []row{
		{op, name, regs + ", [Xn, #s7]", bits, size, set},
		{op, name, regs + ", [Xn], #s7", bits&^0x01000000 | 0x00800000, size, set},
		{op, name, regs + ", [Xn, #s7]!", bits | 0x00800000, size, set},
	}
}

// structure returns the ways to address the memory of a list of registers or of one element.
func structure(op Op, name, list string, bits uint32, size sizing, set arrangementSet) []row {
	return []row{
		{op, name, list + ", [Xn]", bits, size, set},
		{op, name, list + ", [Xn], #bytes", bits | 0x009f0000, size, set},
		{op, name, list + ", [Xn], Xm", bits | 0x00800000, size, set},
	}
}
