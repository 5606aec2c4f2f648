package all_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
)

const contractsFile = "../../docs/contracts.md"

// TestContracts holds docs/contracts.md to the definitions.
func TestContracts(t *testing.T) {
	got := contracts(all.Operations)
	if *update {
		if err := os.WriteFile(contractsFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(contractsFile)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(text), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if g, w := lineAt(gotLines, i), lineAt(wantLines, i); g != w {
			t.Fatalf("%s:%d is not what the definitions say; go test ./op/all -run TestContracts -update rewrites it\ngot  %s\nwant %s", contractsFile, i+1, w, g)
		}
	}
}

// TestContractsAreDeterministic prints them twice.
func TestContractsAreDeterministic(t *testing.T) {
	if contracts(all.Operations) != contracts(all.Operations) {
		t.Error("the same definitions give two different documents")
	}
}

// TestContractsAreComplete looks for what a reader looks for: every operation, every
// definition with its identity, and every clause.
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

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

const contractsHead = `# Contracts

What a caller may rely on, operation by operation. This document is generated from the definitions; go test
./op/all -run TestContracts -update writes it anew. How accurate results are stands in [accuracy.md](accuracy.md), how a kernel is held to
all this in [verification.md](verification.md).

A clause has an id such as softmax.forward.C2. Each has a test of its own in the package of the operation.

## What holds for every operation

**Arithmetic.** Inputs are what is stored, exactly. Everything is computed in binary32, subnormals included, and rounded to nearest,
ties to even; where a definition says otherwise (fused multiply-adds, exact sums, stochastic rounding) its clauses do too. Storing
rounds once. tokitai explain OPERATION prints every step, with the order of every sum.

**Determinism.** A definition has one answer, to the bit. It does not depend on the number of workers, on alignment, on the distance
between rows, on what ran before, or on what runs at the same time. Under policy same the answer is that on every device; under policy fast a
product may follow the model of its hardware. On the CPU the two are one.

**NaN.** Where a clause says NaN, sign and payload are left open. embedding.forward copies bits, those of a NaN included. Zeros
have a sign, and clauses that speak of zero say which, or leave it to the definition; no result's sign of zero is left open.

**Sizes.** All sizes are at least 1. Leading dimensions count as rows: a tensor of shape [2 3 5] is a matrix of 6 rows and 5 columns.
Operations on single elements ("any" in the tables) take every shape. Rows may lie apart: a tensor may be columns of a wider one. Values by row or by
index lie without gaps, or in one column. Offsets have 64 bits; a tensor may have more than 2^31 elements, and a row that is summed up, or over
which a maximum is taken, up to 2^31-1.

**In place.** An output that is one element for each element of an input may be exactly that input: the same memory, stride and dtype.
The tables name those that may ("may be x itself"). Every other overlap of an output with anything is refused.
Inputs may overlap each other. Operands that are "read, then written in place" are input and output at once.

**Bad index.** An index or label that names no row is refused by default (option bad_index=reject): all indices are looked at before anything is
written, and the error names operand, position and value. With bad_index=skip it gives a row of zeros, and contributes
to nothing.

**Errors.** Wrong use is an error, never a panic and never a silent result: nil and closed tensors, another device, dtypes and shapes that do not fit,
forbidden overlap, parameters that are NaN or out of range. The message names the operation, the
operand, what was given and what was expected:

    softmax.forward: y has shape [4 8], want [4 16] like x

Nothing has been written then. Only a kernel that fails after its launch (engine.LaunchError) may leave outputs partly written.

| for errors.Is | for errors.As | when |
|---|---|---|
| tensor.ErrBadArgument | *tensor.BadArgument, *engine.IndexError | wrong use |
| device.ErrNoDevice | *device.NoDeviceError | a name that leads to no device |
| device.ErrOutOfMemory | *device.OutOfMemoryError | asked and free, in bytes |
| engine.ErrInadmissible | *engine.InadmissibleError | a lowering that does not compile or failed its self-test |
| device.ErrLost | *device.LostError | a device that no longer answers |
| device.ErrClosed | | a closed tensor, queue or device |
| context.Canceled, context.DeadlineExceeded | | the queue's context ended before the launch |
| | *engine.LaunchError | a kernel that failed after its launch |

**Concurrency.** Calls on a queue are safe from any goroutine. The caller sees to it that no tensor is written while another call uses it.

**Options.** Every call takes policy (fast, same), bad_index (reject, skip) and admission (selftest, off), in Go as options of the
engine, in the program as flags.

`

// contracts is the document.
func contracts(operations []*op.Operation) string {
	var b strings.Builder
	b.WriteString(contractsHead)
	b.WriteString("## Which dtypes combine\n\n" +
		"T is the format that the caller chooses. A cell lists the operands by format; after *or*, further choices, each by what it changes.\n\n" +
		"| definition | T = f16 | T = bf16 | T = f32 |\n|---|---|---|---|\n")
	seen := map[*def.Definition]string{}
	for _, o := range operations {
		for _, d := range o.Definitions {
			if seen[d] == "" {
				seen[d] = o.Name
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", d.Name, combinations(d, num.F16), combinations(d, num.BF16), combinations(d, num.F32))
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
		fmt.Fprintf(b, "\nNumbers that the definition itself takes (engine.Run), rounded once from binary64 to binary32 unless an int32: %s.\n", strings.Join(paramNames(d), ", "))
	}
	fmt.Fprintf(b, "\nThe definition is a %s; the sha256 of its text is `%s`.\n", d.Kind, d.Hash())
}

func paramNames(d *def.Definition) []string {
	var names []string
	for _, p := range d.Params {
		if p.IsInt {
			p.Name += " (int32)"
		}
		names = append(names, p.Name)
	}
	return slices.Clip(names)
}

// sentence begins with a capital letter.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// anchor is the link to a heading.
func anchor(heading string) string { return strings.ReplaceAll(heading, ".", "") }

var cell = strings.NewReplacer("|", `\|`, "*", `\*`, "_", `\_`, "<", `\<`)

// escapeCell makes a text that Markdown shows as it is, in a table.
func escapeCell(s string) string { return cell.Replace(s) }
