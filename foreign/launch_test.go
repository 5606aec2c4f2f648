package foreign

import (
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/op/all"
)

func launchDefinition() *def.Definition { return operationDefinition("layernorm.forward") }

func operationDefinition(name string) *def.Definition {
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if d.Name == name {
				return d
			}
		}
	}
	panic("no definition " + name)
}

// TestLaunchErrors: errors name the column and what could be meant.
func TestLaunchErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "column 1: the launch has no grid"},
		{"grid=R block=64", "column 1: the launch has no args"},
		{"grid=R blok=64 args=x", "column 8: unknown clause blok (did you mean block?)"},
		{"grid=R grid=R block=64 args=x", "column 8: grid is given twice"},
		{"grid=1,2,3,4 block=64 args=x", "column 11: grid has more than three dimensions"},
		{"grid=Q block=64 args=x", "column 6: unknown name Q"},
		{"grid=x block=64 args=x", "column 6: x is an operand and has no value here"},
		{"grid=(R block=64 args=x", `column 9: got "block", want ")" to close the parenthesis`},
		{"grid=ceil(C) block=64 args=x", "column 11: ceil takes a quotient"},
		{"grid=foo(C) block=64 args=x", "column 6: unknown function foo"},
		{"grid=nextpow2(C,2) block=64 args=x", "nextpow2 got 2 arguments, want 1"},
		{"grid=R block=64 args=gama", "column 22: unknown name gama (did you mean gamma?)"},
		{"grid=R block=64 args=x:i32", "column 23: x is a pointer and takes no type"},
		{"grid=R block=64 args=C:int", "column 24: unknown type \"int\""},
		{"grid=R block=64 args=1.5:i32", "1.5 is no integer"},
		{"grid=R block=64 args=x.rows", "want x.stride"},
		{"grid=R block=64 args=x.stride.Q", "x has no axis Q; its axes are R, C"},
		{"grid=R block=64 args=x scratch=tmp", "column 32: got \"tmp\", want a name and a number of bytes"},
		{"grid=R block=64 args=x scratch=x:4", "column 32: x is an operand; choose another name"},
		{"grid=R block=64 args=x align=3", "column 30: got \"3\", want a power of two"},
		{"grid=R block=64 args=x when=C", "want a comparison"},
		{"grid=R block=64 args=x ! y", "column 24: unexpected '!'"},
		{"grid=R block=64 extra args=x", "got \"extra\", want a clause"},
		{"grid=99999999999999999999 block=64 args=x", "want an integer"},
		{"grid=" + strings.Repeat("(", 200) + " block=1 args=x", "nested more than"},
		{"grid=R block=64 args=x; grid=R", "the launch has no block"},
	} {
		_, err := parseLaunch(c.text, launchDefinition())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.text, err, c.want)
		}
	}
}

// TestLaunchValues: expressions have their values.
func TestLaunchValues(t *testing.T) {
	e := &environment{
		size:    func(letter string) int64 { return map[string]int64{"R": 5, "C": 1000}[letter] },
		param:   func(int) float64 { return 3 },
		stride:  func(int, string) int64 { return 1024 },
		element: func(int) int64 { return 2 },
	}
	for text, want := range map[string]int64{
		"R": 5, "ceil(C/256)": 4, "ceil(C/250)": 4, "C/256": 3, "C%256": 232, "R*C+1": 5001, "R*(C+1)": 5005, "2-3-4": -5, "-R+C": 995,
		"min(R,C,3)": 3, "max(R,C)": 1000, "nextpow2(C)": 1024, "nextpow2(1)": 1, "nextpow2(1024)": 1024, "sizeof(T)*C": 2000, "sizeof(x)": 2,
		"x.stride": 1024, "x.stride.C": 1024, "eps": 3, "0x10": 16, "ceil((0-7)/2)": -3,
	} {
		p, err := parseLaunch("grid="+text+" block=1 args=", launchDefinition())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := p.launches[0].grid[0].value(e); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{"C/(R-5)": "division by zero", "0x7fffffffffffffff*C": "exceeds 64 bits", "0x7fffffffffffffff+1": "exceeds 64 bits", "-2-0x7fffffffffffffff": "exceeds 64 bits"} {
		p, err := parseLaunch("grid="+text+" block=1 args=", launchDefinition())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if _, err := p.launches[0].grid[0].value(e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestLaunchArguments: arguments have the types that are written or usual.
func TestLaunchArguments(t *testing.T) {
	p, err := parseLaunch("scratch=tmp:4*R,more:(C+1)*8 grid=R,2 block=32 args=x, tmp, null, C, C:i64, eps, eps:f64, -1.5, 2e3:f64, R*C+1:u32, x.stride:i64; entry=second<T, 4> grid=1 block=1 args=more", launchDefinition())
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, a := range p.launches[0].arguments {
		kinds = append(kinds, a.text+" "+a.kind.String())
	}
	want := "x pointer, tmp pointer, null pointer, C i32, C i64, eps f32, eps f64, -1.5 f32, 2e3 f64, R*C+1 u32, x.stride i64"
	if got := strings.Join(kinds, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if p.launches[1].entry != "second<T, 4>" || len(p.scratch) != 2 || p.scratch[1].bytes == nil || !p.usesStride[0] {
		t.Errorf("got entry %q, scratch %v, strides %v", p.launches[1].entry, p.scratch, p.usesStride)
	}
}

// TestGivesNoOtherInteger: a number that does not fit its type is an error.
func TestGivesNoOtherInteger(t *testing.T) {
	for _, c := range []struct {
		kind argumentKind
		v    int64
		ok   bool
	}{{i32Argument, 1<<31 - 1, true}, {i32Argument, 1 << 31, false}, {i32Argument, -1 << 31, true}, {u32Argument, 1 << 31, true}, {u32Argument, -1, false},
		{u64Argument, -1, false}, {i64Argument, -1 << 62, true}, {f32Argument, -5, true}} {
		if _, err := c.kind.ofInt(c.v); (err == nil) != c.ok {
			t.Errorf("%d as %s: got %v", c.v, c.kind, err)
		}
	}
}

// TestForSimulator: dynamic shared memory becomes a pointer, and lines stay where they are.
func TestForSimulator(t *testing.T) {
	for text, want := range map[string]string{
		"extern __shared__ float s[];":                       "float* const s = reinterpret_cast<float*>(tokitai_dynamic_shared);",
		"extern __shared__ __align__(16) unsigned char s[];": "unsigned char* const s = reinterpret_cast<unsigned char*>(tokitai_dynamic_shared);",
		"extern\n__shared__ float4 s [ ];":                   "float4* const s = reinterpret_cast<float4*>(tokitai_dynamic_shared);\n",
		"// extern __shared__ float s[];":                    "// extern __shared__ float s[];",
		"extern int f(); __shared__ float s[3];":             "extern int f(); __shared__ float s[3];",
	} {
		if got := forSimulator(text); got != want {
			t.Errorf("%q:\ngot  %q\nwant %q", text, got, want)
		}
	}
}

func FuzzLaunch(f *testing.F) {
	for _, text := range []string{"grid=R block=256 args=x,y,C", "grid=ceil(C/256),R block=32,4 shared=4*C scratch=t:4*R args=x,t,C:i64,eps,1.5 align=16 when=C<=1024,C%4==0",
		"entry=a<T> grid=R block=1 args=; entry=b grid=nextpow2(C) block=min(C,256) args=null"} {
		f.Add(text)
	}
	definitions := []*def.Definition{launchDefinition(), operationDefinition("gemm.forward")}
	e := &environment{size: func(string) int64 { return 7 }, param: func(int) float64 { return 0.5 }, stride: func(int, string) int64 { return 9 }, element: func(int) int64 { return 2 }}
	f.Fuzz(func(t *testing.T, text string) {
		for _, d := range definitions {
			p, err := parseLaunch(text, d)
			if err != nil {
				if failure, ok := err.(*LaunchError); !ok || failure.Column < 1 || failure.Column > len(text)+1 {
					t.Fatalf("%q: got %v, want a LaunchError with a column of the text", text, err)
				}
				continue
			}
			for _, l := range p.launches {
				for _, x := range append(append([]expression{}, l.grid...), l.block...) {
					x.value(e) // must not panic
				}
			}
			for _, s := range p.scratch {
				if s.bytes == nil {
					t.Fatalf("%q: scratch buffer %s has no size", text, s.name)
				}
			}
		}
	})
}
