// Package claimed tests the errors that definitions claim for functions of their own, at arguments of every
// size, against the truth.
package claimed

import (
	"fmt"
	"math"
	"sync"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/truth"
)

// Claim is the error that a definition states for a function of its own. Functions of
// package fn have been compared with the truth over every argument; this one is tested here.
type Claim struct {
	f         *def.Function
	arguments int     // that were tried
	worst     float64 // largest error, in ulps
	at        float32 // where
	broken    bool    // worse than the claim, however the truth lies in its enclosure
}

func (c *Claim) String() string {
	s := fmt.Sprintf("function %s claims to be within %s of %s for %s", c.f.Name, c.f.Within(), c.f.Math, c.f.Domain)
	switch {
	case c.arguments == 0:
		return s + ": nothing was tried there"
	case c.broken:
		return s + fmt.Sprintf(", but is %.4g ulp off at x = %v", c.worst, c.at)
	}
	return s + fmt.Sprintf(": on %d arguments the worst was %.4g ulp, at x = %v; that is a test and not a proof", c.arguments, c.worst, c.at)
}

// tested holds the claims of functions by their text: each is tested once.
var tested sync.Map

// Of tests and returns the claims of a definition about its own functions.
func Of(d *def.Definition) []*Claim {
	var claims []*Claim
	for _, f := range d.Functions() {
		if fn.IsProven(f) {
			continue
		}
		text := f.Text()
		c, ok := tested.Load(text)
		if !ok {
			c, _ = tested.LoadOrStore(text, test(f))
		}
		claims = append(claims, c.(*Claim))
	}
	return claims
}

// Broken returns the first claim of a definition that does not hold, or "".
func Broken(d *def.Definition) string {
	for _, c := range Of(d) {
		if c.broken {
			return c.String()
		}
	}
	return ""
}

// test compares a function with the truth at arguments of its domain: its ends,
// numbers of every exponent, and patterns at random.
func test(f *def.Function) *Claim {
	c := &Claim{f: f}
	d, err := def.Rowwise("claim", func(b *def.Builder) {
		b.Out("y", f.Of(b.In("x", def.Only(num.F32))), def.Only(num.F32))
	})
	if err != nil {
		return c // cannot happen: d was built from the same function
	}
	x := claimArguments(f.Domain)
	operands := []num.Array{num.ArrayOf(num.F32, 1, len(x), x...), num.NewArray(num.F32, 1, len(x))}
	if len(x) == 0 || reference.Run(d, operands, reference.Options{}) != nil {
		return c
	}
	exact, err := truth.Enclose(d, operands, truth.Options{})
	if err != nil {
		return c
	}
	for i := range x {
		want := exact.At(1, 0, i)
		if !want.Known() {
			continue
		}
		c.arguments++
		unit := num.ULP(num.F32, want.Mid)
		off := math.Abs(beyondAsLimit(float64(operands[1].At(0, i))) - beyondAsLimit(want.Mid))
		if isNaN := off != off; isNaN {
			off = math.Inf(1)
		}
		if ulps := off / unit; ulps > c.worst {
			c.worst, c.at = ulps, x[i]
		}
		c.broken = c.broken || off-want.Rad > f.ULPs*unit+f.Absolute
	}
	return c
}

// beyondAsLimit clamps values beyond binary32 to ±2¹²⁸, as the bounds of package fn do.
func beyondAsLimit(v float64) float64 { return min(max(v, -0x1p128), 0x1p128) }

func claimArguments(domain def.Domain) []float32 {
	var x []float32
	add := func(v float32) {
		if v == v && !math.IsInf(float64(v), 0) && domain.Contains(float64(v), float64(v)) {
			x = append(x, v)
		}
	}
	g := gen.New("claim")
	for _, end := range []float64{domain.Low, domain.High, -domain.Low, -domain.High, 0} {
		v := float32(end)
		for _, v := range []float32{v, math.Nextafter32(v, 0), math.Nextafter32(v, float32(math.Inf(1))), math.Nextafter32(v, float32(math.Inf(-1)))} {
			add(v)
		}
	}
	for exponent := uint32(0); exponent < 255; exponent++ {
		for range 16 {
			bits := exponent<<23 | uint32(g.Next())&(1<<23-1)
			add(math.Float32frombits(bits))
			add(math.Float32frombits(bits | 1<<31))
		}
	}
	for range 1 << 14 { // where functions bend
		add(g.Exponents(-12, 8))
	}
	return x
}
