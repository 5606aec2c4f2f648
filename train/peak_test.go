package train

import (
	"testing"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/num"
)

// TestPeak: the peak of a GPU that is known is that of its units at their highest clock: for the H200, 67 and 989
// TFLOP/s at the 1.83 and 1.98 GHz that NVIDIA has computed them with. Others have none.
func TestPeak(t *testing.T) {
	t.Parallel()
	h200 := device.Description{Architecture: "sm_90a", Units: 132, ClockHz: 1.98e9}
	if got := 2 * Peak(h200, num.F32) / 1e12; got != 2*132*128*1.98e9/1e12 || got < 66.9 || got > 67 {
		t.Errorf("%v TFLOP/s of binary32", got)
	}
	h200.ClockHz = 1.83e9
	if got := 2 * Peak(h200, num.BF16) / 1e12; got < 989 || got > 990 {
		t.Errorf("%v TFLOP/s of bf16, want 989", got)
	}
	for _, d := range []device.Description{{}, cpu.Queue().Device().Describe(), {Architecture: "sm_90a", Units: 132}, {Architecture: "gfx942", Units: 304, ClockHz: 2e9}} {
		if got := Peak(d, num.BF16); got != 0 {
			t.Errorf("%+v has the peak %v, want none", d, got)
		}
	}
	tr := newTrainer(t, cpu.Queue(), tiny().Config)
	d := tr.Device()
	if want := 3 * tr.network.Products(); d.Work != want || d.Peak != 0 || d.Name == "" || d.ShareOfPeak(1) != 0 {
		t.Errorf("%+v, want the work of three leaves, %v, and no peak", d, want)
	}
	if d.Peak = 4 * d.Work; d.ShareOfPeak(2) != 0.5 {
		t.Errorf("two steps a second, of four that a device can, are %v of its peak", d.ShareOfPeak(2))
	}
}
