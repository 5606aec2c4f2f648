package docs_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tokitai/bench/chart"
	"tokitai/bench/peers"
)

// measurement is a report of `tokitai bench --json`: what the documents state of it.
type measurement struct {
	Device struct {
		Name   string `json:"name"`
		Driver string `json:"driver"`
	} `json:"device"`
	Copy struct {
		Least float64 `json:"least_gbps"`
		Most  float64 `json:"most_gbps"`
	} `json:"copy"`
	Results []speed `json:"results"`
}

type speed struct {
	Op       string  `json:"op"`
	Shape    string  `json:"shape"`
	DType    string  `json:"dtype"`
	Lowering string  `json:"lowering"`
	Share    float64 `json:"share"`
	TFLOPS   float64 `json:"tflops"`
	Error    string  `json:"error"`
	Library  *struct {
		Name  string  `json:"name"`
		Ratio float64 `json:"ratio"`
	} `json:"library"`
}

// usesTensorCores reports whether the kernel is one for tensor cores.
func (s *speed) usesTensorCores() bool {
	return strings.HasSuffix(s.Lowering, "/cuda.hopper") || strings.HasSuffix(s.Lowering, "/cuda.mma")
}

func (s *speed) cell() string {
	if s.TFLOPS > 0 {
		return fmt.Sprintf("%.0f TFLOP/s", s.TFLOPS)
	}
	return fmt.Sprintf("%.2f", s.Share)
}

// TestSpeeds writes the tables of speeds from the records in bench.
func TestSpeeds(t *testing.T) {
	reports := measurementsIn(t, "bench/h200.json")
	hold(t, "gpu.md", "speeds", speedTables(t, reports))
	hold(t, "kernel-processes.md", "speeds", "```\n"+strings.TrimSpace(readText(t, "bench/processes.txt"))+"\n```")

	figure := func(op, shape string) string {
		for _, r := range reports {
			for _, s := range r.Results {
				if s.Op == op && s.Shape == shape && s.DType == "f16" {
					return s.cell()
				}
			}
		}
		t.Fatalf("the record has no %s of %s in f16", op, shape)
		return ""
	}
	hopper, mma := productsIn(t, reports, "cuda.hopper"), productsIn(t, reports, "cuda.mma")
	hold(t, "gpu.md", "products", hopper.table(t)+"\n"+mma.table(t))
	mean, least := hopper.ratios()
	hold(t, "../README.md", "speed", fmt.Sprintf("Fixed bits cost little where memory is the limit. On an %s, softmax of 1,024 columns in f16 runs at %s of the speed of copying the same bytes, "+
		"and AdamW at %s.\nMatrix products in f16 and bf16 on its tensor cores run at %.2f times the speed of %s in the same run: the geometric mean of %d cases, the least %.2f. "+
		"[docs/gpu.md](docs/gpu.md#speed) has the tables.\n",
		reports[0].Device.Name, figure("softmax.forward", "R=131072,C=1024"), figure("adamw.step", "R=131072,C=1024"), mean, hopper[0].Library.Name, len(hopper), least))
}

// products are matrix products by one lowering for tensor cores, beside a library.
type products []speed

func productsIn(t *testing.T, reports []measurement, lowering string) (p products) {
	t.Helper()
	for _, r := range reports {
		for _, s := range r.Results {
			if strings.HasSuffix(s.Lowering, "/"+lowering) && s.Library != nil {
				p = append(p, s)
			}
		}
	}
	if len(p) == 0 {
		t.Fatalf("the record has no products by %s beside a library", lowering)
	}
	return p
}

// ratios returns the geometric mean and the least of how many times as fast as the library the
// products are.
func (p products) ratios() (mean, least float64) {
	least = p[0].Library.Ratio
	for _, s := range p {
		mean += math.Log(s.Library.Ratio) / float64(len(p))
		least = min(least, s.Library.Ratio)
	}
	return math.Exp(mean), least
}

// table lists the products of each format.
func (p products) table(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	_, lowering, _ := strings.Cut(p[0].Lowering, "/")
	fmt.Fprintf(&b, "`%s`, TFLOP/s, and how many times as fast as %s:\n\n| operation | sizes | f16 | bf16 |\n|---|---|---:|---:|\n", lowering, p[0].Library.Name)
	eachRow(p, func(s speed) string { return s.Op + " " + s.Shape }, func(group []speed) {
		fmt.Fprintf(&b, "| %s | %s |", group[0].Op, strings.ReplaceAll(group[0].Shape, ",", ", "))
		for _, format := range []string{"f16", "bf16"} {
			i := slices.IndexFunc(group, func(s speed) bool { return s.DType == format })
			if i < 0 {
				t.Fatalf("the record has no %s of %s in %s by %s", group[0].Op, group[0].Shape, format, lowering)
			}
			fmt.Fprintf(&b, " %.0f (%.2f) |", group[i].TFLOPS, group[i].Library.Ratio)
		}
		b.WriteString("\n")
	})
	return b.String()
}

// TestPeers writes the page of the record of peers.
func TestPeers(t *testing.T) {
	data, err := os.ReadFile("bench/peers.json")
	if err != nil {
		t.Fatal(err)
	}
	var report peers.Report
	if err := json.Unmarshal(data, &report); err != nil {
		t.Fatalf("bench/peers.json: %v", err)
	}
	if report.Partial {
		t.Fatal("bench/peers.json is partial: the run ended before everything was measured")
	}
	holdFile(t, "bench/peers.md", report.Markdown())
}

// TestPictures draws the pictures of the records.
func TestPictures(t *testing.T) {
	for _, name := range []string{"h200", "peers"} {
		r, err := chart.Parse([]byte(readText(t, "bench/"+name+".json")))
		if err != nil {
			t.Fatalf("bench/%s.json: %v", name, err)
		}
		holdFile(t, "bench/"+name+".svg", r.Picture())
	}
}

// measurementsIn reads a record: an array of reports.
func measurementsIn(t *testing.T, file string) (reports []measurement) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &reports); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, r := range reports {
		for _, s := range r.Results {
			if s.Error != "" {
				t.Fatalf("%s: %s in %s failed: %s", file, s.Op, s.DType, s.Error)
			}
		}
	}
	return reports
}

// speedTables shows a record: operations that were measured at several row lengths in a
// table by length, the others in a table by format.
func speedTables(t *testing.T, reports []measurement) string {
	t.Helper()
	var all []speed
	least, most := reports[0].Copy.Least, reports[0].Copy.Most
	for _, r := range reports {
		for _, s := range r.Results {
			if !s.usesTensorCores() {
				all = append(all, s)
			}
		}
		least, most = min(least, r.Copy.Least), max(most, r.Copy.Most)
	}
	lengths := map[string][]int{} // of an operation's rows
	var columns []int
	for _, s := range all {
		if c := rowLength(s.Shape); c > 0 && !slices.Contains(lengths[s.Op], c) {
			lengths[s.Op] = append(lengths[s.Op], c)
		}
	}
	for _, cs := range lengths {
		if len(cs) > 1 {
			columns = append(columns, cs...)
		}
	}
	slices.Sort(columns)
	columns = slices.Compact(columns)

	var b strings.Builder
	fmt.Fprintf(&b, "Measured on an %s, %s, where a copy moves %.1f to %.1f TB/s. Rows by their number of columns:\n\n| operation | format |", reports[0].Device.Name, reports[0].Device.Driver, least/1e3, most/1e3)
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", thousands(c))
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---:|", len(columns)) + "\n")
	eachRow(all, func(s speed) string { return s.Op + " " + s.DType }, func(group []speed) {
		if len(lengths[group[0].Op]) < 2 {
			return
		}
		fmt.Fprintf(&b, "| %s | %s |", group[0].Op, group[0].DType)
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", find(group, func(s speed) bool { return rowLength(s.Shape) == c }))
		}
		b.WriteString("\n")
	})
	b.WriteString("\nThe others by format:\n\n| operation | sizes | f16 | bf16 | f32 |\n|---|---|---:|---:|---:|\n")
	eachRow(all, func(s speed) string { return s.Op + " " + s.Shape }, func(group []speed) {
		if len(lengths[group[0].Op]) > 1 {
			return
		}
		fmt.Fprintf(&b, "| %s | %s |", group[0].Op, strings.ReplaceAll(group[0].Shape, ",", ", "))
		for _, format := range []string{"f16", "bf16", "f32"} {
			fmt.Fprintf(&b, " %s |", find(group, func(s speed) bool { return s.DType == format }))
		}
		b.WriteString("\n")
	})
	return b.String()
}

var columnsOf = regexp.MustCompile(`^R=\d+,C=(\d+)$`)

// rowLength returns the C of a shape R=…,C=…, or 0.
func rowLength(shape string) int {
	m := columnsOf.FindStringSubmatch(shape)
	if m == nil {
		return 0
	}
	c, _ := strconv.Atoi(m[1])
	return c
}

// eachRow calls row for the results of each key, in the order of their first ones.
func eachRow(all []speed, key func(speed) string, row func([]speed)) {
	var keys []string
	groups := map[string][]speed{}
	for _, s := range all {
		k := key(s)
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], s)
	}
	for _, k := range keys {
		row(groups[k])
	}
}

// find returns the cell of the result that fits, or nothing.
func find(group []speed, fits func(speed) bool) string {
	i := slices.IndexFunc(group, fits)
	if i < 0 {
		return ""
	}
	return group[i].cell()
}
