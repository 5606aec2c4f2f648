package stdio

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestLongNumbers rounds tokens that strconv alone reads wrong, or nearly does, and
// compares with rational arithmetic.
func TestLongNumbers(t *testing.T) {
	tokens := []string{
		"1" + strings.Repeat("0", 799) + "e-799", "1" + strings.Repeat("0", 800) + "e-800", "1" + strings.Repeat("0", 5000) + "e-5000",
		strings.Repeat("9", 1000) + "e-1000", "-" + strings.Repeat("9", 3000) + "e-3001",
		"0." + strings.Repeat("0", 10000) + "1e10001", "0." + strings.Repeat("0", 99999) + "1E+100000", strings.Repeat("0", 2000) + "5",
		strings.Repeat("1", 900) + "." + strings.Repeat("7", 900) + "e-899", "0.0e99999", "1e-99999", "0e99999999999999999999", "1e-99999999999999999999",
		"1e-0000000000000000000001", "1e+0000000000000000000001",
	}
	g := rand.New(rand.NewPCG(1, 2))
	for range 300 { // near halfway cases of binary32, with digits far behind that decide
		f := math.Float32frombits(g.Uint32N(0x7f000000))
		half := new(big.Rat).SetFloat64((float64(f) + float64(math.Nextafter32(f, 2))) / 2)
		digits := half.FloatString(200)
		whole, fraction, _ := strings.Cut(digits, ".")
		padding := g.IntN(1500)
		power := g.IntN(900)
		tail := []string{"", "0", "1"}[g.IntN(3)]
		text := strings.Repeat("0", g.IntN(1000)) + whole + fraction + strings.Repeat("0", padding) + tail
		tokens = append(tokens, fmt.Sprintf("%s%se-%d", text, strings.Repeat("0", power), len(fraction)+padding+len(tail)+power))
	}
	for _, token := range tokens {
		exact, ok := new(big.Rat), true
		if len(token) < 200 { // exponents that no rational number should have
			got, err := parseReal([]byte(token), 32)
			if !strings.HasPrefix(token, "1e-0") && !strings.HasPrefix(token, "1e+0") && (err != nil || got != 0) {
				t.Errorf("%s: got %v, %v, want 0", token, got, err)
				continue
			} else if strings.HasPrefix(token, "1e+0") && got != 10 || strings.HasPrefix(token, "1e-0") && got != float64(float32(0.1)) {
				t.Errorf("%s: got %v", token, got)
			}
			continue
		}
		if exact, ok = exact.SetString(token); !ok {
			t.Fatalf("%.40s… is no number", token)
		}
		single, _ := exact.Float32()
		double, _ := exact.Float64()
		if got, err := parseReal([]byte(token), 32); err != nil || float32(got) != single {
			t.Errorf("%.40s… (%d bytes): got %v, %v, want %v", token, len(token), got, err, single)
		}
		if got, err := parseReal([]byte(token), 64); err != nil || got != double {
			t.Errorf("%.40s… (%d bytes): got %v, %v, want %v", token, len(token), got, err, double)
		}
	}
	for _, token := range []string{"1" + strings.Repeat("0", 400), "1e99999999999999999999", "-1e100000"} {
		if got, err := parseReal([]byte(token), 64); err == nil {
			t.Errorf("%.40s…: got %v, want an error", token, got)
		}
	}
}
