package peers

import (
	"fmt"
	"math"
	"strings"
)

// Line returns a row as a line of text.
func (r *Row) Line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s  %-22s %-4s  %d threads  %s %s ms  %s", r.Op, r.Shape, r.DType, r.Workers, r.Lowering, figure(r.MS), r.speed())
	if r.Share > 0 {
		fmt.Fprintf(&b, "  %.2f of copy", r.Share)
	}
	for _, o := range r.Peers {
		if o.Error != "" {
			fmt.Fprintf(&b, "  %s failed", o.Peer)
			continue
		}
		fmt.Fprintf(&b, "  %s %s ms = %s× (%s to %s)", o.Peer, figure(o.MS), times(o.Ratio), times(o.Least), times(o.Most))
	}
	if r.Allocations > 0 {
		fmt.Fprintf(&b, "  %.1f allocations", r.Allocations)
	}
	return b.String()
}

// speed returns GFLOP/s or GB/s.
func (r *Row) speed() string {
	if r.GFLOPS > 0 {
		return figure(r.GFLOPS) + " GFLOP/s"
	}
	return figure(r.GBps) + " GB/s"
}

// figure formats a number to three digits.
func figure(x float64) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "-"
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	case x >= 1:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// times formats a ratio.
func times(x float64) string {
	if x < 10 {
		return fmt.Sprintf("%.2f", x)
	}
	return figure(x)
}

// Markdown returns the report as a document.
func (r *Report) Markdown() string {
	var b strings.Builder
	b.WriteString("# Speed beside other libraries\n\n")
	fmt.Fprintf(&b, "Measured by `tokitai bench --peers --out docs/bench` on %s (%s), in %d rounds in which every party had a turn.\n", r.Host.CPU, strings.Join(r.Host.Features, ", "), r.Rounds)
	b.WriteString("A ratio is the time of the peer divided by ours in the same round: above 1 we are faster. It is the median over the rounds, with the least and the greatest in brackets. *Disturbed* is one whose rounds differ by more than a factor of 4; it counts nowhere.\n")
	b.WriteString("All have the same operands and the same number of threads. Operands of more than 4 MiB are not in a cache: calls rotate over several sets of them.\n")
	b.WriteString("*Of copy* compares with copying as many bytes in the same memory in the same run: 1 is as fast as copying. Our results have the reference's bits, checked before and after timing.\n")
	for _, p := range r.Peers {
		if p.Problem != "" {
			fmt.Fprintf(&b, "\n- %s: not installed: %s", p.Name, p.Problem)
			continue
		}
		fmt.Fprintf(&b, "\n- %s %s", p.Name, p.Version)
		if len(p.Details) > 0 {
			fmt.Fprintf(&b, " (%s)", strings.Join(p.Details, "; "))
		}
	}
	b.WriteString("\n")
	if r.Partial {
		b.WriteString("\nThe run ended before everything was measured.\n")
	}
	for i := len(r.Host.Workers) - 1; i >= 0; i-- {
		workers := r.Host.Workers[i]
		fmt.Fprintf(&b, "\n## %s\n\n", threads(workers))
		b.WriteString(r.SummaryTable(workers) + "\n" + r.table(workers))
	}
	if len(r.Compile) > 0 {
		b.WriteString("\n## The first call of a definition\n\nA kernel is compiled when its definition is called for the first time, and passes its self-test. Milliseconds, the least of three:\n\n")
		b.WriteString("| operation | format | compiled | with the self-test |\n|---|---|---:|---:|\n")
		for _, c := range r.Compile {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.Op, c.DType, figure(c.MS), figure(c.Admitted))
		}
	}
	return b.String()
}

func threads(n int) string {
	if n == 1 {
		return "1 thread"
	}
	return fmt.Sprintf("%d threads", n)
}

// columns returns the peers that were measured.
func (r *Report) columns() []Library {
	var list []Library
	for _, p := range r.Peers {
		if p.Problem == "" {
			list = append(list, p)
		}
	}
	return list
}

// SummaryTable returns the groups of cases as a table, with geometric means.
func (r *Report) SummaryTable(workers int) string {
	var b strings.Builder
	columns := r.columns()
	b.WriteString("| times as fast as |")
	for _, p := range columns {
		fmt.Fprintf(&b, " %s |", p.Name)
	}
	b.WriteString(" of copy |\n|---|" + strings.Repeat("---:|", len(columns)+1) + "\n")
	for _, s := range r.Summaries(workers) {
		if s.isSecond {
			continue
		}
		fmt.Fprintf(&b, "| %s |", s.Name)
		for _, p := range columns {
			b.WriteString(" " + s.Ratios[p.Peer].cell() + " |")
		}
		fmt.Fprintf(&b, " %s |\n", s.Share.cell())
	}
	return b.String()
}

func (m Mean) cell() string {
	switch m.Count {
	case 0:
		return ""
	case 1:
		return times(m.Mean)
	}
	return fmt.Sprintf("%s (%s to %s)", times(m.Mean), times(m.Least), times(m.Most))
}

// table returns every case with one number of threads.
func (r *Report) table(workers int) string {
	var b strings.Builder
	columns := r.columns()
	b.WriteString("| operation | sizes | format | ms | speed | of copy |")
	for _, p := range columns {
		fmt.Fprintf(&b, " %s ms | ratio |", p.Name)
	}
	b.WriteString("\n|---|---|---|---:|---:|---:|" + strings.Repeat("---:|---:|", len(columns)) + "\n")
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Workers != workers {
			continue
		}
		share := ""
		if row.Share > 0 {
			share = fmt.Sprintf("%.2f", row.Share)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |", row.Op, strings.ReplaceAll(row.Shape, ",", ", "), row.DType, figure(row.MS), row.speed(), share)
		for _, p := range columns {
			b.WriteString(row.cells(p.Peer))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// cells returns a peer's time and ratio.
func (r *Row) cells(peer string) string {
	for _, o := range r.Peers {
		switch {
		case o.Peer != peer:
		case o.Error != "":
			return " failed | |"
		case o.IsDisturbed():
			return fmt.Sprintf(" %s | disturbed |", figure(o.MS))
		default:
			return fmt.Sprintf(" %s | **%s** (%s–%s) |", figure(o.MS), times(o.Ratio), times(o.Least), times(o.Most))
		}
	}
	return " | |"
}
