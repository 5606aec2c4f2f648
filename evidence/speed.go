package evidence

import (
	"fmt"
	"strings"
)

// Speed is how fast a kernel was beside a copy of the same bytes and our own kernel, with inputs
// that no two repetitions share, and outputs that were judged in every one.
type Speed struct {
	Shape       string  `json:"shape"`
	Bytes       int64   `json:"bytes"`           // the fewest that must move
	FLOPs       float64 `json:"flops,omitempty"` // of a matrix product
	Repetitions int     `json:"repetitions"`     // that were timed
	Calls       int     `json:"calls"`           // whose outputs were judged
	Judged      int64   `json:"judged"`          // outputs

	Clock  string  `json:"clock,omitempty"`  // whose clock the times are from, and what they include
	MS     *Spread `json:"ms,omitempty"`     // of a call
	Inside *Spread `json:"inside,omitempty"` // milliseconds in the kernel, as its process says
	Own    string  `json:"own,omitempty"`    // our own kernel's lowering
	OwnMS  *Spread `json:"own_ms,omitempty"`
	Copy   *Spread `json:"copy,omitempty"` // GB/s, read and written

	OfCopy       *Spread `json:"of_copy,omitempty"` // speed as a share of the copy's in the same repetition
	OfOwn        *Spread `json:"of_own,omitempty"`  // as a share of our own kernel's
	InsideOfCopy *Spread `json:"inside_of_copy,omitempty"`
	InsideOfOwn  *Spread `json:"inside_of_own,omitempty"`

	Void    string `json:"void,omitempty"`     // why there are no times
	IsWrong bool   `json:"is_wrong,omitempty"` // because an output was wrong while it was timed
	Note    string `json:"note,omitempty"`
}

// Spread is the median of figures, with the least and the greatest.
type Spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// SetSpeed adds how fast the kernel was to a report.
func (r *Report) SetSpeed(s *Speed) {
	r.Speed = s
	r.Obtained["speed"] = "measured: medians over the repetitions, each with new inputs, caches filled with other data, and outputs that were copied when the timer stopped and judged; a wrong output voids the times"
	for i, text := range r.NonClaims {
		if rest, ok := strings.CutPrefix(text, "nothing is said of speed, nor of "); ok {
			r.NonClaims[i] = "nothing is said of the speed on other shapes, nor of " + rest
		}
	}
}

// speed checks the figures of a measurement.
func (f *faults) speed(s *Speed) {
	if s == nil {
		return
	}
	f.unless((s.Void == "") == (s.MS != nil), "speed has times: %v, and is void because %q: one of them", s.MS != nil, s.Void)
	f.unless(!s.IsWrong || s.Void != "", "speed is wrong, but not void")
	f.unless((s.MS != nil) == (s.Repetitions > 0), "speed has times: %v, of %d repetitions", s.MS != nil, s.Repetitions)
	f.unless(s.MS == nil || s.Calls >= s.Repetitions+2, "speed: %d calls were judged, want all %d repetitions, one before and one after", s.Calls, s.Repetitions)
	f.unless((s.OfOwn != nil) == (s.OwnMS != nil) && (s.OwnMS == nil || s.Own != ""), "speed: own_ms, of_own and own are measured together")
	for name, x := range map[string]*Spread{"ms": s.MS, "inside": s.Inside, "own_ms": s.OwnMS, "copy": s.Copy, "of_copy": s.OfCopy, "of_own": s.OfOwn, "inside_of_copy": s.InsideOfCopy, "inside_of_own": s.InsideOfOwn} {
		f.unless(x == nil || x.Least <= x.Median && x.Median <= x.Most, "speed.%s: the median is not between the least and the greatest", name)
	}
}

// speed writes a measurement.
func (p *page) speed(s *Speed) {
	if s == nil {
		return
	}
	p.heading("Speed")
	if s.Void != "" {
		p.line("Not timed: %s.", escape(s.Void))
		return
	}
	p.line("%s, %s timed, %s judged in %s. Times are from %s.", code(s.Shape), count(int64(s.Repetitions), "repetition"), count(s.Judged, "output"), count(int64(s.Calls), "call"), escape(s.Clock))
	p.line("")
	var rows [][]string
	add := func(name string, x *Spread) {
		if x != nil {
			rows = append(rows, []string{name, fmt.Sprintf("%.4g", x.Median), fmt.Sprintf("%.4g", x.Least), fmt.Sprintf("%.4g", x.Most)})
		}
	}
	add("a call, ms", s.MS)
	add("inside, by the kernel's own word, ms", s.Inside)
	add("our own kernel, "+escape(s.Own)+", ms", s.OwnMS)
	add("copy, GB/s", s.Copy)
	add("share of the copy", s.OfCopy)
	add("share of our own kernel", s.OfOwn)
	add("inside, share of the copy", s.InsideOfCopy)
	add("inside, share of our own kernel", s.InsideOfOwn)
	p.table([]string{"", "median:", "least:", "greatest:"}, rows)
	if s.Note != "" {
		p.line("\n%s.", escape(capital(s.Note)))
	}
}
