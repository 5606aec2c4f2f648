package prove

import (
	"fmt"
	"strings"

	_ "embed"

	"tokitai/def"
)

// reciprocal holds the values of the template of a reciprocal.
type reciprocal struct {
	Name, Hash, Text, Nodes, Symbol string

	N         map[string]string // the names of nodes
	Argument  string            // of the Newton step: x, or x between bounds
	Low, High string            // bounds of the argument times the first guess
	Fraction  int64             // the guess is 253*2^23 + Fraction
	Least     string            // bounds of the cubic's relative error, below
	Most      string            // and above
	Ulps      string            // what is proved
	Subnormal string            // and for subnormal results
	IsScaled  bool              // x is scaled before and after
}

//go:embed recip.v.tmpl
var recipText string

var recipTemplate = lazily("recip", recipText)

// newtonPattern is the reciprocal of v; recipPattern scales its argument.
const (
	newtonPattern = `y = fma(g1, gap, g1)
gap = fma(minus, g1, 1)
minus = neg(v)
g1 = mul(g0, w)
w = fma(gu, gu, Rest)
gu = fma(v, g0, Shift)
g0 = float(difference)
difference = isub(Guess, pattern)
pattern = bits(v)`
	recipPattern = `result = select(close, scaled, special)
close = less(gap, 0.5)
scaled = mul(y, scale)
scale = select(below, 0x1p64, 0x1p-64)
below = less(magnitude, 1)
magnitude = abs(x)
v = mul(x, scale)
` + newtonPattern
)

func recipScript(f *def.Function, symbol string) (string, error) {
	e := expand(f)
	v := &reciprocal{Name: f.Name, Hash: Hash(f), Text: f.Text(), Symbol: symbol,
		Low: "0.95001292", High: "1.05126874", Least: "0.000032275", Most: "0.000032613", Ulps: "0.5185", Subnormal: "0.75925"}
	pattern := newtonPattern
	if e.out.Op == def.OpSelect {
		v.IsScaled, pattern = true, recipPattern
	}
	p, err := e.match(pattern)
	if err == nil && !v.IsScaled && p["v"].Op != def.OpArg {
		err = fmt.Errorf("%s is not the argument", e.coq(p["v"]))
	}
	if err != nil {
		return "", fmt.Errorf("function %s: its expansion is not that of the reciprocals: %w", f.Name, err)
	}
	v.N = p.names(e)
	v.Argument = "x"
	if v.IsScaled {
		v.Argument = "(" + v.N["v"] + " x)"
	}
	v.Fraction = int64(p["Guess"].Int) - 253<<23
	if v.Nodes, err = e.definitions(f.Name + "_f32"); err != nil {
		return "", fmt.Errorf("function %s: %w", f.Name, err)
	}
	var s strings.Builder
	err = recipTemplate().Execute(&s, v)
	return s.String(), err
}
