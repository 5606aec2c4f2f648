package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tokitai/evidence"
)

// TestEvidence checks the committed reports: every file has the hash that its index gives,
// no report contradicts itself, and README.md and evidence/README.md state what they say.
func TestEvidence(t *testing.T) {
	folders, err := os.ReadDir("evidence")
	if err != nil {
		t.Fatal(err)
	}
	var claims, rows strings.Builder
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		name := folder.Name()
		index, reports, err := evidence.ReadFolder(filepath.Join("evidence", name))
		if err != nil {
			t.Error(err)
			continue
		}
		if len(reports) == 0 {
			t.Errorf("evidence/%s has no reports", name)
			continue
		}
		first := reports[0]
		machine, totals := first.Machine, index.Totals
		fmt.Fprintf(&claims, "On an %s, %s cases with %s outputs ran at level %s. %s of these outputs differed from the reference in a bit. The reports are "+
			"[in this repository](docs/evidence/README.md), and\n`go run ./cmd/tokitai evidence docs/evidence/%s --replay 100` repeats a hundred of the cases on your CPU.\n\n",
			machine.Name, thousands(totals.Cases), thousands(totals.Elements), first.Level, noneOr(totals.Mismatches), name)
		fmt.Fprintf(&rows, "| %s, %s, %s %s | %s, %d cores | %s | [%d of %d](%s/index.md) | %s | %s | %s |\n",
			machine.Name, machine.Driver, first.Toolchain.Compiler, first.Toolchain.Version, index.Host.CPU, index.Host.Cores,
			first.Level, index.Counts.Accepted, totals.Reports, name, thousands(totals.Cases), thousands(totals.Elements), thousands(totals.Mismatches))
	}
	if rows.Len() == 0 {
		t.Fatal("no folder of evidence has an index: the test sees none")
	}
	hold(t, "../README.md", "evidence", mutantSummary(t)+"\n"+claims.String())
	hold(t, "evidence/README.md", "folders", "| device | host | level | accepted | cases | outputs | mismatches |\n|---|---|---|---:|---:|---:|---:|\n"+rows.String())
}

var mutantCounts = regexp.MustCompile(`(\d+) kernels with one fault each, and (\d+) that are right`)

// mutantSummary returns what mutants.md says first: how many kernels were judged, and by
// which check how many wrongly.
func mutantSummary(t *testing.T) string {
	t.Helper()
	text := mutantsPage(t)
	_, table, _ := strings.Cut(text, "\n| check |")
	table, _, isTable := strings.Cut(table, "\n\n")
	if !isTable {
		t.Fatal("mutants.md has no table of checks")
	}
	counts := mutantCounts.FindStringSubmatch(text)
	if counts == nil {
		t.Fatal("mutants.md does not say how many kernels there are")
	}
	return fmt.Sprintf("| check, on %s wrong and %s right kernels |%s\n", counts[1], counts[2], table)
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
