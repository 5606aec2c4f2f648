package sim

import (
	"encoding/binary"
	"strings"
	"testing"

	"tokitai/device/gpu/driver"
)

// TestTensorMap: what a GPU's driver accepts is encoded, without allocating memory; what it
// refuses is an error.
func TestTensorMap(t *testing.T) {
	good := driver.TensorMap{Address: 0x1000, ElementBytes: 2, Rank: 3, Sizes: [5]uint64{70, 9, 2}, Strides: [4]uint64{144, 1296}, Box: [5]uint32{64, 8, 1}}
	to := make([]byte, driver.TensorMapBytes)
	if err := encodeTensorMap(to, &good); err != nil {
		t.Fatal(err)
	}
	if got := binary.LittleEndian.Uint64(to[8:]); got != 0x706d_0080_0003_0002 {
		t.Errorf("the second word: got %#x", got)
	}
	if n := testing.AllocsPerRun(10, func() { _ = encodeTensorMap(to, &good) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	for says, change := range map[string]func(m *driver.TensorMap){
		"multiple of 16":     func(m *driver.TensorMap) { m.Address += 8 },
		"bytes":              func(m *driver.TensorMap) { m.ElementBytes = 3 },
		"rank":               func(m *driver.TensorMap) { m.Rank = 6 },
		"128 or 64 bytes":    func(m *driver.TensorMap) { m.Box[0] = 16 },
		"elements":           func(m *driver.TensorMap) { m.Sizes[2] = 0 },
		"1 to 256":           func(m *driver.TensorMap) { m.Box[1] = 257 },
		"strides are":        func(m *driver.TensorMap) { m.Strides[1] = 24 },
		"multiples of 16 be": func(m *driver.TensorMap) { m.Strides[0] = 1 << 40 },
	} {
		bad := good
		change(&bad)
		if err := encodeTensorMap(to, &bad); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}
