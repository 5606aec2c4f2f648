package html_test

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// colours returns the colours of the style sheet, light and dark.
func colours(t *testing.T) (light, dark map[string]string) {
	t.Helper()
	css, err := os.ReadFile("page.css")
	if err != nil {
		t.Fatal(err)
	}
	first, rest, ok := strings.Cut(string(css), "prefers-color-scheme: dark")
	if !ok {
		t.Fatal("there is no dark style")
	}
	rest, _, _ = strings.Cut(rest, "\n}\n")
	find := func(text string) map[string]string {
		list := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6})`).FindAllStringSubmatch(text, -1) {
			list[m[1]] = m[2]
		}
		return list
	}
	return find(first), find(rest)
}

// luminance is the relative luminance of WCAG 2.2.
func luminance(colour string) float64 {
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, _ := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func contrast(a, b string) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// TestContrast: texts have the contrast that WCAG level AA asks for, 4.5, and pictures 3, in
// both styles.
func TestContrast(t *testing.T) {
	light, dark := colours(t)
	if len(light) != len(dark) {
		t.Errorf("%d light colours and %d dark ones", len(light), len(dark))
	}
	for name, c := range map[string]map[string]string{"light": light, "dark": dark} {
		for _, x := range []struct {
			front, back string
			least       float64
		}{
			{"text", "back", 4.5}, {"text", "card", 4.5}, {"text", "code", 4.5}, {"soft", "back", 4.5}, {"soft", "card", 4.5}, {"soft", "code", 4.5},
			{"good", "good-back", 4.5}, {"fair", "fair-back", 4.5}, {"bad", "bad-back", 4.5}, {"good", "card", 4.5}, {"fair", "card", 4.5}, {"bad", "card", 4.5},
			{"good", "back", 4.5}, {"fair", "back", 4.5}, {"bad", "back", 4.5},
			{"good-bar", "card", 3}, {"bad-bar", "card", 3}, {"bad-bar", "code", 3}, {"own", "card", 3}, {"own", "back", 3},
		} {
			if c[x.front] == "" || c[x.back] == "" {
				t.Errorf("%s: %s or %s is no colour", name, x.front, x.back)
			} else if got := contrast(c[x.front], c[x.back]); got < x.least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, want at least %v", name, x.front, x.back, got, x.least)
			}
		}
	}
}
