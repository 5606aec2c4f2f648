#include "textflag.h"
#include "funcdata.h"

// func call(code, frame unsafe.Pointer)
//
// The check of the stack leaves more than the 256 bytes that the code may use. Callers
// restore the registers that Go reserves: this is a function of the stable ABI.
TEXT ·call(SB), 0, $8-16
	NO_LOCAL_POINTERS
	MOVQ code+0(FP), AX
	MOVQ frame+8(FP), DI
	CALL AX
	RET
