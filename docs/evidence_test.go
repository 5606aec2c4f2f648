package docs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"tokitai/evidence"
	"tokitai/verify"
)

// committed is an archive of committed reports.
type committed struct {
	name    string
	index   *evidence.Index
	reports []*evidence.Report
}

// committedEvidence reads all committed reports, once in a process.
var committedEvidence = sync.OnceValues(func() (list []committed, err error) {
	files, err := os.ReadDir("evidence")
	for _, file := range files {
		if file.Name() == "README.md" {
			continue
		}
		index, reports, failure := evidence.ReadRun(filepath.Join("evidence", file.Name()))
		err = errors.Join(err, failure)
		list = append(list, committed{file.Name(), index, reports})
	}
	slices.SortFunc(list, func(a, b committed) int { // h200.zip before h200-tensor-cores.zip
		return strings.Compare(strings.TrimSuffix(a.name, evidence.ArchiveSuffix), strings.TrimSuffix(b.name, evidence.ArchiveSuffix))
	})
	return list, err
})

// TestEvidence checks the committed reports: every one has the hash that its index gives,
// no report contradicts itself, and README.md and evidence/README.md state what they say.
func TestEvidence(t *testing.T) {
	archives, err := committedEvidence()
	if err != nil {
		t.Fatal(err)
	}
	var claims, rows strings.Builder
	var emulated struct {
		architectures        []string
		cases                int
		elements, mismatches int64
	}
	for _, archive := range archives {
		name, index, reports := archive.name, archive.index, archive.reports
		first := reports[0]
		machine, totals := first.Machine, index.Totals
		switch {
		case isEmulated(first):
			emulated.architectures = append(emulated.architectures, machine.Architecture)
			emulated.cases += totals.Cases
			emulated.elements += totals.Elements
			emulated.mismatches += totals.Mismatches
		case verify.IsProbe(first):
			fmt.Fprintf(&claims, "On an %s, %s outputs of the tensor cores' matrix instructions were held to a model of each. %s of them differed from it in a bit. "+
				"`go run ./cmd/tokitai evidence docs/evidence/%s --replay 16`\nrecomputes some of them.\n\n", machine.Name, thousands(totals.Elements), noneOr(totals.Mismatches), name)
		default:
			fmt.Fprintf(&claims, "On an %s, %s cases with %s outputs ran at level %s. %s of these outputs differed from the reference in a bit. The reports are "+
				"[in this repository](docs/evidence/README.md), and\n`go run ./cmd/tokitai evidence docs/evidence/%s --replay 100` repeats a hundred of the cases on your CPU.\n\n",
				machine.Name, thousands(totals.Cases), thousands(totals.Elements), first.Level, noneOr(totals.Mismatches), name)
		}
		fmt.Fprintf(&rows, "| %s, %s, %s %s | %s, %d cores | %s | [%d of %d](%s) | %s | %s | %s |\n",
			machine.Name, machine.Driver, first.Toolchain.Compiler, first.Toolchain.Version, index.Host.CPU, index.Host.Cores,
			first.Level, index.Counts.Accepted, totals.Reports-index.Counts.Skipped, name, thousands(totals.Cases), thousands(totals.Elements), thousands(totals.Mismatches))
	}
	if rows.Len() == 0 {
		t.Fatal("no evidence is committed: the test sees none")
	}
	if len(emulated.architectures) > 0 {
		slices.Sort(emulated.architectures)
		fmt.Fprintf(&claims, "Kernels for AMD GPUs (%s) ran on emulated instructions, not on hardware: %s cases with %s outputs, compiled by clang. %s of these outputs differed from the reference in a bit. "+
			"[docs/amd.md](docs/amd.md) has two commands\nfor owners of such a GPU.\n\n",
			strings.Join(slices.Compact(emulated.architectures), ", "), thousands(emulated.cases), thousands(emulated.elements), noneOr(emulated.mismatches))
	}
	hold(t, "../README.md", "evidence", claims.String())
	hold(t, "evidence/README.md", "archives", "| device | host | level | accepted | cases | outputs | mismatches |\n|---|---|---|---:|---:|---:|---:|\n"+rows.String())
}

func noneOr(n int64) string {
	if n == 0 {
		return "None"
	}
	return thousands(n)
}

// thousands prints n with commas: 183,639.
func thousands[T int | int64](n T) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
