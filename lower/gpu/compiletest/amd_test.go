package compiletest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/compile/folds"
	"tokitai/device/gpu/gputest"
	"tokitai/internal/testlevel"
	"tokitai/lower/gpu"
	"tokitai/num"
)

// marks make the fused multiply-adds, reciprocals and square roots of the source asm
// statements, so that they can be told from those that the compiler makes.
var marks = strings.NewReplacer(
	"{ return __builtin_fmaf(a, b, c); }", `{
    float d;
    asm("v_fma_f32 %0, %1, %2, %3" : "=v"(d) : "v"(a), "v"(b), "v"(c));
    return d;
}

DEVICE float marked_reciprocal(float x) {
    float r;
    asm("v_rcp_f32 %0, %1" : "=v"(r) : "v"(x));
    return r;
}

DEVICE float marked_root(float x) {
    float r;
    asm("v_sqrt_f32 %0, %1" : "=v"(r) : "v"(x));
    return r;
}`,
	"float r = __builtin_amdgcn_rcpf(n)", "float r = marked_reciprocal(n)",
	"float s = __builtin_amdgcn_sqrtf(a)", "float s = marked_root(a)",
)

// withMarks returns a source with a marked prelude.
func withMarks(t testing.TB, s compile.Source) compile.Source {
	t.Helper()
	prelude := marks.Replace(s.Headers[0].Text)
	if strings.Count(prelude, "asm(\"v_") != strings.Count(s.Headers[0].Text, "asm(\"v_")+6 || !strings.Contains(prelude, "= marked_reciprocal(n)") || !strings.Contains(prelude, "= marked_root(a)") {
		t.Fatal("the prelude's arithmetic is not where the marks replace it")
	}
	s.Headers = append([]compile.Header{{Name: s.Headers[0].Name, Text: prelude}}, s.Headers[1:]...)
	return s
}

var fusedNames = regexp.MustCompile(`^v_(pk_)?(fma|fmac|fmaak|fmamk|fma_mix)_f32$`)

// unmarked returns what the compiler approximates or fuses on its own in marked assembly,
// kernel by kernel. It divides integers of 64 bits by a reciprocal and two fused
// multiply-adds, integers of 32 bits by v_rcp_iflag_f32, and makes int64 of binary64 by a
// floor and one fused multiply-add.
func unmarked(assembly string) (found []string) {
	type counts struct{ fused, reciprocals, roots, fused64, floors64 int }
	var names []string
	kernels := map[string]*counts{}
	for i := range folds.Instructions(assembly) {
		c := kernels[i.Kernel]
		if c == nil {
			c = &counts{}
			kernels[i.Kernel] = c
			names = append(names, i.Kernel)
		}
		switch {
		case i.IsAsm:
		case fusedNames.MatchString(i.Name):
			c.fused++
		case i.Name == "v_rcp_f32":
			c.reciprocals++
		case i.Name == "v_sqrt_f32":
			c.roots++
		case i.Name == "v_fma_f64" || i.Name == "v_fmac_f64":
			c.fused64++
		case i.Name == "v_floor_f64":
			c.floors64++
		}
	}
	for _, name := range names {
		c := kernels[name]
		for _, x := range []struct {
			what      string
			got, want int
		}{
			{"fused multiply-adds", c.fused, 2 * c.reciprocals},
			{"square roots", c.roots, 0},
			{"fused multiply-adds in binary64", c.fused64, c.floors64},
		} {
			if x.got != x.want {
				found = append(found, fmt.Sprintf("%s: besides those of the source got %d %s, want %d for %d reciprocals and %d floors", name, x.got, x.what, x.want, c.reciprocals, c.floors64))
			}
		}
	}
	return found
}

// wrongArithmetic returns what in a source's code for an AMD architecture computes something else
// than the source: in the assembly of the source itself, and in that of the marked one.
func wrongArithmetic(t testing.TB, c *compile.Clang, architecture string, s compile.Source) (found []string) {
	t.Helper()
	assemble := func(s compile.Source) string {
		p, err := c.Assemble(architecture, s)
		if err != nil {
			t.Fatal(err)
		}
		return string(p.Image)
	}
	for _, f := range folds.Find(assemble(s)) {
		found = append(found, f.String())
	}
	return append(found, unmarked(assemble(withMarks(t, s)))...)
}

var amdArchitectures = []string{"gfx1101", "gfx942"}

// TestAMDArithmetic searches the code of kernels. Level full searches the first choice of
// formats of every definition, quick some of them, and exhaustive searches all sources.
func TestAMDArithmetic(t *testing.T) {
	c := gputest.NeedsClang(t)
	list := append(programs(t), programsOf(t, columns)...)
	for n, architecture := range amdArchitectures {
		t.Run(architecture, func(t *testing.T) {
			t.Parallel()
			first := 0
			for i := range list {
				p := &list[i]
				if p.isFirst {
					first++
				}
				if every := testlevel.Pick(32, 16, 1); p.isFirst && testlevel.InSample(first+n*every/2, every) || testlevel.Current() >= testlevel.Exhaustive {
					t.Run(p.String(), func(t *testing.T) {
						t.Parallel()
						for _, found := range wrongArithmetic(t, c, architecture, p.text()) {
							t.Error(found)
						}
					})
				}
			}
		})
	}
}

// everything has one of each operation whose code can go wrong, in f16.
var everything = def.Must(def.Rowwise("everything", func(b *def.Builder) {
	f16 := def.Only(num.F16)
	x, y, z := b.In("x", f16), b.In("y", f16), b.In("z", f16)
	product := x.Mul(y)
	b.Out("product", product, f16)
	b.Out("sum", product.Add(z), def.Only(num.F32))
	b.Out("fused", def.FMA(x, y, z), f16)
	b.Out("quotient", x.Div(y).Sqrt(), def.Only(num.F32))
	b.Out("clamped", def.Select(x.Less(def.Const(1)), def.Const(1), x).Max(z), f16)
}))

// TestPlantedAMDArithmetic plants faults in the prelude for which clang makes the code that
// the searches are for, and wants each found. The source itself is right. Level full compiles
// each for all architectures.
func TestPlantedAMDArithmetic(t *testing.T) {
	c := gputest.NeedsClang(t)
	const (
		narrow = `    asm("" : "+v"(x));
    return __builtin_bit_cast(u16, (_Float16)x);`
		divide = "DEVICE float divide(float a, float b) {\n    float m"
		root   = "DEVICE float square_root(float x) {\n    bool"
		limit  = "DEVICE float at_least(float x, float limit) { return x < limit ? limit : x; }"
		end    = "// ---- exact ----"
	)
	returns := func(function, expression string) string {
		head, _, _ := strings.Cut(function, "{")
		body := strings.TrimPrefix(function, head+"{")
		return head + "{ " + expression + " }\n" + strings.Replace(head, "float ", "float unused_", 1) + "{" + body
	}
	contract := "#pragma clang fp contract(fast)\n"
	for n, x := range []struct{ name, from, to, want string }{
		{"nothing", "", "", ""},
		{"products narrowed at once", narrow, "    return __builtin_bit_cast(u16, (_Float16)x);", "−0 becomes +0"},
		{"contraction", end, contract + end, "fused multiply-adds, want 0"},
		{"the compiler's division", divide, returns(divide, "return a / b;"), "approximates a reciprocal"},
		{"a product with the reciprocal", divide, returns(divide, "return a * __builtin_amdgcn_rcpf(b);"), "fused multiply-adds, want 48 for 24 reciprocals"},
		{"a bare square root", root, returns(root, "return __builtin_amdgcn_sqrtf(x);"), "24 square roots, want 0"},
		{"the reciprocal of a square root", root, returns(root, "return x * __builtin_amdgcn_rsqf(x);"), "approximation"},
		{"powers of two", root, returns(root, "return __builtin_amdgcn_exp2f(0.5f * __builtin_amdgcn_logf(x));"), "approximation"},
		{"a maximum without NaN", limit, returns(limit, "return __builtin_fmaxf(x, limit);"), "the number"},
		{"a median", limit, returns(limit, "return __builtin_amdgcn_fmed3f(x, limit, 0x1p20f);"), "the number"},
		{"a maximum of a minimum", limit, returns(limit, "return __builtin_fmaxf(__builtin_fminf(x, divide(x, limit)), limit);"), "the number"},
		{"rounding toward zero", narrow, "    return __builtin_bit_cast(u32, __builtin_amdgcn_cvt_pkrtz(x, x)) & 0xffffu;", "round to nearest"},
		{"fused in f16", narrow, "    asm(\"\" : \"+v\"(x));\n    return __builtin_bit_cast(u16, __builtin_fmaf16((_Float16)x, (_Float16)x, (_Float16)x));", "binary16 at once"},
		{"a changed mode", root, returns(root, "__builtin_amdgcn_s_setreg(2049, 15); return x;"), "how it rounds"},
		{"the fraction", root, returns(root, "return __builtin_amdgcn_fractf(x);"), "below 1"},
	} {
		if testlevel.Current() < testlevel.Quick && n > 1 {
			break
		}
		for i, architecture := range amdArchitectures {
			if testlevel.Current() < testlevel.Full && n%2 != i {
				continue // it takes two compilations
			}
			t.Run(x.name+"/"+architecture, func(t *testing.T) {
				t.Parallel()
				s := complete(everything.Name, sourceOf(t, everything))
				planted := strings.Replace(s.Headers[0].Text, x.from, x.to, 1)
				if x.name != "nothing" && planted == gpu.Prelude {
					t.Fatalf("no %q in the prelude", x.from)
				}
				s.Headers[0].Text = planted
				found := strings.Join(wrongArithmetic(t, c, architecture, s), "\n")
				if (found == "") != (x.want == "") || !strings.Contains(found, x.want) {
					t.Errorf("found %q, want %q", found, x.want)
				}
			})
		}
	}
}

// TestAMDCodeObjects searches compiled code itself, as devices do before they load it.
func TestAMDCodeObjects(t *testing.T) {
	c := gputest.NeedsClang(t)
	for _, architecture := range amdArchitectures {
		s := complete(rounded.Name, sourceOf(t, rounded))
		s.Text = strings.Replace(s.Text, "KERNEL(", "KERNEL(narrowed, 256)(u16* h, const float* x) { h[0] = (u16)narrow_f16(x[0] * x[1]); }\nKERNEL(", 1)
		compiled := func() []byte {
			p, err := c.Compile(architecture, s)
			if err != nil {
				t.Fatal(err)
			}
			return p.Image
		}
		if err := folds.Check(compiled(), architecture); err != nil {
			t.Error(err)
		}
		s.Headers[0].Text = strings.Replace(s.Headers[0].Text, `asm("" : "+v"(x));`, "", 1)
		planted := compiled()
		if err := folds.Check(planted, architecture+":sramecc+"); err == nil || !strings.Contains(err.Error(), "in kernel narrowed: v_fma_mixlo_f16 ") {
			t.Errorf("%s: got %v, want the fold named", architecture, err)
		}
		for _, x := range []struct {
			image        []byte
			architecture string
		}{{planted, "gfx90a"}, {planted[:100], architecture}} {
			if _, err := folds.FindInObject(x.image, x.architecture); err == nil {
				t.Errorf("%s: %d bytes are code for %s, got no error", architecture, len(x.image), x.architecture)
			}
			if err := folds.Check(x.image, x.architecture); err != nil {
				t.Errorf("%s: code that cannot be read is searched: %v", architecture, err)
			}
		}
		if err := folds.Check(planted, "gfx1201"); err != nil {
			t.Errorf("%s: code that cannot be decoded is searched: %v", architecture, err)
		}
	}
}
