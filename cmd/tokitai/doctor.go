package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
)

func newDoctor() *cobra.Command {
	var asJSON bool
	var device string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "what is here, and does it work",
		Long: `What this program found: its build, the processor with the instruction sets that
matter, memory, workers and devices, with what compiles kernels for them. Then the
kernels of every operation for DEVICE, in each of f16, bf16 and f32 that it can be
stored in, have to reproduce the reference's answers on this machine. Exits with 4 if
one does not.

These are the few answers without which no kernel runs. 'tokitai verify' checks
kernels thoroughly, and leaves reports.`,
		Example: `  tokitai doctor
  tokitai doctor --device cpu
  tokitai doctor --json`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkDevice(device); err != nil {
				return err
			}
			d, err := examine(c, device)
			if err != nil {
				return err
			}
			return d.report(c.OutOrStdout(), asJSON)
		},
	}
	c.Flags().StringVar(&device, "device", "auto", "test the kernels for `DEVICE`: auto, cpu, cuda:0 or sim")
	c.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(deviceNames, cobra.ShellCompDirectiveNoFileComp))
	jsonFlag(c, &asJSON)
	return c
}

// diagnosis is what doctor prints for machines.
type diagnosis struct {
	build
	CPU         string           `json:"cpu"`
	Features    []string         `json:"cpu_features"`
	Cores       int              `json:"cores"`
	Workers     int              `json:"workers"`
	MemoryBytes int64            `json:"memory_bytes,omitempty"`
	Devices     []foundDevice    `json:"devices"`
	Tested      string           `json:"tested"` // the device of the self-tests
	SelfTests   []selfTestResult `json:"self_tests"`
}

// foundDevice is available if kernels can run on it.
type foundDevice struct {
	Name         string `json:"name"`
	Available    bool   `json:"available"`
	Reason       string `json:"reason,omitempty"` // why it is not available
	Description  string `json:"description,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	Units        int    `json:"units,omitempty"`
	MemoryBytes  int64  `json:"memory_bytes,omitempty"`
	Driver       string `json:"driver,omitempty"`
	Compiler     string `json:"compiler,omitempty"`
	CompilerPath string `json:"compiler_path,omitempty"`
}

type selfTestResult struct {
	Lowering string `json:"lowering"`
	DType    string `json:"dtype"`
	Verdict  string `json:"verdict"` // ok or failed
	Reason   string `json:"reason,omitempty"`
	err      error
}

func examine(c *cobra.Command, tested string) (*diagnosis, error) {
	host, err := engine.Open("cpu")
	if err != nil {
		return nil, err
	}
	defer host.Close()
	about := host.Describe()
	dev, err := engine.Open(tested)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	d := &diagnosis{
		build: thisBuild(), CPU: about.Name, Features: append([]string{}, about.Features...),
		Cores: runtime.NumCPU(), Workers: about.Units, MemoryBytes: about.MemoryBytes,
		Devices: findDevices(), Tested: dev.Name(),
	}
	q, err := engine.NewQueue(dev, engine.WithLog(warnings(io.Discard)))
	if err != nil {
		return nil, err
	}
	defer q.Close()
	q = q.WithContext(c.Context())
	d.SelfTests = selfTests(q, all.Operations)
	return d, nil
}

// findDevices tries the devices that may be here.
func findDevices() []foundDevice {
	var found []foundDevice
	for _, name := range engine.DeviceNames() {
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

// examine opens the device, and what compiles for it.
func (f *foundDevice) examine() error {
	dev, err := engine.Open(f.Name)
	if err != nil {
		return err
	}
	defer dev.Close()
	if dev.Kind() == "cpu" {
		return nil // the lines above tell
	}
	about := dev.Describe()
	f.Description, f.Architecture, f.Units, f.MemoryBytes, f.Driver = about.Name, about.Architecture, about.Units, about.MemoryBytes, about.Driver
	compiler, err := engine.CompilerOf(dev)
	if err != nil {
		return fmt.Errorf("no compiler: %w", err)
	}
	f.Compiler = fmt.Sprint(compiler)
	if file, ok := compiler.(interface{ Path() string }); ok {
		f.CompilerPath = file.Path()
	}
	return nil
}

// selfTests admits every definition in every format that it can be stored in.
func selfTests(q *engine.Queue, operations []*op.Operation) []selfTestResult {
	var results []selfTestResult
	seen := map[*def.Definition]bool{}
	for _, o := range operations {
		for _, definition := range o.Definitions {
			if seen[definition] {
				continue
			}
			seen[definition] = true
			for _, dtype := range num.FloatDTypes {
				if dtypes := formatsIn(definition, dtype); definition.Format(dtypes) == dtype {
					results = append(results, selfTest(q, definition, dtypes))
				}
			}
		}
	}
	return results
}

// selfTest admits the lowering of a definition for every class of shapes.
func selfTest(q *engine.Queue, d *def.Definition, dtypes []num.DType, opts ...engine.Option) selfTestResult {
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

// report prints the diagnosis, and returns the first self-test's failure.
func (d *diagnosis) report(w io.Writer, asJSON bool) error {
	write := d.print
	if asJSON {
		write = func(w io.Writer) error { return printJSON(w, d) }
	}
	if err := write(w); err != nil {
		return err
	}
	for _, t := range d.SelfTests {
		if t.err != nil {
			return t.err
		}
	}
	return nil
}

func (d *diagnosis) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "program\t%s %s\n", d.Tool, d.Version)
	if d.Revision != "" {
		fmt.Fprintf(table, "revision\t%s\n", d.Revision)
	}
	fmt.Fprintf(table, "built with\t%s for %s/%s\n", d.Go, d.OS, d.Arch)
	fmt.Fprintf(table, "processor\t%s\n", d.CPU)
	fmt.Fprintf(table, "features\t%s\n", strings.Join(d.Features, " "))
	fmt.Fprintf(table, "cores\t%d\n", d.Cores)
	fmt.Fprintf(table, "workers\t%d\n", d.Workers)
	if d.MemoryBytes > 0 {
		fmt.Fprintf(table, "memory\t%.1f GiB\n", float64(d.MemoryBytes)/(1<<30))
	} else {
		fmt.Fprintf(table, "memory\tunknown\n")
	}
	table.Flush()

	fmt.Fprint(w, "\ndevices\n")
	for _, dev := range d.Devices {
		state := "available"
		if !dev.Available {
			state = dev.Reason
		}
		fmt.Fprintf(table, "  %s\t%s\n", dev.Name, state)
		if dev.Description != "" {
			fmt.Fprintf(table, "  \t%s, %s, %d multiprocessors, %.1f GiB, %s\n", dev.Description, dev.Architecture, dev.Units, float64(dev.MemoryBytes)/(1<<30), dev.Driver)
		}
		if dev.Compiler != "" {
			fmt.Fprintf(table, "  \t%s, %s\n", dev.Compiler, dev.CompilerPath)
		}
	}
	table.Flush()

	fmt.Fprintf(w, "\nself-test: the reference's bits, on %s\n", d.Tested)
	for i := 0; i < len(d.SelfTests); {
		lowering := d.SelfTests[i].Lowering
		fmt.Fprintf(table, "  %s", lowering)
		var reasons []string
		for ; i < len(d.SelfTests) && d.SelfTests[i].Lowering == lowering; i++ {
			t := d.SelfTests[i]
			fmt.Fprintf(table, "\t%s %s", t.DType, t.Verdict)
			if t.Reason != "" {
				reasons = append(reasons, t.Reason)
			}
		}
		fmt.Fprintln(table)
		for _, reason := range reasons {
			fmt.Fprintf(table, "    %s\n", reason)
		}
	}
	return table.Flush()
}
