package evidence

import (
	"math"
	"strings"
	"testing"
)

func TestSamplesAreConsistent(t *testing.T) {
	for name, r := range samples() {
		if err := r.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckFindsDamage(t *testing.T) {
	for _, d := range damages {
		r := samples()[d.sample]
		d.do(r)
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), d.want) {
			t.Errorf("%s: got %v, want an error with %q", d.name, err, d.want)
		}
		if err := Write(t.TempDir(), []*Report{r}); err == nil {
			t.Errorf("%s: was written", d.name)
		}
	}
}

func TestCheckFindsNumbersThatJSONCannotSay(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
		for field, set := range map[string]func(r *Report){
			"worst_error_ulp":      func(r *Report) { r.WorstErrorULP = &bad },
			"worst_error_share":    func(r *Report) { r.WorstErrorShare = &bad },
			"seconds":              func(r *Report) { r.Seconds = bad },
			"kernel_seconds":       func(r *Report) { r.KernelSeconds = &bad },
			"worst_cases[1].value": func(r *Report) { r.WorstCases[1].Value = bad },
		} {
			r := samples()["bounded"]
			set(r)
			if err := r.Check(); err == nil || !strings.Contains(err.Error(), field+" is") {
				t.Errorf("%s of %v: got %v, want an error that names it", field, bad, err)
			}
		}
	}
}

// TestCheckFindsAll: a report with many faults is told them all at once.
func TestCheckFindsAll(t *testing.T) {
	err := new(Report).Check()
	for _, want := range []string{"schema is", "non_claims is empty", "verdict is", "how op was obtained", "none of the compiler"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("empty report: got %v, want %q in it", err, want)
		}
	}
}
