package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	backends "tokitai/backend/all"
	"tokitai/backend/cpu"
	"tokitai/bench"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op"
	"tokitai/verify"
)

// foreignBenchFlags are the flags of check about speed.
type foreignBenchFlags struct {
	isSet         bool
	shape, device string
}

func (f *foreignBenchFlags) register(c *cobra.Command) {
	c.Example += "\n  tokitai check softmax.forward --exec ./softmax.py --dtype f32 --level smoke --bench --bench-shape R=16,C=64"
	flags := c.Flags()
	flags.BoolVar(&f.isSet, "bench", false, "then time the kernel, beside a copy and our own kernel")
	flags.StringVar(&f.shape, "bench-shape", "", "with --bench, `SIZES` by letter, such as R=4096,C=1024")
	flags.StringVar(&f.device, "bench-device", "", "with --bench, the `DEVICE` of the copy and of our own kernel, such as cuda:0 (default the kernel's)")
}

// speedMeter measures the kernels of a run.
type speedMeter struct {
	v              *verification
	sizes          map[string]int
	device         string
	kernel, beside *engine.Queue // the kernel's, and that of the copy and our own kernel
	meter          *bench.Meter
}

// measurer returns what measures the kernels of a run once they are judged. It refuses sizes
// and devices that do not exist.
func (f *foreignBenchFlags) measurer(v *verification) (func(context.Context), error) {
	m := &speedMeter{v: v, device: f.device}
	if f.device == "" {
		m.device = v.options.Device
	} else if err := checkDevice(f.device); err != nil {
		return nil, wrongUse("--bench-device: %v", err)
	}
	var operations []*op.Operation
	for _, t := range v.targets {
		operations = append(operations, &op.Operation{Data: []op.Data{{Definition: t.Definition}}})
	}
	var err error
	if m.sizes, err = parseSizes(f.shape, operations); err != nil {
		return nil, wrongUse("--bench-shape: %s", strings.TrimPrefix(err.Error(), "--shape "))
	}
	return m.run, nil
}

// check refuses flags that need --bench.
func (f *foreignBenchFlags) check() error {
	switch {
	case !f.isSet && f.shape != "":
		return wrongUse("--bench-shape belongs to --bench, which is not given")
	case !f.isSet && f.device != "":
		return wrongUse("--bench-device belongs to --bench, which is not given")
	}
	return nil
}

// run measures every kernel that may be timed, and says of the others why not.
func (m *speedMeter) run(ctx context.Context) {
	failed := m.open()
	defer m.close(ctx)
	for i, r := range m.v.results {
		s := &evidence.Speed{Void: whyNotTimed(r.Report)}
		t := m.v.targets[i]
		switch {
		case s.Void != "":
		case failed != nil:
			s.Void = "it could not be measured: " + oneLine(failed.Error())
		default:
			s = m.measure(ctx, t)
		}
		if s.Shape == "" {
			s.Shape = m.shape(t)
		}
		r.Report.SetSpeed(s)
	}
}

// whyNotTimed says why the speed of a kernel means nothing; "" if it may be measured.
func whyNotTimed(r *evidence.Report) string {
	switch {
	case r.Verdict == evidence.Accepted || r.Verdict == evidence.Undecided || r.Verdict == evidence.Unfinished:
		return ""
	case r.Verdict == evidence.Rejected && r.Honest == evidence.Yes:
		return "" // its outputs are right, though not always the same
	case r.Verdict == evidence.Rejected:
		return "wrong: the kernel is rejected"
	}
	return fmt.Sprintf("the kernel is %s", r.Verdict.Word())
}

// open opens the devices.
func (m *speedMeter) open() (err error) {
	if m.kernel, err = openQueue(m.v.options.Device); err != nil {
		return err
	}
	m.beside = m.kernel
	if m.device != m.v.options.Device {
		if m.beside, err = openQueue(m.device); err != nil {
			return err
		}
	}
	m.meter, err = bench.NewMeter(m.beside, bench.Options{Time: 300 * time.Millisecond})
	return err
}

func openQueue(name string, options ...engine.Option) (*engine.Queue, error) {
	dev, err := backends.Open(name)
	if err != nil {
		return nil, err
	}
	return engine.NewQueue(dev, append(options, engine.WithLog(warnings(io.Discard)))...)
}

func (m *speedMeter) close(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	m.meter.Close()
	for _, q := range slices.Compact([]*engine.Queue{m.kernel, m.beside}) {
		if q != nil {
			dev := q.Device()
			q.Close()
			dev.Close()
		}
	}
}

func (m *speedMeter) sizesOf(t *verify.Target) map[string]int {
	b := t.Backend
	if m.beside != nil {
		b = m.beside.Device().(engine.Device).Backend()
	}
	return bench.ForeignSizes(t.Operation, t.Definition, b, m.sizes)
}

func (m *speedMeter) shape(t *verify.Target) string {
	sizes := verify.Shape{}
	for letter, n := range m.sizesOf(t) {
		sizes[letter] = n
	}
	return sizes.String()
}

// measure measures one kernel.
func (m *speedMeter) measure(ctx context.Context, t *verify.Target) *evidence.Speed {
	data := t.Usual()
	data.Sizes = m.sizesOf(t)
	waived := m.v.terms.options(m.v.options, t).Waive
	f := &bench.Foreign{
		Definition: t.Definition, Data: data, DTypes: t.Formats(), Lowering: t.Lowering, Queue: m.kernel, Seed: secretSeed(),
		Admits: func(ctx context.Context, before, after []num.Array, params []float64) (int64, string, error) {
			return t.Admits(ctx, before, after, params, waived)
		},
	}
	r, err := m.meter.MeasureForeign(ctx, f)
	if err != nil {
		why := "it could not be measured: " + oneLine(err.Error())
		if errors.Is(err, context.Canceled) {
			why = "interrupted"
		}
		return &evidence.Speed{Void: why}
	}
	s := &evidence.Speed{Shape: r.Shape, Bytes: r.Bytes, FLOPs: r.FLOPs, Calls: r.Calls, Judged: r.Judged}
	if s.Void = r.Wrong; s.Void != "" {
		s.IsWrong = true
		return s
	}
	s.Repetitions, s.Clock, s.Note = r.Repetitions, clockOf(t, m.kernel), r.Doubt
	ms := func(x bench.Spread) *evidence.Spread { return spread(x, 1e3) }
	s.MS, s.Inside, s.OwnMS, s.Own = ms(r.Seconds), ms(r.Inside), ms(r.Own), r.OwnID
	s.Copy, s.OfCopy, s.OfOwn = spread(r.Copy, 1), spread(r.OfCopy, 1), spread(r.OfOwn, 1)
	s.InsideOfCopy, s.InsideOfOwn = spread(r.InsideOfCopy, 1), spread(r.InsideOfOwn, 1)
	return s
}

// spread returns figures times a factor; nil if there are none.
func spread(x bench.Spread, factor float64) *evidence.Spread {
	if x.Most == 0 {
		return nil
	}
	return &evidence.Spread{Median: x.Median * factor, Least: x.Least * factor, Most: x.Most * factor}
}

// clockOf says whose clock times are from, and what they include.
func clockOf(t *verify.Target, q *engine.Queue) string {
	switch {
	case q.Device().Kind() != cpu.Kind:
		return "the device's own clock"
	case strings.HasSuffix(t.Lowering.Name, ".process"):
		return "the host's clock, the way of the operands to the process and back included"
	case strings.HasSuffix(t.Lowering.Name, ".files"):
		return "the host's clock, the start of the program and its files included"
	}
	return "the host's clock"
}

// printSpeeds prints how fast the kernels were.
func (v *verification) printSpeeds(w io.Writer) {
	var measured []*evidence.Report
	width := len("speed")
	for _, r := range v.reports() {
		if r.Speed != nil {
			measured = append(measured, r)
			width = max(width, len(r.Lowering))
		}
	}
	if len(measured) == 0 {
		return
	}
	const form = "%-*s  %-5s  %-18s  %9s  %22s  %22s\n"
	fmt.Fprintf(w, "\n"+form, width, "speed", "dtype", "shape", "ms", "of a copy", "of our own kernel")
	var notes []string
	for _, r := range measured {
		s := r.Speed
		if s.Void != "" {
			fmt.Fprintf(w, "%-*s  %-5s  %-18s  not timed: %s\n", width, r.Lowering, r.DType, s.Shape, oneLine(s.Void))
			continue
		}
		fmt.Fprintf(w, form, width, r.Lowering, r.DType, s.Shape, milliseconds(s.MS), shares(s.OfCopy), shares(s.OfOwn))
		if s.Inside != nil {
			fmt.Fprintf(w, form, width, "  inside, by its own word", "", "", milliseconds(s.Inside), shares(s.InsideOfCopy), shares(s.InsideOfOwn))
		}
		note := fmt.Sprintf("times are from %s; medians of %s with the least and the greatest; %s outputs judged in all %d calls", s.Clock, counted(s.Repetitions, "repetition"), rounded(s.Judged), s.Calls)
		if s.Own != "" {
			note += "; our own kernel is " + s.Own
		}
		for _, text := range []string{note, s.Note} {
			if text != "" && !slices.Contains(notes, text) {
				notes = append(notes, text)
			}
		}
	}
	for _, text := range notes {
		fmt.Fprintf(w, "  %s\n", oneLine(text))
	}
}

func milliseconds(x *evidence.Spread) string { return fmt.Sprintf("%.4g", x.Median) }

// shares formats a share with the least and the greatest.
func shares(x *evidence.Spread) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.3g (%.3g to %.3g)", x.Median, x.Least, x.Most)
}
