package peers

import (
	"math"
	"slices"

	"tokitai/bench"
)

// Report is what a run measured, as JSON.
type Report struct {
	Host    Host      `json:"host"`
	Rounds  int       `json:"rounds"`
	Peers   []Library `json:"peers"`
	Partial bool      `json:"partial"` // ended before everything was measured
	Rows    []Row     `json:"rows"`
	Compile []Compile `json:"compile"`
}

// Host describes the machine.
type Host struct {
	CPU      string   `json:"cpu"`
	Features []string `json:"cpu_features"`
	Workers  []int    `json:"workers"` // the numbers of threads that were measured
}

// Library describes a peer.
type Library struct {
	Peer    string   `json:"peer"`
	Name    string   `json:"name"`
	Version string   `json:"version,omitempty"`
	Details []string `json:"details,omitempty"`
	Problem string   `json:"problem,omitempty"` // why it was not measured
}

// Compile is the time of the first call of a definition, in milliseconds: the compilation
// of its kernel, and the same with the kernel's self-test.
type Compile struct {
	Op       string  `json:"op"`
	DType    string  `json:"dtype"`
	MS       float64 `json:"ms"`
	Admitted float64 `json:"admitted_ms"`
}

// Report returns a report without results: the machine and the peers.
func (r *Runner) Report() *Report {
	about := r.teams[0].device.Describe()
	report := &Report{Host: Host{CPU: about.Name, Features: about.Features, Workers: r.options.Workers}, Rounds: r.options.Rounds}
	for _, p := range r.teams[0].peers {
		l := Library{Peer: p.kind.name, Name: p.kind.about}
		if p.problem != nil {
			l.Problem = p.problem.Error()
		} else {
			l.Version, l.Details = p.child.Version, p.child.Details
		}
		report.Peers = append(report.Peers, l)
	}
	return report
}

// Row is the result of a case with one number of threads. Times are medians of the rounds,
// each the least of a few measurements.
type Row struct {
	Op          string  `json:"op"`
	Shape       string  `json:"shape"`
	DType       string  `json:"dtype"`
	Workers     int     `json:"workers"`
	Lowering    string  `json:"lowering"`
	Sets        int     `json:"sets"` // of operands that are rotated over
	MS          float64 `json:"ms"`
	Bytes       int64   `json:"bytes"` // the fewest that must move
	GBps        float64 `json:"gbps,omitempty"`
	GFLOPS      float64 `json:"gflops,omitempty"`
	CopyMS      float64 `json:"copy_ms"`         // of a copy with the same traffic
	Share       float64 `json:"share,omitempty"` // of its speed, where memory is used
	Allocations float64 `json:"allocations"`     // of a call
	Peers       []Other `json:"peers"`
}

// Other is a peer's result beside ours.
type Other struct {
	Peer       string  `json:"peer"`
	Form       string  `json:"form,omitempty"` // how the library is called
	MS         float64 `json:"ms,omitempty"`
	Ratio      float64 `json:"ratio,omitempty"` // its time divided by ours: the median over the rounds
	Least      float64 `json:"least,omitempty"`
	Most       float64 `json:"most,omitempty"`
	Difference float64 `json:"difference"` // of its results from the reference's, relative
	Error      string  `json:"error,omitempty"`
}

// IsDisturbed reports whether the rounds differ so much that their median means nothing.
func (o *Other) IsDisturbed() bool {
	const far = 4
	return o.Most > far*o.Least
}

// set sets our figures.
func (r *Row) set(c *Case, in *inputs, seconds, copies []float64) {
	r.Bytes = bench.Traffic(c.Data.Definition, in.arrays)
	s := middle(seconds)
	r.MS, r.CopyMS = s*1e3, middle(copies)*1e3
	if flops := c.flops(); flops > 0 {
		r.GFLOPS = flops / s * 1e-9
		return
	}
	r.GBps = float64(r.Bytes) / s * 1e-9
	if c.footprint() > inCache {
		r.Share = middle(ratios(copies, seconds))
	}
}

func (s *seat) result(ours []float64) Other {
	o := Other{Peer: s.peer.kind.name, Form: s.form, Difference: s.difference}
	if s.turn.err != nil {
		o.Error = s.turn.err.Error()
		return o
	}
	all := ratios(s.turn.seconds, ours)
	o.MS, o.Ratio, o.Least, o.Most = middle(s.turn.seconds)*1e3, middle(all), slices.Min(all), slices.Max(all)
	return o
}

// ratios divides what two parties took in the same rounds.
func ratios(theirs, ours []float64) []float64 {
	var all []float64
	for i := range ours {
		if x := theirs[i] / ours[i]; !math.IsNaN(x) {
			all = append(all, x)
		}
	}
	return all
}

// middle returns the median of the numbers that are not NaN.
func middle(xs []float64) float64 {
	sorted := slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(xs), math.IsNaN)))
	n := len(sorted)
	switch {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}
