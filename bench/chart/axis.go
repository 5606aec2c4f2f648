package chart

import (
	"fmt"
	"math"
	"strconv"
)

// scale maps values to coordinates logarithmically.
type scale struct {
	low, high float64 // values
	from, to  float64 // coordinates
}

func (s scale) at(v float64) float64 {
	return s.from + (s.to-s.from)*math.Log(v/s.low)/math.Log(s.high/s.low)
}

// span is the range of some values.
type span struct{ low, high float64 }

func spanOf(values ...float64) span {
	s := span{math.Inf(1), math.Inf(-1)}
	for _, v := range values {
		s.low, s.high = min(s.low, v), max(s.high, v)
	}
	return s
}

func (s span) and(other span) span {
	return span{min(s.low, other.low), max(s.high, other.high)}
}

// ratio returns how many times as great as the least the greatest is; 0 without values.
func (s span) ratio() float64 { return max(0, s.high/s.low) }

// with returns a scale that leaves some room on both sides.
func (s span) with(room, from, to float64) scale { return scale{s.low / room, s.high * room, from, to} }

// ticks returns powers of base within a scale, at most most of them, evenly spaced.
func (s scale) ticks(base float64, most int) (list []float64) {
	first, last := math.Ceil(math.Log(s.low)/math.Log(base)-1e-9), math.Floor(math.Log(s.high)/math.Log(base)+1e-9)
	step := math.Max(1, math.Ceil((last-first+1)/float64(most)))
	for e := math.Ceil(first/step) * step; e <= last; e += step {
		list = append(list, math.Pow(base, e))
	}
	return list
}

// roundTicks returns ticks in powers of ten, and 2 and 5 times these where there are few.
func (s scale) roundTicks(most int) (list []float64) {
	for e := math.Floor(math.Log10(s.low)); e <= math.Log10(s.high); e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); s.low <= v && v <= s.high {
				list = append(list, v)
			}
		}
	}
	if len(list) > most {
		return s.ticks(10, most)
	}
	return list
}

// binary formats a size: 512, 4 Ki, 64 Mi.
func binary(v float64) string {
	for _, unit := range []string{"", " Ki", " Mi", " Gi", " Ti"} {
		if v < 1024 {
			return figure(v) + unit
		}
		v /= 1024
	}
	return figure(v) + " Pi"
}

// figure formats a number with three digits.
func figure(v float64) string {
	if v >= 1000 {
		return thousands(math.Round(v))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func thousands(v float64) string {
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// fraction formats a share on an axis: ¼, ½, 1, 2.
func fraction(v float64) string {
	switch v {
	case 0.5:
		return "½"
	case 0.25:
		return "¼"
	case 0.125:
		return "⅛"
	}
	if v < 1 {
		return fmt.Sprintf("1/%g", 1/v)
	}
	return fmt.Sprintf("%g", v)
}
