package soak

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestProcessor: every core answers, a core that is wrong is named, and so is a bit of the memory.
func TestProcessor(t *testing.T) {
	cores, isPlaced := allowedCores()
	last := cores[len(cores)-1]
	answers := func(_ context.Context, core int) (int, error) { return 3, nil }
	wrong := func(_ context.Context, core int) (int, error) {
		if core == last {
			return 2, errors.New("softmax is wrong")
		}
		return 3, nil
	}
	flip := func(c *coreSoak) {
		if c.core == last && c.passes == 5 {
			c.words[77] ^= 1 << 40
		}
	}
	for _, test := range []struct {
		name    string
		answers func(context.Context, int) (int, error)
		plant   func(*coreSoak)
		verdict Verdict
		fault   Fault
	}{
		{"right", answers, nil, Right, Fault{}},
		{"a wrong core", wrong, nil, Wrong, Fault{Check: "known answers", Unit: &last, Text: "softmax is wrong"}},
		{"a bit of memory", answers, flip, Wrong, Fault{Check: "memory", Unit: &last, Address: new(uint64(len(cores)-1)<<16 + 8*77), Bits: "0000010000000000"}},
	} {
		planted = test.plant
		t.Cleanup(func() { planted = nil })
		r, err := Processor(context.Background(), Options{Time: time.Nanosecond, Memory: int64(len(cores)) << 16}, test.answers)
		if err != nil {
			t.Fatal(err)
		}
		data, err := r.JSON()
		if err == nil {
			_, err = Decode(data)
		}
		if err != nil {
			t.Errorf("%s: the report is refused: %v", test.name, err)
		}
		if r.Verdict != test.verdict || r.Units.Held != len(cores) || r.Units.Total != len(cores) || r.Memory.Held != int64(len(cores))<<16 || r.Memory.Passes < 8 {
			t.Errorf("%s: got %s", test.name, data)
		}
		if test.verdict == Wrong && (len(r.Faults) != 1 || r.Faults[0].String() != test.fault.String()) {
			t.Errorf("%s: got faults %v, want %v", test.name, r.Faults, &test.fault)
		}
	}
	if isPlaced && slices.Contains(cores, -1) {
		t.Errorf("cores %v", cores)
	}
}

// TestInterrupted: a soak that is cut short decides nothing.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r, err := Processor(ctx, Options{Time: time.Hour, Memory: 1 << 16}, func(context.Context, int) (int, error) {
		cancel()
		return 1, nil
	})
	if !errors.Is(err, context.Canceled) || r == nil || r.Verdict != Undecided {
		t.Errorf("got %v, error %v", r, err)
	}
}

// TestDecode refuses reports that contradict themselves.
func TestDecode(t *testing.T) {
	cores, _ := allowedCores()
	r, err := Processor(context.Background(), Options{Time: time.Nanosecond, Memory: int64(len(cores)) << 16}, func(context.Context, int) (int, error) { return 1, nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		change func(*Report)
		text   string
	}{
		{func(r *Report) { r.Schema = "urn:tokitai:soak:9" }, "schema"},
		{func(r *Report) { r.Verdict = "fine" }, "verdict"},
		{func(r *Report) { r.Units.Total++ }, "are missing"},
		{func(r *Report) { r.FaultsFound = 3 }, "the verdict is right with 3 faults"},
		{func(r *Report) { r.Memory.Held = r.Memory.Total + 1 }, "bytes are held"},
		{func(r *Report) { r.Units.Held, r.Units.Missing = r.Units.Held-1, []int{0} }, "the verdict is right, and only"},
	} {
		changed := *r
		test.change(&changed)
		data, err := changed.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(data); err == nil || !strings.Contains(err.Error(), test.text) {
			t.Errorf("got error %v, want %s", err, test.text)
		}
	}
}
