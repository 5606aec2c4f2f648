package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	backends "tokitai/backend/all"
	"tokitai/backend/cpu"
	"tokitai/bench"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/op"
)

// benchFlags are the flags of bench.
type benchFlags struct {
	device   string
	dtypes   []string
	result   string
	lowering string
	shape    string
	workers  []int
	tensors  int
	sizes    int
	quick    bool
	json     bool
	page     speedsPage
	peers    peersFlags
}

func newBench() *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "bench [OP]...",
		Short: "measure speed, as a share of copying",
		Long: `Measure the speed of every operation, or of the named ones, in every format and with
every lowering that a call may choose. OP may be a group (softmax is softmax.forward
and softmax.backward) or a file that defines an operation (docs/definitions.md).
--shape sets sizes; the others have defaults, which are larger on a GPU.

A time is the median of at least 5 calls, which take 0.2 seconds in total, or 1
second together with the copies between them. Before each call the CPU's workers copy
64 MiB, so that the caches hold other data than the operands. A GPU is measured by its
own clock, with empty caches, and a copy there moves as many bytes as the operation.

GB/s counts the least possible traffic: each input read once, each output written
once; of a table that is read by index, only the rows that are read. Indices are random,
but for positions of heads: 32 heads of each token follow each other. The share is this
speed divided by the speed of the copies between the calls, which count what they read
and write: 1 is as fast as copying. Matrix products have GFLOP/s instead, with two
operations for a product and a sum; attention counts every query with every key of its
sequence, also those that a condition hides. If the slowest and the fastest copy are
far apart, other work is disturbing the measurement.

Results are compared with the reference, bit for bit on a sample of rows, before
and after they are timed. Where all rows are needed and there are too many for the
reference, they are compared with the CPU's own lowering. The exit code is 3 if a result
is wrong, and 4 if a lowering fails its self-test, or after an interrupt; what was
measured is still printed.

With --tensors, the elements are divided into that many tensors, every other one a single
row, and an operation that takes all tensors of a model, such as adamw.step_all, computes
them together. The column "of one" is its speed divided by that of the same calculation on
one tensor, in the same repetitions. A GPU's time does not contain the time in which the
host prepares the calls, which --json has as host_ms.

On NVIDIA's GPUs, cuBLASLt computes matrix products beside ours where it is installed.
Both have their turns in at least 15 repetitions, with the same operands and empty
caches. The ratio is its time divided by ours in the same repetition: the median, with
the least and the greatest. Above 1 we are faster. Its results must be ones that sums in
some order can give, before and after they are timed.

With --sizes, everything is measured at smaller sizes, too: each time half the edges of a
product or half the tokens of a sequence, and a quarter of the rows of everything else.
With --html, a page shows the speeds over the sizes, beside a copy and the fastest peer.
It needs nothing from elsewhere. With --from, it shows what a file has that --json wrote.

With --peers, PyTorch, NumPy and gonum compute the same operands with as many threads,
each in its own process, and all have their turns in the same rounds. Python is python3,
or what TOKITAI_PYTHON names; gonum is built from the source of this project. A ratio is a
peer's time divided by ours in the same round, the median over 5 rounds, with the least and
the greatest. The share of the copy is then that of one with the same traffic in the same
memory. The cases are fixed; OP, --dtype and --peer select from them, and --shape
replaces sizes.`,
		Example: `  tokitai bench softmax --quick
  tokitai bench gemm.forward --dtype f16 --workers 1 --quick
  tokitai bench softmax.forward --dtype f32 --quick --sizes 3 --html speeds.html
  tokitai bench gelu.forward gelu.backward --shape R=16,C=1024 --quick --json
  tokitai bench --peers gelu.forward --peer torch --dtype f32 --workers 1,2 --shape R=16,C=1024 --quick`,
		ValidArgsFunction: completeOperations,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if f.page.from != "" {
				return f.page.show(c, args)
			}
			if err := preparePage(f.page.path); err != nil {
				return err
			}
			if f.peers.isSet {
				return f.runPeers(c, args)
			}
			dev, err := f.open()
			if err != nil {
				return err
			}
			defer closeUnlessInterrupted(c.Context(), dev)
			cases, leftOut, err := f.cases(dev, args)
			if err != nil {
				return err
			}
			return f.run(c, dev, cases, leftOut)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	deviceFlag(flags, &f.device, "auto", "measure on")
	flags.StringSliceVar(&f.dtypes, "dtype", nil, "measure only `DTYPE`: f16, bf16, f32, e4m3, e5m2, i32 or i64; may be repeated")
	flags.StringVar(&f.result, "result", "", "store results in `DTYPE`, where --dtype leaves a choice: f32 for products of f16 or bf16")
	flags.StringVar(&f.lowering, "lowering", "", "measure only `LOWERING`, by name or id, also one that no call chooses by itself")
	flags.StringVar(&f.shape, "shape", "", "`SIZES` by letter, such as R=4096,C=1024; 'tokitai explain OP' lists the letters")
	flags.IntVar(&f.tensors, "tensors", 0, "measure operations that take a model's tensors on `N` of them, beside one tensor of their size")
	flags.IntSliceVar(&f.workers, "workers", nil, "use `N` workers on the CPU; 0 means one per processor; with --peers, a list such as 1,2")
	flags.IntVar(&f.sizes, "sizes", 1, "measure at `N` sizes: the usual ones and smaller ones")
	flags.BoolVar(&f.quick, "quick", false, "smaller shapes and fewer repetitions, for a first look")
	jsonFlag(c, &f.json)
	f.page.add(c)
	f.peers.add(c)
	c.AddCommand(newBenchLaunches())
	c.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(deviceNames, cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("dtype", cobra.FixedCompletions(dtypeNames(), cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("result", cobra.FixedCompletions(dtypeNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// cases returns the cases to measure. Every name must have some; leftOut are the
// operations of a group that have none in the wanted formats.
func (f *benchFlags) cases(dev engine.Device, names []string) (cases []*bench.Case, leftOut []string, err error) {
	dtypes, err := parseDTypes(f.dtypes)
	if err != nil {
		return nil, nil, err
	}
	operations, err := chosenOperations(names)
	if err != nil {
		return nil, nil, err
	}
	plan := &bench.Plan{Backend: dev.Backend(), IsQuick: f.quick, DTypes: dtypes, Tensors: f.tensors, Smaller: f.sizes - 1, Lowering: f.lowering}
	if f.result != "" {
		results, err := parseDTypes([]string{f.result})
		if err != nil {
			return nil, nil, err
		}
		plan.Result = &results[0]
	}
	if known := benchLowerings(plan.Backend, operations); f.lowering != "" && !slices.Contains(known, f.lowering) {
		return nil, nil, unknownName("lowering", f.lowering, known)
	}
	if plan.Sizes, err = parseSizes(f.shape, operations); err != nil {
		return nil, nil, err
	}
	var without []string
	for _, o := range operations {
		found := plan.Cases(o)
		cases = append(cases, found...)
		if len(found) > 0 && found[0].Data.Sizes["R"] < f.tensors {
			return nil, nil, wrongUse("--tensors %d: %s has only %d rows to divide; set R in --shape", f.tensors, o.Name, found[0].Data.Sizes["R"])
		}
		switch isNamed := slices.Contains(names, o.Name); {
		case len(found) > 0:
			if !hasSize(o, plan.Sizes) {
				without = append(without, o.Name)
			}
		case f.tensors > 0 && o.Several == nil && isNamed:
			return nil, nil, wrongUse("--tensors %d: %s computes one tensor", f.tensors, o.Name)
		case f.tensors > 0 && o.Several == nil:
		case f.tensors == 0 && len(o.Data) == 0 && isNamed:
			return nil, nil, wrongUse("%s has no data to measure: it runs %s on several tensors; want --tensors N", o.Name, o.Definitions[0].Name)
		case isNamed && f.lowering != "":
			return nil, nil, wrongUse("%s has no lowering %s in these formats", o.Name, f.lowering)
		case isNamed:
			return nil, nil, wrongUse("%s cannot be stored in %s", o.Name, f.formats())
		case len(o.Data) > 0 && len(names) > 0:
			leftOut = append(leftOut, o.Name)
		}
	}
	switch {
	case len(cases) == 0 && len(leftOut) == 0:
		return nil, nil, wrongUse("--tensors %d: none of %s computes several tensors", f.tensors, allOf(names))
	case len(cases) == 0:
		return nil, nil, wrongUse("%s", f.whyLeftOut(leftOut))
	case len(names) > 0 && len(plan.Sizes) > 0 && len(without) > 0:
		return nil, nil, wrongUse("--shape %q: none of these sizes is one of %s", f.shape, allOf(without))
	}
	return cases, leftOut, nil
}

// sizesOf returns the letters of an operation's sizes.
func sizesOf(o *op.Operation) []string {
	switch {
	case len(o.Data) > 0:
		return o.Data[0].Definition.Sizes()
	case o.Several != nil:
		return o.Several.Data.Definition.Sizes()
	}
	return nil
}

func hasSize(o *op.Operation, sizes map[string]int) bool {
	return slices.ContainsFunc(sizesOf(o), func(letter string) bool { return sizes[letter] > 0 })
}

// parseSizes parses sizes such as R=4096,C=1024. Every letter must be a size of one of the
// operations.
func parseSizes(text string, operations []*op.Operation) (map[string]int, error) {
	var letters []string
	for _, o := range operations {
		for _, letter := range sizesOf(o) {
			if !slices.Contains(letters, letter) {
				letters = append(letters, letter)
			}
		}
	}
	sizes := map[string]int{}
	if text == "" {
		return sizes, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		letter, digits, ok := strings.Cut(part, "=")
		n, err := strconv.Atoi(digits)
		_, isRepeated := sizes[letter]
		switch {
		case errors.Is(err, strconv.ErrRange):
			return nil, wrongUse("--shape %q: %s is out of range", text, part)
		case !ok || err != nil || n < 1:
			return nil, wrongUse("--shape %q: %q is not a size, want one such as R=4096", text, part)
		case !slices.Contains(letters, letter):
			return nil, wrongUse("--shape %q: unknown size %q, want %s", text, letter, oneOf(letters))
		case isRepeated:
			return nil, wrongUse("--shape %q: size %s is given twice", text, letter)
		}
		sizes[letter] = n
	}
	return sizes, nil
}

// whyLeftOut says why operations have no case.
func (f *benchFlags) whyLeftOut(names []string) string {
	if f.lowering != "" {
		return fmt.Sprintf("%s have no lowering %s in these formats", allOf(names), f.lowering)
	}
	return fmt.Sprintf("%s cannot be stored in %s", allOf(names), f.formats())
}

// formats names the formats that are measured.
func (f *benchFlags) formats() string {
	text := strings.Join(f.dtypes, " or ")
	switch {
	case f.result == "":
		return text
	case text == "":
		return "any format with results in " + f.result
	}
	return text + " with results in " + f.result
}

// check refuses flags that do not go together.
func (f *benchFlags) check() error {
	for _, n := range f.workers {
		if n < 0 {
			return wrongUse("--workers is %d, want a number of workers, or 0 for one per processor", n)
		}
	}
	const mostSizes = 20
	switch {
	case f.tensors < 0:
		return wrongUse("--tensors is %d, want a number of tensors", f.tensors)
	case f.sizes < 1 || f.sizes > mostSizes:
		return wrongUse("--sizes is %d, want 1 to %d", f.sizes, mostSizes)
	case f.sizes > 1 && f.peers.isSet:
		return wrongUse("--sizes and --peers do not go together: the cases of --peers are fixed")
	case f.page.from != "" && f.page.path == "":
		return wrongUse("--from is %s, want --html too, for the page", f.page.from)
	case f.result != "" && f.peers.isSet:
		return wrongUse("--result and --peers do not go together")
	case f.tensors > 0 && f.peers.isSet:
		return wrongUse("--tensors and --peers do not go together")
	case f.lowering != "" && f.peers.isSet:
		return wrongUse("--lowering and --peers do not go together: peers are measured beside the kernel that a call chooses")
	case !f.peers.isSet && len(f.workers) > 1:
		return wrongUse("--workers has %d numbers, want one, or --peers", len(f.workers))
	case !f.peers.isSet && (f.peers.out != "" || f.peers.with != nil):
		return wrongUse("--out and --peer belong to --peers, which is not given")
	case f.peers.isSet && f.device != "auto" && f.device != cpu.Kind:
		return wrongUse("--peers measures on the CPU, not on %s", f.device)
	}
	return nil
}

// open opens the device, the CPU with the wanted number of workers.
func (f *benchFlags) open() (engine.Device, error) {
	if err := checkDevice(f.device); err != nil {
		return nil, err
	}
	workers := 0
	if len(f.workers) > 0 {
		workers = f.workers[0]
	}
	if f.device != cpu.Kind && workers == 0 {
		return backends.Open(f.device)
	}
	if f.device != cpu.Kind && f.device != "auto" {
		return nil, wrongUse("--workers %d: %s has no workers, want the CPU", workers, f.device)
	}
	dev, err := cpu.New(cpu.Options{Workers: workers})
	if err != nil {
		return nil, wrongUse("--workers: %v", err)
	}
	return dev, nil
}

// checkMemory returns an error if a case does not fit in the device's memory.
func (f *benchFlags) checkMemory(dev device.Device, cases []*bench.Case) error {
	limit, of := dev.Describe().MemoryBytes, "can be addressed"
	if limit > 0 {
		of = fmt.Sprintf("the %.1f GiB of %s", float64(limit)/(1<<30), dev.Name())
	} else {
		limit = math.MaxInt64 - 1
	}
	for _, one := range cases {
		if needs := one.Bytes(); f.shape != "" && needs > limit {
			return wrongUse("--shape %q is too large: %v takes %.1f GiB or more, which is more than %s", f.shape, one, float64(needs)/(1<<30), of)
		}
	}
	return nil
}

func (f *benchFlags) run(c *cobra.Command, dev device.Device, cases []*bench.Case, leftOut []string) error {
	if err := f.checkMemory(dev, cases); err != nil {
		return err
	}
	if len(leftOut) > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "left out: %s\n", f.whyLeftOut(leftOut))
	}
	q, err := engine.NewQueue(dev, engine.WithLog(warnings(io.Discard)))
	if err != nil {
		return err
	}
	defer closeUnlessInterrupted(c.Context(), q)
	var options bench.Options
	if f.quick {
		options = bench.Options{CopyBytes: 16 << 20, Repetitions: 3, Time: 20 * time.Millisecond}
	}
	meter, err := bench.NewMeter(q, options)
	if err != nil {
		return err
	}
	report, table := newBenchReport(dev), newBenchTable(c.OutOrStdout(), cases)
	tell, write := table.row, report.printEnd
	if f.json {
		tell, write = func(benchResult) {}, func(w io.Writer) error { return printJSON(w, report) }
	} else {
		table.head()
	}
	failure := report.measure(c, meter, cases, tell)
	if c.Context().Err() == nil {
		meter.Close()
	}
	if len(report.Results) == 0 && exitCode(failure) == exitFailed {
		return failure // which says it all
	}
	err = write(c.OutOrStdout())
	if err == nil && hasFigures(report.Results) {
		err = f.page.write(report)
	}
	if err != nil && failure == nil {
		return err
	}
	return failure
}

// hasFigures reports whether something was measured.
func hasFigures(results []benchResult) bool {
	return slices.ContainsFunc(results, func(r benchResult) bool { return r.Error == "" })
}

// benchReport is the JSON output of bench.
type benchReport struct {
	build
	Host    benchHost     `json:"host"`
	Device  benchDevice   `json:"device"`
	Copy    benchCopies   `json:"copy"`
	Partial bool          `json:"partial"` // interrupted before everything was measured
	Results []benchResult `json:"results"`
	device  string
	leftOut []string // cases that a lowering leaves to others, and why
}

type benchHost struct {
	CPU      string   `json:"cpu"`
	Features []string `json:"cpu_features"`
	Cores    int      `json:"cores"`
}

// benchDevice describes the device that was measured.
type benchDevice struct {
	Name         string `json:"name"`
	Architecture string `json:"architecture"`
	Driver       string `json:"driver,omitempty"`
	Workers      int    `json:"workers"` // of a GPU, multiprocessors
}

type benchCopies struct {
	Bytes int64   `json:"bytes"` // read and written by one copy
	Count int     `json:"count"`
	GBps  float64 `json:"gbps"` // the median
	Least float64 `json:"least_gbps"`
	Most  float64 `json:"most_gbps"`
}

// benchResult is the result of one case: figures or an error.
type benchResult struct {
	Op          string  `json:"op"`
	Shape       string  `json:"shape"`
	DType       string  `json:"dtype"`
	Device      string  `json:"device"`
	Lowering    string  `json:"lowering"`
	Repetitions int     `json:"repetitions,omitempty"`
	MS          float64 `json:"ms,omitempty"` // the median
	Bytes       int64   `json:"bytes,omitempty"`
	GBps        float64 `json:"gbps,omitempty"`
	TFLOPS      float64 `json:"tflops,omitempty"`
	CopyGBps    float64 `json:"copy_gbps,omitempty"` // the median of the copies between the repetitions
	Share       float64 `json:"share,omitempty"`     // gbps over copy_gbps
	OneMS       float64 `json:"one_ms,omitempty"`    // with --tensors: of one tensor of the same size
	OfOne       float64 `json:"of_one,omitempty"`    // one_ms over ms
	HostMS      float64 `json:"host_ms,omitempty"`   // in which the host made the calls
	Error       string  `json:"error,omitempty"`

	Library *benchLibrary `json:"library,omitempty"`
}

// benchLibrary is a vendor's library that had its turns between the repetitions.
type benchLibrary struct {
	Name      string  `json:"name"`
	Algorithm string  `json:"algorithm,omitempty"`
	MS        float64 `json:"ms,omitempty"`    // the median
	Ratio     float64 `json:"ratio,omitempty"` // its time over ours in the same repetition: the median
	Least     float64 `json:"least_ratio,omitempty"`
	Most      float64 `json:"most_ratio,omitempty"`
	Error     string  `json:"error,omitempty"` // why it was not measured
}

func newBenchReport(dev device.Device) *benchReport {
	about, host := dev.Describe(), cpu.Queue().Device().Describe()
	return &benchReport{
		build: thisBuild(), device: dev.Name(), Results: []benchResult{},
		Host:   benchHost{CPU: host.Name, Features: append([]string{}, host.Features...), Cores: runtime.NumCPU()},
		Device: benchDevice{Name: about.Name, Architecture: about.Architecture, Driver: about.Driver, Workers: about.Units},
	}
}

func copiesOf(m *bench.Meter) benchCopies {
	c := m.Copies()
	return benchCopies{Bytes: c.Bytes, Count: c.Count, GBps: c.Median, Least: c.Least, Most: c.Most}
}

// measure measures the cases and calls tell for each result. It goes on after a lowering
// that is wrong or inadmissible. Of several failures it returns the most severe: a wrong
// result first, then an interrupt.
func (r *benchReport) measure(c *cobra.Command, m *bench.Meter, cases []*bench.Case, tell func(benchResult)) error {
	progress := startProgress(c)
	defer progress.end()
	add := func(row benchResult) {
		r.Results = append(r.Results, row)
		progress.aside(func() { tell(row) })
	}
	var wrong *bench.WrongError
	var ended, inadmissible error
	for i, one := range cases {
		progress.say("%v (%d of %d)", one, i+1, len(cases))
		progress.of(float64(i), 0, float64(len(cases)))
		measured := make(chan *bench.Result, 1)
		err := untilInterrupted(c.Context(), func() error {
			result, err := m.Measure(c.Context(), one)
			measured <- result
			return err
		})
		switch {
		case err == nil:
			add(r.measured(one, <-measured))
			continue
		case c.Context().Err() != nil:
			ended = &verdictError{exitUndecided, fmt.Errorf("interrupted: %d of %d were measured", i, len(cases))}
		case isUnsuited(err):
			r.leftOut = append(r.leftOut, oneLine(err.Error()))
			continue
		case errors.Is(err, engine.ErrInadmissible):
			add(r.failed(one, err))
			inadmissible = err
			continue
		case errors.As(err, &wrong):
			add(r.failed(one, err))
			isRejected.Store(true)
			continue
		default:
			ended = err
		}
		r.Partial = true
		break
	}
	if c.Context().Err() == nil { // otherwise a measurement may still be under way
		r.Copy = copiesOf(m)
	}
	switch {
	case wrong != nil:
		return &verdictError{exitRejected, wrong}
	case ended != nil:
		return ended
	}
	return inadmissible
}

// isUnsuited reports whether a lowering leaves a case to others, because of the device or
// the sizes.
func isUnsuited(err error) bool {
	_, ok := errors.AsType[*engine.UnsuitedError](err)
	return ok
}

func (r *benchReport) row(c *bench.Case) benchResult {
	return benchResult{
		Op: c.Operation.Name, Shape: c.Shape(), DType: c.DType.String(),
		Device: r.device, Lowering: c.Lowering.ID(c.Data.Definition),
	}
}

func (r *benchReport) measured(c *bench.Case, m *bench.Result) benchResult {
	row := r.row(c)
	row.Repetitions, row.MS, row.Bytes, row.CopyGBps = m.Repetitions, m.Seconds*1e3, m.Bytes, m.CopyGBps
	if m.FLOPs > 0 {
		row.TFLOPS = m.TFLOPS()
	} else {
		row.GBps, row.Share = m.GBps(), m.Share()
	}
	if c.Tensors > 0 {
		row.OneMS, row.OfOne, row.HostMS = m.OneSeconds*1e3, m.OfOne(), m.HostSeconds*1e3
	}
	if l := m.Library; l != nil {
		row.Library = &benchLibrary{Name: l.Name, Algorithm: l.Algorithm, MS: l.Seconds * 1e3, Ratio: l.Ratio, Least: l.Least, Most: l.Most}
		if l.Err != nil {
			row.Library.Error = oneLine(l.Err.Error())
		}
	}
	return row
}

func (r *benchReport) failed(c *bench.Case, err error) benchResult {
	row := r.row(c)
	row.Error = err.Error()
	return row
}

// benchTable prints row by row, with column widths known before the first.
type benchTable struct {
	w                          io.Writer
	operation, shape, lowering int    // widths
	library                    string // that is measured beside some cases; "" if none is
	hasOne                     bool   // cases have several tensors
}

func newBenchTable(w io.Writer, cases []*bench.Case) *benchTable {
	t := &benchTable{w: w, operation: len("operation"), shape: len("shape"), lowering: len("lowering")}
	for _, c := range cases {
		t.operation = max(t.operation, len(c.Operation.Name))
		t.shape = max(t.shape, len(c.Shape()))
		t.lowering = max(t.lowering, len(c.Lowering.Name))
		t.hasOne = t.hasOne || c.Tensors > 0
		if c.Library != nil {
			t.library = c.Library.Library
		}
	}
	return t
}

func (t *benchTable) line(operation, shape, dtype, lowering string, figures ...any) {
	fmt.Fprintf(t.w, "%-*s  %-*s  %-5s  %-*s", t.operation, operation, t.shape, shape, dtype, t.lowering, lowering)
	fmt.Fprintf(t.w, "  %9s  %8s  %8s  %13s", figures[:4]...)
	if t.hasOne {
		fmt.Fprintf(t.w, "  %6s", figures[4])
	}
	if t.library != "" {
		fmt.Fprintf(t.w, "  %12s  %s", figures[5:]...)
	}
	fmt.Fprintln(t.w)
	flush(t.w)
}

func (t *benchTable) head() {
	t.line("operation", "shape", "dtype", "lowering", "ms", "GB/s", "GFLOP/s", "share of copy", "of one", t.library+" ms", "ratio")
}

func (t *benchTable) row(x benchResult) {
	figure := func(digits int, v float64) string { return strconv.FormatFloat(v, 'f', digits, 64) }
	figures := []any{figure(3, x.MS), figure(2, x.GBps), "-", figure(3, x.Share), figure(3, x.OfOne)}
	switch {
	case x.Error != "":
		figures = []any{"failed", "-", "-", "-", "-"}
	case x.TFLOPS > 0:
		figures = []any{figure(3, x.MS), "-", figure(2, x.TFLOPS*1e3), "-", "-"}
	}
	theirs, ratio := "-", "-"
	if l := x.Library; l != nil && l.Error == "" {
		theirs, ratio = figure(3, l.MS), fmt.Sprintf("%.3f (%.3f to %.3f)", l.Ratio, l.Least, l.Most)
	}
	figures = append(figures, theirs, ratio)
	t.line(x.Op, x.Shape, x.DType, x.Lowering[strings.LastIndexByte(x.Lowering, '/')+1:], figures...)
}

// printEnd prints the lines after the table.
func (r *benchReport) printEnd(w io.Writer) error {
	fmt.Fprintln(w)
	for _, x := range r.Results {
		if x.Error != "" {
			fmt.Fprintf(w, "failed: %s\n", oneLine(x.Error))
		}
	}
	for _, text := range r.leftOut {
		fmt.Fprintf(w, "left out: %s\n", text)
	}
	var reasons []string
	for _, x := range r.Results {
		if l := x.Library; l != nil && l.Error != "" && !slices.Contains(reasons, l.Error) {
			reasons = append(reasons, l.Error)
			fmt.Fprintf(w, "%s was not measured: %s\n", l.Name, l.Error)
		}
	}
	if r.Partial {
		fmt.Fprintln(w, "partial: ended before everything was measured")
	}
	about := fmt.Sprintf("%d workers", r.Device.Workers)
	if r.device != cpu.Kind {
		about = r.Device.Name
	}
	if r.Copy.Count > 0 {
		about += fmt.Sprintf("; copies of %.0f MiB: %.1f GB/s, from %.1f to %.1f in %d", float64(r.Copy.Bytes)/(1<<20), r.Copy.GBps, r.Copy.Least, r.Copy.Most, r.Copy.Count)
	}
	_, err := fmt.Fprintf(w, "%s, %s\n", r.device, about)
	return err
}

// benchLowerings returns the names and ids of the lowerings that operations have on a backend.
func benchLowerings(b engine.Backend, operations []*op.Operation) []string {
	var names []string
	for _, o := range operations {
		for _, d := range o.Data {
			for _, l := range engine.Lowerings(b, d.Definition) {
				names = append(names, l.Name, l.ID(d.Definition))
			}
		}
	}
	return names
}
