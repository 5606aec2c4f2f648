package nearest

import (
	"slices"
	"testing"
)

func TestNames(t *testing.T) {
	candidates := []string{"softmax.forward", "softmax.backward", "gemm.forward", "gelu.forward", "lr", "beta1", "beta2", "x", "dy"}
	for word, want := range map[string][]string{
		"softmax.forward": {"softmax.forward"},
		"softmax.foward":  {"softmax.forward"},
		"sofmtax.forward": {"softmax.forward"}, // two neighbours exchanged
		"Softmax.Forward": {"softmax.forward"},
		"softmax":         {"softmax.backward", "softmax.forward"}, // it begins them
		"beta3":           {"beta1", "beta2"},
		"lt":              {"lr"},
		"X":               {"x"},
		"z":               nil,
		"":                nil,
		"--":              nil,
		"frobnicate":      nil,
		"gexx.forward":    {"gelu.forward", "gemm.forward"},
	} {
		if got := Names(word, candidates); !slices.Equal(got, want) {
			t.Errorf("Names(%q) = %q, want %q", word, got, want)
		}
	}
	many := []string{"ae", "ad", "ac", "ab", "aa"}
	if got := Names("a", many); !slices.Equal(got, []string{"aa", "ab", "ac", "ad"}) {
		t.Errorf("of many candidates %q", got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "acb", 1},
		{"abc", "ac", 1}, {"abc", "xabc", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3},
	} {
		if got, back := distance(c.a, c.b), distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("distance(%q, %q) = %d, the other way round %d, want %d", c.a, c.b, got, back, c.want)
		}
	}
}
