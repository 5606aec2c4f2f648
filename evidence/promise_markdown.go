package evidence

import (
	"fmt"
	"strconv"
)

// terms writes what was promised, and what became of it.
func (p *page) terms(r *Report) {
	if r.Promise == "" {
		return
	}
	p.heading("Honest and accurate")
	rows := [][]string{
		{"promise", code(r.Promise)},
		{"honest: every output is one that the promise and the declarations admit", string(r.Honest)},
		{"accurate: every output is as close to the truth as the definition promises", string(r.Accurate)},
	}
	if r.Profile != "" {
		rows = append(rows, []string{"profile", code(r.Profile)})
	}
	if r.Declared != "" {
		rows = append(rows, []string{"declared", code(r.Declared)})
	}
	if r.MeanAllClose != nil {
		rows = append(rows,
			[]string{"values admitted per output, mean and median", figure(r.MeanAdmissible) + ", " + figure(r.MedianAdmissible)},
			[]string{"that allclose(rtol = atol = 1e-2) would admit", figure(r.MeanAllClose) + ", " + figure(r.MedianAllClose)})
	}
	if len(r.Omitted) > 0 {
		rows = append(rows, []string{"not written, and not judged", codes(r.Omitted)})
	}
	p.table([]string{"", ""}, rows)
	if o := r.Own; o != nil {
		p.line("\nErrors on the same cases:\n")
		p.table([]string{"", "this kernel:", "the definition's own:"}, [][]string{
			{"worst, in ulp", figure(r.WorstErrorULP), figure(o.WorstErrorULP)},
			{"worst, as a share of what the definition promises", figure(r.WorstErrorShare), figure(o.WorstErrorShare)},
			{"share not correctly rounded", figure(r.Misrounded), figure(o.Misrounded)},
		})
	}
	p.decided(r.Decided)
	p.heights(r.Heights)
	p.departures(r)
}

func (p *page) decided(list []Decided) {
	if len(list) == 0 {
		return
	}
	p.line("\nAn output is decided if at most 16 values are admissible, 256 in f32:\n")
	var rows [][]string
	for _, d := range list {
		rows = append(rows, []string{code(d.Output), Integer(d.Known), Integer(d.Decided), percent(d.Share), percent(d.Needed), Integer(d.Of), Integer(d.OfThem)})
	}
	p.table([]string{"output", "elements, own kinds of data:", "decided:", "share:", "needed:", "elements, all cases:", "decided:"}, rows)
}

func (p *page) heights(list []Height) {
	if len(list) == 0 {
		return
	}
	p.line("\nNo order of sums was declared. The least heights that admit every output of a case:\n")
	var rows [][]string
	for _, h := range list {
		length := strconv.Itoa(h.MostLength)
		if h.LeastLength < h.MostLength {
			length = fmt.Sprintf("%d to %d", h.LeastLength, h.MostLength)
		}
		rows = append(rows, []string{length, strconv.Itoa(h.Height), percent(h.Share), Integer(h.Outputs), figure(&h.MeanValues)})
	}
	p.table([]string{"terms of a sum:", "height:", "of all additions:", "outputs:", "values admitted:"}, rows)
}

func (p *page) departures(r *Report) {
	if len(r.Clauses) > 0 {
		p.line("\nOutputs that differ where a clause of the contract says what they should be:\n")
		var rows [][]string
		for _, c := range r.Clauses {
			waived := "no"
			if c.IsWaived {
				waived = "yes"
			}
			rows = append(rows, []string{code(c.Clause), escape(c.Text), Integer(c.Outputs), waived})
		}
		p.table([]string{"clause", "it says", "outputs:", "waived"}, rows)
	}
	if len(r.Allowances) > 0 {
		p.line("\nKnown errors of the profile's kernels, which were allowed:\n")
		var rows [][]string
		for _, a := range r.Allowances {
			rows = append(rows, []string{escape(a.Text), Integer(a.Outputs)})
		}
		p.table([]string{"allowance", "outputs that needed it:"}, rows)
	}
}

// percent formats a share: 0.4375 is 43.8 %.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }
