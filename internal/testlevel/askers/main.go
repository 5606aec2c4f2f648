// Command askers finds the tests that ask for the level (package testlevel). All others do the
// same at every level, so that .ci/run, which runs all tests at level smoke, runs only these at
// level quick.
//
//	go run ./internal/testlevel/askers [-every N -from K] FOLDER...
//
// It prints the arguments of `go test` for them: a pattern of their names, and the folders that
// have one. A folder may end in /..., which stands for all folders below. With -every N it is a
// sample: every Nth test, beginning with number K modulo N.
//
// A test asks if it names package testlevel, a package that imports testlevel outside of its tests,
// or a function, method, type or variable of the test files in its folder that does, at any
// distance. Names are compared as text: a test too many is found rather than one too few.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const level = "tokitai/internal/testlevel"

func main() {
	every, from := flag.Int("every", 1, "take every Nth test"), flag.Int("from", 0, "begin with this one, modulo N")
	flag.Parse()
	args, err := arguments(".", flag.Args(), max(*every, 1), *from)
	if err != nil {
		fmt.Fprintln(os.Stderr, "askers:", err)
		os.Exit(1)
	}
	fmt.Println(strings.Join(args, " "))
}

// arguments returns the arguments of go test for the folders below a root.
func arguments(root string, patterns []string, every, from int) ([]string, error) {
	all, err := parse(root)
	if err != nil {
		return nil, err
	}
	levels := []string{level}
	for folder, files := range all {
		if slices.ContainsFunc(files, func(f file) bool { return !f.isTest && f.imports(levels[:1]) }) {
			levels = append(levels, path.Join("tokitai", folder))
		}
	}
	where := map[string][]string{} // by test
	for _, pattern := range patterns {
		isFound := false
		for folder, files := range all {
			if matches(pattern, folder) {
				isFound = true
				for _, test := range askers(files, levels) {
					where[test] = append(where[test], "./"+folder)
				}
			}
		}
		if !isFound {
			return nil, fmt.Errorf("no folder %s", pattern)
		}
	}
	var names, folders []string
	for i, test := range slices.Sorted(maps.Keys(where)) {
		if i%every == from%every {
			names, folders = append(names, test), append(folders, where[test]...)
		}
	}
	if names == nil {
		return nil, fmt.Errorf("no test in %s asks for the level", strings.Join(patterns, " "))
	}
	slices.Sort(folders)
	return append([]string{"-run", "^(" + strings.Join(names, "|") + ")$"}, slices.Compact(folders)...), nil
}

func matches(pattern, folder string) bool {
	below, isTree := strings.CutSuffix(path.Clean(pattern), "/...")
	return folder == below || isTree && strings.HasPrefix(folder, below+"/")
}

type file struct {
	*ast.File
	isTest bool
}

// imports reports whether a file imports one of the packages.
func (f file) imports(paths []string) bool {
	return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return slices.Contains(paths, strings.Trim(i.Path.Value, `"`)) })
}

// parse parses all files, by folder.
func parse(root string) (map[string][]file, error) {
	all := map[string][]file{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && (entry.Name()[0] == '.' || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, filepath.Dir(name))
		folder := filepath.ToSlash(relative)
		all[folder] = append(all[folder], file{f, strings.HasSuffix(name, "_test.go")})
		return err
	})
	return all, err
}

// askers returns the tests of a folder that ask for the level.
func askers(files []file, levels []string) []string {
	uses := map[string][]string{} // by the name of a declaration, the names in it
	asks := map[string]bool{}
	for _, f := range files {
		if !f.isTest {
			continue
		}
		for _, i := range f.Imports {
			if p := strings.Trim(i.Path.Value, `"`); slices.Contains(levels, p) {
				name := path.Base(p)
				if i.Name != nil {
					name = i.Name.Name
				}
				asks[name] = true
			}
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				uses[d.Name.Name] = append(uses[d.Name.Name], namesIn(d)...)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.ValueSpec:
						for _, n := range s.Names {
							uses[n.Name] = append(uses[n.Name], namesIn(s)...)
						}
					case *ast.TypeSpec:
						uses[s.Name.Name] = append(uses[s.Name.Name], namesIn(s)...)
					}
				}
			}
		}
	}
	for isChanged := true; isChanged; {
		isChanged = false
		for name, in := range uses {
			if !asks[name] && slices.ContainsFunc(in, func(n string) bool { return asks[n] }) {
				asks[name], isChanged = true, true
			}
		}
	}
	var tests []string
	for name := range uses {
		if strings.HasPrefix(name, "Test") && name != "TestMain" && (asks[name] || asks["TestMain"]) {
			tests = append(tests, name)
		}
	}
	return tests
}

// namesIn returns the names that a declaration mentions.
func namesIn(n ast.Node) []string {
	var names []string
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			names = append(names, id.Name)
		}
		return true
	})
	return names
}
