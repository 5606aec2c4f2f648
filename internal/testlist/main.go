// Command testlist lists tests with a property, as arguments of `go test`: a pattern of their
// names, and the folders that have one.
//
//	go run ./internal/testlist [-every N | -seconds S [-anew] [-times F]] [-from K] [-skip REGEXP] PROPERTY FOLDER...
//
// With -record LEVEL it takes what tests cost at level smoke or quick from the output of go test -v instead, which it reads,
// and puts it into .ci/costs:
//
//	go test -count=1 -v ./... | go run ./internal/testlist -record smoke
//
// The properties are
//
//	level       tests that ask for the level (package testlevel). All others do the same at every
//	            level: .ci/run, which runs all tests at level smoke, runs only these at quick.
//	tools       tests that need a program besides Go (package tool)
//	goroutines  tests that start goroutines, for the race detector
//	all         all tests
//
// A folder may end in /..., which stands for all folders below. With -every N it is a sample:
// every Nth test, beginning with number K modulo N, and one at least. With -seconds S it is a sample
// that takes S seconds at most, as .ci/costs says what tests cost: K puts the tests into an order, and of
// those each is taken that there is still time for. With -anew it includes the time to compile what they
// import; with -times F a test takes F times as long. Tests whose name matches -skip are left out before.
//
// A test has the property if it names package testlevel or tool, or has a go statement; or if it
// names a package that imports testlevel or tool outside of its tests, or a function, method, type or
// variable of the test files in its folder that has the property, at any distance. Names are compared
// as text: a test too many is found rather than one too few.
package main

import (
	"cmp"
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
	"regexp"
	"slices"
	"strings"
)

// named has the package that tests of a property name.
var named = map[string]string{"level": "tokitai/internal/testlevel", "tools": "tokitai/internal/tool"}

// goroutine stands for a go statement among the names in a declaration.
const goroutine = "go statement"

func main() {
	var s sample
	flag.IntVar(&s.every, "every", 1, "take every Nth test")
	flag.IntVar(&s.from, "from", 0, "begin with this one, modulo N; with -seconds, the number of the order")
	flag.StringVar(&s.skip, "skip", "", "leave out tests whose name matches")
	seconds := flag.Float64("seconds", 0, "take tests that cost so much together")
	anew := flag.Bool("anew", false, "nothing has been compiled")
	times := flag.Float64("times", 1, "a test takes so many times as long")
	recorded := flag.String("record", "", "write what tests cost at this level")
	flag.Parse()
	if *recorded != "" {
		if err := record(costsFile, *recorded, os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, "testlist:", err)
			os.Exit(1)
		}
		return
	}
	property := flag.Arg(0)
	var err error
	if *seconds != 0 {
		s.seconds = *seconds
		s.costs, err = readCosts(costsFile, property, *anew, *times)
	}
	var args []string
	if err == nil {
		args, err = arguments(".", property, flag.Args()[min(1, flag.NArg()):], s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlist:", err)
		os.Exit(1)
	}
	fmt.Println(strings.Join(args, " "))
}

// sample says which of the tests are taken: of all, one in every, or as many as there are seconds for.
type sample struct {
	every, from int
	skip        string // matches names of tests that are left out; or nothing
	seconds     float64
	costs       costs
}

// of returns the names of the tests that are taken. Where has all tests, with their folders.
func (s sample) of(where map[string][]string) ([]string, error) {
	skip, err := regexp.Compile(cmp.Or(s.skip, "^$"))
	if err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(where)), skip.MatchString)
	if len(names) == 0 {
		return nil, fmt.Errorf("-skip %s leaves no test", s.skip)
	}
	if s.seconds != 0 {
		return s.costs.within(s.seconds, s.from, names, where)
	}
	every := min(max(s.every, 1), len(names)) // one at least
	var taken []string
	for i, test := range names {
		if i%every == s.from%every {
			taken = append(taken, test)
		}
	}
	return taken, nil
}

// arguments returns the arguments of go test for the folders below a root.
func arguments(root, property string, patterns []string, s sample) ([]string, error) {
	if !slices.Contains([]string{"level", "tools", "goroutines", "all"}, property) {
		return nil, fmt.Errorf("unknown property %q, want level, tools, goroutines or all", property)
	}
	all, err := parse(root)
	if err != nil {
		return nil, err
	}
	packages := []string{named[property]}
	for folder, files := range all {
		if slices.ContainsFunc(files, func(f file) bool { return !f.isTest && f.imports(packages[:1]) }) {
			packages = append(packages, path.Join("tokitai", folder))
		}
	}
	where := map[string][]string{} // by test
	for _, pattern := range patterns {
		isFound := false
		for folder, files := range all {
			if matches(pattern, folder) {
				isFound = true
				for _, test := range with(property, files, packages) {
					where[test] = append(where[test], "./"+folder)
				}
			}
		}
		if !isFound {
			return nil, fmt.Errorf("no folder %s", pattern)
		}
	}
	if len(where) == 0 {
		return nil, fmt.Errorf("no test in %s has property %s", strings.Join(patterns, " "), property)
	}
	names, err := s.of(where)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var folders []string
	for _, test := range names {
		folders = append(folders, where[test]...)
	}
	slices.Sort(folders)
	return append([]string{"-run", "^(" + strings.Join(names, "|") + ")$"}, slices.Compact(folders)...), nil
}

func matches(pattern, folder string) bool {
	pattern = path.Clean(pattern)
	below, isTree := strings.CutSuffix(pattern, "/...")
	return pattern == "..." || folder == below || isTree && strings.HasPrefix(folder, below+"/")
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

// with returns the tests of a folder that have the property. Whoever names one of the packages has it.
func with(property string, files []file, packages []string) []string {
	uses := map[string][]string{} // by the name of a declaration, the names in it
	has := map[string]bool{goroutine: property == "goroutines"}
	for _, f := range files {
		if !f.isTest {
			continue
		}
		for _, i := range f.Imports {
			if p := strings.Trim(i.Path.Value, `"`); slices.Contains(packages, p) {
				name := path.Base(p)
				if i.Name != nil {
					name = i.Name.Name
				}
				has[name] = true
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
			if !has[name] && slices.ContainsFunc(in, func(n string) bool { return has[n] }) {
				has[name], isChanged = true, true
			}
		}
	}
	var tests []string
	for name := range uses {
		if strings.HasPrefix(name, "Test") && name != "TestMain" && (property == "all" || has[name] || property == "level" && has["TestMain"]) {
			tests = append(tests, name)
		}
	}
	return tests
}

// namesIn returns the names that a declaration mentions, with goroutine if it starts one.
func namesIn(n ast.Node) []string {
	var names []string
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			names = append(names, n.Name)
		case *ast.GoStmt:
			names = append(names, goroutine)
		case *ast.CallExpr: // as of sync.WaitGroup
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Go" {
				names = append(names, goroutine)
			}
		}
		return true
	})
	return names
}
