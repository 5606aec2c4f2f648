package def_test

import (
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/fn"
)

// TestAbsoluteErrors: a function's absolute error is part of its text, and read back.
func TestAbsoluteErrors(t *testing.T) {
	build := func(f *def.Function) (*def.Definition, error) {
		return def.Rowwise("absolute", func(b *def.Builder) { b.Out("y", f.Of(b.In("x"))) })
	}
	d := def.Must(build(fn.Exp2Short4Function))
	line := "function exp2_short4(x): exp2 within 44.0 ulp + 2^-126 for x <= 127\n"
	if !strings.Contains(d.Text(), line) {
		t.Fatalf("no %q in\n%s", line, d.Text())
	}
	parsed, err := def.Parse(d.Text())
	if err != nil || parsed.Hash() != d.Hash() || parsed.Functions()[0].Absolute != 0x1p-126 {
		t.Errorf("read back: %v", err)
	}
	if _, err := def.Parse(strings.Replace(d.Text(), "2^-126", "2^x", 1)); err == nil || !strings.Contains(err.Error(), `its absolute error "2^x" is not a number or a power of two`) {
		t.Errorf("an absolute error of 2^x: %v", err)
	}
	f := *fn.Exp2Short4Function
	f.Absolute = -1
	if _, err := build(&f); err == nil || !strings.Contains(err.Error(), "its absolute error is -1") {
		t.Errorf("a negative absolute error: %v", err)
	}
}
