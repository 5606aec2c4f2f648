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
	c := &cobra.Command{
		Use:   "doctor",
		Short: "what is here, and does it work",
		Long: `What this program found: its build, the processor with the instruction sets that
matter, memory, workers and devices. Then the kernels of every operation, in each of
f16, bf16 and f32 that it can be stored in, have to reproduce the reference's answers
on this machine. Exits with 4 if one does not.

These are the few answers without which no kernel runs. 'tokitai verify' checks
kernels thoroughly, and leaves reports.`,
		Example: `  tokitai doctor
  tokitai doctor --json`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			d, err := examine(c)
			if err != nil {
				return err
			}
			return d.report(c.OutOrStdout(), asJSON)
		},
	}
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
	SelfTests   []selfTestResult `json:"self_tests"`
}

type foundDevice struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty"` // why it is not available
}

type selfTestResult struct {
	Lowering string `json:"lowering"`
	DType    string `json:"dtype"`
	Verdict  string `json:"verdict"` // ok or failed
	Reason   string `json:"reason,omitempty"`
	err      error
}

func examine(c *cobra.Command) (*diagnosis, error) {
	host, err := engine.Open("cpu")
	if err != nil {
		return nil, err
	}
	defer host.Close()
	about := host.Describe()
	d := &diagnosis{
		build: thisBuild(), CPU: about.Name, Features: append([]string{}, about.Features...),
		Cores: runtime.NumCPU(), Workers: about.Units, MemoryBytes: about.MemoryBytes,
		Devices: findDevices(),
	}
	q, err := engine.NewQueue(host, engine.WithLog(warnings(io.Discard)))
	if err != nil {
		return nil, err
	}
	defer q.Close()
	q = q.WithContext(c.Context())
	d.SelfTests = selfTests(q, all.Operations)
	return d, nil
}

// findDevices tries the first device of every kind.
func findDevices() []foundDevice {
	var found []foundDevice
	for _, name := range []string{"cpu", "cuda:0", "hip:0", "sim"} {
		f := foundDevice{Name: name}
		dev, err := engine.Open(name)
		var none *device.NoDeviceError
		switch {
		case err == nil:
			f.Available = true
			dev.Close()
		case errors.As(err, &none):
			f.Reason = none.Reason
		default:
			f.Reason = err.Error()
		}
		found = append(found, f)
	}
	return found
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
	}
	table.Flush()

	fmt.Fprint(w, "\nself-test: the reference's bits, on this device\n")
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
