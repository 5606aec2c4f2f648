package num

import (
	"fmt"
	"slices"
)

// DType is a storage format. It says how a value is stored; arithmetic on real values is
// always binary32.
type DType uint8

const (
	NoDType DType = iota
	F16           // IEEE binary16
	BF16          // the upper half of binary32
	F32           // IEEE binary32
	I32           // two's complement, for indices and labels
	E4M3          // OCP FP8 with 4 bits of exponent: no infinities, one NaN per sign
	E5M2          // OCP FP8 with 5 bits of exponent: the upper half of binary16
	I8            // two's complement, for factors of exact products
	I64           // two's complement, for factors and results of exact products
)

// FloatDTypes lists the formats in which any real value of a definition may be stored,
// narrow ones first.
var FloatDTypes = []DType{F16, BF16, F32}

// FP8DTypes lists the formats of one byte. They store factors of matrix products.
var FP8DTypes = []DType{E4M3, E5M2}

// RealDTypes lists all formats that store real values.
var RealDTypes = slices.Concat(FloatDTypes, FP8DTypes)

// IntegerDTypes lists the formats of integers, narrow ones first.
var IntegerDTypes = []DType{I8, I32, I64}

// AllDTypes lists every format, those of integers last.
var AllDTypes = slices.Concat(RealDTypes, IntegerDTypes)

var dtypeNames = [...]string{NoDType: "none", F16: "f16", BF16: "bf16", F32: "f32", I32: "i32", E4M3: "e4m3", E5M2: "e5m2", I8: "i8", I64: "i64"}

func (d DType) String() string {
	if int(d) < len(dtypeNames) {
		return dtypeNames[d]
	}
	return fmt.Sprintf("DType(%d)", uint8(d))
}

// ParseDType returns the DType of a name. It is the inverse of String.
func ParseDType(s string) (DType, error) {
	for d := F16; int(d) < len(dtypeNames); d++ {
		if dtypeNames[d] == s {
			return d, nil
		}
	}
	return NoDType, fmt.Errorf("unknown dtype %q, want f16, bf16, f32, e4m3, e5m2, i8, i32 or i64", s)
}

// Size returns the number of bytes of one element.
func (d DType) Size() int {
	switch d {
	case E4M3, E5M2, I8:
		return 1
	case F16, BF16:
		return 2
	case F32, I32:
		return 4
	case I64:
		return 8
	}
	return 0
}

// IsFloat reports whether d is a floating-point format.
func (d DType) IsFloat() bool { return d == F16 || d == BF16 || d == F32 || d.IsFP8() }

// IsFP8 reports whether d is a floating-point format of one byte.
func (d DType) IsFP8() bool { return d == E4M3 || d == E5M2 }

// IsInteger reports whether d is a format of integers.
func (d DType) IsInteger() bool { return d == I8 || d == I32 || d == I64 }
