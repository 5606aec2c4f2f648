package docs_test

import (
	"fmt"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/promise"
)

const declarationsFile = "declarations.md"

// TestDeclarations: the document lists the items, forms and profiles that the code has.
func TestDeclarations(t *testing.T) {
	var items strings.Builder
	items.WriteString("| item | example | says that |\n|---|---|---|\n")
	for _, i := range promise.Items() {
		fmt.Fprintf(&items, "| `%s` | `%s` | %s |\n", escapeBars(i.Form), escapeBars(i.Example), escapeBars(i.Text))
	}
	fmt.Fprintf(&items, "\nFunctions are `%s`.\n", strings.Join(promise.Functions(), "`, `"))
	hold(t, declarationsFile, "declarations", items.String())

	var forms strings.Builder
	forms.WriteString("| function | form | counts as |\n|---|---|---|\n")
	for _, f := range promise.Forms() {
		mark := ""
		if f.IsCommon {
			mark = " *"
		}
		fmt.Fprintf(&forms, "| `%s` | `%s`%s | %s |\n", f.Function, escapeBars(f.Text), mark, escapeBars(f.Counts))
	}
	hold(t, declarationsFile, "forms", forms.String())
}

// TestReadmeNamesProfiles: README.md names every profile.
func TestReadmeNamesProfiles(t *testing.T) {
	readme := readText(t, "../README.md")
	for _, name := range promise.Profiles() {
		if !strings.Contains(readme, "`"+name+"`") && !strings.Contains(readme, `"`+name+`"`) {
			t.Errorf("README.md does not name the profile %s", name)
		}
	}
}

// TestProfiles: the document lists the errors and the sources of every profile.
func TestProfiles(t *testing.T) {
	var table, sources strings.Builder
	table.WriteString("| profile | kernels | subnormal numbers | products of f16 and bf16 |\n|---|---|---|---|\n")
	sources.WriteString("| profile | function | error | source |\n|---|---|---|---|\n")
	names := append([]string{""}, promise.Profiles()...)
	for _, name := range names {
		p, err := promise.LookupProfile(name)
		if err != nil {
			t.Fatal(err)
		}
		subnormals := "kept"
		if p.FlushesSubnormals {
			subnormals = "may become zeros"
		}
		products := "binary32"
		if p.TensorCores != def.FMAChain {
			products = "binary32, or tensor cores, " + p.TensorCores.String() + " or better"
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", profileName(name), p.Text, subnormals, products)
		for _, e := range p.Errors {
			fmt.Fprintf(&sources, "| %s | `%s` | `%s` | %s |\n", profileName(name), e.Function, escapeBars(e.Error.String()), escapeBars(e.Source))
		}
	}
	table.WriteString("\nThe errors that count, forms included:\n\n| function |")
	for _, name := range names {
		table.WriteString(" " + profileName(name) + " |")
	}
	table.WriteString("\n|---|" + strings.Repeat("---|", len(names)) + "\n")
	for _, f := range promise.Functions() {
		fmt.Fprintf(&table, "| `%s` |", f)
		for _, name := range names {
			p, _ := promise.LookupProfile(name)
			fmt.Fprintf(&table, " `%s` |", escapeBars(p.Error(f).String()))
		}
		table.WriteString("\n")
	}
	hold(t, declarationsFile, "profiles", table.String())
	hold(t, declarationsFile, "sources", sources.String())
}

func profileName(name string) string {
	if name == "" {
		return "none"
	}
	return "`" + name + "`"
}

// escapeBars keeps the bars of |x| from ending a cell of a table.
func escapeBars(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
