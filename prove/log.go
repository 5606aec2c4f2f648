package prove

import (
	"fmt"
	"math"
	"strings"

	_ "embed"

	"tokitai/def"
)

// logarithm holds the values of the template of a logarithm.
type logarithm struct {
	Name, Hash, Text, Nodes, Symbol string

	N                  map[string]string // the names of nodes
	Exact, Unfold      string            // the polynomial
	Errors             string
	LastError          int   // the number of the error that comes after those of the polynomial
	Fraction           int64 // the pattern at which significands begin is 126*2^23 + Fraction
	ShortUnits         int64 // the short part of ln 2, in units of 2^-15
	Parts              string
	Low, High          string // bounds of f
	Method             string // bound of the polynomial's relative error
	Ulps, Before       string // what is proved, and the error before the last rounding
	Pieces             []logPiece
	SmallLow           string // bounds of f where the error is relative
	SmallHigh          string
	Chain              string // tactics for the roundings there
	ChainError, Factor string // of the polynomial there, and of f times that of the product

	// These are used for the binary logarithm only.
	Slack       string // of the sum in two parts
	BeforeSmall string // as Before, near 1
	Slope       string // |f| is at most this times the logarithm near 1
}

// logPiece is a range of f in which the error is at most Before in units of 2^Binade-23.
type logPiece struct {
	Name, Low, High string
	Binade          int // |log| is at least 2^Binade there
	Unit            string
	Square, Last    int    // f^2 and the last FMA are at most 2^Square and 2^Last
	Log             string // bound of |log|
	Chain           string
}

//go:embed log.v.tmpl
var logText string

var logTemplate = lazily("log", logText)

const logPattern = `result = select(finite, positive, x)
finite = less(x, +Inf)
positive = select(above, y, atmost)
above = less(0, x)
y = add(hi, z)
z = fma(square, q, rest)
square = mul(f, f)
q = horner(f)
rest = fma(kf, Rest, lo)
lo = add(back, f)
back = sub(a, hi)
hi = add(a, f)
a = mul(kf, Short)
` + logReduction

// logReduction is x = (1 + f)*2^k.
const logReduction = `kf = itof(ki)
ki = iadd(k, shift)
shift = select(small, -23i, 0i)
f = sub(significand, 1)
significand = float(unshifted)
unshifted = isub(pattern, shifted)
shifted = shl(k, 23i)
k = shr(offset, 23i)
offset = isub(pattern, Root)
pattern = bits(xn)
xn = select(small, up, x)
up = mul(x, 8.388608e+06)
small = less(x, 0x1p-126)`

func logScript(f *def.Function, symbol string) (string, error) {
	v := &logarithm{Symbol: symbol,
		Low: "(-0.2929)", High: "0.41422", Parts: "0.000000000000055", Method: "0.0000000041907",
		Ulps: "0.925", Before: "0.425",
		Pieces: []logPiece{
			{Name: "a", Low: "(-0.2929)", High: "(-0.2213)", Binade: -2, Last: -4, Log: "0.3467"},
			{Name: "b", Low: "(-0.2213)", High: "(-0.1176)", Binade: -3, Last: -5, Log: "0.2502"},
			{Name: "c", Low: "0.1332", High: "0.2841", Binade: -3, Last: -4, Log: "0.2501"},
			{Name: "d", Low: "0.2841", High: "0.41422", Binade: -2, Last: -3, Log: "0.3467"},
			{Name: "e", Low: "(-0.1176)", High: "0.1332", Binade: -2, Last: -5, Log: "0.1252"},
		},
		SmallLow: "(-0.1176)", SmallHigh: "0.1332", ChainError: "0.000000036", Factor: "0.000000017",
	}
	p, err := v.fill(f, logPattern)
	if err != nil {
		return "", err
	}
	short := math.Ldexp(float64(p["Short"].Real.F32()), 15)
	if v.ShortUnits = int64(short); float64(v.ShortUnits) != short {
		return "", fmt.Errorf("function %s: the short part of ln 2 has more than 15 bits after the point", f.Name)
	}
	var s strings.Builder
	err = logTemplate().Execute(&s, v)
	return s.String(), err
}

//go:embed log2.v.tmpl
var log2Text string

var log2Template = lazily("log2", log2Text)

// log2Pattern is logPattern with k + f*log2(e) in place of k*ln 2 + f.
const log2Pattern = `result = select(finite, positive, x)
finite = less(x, +Inf)
positive = select(above, y, atmost)
above = less(0, x)
y = add(hi, z)
z = fma(square, q, low)
square = mul(f, f)
q = horner(f)
low = add(lo, rest)
lo = add(back, g)
back = sub(kf, hi)
hi = add(kf, g)
rest = fma(f, Low, product)
product = fma(f, High, minus)
minus = neg(g)
g = mul(f, High)
` + logReduction

func log2Script(f *def.Function, symbol string) (string, error) {
	v := &logarithm{Symbol: symbol,
		Low: "(-0.2929)", High: "0.41422", Method: "0.0000000046178",
		Ulps: "1.08", Before: "0.579", Slack: "0.001", BeforeSmall: "0.45",
		Pieces: []logPiece{
			{Name: "a", Low: "(-0.2929)", High: "(-0.1592)", Binade: -2, Last: -3, Log: "0.5001"},
			{Name: "b", Low: "(-0.1592)", High: "(-0.0830)", Binade: -3, Last: -5, Log: "0.2502"},
			{Name: "c", Low: "0.0906", High: "0.1893", Binade: -3, Last: -5, Log: "0.2502"},
			{Name: "d", Low: "0.1893", High: "0.41422", Binade: -2, Last: -3, Log: "0.5001"},
			{Name: "e", Low: "(-0.0830)", High: "0.0906", Binade: -2, Last: -6, Log: "0.1252"},
		},
		SmallLow: "(-0.0830)", SmallHigh: "0.0906", ChainError: "0.000000036", Factor: "0.0000000118", Slope: "0.7634",
	}
	if _, err := v.fill(f, log2Pattern); err != nil {
		return "", err
	}
	var s strings.Builder
	err := log2Template().Execute(&s, v)
	return s.String(), err
}

// fill sets what comes from the nodes of the function, which has the form of the pattern.
func (v *logarithm) fill(f *def.Function, pattern string) (parts, error) {
	e := expand(f)
	p, err := e.match(pattern)
	if err != nil {
		return nil, fmt.Errorf("function %s: its expansion is not that of the logarithms: %w", f.Name, err)
	}
	v.Name, v.Hash, v.Text, v.N = f.Name, Hash(f), f.Text(), p.names(e)
	h, err := hornerAt(p["q"])
	if err != nil {
		return nil, err
	}
	v.Exact, v.Unfold, v.Errors, v.LastError = h.exact(), h.unfold(e), errorsOf(len(h.nodes)), len(h.nodes)-1
	v.Fraction = int64(p["Root"].Int) - 126<<23
	for i := range v.Pieces {
		piece := &v.Pieces[i]
		var low, high float64
		if _, err := fmt.Sscan(strings.Trim(piece.Low, "()")+" "+strings.Trim(piece.High, "()"), &low, &high); err != nil {
			return nil, err
		}
		piece.Unit = power(piece.Binade - 23)
		piece.Square = exponentOf(max(low*low, high*high))
		piece.Chain = roundings(h.exponents(low, high))
		if piece.Low == v.SmallLow {
			v.Chain = piece.Chain
		}
	}
	if v.Nodes, err = e.definitions(f.Name + "_f32"); err != nil {
		return nil, fmt.Errorf("function %s: %w", f.Name, err)
	}
	return p, nil
}
