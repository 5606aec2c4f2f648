package train

import (
	"tokitai/device"
	"tokitai/num"
)

// peaks has the products that a unit of a GPU adds up in a clock, by its makers' papers: in binary32, and of 16 bits
// by matrix instructions that sum in binary32.
var peaks = map[string]struct{ single, half float64 }{
	"sm_80":  {64, 1024},  // A100
	"sm_90":  {128, 2048}, // H100, H200
	"sm_90a": {128, 2048},
}

// Peak returns how many products of a format a device could add up in a second, at its highest clock; 0 if that is not
// known, as for processors, whose clock depends on the instructions and on the heat.
func Peak(d device.Description, format num.DType) float64 {
	p := peaks[d.Architecture]
	perClock := p.half
	if format == num.F32 {
		perClock = p.single
	}
	return perClock * float64(d.Units) * d.ClockHz
}

// Work returns how many products a step adds up: those of all linear layers and of attention, forward and backward.
// What is computed twice counts once, and the optimizer has none.
func (t *Trainer) Work() float64 { return float64(t.config.Leaves) * t.network.Products() }

// Device is where a run was trained last.
type Device struct {
	Name string  `json:"name"`
	Peak float64 `json:"peak,omitempty"` // products of the run's precision that it could add up in a second; 0 if that is not known
	Work float64 `json:"work"`           // products of a step
}

// Device describes where the trainer computes.
func (t *Trainer) Device() *Device {
	d := t.queue.Device().Describe()
	return &Device{d.Name, Peak(d, t.config.Format()), t.Work()}
}

// ShareOfPeak returns the part of the peak that a speed is, in steps per second; 0 if the peak is not known.
func (d *Device) ShareOfPeak(stepsPerSecond float64) float64 {
	if d == nil || d.Peak == 0 {
		return 0
	}
	return stepsPerSecond * d.Work / d.Peak
}
