package evidence

import "slices"

// Terms is what the kernel promised and declared, what became of it, and how sharp the
// question was. Reports of programs that knew two contracts alone have none of it.
type Terms struct {
	Promise  string `json:"promise,omitempty"`  // bits, ordered or stable
	Profile  string `json:"profile,omitempty"`  // whose errors of functions and allowances were granted; "" if none was named
	Declared string `json:"declared,omitempty"` // what the author says about the arithmetic, as the command line takes it

	// Honest says whether every output is one that the promise and the declarations admit.
	// Accurate says whether every output that was compared with the truth is as close to it as
	// the definition promises, whatever was declared. Neither depends on the other.
	Honest   Answer `json:"honest,omitempty"`
	Accurate Answer `json:"accurate,omitempty"`

	// Own has the figures of the definition's own kernel, which has the reference's bits, on
	// the same cases. It is there if the kernel promises no bits.
	Own *Errors `json:"own,omitempty"`

	// MeanAllClose and MedianAllClose count, beside MeanAdmissible, the values of the format that
	// numpy.allclose with rtol = atol = 1e-2 takes for the result.
	MeanAllClose   *float64 `json:"mean_allclose,omitempty"`
	MedianAllClose *float64 `json:"median_allclose,omitempty"`

	Heights    []Height    `json:"heights,omitempty"`    // of sums, where none was declared: the least that admit the outputs
	Decided    []Decided   `json:"decided,omitempty"`    // by output
	Clauses    []Departure `json:"clauses,omitempty"`    // of the contract, from which outputs differ
	Allowances []Allowance `json:"allowances,omitempty"` // of the profile
	Omitted    []string    `json:"omitted,omitempty"`    // outputs that the kernel does not write
}

// Answer is yes, no or undecided.
type Answer string

const (
	Yes  Answer = "yes"
	No   Answer = "no"
	Open Answer = "undecided"
)

// Promises and Answers list the values of the fields promise, and honest and accurate.
var (
	Promises = []string{"bits", "ordered", "stable"}
	Answers  = []Answer{Yes, No, Open}
)

// Errors are the errors of a kernel against the truth, as a Summary has them.
type Errors struct {
	WorstErrorULP   *float64 `json:"worst_error_ulp"`
	WorstErrorShare *float64 `json:"worst_error_share"`
	Misrounded      *float64 `json:"misrounded"`
}

// Height says what sums of similar lengths were found to need: the least number of additions
// on the way of a term that admits every output.
type Height struct {
	LeastLength int     `json:"least_length"`
	MostLength  int     `json:"most_length"`
	Height      int     `json:"height"` // the largest of any case
	Share       float64 `json:"share"`  // the largest, as a share of the additions of its sum
	Outputs     int64   `json:"outputs"`
	MeanValues  float64 `json:"mean_values"` // that were admissible at the height of the case
}

// Decided says of how many of an output's elements the set of admissible values was small
// enough to say something.
type Decided struct {
	Output  string  `json:"output"`
	Known   int64   `json:"known"`   // elements with a set, on the operation's own kinds of data
	Decided int64   `json:"decided"` // of these, those with a small one
	Share   float64 `json:"share"`   // on these data, or in all cases if that is larger
	Needed  float64 `json:"needed"`  // the share that accepted needs
	Of      int64   `json:"of"`      // elements with a set in all cases
	OfThem  int64   `json:"of_them"`
}

// Departure counts the outputs that differ where a clause says what they should be.
type Departure struct {
	Clause   string `json:"clause"` // crossentropy.forward.C5
	Text     string `json:"text"`
	Outputs  int64  `json:"outputs"`
	IsWaived bool   `json:"is_waived"`
}

// Allowance counts the outputs that needed an allowance of the profile.
type Allowance struct {
	Text    string `json:"text"`
	Outputs int64  `json:"outputs"`
}

// terms checks what was promised, and what became of it.
func (f *faults) terms(r *Report) {
	if r.Promise == "" {
		f.unless(r.Verdict != Undecided, "verdict is %s, but promise is empty", r.Verdict)
		return
	}
	oneOf(f, "promise", r.Promise, Promises)
	oneOf(f, "honest", r.Honest, Answers)
	oneOf(f, "accurate", r.Accurate, Answers)
	f.unless((r.Promise == Promises[0]) == (r.Contract == ContractBits), "promise is %s under contract %s", r.Promise, r.Contract)
	f.unless(r.Honest == r.HonestAnswer(), "honest is %s and verdict %s, want %s", r.Honest, r.Verdict, r.HonestAnswer())
	isFar := r.WorstErrorShare != nil && *r.WorstErrorShare > 1
	f.unless(r.Accurate != Yes || r.WorstErrorShare != nil && !isFar, "accurate is yes, but worst_error_share is %v, want at most 1", value(r.WorstErrorShare))
	f.unless(r.Accurate != No || isFar || r.ErrorUndefined > 0, "accurate is no, but worst_error_share is %v and error_undefined 0", value(r.WorstErrorShare))
	f.unless((r.MeanAllClose != nil) == (r.MedianAllClose != nil), "mean_allclose and median_allclose are measured together, but one is null")
	for i, d := range r.Decided {
		f.unless(d.Decided <= d.Known && d.OfThem <= d.Of && d.Known <= d.Of && d.Decided <= d.OfThem, "decided[%d]: %d of %d, and %d of %d in all", i, d.Decided, d.Known, d.OfThem, d.Of)
		f.unless(d.Share <= 1 && d.Needed <= 1, "decided[%d]: share is %v and needed %v, want at most 1", i, d.Share, d.Needed)
		f.unless(r.Verdict != Accepted || d.Known == 0 || d.Share >= d.Needed, "accepted, but decided[%d].share is %v, less than %v", i, d.Share, d.Needed)
	}
	isShort := slices.ContainsFunc(r.Decided, func(d Decided) bool { return d.Known > 0 && d.Share < d.Needed || d.Known == 0 || d.OfThem == 0 })
	f.unless(r.Verdict != Undecided || isShort, "verdict is undecided, but enough outputs are decided")
	for i, h := range r.Heights {
		f.unless(h.LeastLength <= h.MostLength && h.Height < max(h.MostLength, 1) && h.Share <= 1, "heights[%d]: height %d of lengths %d to %d, share %v", i, h.Height, h.LeastLength, h.MostLength, h.Share)
	}
	for i, c := range r.Clauses {
		f.unless(c.Clause != "" && c.Text != "" && c.Outputs > 0, "clauses[%d] is %q with %d outputs, want a name, a text and at least one output", i, c.Clause, c.Outputs)
	}
	for i, a := range r.Allowances {
		f.unless(a.Text != "", "allowances[%d].text is empty", i)
	}
}

// HonestOf returns what a verdict says about honesty.
func HonestOf(v Verdict) Answer {
	switch v {
	case Accepted:
		return Yes
	case Rejected:
		return No
	}
	return Open
}
