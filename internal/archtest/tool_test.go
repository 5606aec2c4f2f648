package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// alwaysThere are programs that a test may start without asking package tool: Go and git, on
// every machine that runs the tests; tokitai, which testscript puts on PATH; the test itself.
var alwaysThere = []string{"go", "git", "tokitai", "/proc/self/exe"}

// TestToolsAreAskedFor: tests find the programs that they start with package tool, which skips
// them where a program is missing.
func TestToolsAreAskedFor(t *testing.T) {
	files := token.NewFileSet()
	err := filepath.WalkDir("../..", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name := entry.Name(); name != ".." && strings.HasPrefix(name, ".") {
				return filepath.SkipDir
			}
		case strings.HasSuffix(file, "_test.go"):
			parsed, err := parser.ParseFile(files, file, nil, 0)
			if err != nil {
				return err
			}
			for _, at := range programsStarted(parsed) {
				t.Errorf("%s: a test starts a program by name: find it with package tool", files.Position(at))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// programsStarted returns where a file looks up a program, or starts one by a constant name
// that is not always there.
func programsStarted(file *ast.File) []token.Pos {
	var found []token.Pos
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if of, ok := f.X.(*ast.Ident); !ok || of.Name != "exec" {
			return true
		}
		at := map[string]int{"Command": 0, "CommandContext": 1, "LookPath": 0}
		i, ok := at[f.Sel.Name]
		if !ok || i >= len(call.Args) {
			return true
		}
		name, isConstant := call.Args[i].(*ast.BasicLit)
		if isConstant {
			text, _ := strconv.Unquote(name.Value)
			if slices.Contains(alwaysThere, text) {
				return true
			}
		}
		if isConstant || f.Sel.Name == "LookPath" {
			found = append(found, call.Pos())
		}
		return true
	})
	return found
}

func TestProgramsStarted(t *testing.T) {
	for source, want := range map[string]int{
		`exec.Command("go", "build")`:              0,
		`exec.Command(program, "build")`:           0,
		`exec.Command("sh", "-c")`:                 1,
		`exec.CommandContext(ctx, "python3")`:      1,
		`exec.CommandContext(ctx, "git", "sh")`:    0,
		`exec.LookPath(name)`:                      1,
		`tool.Need(t, "g++"); exec.Command("tar")`: 1,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "a_test.go", "package a\nfunc f() { "+source+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(programsStarted(file)); got != want {
			t.Errorf("%s: found %d programs, want %d", source, got, want)
		}
	}
}
