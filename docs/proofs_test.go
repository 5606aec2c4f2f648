package docs_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tokitai/fn"
	"tokitai/op/all"
	proving "tokitai/prove"
)

// theory is a file of proofs.
type theory struct {
	path     string // below proofs
	title    string
	text     string
	speaks   string // which definitions the theorems speak of that do not say it themselves
	theorems []theorem
}

type theorem struct {
	name      string // Chain.chain_cut
	text      string // what it says, in words
	rests     string // what rests on it
	speaks    string // which definition it speaks of, with its hash
	statement string
	assumes   string
}

const closed = "closed under the global context"

var (
	titlePattern   = regexp.MustCompile(`(?s)^\(\*\* \* ([^\n]+)\n(.*?)\*\)`)
	theoremPattern = regexp.MustCompile(`(?s)\(\*\*((?:[^*]|\*[^)])*)\*\)\s*(Theorem ([A-Za-z0-9_]+)\b.*?\.)\s+Proof\.`)
	theoremName    = regexp.MustCompile(`(?m)^ *Theorem ([A-Za-z0-9_]+)`)
	goSymbol       = regexp.MustCompile(`\b((?:[a-z][a-z0-9]*/)*[a-z][a-z0-9]*)\.([A-Za-z]\w*)(?:\.([A-Za-z]\w*))?`)
)

// theoriesOf reads the proofs in a folder, and what they assume from the list in it.
func theoriesOf(t *testing.T, folder string) (theories []theory) {
	t.Helper()
	list := readText(t, filepath.Join(folder, "assumptions.txt"))
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".v" {
			return err
		}
		source := readText(t, path)
		below, _ := filepath.Rel(folder, path)
		below = filepath.ToSlash(below)
		module := strings.ReplaceAll(strings.TrimSuffix(below, ".v"), "/", ".")
		head := titlePattern.FindStringSubmatch(source)
		if head == nil {
			t.Errorf("proofs/%s does not begin with (** * TITLE", below)
			return nil
		}
		th := theory{path: below, title: head[1], text: paragraphs(head[2])}
		if text, speaks, ok := strings.Cut(th.text, "\n\nSpeaks of: "); ok {
			th.text, th.speaks = text, speaks
		}
		hash := sha256.Sum256([]byte(source))
		_, part, isListed := strings.Cut(list, "\n"+below+" "+hex.EncodeToString(hash[:]))
		if !isListed {
			t.Errorf("proofs/assumptions.txt was not made from proofs/%s as it is; scripts/prove --update makes it", below)
		}
		part, _, _ = strings.Cut(part, "\n\n")
		assumed := map[string]string{}
		for line := range strings.Lines(strings.TrimSpace(part)) { // none of a file without theorems
			name, what, _ := strings.Cut(strings.TrimSpace(line), ": ")
			assumed[name] = what
		}
		for _, m := range theoremPattern.FindAllStringSubmatch(source, -1) {
			x := theorem{name: module + "." + m[3], statement: outdented(m[2]), assumes: assumed[m[3]]}
			for paragraph := range strings.SplitSeq(paragraphs(m[1]), "\n\n") {
				if rest, ok := strings.CutPrefix(paragraph, "Rests on it: "); ok {
					x.rests = rest
				} else if rest, ok := strings.CutPrefix(paragraph, "Speaks of: "); ok {
					x.speaks = rest
				} else {
					x.text += paragraph + "\n\n"
				}
			}
			if isListed && x.assumes == "" {
				t.Errorf("proofs/assumptions.txt does not have %s", x.name)
			}
			delete(assumed, m[3])
			th.theorems = append(th.theorems, x)
		}
		for part := range strings.SplitSeq(source, "\nSection ") {
			part, _, _ = strings.Cut(part, "\nEnd ")
			if _, after, ok := strings.Cut(part, "Hypothesis "); ok && theoremName.MatchString(after) {
				t.Errorf("proofs/%s: a theorem stands after a hypothesis of its section; premises belong into the statement", below)
			}
		}
		for name := range assumed {
			t.Errorf("proofs/assumptions.txt has %s.%s, which proofs/%s states nowhere or without a comment", module, name, below)
		}
		if all := theoremName.FindAllString(source, -1); len(all) != len(th.theorems) {
			t.Errorf("proofs/%s: %d of its %d theorems have a comment that says what they mean", below, len(th.theorems), len(all))
		}
		theories = append(theories, th)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(list) {
		if file, _, ok := strings.Cut(line, ".v "); ok && !slices.ContainsFunc(theories, func(th theory) bool { return th.path == file+".v" }) {
			t.Errorf("proofs/assumptions.txt has %s.v, which is not there", file)
		}
	}
	slices.SortStableFunc(theories, func(a, b theory) int { // functions, which are generated, come last
		return strings.Count(a.path, "/") - strings.Count(b.path, "/")
	})
	return theories
}

// paragraphs joins the lines of each paragraph of a comment.
func paragraphs(comment string) string {
	var joined []string
	for paragraph := range strings.SplitSeq(regexp.MustCompile(`\n[ \t]*\n`).ReplaceAllString(comment, "\n\n"), "\n\n") {
		if words := strings.Join(strings.Fields(paragraph), " "); words != "" {
			joined = append(joined, words)
		}
	}
	return strings.Join(joined, "\n\n")
}

// outdented removes the indentation of the second line from all lines but the first.
func outdented(text string) string {
	lines := strings.Split(text, "\n")
	indent := 1 << 10
	for _, line := range lines[1:] {
		if strings.TrimSpace(line) != "" {
			indent = min(indent, len(line)-len(strings.TrimLeft(line, " ")))
		}
	}
	for i, line := range lines[1:] {
		lines[i+1] = "  " + line[min(indent, len(line)):]
	}
	return strings.Join(lines, "\n")
}

// TestProofs writes docs/proofs.md from the comments and statements in proofs, and checks that
// what they name exists.
func TestProofs(t *testing.T) {
	var page strings.Builder
	count := 0
	for _, th := range theoriesOf(t, "../proofs") {
		if len(th.theorems) == 0 {
			continue
		}
		fmt.Fprintf(&page, "## %s\n\n%s In [proofs/%s](../proofs/%s).\n\n", th.title, th.text, th.path, th.path)
		if th.speaks != "" {
			fmt.Fprintf(&page, "Speaks of: %s\n\n", th.speaks)
		}
		for _, x := range th.theorems {
			count++
			fmt.Fprintf(&page, "### %s\n\n%s```coq\n%s\n```\n\n", x.name, x.text, x.statement)
			fmt.Fprintf(&page, "- Assumes: %s.\n", assumption(x.assumes))
			fmt.Fprintf(&page, "- Rests on it: %s\n", inCode(x.rests))
			if x.speaks != "" {
				fmt.Fprintf(&page, "- Speaks of: %s\n", x.speaks)
			}
			checkHashes(t, x.name, cmp.Or(x.speaks, th.speaks))
			page.WriteString("\n")
			if checkSymbols(t, x.name, x.rests) == 0 {
				t.Errorf("%s: the comment names nothing that rests on it, want Rests on it: FOLDER.SYMBOL", x.name)
			}
		}
	}
	if count == 0 {
		t.Fatal("read no theorem")
	}
	hold(t, "proofs.md", "theorems", page.String())
}

// TestProvedBounds checks that every theorem that a closed-form bound cites exists, cites the bound, and
// speaks of the definitions that it bounds.
func TestProvedBounds(t *testing.T) {
	rests, speaks := map[string]string{}, map[string]string{}
	for _, th := range theoriesOf(t, "../proofs") {
		for _, x := range th.theorems {
			rests[x.name], speaks[x.name] = x.rests, cmp.Or(x.speaks, th.speaks)
		}
	}
	count := 0
	for _, o := range all.Operations {
		for _, b := range o.Bounds {
			if b.Theorem == "" {
				continue
			}
			count++
			family, _, _ := strings.Cut(o.Name, ".")
			if text, ok := rests[b.Theorem]; !ok || !strings.Contains(text, "op/"+family+".") {
				t.Errorf("%s, %s: proved by %s, on which %q rests", o.Name, b.Output, b.Theorem, text)
			}
			for _, d := range o.Definitions {
				if !strings.Contains(speaks[b.Theorem], d.Name+" "+d.Hash()) {
					t.Errorf("%s, %s: proved by %s, which does not speak of %s %s", o.Name, b.Output, b.Theorem, d.Name, d.Hash())
				}
			}
		}
	}
	if count == 0 {
		t.Error("no bound is proved")
	}
}

func assumption(list string) string {
	if list == closed {
		return "nothing (" + closed + ")"
	}
	return "`" + strings.Join(strings.Fields(list), "`, `") + "`"
}

// inCode writes the symbols of Go in a text as code.
func inCode(text string) string { return goSymbol.ReplaceAllString(text, "`$0`") }

// checkSymbols looks for every FOLDER.SYMBOL, FOLDER.TYPE.METHOD and FOLDER/FILE.cu of a text, and
// returns how many there are.
func checkSymbols(t *testing.T, theorem, text string) (found int) {
	t.Helper()
	for _, m := range goSymbol.FindAllStringSubmatch(text, -1) {
		found++
		_, err := os.Stat(filepath.Join("..", m[0]))
		if err != nil && !isDeclared(t, m[1], m[2], m[3]) {
			t.Errorf("%s: there is no %s", theorem, m[0])
		}
	}
	return found
}

// isDeclared reports whether a package of this module declares a name, and the member if it is
// not empty: a method or field of that type.
func isDeclared(t *testing.T, folder, name, member string) bool {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join("..", folder, "*.go"))
	isThere, hasMember := false, member == ""
	for _, file := range files {
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range source.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					isThere = isThere || d.Name.Name == name
				} else if receiver(d.Recv.List[0].Type) == name {
					hasMember = hasMember || d.Name.Name == member
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						isThere = isThere || s.Name.Name == name
					case *ast.ValueSpec:
						isThere = isThere || slices.ContainsFunc(s.Names, func(i *ast.Ident) bool { return i.Name == name })
					}
				}
			}
		}
	}
	return isThere && hasMember
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// ofNone is what a theorem speaks of that is about the arithmetic of all definitions; words follow.
const ofNone = "no definition alone: "

// checkHashes compares NAME HASH pairs with the definitions of those names.
func checkHashes(t *testing.T, theorem, speaks string) {
	t.Helper()
	pairs := regexp.MustCompile(`([a-z0-9_.]+) ([0-9a-f]{64})`).FindAllStringSubmatch(speaks, -1)
	if isOfNone := strings.HasPrefix(speaks, ofNone); isOfNone != (len(pairs) == 0) {
		t.Errorf("%s: Speaks of: %q, want names and hashes of definitions, or %q and what it is about", theorem, speaks, ofNone)
	}
	for _, m := range pairs {
		want := ""
		for _, o := range all.Operations {
			for _, d := range o.Definitions {
				if d.Name == m[1] {
					want = d.Hash()
				}
			}
		}
		for _, f := range fn.All {
			if f.Name == m[1] {
				want = proving.Hash(f)
			}
		}
		if want != m[2] {
			t.Errorf("%s speaks of %s with hash %s, but its hash is %q", theorem, m[1], m[2], want)
		}
	}
}

// TestProvedFunctions writes the table of functions in docs/proofs.md.
func TestProvedFunctions(t *testing.T) {
	var table strings.Builder
	table.WriteString("| function | promised, checked over all arguments | proved |\n|---|---|---|\n")
	for _, s := range proving.All() {
		proved := s.Proved
		if proved == "" {
			proved = "no: checked over all 2^32 arguments only"
		}
		fmt.Fprintf(&table, "| `%s` | %s for %s | %s |\n", s.Function.Name, s.Function.Within(), strings.ReplaceAll(s.Function.Domain.String(), "|", "\\|"), strings.ReplaceAll(proved, "|", "\\|"))
	}
	hold(t, "proofs.md", "functions", table.String())
}
