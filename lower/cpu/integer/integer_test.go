package integer_test

import (
	"fmt"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/cputest"
	"tokitai/lower/cpu/integer"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial/randdef"
)

// forms are all forms of a product of i8: each operand as it is or transposed, without scales and
// with them.
var forms = append(
	cputest.Transposes("bytes", def.ContractionForm{Factors: def.Only(num.I8), Ring: int32s}),
	cputest.Transposes("bytes.scaled", def.ContractionForm{Factors: def.Only(num.I8), Ring: int32s, Scales: def.Scales{Row: "rows", Col: "cols"}})...)

var int32s = def.Ring{P: 2, K: 32}

func dtypes(d *def.Definition, result num.DType) []num.DType {
	if !d.HasScales() {
		return []num.DType{num.I8, num.I8, num.I32}
	}
	return []num.DType{num.I8, num.I8, result, num.F32, num.F32}
}

// ways are the ways of this processor; without any, the test is skipped.
func ways(t testing.TB) []integer.Way {
	t.Helper()
	list := integer.Ways()
	if len(list) == 0 {
		t.Skip("no code is generated for bytes here: ", machine.Available())
	}
	return list
}

// execute runs a program with a few workers.
func execute(p lowercpu.Program, c *randdef.Case, g *gen.Generator) {
	cputest.Execute(p, cputest.CallOf(c), 1+g.Below(3), g)
}

// compare holds every way against the reference.
func compare(t *testing.T, c *randdef.Case, g *gen.Generator, most int) {
	t.Helper()
	want := c.Clone()
	if err := reference.Run(want.Definition, want.Operands, reference.Options{}); err != nil {
		t.Fatal(err)
	}
	formats := cputest.DTypesOf(c.Operands)
	for _, way := range ways(t) {
		p, err := integer.CompileWay(c.Definition, formats, way, most)
		if err != nil {
			t.Fatal(err)
		}
		got := c.Clone()
		execute(p, got, g)
		if text := randdef.Diff(got, want); text != "" {
			t.Fatalf("%s, left [%d %d]: %s\n%s", way, c.Operands[0].Rows, c.Operands[0].Cols, text, c.Definition.Text())
		}
	}
}

// extremes replaces the bytes of a case by the ends of their range.
func extremes(c *randdef.Case, g *gen.Generator) {
	values := []byte{0x80, 0x7f, 0x80, 0xff, 0, 1}[:2+g.Below(5)]
	for i := range c.Operands[:2] {
		a := &c.Operands[i]
		for r := range a.Rows {
			for k := range a.Cols {
				a.Data[r*a.Stride+k] = values[g.Below(len(values))]
			}
		}
	}
}

// TestSmall covers every form, strided operands, and lengths around words, register blocks and strips.
func TestSmall(t *testing.T) {
	g := gen.New("small bytes")
	for _, d := range forms {
		for n := range testlevel.Pick(40, 400) {
			c := randdef.NewCase(g, d, dtypes(d, num.FloatDTypes[g.Below(3)]), map[string]int{"M": 1 + g.Below(15), "N": 1 + g.Below(80), "K": 1 + n%20})
			if g.Below(2) == 0 {
				extremes(c, g)
			}
			compare(t, c, g, 0)
		}
	}
}

// TestLarge has several tiles, blocks of the summed index, and regions.
func TestLarge(t *testing.T) {
	g := gen.New("large bytes")
	for _, d := range forms {
		for range testlevel.Pick(1, 6) {
			c := randdef.NewCase(g, d, dtypes(d, num.F32), map[string]int{"M": 90 + g.Below(20), "N": 250 + g.Below(20), "K": 505 + g.Below(20)})
			extremes(c, g)
			compare(t, c, g, 1+g.Below(2)*(1<<30))
		}
	}
}

// TestWraps: 2^17 products of (-128)² are 2^31, which is -2^31 as an int32.
func TestWraps(t *testing.T) {
	for _, way := range ways(t) {
		d := forms[2] // right transposed
		for _, k := range []int{1<<17 - 1, 1 << 17, 1<<17 + 1, 1<<18 + 3} {
			operands := []num.Array{num.NewArray(num.I8, 1, k), num.NewArray(num.I8, 1, k), num.NewArray(num.I32, 1, 1)}
			for i := range k {
				operands[0].Data[i], operands[1].Data[i] = 0x80, 0x80
			}
			p, err := integer.CompileWay(d, dtypes(d, num.I32), way, 0)
			if err != nil {
				t.Fatal(err)
			}
			execute(p, &randdef.Case{Definition: d, Operands: operands}, gen.New("wraps"))
			if got, want := operands[2].Int(0, 0), int32(uint32(k)<<14); got != want {
				t.Errorf("%s: %d products of (-128)²: got %d, want %d", way, k, got, want)
			}
		}
	}
}

// TestRefused: other products, and other processors.
func TestRefused(t *testing.T) {
	d := forms[0]
	for want, refused := range map[string]struct {
		dtypes []num.DType
		set    machine.Set
	}{
		"want a product of i8 in Z/2^32":                     {[]num.DType{num.I64, num.I64, num.I64}, machine.AVX512},
		"no code is generated for neon, want avx2 or avx512": {dtypes(d, num.I32), machine.NEON},
	} {
		if _, err := integer.Compile(d, refused.dtypes, refused.set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", refused, err, want)
		}
	}
}

// BenchmarkProducts measures products per second on one core, by generated code and by the plain
// lowering, and copies of the same operands.
func BenchmarkProducts(b *testing.B) {
	d := forms[2]
	for _, n := range []int{64, 256, 1024} {
		operands := []num.Array{num.NewArray(num.I8, n, n), num.NewArray(num.I8, n, n), num.NewArray(num.I32, n, n)}
		g := gen.New("products")
		for _, a := range operands[:2] {
			for i := range a.Data {
				a.Data[i] = byte(g.Below(256))
			}
		}
		bench := func(name string, do func()) {
			b.Run(fmt.Sprintf("N=%d/%s", n, name), func(b *testing.B) {
				for b.Loop() {
					do()
				}
				b.ReportMetric(float64(n)*float64(n)*float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gproducts/s")
			})
		}
		run := func(p lowercpu.Program, err error) func() {
			if err != nil {
				b.Fatal(err)
			}
			return func() { execute(p, &randdef.Case{Definition: d, Operands: operands}, g) }
		}
		for _, way := range integer.Ways() {
			bench(way.String(), run(integer.CompileWay(d, dtypes(d, num.I32), way, 0)))
		}
		bench("plain", run(lowercpu.Compile(d, dtypes(d, num.I32), lowercpu.Short)))
		from, to := make([]byte, 6*n*n), make([]byte, 6*n*n)
		bench("copy", func() { copy(to, from) })
	}
}
