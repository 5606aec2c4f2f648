package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tokitai/accuracy"
	"tokitai/op"
)

func newAccuracy() *cobra.Command {
	var asMarkdown, asJSON bool
	c := &cobra.Command{
		Use:   "accuracy [OP]...",
		Short: "measure how accurate results are",
		Long: `Measure the accuracy of every operation, or of the named ones, on named kinds of
data: the error that its definition promises, the error against the real-number
result, which is enclosed by proven bounds, and how often a result is not the
correctly rounded one. Figures are in units in the last place of the output's
format. A result outside its promise is an error. OP may be a group: softmax is
softmax.forward and softmax.backward.

With --markdown it prints docs/accuracy.md, with the bounds in closed form.`,
		Example: `  tokitai accuracy norm.clip
  tokitai accuracy gelu.forward --json`,
		ValidArgsFunction: completeOperations,
		RunE: func(c *cobra.Command, args []string) error {
			operations, err := chosenOperations(args)
			if err != nil {
				return err
			}
			switch {
			case asMarkdown && len(args) > 0:
				return wrongUse("--markdown prints docs/accuracy.md, which has all operations: want no operation")
			case asMarkdown && asJSON:
				return wrongUse("--markdown and --json cannot be used together")
			}
			w := c.OutOrStdout()
			table := newAccuracyTable(w, operations)
			if !asMarkdown && !asJSON {
				table.head()
			} else {
				table = nil
			}
			rows, err := measure(c, operations, table)
			if err != nil {
				return err
			}
			for _, o := range operations {
				if hasOnlyIntOutputs(o) {
					fmt.Fprintf(c.ErrOrStderr(), "left out: %s has only int32 outputs, which have no error in ulps\n", o.Name)
				}
			}
			switch {
			case asMarkdown:
				_, err = io.WriteString(w, accuracy.Markdown(rows))
			case asJSON:
				err = printJSON(w, measuredRows(rows))
			}
			return err
		},
	}
	c.Flags().BoolVar(&asMarkdown, "markdown", false, "print docs/accuracy.md, for all operations")
	jsonFlag(c, &asJSON)
	return c
}

// hasOnlyIntOutputs reports whether all outputs of an operation are int32.
func hasOnlyIntOutputs(o *op.Operation) bool {
	for _, d := range o.Definitions {
		for i := range d.Operands {
			if d.Operands[i].IsOut && !d.Operands[i].IsInt() {
				return false
			}
		}
	}
	return len(o.Definitions) > 0
}

// measure measures operations and, if table is not nil, prints rows as they are done.
func measure(c *cobra.Command, operations []*op.Operation, table *accuracyTable) ([]accuracy.Row, error) {
	progress := startProgress(c)
	defer progress.end()
	tell := func(rows []accuracy.Row, done, total int) {
		if c.Context().Err() != nil {
			return
		}
		after := ""
		if len(rows) > 0 {
			after = ", now after " + rows[0].Operation.Name
		}
		progress.say("%d of %d kinds of data and formats%s", done, total, after)
		progress.of(float64(done), 0, float64(total))
		if table != nil {
			progress.aside(func() { table.rows(measuredRows(rows)) })
		}
	}
	var rows []accuracy.Row
	err := untilInterrupted(c.Context(), func() (err error) {
		rows, err = accuracy.Measure(operations, accuracy.Options{Tell: tell})
		return err
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

type measuredRow struct {
	Op            string  `json:"op"`
	Data          string  `json:"data"`
	DType         string  `json:"dtype"`
	Output        string  `json:"output"`
	OutputDType   string  `json:"output_dtype"`
	Elements      int     `json:"elements"`
	PromiseMedian float64 `json:"promise_median_ulp"`
	PromiseWorst  float64 `json:"promise_worst_ulp"`
	Median        float64 `json:"median_error_ulp"`
	Worst         float64 `json:"worst_error_ulp"`
	Misrounded    float64 `json:"misrounded"` // share of the elements that are known
	Undecided     int     `json:"undecided"`
	Unknown       int     `json:"unknown"`
}

func measuredRows(rows []accuracy.Row) []measuredRow {
	all := []measuredRow{}
	for _, r := range rows {
		all = append(all, measuredRow{
			Op: r.Operation.Name, Data: r.Data.Name, DType: r.DType.String(), Output: r.Output, OutputDType: r.Storage.String(),
			Elements: r.Elements, PromiseMedian: r.Promise.Median, PromiseWorst: r.Promise.Worst,
			Median: r.Measured.Median, Worst: r.Measured.Worst,
			Misrounded: float64(r.Misrounded) / float64(max(1, r.Elements-r.Unknown)), Undecided: r.Undecided, Unknown: r.Unknown,
		})
	}
	return all
}

// accuracyTable prints row by row, with column widths known before the first.
type accuracyTable struct {
	w                   io.Writer
	name, data, outputs int // widths
}

func newAccuracyTable(w io.Writer, operations []*op.Operation) *accuracyTable {
	t := &accuracyTable{w: w, name: len("operation"), data: len("data"), outputs: len("output")}
	for _, o := range operations {
		t.name = max(t.name, len(o.Name))
		for _, d := range o.Data {
			t.data = max(t.data, len(d.Name))
			for _, operand := range d.Definition.Operands {
				t.outputs = max(t.outputs, len(operand.Name))
			}
		}
	}
	return t
}

func (t *accuracyTable) line(operation, data, dtype, output string, figures ...any) {
	fmt.Fprintf(t.w, "%-*s  %-*s  %-5s  %-*s", t.name, operation, t.data, data, dtype, t.outputs, output)
	fmt.Fprintf(t.w, "  %8v  %15v  %9v  %16v  %9v  %10v\n", figures...)
	flush(t.w)
}

func (t *accuracyTable) head() {
	t.line("operation", "data", "dtype", "output", "elements", "promise, median", "worst", "measured, median", "worst", "misrounded")
}

func (t *accuracyTable) rows(rows []measuredRow) {
	figure := func(x float64) string { return fmt.Sprintf("%.3f", x) }
	for _, r := range rows {
		t.line(r.Op, r.Data, r.DType, r.Output, r.Elements, figure(r.PromiseMedian), figure(r.PromiseWorst),
			figure(r.Median), figure(r.Worst), fmt.Sprintf("%.3f %%", 100*r.Misrounded))
	}
}
