// Package fn provides the transcendental functions that definitions use. Each is a
// [def.Function]: the mathematical function, and an expansion into elementary nodes
// that gives the same bits on every machine. No vendor's math library is used.
//
//	function         argument                    worst ulp  operations  FMAs
//	exp              every x                           0.9          20     9
//	exp_nonpositive  x <= 44                           0.9          14     9
//	exp_bounded      -128 <= x <= 44                   0.9          12     9
//	exp2             every x                           0.9          19     6
//	exp2_short3      x <= 127                         1350           9     3
//	exp2_short4      x <= 127                           44          10     4
//	log              x > 0                             0.9          33    10
//	log2             x > 0                               1          36    11
//	log1p            x > -1                              1          37    11
//	recip            x != 0                           0.76          15     4
//	recip_bounded    2^-125 <= |x| <= 2^125           0.52           7     4
//	rsqrt            x > 0                             1.5           2     0
//	sigmoid          every x                           2.8          27    13
//	tanh             every x                           1.8          30    13
//	sin              |x| <= 2^17                       0.9          39    14
//	cos              |x| <= 2^17                       0.9          38    14
//	erf              every x                           1.1          36    23
//	erfcx_bounded    0 <= x <= 11                        4          21    14
//
// The worst error is |result − truth| in units in the last place of the truth, over
// all arguments of the domain: every one of the 2³² patterns has been evaluated and
// compared with an enclosure of the truth (TestExhaustive), and the worst found is
// rounded up. An infinite result counts as 2¹²⁸. exp2_short3 and exp2_short4 are off by
// 2^-126 more: from x = -126.5 down they are +0. Reinterpreting a pattern is not
// counted as an operation; negation, which most machines fold into an FMA, is.
//
// NaN gives NaN. The bit pattern of a NaN differs between machines, so no result may
// depend on an integer made from it. Either the float made from that integer is
// combined with the NaN again in a product or an FMA, or it is NaN for every pattern,
// or the integer only chooses between two NaNs.
//
// ExpNonPositive, ExpBounded and RecipBounded are cheaper variants for expressions
// that bound their argument anyway. Outside its domain their result is unspecified but
// deterministic: it follows from the expansion.
//
// Start with exp.go: other functions reduce the argument the same way. The constants
// are in coefficients.go. TestCoefficients derives them again: minimax polynomials
// with binary32 coefficients by the Remez exchange algorithm (minimax_test.go).
package fn
