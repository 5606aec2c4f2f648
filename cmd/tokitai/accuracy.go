package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tokitai/accuracy"
	"tokitai/op"
)

func newAccuracy() *cobra.Command {
	var asMarkdown, asJSON bool
	c := &cobra.Command{
		Use:   "accuracy [OP]...",
		Short: "how far results are from the real numbers",
		Long: `Measures every operation, or those that are named, on named kinds of data: what
its definition promises, how far the answer is from the truth, which is enclosed by
proven bounds, and how often it is not the correctly rounded one. Figures are in
units in the last place of the output's format. A result outside its promise is an
error. OP may be a group: softmax is softmax.forward and softmax.backward.

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
				return wrongUse("--markdown prints the document of all operations: name none")
			case asMarkdown && asJSON:
				return wrongUse("--markdown and --json exclude each other")
			}
			rows, err := measure(c, operations)
			if err != nil {
				return err
			}
			switch {
			case asMarkdown:
				_, err = io.WriteString(c.OutOrStdout(), accuracy.Markdown(rows))
				return err
			case asJSON:
				return printJSON(c.OutOrStdout(), measuredRows(rows))
			}
			return printRows(c.OutOrStdout(), rows)
		},
	}
	c.Flags().BoolVar(&asMarkdown, "markdown", false, "print the document of all operations")
	jsonFlag(c, &asJSON)
	return c
}

// measure tells on a terminal which operation it is at.
func measure(c *cobra.Command, operations []*op.Operation) ([]accuracy.Row, error) {
	progress := progressOn(c.ErrOrStderr())
	defer progress.end()
	var rows []accuracy.Row
	for i, o := range operations {
		progress.say("%s (%d of %d)", o.Name, i+1, len(operations))
		r, err := accuracy.Measure([]*op.Operation{o}, accuracy.Options{})
		if err != nil {
			return nil, err
		}
		if err := c.Context().Err(); err != nil {
			return nil, err
		}
		rows = append(rows, r...)
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

func printRows(w io.Writer, rows []accuracy.Row) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "operation\tdata\tdtype\toutput\telements\tpromise, median\tworst\tmeasured, median\tworst\tmisrounded\t\n")
	for _, r := range measuredRows(rows) {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f %%\t\n", r.Op, r.Data, r.DType, r.Output,
			r.Elements, r.PromiseMedian, r.PromiseWorst, r.Median, r.Worst, 100*r.Misrounded)
	}
	return table.Flush()
}
