// Package html writes reports of verifications as one HTML page, for people to look at. The
// page needs no script, no network and no other file. Every number on it is one of the
// reports', or a sum of them. The package does not know how a verdict was reached.
//
// The page is well-formed XML too, so that anything that reads XML can read it. Names and
// texts come from kernels that nobody trusts: html/template escapes them, and characters that
// no page may have are replaced.
//
// Start with [Write]. Page.go decides what is shown, chart.go draws, page.html and page.css
// lay it out.
package html

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"sync"

	"tokitai/evidence"
)

// Extra is what a page shows beside the reports.
type Extra struct {
	Title   string   // what was judged, such as my_softmax.py; "" names the tool alone
	Command string   // a command that runs everything again; "" if there is none
	Replays []string // by report: a command that runs it again, or ""
	Notes   []string // what else a reader must know, in sentences

	Mutants []Mutants
}

// Mutants says how many kernels that are wrong on purpose the same checks find.
type Mutants struct {
	Op       string // the operation
	Of       int    // wrong kernels
	Found    int    // of these, those that a verification rejects
	AllClose int    // of these, those that allclose(rtol = atol = 1e-2) rejects
}

//go:embed page.html
var pageText string

//go:embed page.css
var style string

// page is parsed when a page is written: a program that writes none starts faster.
var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(functions).Parse(pageText))
})

// Write writes reports as one page, those that were rejected first. The reports must be
// consistent: see [evidence.Report.Check].
func Write(w io.Writer, reports []*evidence.Report, extra Extra) error {
	if len(reports) == 0 {
		return errors.New("evidence/html: no reports to write")
	}
	if n := len(extra.Replays); n != 0 && n != len(reports) {
		return fmt.Errorf("evidence/html: got %d commands for %d reports, want one for each", n, len(reports))
	}
	for _, r := range reports {
		if err := r.Check(); err != nil {
			return err
		}
	}
	return page().Execute(w, newPage(reports, extra))
}
