package amdemu

import (
	"strings"
	"testing"

	"tokitai/def"
	devicegpu "tokitai/device/gpu"
	"tokitai/device/gpu/amdemu"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/gputest"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/verify"
)

// mutant is a fault in the sources of an operation's kernels.
type mutant struct {
	fault        string
	architecture string
	definition   string
	dtype        num.DType
	from, to     string // in the kernels' text or in the prelude, everywhere
	shownBy      string // a case of level smoke, or one like it
	ends         string // part of the error in which the kernel ends; "" if its results are wrong
}

const (
	narrowing = `    asm("" : "+v"(x));` // in narrow_f16
	division  = "DEVICE float divide(float a, float b) {"
	root      = "DEVICE float square_root(float x) {"
)

// mutants have faults that people, compilers or hardware have made on AMD's GPUs. Those whose
// kernels compile fast come first.
var mutants = []mutant{
	{"products narrowed at once lose the sign of zero", "gfx1100", "gelu.forward", num.F16, narrowing, "", "wide/R=1,C=1@6", ""},
	{"products are contracted with sums", "gfx1100", "adamw.step", num.F16, "// ---- exact ----", "#pragma clang fp contract(fast)", "step-10/R=3,C=261", ""},
	{"the last product of a row is lost", "gfx1100", "gemm.forward", num.F16, "(j < n ? pattern_of(at[j])", "(j + 1 < n ? pattern_of(at[j])", "normal-64-summed/M=5,K=37,N=7", ""},
	{"products narrowed at once lose the sign of zero", "gfx1100", "gelu.backward", num.F16, narrowing, "", "wide/R=1@2,C=1@6", ""},
	{"the upper half of a wave counts as the lower", "gfx942", "softmax.backward", num.F16, "__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u))", "__builtin_amdgcn_mbcnt_lo(~0u, 0u)", "normal/R=3,C=261", ""},
	{"products narrowed at once lose the sign of zero", "gfx1100", "softmax.backward", num.F16, narrowing, "", "cancellation/R=1,C=25", ""},
	{"products narrowed at once lose the sign of zero", "gfx942", "layernorm.backward", num.F16, narrowing, "", "zero-rstd/R=1,C=2", ""},
	{"products narrowed at once lose the sign of zero", "gfx942", "crossentropy", num.F16, narrowing, "", "no-scale/R=1,C=2", ""},
	{"f16 is rounded toward zero", "gfx1100", "softmax.backward", num.F16, narrowing, "    if (x == x) return __builtin_bit_cast(u32, __builtin_amdgcn_cvt_pkrtz(x, x)) & 0xffffu;", "normal/R=1,C=1", ""},
	{"the compiler divides", "gfx1100", "softmax.forward", num.F32, division, division + " return a / b; }\nDEVICE float unused(float a, float b) {", "special-pairs/R=1@6,C=2", ""},
	{"a product with the reciprocal", "gfx942", "layernorm.forward", num.F16, division, division + " return a * __builtin_amdgcn_rcpf(b); }\nDEVICE float unused(float a, float b) {", "normal/R=33,C=9", ""},
	{"a square root is not corrected", "gfx1100", "layernorm.forward", num.F16, root, root + " return __builtin_amdgcn_sqrtf(x); }\nDEVICE float unused(float x) {", "normal/R=33,C=9", ""},
	{"lanes are addressed by number instead of by byte", "gfx1100", "softmax.forward", num.F16, "__builtin_amdgcn_ds_bpermute(lane * 4,", "__builtin_amdgcn_ds_bpermute(lane,", "normal/R=3,C=261", ""},
	{"waves do not wait for each other", "gfx1100", "softmax.forward", num.F16, "        __builtin_amdgcn_s_barrier(); ", "        ", "normal/R=3,C=2500", ""},
	{"an element beyond the row is taken", "gfx942", "softmax.forward", num.F16, "(j < n ? ", "(j <= n ? ", "normal/R=3,C=261", ""},
	{"results lie one row too far", "gfx1100", "softmax.forward", num.F16, "p.y + row * p.y_stride", "p.y + (row + 1) * p.y_stride", "normal/R=3,C=261", "no memory is allocated there"},
	{"lanes of a sum are added from the end", "gfx1100", "layernorm.forward", num.F16, "return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));", "return ((((((s[7] + s[6]) + s[5]) + s[4]) + s[3]) + s[2]) + s[1]) + s[0];", "normal/R=33,C=9", ""},
}

// find returns an operation and its definition.
func find(t *testing.T, name string) (*op.Operation, *def.Definition) {
	t.Helper()
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if d.Name == name {
				return o, d
			}
		}
	}
	t.Fatalf("no definition %s", name)
	return nil, nil
}

// judged verifies the mutant, or without its fault the kernel itself.
func (m *mutant) judged(t *testing.T, isMutant bool) *evidence.Report {
	t.Helper()
	operation, definition := find(t, m.definition)
	planted := false
	plant := func(text string) string {
		changed := strings.ReplaceAll(text, m.from, m.to)
		planted = planted || changed != text
		return changed
	}
	open := func(string) (engine.Device, error) {
		table, err := amdemu.Table(m.architecture)
		if err != nil {
			return nil, err
		}
		compiled := table.Compile
		table.Compile = func(index int, s compile.Source) (*compile.Program, error) {
			if isMutant {
				s.Text = plant(s.Text)
				headers := s.Headers
				s.Headers = nil
				for _, h := range headers {
					s.Headers = append(s.Headers, compile.Header{Name: h.Name, Text: plant(h.Text)})
				}
			}
			return compiled(index, s)
		}
		dev, err := devicegpu.Open(table, 0, devicegpu.Options{})
		if err != nil {
			return nil, err
		}
		return New(dev), nil
	}
	target := &verify.Target{Operation: operation, Definition: definition, Lowering: Backend.Preferred(definition)[0], DType: m.dtype, Backend: Backend}
	o := verify.Options{Device: Kind + ":" + m.architecture, Open: open, Level: verify.Smoke, Seed: 1, Tool: "test", Version: "0"}
	if testlevel.Current() < testlevel.Exhaustive {
		o.Case = m.shownBy
	}
	r, err := verify.Run(t.Context(), target, o)
	if err != nil {
		t.Fatal(err)
	}
	if isMutant && !planted {
		t.Fatalf("no %q in the sources", m.from)
	}
	return r.Report
}

// TestMutants wants kernels with a fault rejected, all of them from level full on, one in 7 at quick. Below
// exhaustive, only a case that shows the fault is run, which the kernel without it must pass.
func TestMutants(t *testing.T) {
	gputest.NeedsClang(t)
	t.Setenv("TOKITAI_AMDEMU_SEED", "1")
	for i, m := range mutants {
		if !testlevel.InSample(i, testlevel.Pick(len(mutants), 7, 1)) {
			continue
		}
		t.Run(m.definition+" "+m.architecture+" "+m.fault, func(t *testing.T) {
			r, want := m.judged(t, true), evidence.Rejected
			if m.ends != "" {
				want = evidence.Inadmissible
			}
			if r.Verdict != want || !strings.Contains(r.Reason, m.ends) {
				t.Errorf("got %s, %s, want it %s, %s", r.Verdict, r.Reason, want, m.ends)
			}
			if testlevel.Current() == testlevel.Exhaustive {
				return
			}
			if r := m.judged(t, false); r.Verdict != evidence.Accepted {
				t.Errorf("without the fault: got %s, %s, want it accepted", r.Verdict, r.Reason)
			}
		})
	}
}
