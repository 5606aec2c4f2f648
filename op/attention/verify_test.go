package attention_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/evidence"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/attention"
	"tokitai/verify"
)

// TestVerify verifies the kernels that calls on a processor can take, each on a sample of the small cases of level smoke,
// one after another in the same memory: of each definition in one format. From level quick on it takes all formats,
// and from level full on all cases.
func TestVerify(t *testing.T) {
	every, largest := testlevel.Pick(6, 4, 1), testlevel.Pick(1<<14, 1<<14, math.MaxInt)
	isTaken := func(name string) bool {
		h := fnv.New32a()
		h.Write([]byte(name))
		return sizeOf(t, name) <= largest && testlevel.InSample(int(h.Sum32()>>1), every)
	}
	formats := []num.DType{num.BF16, num.F32, num.F16} // those of level smoke
	var definitions []string
	for _, target := range verify.Targets(attention.Operations, cpu.Backend) {
		d := target.Definition
		if !slices.Contains(cpu.Backend.Preferred(d), target.Lowering) {
			continue
		}
		if !slices.Contains(definitions, d.Name) {
			definitions = append(definitions, d.Name)
		}
		if i := slices.Index(definitions, d.Name); testlevel.Current() == testlevel.Smoke && target.DType != formats[i%len(formats)] {
			continue
		}
		r, err := verify.Run(t.Context(), target, verify.Options{Level: verify.Smoke, Part: isTaken, FirstFailure: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s %s: %d cases, %d outputs", target.ID(), target.DType, r.Report.Cases, r.Report.Coverage.Produced)
		if r.Report.Cases == 0 || r.Report.Verdict != evidence.Accepted {
			t.Errorf("%s %s is %s in %d cases: %s", target.ID(), target.DType, r.Report.Verdict, r.Report.Cases, r.Report.Reason)
		}
	}
}

// sizeOf returns the product of the sizes in a case's name.
func sizeOf(t *testing.T, name string) int {
	t.Helper()
	product := 1
	for part := range strings.SplitSeq(strings.Split(name, "/")[1], ",") {
		n := 0
		if _, err := fmt.Sscanf(part[strings.Index(part, "=")+1:], "%d", &n); err != nil {
			t.Fatalf("case %s: %v", name, err)
		}
		product *= n
	}
	return product
}
