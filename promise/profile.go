package promise

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tokitai/def"
)

// Profile is a family of kernels whose functions have known errors.
type Profile struct {
	Name string // "" for the profile of no family
	Text string // one line for readers

	// FlushesSubnormals says that the family's kernels may replace subnormal numbers by zeros.
	FlushesSubnormals bool

	// TensorCores is the model of the least accurate tensor cores on which the family's kernels
	// may multiply f16 and bf16, with its steps in any order, or the FMA chain if there are none.
	TensorCores def.Accum

	// Errors has the errors of functions, in the order of [Functions]. A function that is not
	// listed has the error of profile "".
	Errors []FunctionError
}

// FunctionError is the documented error of a function.
type FunctionError struct {
	Function string
	Error    Error
	Source   string // of the figure, in one line
}

// unlisted is the error of a function that a profile does not list. Those of C libraries and
// GPU vendors are hardly ever larger.
var unlisted = Error{ULPs: 2}

// Documents count ulps either from the true value, or from the correctly rounded result, which
// is half an ulp away from it.
func ulps(n float64) Error          { return Error{ULPs: n} }
func ulpsOfRounded(n int) Error     { return Error{ULPs: float64(n) + 0.5} }
func relative(log float64) Error    { return Error{Relative: math.Exp2(log)} }
func (e Error) abs(v float64) Error { e.Absolute = v; return e }

// flushed is the absolute error of a result that is replaced by zero if it is subnormal.
const flushed = 0x1p-126

// ampere is the model of the first tensor cores that this project knows, from sm_80 to sm_89. Later
// ones lose less.
var ampere = def.Accum{L: 8, F: 24}

var profiles = []*Profile{{
	Name: "",
	Text: "no family: functions within 2 ulp, quotients and square roots correctly rounded",
	Errors: []FunctionError{
		{"sqrt", CorrectlyRounded, "IEEE 754"},
		{"div", CorrectlyRounded, "IEEE 754"},
	},
}, {
	Name: "torch",
	Text: "PyTorch's own kernels on CPUs (SLEEF) and on NVIDIA's GPUs (CUDA without fast math)",

	TensorCores: ampere,
	Errors: []FunctionError{
		{"exp", ulpsOfRounded(2), "CUDA guide, expf: 2 ulp up to CUDA 11, then 1; SLEEF u10: 1 ulp, exp_u20: 2 ulp"},
		{"exp2", ulpsOfRounded(2), "CUDA guide, exp2f: 2 ulp; SLEEF exp2f u10: 1 ulp"},
		{"expm1", ulpsOfRounded(1), "CUDA guide, expm1f: 1 ulp; SLEEF expm1f u10: 1 ulp"},
		{"log", ulpsOfRounded(1), "CUDA guide, logf: 1 ulp; SLEEF logf u10: 1 ulp"},
		{"log2", ulpsOfRounded(1), "CUDA guide, log2f: 1 ulp; SLEEF log2f u10: 1 ulp"},
		{"log1p", ulpsOfRounded(2), "CUDA guide, log1pf: 2 ulp up to CUDA 11, then 1; SLEEF log1pf u10: 1 ulp"},
		{"tanh", ulpsOfRounded(2), "CUDA guide, tanhf: 2 ulp up to CUDA 11, then 1; SLEEF tanhf u10: 1 ulp"},
		{"sigmoid", ulps(4), "1/(1+exp(-x)), with 2.5 ulp of exp, a sum and a quotient"},
		{"erf", ulpsOfRounded(2), "CUDA guide, erff: 2 ulp; SLEEF erff u10: 1 ulp"},
		{"erfcx", ulpsOfRounded(4), "CUDA guide, erfcxf: 4 ulp"},
		{"sin", ulps(3.5), "SLEEF sinf u35: 3.5 ulp; CUDA guide, sinf: 2 ulp"},
		{"cos", ulps(3.5), "SLEEF cosf u35: 3.5 ulp; CUDA guide, cosf: 2 ulp"},
		{"sqrt", CorrectlyRounded, "IEEE 754; CUDA guide: with -prec-sqrt=true, the default"},
		{"rsqrt", ulpsOfRounded(2), "CUDA guide, rsqrtf: 2 ulp; on CPUs 1/sqrt"},
		{"div", CorrectlyRounded, "IEEE 754; CUDA guide: with -prec-div=true, the default"},
		{"recip", CorrectlyRounded, "IEEE 754; CUDA guide: with -prec-div=true, the default"},
	},
}, {
	Name: "triton",
	Text: "Triton on NVIDIA's GPUs, whose exp, exp2, sqrt and / are approximations of the hardware",

	TensorCores: ampere,
	Errors: []FunctionError{
		{"exp", Error{ULPs: 2.5, ULPsPerX: 1}.abs(flushed), "tl.exp is ex2.approx of x*log2 e, a rounded product with a rounded factor"},
		{"exp2", ulpsOfRounded(2).abs(flushed), "PTX ISA, ex2.approx.ftz.f32: 2 ulp"},
		{"expm1", ulpsOfRounded(1), "libdevice; CUDA guide, expm1f: 1 ulp"},
		{"log", ulpsOfRounded(1), "libdevice; CUDA guide, logf: 1 ulp"},
		{"log2", ulpsOfRounded(1), "libdevice; CUDA guide, log2f: 1 ulp"},
		{"log1p", ulpsOfRounded(2), "libdevice; CUDA guide, log1pf: 2 ulp up to CUDA 11, then 1"},
		{"tanh", ulpsOfRounded(2), "libdevice; CUDA guide, tanhf: 2 ulp up to CUDA 11, then 1"},
		{"sigmoid", Error{ULPs: 5.5, ULPsPerX: 1}.abs(flushed), "tl.sigmoid is 1/(1+exp(-x)), with the errors of tl.exp, a sum and div.full"},
		{"erf", ulpsOfRounded(2), "libdevice; CUDA guide, erff: 2 ulp"},
		{"erfcx", ulpsOfRounded(4), "libdevice; CUDA guide, erfcxf: 4 ulp"},
		{"sin", ulpsOfRounded(2), "libdevice; CUDA guide, sinf: 2 ulp"},
		{"cos", ulpsOfRounded(2), "libdevice; CUDA guide, cosf: 2 ulp"},
		{"sqrt", relative(-23), "PTX ISA, sqrt.approx.f32: relative error 2^-23"},
		{"rsqrt", ulpsOfRounded(2), "libdevice; CUDA guide, rsqrtf: 2 ulp; PTX ISA, rsqrt.approx.f32: relative error 2^-22.9"},
		{"div", ulpsOfRounded(2), "x / y is div.full.f32; PTX ISA: 2 ulp"},
		{"recip", ulpsOfRounded(2), "1 / x is div.full.f32; PTX ISA: 2 ulp"},
	},
}, {
	Name: "cuda",
	Text: "CUDA C++ compiled without fast math: the functions of NVIDIA's mathematical library",

	TensorCores: ampere,
	Errors: []FunctionError{
		{"exp", ulpsOfRounded(2), "CUDA guide, expf: 2 ulp up to CUDA 11, then 1"},
		{"exp2", ulpsOfRounded(2), "CUDA guide, exp2f: 2 ulp"},
		{"expm1", ulpsOfRounded(1), "CUDA guide, expm1f: 1 ulp"},
		{"log", ulpsOfRounded(1), "CUDA guide, logf: 1 ulp"},
		{"log2", ulpsOfRounded(1), "CUDA guide, log2f: 1 ulp"},
		{"log1p", ulpsOfRounded(2), "CUDA guide, log1pf: 2 ulp up to CUDA 11, then 1"},
		{"tanh", ulpsOfRounded(2), "CUDA guide, tanhf: 2 ulp up to CUDA 11, then 1"},
		{"sigmoid", ulps(4), "1/(1+expf(-x)), with 2.5 ulp of expf, a sum and a quotient"},
		{"erf", ulpsOfRounded(2), "CUDA guide, erff: 2 ulp"},
		{"erfcx", ulpsOfRounded(4), "CUDA guide, erfcxf: 4 ulp"},
		{"sin", ulpsOfRounded(2), "CUDA guide, sinf: 2 ulp"},
		{"cos", ulpsOfRounded(2), "CUDA guide, cosf: 2 ulp"},
		{"sqrt", CorrectlyRounded, "CUDA guide: with -prec-sqrt=true, the default"},
		{"rsqrt", ulpsOfRounded(2), "CUDA guide, rsqrtf: 2 ulp"},
		{"div", CorrectlyRounded, "CUDA guide: with -prec-div=true, the default"},
		{"recip", CorrectlyRounded, "CUDA guide: with -prec-div=true, the default"},
	},
}, {
	Name:              "cuda-fast-math",
	Text:              "CUDA C++ compiled with -use_fast_math: intrinsics, approximate quotients and roots, no subnormal numbers",
	FlushesSubnormals: true,
	TensorCores:       ampere,
	Errors: []FunctionError{
		{"exp", Error{ULPs: 2.5, ULPsPerX: 1.16}, "CUDA guide, __expf: 2 + floor(|1.16x|) ulp"},
		{"exp2", ulpsOfRounded(2), "PTX ISA, ex2.approx.ftz.f32: 2 ulp"},
		{"expm1", ulpsOfRounded(1), "CUDA guide, expm1f: 1 ulp"},
		{"log", ulpsOfRounded(3).abs(math.Exp2(-21.41)), "CUDA guide, __logf: 3 ulp, and 2^-21.41 from 0.5 to 2"},
		{"log2", ulpsOfRounded(2).abs(math.Exp2(-22)), "CUDA guide, __log2f: 2 ulp, and 2^-22 from 0.5 to 2"},
		{"log1p", ulpsOfRounded(2), "CUDA guide, log1pf: 2 ulp up to CUDA 11, then 1"},
		{"tanh", relative(-10.987), "CUDA guide, __tanhf: relative error 2^-10.987"},
		{"sigmoid", Error{ULPs: 5.5, ULPsPerX: 1.16}, "1/(1+__expf(-x)), with the errors of __expf, a sum and __fdividef"},
		{"erf", ulpsOfRounded(2), "CUDA guide, erff: 2 ulp"},
		{"erfcx", ulpsOfRounded(4), "CUDA guide, erfcxf: 4 ulp"},
		{"sin", CorrectlyRounded.abs(math.Exp2(-21.41)), "CUDA guide, __sinf: 2^-21.41 for |x| <= pi, and larger beyond, which is not counted"},
		{"cos", CorrectlyRounded.abs(math.Exp2(-21.19)), "CUDA guide, __cosf: 2^-21.19 for |x| <= pi, and larger beyond, which is not counted"},
		{"sqrt", ulpsOfRounded(1), "CUDA guide: 1 ulp with -prec-sqrt=false"},
		{"rsqrt", ulpsOfRounded(2), "CUDA guide, rsqrtf: 2 ulp"},
		{"div", ulpsOfRounded(2), "CUDA guide, __fdividef: 2 ulp for divisors from 2^-126 to 2^126"},
		{"recip", ulpsOfRounded(1), "CUDA guide: 1 ulp with -prec-div=false"},
	},
}, {
	Name: "hip",
	Text: "HIP C++ compiled without fast math: the functions of AMD's device libraries",
	Errors: []FunctionError{
		{"exp", ulps(2), "HIP math API, expf: 1 ulp from the host's, which is within 1"},
		{"exp2", ulps(2), "HIP math API, exp2f: 1 ulp from the host's"},
		{"expm1", ulps(2), "HIP math API, expm1f: 1 ulp from the host's"},
		{"log", ulps(3), "HIP math API, logf: 2 ulp from the host's"},
		{"log2", ulps(2), "HIP math API, log2f: 1 ulp from the host's"},
		{"log1p", ulps(2), "HIP math API, log1pf: 1 ulp from the host's"},
		{"tanh", ulps(3), "HIP math API, tanhf: 2 ulp from the host's"},
		{"sigmoid", ulps(3.5), "1/(1+expf(-x)), with 2 ulp of expf, a sum and a quotient"},
		{"erf", ulps(5), "HIP math API, erff: 4 ulp from the host's"},
		{"erfcx", ulps(6), "HIP math API, erfcxf: 5 ulp from the host's"},
		{"sin", ulps(2), "HIP math API, sinf: 1 ulp from the host's"},
		{"cos", ulps(2), "HIP math API, cosf: 1 ulp from the host's"},
		{"sqrt", ulpsOfRounded(1), "HIP math API, sqrtf: 1 ulp from the host's, which is correctly rounded"},
		{"rsqrt", ulps(2), "HIP math API, rsqrtf: 1 ulp from the host's"},
		{"div", CorrectlyRounded, "HIP: correctly rounded division is the default"},
		{"recip", CorrectlyRounded, "HIP: correctly rounded division is the default"},
	},
}}

// Profiles lists the names of the families.
func Profiles() []string {
	var names []string
	for _, p := range profiles[1:] {
		names = append(names, p.Name)
	}
	return names
}

// LookupProfile returns the profile with the given name; "" means no particular family.
func LookupProfile(name string) (*Profile, error) {
	if i := slices.IndexFunc(profiles, func(p *Profile) bool { return p.Name == name }); i >= 0 {
		return profiles[i], nil
	}
	return nil, fmt.Errorf("profile %q is unknown%s, want %s", name, didYouMean(name, Profiles()), strings.Join(Profiles(), ", "))
}

// Error returns the worst error of a function in the family's kernels. A name that [Functions]
// does not have gets the error of an unlisted function.
func (p *Profile) Error(function string) Error { return Declaration{Profile: p.Name}.Error(function) }

// alone returns the errors of all functions, as documented.
func (p *Profile) alone() map[string]Error {
	errors := map[string]Error{}
	for _, f := range functions {
		errors[f] = unlisted
	}
	for _, e := range slices.Concat(profiles[0].Errors, p.Errors) {
		errors[e.Function] = e.Error
	}
	return errors
}
