package docs_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestArchitecture writes the folder map of ARCHITECTURE.md: the rooms of
// internal/archtest in their order, with the first sentence of each package's
// documentation and what it must not know. That every folder is a room, archtest checks.
func TestArchitecture(t *testing.T) {
	var library, internal strings.Builder
	library.WriteString("| folder | what it does | must not know |\n|---|---|---|\n")
	rooms := roomsOf(t, "../internal/archtest/archtest_test.go")
	for _, r := range rooms {
		purpose := ""
		if above, isPattern := strings.CutSuffix(r.path, "/*"); isPattern {
			purpose = fmt.Sprintf("one %s each: %s", map[string]string{"op": "operation", "backend": "backend", "lower/cpu": "generator of machine code", "lower/cpu/asm": "assembler"}[above], strings.Join(foldersOf(t, above, rooms), ", "))
		} else {
			purpose = purposeOf(t, r.path)
		}
		if name, isInternal := strings.CutPrefix(r.path, "internal/"); isInternal {
			fmt.Fprintf(&internal, "- `%s` %s\n", name, purpose)
			continue
		}
		var bans []string
		for _, b := range r.mustNot {
			bans = append(bans, "`"+b+"`")
		}
		switch {
		case len(r.only) > 0:
			bans = append(bans, "anything but `"+strings.Join(r.only, "` `")+"`")
		case r.only != nil:
			bans = append(bans, "anything")
		}
		fmt.Fprintf(&library, "| `%s` | %s | %s |\n", strings.ReplaceAll(strings.Replace(r.path, ".", "tokitai.go", 1), "*", "NAME"), purpose, strings.Join(bans, " "))
	}
	hold(t, "../ARCHITECTURE.md", "folders", library.String())
	hold(t, "../ARCHITECTURE.md", "internal folders", internal.String())
}

// room is a row of the import rules.
type room struct {
	path    string
	mustNot []string
	only    []string // if not nil, all that it knows
}

// roomsOf reads the list of rooms in the source of archtest.
func roomsOf(t *testing.T, file string) (rooms []room) {
	t.Helper()
	source, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	list, ok := source.Scope.Lookup("rooms").Decl.(*ast.ValueSpec)
	if !ok {
		t.Fatalf("%s has no list of rooms", file)
	}
	for _, element := range list.Values[0].(*ast.CompositeLit).Elts {
		var r room
		for _, field := range element.(*ast.CompositeLit).Elts {
			pair := field.(*ast.KeyValueExpr)
			switch value := pair.Value.(type) {
			case *ast.BasicLit:
				r.path = unquoted(t, value)
			case *ast.UnaryExpr: // &claim{paths, why}
				r.only = []string{}
				for _, path := range value.X.(*ast.CompositeLit).Elts[0].(*ast.CompositeLit).Elts {
					r.only = append(r.only, unquoted(t, path))
				}
			case *ast.CompositeLit:
				for _, ban := range value.Elts {
					r.mustNot = append(r.mustNot, unquoted(t, ban.(*ast.CompositeLit).Elts[0]))
				}
			}
		}
		rooms = append(rooms, r)
	}
	if len(rooms) < 40 {
		t.Fatalf("%s: read %d rooms, want all of them", file, len(rooms))
	}
	return rooms
}

func unquoted(t *testing.T, e ast.Expr) string {
	t.Helper()
	s, err := strconv.Unquote(e.(*ast.BasicLit).Value)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// purposeOf returns what the package in a folder does: the first sentence of its
// documentation without its name, as Markdown for a table.
func purposeOf(t *testing.T, path string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", path, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		if source.Doc == nil {
			continue
		}
		words := strings.SplitN(new(doc.Package).Synopsis(source.Doc.Text()), " ", 3)
		if len(words) < 3 || words[0] != "Package" && words[0] != "Command" {
			t.Errorf("%s: the documentation of the package begins %q, want Package NAME and what it does", file, words)
			continue
		}
		purpose := strings.TrimRight(words[2], ".:")
		if first, _, hasMore := strings.Cut(purpose, ": "); hasMore && len(purpose) > 120 {
			purpose = first
		}
		return escapeCell(strings.NewReplacer("[", "", "]", "").Replace(purpose))
	}
	t.Errorf("%s: the package has no documentation", path)
	return ""
}

// foldersOf lists the folders of a folder that have no rule of their own.
func foldersOf(t *testing.T, folder string, rooms []room) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("..", folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		below := folder + "/" + e.Name()
		hasRule := slices.ContainsFunc(rooms, func(r room) bool { return r.path == below || r.path == below+"/*" })
		if e.IsDir() && e.Name() != "testdata" && !hasRule {
			names = append(names, e.Name())
		}
	}
	return names
}
