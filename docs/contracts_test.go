package docs_test

import (
	"cmp"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
)

const contractsFile = "contracts.md"

// TestContracts compares the contracts with the definitions.
func TestContracts(t *testing.T) {
	hold(t, contractsFile, "contracts", contracts(all.Operations))
	hold(t, contractsFile, "batch", batchClauses(all.Operations))
	hold(t, contractsFile, "waivable", waivable(all.Operations))
	hold(t, contractsFile, "forms", forms(all.Operations))
}

// definitionsOf returns every definition once, with the first operation that has it.
func definitionsOf(operations []*op.Operation) iter.Seq2[*op.Operation, *def.Definition] {
	return func(yield func(*op.Operation, *def.Definition) bool) {
		seen := map[*def.Definition]bool{}
		for _, o := range operations {
			for _, d := range o.Definitions {
				if !seen[d] && !yield(o, d) {
					return
				}
				seen[d] = true
			}
		}
	}
}

// waivable returns the clauses of every definition by their kind.
func waivable(operations []*op.Operation) string {
	var b strings.Builder
	b.WriteString("| definition | can be waived | arithmetic | interface |\n|---|---|---|---|\n")
	for o, d := range definitionsOf(operations) {
		numbers := map[op.ClauseKind][]string{}
		for _, c := range o.Clauses {
			if c.Definition == d {
				numbers[c.Kind] = append(numbers[c.Kind], c.Number)
			}
		}
		list := func(k op.ClauseKind) string { return strings.Join(numbers[k], " ") }
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", escapeCell(d.Name), list(op.Special), list(op.Arithmetic), list(op.Interface))
	}
	return b.String()
}

// forms returns the forms of every definition.
func forms(operations []*op.Operation) string {
	var b strings.Builder
	b.WriteString("| definition | form | | |\n|---|---|---|---|\n")
	for _, o := range operations {
		for _, f := range o.Formulas {
			kind := "the definition's sets"
			switch {
			case f.Refused != "":
				kind = "refused: " + f.Refused
			case f.IsUsual():
				kind = "usual: always admitted"
			case f.Definition != nil:
				kind = "sets of its own"
			}
			fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", escapeCell(f.Of.Name), f.Name, escapeCell(f.Text), escapeCell(kind))
		}
	}
	return b.String()
}

// batchClauses returns the clauses about batches and the outputs to which they apply.
func batchClauses(operations []*op.Operation) string {
	var b strings.Builder
	b.WriteString("| clause | |\n|---|---|\n")
	for _, c := range def.BatchClauses {
		fmt.Fprintf(&b, "| %s | %s |\n", c.ID, escapeCell(c.Text))
	}
	b.WriteString("\n| outputs | definition | |\n|---|---|---|\n")
	for _, d := range definitionsOf(operations) {
		var rows []string // a row for each use
		outputs := map[string][]string{}
		for i := range d.Operands {
			if d.Operands[i].IsOut {
				use, why := d.BatchUse(i)
				text := "| " + escapeCell(d.Name) + " | " + use.String()
				if why != "" {
					text += ": " + why
				}
				if outputs[text] == nil {
					rows = append(rows, text)
				}
				outputs[text] = append(outputs[text], d.Operands[i].Name)
			}
		}
		for _, row := range rows {
			fmt.Fprintf(&b, "| %s %s |\n", strings.Join(outputs[row], ", "), row)
		}
	}
	return b.String()
}

// TestContractsAreComplete checks that the page has every operation, every definition with
// its identity, and every clause.
func TestContractsAreComplete(t *testing.T) {
	text, err := os.ReadFile(contractsFile)
	if err != nil {
		t.Fatal(err)
	}
	want := func(line string) {
		if !strings.Contains(string(text), line) {
			t.Errorf("%s does not have %q", contractsFile, line)
		}
	}
	for _, o := range all.Operations {
		want("\n## " + o.Name + "\n")
		for _, d := range o.Definitions {
			want("`" + d.Hash() + "`")
			for _, c := range d.Contract().Clauses {
				want(fmt.Sprintf("| %s.%s | %s |", d.Name, c.ID, escapeCell(c.Text)))
			}
		}
	}
}

// contracts returns the generated part of the page.
func contracts(operations []*op.Operation) string {
	var b strings.Builder
	b.WriteString("## Which dtypes combine\n\n" +
		"T is the format that the caller chooses. A cell lists the operands with their formats. Further choices follow after *or*, with what they change.\n\n" +
		"| definition | T = f16 | T = bf16 | T = f32 | other T |\n|---|---|---|---|---|\n")
	seen := map[*def.Definition]string{}
	for _, o := range operations {
		for _, d := range o.Definitions {
			if seen[d] == "" {
				seen[d] = o.Name
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", d.Name, combinations(d, num.F16), combinations(d, num.BF16), combinations(d, num.F32), otherCombinations(d))
			}
		}
	}
	for _, o := range operations {
		operation(&b, o, seen)
	}
	return b.String()
}

// combinations lists the choices of formats that one format names.
func combinations(d *def.Definition, t num.DType) string {
	var usual []num.DType
	var cells []string
	for _, f := range d.Formats() {
		if d.Format(f) != t {
			continue
		}
		var formats []num.DType
		names := map[num.DType][]string{}
		for i := range d.Operands {
			if usual == nil || f[i] != usual[i] {
				if names[f[i]] == nil {
					formats = append(formats, f[i])
				}
				names[f[i]] = append(names[f[i]], d.Operands[i].Name)
			}
		}
		var parts []string
		for _, format := range formats {
			parts = append(parts, strings.Join(names[format], " ")+" "+format.String())
		}
		cells = append(cells, strings.Join(parts, ", "))
		if usual == nil {
			usual = f
		}
	}
	switch len(cells) {
	case 0:
		return "none"
	case 1:
		return cells[0]
	}
	return cells[0] + "; or " + strings.Join(cells[1:], "; or ")
}

// otherCombinations lists the choices that formats without a column name.
func otherCombinations(d *def.Definition) string {
	var others []num.DType
	for _, f := range d.Formats() {
		if t := d.Format(f); t != num.F16 && t != num.BF16 && t != num.F32 && !slices.Contains(others, t) {
			others = append(others, t)
		}
	}
	var cells []string
	for _, t := range others {
		cells = append(cells, fmt.Sprintf("T = %s: %s", t, combinations(d, t)))
	}
	return cmp.Or(strings.Join(cells, ". "), "none")
}

func operation(b *strings.Builder, o *op.Operation, owner map[*def.Definition]string) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n", o.Name, sentence(o.Summary))
	if len(o.Params) > 0 {
		b.WriteString("\n| parameter | default | |\n|---|---|---|\n")
		for _, p := range o.Params {
			initial := p.Default
			if initial == "" {
				initial = "none"
			}
			fmt.Fprintf(b, "| %s | %s | %s |\n", p.Name, initial, escapeCell(p.Help))
		}
	}
	for _, d := range o.Definitions {
		if owner[d] != o.Name {
			fmt.Fprintf(b, "\nThe definition %s and its contract are those of [%s](#%s), sha256 `%s`.\n", d.Name, owner[d], anchor(owner[d]), d.Hash())
			continue
		}
		definition(b, d, len(o.Definitions) > 1)
	}
}

func definition(b *strings.Builder, d *def.Definition, isOneOfMany bool) {
	c := d.Contract()
	if isOneOfMany {
		fmt.Fprintf(b, "\n### %s\n", d.Name)
	}
	b.WriteString("\n")
	for _, f := range c.Formula {
		fmt.Fprintf(b, "    %s\n", f)
	}
	b.WriteString("\n| operand | shape | dtypes | note |\n|---|---|---|---|\n")
	for _, o := range c.Operands {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", o.Name, o.Shape, o.DTypes, escapeCell(o.Note))
	}
	b.WriteString("\n| clause | |\n|---|---|\n")
	for _, k := range c.Clauses {
		fmt.Fprintf(b, "| %s.%s | %s |\n", d.Name, k.ID, escapeCell(k.Text))
	}
	if len(c.Params) > 0 {
		fmt.Fprintf(b, "\nParameters of the definition itself (engine.Run), rounded once from binary64 to binary32 unless int32: %s.\n", strings.Join(paramNames(d), ", "))
	}
	fmt.Fprintf(b, "\nKind of definition: %s. The sha256 of its text is `%s`.\n", d.Form, d.Hash())
}

func paramNames(d *def.Definition) []string {
	var names []string
	for _, p := range d.Params {
		if p.IsInt {
			p.Name += " (int32)"
		}
		names = append(names, p.Name)
	}
	return names
}

// sentence returns s with a capital letter.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// anchor returns the anchor of a heading.
func anchor(heading string) string { return strings.ReplaceAll(heading, ".", "") }

var cell = strings.NewReplacer("|", `\|`, "*", `\*`, "_", `\_`, "<", `\<`)

// escapeCell escapes a text for a cell of a Markdown table.
func escapeCell(s string) string { return cell.Replace(s) }
