package prove

import (
	"fmt"
	"strings"

	_ "embed"

	"tokitai/def"
)

//go:embed short.v.tmpl
var shortText string

var shortTemplate = lazily("short", shortText)

// shortPattern leaves open which polynomial of r p is.
const shortPattern = `result = mul(p, s)
p = horner(r)
s = float(shifted)
shifted = shl(pattern, 23i)
pattern = bits(t)
t = add(xc, 12583039)
xc = max(x, -127)
r = sub(xc, n)
n = sub(t, 12583039)`

// shortClaims are the bounds that the script of a short exponential claims, as decimals: of the
// polynomial without roundings below zero, above zero and relatively; of its roundings in units
// of 2^-24, relatively; and of the function, in ulps and relatively.
type shortClaims struct {
	methodBelow, methodAbove, method, roundings string
	ulps, relative, relativeText                string
	symbol                                      string
}

func shortOf(c shortClaims) func(*def.Function) (string, error) {
	return func(f *def.Function) (string, error) {
		e := expand(f)
		p, err := e.match(shortPattern)
		if err != nil {
			return "", fmt.Errorf("function %s: its expansion is not that of the short exponentials: %w", f.Name, err)
		}
		h, err := hornerAt(p["p"])
		if err != nil {
			return "", fmt.Errorf("function %s: %w", f.Name, err)
		}
		nodes, err := e.definitions(f.Name + "_f32")
		if err != nil {
			return "", fmt.Errorf("function %s: %w", f.Name, err)
		}
		below, above := h.exponents(-0.5, 0), h.exponents(0, 0.5)
		var s strings.Builder
		err = shortTemplate().Execute(&s, map[string]any{"Name": f.Name, "Hash": Hash(f), "Text": f.Text(), "Symbol": c.symbol, "Nodes": nodes, "N": p.names(e),
			"Exact": h.exact(), "Unfold": h.unfold(e), "Errors": errorsOf(len(h.nodes)), "Magic": "12583039",
			"Below": roundings(below), "Above": roundings(above), "AboveButLast": roundings(above[:len(above)-1]),
			"MethodBelow": c.methodBelow, "MethodAbove": c.methodAbove, "Method": c.method, "Roundings": c.roundings,
			"Ulps": c.ulps, "Relative": c.relative, "RelativeText": c.relativeText})
		return s.String(), err
	}
}
