package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	backends "tokitai/backend/all"
	"tokitai/backend/cpu"
	backendgpu "tokitai/backend/gpu"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/evidence/attest"
	"tokitai/internal/newfile"
	"tokitai/op/all"
	"tokitai/soak"
	"tokitai/verify/origin"
)

// soakFlags are the flags of doctor for a soak.
type soakFlags struct {
	time   time.Duration
	memory int64 // MiB
	seed   uint32
	out    string
}

func (f *soakFlags) register(c *cobra.Command) {
	c.Flags().DurationVar(&f.time, "soak", 0, "hold every multiprocessor or core and most of the memory to known answers for this `TIME`, such as 10m")
	c.Flags().Int64Var(&f.memory, "memory", 0, "with --soak: hold so many `MIB` to patterns (default most of what a GPU has free, an eighth of the machine's)")
	c.Flags().Uint32Var(&f.seed, "seed", 1, "with --soak: `SEED` of the answers and patterns")
	c.Flags().StringVar(&f.out, "out", "", "with --soak: write the report to `FILE`, for 'tokitai evidence sign'")
}

func (f *soakFlags) check(c *cobra.Command) error {
	if c.Flags().Changed("soak") {
		switch {
		case f.time < time.Second || f.time > 30*24*time.Hour:
			return wrongUse("--soak is %v, want 1s to 720h", f.time)
		case f.memory < 0 || f.memory > 1<<30:
			return wrongUse("--memory is %d, want a number of MiB", f.memory)
		}
		return nil
	}
	for _, name := range []string{"memory", "seed", "out"} {
		if c.Flags().Changed(name) {
			return wrongUse("--%s needs --soak", name)
		}
	}
	return nil
}

// run soaks a device, and prints and writes the report.
func (f *soakFlags) run(c *cobra.Command, name string, asJSON bool) error {
	program, err := programSHA256()
	if err != nil {
		return err
	}
	dev, err := backends.Open(name)
	if err != nil {
		return err
	}
	defer closeUnlessInterrupted(c.Context(), dev)
	progress := startProgress(c)
	defer progress.end()
	o := soak.Options{Time: f.time, Memory: f.memory << 20, Seed: f.seed, IsSmall: dev.Kind() == "sim"}
	if o.IsSmall && o.Memory > 64<<20 {
		return wrongUse("--memory is %d, want at most 64 for the simulator", f.memory)
	}
	o.Progress = func(done float64, text string) {
		progress.say("soaking %s: %s", dev.Name(), text)
		progress.of(done, 0, 1)
	}
	var r *soak.Report
	if g, ok := dev.(*backendgpu.Device); ok {
		if !soak.CanHold(dev.Kind()) {
			return wrongUse("--soak is for cpu, cuda and sim: which multiprocessor computes what is not known of %s", dev.Name())
		}
		r, err = soak.GPU(c.Context(), g, o)
	} else {
		r, err = soak.Processor(c.Context(), o, coreAnswers)
	}
	progress.end()
	if r == nil {
		return err
	}
	r.Tool, r.Version, r.Host = toolName, version, origin.Host(program)
	data, encoded := r.JSON()
	if encoded != nil {
		return encoded
	}
	if asJSON {
		if _, err := c.OutOrStdout().Write(data); err != nil {
			return err
		}
	} else {
		r.Print(c.OutOrStdout())
	}
	if f.out != "" {
		if err := newfile.Write(f.out, func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		}); err != nil {
			return err
		}
		if !asJSON {
			fmt.Fprintf(c.OutOrStdout(), "%-32s %s\n", "report", f.out)
		}
	}
	switch {
	case err != nil:
		return err
	case r.Verdict == soak.Wrong:
		return &verdictError{exitRejected, fmt.Errorf("%s computes wrongly: %s", r.Device, counted(int(r.FaultsFound), "fault"))}
	case r.Verdict == soak.Undecided:
		return &verdictError{exitUndecided, fmt.Errorf("nothing is decided: %s", r.Reason)}
	}
	return nil
}

// coreAnswers has one core compute the committed answers of every shipped kernel, made anew.
func coreAnswers(ctx context.Context, _ int) (right int, err error) {
	dev, err := cpu.New(cpu.Options{Workers: 1})
	if err != nil {
		return 0, err
	}
	defer dev.Close()
	q, err := engine.NewQueue(dev, engine.WithLog(slog.New(slog.DiscardHandler)))
	if err != nil {
		return 0, err
	}
	defer q.Close()
	q = q.WithContext(ctx)
	var first error
	for _, s := range selfTestSubjects(dev.Backend(), all.Operations) {
		if ctx.Err() != nil {
			return right, ctx.Err()
		}
		if r := selfTest(q, s.definition, s.dtypes); r.err == nil {
			right++
		} else if first == nil {
			first = r.err
		}
	}
	return right, first
}

// soakSubjects returns what a report is about: the chip, and the program that held it to answers.
func soakSubjects(name string, data []byte) ([]attest.Subject, error) {
	r, err := soak.Decode(data)
	if err != nil {
		return nil, &attest.FormatError{Path: name, Reason: err.Error()}
	}
	file, err := r.JSON()
	if err != nil {
		return nil, err
	}
	return []attest.Subject{attest.SHA256("program:"+r.Tool, r.Host.ProgramSHA256), attest.SHA256("report:soak.json", evidence.FingerprintOf(file))}, nil
}

func describeSoak(data []byte) string {
	r, err := soak.Decode(data)
	if err != nil { // it was decoded before
		return err.Error()
	}
	chip := r.UUID
	if chip == "" {
		chip = r.Name
	}
	return fmt.Sprintf("soak of %s, %s, %.0f s, %d of %d %s: %s", r.Device, chip, r.Seconds, r.Units.Held, r.Units.Total, r.Units.What, r.Verdict)
}
