#include "textflag.h"
#include "funcdata.h"

// func call(code, frame unsafe.Pointer)
//
// The barrier discards instructions that this core has fetched ahead: other code may have been at
// the same address. Callers restore the registers that Go reserves: this is a function of
// the stable ABI.
TEXT ·call(SB), 0, $0-16
	NO_LOCAL_POINTERS
	MOVD code+0(FP), R1
	MOVD frame+8(FP), R0
	ISB  $15
	CALL (R1)
	RET

// func flushRange(first, end uintptr)
//
// CTR_EL0 has the sizes of cache lines, as log2 of words: of data in bits 16 to 19, of instructions
// in bits 0 to 3. Every line is cleaned, then every line is invalidated, with a barrier
// after each.
TEXT ·flushRange(SB), NOSPLIT, $0-16
	MOVD first+0(FP), R0
	MOVD end+8(FP), R1
	MRS  CTR_EL0, R2
	MOVD $4, R3
	UBFX $16, R2, $4, R4
	LSL  R4, R3, R4
	AND  $15, R2, R5
	LSL  R5, R3, R5

	SUB $1, R4, R6
	BIC R6, R0, R7

clean:
	DC  CVAU, R7
	ADD R4, R7, R7
	CMP R1, R7
	BLO clean
	DSB $11 // inner shareable: all cores that may run the code

	SUB $1, R5, R6
	BIC R6, R0, R7

invalidate:
	WORD $0xd50b7527 // IC IVAU, R7
	ADD  R5, R7, R7
	CMP  R1, R7
	BLO  invalidate
	DSB  $11
	ISB  $15
	RET
