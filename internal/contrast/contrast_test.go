package contrast

import (
	"maps"
	"testing"
)

func TestRatio(t *testing.T) {
	for _, x := range []struct {
		a, b string
		want float64
	}{{"#000000", "#ffffff", 21}, {"#ffffff", "#000000", 21}, {"#808080", "#808080", 1}, {"#767676", "#ffffff", 4.54}} {
		if got := Ratio(x.a, x.b); got < x.want-0.005 || got > x.want+0.005 {
			t.Errorf("%s on %s: %.3f, want %.2f", x.a, x.b, got, x.want)
		}
	}
}

func TestColours(t *testing.T) {
	light, dark := Colours(":root { --f16: #102030; }\n@media (prefers-color-scheme: dark) {\n:root { --f16: #aabbcc; }\n}\n.x { --y: #000000; }\n")
	if !maps.Equal(light, map[string]string{"f16": "#102030"}) || !maps.Equal(dark, map[string]string{"f16": "#aabbcc"}) {
		t.Errorf("light %v, dark %v", light, dark)
	}
	if _, dark := Colours("--a: #000000;"); dark != nil {
		t.Errorf("a sheet without a dark style has %v", dark)
	}
}
