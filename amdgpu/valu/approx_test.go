package valu

import (
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tokitai/internal/testlevel"
	"tokitai/num/ball"
)

// isApproximation reports whether an instruction's result is documented only within an error.
func isApproximation(name string) bool { return functionOf(name) != "" }

// functionOf returns the function that an instruction approximates: "rcp".
func functionOf(name string) string {
	for _, f := range []string{"rcp", "rsq", "sqrt", "exp", "log", "sin", "cos"} {
		if strings.HasPrefix(name, "v_"+f+"_") {
			return f
		}
	}
	return ""
}

// exactFunction encloses the function's value of a number in more bits than any format has.
func exactFunction(function string, x *big.Rat) (ball.Big, bool) {
	v := ball.NewBig(0, 200).FromRat(x)
	one := ball.NewBig(1, 200)
	switch function {
	case "rcp":
		return one.Div(v), x.Sign() != 0
	case "rsq":
		return one.Div(v.Sqrt()), x.Sign() > 0
	case "sqrt":
		return v.Sqrt(), x.Sign() >= 0
	case "exp":
		return v.Exp2(), true
	case "log":
		return v.Log2(), x.Sign() > 0
	}
	turn := v.Mul(v.Pi()).Mul(ball.NewBig(2, 200))
	if new(big.Rat).Abs(x).Cmp(big.NewRat(256, 1)) > 0 {
		turn = ball.NewBig(0, 200)
	}
	if function == "sin" {
		return turn.Sin(), true
	}
	return turn.Cos(), true
}

// specialCase returns the pattern that an instruction gives where the function has no number,
// by AMD's documents.
func specialCase(function string, y layout, v value) (uint64, bool) {
	inf, nan := y.infinity(), y.infinity()|y.quietBit()
	one := y.encode(big.NewRat(1, 1), 0, false)
	switch {
	case v.nan:
		return v.pattern | y.quietBit(), true
	case function == "rcp" && v.zero:
		return signed(y, v.negative, inf), true
	case function == "rcp" && v.inf:
		return signed(y, v.negative, 0), true
	case function == "rsq" && v.zero:
		return signed(y, v.negative, inf), true
	case function == "sqrt" && v.zero:
		return v.pattern, true
	case (function == "rsq" || function == "sqrt" || function == "log") && v.negative && !v.zero:
		return nan, true
	case function == "rsq" && v.inf:
		return 0, true
	case function == "sqrt" && v.inf, function == "log" && v.inf:
		return inf, true
	case function == "log" && v.zero:
		return inf | y.signBit(), true
	case function == "exp" && v.inf && v.negative:
		return 0, true
	case function == "exp" && v.inf:
		return inf, true
	case function == "exp" && v.zero, function == "cos" && v.zero:
		return one, true
	case (function == "sin" || function == "cos") && v.inf:
		return nan, true
	case function == "exp" && v.fraction.Cmp(big.NewRat(2000, 1)) > 0:
		return inf, true
	case function == "exp" && v.fraction.Cmp(big.NewRat(-2000, 1)) < 0:
		return 0, true
	case function == "sin" && new(big.Rat).Abs(v.fraction).Cmp(big.NewRat(256, 1)) > 0:
		return 0, true
	case function == "cos" && new(big.Rat).Abs(v.fraction).Cmp(big.NewRat(256, 1)) > 0:
		return one, true
	case function == "sin" && new(big.Rat).Mul(v.fraction, big.NewRat(2, 1)).IsInt():
		return signed(y, v.negative, 0), true
	case function == "cos" && new(big.Rat).Mul(v.fraction, big.NewRat(2, 1)).Denom().Int64() == 2:
		return 0, true
	}
	return 0, false
}

// units returns |r - v| in units of the last place of r's binade, as a bound from above, where r
// is a number of the format.
func units(y layout, r *big.Rat, v ball.Big) float64 {
	mid, _ := v.Mid().Rat(nil)
	rad, _ := v.Rad().Rat(nil)
	bias := 1<<(y.exponent-1) - 1
	e := 1 - bias
	if mid.Sign() != 0 {
		e = max(e, floorLog2(new(big.Rat).Abs(mid)))
	}
	d := new(big.Rat).Sub(r, mid)
	d.Add(d.Abs(d), rad)
	f, _ := times2(d, int(y.fraction)-e).Float64()
	return f
}

// TestApproximations checks that every approximated result lies within AMD's error of the exact
// value, with every seed; that seed 0 rounds to nearest; that seeds differ; and special cases.
func TestApproximations(t *testing.T) {
	for label, family := range families {
		for _, name := range slices.Sorted(maps.Keys(tables[family])) {
			function := functionOf(name)
			if function == "" {
				continue
			}
			t.Run(label+"/"+name, func(t *testing.T) {
				op := tables[family][name]
				suffix := name[strings.LastIndexByte(name, '_')+1:]
				y := layoutOf(suffix)
				allowed := map[string]float64{"f16": 0.51, "f32": 1, "f64": 1 << 29}[suffix]
				if function == "sin" || function == "cos" {
					allowed = 1
				}
				flushes := suffix == "f32" && function != "sin" && function != "cos"
				run, err := op.Bind(instructionOf(op))
				if err != nil {
					t.Fatal(err)
				}
				rows := inputs(op, rand.New(rand.NewPCG(1, 2)), testlevel.Pick(50, 2000))
				if suffix == "f16" {
					rows = rows[:min(len(rows), testlevel.Pick(400, 1<<16))]
				}
				kept, below, above := 0, 0, 0
				for seed := range uint64(3) {
					e := execution{family, op, run, plainMode, seed}
					e.results(rows, func(int) bool { return false }, func(row int, result uint64, _ bool) {
						x := rows[row][0]
						v := y.decode(x, flushes)
						if want, ok := specialCase(function, y, v); ok {
							if result != want {
								t.Fatalf("%#x: got %#x, want %#x", x, result, want)
							}
							return
						}
						exact, ok := exactFunction(function, v.fraction)
						if !ok {
							t.Fatalf("%#x has no value", x)
						}
						checkWithin(t, y, x, result, exact, allowed, flushes)
						mid, _ := exact.Mid().Rat(nil)
						nearest := y.encode(mid, 0, mid.Sign() < 0)
						if flushes && y.decode(nearest, false).subnormal {
							nearest &= y.signBit()
						}
						if seed == 0 && result != nearest && suffix != "f64" {
							t.Fatalf("%#x with seed 0: got %#x, want %#x", x, result, nearest)
						}
						switch r := y.decode(result, false); {
						case r.fraction == nil || seed == 0:
						case result == nearest && r.fraction.Cmp(mid) == 0: // exact
						case result == nearest:
							kept++
						case r.fraction.Cmp(mid) < 0:
							below++
						default:
							above++
						}
					})
				}
				if suffix != "f16" && (below == 0 || above == 0 || kept == 0 && suffix == "f32") {
					t.Errorf("%d results are the nearest, %d varied downward and %d upward", kept, below, above)
				}
			})
		}
	}
}

// checkWithin fails unless a result is within the allowed units of the exact value.
func checkWithin(t *testing.T, y layout, x, result uint64, exact ball.Big, allowed float64, flushes bool) {
	t.Helper()
	r := y.decode(result, false)
	if r.nan {
		t.Fatalf("%#x: got a NaN, want %v", x, exact)
	}
	limit, _ := exact.Mid().Float64()
	bias := 1<<(y.exponent-1) - 1
	if r.inf { // right if the exact value overflows
		if math.Abs(limit) < math.Ldexp(2-math.Ldexp(1, -int(y.fraction)), bias) {
			t.Fatalf("%#x: got an infinity, want %v", x, exact)
		}
		return
	}
	if flushes && math.Abs(limit) < math.Ldexp(1, 1-bias) {
		if !r.zero && !(math.Abs(limit) > math.Ldexp(1, 1-bias)*(1-math.Ldexp(1, -int(y.fraction)))) {
			t.Fatalf("%#x: got %#x, want a zero for %v", x, result, exact)
		}
		return
	}
	if u := units(y, r.fraction, exact); u > allowed {
		t.Fatalf("%#x: got %#x, which is %g units from %v; at most %g are allowed", x, result, u, exact, allowed)
	}
}

// TestApproximationsRepeat checks that an operand's result depends on nothing but the seed and the
// instruction: in other lanes, beside other operands, in another call.
func TestApproximationsRepeat(t *testing.T) {
	for label, family := range families {
		op := tables[family]["v_rcp_f32"]
		run, err := op.Bind(instructionOf(op))
		if err != nil {
			t.Fatal(err)
		}
		rows := inputs(op, rand.New(rand.NewPCG(3, 4)), 200)
		e := execution{family, op, run, plainMode, 99}
		first := map[uint64]uint64{}
		never := func(int) bool { return false }
		e.results(rows, never, func(row int, result uint64, _ bool) { first[rows[row][0]] = result })
		slices.Reverse(rows)
		e.results(rows, never, func(row int, result uint64, _ bool) {
			if first[rows[row][0]] != result {
				t.Errorf("%s: v_rcp_f32 %#x: got %#x, then %#x", label, rows[row][0], first[rows[row][0]], result)
			}
		})
	}
}
