package html_test

import (
	"os"
	"testing"

	"tokitai/internal/contrast"
)

// colours returns the colours of the style sheet, light and dark.
func colours(t *testing.T) (light, dark map[string]string) {
	t.Helper()
	css, err := os.ReadFile("page.css")
	if err != nil {
		t.Fatal(err)
	}
	if light, dark = contrast.Colours(string(css)); dark == nil {
		t.Fatal("there is no dark style")
	}
	return light, dark
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
			} else if got := contrast.Ratio(c[x.front], c[x.back]); got < x.least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, want at least %v", name, x.front, x.back, got, x.least)
			}
		}
	}
}
