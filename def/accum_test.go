package def

import (
	"strings"
	"testing"

	"tokitai/num"
)

func TestModelNames(t *testing.T) {
	for _, c := range []struct {
		m    Accum
		name string
	}{
		{FMAChain, "fma"},
		{MMA(16, 25), "mma(16,25)"},
		{Panels(FMAChain, 8), "panels(fma,8)"},
		{Panels(FMAChain, 1), "panels(fma,1)"},
		{Panels(MMA(8, 24), 16), "panels(mma(8,24),16)"},
		{MMA(32, 13).Narrow(13), "mma(32,13,13)"},
		{Panels(MMA(32, 13).Narrow(13), 2), "panels(mma(32,13,13),2)"},
	} {
		if got := c.m.String(); got != c.name {
			t.Errorf("got %q, want %q", got, c.name)
		}
		if got, err := ParseAccum(c.name); err != nil || got != c.m {
			t.Errorf("ParseAccum(%q) = %v, %v", c.name, got, err)
		}
	}
	byModel := map[Accum]string{Panels(MMA(16, 25), 8): "a key"}
	if byModel[Accum{L: 16, F: 25, P: 8}] != "a key" {
		t.Error("equal rules are different keys")
	}
}

func TestParseAccumRefuses(t *testing.T) {
	for name, want := range map[string]string{
		"":                               "want fma, mma(L,F), mma(L,F,R) or panels(RULE,P)",
		"FMA":                            "want fma",
		"fma ":                           "want fma",
		"mma(16)":                        "want fma",
		"mma(016,25)":                    "want fma",
		"mma(0,0)":                       "want fma",
		"mma(33,25)":                     "want 1 to 32",
		"mma(32,13,0)":                   "want fma",
		"mma(32,13,24)":                  "want a tensor core's and 1 to 23",
		"mma(0,0,13)":                    "want a tensor core's",
		"mma(16,0)":                      "want 1 to 32",
		"mma(99999999999999999,25)":      "want 1 to 32",
		"mma(9999999999999999999999,25)": "want fma",
		"panels(fma,3)":                  "has 3 panels, want a power of two",
		"panels(fma,0)":                  "want fma",
		"panels(fma,131072)":             "want a power of two up to 65536",
		"panels(panels(fma,2),2)":        "want fma",
		"panels(mma(16,40),8)":           "want 1 to 32",
	} {
		if m, err := ParseAccum(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseAccum(%q) = %v, %v, want %q", name, m, err, want)
		}
	}
}

func TestModelTakes(t *testing.T) {
	for _, d := range []num.DType{num.F16, num.BF16, num.F32, num.E4M3, num.E5M2} {
		for _, c := range []struct {
			m    Accum
			want bool
		}{
			{FMAChain, true}, {Panels(FMAChain, 4), true},
			{MMA(16, 25), d != num.F32}, {Panels(MMA(16, 25), 4), d != num.F32}, {Panels(FMAChain, 5), false},
		} {
			if err := c.m.Takes(d); (err == nil) != c.want {
				t.Errorf("%s with %s: %v", c.m, d, err)
			}
		}
	}
}

// Panels cover the sum, in multiples of 64.
func TestPanelDepth(t *testing.T) {
	for _, c := range []struct{ p, k, want int }{
		{1, 1, 64}, {1, 64, 64}, {1, 65, 128}, {8, 1, 64}, {8, 512, 64}, {8, 513, 128}, {8, 4096, 512}, {8, 4097, 576}, {4, 200, 64}, {2, 129, 128}, {2, 0, 0},
	} {
		if got := Panels(FMAChain, c.p).PanelDepth(c.k); got != c.want {
			t.Errorf("%d products in %d panels: %d each, want %d", c.k, c.p, got, c.want)
		}
	}
	for k := range 1000 {
		for p := 1; p <= 16; p *= 2 {
			if s := Panels(FMAChain, p).PanelDepth(k); s%PanelUnit != 0 || s*p < k || s > 0 && (s-PanelUnit)*p >= k {
				t.Fatalf("%d products in %d panels: %d each", k, p, s)
			}
		}
		if FMAChain.PanelDepth(k) != k {
			t.Fatal("a chain is divided")
		}
	}
}
