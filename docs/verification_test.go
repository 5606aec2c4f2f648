package docs_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/evidence"
	"tokitai/internal/testlevel"
	lowergpu "tokitai/lower/gpu"
	"tokitai/op/all"
	"tokitai/verify"
)

// TestQuotedSource: what documents quote is what is compiled and run.
func TestQuotedSource(t *testing.T) {
	hold(t, "../README.md", "example", goBlock(body(t, "../tokitai_test.go", "Example")))
	hold(t, "go.md", "definition", goBlock(declarations(t, "../example/geglu/main.go", "GEGLU")))
	hold(t, "cases.md", "levels", levelTable(t))
	hold(t, "judging.md", "thresholds", goBlock(declarations(t, "../verify/statistics.go", "mostBias", "mostOfModel", "mostMeanSquare", "mostMisrounded")))
}

// levelTable returns some numbers of each level, from the source of package verify.
func levelTable(t *testing.T) string {
	t.Helper()
	source := readText(t, "../verify/cases/level.go")
	columns := []struct{ field, title string }{
		{"small", "every size up to"}, {"edges", "boundaries of the last axis up to"}, {"others", "of other axes"},
		{"random", "random shapes"}, {"drawn", "shapes drawn by the seed"}, {"endurance", "runs of a tiny case"},
	}
	head, rule, rows := "| level |", "|---|", ""
	for _, c := range columns {
		head, rule = head+" "+c.title+" |", rule+"---:|"
	}
	for l := verify.Smoke; l <= verify.Exhaustive; l++ {
		name := l.String()
		plan := regexp.MustCompile(`(?i)\n\t` + name + `: +\{(small: .*)\},\n`).FindStringSubmatch(source)
		if plan == nil {
			t.Fatalf("verify/cases/level.go has no plan of level %s", name)
		}
		rows += "| " + name + " |"
		for _, c := range columns {
			value := regexp.MustCompile(`\b` + c.field + `: ([0-9_]+)(?: << ([0-9]+))?`).FindStringSubmatch(plan[1])
			if value == nil {
				t.Fatalf("the plan of level %s has no %s", name, c.field)
			}
			n, err := strconv.Atoi(strings.ReplaceAll(value[1], "_", ""))
			shift, _ := strconv.Atoi(value[2])
			if err != nil {
				t.Fatal(err)
			}
			rows += " " + thousands(n<<shift) + " |"
		}
		rows += "\n"
	}
	return head + "\n" + rule + "\n" + rows
}

func goBlock(code string) string { return "```go\n" + strings.TrimSpace(code) + "\n```" }

// declarations are functions, types, variables or constants with their comments, as
// they stand in a file, an empty line between them.
func declarations(t *testing.T, path string, names ...string) string {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, d := range file.Decls {
		name, doc := nameOf(d)
		from := d.Pos()
		if doc != nil {
			from = doc.Pos()
		}
		found[name] = string(source[set.Position(from).Offset:set.Position(d.End()).Offset])
	}
	var parts []string
	for _, name := range names {
		if found[name] == "" {
			t.Fatalf("%s does not declare %s", path, name)
		}
		parts = append(parts, found[name])
	}
	return strings.Join(parts, "\n\n")
}

// body returns the statements of a function, as they stand in a file.
func body(t *testing.T, path, name string) string {
	t.Helper()
	_, text, _ := strings.Cut(declarations(t, path, name), "{\n")
	return strings.ReplaceAll("\n"+strings.TrimSuffix(text, "}"), "\n\t", "\n")
}

// nameOf is what a declaration declares first, and its comment.
func nameOf(d ast.Decl) (string, *ast.CommentGroup) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Name.Name, d.Doc
	case *ast.GenDecl:
		switch s := d.Specs[0].(type) {
		case *ast.TypeSpec:
			return s.Name.Name, d.Doc
		case *ast.ValueSpec:
			return s.Names[0].Name, d.Doc
		}
	}
	return "", nil
}

// count is how many cases a level has, and how many outputs their first runs give.
type count struct {
	targets        int
	cases, outputs [2]int64 // of smoke and of quick
}

func (c *count) add(d count) {
	c.targets += d.targets
	for i := range c.cases {
		c.cases[i] += d.cases[i]
		c.outputs[i] += d.outputs[i]
	}
}

// TestTensorCoreModels lists the models that lowerings declare.
func TestTensorCoreModels(t *testing.T) {
	var b strings.Builder
	b.WriteString("| architecture | instruction | formats | model |\n|---|---|---|---|\n")
	for _, architecture := range lowergpu.KnownArchitectures() {
		var rows []string // instruction and model
		formats := map[string][]string{}
		for _, i := range lowergpu.MatrixInstructions(architecture) {
			if m, ok := lowergpu.MatrixAccum(architecture, i); ok {
				row := fmt.Sprintf("| %s | %v | %%s | %v |\n", architecture, i, m)
				if formats[row] == nil {
					rows = append(rows, row)
				}
				formats[row] = append(formats[row], i.DType.String())
			}
		}
		for _, row := range rows {
			fmt.Fprintf(&b, row, strings.Join(formats[row], ", "))
		}
	}
	hold(t, "judging.md", "tensor cores", b.String())
}

// TestCaseCounts counts the cases of the levels that take less than minutes. Those of
// smoke are run; those of quick are counted by their names. Tests of level smoke count one
// target of each kind but streams, which take longer than all others (op/attention verifies a sample of them), and leave the document's sums alone.
func TestCaseCounts(t *testing.T) {
	isAll := *update || testlevel.Current() > testlevel.Smoke
	counts := map[string]*count{}
	var total count
	for _, target := range verify.Targets(all.Operations, cpu.Backend) {
		preferred := cpu.Backend.Preferred(target.Definition)
		if target.Lowering != preferred[len(preferred)-1] { // which every processor has
			continue
		}
		kind := target.Definition.Form.String()
		if !isAll && (counts[kind] != nil || strings.HasPrefix(kind, "stream")) {
			continue
		}
		c := countCases(t, target)
		if counts[kind] == nil {
			counts[kind] = &count{}
		}
		counts[kind].add(c)
		total.add(c)
	}
	if !isAll {
		return
	}
	var b strings.Builder
	b.WriteString("| kind | targets | smoke: cases | outputs | quick: cases | outputs |\n|---|---:|---:|---:|---:|---:|\n")
	row := func(name string, c *count) {
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s |\n", name, c.targets, grouped(c.cases[0]), grouped(c.outputs[0]), grouped(c.cases[1]), grouped(c.outputs[1]))
	}
	for _, form := range def.Forms() {
		if c := counts[form.String()]; c != nil { // of a form that an operation has
			row(form.String(), c)
		}
	}
	row("all", &total)
	hold(t, "cases.md", "cases", b.String())
}

func countCases(t *testing.T, target *verify.Target) count {
	t.Helper()
	r, err := verify.Run(context.Background(), target, verify.Options{Level: verify.Smoke})
	if err != nil {
		t.Fatal(err)
	}
	if r.Report.Verdict != evidence.Accepted {
		t.Errorf("%s %s is %s: %s", target.ID(), target.DType, r.Report.Verdict, r.Report.Reason)
	}
	c := count{targets: 1}
	c.cases[0], c.outputs[0] = int64(r.Report.Cases), r.Report.Coverage.Produced
	byName := int64(0)
	for _, k := range r.Report.CaseList {
		byName += outputs(t, target.Definition, k.Name)
	}
	if byName != c.outputs[0] {
		t.Errorf("%s %s: by their names the cases have %d outputs, but there were %d", target.ID(), target.DType, byName, c.outputs[0])
	}

	var unknown *verify.UnknownError
	if _, err := verify.Run(context.Background(), target, verify.Options{Case: "?"}); !errors.As(err, &unknown) {
		t.Fatalf("got error %v, want one that lists the cases", err)
	}
	for _, name := range unknown.Known {
		c.cases[1]++
		c.outputs[1] += outputs(t, target.Definition, name)
	}
	return c
}

// outputs reads the sizes in the name of a case.
func outputs(t *testing.T, d *def.Definition, name string) int64 {
	t.Helper()
	sizes := map[string]int{}
	for _, s := range strings.Split(strings.Split(name, "/")[1], ",") {
		letter, value, _ := strings.Cut(s, "=")
		value, _, _ = strings.Cut(value, "@")
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatalf("case %s: %v", name, err)
		}
		sizes[letter] = n
	}
	total := int64(0)
	for i := range d.Operands {
		if o := &d.Operands[i]; o.IsOut {
			rows, cols := o.Matrix(sizes)
			total += int64(rows) * int64(cols)
		}
	}
	return total
}

// grouped puts commas between thousands.
func grouped(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
