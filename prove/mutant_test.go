package prove

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/testlevel"
)

// literal is a number in the text of a function, after a bracket or a comma: a float, or the
// eight digits of a pattern.
var literal = regexp.MustCompile(`[(,] ?(-?(?:0x1[0-9a-f.]*p[+-]?[0-9]+|[0-9.]+(?:e[+-][0-9]+)?)|0x[0-9a-f]{8})\b`)

// kept are the constants that may move by one bit, with the reason. What is left is still
// proved: the theorem holds for the moved constant too.
var kept = map[string]string{
	"exp_bounded 0x1.123856p-71 1": "the polynomial comes closer to the exponential",
	"exp_bounded 0x1.6a3d0ap-74 1": "the polynomial comes closer to the exponential",

	"log -0x1.381392p-04 1": "the polynomial's error stays below its bound",
	"log 0x3f3504f3 1":      "significands may begin elsewhere",
	"log 0x3f3504f3 -1":     "significands may begin elsewhere",
	"log 0 1":               "not an argument of the theorem",

	"log2 0x1.4ae0cp-26 1":  "beyond the bits that matter",
	"log2 0x1.4ae0cp-26 -1": "beyond the bits that matter",
	"log2 0x3f3504f3 1":     "significands may begin elsewhere",
	"log2 0x3f3504f3 -1":    "significands may begin elsewhere",
	"log2 0 1":              "not an argument of the theorem",
}

// withConstant returns the function with the i-th number in its text moved by some units in
// the last place, and what the number was; "" if there are no more.
func withConstant(t *testing.T, f *def.Function, i int, ulps int32) (*def.Function, string) {
	t.Helper()
	d := def.Must(def.Rowwise("test.function", func(b *def.Builder) { b.Out("y", f.Of(b.In("x"))) }))
	text := d.Text()
	begin := strings.Index(text, "\nfunction ")
	body := text[begin:]
	body = body[:strings.Index(body, "\n  return ")]
	first := strings.Index(body[1:], "\n") + 1
	places := literal.FindAllStringSubmatchIndex(body[first:], -1)
	if i >= len(places) {
		return nil, ""
	}
	from, to := begin+first+places[i][2], begin+first+places[i][3]
	old := text[from:to]
	var changed string
	if c, err := strconv.ParseUint(old, 0, 32); err == nil && len(old) == len("0x00000000") {
		changed = fmt.Sprintf("%#08x", uint32(c)+uint32(ulps))
	} else {
		c, err := strconv.ParseFloat(old, 32)
		if err != nil {
			t.Fatal(err)
		}
		changed = def.RealOf(float64(math.Float32frombits(math.Float32bits(float32(c)) + uint32(ulps)))).String()
	}
	parsed, err := def.Parse(text[:from] + changed + text[to:])
	if err != nil {
		t.Fatalf("%s: %v", old, err)
	}
	for _, n := range parsed.Math().Nodes {
		if n.Op == def.OpCall {
			return n.Func, old
		}
	}
	t.Fatal("the text has no call")
	return nil, ""
}

// TestMutants: with a constant moved by one bit, a function is not proved any more.
func TestMutants(t *testing.T) {
	_, noProver := FindProver(t.Context())
	folder := t.TempDir()
	// Coq takes seconds for each: first one constant of a function, then all.
	for _, test := range []struct {
		f     *def.Function
		first string
		alone bool // all others are compared in the same lines of the proof
	}{
		{fn.ExpBoundedFunction, "-0x1.62e43p-01", false}, // the high part of ln 2
		{fn.LogFunction, "0x1.7f7d1cp-20", false},        // the rest of ln 2
		{fn.Log2Function, "-0x1.c39b24p-04", false},      // the highest coefficient
		{fn.RecipBoundedFunction, "0x7ef3340c", false},   // the guess
		{fn.SigmoidFunction, "0x1.6a3d0ap-74", true},     // a coefficient of the exponential
	} {
		t.Run(test.f.Name, func(t *testing.T) {
			tried, proofs := 0, 0
			for i := 0; ; i++ {
				for _, ulps := range []int32{1, -1} {
					g, old := withConstant(t, test.f, i, ulps)
					if g == nil {
						if tried == 0 {
							t.Error("no constant was tried")
						}
						if noProver != nil {
							t.Skip(noProver)
						}
						if proofs == 0 && testlevel.Pick(0, 1, 2) > 0 {
							t.Errorf("no proof was tried: there is no constant %s", test.first)
						}
						return
					}
					tried++
					if Hash(g) == Hash(test.f) {
						t.Fatalf("constant %s moved by %d: the hash stays", old, ulps)
					}
					script, err := Script(g)
					if err != nil { // another shape: a constant that the pattern fixes was moved
						t.Logf("%s by %d: %v", old, ulps, err)
						continue
					}
					if level := testlevel.Pick(0, 1, 2); noProver != nil || level == 0 || (level == 1 || test.alone) && old != test.first {
						continue
					}
					proofs++
					err = checkIn(t.Context(), folder, []string{g.Name}, []string{script}, func(string, int, int) {})
					reason := kept[g.Name+" "+old+" "+strconv.Itoa(int(ulps))]
					if errors.Is(err, ErrNotProved) == (reason != "") || err != nil && !errors.Is(err, ErrNotProved) {
						t.Errorf("constant %s moved by %d: %v, want %q", old, ulps, err, reason)
					}
					t.Logf("%s by %d: %v", old, ulps, err)
				}
			}
		})
	}
}
