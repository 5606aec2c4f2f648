package isa

// Type is the type of an operand: how wide it is, and what an inline constant stands for.
type Type uint8

// The types. Those of more than 64 bits are used by memory and matrix instructions.
const (
	Untyped Type = iota
	B16
	I16
	U16
	F16
	BF16
	B32
	I32
	U32
	F32
	B64
	I64
	U64
	F64
	B96
	B128
	B256
	B512
	B1024
	PkB16 // two of 16 bits in a register
	PkI16
	PkU16
	PkF16
	PkBF16
	PkB32 // two of 32 bits in a pair of registers
	PkF32
	Mix  // binary32, or binary16 where op_sel_hi says so
	Mask // a bit for each lane
)

var typeNames = [...]string{
	Untyped: "untyped",
	B16:     "b16", I16: "i16", U16: "u16", F16: "f16", BF16: "bf16",
	B32: "b32", I32: "i32", U32: "u32", F32: "f32",
	B64: "b64", I64: "i64", U64: "u64", F64: "f64",
	B96: "b96", B128: "b128", B256: "b256", B512: "b512", B1024: "b1024",
	PkB16: "pk_b16", PkI16: "pk_i16", PkU16: "pk_u16", PkF16: "pk_f16", PkBF16: "pk_bf16",
	PkB32: "pk_b32", PkF32: "pk_f32",
	Mix: "mix", Mask: "mask",
}

func (t Type) String() string { return typeNames[t] }

// parseType returns the type with the given name.
func parseType(name string) (Type, bool) {
	for t, n := range typeNames {
		if n == name && t != int(Untyped) {
			return Type(t), true
		}
	}
	return Untyped, false
}

// is16 reports whether the type fills half of a register.
func (t Type) is16() bool { return B16 <= t && t <= BF16 }

// is64 reports whether the type is a single value of 64 bits.
func (t Type) is64() bool { return B64 <= t && t <= F64 }

// isFloat reports whether the type is of floating-point numbers, to which neg and abs apply.
func (t Type) isFloat() bool {
	switch t {
	case F16, BF16, F32, F64, PkF16, PkBF16, PkF32, Mix:
		return true
	}
	return false
}

// words returns the number of 32-bit registers that a value of the type takes.
func (t Type) words(f Family) int {
	switch t {
	case B64, I64, U64, F64, PkB32, PkF32:
		return 2
	case B96:
		return 3
	case B128:
		return 4
	case B256:
		return 8
	case B512:
		return 16
	case B1024:
		return 32
	case Mask:
		return f.Lanes() / 32
	}
	return 1
}

// The inline constants 240 to 248: 0.5, -0.5, 1, -1, 2, -2, 4, -4 and 1/(2π).
var (
	inline16 = [9]uint64{0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118}
	inlineBF = [9]uint64{0x3f00, 0xbf00, 0x3f80, 0xbf80, 0x4000, 0xc000, 0x4080, 0xc080, 0x3e22}
	inline32 = [9]uint64{0x3f000000, 0xbf000000, 0x3f800000, 0xbf800000, 0x40000000, 0xc0000000,
		0x40800000, 0xc0800000, 0x3e22f983}
	inline64 = [9]uint64{0x3fe0000000000000, 0xbfe0000000000000, 0x3ff0000000000000, 0xbff0000000000000,
		0x4000000000000000, 0xc000000000000000, 0x4010000000000000, 0xc010000000000000, 0x3fc45f306dc9c882}
)

// inlineInteger returns the pattern of the inline constant n, from -16 to 64.
func (t Type) inlineInteger(f Family, n int) uint64 {
	switch {
	case t.is16():
		return uint64(uint16(n))
	case t.words(f) == 2 && t != PkF32 && t != PkB32:
		return uint64(int64(n))
	}
	return uint64(uint32(n))
}

// inlineFloat returns the pattern of inline constant 240+i. A packed type has the constant
// in its lower half and 0 in the upper one.
func (t Type) inlineFloat(f Family, i int) uint64 {
	switch {
	case t == BF16 || t == PkBF16:
		return inlineBF[i]
	case t.is16() || t == PkF16:
		return inline16[i]
	case t.words(f) == 2 && t != PkF32 && t != PkB32:
		return inline64[i]
	}
	return inline32[i]
}

// literal returns the pattern of a literal of 32 bits.
func (t Type) literal(x uint32) uint64 {
	switch {
	case t == F64:
		return uint64(x) << 32
	case t == I64:
		return uint64(int64(int32(x)))
	case t.is16():
		return uint64(x & 0xffff)
	}
	return uint64(x)
}
