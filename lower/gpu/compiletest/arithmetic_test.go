package compiletest

import (
	"regexp"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/device/gpu/gputest"
	"tokitai/lower/gpu"
	"tokitai/num"
)

// A product that is rounded before it is added.
var rounded = def.Must(def.Rowwise("rounded", func(b *def.Builder) {
	x, y, z := b.In("x", def.Only(num.F32)), b.In("y", def.Only(num.F32)), b.In("z", def.Only(num.F32))
	b.Out("sum", x.Mul(y).Add(z), def.Only(num.F32))
}))

// Instructions in NVIDIA's assembly.
var (
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

// TestNVIDIAArithmetic reads the assembly: products are rounded, subnormals kept. A fused
// product is planted and found. It needs nvdisasm: TOKITAI_NVDISASM, or on the path.
func TestNVIDIAArithmetic(t *testing.T) {
	c := gputest.NeedsNVRTC(t)
	disassembler := nvdisasm(t)
	for _, architecture := range []string{"sm_80", "sm_90a", "sm_100"} {
		faults := func(text string) []string {
			t.Helper()
			return faultsOfNVIDIA(t, disassemble(t, disassembler, c, architecture, complete("rounded", text)))
		}
		text := sourceOf(t, rounded)
		for _, fault := range faults(text) {
			t.Errorf("%s: %s", architecture, fault)
		}
		fused := regexp.MustCompile(`const float (\w+) = (\w+) \+ (\w+);`).ReplaceAllString(text, "const float $1 = fused($2, 1.5f, $3);")
		if fused == text || len(faults(fused)) == 0 {
			t.Errorf("%s: a fused product is not seen", architecture)
		}
	}
}
