package cuda

import (
	"context"
	"testing"

	"tokitai/backend/gpu"
	devicegpu "tokitai/device/gpu"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/cublaslt/stub"
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/sim"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/op/gemm"
	"tokitai/verify"
)

// openHost opens a GPU of kind cuda whose memory is the host's, on which the stub of
// cuBLASLt computes. Nothing else does.
func openHost(t *testing.T) *gpu.Device {
	t.Helper()
	if _, err := compile.OpenHost(); err != nil {
		t.Skipf("needs a C++ compiler: %v", err)
	}
	real, err := sim.Table(sim.Width)
	if err != nil {
		t.Skipf("needs the simulator's memory: %v", err)
	}
	table := *real
	table.Kind, table.Name = Kind, func(int) string { return "cuda:0" }
	table.NewStream = func() (driver.Stream, error) { return 5, nil } // a library may not be given stream 0
	table.DestroyStream = func(driver.Stream) error { return nil }
	dev, err := devicegpu.Open(&table, sim.Width, devicegpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := New(dev)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func queueOn(t *testing.T, dev *gpu.Device) *engine.Queue {
	t.Helper()
	q, err := engine.NewQueue(dev, engine.WithPolicy(engine.Fast))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

// TestCublasLtIsVerified: products by the stub, which computes honestly, are accepted for
// every definition and format, with every layout that a verification tries.
func TestCublasLtIsVerified(t *testing.T) {
	stub.Use(t)
	for _, target := range verify.Targets(gemm.Operations, Backend) {
		if target.Lowering != cublasLt {
			continue
		}
		r, err := verify.Run(context.Background(), target, verify.Options{
			Device: "cuda:0", Open: func(string) (engine.Device, error) { return openHost(t), nil }, Level: verify.Smoke, Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s %s: %d cases, %d outputs, %s, %s %.1fs", target.ID(), target.DType, r.Report.Cases, r.Report.Elements, r.Report.Verdict, r.Report.Reason, r.Report.Seconds)
		if r.Report.Verdict != evidence.Accepted || r.Report.Contract != evidence.ContractBounded {
			t.Errorf("%s %s: %s: %s", target.ID(), target.DType, r.Report.Verdict, r.Report.Reason)
		}
	}
}
