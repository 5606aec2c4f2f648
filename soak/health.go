package soak

import (
	"sync"
	"time"

	backend "tokitai/backend/gpu"
	"tokitai/device/gpu/nvml"
)

// monitor samples the health of a chip until end.
type monitor struct {
	stop  chan struct{}
	group sync.WaitGroup
	fill  func(*Health)
}

// end stops sampling and says what was seen.
func (m *monitor) end(to *Health) {
	close(m.stop)
	m.group.Wait()
	m.fill(to)
}

const between = 250 * time.Millisecond // samples

// every calls sample at once and then again and again.
func (m *monitor) every(sample func()) {
	m.group.Go(func() {
		ticker := time.NewTicker(between)
		defer ticker.Stop()
		for {
			sample()
			select {
			case <-m.stop:
				return
			case <-ticker.C:
			}
		}
	})
}

// watchGPU samples a GPU's health, and names the chip in the report.
func watchGPU(dev *backend.Device, r *Report) *monitor {
	m := &monitor{stop: make(chan struct{})}
	notTold := func(why string) *monitor {
		m.fill = func(h *Health) { h.NotTold = why }
		return m
	}
	bus, err := dev.BusID()
	switch {
	case err != nil:
		return notTold(err.Error())
	case bus == "":
		return notTold("it is not a chip")
	}
	r.Bus = bus
	chip, err := nvml.Open(bus)
	if err != nil {
		return notTold(err.Error())
	}
	r.UUID, r.Serial = chip.UUID, chip.Serial
	if chip.Driver != "" {
		r.Driver += ", driver " + chip.Driver
	}
	h := Health{Source: "NVML", LimitWatts: chip.PowerLimitWatts()}
	before := chip.Errors()
	slowed := map[string]int{}
	told := 0
	m.every(func() {
		s := chip.Sample()
		h.Samples++
		add(&h.Celsius, s.Celsius)
		add(&h.MemoryCelsius, s.MemoryCelsius)
		add(&h.Watts, s.Watts)
		if s.ClockMHz != nil {
			add(&h.ClockMHz, new(float64(*s.ClockMHz)))
		}
		if s.IsTold {
			told++
		}
		for _, reason := range s.Slowed {
			slowed[reason]++
		}
	})
	m.fill = func(to *Health) {
		if told > 0 {
			h.Slowed = map[string]float64{}
			for reason, n := range slowed {
				h.Slowed[reason] = float64(n) / float64(told)
			}
		}
		after := chip.Errors()
		h.count("ECC errors corrected", before.Corrected, after.Corrected)
		h.count("ECC errors not corrected", before.Uncorrected, after.Uncorrected)
		h.count("ECC errors corrected, ever", before.CorrectedEver, after.CorrectedEver)
		h.count("ECC errors not corrected, ever", before.UncorrectedEver, after.UncorrectedEver)
		h.count("rows remapped, correctable", before.RemappedCorrectable, after.RemappedCorrectable)
		h.count("rows remapped, uncorrectable", before.RemappedUncorrectable, after.RemappedUncorrectable)
		h.count("rows to be remapped", flag(before.RemapPending), flag(after.RemapPending))
		h.count("remapping failed", flag(before.RemapFailed), flag(after.RemapFailed))
		*to = h
	}
	return m
}

// count adds a counter that is told.
func (h *Health) count(name string, before, after *int64) {
	if before != nil && after != nil {
		h.Errors = append(h.Errors, Counter{name, *before, *after})
	}
}

func flag(b *bool) *int64 {
	switch {
	case b == nil:
		return nil
	case *b:
		return new(int64(1))
	}
	return new(int64(0))
}
