package html

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"tokitai/evidence"
)

// functions are those that the template calls.
var functions = template.FuncMap{
	"style":     func() template.CSS { return template.CSS(style) },
	"text":      clean,
	"integer":   evidence.Integer,
	"integerOf": func(n int) string { return evidence.Integer(int64(n)) },
	"short":     short,
	"figure":    figure,
	"percent":   percent,
	"duration":  duration,
	"stamp":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"moment":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"px":        px,

	"milliseconds": func(s *evidence.Spread) string {
		return spread(s, func(x float64) string { return duration(x / 1e3) })
	},
	"share": func(s *evidence.Spread) string { return spread(s, percent) },
}

// clean replaces the characters that an XML document cannot have, and those that would turn
// the direction of the text around them.
func clean(text string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\n' || c == '\t':
			return c
		case c < 0x20, c == 0x7f, 0x80 <= c && c < 0xa0, c == 0xfffe, c == 0xffff:
			return '\ufffd'
		case 0x202a <= c && c <= 0x202e, 0x2066 <= c && c <= 0x2069, c == 0x200e, c == 0x200f, c == 0x061c:
			return '\ufffd'
		}
		return c
	}, text)
}

// short formats n with three digits: 912, 66.7 k, 3.1 G.
func short(n int64) string {
	x := float64(n)
	for _, unit := range []string{"", "\u202fk", "\u202fM", "\u202fG"} {
		switch {
		case x < 999.5 && unit == "":
			return strconv.FormatInt(n, 10)
		case x < 99.95 && unit != "":
			return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0") + unit
		case x < 999.5:
			return strconv.FormatFloat(x, 'f', 0, 64) + unit
		}
		x /= 1000
	}
	return strconv.FormatFloat(x, 'f', 1, 64) + "\u202fT"
}

// figure formats a measured number: integers in full, others with four digits; a figure that
// was not measured is a dash.
func figure(x any) string {
	switch x := x.(type) {
	case *float64:
		if x != nil {
			return number(*x)
		}
	case *int64:
		if x != nil {
			return evidence.Integer(*x)
		}
	case float64:
		return number(x)
	}
	return "–"
}

func number(x float64) string {
	switch {
	case x < 1e15 && x == math.Trunc(x), x >= 1e4 && x < 1e15:
		return evidence.Integer(int64(math.Round(x)))
	}
	text := strconv.FormatFloat(x, 'g', 4, 64)
	if mantissa, exponent, ok := strings.Cut(text, "e"); ok {
		n, _ := strconv.Atoi(exponent)
		return mantissa + "·10" + superscript(n)
	}
	return text
}

// superscript formats an exponent.
func superscript(n int) string {
	return strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹").Replace(strconv.Itoa(n))
}

// percent formats a share: 0.4375 is 43.8 %. A share below 1 is never 100 %, and one above 0
// never 0 %.
func percent(share float64) string {
	text := strconv.FormatFloat(100*share, 'f', 1, 64)
	switch {
	case share > 0 && text == "0.0":
		return "<\u202f0.1\u202f%"
	case share < 1 && text == "100.0":
		return ">\u202f99.9\u202f%"
	}
	return strings.TrimSuffix(text, ".0") + "\u202f%"
}

// duration formats seconds: 830 µs, 1.25 s, 3 min 20 s.
func duration(seconds float64) string {
	switch {
	case seconds <= 0:
		return "0\u202fs"
	case seconds < 1e-3:
		return strconv.FormatFloat(seconds*1e6, 'g', 3, 64) + "\u202fµs"
	case seconds < 1:
		return strconv.FormatFloat(seconds*1e3, 'g', 3, 64) + "\u202fms"
	case seconds < 59.95:
		return strconv.FormatFloat(seconds, 'f', 1, 64) + "\u202fs"
	}
	s := int64(math.Round(seconds))
	if s < 3600 {
		return fmt.Sprintf("%d\u202fmin %d\u202fs", s/60, s%60)
	}
	return fmt.Sprintf("%d\u202fh %d\u202fmin", s/3600, s%3600/60)
}

// counted formats a number of things: 1 case, 2 cases, 0 mismatches.
func counted(n int64, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "ch"):
		thing += "e"
	}
	return evidence.Integer(n) + " " + thing + "s"
}

// spread formats a median with the least and the greatest figure; a dash if there is none.
func spread(s *evidence.Spread, format func(float64) string) string {
	if s == nil {
		return "–"
	}
	return fmt.Sprintf("%s (%s to %s)", format(s.Median), format(s.Least), format(s.Most))
}

// px formats a coordinate.
func px(x float64) string { return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64) }
