// Package contrast measures the contrast of colours in style sheets, for tests.
package contrast

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

var variable = regexp.MustCompile(`--([a-z0-9-]+): (#[0-9a-f]{6})`)

// Colours returns the colours that a style sheet names by variables, light and dark; dark is nil if
// the sheet has no dark style.
func Colours(css string) (light, dark map[string]string) {
	first, rest, isFound := strings.Cut(css, "prefers-color-scheme: dark")
	light = colours(first)
	if isFound {
		rest, _, _ = strings.Cut(rest, "\n}\n")
		dark = colours(rest)
	}
	return light, dark
}

func colours(css string) map[string]string {
	list := map[string]string{}
	for _, m := range variable.FindAllStringSubmatch(css, -1) {
		list[m[1]] = m[2]
	}
	return list
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

// Ratio returns the contrast ratio of WCAG 2.2, from 1 to 21.
func Ratio(a, b string) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}
