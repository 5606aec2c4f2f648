package docs_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/evidence"
	"tokitai/fn"
	"tokitai/internal/testlevel"
	"tokitai/op"
	"tokitai/verify"
)

const definitionsFile = "definitions.md"

var definitionBlock = regexp.MustCompile("(?s)```(?:def)?\n(tokitai-def 1\n.*?)```")

// TestDefinitions parses and verifies every example, including the one in go.md, and
// parses its canonical text.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(definitionsFile)
	if err != nil {
		t.Fatal(err)
	}
	goPage, err := os.ReadFile("go.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := definitionBlock.FindAllStringSubmatch(string(text)+string(goPage), -1)
	if len(blocks) < 7 {
		t.Fatalf("only %d examples", len(blocks))
	}
	for i, b := range blocks {
		d, err := def.Parse(b[1], fn.All...)
		if err != nil {
			t.Fatalf("%v\n%s", err, b[1])
		}
		if again, err := def.Parse(d.Text(), fn.All...); err != nil || again.Hash() != d.Hash() {
			t.Errorf("%s: its text reads back as %v, %v", d, again, err)
		}
		if isStream := strings.HasPrefix(d.Form.String(), "stream"); isStream && testlevel.Current() == testlevel.Smoke {
			continue // it takes longer than all others, and op/attention verifies the like
		}
		targets := verify.Targets([]*op.Operation{op.Of(d, "")}, cpu.Backend)
		for _, target := range testlevel.Pick(targets[i%len(targets):][:1], targets) {
			r, err := verify.Run(context.Background(), target, verify.Options{Level: verify.Smoke})
			if err != nil {
				t.Fatal(err)
			}
			if r.Report.Verdict != evidence.Accepted {
				t.Errorf("%s %s: %s, %s", target.ID(), target.DType, r.Report.Verdict, r.Report.Reason)
			}
		}
	}
}

// TestDefinitionGradients differentiates the example of the section on gradients, and compares
// the result with the one that the page shows.
func TestDefinitionGradients(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(definitionsFile)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Gradients\n")
	blocks := definitionBlock.FindAllStringSubmatch(section, 2)
	if len(blocks) < 2 {
		t.Fatal("the section has no two definitions")
	}
	d, err := def.Parse(blocks[0][1], fn.All...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := def.Derivative(d, nil, fn.All...)
	if err != nil {
		t.Fatal(err)
	}
	want, err := def.Parse(blocks[1][1], fn.All...)
	if err != nil {
		t.Fatal(err)
	}
	if got.Source() != want.Source() {
		t.Errorf("the derivative of %s is\n%s\nthe page has\n%s", d, got.Source(), want.Source())
	}
}

// TestDefinitionNodes checks that the page has every node of the language.
func TestDefinitionNodes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(definitionsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range def.NodeNames() {
		if !regexp.MustCompile("[`, (]" + name + "[`(]").Match(text) {
			t.Errorf("%s has no node %s", definitionsFile, name)
		}
	}
}

// TestDefinitionTables compares the functions and the rules of sums with the code.
func TestDefinitionTables(t *testing.T) {
	var b strings.Builder
	b.WriteString("| function | mathematics | worst error in ulp | for | elsewhere |\n|---|---|---:|---|---|\n")
	for _, f := range fn.All {
		escape := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.Name, f.Math, strings.TrimSuffix(f.Within(), " ulp"), escape(f.Domain.String()), escape(f.Outside))
	}
	hold(t, definitionsFile, "functions", b.String())

	all := def.Must(def.Rowwise("sums", func(b *def.Builder) {
		x := b.In("x")
		b.OutRow("r", def.RowSum(x))
		b.OutCol("c", def.ColSum(x))
		b.OutScalar("t", def.TotalSum(x))
	}))
	_, rules, _ := strings.Cut(all.Text(), "\nrule ")
	hold(t, definitionsFile, "rules", "```\nrule "+rules+"```")
}
