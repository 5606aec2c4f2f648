#include "textflag.h"

// Four balls at a time. A vector of balls is m0 r0 m1 r1, m2 r2 m3 r3; unpacked it is m0 m2 m1 m3
// and r0 r2 r1 r3. Vectors of float64 are permuted to that order and back. No step is fused, and
// none is in another order than in the loops in Go, so that the bits are theirs.

DATA constants<>+0(SB)/8, $0x7fffffffffffffff // all but the sign
DATA constants<>+8(SB)/8, $0x3cb0000000000000 // 2^-52
DATA constants<>+16(SB)/8, $0x3ff0000000000010 // grow
DATA constants<>+24(SB)/8, $0x0010000000000000 // tiny
DATA constants<>+32(SB)/8, $0x3ff0000000000004 // 1+2^-50
DATA constants<>+40(SB)/8, $0x3fe0000000000000 // 0.5
GLOBL constants<>(SB), RODATA|NOPTR, $48

#define CONSTANTS \
	VBROADCASTSD constants<>+0(SB), Y15  \
	VBROADCASTSD constants<>+8(SB), Y14  \
	VBROADCASTSD constants<>+16(SB), Y13 \
	VBROADCASTSD constants<>+24(SB), Y12

// LOAD unpacks the four balls at p.
#define LOAD(p, mid, rad) \
	VMOVUPD   (p), Y0       \
	VMOVUPD   32(p), Y1     \
	VUNPCKLPD Y1, Y0, mid   \
	VUNPCKHPD Y1, Y0, rad

#define STORE(mid, rad, p) \
	VUNPCKLPD rad, mid, Y0  \
	VUNPCKHPD rad, mid, Y1  \
	VMOVUPD   Y0, (p)       \
	VMOVUPD   Y1, 32(p)

// PRODUCT sets Y6 and Y7 to the product of Y2, Y3 and Y4, Y5. It is 0 where a factor is.
#define PRODUCT \
	VXORPD  Y1, Y1, Y1      \
	VMULPD  Y4, Y2, Y6      \
	VANDPD  Y15, Y2, Y8     \
	VANDPD  Y15, Y4, Y9     \
	VMULPD  Y5, Y8, Y10     \
	VADDPD  Y5, Y9, Y11     \
	VMULPD  Y3, Y11, Y11    \
	VADDPD  Y11, Y10, Y10   \
	VMULPD  Y9, Y8, Y11     \
	VMULPD  Y14, Y11, Y11   \
	VADDPD  Y11, Y10, Y10   \
	VMULPD  Y13, Y10, Y10   \
	VADDPD  Y12, Y10, Y7    \
	VORPD   Y3, Y8, Y8      \
	VORPD   Y5, Y9, Y9      \
	VCMPPD  $0, Y1, Y8, Y8  \
	VCMPPD  $0, Y1, Y9, Y9  \
	VORPD   Y9, Y8, Y8      \
	VANDNPD Y6, Y8, Y6      \
	VANDNPD Y7, Y8, Y7

// SUM adds Y2, Y3 to Y6, Y7.
#define SUM \
	VADDPD Y6, Y2, Y6       \
	VADDPD Y7, Y3, Y7       \
	VANDPD Y15, Y6, Y8      \
	VMULPD Y14, Y8, Y8      \
	VADDPD Y8, Y7, Y7       \
	VMULPD Y13, Y7, Y7

#define ONE(p) \
	VBROADCASTSD (p), Y4    \
	VBROADCASTSD 8(p), Y5

// func setProductsAVX(to, a, b *Ball, n int)
TEXT ·setProductsAVX(SB), NOSPLIT, $0-32
	MOVQ to+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
	CONSTANTS

loop:
	LOAD(SI, Y2, Y3)
	LOAD(DX, Y4, Y5)
	PRODUCT
	STORE(Y6, Y7, DI)
	ADDQ $64, DI
	ADDQ $64, SI
	ADDQ $64, DX
	SUBQ $4, CX
	JNE  loop
	VZEROUPPER
	RET

// func addProductsAVX(to, a, b *Ball, n int)
TEXT ·addProductsAVX(SB), NOSPLIT, $0-32
	MOVQ to+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
	CONSTANTS

loop:
	LOAD(SI, Y2, Y3)
	LOAD(DX, Y4, Y5)
	PRODUCT
	LOAD(DI, Y2, Y3)
	SUM
	STORE(Y6, Y7, DI)
	ADDQ $64, DI
	ADDQ $64, SI
	ADDQ $64, DX
	SUBQ $4, CX
	JNE  loop
	VZEROUPPER
	RET

// func setMultiplesAVX(to, a, b *Ball, n int)
TEXT ·setMultiplesAVX(SB), NOSPLIT, $0-32
	MOVQ to+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
	CONSTANTS
	ONE(DX)

loop:
	LOAD(SI, Y2, Y3)
	PRODUCT
	STORE(Y6, Y7, DI)
	ADDQ $64, DI
	ADDQ $64, SI
	SUBQ $4, CX
	JNE  loop
	VZEROUPPER
	RET

// func addMultiplesAVX(to, a, b *Ball, n int)
TEXT ·addMultiplesAVX(SB), NOSPLIT, $0-32
	MOVQ to+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
	CONSTANTS
	ONE(DX)

loop:
	LOAD(SI, Y2, Y3)
	PRODUCT
	LOAD(DI, Y2, Y3)
	SUM
	STORE(Y6, Y7, DI)
	ADDQ $64, DI
	ADDQ $64, SI
	SUBQ $4, CX
	JNE  loop
	VZEROUPPER
	RET

// func addAllAVX(to, a *Ball, n int, sign uint64)
TEXT ·addAllAVX(SB), NOSPLIT, $0-32
	MOVQ         to+0(FP), DI
	MOVQ         a+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSD sign+24(FP), Y5
	CONSTANTS

loop:
	LOAD(SI, Y6, Y7)
	VXORPD Y5, Y6, Y6
	LOAD(DI, Y2, Y3)
	SUM
	STORE(Y6, Y7, DI)
	ADDQ $64, DI
	ADDQ $64, SI
	SUBQ $4, CX
	JNE  loop
	VZEROUPPER
	RET

// func setMeansAVX(to, a, b *Ball, n int)
TEXT ·setMeansAVX(SB), NOSPLIT, $0-32
	MOVQ         to+0(FP), DI
	MOVQ         a+8(FP), SI
	MOVQ         b+16(FP), DX
	MOVQ         n+24(FP), CX
	CONSTANTS
	VBROADCASTSD constants<>+40(SB), Y11

loop:
	LOAD(SI, Y2, Y3)
	LOAD(DX, Y6, Y7)
	SUM
	VXORPD  Y1, Y1, Y1
	VANDPD  Y15, Y6, Y8
	VORPD   Y7, Y8, Y8
	VCMPPD  $0, Y1, Y8, Y8
	VMULPD  Y11, Y6, Y6
	VMULPD  Y11, Y7, Y7
	VADDPD  Y12, Y7, Y7
	VANDNPD Y7, Y8, Y7
	STORE(Y6, Y7, DI)
	ADDQ $64, DI
	ADDQ $64, SI
	ADDQ $64, DX
	SUBQ $4, CX
	JNE  loop
	VZEROUPPER
	RET

// func addMagnitudesAVX(totals *float64, a *Ball, weights *float64, n int)
TEXT ·addMagnitudesAVX(SB), NOSPLIT, $0-32
	MOVQ totals+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ weights+16(FP), DX
	MOVQ n+24(FP), CX
	CONSTANTS

loop:
	LOAD(SI, Y2, Y3)
	VANDPD  Y15, Y2, Y2
	VADDPD  Y3, Y2, Y2
	VPERMPD $0xd8, Y2, Y2
	VMULPD  (DX), Y2, Y2
	VADDPD  (DI), Y2, Y2
	VMOVUPD Y2, (DI)
	ADDQ    $32, DI
	ADDQ    $64, SI
	ADDQ    $32, DX
	SUBQ    $4, CX
	JNE     loop
	VZEROUPPER
	RET

// func addWeightedAVX(totals *float64, a *Ball, n int, weight, grow float64)
TEXT ·addWeightedAVX(SB), NOSPLIT, $0-40
	MOVQ         totals+0(FP), DI
	MOVQ         a+8(FP), SI
	MOVQ         n+16(FP), CX
	CONSTANTS
	VBROADCASTSD weight+24(FP), Y4
	VBROADCASTSD grow+32(FP), Y5

loop:
	LOAD(SI, Y2, Y3)
	VANDPD  Y15, Y2, Y2
	VADDPD  Y3, Y2, Y2
	VMULPD  Y4, Y2, Y2
	VMULPD  Y5, Y2, Y2
	VPERMPD $0xd8, Y2, Y2
	VADDPD  (DI), Y2, Y2
	VMOVUPD Y2, (DI)
	ADDQ    $32, DI
	ADDQ    $64, SI
	SUBQ    $4, CX
	JNE     loop
	VZEROUPPER
	RET

// TAKE loads the arguments of a step at AX. Strides are 64, or 0 for the same four balls again and again.
#define TAKE \
	MOVQ         step_to(AX), DI               \
	MOVQ         step_a(AX), SI                \
	MOVQ         step_b(AX), DX                \
	MOVQ         step_errors(AX), R10          \
	MOVQ         step_n(AX), CX                \
	MOVQ         step_strideA(AX), R11         \
	MOVQ         step_strideB(AX), R12         \
	CONSTANTS                                  \
	XORQ         R8, R8                        \
	XORQ         R9, R9

// NOISE adds the error of a step to Y6 and Y7, if there is one, and looks for what is beyond the
// limit, or below 0.
#define NOISE(done) \
	VANDPD       Y15, Y6, Y8                   \
	TESTQ        R10, R10                      \
	JEQ          done                          \
	VXORPD       Y1, Y1, Y1                    \
	VBROADCASTSD step_relative(AX), Y2         \
	VBROADCASTSD step_absolute(AX), Y3         \
	VBROADCASTSD constants<>+32(SB), Y4        \
	VADDPD       Y7, Y8, Y9                    \
	VORPD        Y7, Y8, Y10                   \
	VCMPPD       $0, Y1, Y10, Y10              \
	VMULPD       Y2, Y9, Y9                    \
	VADDPD       Y3, Y9, Y9                    \
	VMULPD       Y4, Y9, Y9                    \
	VANDNPD      Y9, Y10, Y9                   \
	VPERMPD      $0xd8, Y9, Y10                \
	VMOVUPD      Y10, (R10)                    \
	ADDQ         $32, R10                      \
	VADDPD       Y9, Y7, Y7                    \
	VMULPD       Y4, Y7, Y7

#define CHECK \
	VBROADCASTSD step_limit(AX), Y2            \
	VADDPD       Y7, Y8, Y8                    \
	VCMPPD       $6, Y2, Y8, Y8                \
	VCMPPD       $1, Y7, Y6, Y9                \
	VMOVMSKPD    Y8, R13                       \
	VMOVMSKPD    Y9, BX                        \
	ORQ          R13, R8                       \
	ORQ          BX, R9

#define GIVE \
	MOVQ R8, step_beyond(AX)                   \
	MOVQ R9, step_below(AX)                    \
	VZEROUPPER                                 \
	RET

#define step_to 0
#define step_a 8
#define step_b 16
#define step_errors 24
#define step_n 32
#define step_strideA 40
#define step_strideB 48
#define step_relative 56
#define step_absolute 64
#define step_limit 72
#define step_sign 80
#define step_beyond 88
#define step_below 96

// func copyStepAVX(args *step)
TEXT ·copyStepAVX(SB), NOSPLIT, $0-8
	MOVQ args+0(FP), AX
	TAKE

loop:
	LOAD(SI, Y6, Y7)
	NOISE(check)

check:
	CHECK
	STORE(Y6, Y7, DI)
	ADDQ $64, DI
	ADDQ R11, SI
	SUBQ $4, CX
	JNE  loop
	GIVE

// func addStepAVX(args *step)
TEXT ·addStepAVX(SB), NOSPLIT, $0-8
	MOVQ args+0(FP), AX
	TAKE
	VBROADCASTSD step_sign(AX), Y5

loop:
	LOAD(SI, Y2, Y3)
	LOAD(DX, Y6, Y7)
	VXORPD Y5, Y6, Y6
	SUM
	NOISE(check)

check:
	CHECK
	STORE(Y6, Y7, DI)
	ADDQ $64, DI
	ADDQ R11, SI
	ADDQ R12, DX
	SUBQ $4, CX
	JNE  loop
	GIVE

// func mulStepAVX(args *step)
TEXT ·mulStepAVX(SB), NOSPLIT, $0-8
	MOVQ args+0(FP), AX
	TAKE

loop:
	LOAD(SI, Y2, Y3)
	LOAD(DX, Y4, Y5)
	VXORPD  Y1, Y1, Y1
	VMULPD  Y4, Y2, Y6
	VANDPD  Y15, Y2, Y8
	VANDPD  Y15, Y4, Y9
	VMULPD  Y5, Y8, Y10
	VADDPD  Y5, Y9, Y11
	VMULPD  Y3, Y11, Y11
	VADDPD  Y11, Y10, Y10
	VORPD   Y3, Y8, Y8        // 0 if a is
	VORPD   Y5, Y9, Y9        // 0 if b is
	VCMPPD  $0, Y1, Y8, Y8
	VCMPPD  $0, Y1, Y9, Y9
	VORPD   Y9, Y8, Y8
	VCMPPD  $0, Y1, Y10, Y9   // and nothing is unknown
	VANDPD  Y9, Y8, Y9
	VANDPD  Y15, Y6, Y11
	VMULPD  Y14, Y11, Y11
	VADDPD  Y11, Y10, Y10
	VMULPD  Y13, Y10, Y10
	VADDPD  Y12, Y10, Y7
	VANDNPD Y6, Y9, Y6
	VANDNPD Y7, Y9, Y7
	NOISE(check)

check:
	CHECK
	STORE(Y6, Y7, DI)
	ADDQ $64, DI
	ADDQ R11, SI
	ADDQ R12, DX
	SUBQ $4, CX
	JNE  loop
	GIVE

// func sqrStepAVX(args *step)
TEXT ·sqrStepAVX(SB), NOSPLIT, $0-8
	MOVQ args+0(FP), AX
	TAKE
	VBROADCASTSD constants<>+40(SB), Y5

loop:
	LOAD(SI, Y2, Y3)
	VXORPD    Y1, Y1, Y1
	VANDPD    Y15, Y2, Y2
	VORPD     Y3, Y2, Y4
	VCMPPD    $0, Y1, Y4, Y4   // 0
	VMULPD    Y2, Y2, Y6
	VMULPD    Y3, Y3, Y8
	VADDPD    Y8, Y6, Y6       // m² + r²
	VADDPD    Y2, Y2, Y7
	VMULPD    Y3, Y7, Y7       // 2m·r
	VADDPD    Y3, Y2, Y8
	VMULPD    Y8, Y8, Y8
	VMULPD    Y5, Y8, Y8       // (m+r)²/2
	VCMPPD    $6, Y2, Y3, Y9   // not r <= m
	VBLENDVPD Y9, Y8, Y6, Y6
	VBLENDVPD Y9, Y8, Y7, Y7
	VANDPD    Y15, Y6, Y8
	VMULPD    Y14, Y8, Y8
	VADDPD    Y8, Y7, Y7
	VMULPD    Y13, Y7, Y7
	VADDPD    Y12, Y7, Y7
	VANDNPD   Y6, Y4, Y6
	VANDNPD   Y7, Y4, Y7
	NOISE(check)

check:
	CHECK
	STORE(Y6, Y7, DI)
	ADDQ $64, DI
	ADDQ R11, SI
	SUBQ $4, CX
	JNE  loop
	GIVE
