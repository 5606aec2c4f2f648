#include "textflag.h"

// The NaN of an invalid operation, and the bit that makes a NaN quiet.
DATA nan<>+0(SB)/4, $0x7fc00000
DATA nan<>+4(SB)/4, $0x00400000
GLOBL nan<>(SB), RODATA|NOPTR, $8

// CHOOSE replaces lanes of Y5 by those of x that are NaN, made quiet.
#define CHOOSE(x) \
	VORPS     Y7, x, Y6      \
	VCMPPS    $3, x, x, Y8   \
	VBLENDVPS Y8, Y6, Y5, Y5

// UNORDERED sets Y4 to the lanes of Y3 that are NaN, and the flags by whether there is one.
#define UNORDERED \
	VCMPPS    $3, Y3, Y3, Y4 \
	VMOVMSKPS Y4, R8         \
	TESTL     R8, R8

// func fmaAVX(d, a, b, c *uint32, n int)
TEXT ·fmaAVX(SB), NOSPLIT, $0-40
	MOVQ         d+0(FP), DI
	MOVQ         a+8(FP), AX
	MOVQ         b+16(FP), BX
	MOVQ         c+24(FP), DX
	MOVQ         n+32(FP), CX
	VBROADCASTSS nan<>+4(SB), Y7

loop:
	VMOVUPS     (AX), Y0
	VMOVUPS     (BX), Y1
	VMOVUPS     (DX), Y2
	VMOVAPS     Y0, Y3
	VFMADD213PS Y2, Y1, Y3
	UNORDERED
	JNE         invalid

store:
	VMOVUPS Y3, (DI)
	ADDQ    $32, AX
	ADDQ    $32, BX
	ADDQ    $32, DX
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNE     loop
	VZEROUPPER
	RET

invalid:
	VBROADCASTSS nan<>+0(SB), Y5
	CHOOSE(Y2)
	CHOOSE(Y1)
	CHOOSE(Y0)
	VBLENDVPS    Y4, Y5, Y3, Y3
	JMP          store

// func addAVX(d, a, b *uint32, sign uint32, n int)
TEXT ·addAVX(SB), NOSPLIT, $0-40
	MOVQ         d+0(FP), DI
	MOVQ         a+8(FP), AX
	MOVQ         b+16(FP), BX
	VBROADCASTSS sign+24(FP), Y9
	MOVQ         n+32(FP), CX
	VBROADCASTSS nan<>+4(SB), Y7

loop:
	VMOVUPS (AX), Y0
	VXORPS  (BX), Y9, Y1
	VADDPS  Y1, Y0, Y3
	UNORDERED
	JNE     invalid

store:
	VMOVUPS Y3, (DI)
	ADDQ    $32, AX
	ADDQ    $32, BX
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNE     loop
	VZEROUPPER
	RET

invalid:
	VBROADCASTSS nan<>+0(SB), Y5
	CHOOSE(Y1)
	CHOOSE(Y0)
	VBLENDVPS    Y4, Y5, Y3, Y3
	JMP          store

// func mulAVX(d, a, b *uint32, n int)
TEXT ·mulAVX(SB), NOSPLIT, $0-32
	MOVQ         d+0(FP), DI
	MOVQ         a+8(FP), AX
	MOVQ         b+16(FP), BX
	MOVQ         n+24(FP), CX
	VBROADCASTSS nan<>+4(SB), Y7

loop:
	VMOVUPS (AX), Y0
	VMOVUPS (BX), Y1
	VMULPS  Y1, Y0, Y3
	UNORDERED
	JNE     invalid

store:
	VMOVUPS Y3, (DI)
	ADDQ    $32, AX
	ADDQ    $32, BX
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNE     loop
	VZEROUPPER
	RET

invalid:
	VBROADCASTSS nan<>+0(SB), Y5
	CHOOSE(Y1)
	CHOOSE(Y0)
	VBLENDVPS    Y4, Y5, Y3, Y3
	JMP          store
