package hip_test

import (
	"debug/elf"
	"strings"
	"testing"

	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/gputest"
	"tokitai/device/gpu/hip"
)

// TestUnknownArchitecture: clang's list decides, and the message says so.
func TestUnknownArchitecture(t *testing.T) {
	gputest.NeedsClang(t)
	path := hip.Stub(t, `ARCH "gfx942:sramecc+:xnack-"`, `ARCH "gfx9999"`, "WARP 64", "WARP 32")
	_, err := hip.Open(t).Compiler(0)
	for _, want := range []string{"no compiler for gfx9999: hipRTC 6 (" + path + ") is not known to compile for gfx9999", "does not know gfx9999: its list of targets has",
		"TOKITAI_CLANG", "TOKITAI_HIPRTC"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestClang compiles for an architecture that hipRTC is not proven for, and for one that it
// is if TOKITAI_CLANG says so.
func TestClang(t *testing.T) {
	clang := gputest.NeedsClang(t)
	source := compile.Source{Name: "k.hip", Text: "extern \"C\" __attribute__((global)) void k(int* p) { *p = 1; }\n"}
	hip.Stub(t, `ARCH "gfx942:sramecc+:xnack-"`, `ARCH "gfx1030"`, "WARP 64", "WARP 32")
	table := hip.Open(t)
	c, err := table.Compiler(0)
	if _, ok := c.(*compile.Clang); !ok || err != nil {
		t.Fatalf("got %v, %v, want clang", c, err)
	}
	p, err := table.Compile(0, source)
	if err != nil || len(p.Usage) != 1 || p.Usage[0].Entry != "k" {
		t.Fatalf("got %+v, %v", p, err)
	}
	if version := p.Image[elf.EI_ABIVERSION]; version != 3 { // of code objects it is 5
		t.Errorf("got ABI version %d, want 3, which every ROCm from 5.7 on loads", version)
	}
	hip.Stub(t, "LOADED 0", "LOADED 209")
	if _, err := hip.Open(t).Load(p.Image); err == nil || !strings.Contains(err.Error(), "description of 209: the program is compiled for gfx1030 (hipError209, code 209)") {
		t.Errorf("a program for another device: %v", err)
	}
	hip.Stub(t)
	t.Setenv("TOKITAI_CLANG", clang.Path())
	if c, err := hip.Open(t).Compiler(0); err != nil || c.(*compile.Clang).Path() != clang.Path() {
		t.Errorf("got %v, %v, want clang as the environment says", c, err)
	}
}

// TestFolds: code in which the compiler has changed a result is refused.
func TestFolds(t *testing.T) {
	clang := gputest.NeedsClang(t)
	t.Setenv("TOKITAI_CLANG", clang.Path())
	hip.Stub(t)
	table := hip.Open(t)
	const text = "extern \"C\" __attribute__((global)) void narrowed(_Float16* h, const float* x) {\n    float product = x[0] * x[1];\n    asm(\"\" : \"+v\"(product));\n    *h = (_Float16)product;\n}\n"
	if _, err := table.Compile(0, compile.Source{Name: "k.hip", Text: text}); err != nil {
		t.Error(err)
	}
	_, err := table.Compile(0, compile.Source{Name: "k.hip", Text: strings.Replace(text, "asm", "// asm", 1)})
	if err == nil || !strings.Contains(err.Error(), "in kernel narrowed: v_fma_mixlo_f16") || !strings.Contains(err.Error(), "−0 becomes +0") {
		t.Errorf("got %v, want the instruction and the reason", err)
	}
}
