package compiletest

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/gputest"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
	"tokitai/lower/gpu"
	"tokitai/num"
	"tokitai/op/gemm"
)

// Products in rings: bytes whose int32 sums are the result, and with scales; residues modulo a power
// of an odd prime, and of two.
var (
	bytesProduct = def.Must(def.Contraction("sums", def.ContractionForm{
		Left: "A", LeftDims: []string{"M", "K"}, Right: "B", RightDims: []string{"N", "K"}, TransposeRight: true,
		Result: "C", ResultDims: []string{"M", "N"}, Factors: def.Only(num.I8), Ring: def.Ring{P: 2, K: 32},
	}))
	binaryProduct = def.Must(gemm.ZPKDefinitionOf(def.Ring{P: 2, K: 63}))
	ringProducts  = []*def.Definition{bytesProduct, gemm.Int8Definition, gemm.ZPKDefinition, binaryProduct}
)

// TestRingKernels compiles products in rings, without a GPU.
func TestRingKernels(t *testing.T) {
	list := programsOf(t, ringProducts...)
	for _, a := range architectures {
		if testlevel.Current() < a.level {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			c := a.compiler(t)
			for i := range list {
				if p := &list[i]; p.isFirst || testlevel.Current() >= a.all {
					t.Run(p.String(), func(t *testing.T) {
						check(t, p, &a, usage(t, c, &a, p))
					})
				}
			}
		})
	}
}

// Instructions of NVIDIA's: four products of bytes that are added to an integer, and arithmetic on
// floats.
var (
	nvidiaBytes  = regexp.MustCompile(`\bIDP\.4A\.S8\.S8\b`)
	nvidiaFloats = regexp.MustCompile(`\b[FD](ADD|MUL|FMA)\b`) // HFMA2 makes constants, MUFU divides numbers of tiles
)

// TestRingInstructions reads the assembly: bytes are multiplied four at a time, 16 sums in a step of
// a thread, and no sum is taken in floats. A kernel that takes bytes without their signs is
// seen.
func TestRingInstructions(t *testing.T) {
	c := gputest.NeedsNVRTC(t)
	disassembler := nvdisasm(t)
	for _, architecture := range []string{"sm_80", "sm_90a", "sm_100"}[testlevel.Pick(1, 0):testlevel.Pick(2, 3)] {
		read := func(d *def.Definition, change func(string) string) (bytes, floats int) {
			t.Helper()
			k, err := gpu.Compile(d, d.Formats()[0], gpu.Vector)
			if err != nil {
				t.Fatal(err)
			}
			code := disassemble(t, disassembler, c, architecture, complete(d.Name, change(k.Source.Text)))
			return len(nvidiaBytes.FindAllString(code, -1)), len(nvidiaFloats.FindAllString(code, -1))
		}
		same := func(text string) string { return text }
		for _, d := range []*def.Definition{bytesProduct, gemm.Int8Definition} {
			// The loop over the words of a step is rolled, or unrolled by a power of two.
			if bytes, _ := read(d, same); bytes == 0 || bytes%16 != 0 {
				t.Errorf("%s, %s: %d instructions multiply four bytes, want a multiple of 16", d.Name, architecture, bytes)
			}
		}
		for _, d := range []*def.Definition{bytesProduct, gemm.ZPKDefinition, binaryProduct} {
			if _, floats := read(d, same); floats != 0 {
				t.Errorf("%s, %s: %d instructions compute in floats, want none", d.Name, architecture, floats)
			}
		}
		unsigned := func(text string) string {
			return strings.Replace(text, "__dp4a((int)a, (int)b, (int)acc)", "__dp4a(a, b, acc)", 1)
		}
		if bytes, _ := read(bytesProduct, unsigned); bytes != 0 {
			t.Errorf("%s: %d instructions multiply bytes with signs where the source has none", architecture, bytes)
		}
	}
}

// nvdisasm finds NVIDIA's disassembler: TOKITAI_NVDISASM, or on the path.
func nvdisasm(t testing.TB) string {
	t.Helper()
	return tool.Need(t, cmp.Or(os.Getenv("TOKITAI_NVDISASM"), "nvdisasm"))
}

// disassemble compiles a source and returns its assembly.
func disassemble(t testing.TB, disassembler string, c compile.Compiler, architecture string, s compile.Source) string {
	t.Helper()
	p, err := c.Compile(architecture, s)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "code.cubin")
	if err := os.WriteFile(file, p.Image, 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(disassembler, "-c", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", disassembler, err, said)
	}
	return string(said)
}
