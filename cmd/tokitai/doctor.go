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
	"tokitai/op/embedding"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

func newDoctor() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "what is here, and does it work",
		Long: `What this program found: its build, the processor with the instruction sets that
matter, memory, workers and devices. Then a quick self-test: some kernels have to
reproduce known answers on this machine. Exits with 4 if one does not.`,
		Example: `  tokitai doctor
  tokitai doctor --json`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			d, err := examine(c)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(c.OutOrStdout(), d)
			} else {
				err = d.print(c.OutOrStdout())
			}
			return errors.Join(err, d.failure())
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

// doctorTests are one definition for each way to compute on the CPU.
var doctorTests = []*def.Definition{
	softmax.ForwardDefinition, layernorm.BackwardDefinition,
	gemm.ForwardDefinition, embedding.ForwardDefinition, embedding.BackwardDefinition,
}

func examine(c *cobra.Command) (*diagnosis, error) {
	host, err := openDevice("cpu")
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
	for _, definition := range doctorTests {
		for _, dtype := range num.FloatDTypes {
			d.SelfTests = append(d.SelfTests, selfTest(q, definition, dtype))
		}
	}
	return d, nil
}

// findDevices tries the first device of every kind.
func findDevices() []foundDevice {
	var all []foundDevice
	for _, name := range []string{"cpu", "cuda:0", "hip:0", "sim"} {
		found := foundDevice{Name: name}
		dev, err := openDevice(name)
		var none *device.NoDeviceError
		switch {
		case err == nil:
			found.Available = true
			dev.Close()
		case errors.As(err, &none):
			found.Reason = none.Reason
		default:
			found.Reason = err.Error()
		}
		all = append(all, found)
	}
	return all
}

// selfTest makes a small call, which has to be preceded by the admission of the
// lowering that it uses.
func selfTest(q *engine.Queue, d *def.Definition, t num.DType, opts ...engine.Option) selfTestResult {
	r := selfTestResult{Lowering: d.Name, DType: t.String(), Verdict: "ok"}
	var used usedLowerings
	r.err = smallCall(q, d, t, append(opts, engine.WithObserver(&used))...)
	var inadmissible *engine.InadmissibleError
	switch {
	case errors.As(r.err, &inadmissible):
		r.Lowering = inadmissible.Lowering
	case len(used) > 0:
		r.Lowering = used[0].ID
	}
	if r.err != nil {
		r.Verdict, r.Reason = "failed", r.err.Error()
	}
	return r
}

// smallCall computes d on zeros, two of everything.
func smallCall(q *engine.Queue, d *def.Definition, t num.DType, opts ...engine.Option) error {
	var tensors []*tensor.Tensor
	for i, dtype := range formats(d, t) {
		var shape []int
		for range d.Operands[i].Dims {
			shape = append(shape, 2)
		}
		x, err := tensor.New(q.Device(), dtype, shape...)
		if err != nil {
			return err
		}
		defer x.Close()
		tensors = append(tensors, x)
	}
	return engine.Call(q, d, tensors, make([]float64, len(d.Params)), opts...)
}

// failure is the first self-test that failed.
func (d *diagnosis) failure() error {
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

	fmt.Fprint(w, "\nself-test\n")
	for _, t := range d.SelfTests {
		fmt.Fprintf(table, "  %s\t%s\t%s", t.Lowering, t.DType, t.Verdict)
		if t.Reason != "" {
			fmt.Fprintf(table, "\t%s", t.Reason)
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}
