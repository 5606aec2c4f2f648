package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/engine"
)

// caller is a call that can be repeated.
type caller interface {
	run() error
	result() ([]byte, error)
	close()
}

// way is one way to call a kernel.
type way struct {
	name    string
	callers int
	open    func() (caller, error)
}

// table measures all ways with tiny and large tensors and prints the results.
func table(budget time.Duration, isQuick bool) error {
	p, err := openPools()
	if err != nil {
		return err
	}
	defer p.close()
	host := cpu.Queue()
	softmaxBy := func(q *engine.Queue, on func() device.Device, rows, cols int) func() (caller, error) {
		return func() (caller, error) { return newSoftmax(q, on(), rows, cols) }
	}
	hostDevice := func() device.Device { return host.Device() }
	sharedDevice := func() device.Device { return p.shared }
	description := host.Device().(*cpu.Device).Describe()
	fmt.Printf("%s, %d processors, %s\n\n", description.Name, runtime.GOMAXPROCS(0), runtime.Version())

	fmt.Printf("Tiny requests: softmax.forward of 16 values in f16.\n\n")
	if err := rates(budget, []way{
		{"in this process", 1, softmaxBy(host, hostDevice, 1, 16)},
		{"stdio text, a process each", 1, func() (caller, error) { return newStdioSoftmax(false, 1, 16) }},
		{"stdio text, server", 1, func() (caller, error) { return newStdioSoftmax(true, 1, 16) }},
		{"protocol, in frames", 1, softmaxBy(p.inlined, hostDevice, 1, 16)},
		{"protocol, in frames", 16, softmaxBy(p.inlined, hostDevice, 1, 16)},
		{"protocol, shared memory", 1, softmaxBy(p.sharedQueue, sharedDevice, 1, 16)},
		{"protocol, shared memory", 16, softmaxBy(p.sharedQueue, sharedDevice, 1, 16)},
	}); err != nil {
		return err
	}

	mebi := 64
	if isQuick {
		mebi = 4
	}
	rows, cols := mebi<<20/2/1024, 1024
	fmt.Printf("\nLarge tensors: softmax.forward of %d rows of %d columns in f16, %d MiB in and as much out.\n\n", rows, cols, mebi)
	if err := speeds(budget, 4*float64(rows)*float64(cols), []way{
		{"in this process", 1, softmaxBy(host, hostDevice, rows, cols)},
		{"stdio text, server", 1, func() (caller, error) { return newStdioSoftmax(true, rows, cols) }},
		{"protocol, in frames", 1, softmaxBy(p.inlined, hostDevice, rows, cols)},
		{"protocol, copied by shared memory", 1, softmaxBy(p.isolated, hostDevice, rows, cols)},
		{"protocol, in shared memory", 1, softmaxBy(p.sharedQueue, sharedDevice, rows, cols)},
	}); err != nil {
		return err
	}

	n := mebi << 20 / 4
	fmt.Printf("\nState: adamw.step of %d weights in f16, of which the moments take %d MiB each.\n\n", n, mebi)
	return speeds(budget, 22*float64(n), []way{
		{"in this process", 1, func() (caller, error) { return newAdamW(host, host.Device(), host.Device(), n) }},
		{"stdio text, server", 1, func() (caller, error) { return newStdioAdamW(n, false) }},
		{"stdio binary, server", 1, func() (caller, error) { return newStdioAdamW(n, true) }},
		{"protocol, in frames", 1, func() (caller, error) { return newAdamW(p.inlined, host.Device(), host.Device(), n) }},
		{"protocol, copied by shared memory", 1, func() (caller, error) { return newAdamW(p.isolated, host.Device(), host.Device(), n) }},
		{"protocol, in shared memory", 1, func() (caller, error) { return newAdamW(p.sharedQueue, p.shared, p.shared, n) }},
		{"protocol, state in the process, gradient shared", 1, func() (caller, error) { return newAdamW(p.sharedQueue, p.shared.Resident(), p.shared, n) }},
	})
}

// rates prints requests per second.
func rates(budget time.Duration, ways []way) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "way\tcallers\trequests/s")
	var want []byte
	for _, one := range ways {
		callers := make([]caller, one.callers)
		for i := range callers {
			c, err := one.open()
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			defer c.close()
			callers[i] = c
		}
		if _, err := rate(callers, 0); err != nil { // which admits the lowering
			return fmt.Errorf("%s: %w", one.name, err)
		}
		rate, err := rate(callers, budget)
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		for _, c := range callers {
			if err := compare(c, &want); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
		}
		fmt.Fprintf(w, "%s\t%d\t%.0f\n", one.name, one.callers, rate)
	}
	return w.Flush()
}

func rate(callers []caller, budget time.Duration) (float64, error) {
	var count atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	begin := time.Now()
	for _, c := range callers {
		all.Go(func() {
			for {
				if err := c.run(); err != nil {
					failed.Store(&err)
					return
				}
				count.Add(1)
				if time.Since(begin) >= budget {
					return
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(count.Load()) / time.Since(begin).Seconds(), nil
}

// compare compares a result with that of the first way. The first call sets it.
func compare(c caller, want *[]byte) error {
	got, err := c.result()
	switch {
	case err != nil:
		return err
	case *want == nil:
		*want = bytes.Clone(got)
	case !bytes.Equal(got, *want):
		return errors.New("the result differs from that of the call in this process")
	}
	return nil
}

// speeds prints the traffic per second, as a median over rounds in which all ways take
// turns, and its share of the first way's. A way that has used up its budget is left out
// of further rounds.
func speeds(budget time.Duration, traffic float64, ways []way) error {
	const rounds = 10
	callers := make([]caller, len(ways))
	for i, one := range ways {
		c, err := one.open()
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		defer c.close()
		callers[i] = c
	}
	times := make([][]float64, len(ways)) // in seconds; not of the first round, which admits the lowering
	spent := make([]time.Duration, len(ways))
	for round := range rounds {
		var want []byte
		for i, c := range callers {
			if round > 1 && spent[i] > 5*budget {
				continue
			}
			begin := time.Now()
			if err := c.run(); err != nil {
				return fmt.Errorf("%s: %w", ways[i].name, err)
			}
			took := time.Since(begin)
			if spent[i] += took; round > 0 {
				times[i] = append(times[i], took.Seconds())
			}
			if err := compare(c, &want); err != nil {
				return fmt.Errorf("%s: %w", ways[i].name, err)
			}
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "way\tms\tGB/s\tshare")
	first := median(times[0])
	for i, one := range ways {
		m := median(times[i])
		fmt.Fprintf(w, "%s\t%.1f\t%.2f\t%.3f\n", one.name, 1e3*m, traffic/m/1e9, first/m)
	}
	return w.Flush()
}

func median(times []float64) float64 {
	slices.Sort(times)
	return times[len(times)/2]
}
