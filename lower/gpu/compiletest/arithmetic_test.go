package compiletest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/device/gpu/gputest"
	"tokitai/lower/gpu"
	"tokitai/num"
)

// A product that is rounded before it is added, and a square root.
var (
	rounded = def.Must(def.Rowwise("rounded", func(b *def.Builder) {
		x, y, z := b.In("x", def.Only(num.F32)), b.In("y", def.Only(num.F32)), b.In("z", def.Only(num.F32))
		b.Out("sum", x.Mul(y).Add(z), def.Only(num.F32))
	}))
	root = def.Must(def.Rowwise("root", func(b *def.Builder) {
		b.Out("r", b.In("x", def.Only(num.F32)).Sqrt(), def.Only(num.F32))
	}))
)

// instructions in the assembly of AMD's and of NVIDIA's.
var (
	amdFused    = regexp.MustCompile(`\bv_(pk_|dual_)?(fma|fmac|mad|mac|fma_mix|fmaak|fmamk)_(legacy_)?(f32|mixlo|mixhi)|\bv_dual_fma[akmc]*_f32|\bv_fma_mix`)
	amdProduct  = regexp.MustCompile(`\bv_(pk_|dual_)?mul_f32`)
	amdSum      = regexp.MustCompile(`\bv_(pk_|dual_)?add_f32`)
	amdRoot     = regexp.MustCompile(`\bv_sqrt_f32`)
	amdSwitches = regexp.MustCompile(`\bs_(denorm_mode|round_mode|setreg)`)

	nvidiaFused   = regexp.MustCompile(`\bFFMA`)
	nvidiaProduct = regexp.MustCompile(`\bFMUL`)
	nvidiaSum     = regexp.MustCompile(`\bFADD`)
	nvidiaFlushes = regexp.MustCompile(`\bF[A-Z0-9]+\.[A-Z.]*FTZ`)
)

func sourceOf(t testing.TB, d *def.Definition) string {
	t.Helper()
	k, err := gpu.Compile(d, d.Formats()[0], gpu.Vector)
	if err != nil {
		t.Fatal(err)
	}
	return k.Source.Text
}

// kernel is the code of one kernel in assembly: of the flat one, in which nothing else
// is computed. Others divide integers, in floating point.
func kernel(t testing.TB, text, begin, end string) string {
	t.Helper()
	_, after, ok := strings.Cut(text, begin)
	code, _, isWhole := strings.Cut(after, end)
	if !ok || !isWhole {
		t.Fatalf("no %q, or no %q after it, in\n%s", begin, end, text)
	}
	return code
}

// faultsOfAMD are what is wrong with the assembly of the two sources.
func faultsOfAMD(t testing.TB, roundedText, rootText string) (faults []string) {
	t.Helper()
	rounded := kernel(t, roundedText, "\nrounded_flat:", "\n.Lfunc_end")
	root := kernel(t, rootText, "\nroot_flat:", "\n.Lfunc_end")
	add := func(is bool, fault string) {
		if is {
			faults = append(faults, fault)
		}
	}
	add(amdFused.MatchString(rounded), "a product is not rounded before it is added: "+amdFused.FindString(rounded))
	add(!amdProduct.MatchString(rounded) || !amdSum.MatchString(rounded), "no product, or no sum")
	roots := len(amdRoot.FindAllString(root, -1))
	add(roots == 0, "no square root")
	residuals := len(amdFused.FindAllString(root, -1)) + strings.Count(root, "v_pk_fma_f32") // which computes two
	add(residuals < 2*roots, "square roots without two residuals each")
	for _, text := range []string{roundedText, rootText} {
		kernels := strings.Count(text, ".amdhsa_kernel ")
		add(kernels == 0, "no kernel")
		add(strings.Count(text, ".amdhsa_float_denorm_mode_32 3\n") != kernels, "subnormals are flushed")
		add(strings.Count(text, ".amdhsa_float_denorm_mode_16_64 3\n") != kernels, "subnormals of f16 are flushed")
		add(strings.Count(text, ".amdhsa_float_round_mode_32 0\n") != kernels, "rounding is not to nearest")
		add(amdSwitches.MatchString(text), "a kernel changes how it rounds: "+amdSwitches.FindString(text))
	}
	return faults
}

// TestAMDArithmetic reads the assembly: products are rounded, square roots corrected,
// subnormals kept. Each fault is planted and found too.
func TestAMDArithmetic(t *testing.T) {
	c := gputest.NeedsClang(t)
	for _, architecture := range []string{"gfx1101", "gfx942"} {
		t.Run(architecture, func(t *testing.T) {
			t.Parallel()
			assemble := func(d *def.Definition, old, new string) string {
				t.Helper()
				source := complete(d.Name, sourceOf(t, d))
				if old != "" {
					for _, text := range []*string{&source.Text, &source.Headers[0].Text} {
						*text = strings.ReplaceAll(*text, old, new)
					}
				}
				p, err := c.Assemble(architecture, source)
				if err != nil {
					t.Fatal(err)
				}
				return string(p.Image)
			}
			product, square := assemble(rounded, "", ""), assemble(root, "", "")
			for _, fault := range faultsOfAMD(t, product, square) {
				t.Error(fault)
			}
			for name, faulty := range map[string][2]string{
				"contraction":         {assemble(rounded, `#include "prelude.h"`, "#include \"prelude.h\"\n#pragma clang fp contract(fast)"), square},
				"bare square root":    {product, assemble(root, "DEVICE float square_root(float x) {", "DEVICE float square_root(float x) { return __builtin_amdgcn_sqrtf(x);")},
				"flushed subnormals":  {strings.ReplaceAll(product, "denorm_mode_32 3", "denorm_mode_32 0"), square},
				"flushed f16":         {strings.ReplaceAll(product, "denorm_mode_16_64 3", "denorm_mode_16_64 0"), square},
				"rounded toward zero": {product, strings.ReplaceAll(square, "round_mode_32 0", "round_mode_32 3")},
				"no product":          {strings.ReplaceAll(product, "mul_f32", "mov_b32"), square},
				"no square root":      {product, strings.ReplaceAll(square, "v_sqrt_f32", "v_mov_b32")},
				"changed rounding":    {product, strings.ReplaceAll(square, "v_sqrt_f32", "s_round_mode 3\n\tv_sqrt_f32")},
			} {
				if len(faultsOfAMD(t, faulty[0], faulty[1])) == 0 {
					t.Errorf("%s is not seen", name)
				}
			}
		})
	}
}

// faultsOfNVIDIA are what is wrong with the assembly of the sum of a product.
func faultsOfNVIDIA(t testing.TB, text string) (faults []string) {
	t.Helper()
	rounded := kernel(t, text+"\n//---", "\n.text.rounded_flat:", "\n//---") // before the next section
	if nvidiaFused.MatchString(rounded) {
		faults = append(faults, "a product is not rounded before it is added")
	}
	if !nvidiaProduct.MatchString(rounded) || !nvidiaSum.MatchString(rounded) {
		faults = append(faults, "no product, or no sum")
	}
	if flush := nvidiaFlushes.FindString(rounded); flush != "" {
		faults = append(faults, "subnormals are flushed: "+flush)
	}
	return faults
}

// TestNVIDIAArithmetic does the same where nvdisasm is: TOKITAI_NVDISASM, or on the path.
func TestNVIDIAArithmetic(t *testing.T) {
	c := gputest.NeedsNVRTC(t)
	disassembler := os.Getenv("TOKITAI_NVDISASM")
	if disassembler == "" {
		disassembler = "nvdisasm"
	}
	if _, err := exec.LookPath(disassembler); err != nil {
		t.Skipf("needs nvdisasm, which TOKITAI_NVDISASM can name: %v", err)
	}
	for _, architecture := range []string{"sm_80", "sm_90a", "sm_100"} {
		disassemble := func(text string) string {
			t.Helper()
			p, err := c.Compile(architecture, complete("rounded", text))
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "rounded.cubin")
			if err := os.WriteFile(file, p.Image, 0o600); err != nil {
				t.Fatal(err)
			}
			said, err := exec.Command(disassembler, "-c", file).CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", disassembler, err, said)
			}
			return string(said)
		}
		text := sourceOf(t, rounded)
		for _, fault := range faultsOfNVIDIA(t, disassemble(text)) {
			t.Errorf("%s: %s", architecture, fault)
		}
		fused := regexp.MustCompile(`const float (\w+) = (\w+) \+ (\w+);`).ReplaceAllString(text, "const float $1 = fused($2, 1.5f, $3);")
		if fused == text || len(faultsOfNVIDIA(t, disassemble(fused))) == 0 {
			t.Errorf("%s: a fused product is not seen", architecture)
		}
	}
}
