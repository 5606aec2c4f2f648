package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestProcessesAreAwaited: the tests of kernel processes, where a time that is long enough on an idle
// machine is too short on a busy one, wait for events and conditions (package await), and sleep on the
// clock of testing/synctest alone.
func TestProcessesAreAwaited(t *testing.T) {
	files := token.NewFileSet()
	seen := 0
	err := filepath.WalkDir("../../kernelprocess", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		seen++
		for _, d := range file.Decls {
			var sleeps []token.Pos
			isSynced := false
			ast.Inspect(d, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if of, ok := s.X.(*ast.Ident); ok {
						isSynced = isSynced || of.Name == "synctest"
						if of.Name == "time" && s.Sel.Name == "Sleep" {
							sleeps = append(sleeps, s.Pos())
						}
					}
				}
				return true
			})
			for _, at := range sleeps {
				if !isSynced {
					t.Errorf("%s: time.Sleep, want an event, package await, or testing/synctest", files.Position(at))
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 20 {
		t.Errorf("%d files of tests were read", seen)
	}
}
