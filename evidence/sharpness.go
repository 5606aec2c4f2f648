package evidence

import (
	"fmt"
	"strings"
)

// Sharpness says how many values per output the promise admits, beside those that
// allclose(rtol = atol = 1e-2) would admit; "" under promise bits, which admits one.
func (s *Summary) Sharpness() string {
	if s.MeanAllClose == nil || s.MeanAdmissible == nil || s.Promise == "bits" {
		return ""
	}
	return fmt.Sprintf("the promise admits %s values per output (median %s), allclose(1e-2) %s (median %s)",
		values(s.MeanAdmissible), values(s.MedianAdmissible), values(s.MeanAllClose), values(s.MedianAllClose))
}

// values formats a mean or median number of values.
func values(x *float64) string {
	if x != nil && *x >= 1000 && *x < 1e15 {
		return Integer(int64(*x + 0.5))
	}
	return figure(x)
}

// Answers says whether the kernel is honest and whether it is accurate, and how much of each
// output was decided; "" of reports that knew no promises, and under promise bits.
func (s *Summary) Answers() string {
	if s.Promise == "" || s.Promise == "bits" {
		return ""
	}
	texts := []string{"honest: " + string(s.Honest), "accurate: " + string(s.Accurate)}
	for _, d := range s.Decided {
		texts = append(texts, fmt.Sprintf("%s of %s decided", percent(d.Share), d.Output))
	}
	return strings.Join(texts, ", ")
}
