package testlevel

import (
	"fmt"
	"testing"
)

// skipper is a test that notes why it would be skipped.
type skipper struct {
	testing.TB
	reason string
}

func (s *skipper) Skipf(format string, args ...any) { s.reason = fmt.Sprintf(format, args...) }

func TestLevels(t *testing.T) {
	for i, want := range []struct {
		value        string
		picked, less int
		skips        bool // what needs level full
	}{
		{"", 1, 1, true}, {"smoke", 1, 1, true}, {"quick", 2, 2, true}, {"full", 3, 2, false}, {"exhaustive", 4, 2, false},
	} {
		t.Setenv(Variable, want.value)
		if l, err := parse(want.value); err != nil || l != Current() || int(l) != max(0, i-1) || want.value != "" && l.String() != want.value {
			t.Errorf("%q is %v, %v", want.value, l, err)
		}
		if got := Pick(1, 2, 3, 4); got != want.picked {
			t.Errorf("%q of four: got %d, want %d", want.value, got, want.picked)
		}
		if got := Pick(1, 2); got != want.less {
			t.Errorf("%q of two: got %d, want %d", want.value, got, want.less)
		}
		asked := skipper{TB: t}
		Need(&asked, Full, "it takes minutes")
		if (asked.reason == "it takes minutes: set TOKITAI_LEVEL=full") != want.skips || (asked.reason == "") == want.skips {
			t.Errorf("%q: skipped because %q, want skipped to be %v", want.value, asked.reason, want.skips)
		}
	}
	if _, err := parse("quickly"); err == nil || err.Error() != `TOKITAI_LEVEL: got "quickly", want one of [smoke quick full exhaustive]` {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestSample(t *testing.T) {
	for value, want := range map[string]int{"": 0, "0": 0, "5": 2, "268435455": 0} {
		t.Setenv(SampleVariable, value)
		for i := range 9 {
			if got := InSample(i, 3); got != (i%3 == want) {
				t.Errorf("sample %q: element %d of one in 3: %v", value, i, got)
			}
		}
	}
	for _, value := range []string{"-1", "first", "1.5"} {
		if _, err := parseSample(value); err == nil || err.Error() != fmt.Sprintf("TOKITAI_SAMPLE: got %q, want a number from 0 on", value) {
			t.Errorf("sample %q: %v", value, err)
		}
	}
}
