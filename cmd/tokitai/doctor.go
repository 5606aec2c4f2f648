package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"text/tabwriter"

	"github.com/spf13/cobra"

	backends "tokitai/backend/all"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
)

func newDoctor() *cobra.Command {
	var asJSON bool
	var device string
	var soaking soakFlags
	c := &cobra.Command{
		Use:   "doctor",
		Short: "show what this machine has, and test the kernels",
		Long: `Print what this program found: its build, the processor, its features and the
instruction sets that kernels are made for, memory, workers and devices, and the
compilers for them. Then test the kernels of every operation on DEVICE, in f16, bf16 and
f32: they must reproduce the reference's answers on this machine. The exit code is 4 if
one does not.

The environment variable TOKITAI_CPU limits the instruction sets of the processor: avx512,
avx2, neon or plain, which makes no machine code at run time. All give the same bits.

This is the short self-test that every kernel must pass before it is used.
'tokitai verify' checks kernels thoroughly and writes reports.

With --soak TIME, look for a chip that computes wrongly instead. Every multiprocessor of a
GPU, or every core, is held to answers that are known, again and again, and most of the
memory to patterns, for this time. What is told: which multiprocessors or cores answered,
how much of the memory was held, temperature, power, what slowed the chip down, and its
counters of errors before and after. A wrong answer is placed: multiprocessor or core, lane,
address and bits. The exit code is 3 if there is one, and 4 if a part of the chip gave no
answer or the soak was cut short. 'tokitai evidence sign' signs the report of --out.
Nothing else should run on the device.`,
		Example: `  tokitai doctor
  tokitai doctor --device cpu
  tokitai doctor --json
  tokitai doctor --soak 10m --device cuda:0 --out soak.json`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := cmp.Or(checkDevice(device), soaking.check(c)); err != nil {
				return err
			}
			if soaking.time > 0 {
				return soaking.run(c, device, asJSON)
			}
			return examine(c, device, asJSON)
		},
	}
	deviceFlag(c.Flags(), &device, "auto", "test the kernels for")
	c.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(deviceNames, cobra.ShellCompDirectiveNoFileComp))
	soaking.register(c)
	jsonFlag(c, &asJSON)
	return c
}

// diagnosis is the JSON output of doctor.
type diagnosis struct {
	build
	CPU         string           `json:"cpu"`
	Features    []string         `json:"cpu_features"`
	Sets        []string         `json:"instruction_sets"` // that kernels for cpu use, best first
	Note        string           `json:"cpu_note,omitempty"`
	Cores       int              `json:"cores"`
	Workers     int              `json:"workers"`
	MemoryBytes int64            `json:"memory_bytes,omitempty"`
	Devices     []foundDevice    `json:"devices"`
	Tested      string           `json:"tested"` // the device of the self-tests
	SelfTests   []selfTestResult `json:"self_tests"`
}

// foundDevice is a device that may be here. It is available if kernels can run on it.
type foundDevice struct {
	Name         string `json:"name"`
	Available    bool   `json:"available"`
	Reason       string `json:"reason,omitempty"` // why it is not available
	Description  string `json:"description,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	Units        int    `json:"units,omitempty"`
	MemoryBytes  int64  `json:"memory_bytes,omitempty"`
	Driver       string `json:"driver,omitempty"`
	DriverPath   string `json:"driver_path,omitempty"`
	Compiler     string `json:"compiler,omitempty"`
	CompilerPath string `json:"compiler_path,omitempty"`

	Libraries []foundLibrary `json:"libraries,omitempty"` // of the vendor, which only a name chooses
}

// foundLibrary is a vendor's library, or the reason why it cannot be used.
type foundLibrary struct {
	Name   string `json:"name"` // and version, if it is there
	Path   string `json:"path,omitempty"`
	Reason string `json:"reason,omitempty"`
}

type selfTestResult struct {
	Lowering string `json:"lowering"`
	DType    string `json:"dtype"`
	Verdict  string `json:"verdict"` // ok or failed
	Reason   string `json:"reason,omitempty"`
	err      error
}

// doctored has the operations whose kernels doctor tests. Tests of what else it says have fewer.
var doctored = all.Operations

// examine examines this machine and prints each finding at once.
func examine(c *cobra.Command, tested string, asJSON bool) error {
	w := c.OutOrStdout()
	print := func(text func(io.Writer)) {
		if !asJSON {
			text(w)
			flush(w)
		}
	}
	progress := startProgress(c)
	defer progress.end()
	progress.say("looking for devices")
	host, err := backends.Open("cpu")
	if err != nil {
		return err
	}
	defer host.Close()
	about := host.Describe()
	d := &diagnosis{
		build: thisBuild(), CPU: about.Name, Features: append([]string{}, about.Features...),
		Note: machine.Note(), Cores: runtime.NumCPU(), Workers: about.Units, MemoryBytes: about.MemoryBytes,
	}
	for _, set := range machine.Available() {
		d.Sets = append(d.Sets, set.String())
	}
	print(d.printHost)
	dev, err := backends.Open(tested)
	if err != nil {
		return err
	}
	defer closeUnlessInterrupted(c.Context(), dev)
	d.Devices, d.Tested = findDevices(), dev.Name()
	print(d.printDevices)

	q, err := engine.NewQueue(dev, engine.WithLog(warnings(io.Discard)))
	if err != nil {
		return err
	}
	defer closeUnlessInterrupted(c.Context(), q)
	subjects := selfTestSubjects(dev.Backend(), doctored)
	table := newSelfTestTable(w, subjects)
	print(func(io.Writer) { table.head(d.Tested) })
	err = selfTests(q.WithContext(c.Context()), subjects, func(done int, tests []selfTestResult) {
		progress.say("%d of %d kernels tested on %s", done, len(subjects), d.Tested)
		progress.of(float64(done), 0, float64(len(subjects)))
		d.SelfTests = append(d.SelfTests, tests...)
		if len(tests) > 0 {
			progress.aside(func() { print(func(io.Writer) { table.rows(tests) }) })
		}
	})
	progress.end()
	if err != nil {
		return err
	}
	if asJSON {
		if err := printJSON(w, d); err != nil {
			return err
		}
	}
	return d.failure()
}

// findDevices tries the devices that may be here.
func findDevices() []foundDevice {
	var found []foundDevice
	for _, name := range backends.Find() {
		f := foundDevice{Name: name}
		if err := f.examine(); err != nil {
			f.Reason = err.Error()
			var none *device.NoDeviceError
			if errors.As(err, &none) {
				f.Reason = none.Reason
			}
		}
		f.Available = f.Reason == ""
		found = append(found, f)
	}
	return found
}

// examine opens the device and its compiler.
func (f *foundDevice) examine() error {
	dev, err := backends.Open(f.Name)
	if err != nil {
		return err
	}
	defer dev.Close()
	if dev.Kind() == "cpu" {
		return nil // the lines above tell
	}
	about := dev.Describe()
	f.Description, f.Architecture, f.Units, f.MemoryBytes, f.Driver = about.Name, about.Architecture, about.Units, about.MemoryBytes, about.Driver
	if library, ok := dev.(interface{ DriverPath() string }); ok {
		f.DriverPath = library.DriverPath()
	}
	compiler, err := dev.Compiler()
	if err != nil {
		return fmt.Errorf("no compiler: %w", err)
	}
	if compiler != nil {
		f.Compiler, f.CompilerPath = compiler.String(), compiler.Path()
	}
	f.Libraries = findLibraries(dev.Backend())
	return nil
}

// findLibraries tries the vendors' libraries of a backend.
func findLibraries(b engine.Backend) []foundLibrary {
	var found []foundLibrary
	seen := map[*engine.Lowering]bool{}
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			for _, l := range b.OnDemand(d) {
				if l.OpenLibrary != nil && !seen[l] {
					seen[l] = true
					found = append(found, findLibrary(l))
				}
			}
		}
	}
	return found
}

func findLibrary(l *engine.Lowering) foundLibrary {
	library, err := l.OpenLibrary()
	if err != nil {
		return foundLibrary{Name: l.Library, Reason: oneLine(err.Error())}
	}
	return foundLibrary{Name: library.String(), Path: library.Path()}
}

// selfTestSubject is a definition in one of its formats.
type selfTestSubject struct {
	definition *def.Definition
	dtypes     []num.DType
	lowering   string // id of the lowering that calls prefer
}

// selfTestSubjects lists every definition in every format that it can be stored in.
func selfTestSubjects(b engine.Backend, operations []*op.Operation) []selfTestSubject {
	var list []selfTestSubject
	seen := map[*def.Definition]bool{}
	for _, o := range operations {
		for _, definition := range o.Definitions {
			if seen[definition] {
				continue
			}
			seen[definition] = true
			for _, dtype := range num.AllDTypes {
				if dtypes := definition.DTypes(dtype); dtypes != nil {
					list = append(list, selfTestSubject{definition, dtypes, engine.Lowerings(b, definition)[0].ID(definition)})
				}
			}
		}
	}
	return list
}

// selfTests admits kernels, one per processor at a time, since most of the time goes into
// compilers. It calls tell with the number done, and with the results of a definition once
// all its formats and all definitions before it are done.
func selfTests(q *engine.Queue, subjects []selfTestSubject, tell func(done int, tests []selfTestResult)) error {
	results, isDone := make([]selfTestResult, len(subjects)), make([]bool, len(subjects))
	finished := make(chan int, len(subjects))
	var next atomic.Int64
	for range min(runtime.GOMAXPROCS(0), len(subjects)) {
		go func() {
			for i := int(next.Add(1)) - 1; i < len(subjects); i = int(next.Add(1)) - 1 {
				results[i] = selfTest(q, subjects[i].definition, subjects[i].dtypes)
				finished <- i
			}
		}()
	}
	told := 0
	for done := 1; done <= len(subjects); done++ {
		isDone[<-finished] = true
		if err := q.Context().Err(); err != nil {
			return err
		}
		end := told
		for end < len(subjects) && isDone[end] {
			end++
		}
		for end < len(subjects) && end > told && subjects[end].definition == subjects[end-1].definition {
			end-- // in all its formats
		}
		tell(done, results[told:end])
		told = end
	}
	return nil
}

// selfTest admits the lowering of a definition for every class of shapes.
func selfTest(q *engine.Queue, d *def.Definition, dtypes []num.DType, opts ...engine.CallOption) selfTestResult {
	r := selfTestResult{Lowering: d.Name, DType: d.Format(dtypes).String(), Verdict: "ok"}
	lowering, err := engine.Admit(q, d, dtypes, opts...)
	var inadmissible *engine.InadmissibleError
	switch {
	case errors.As(err, &inadmissible):
		r.Lowering = inadmissible.Lowering
	case err == nil:
		r.Lowering = lowering.ID(d)
	}
	if err != nil {
		r.Verdict, r.Reason, r.err = "failed", err.Error(), err
	}
	return r
}

// failure returns the error of the first self-test that failed, or nil.
func (d *diagnosis) failure() error {
	for _, t := range d.SelfTests {
		if t.err != nil {
			return t.err
		}
	}
	return nil
}

func (d *diagnosis) printHost(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "program\t%s %s\n", d.Tool, d.Version)
	if d.Revision != "" {
		fmt.Fprintf(table, "revision\t%s\n", d.Revision)
	}
	fmt.Fprintf(table, "built with\t%s for %s/%s\n", d.Go, d.OS, d.Arch)
	fmt.Fprintf(table, "processor\t%s\n", d.CPU)
	fmt.Fprintf(table, "features\t%s\n", strings.Join(d.Features, " "))
	fmt.Fprintf(table, "kernels for\t%s\n", strings.Join(d.Sets, " "))
	if d.Note != "" {
		fmt.Fprintf(table, "\t%s\n", d.Note)
	}
	fmt.Fprintf(table, "cores\t%d\n", d.Cores)
	fmt.Fprintf(table, "workers\t%d\n", d.Workers)
	if d.MemoryBytes > 0 {
		fmt.Fprintf(table, "memory\t%.1f GiB\n", float64(d.MemoryBytes)/(1<<30))
	} else {
		fmt.Fprintf(table, "memory\tunknown\n")
	}
	table.Flush()
}

// facts returns what is known of a device.
func (f *foundDevice) facts() []string {
	facts := []string{f.Description}
	if f.Architecture != "" {
		facts = append(facts, f.Architecture)
	}
	if f.Units != 0 {
		facts = append(facts, fmt.Sprintf("%d multiprocessors", f.Units))
	}
	if f.MemoryBytes != 0 {
		facts = append(facts, fmt.Sprintf("%.1f GiB", float64(f.MemoryBytes)/(1<<30)))
	}
	if f.Driver != "" && f.DriverPath == "" { // which has a line of its own
		facts = append(facts, f.Driver)
	}
	return facts
}

func (d *diagnosis) printDevices(w io.Writer) {
	fmt.Fprint(w, "\ndevices\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, dev := range d.Devices {
		state := "available"
		if !dev.Available {
			state = dev.Reason
		}
		fmt.Fprintf(table, "  %s\t%s\n", dev.Name, state)
		if dev.Description != "" {
			fmt.Fprintf(table, "  \t%s\n", strings.Join(dev.facts(), ", "))
		}
		if dev.DriverPath != "" {
			fmt.Fprintf(table, "  \t%s, %s\n", dev.Driver, dev.DriverPath)
		}
		if dev.Compiler != "" {
			fmt.Fprintf(table, "  \t%s, %s\n", dev.Compiler, dev.CompilerPath)
		}
		for _, l := range dev.Libraries {
			if l.Reason != "" {
				fmt.Fprintf(table, "  \tnot installed: %s\n", l.Reason)
			} else {
				fmt.Fprintf(table, "  \t%s, %s\n", l.Name, l.Path)
			}
		}
	}
	table.Flush()
}

// selfTestTable prints a line for each lowering with its formats.
type selfTestTable struct {
	w     io.Writer
	width int
}

func newSelfTestTable(w io.Writer, subjects []selfTestSubject) *selfTestTable {
	t := &selfTestTable{w: w}
	for _, s := range subjects {
		t.width = max(t.width, len(s.lowering))
	}
	return t
}

func (t *selfTestTable) head(device string) {
	fmt.Fprintf(t.w, "\nself-test: the reference's bits, on %s\n", device)
}

func (t *selfTestTable) rows(tests []selfTestResult) {
	for i := 0; i < len(tests); {
		lowering := tests[i].Lowering
		line := fmt.Sprintf("  %-*s", t.width, lowering)
		var reasons []string
		for ; i < len(tests) && tests[i].Lowering == lowering; i++ {
			line += fmt.Sprintf("  %s %s", tests[i].DType, tests[i].Verdict)
			if tests[i].Reason != "" {
				reasons = append(reasons, tests[i].Reason)
			}
		}
		fmt.Fprintln(t.w, line)
		for _, reason := range reasons {
			fmt.Fprintf(t.w, "    %s\n", reason)
		}
	}
}
