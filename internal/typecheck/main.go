// Command typecheck checks the types of a module's packages and their tests, as a compiler for
// another system does, without compiling anything.
//
//	go run ./internal/typecheck [-tags TAGS] SYSTEM/ARCHITECTURE...
//
// It takes a few seconds for a system, where a build takes a minute. It fails if a name is missing
// there, such as a function in a file for unix alone.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

func main() {
	tags := flag.String("tags", "", "build tags, as of go build")
	flag.Parse()
	failed := make([]error, flag.NArg())
	var systems sync.WaitGroup
	for i, target := range flag.Args() {
		systems.Go(func() {
			n, err := check(".", target, *tags)
			if failed[i] = err; err == nil {
				fmt.Printf("%s: %d packages\n", target, n)
			}
		})
	}
	systems.Wait()
	if err := errors.Join(failed...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// files are those parsed so far: most belong to all systems.
var (
	positions = token.NewFileSet()
	files     sync.Map // by name, a function that parses the file once
)

func parse(name string) (*ast.File, error) {
	once, _ := files.LoadOrStore(name, sync.OnceValues(func() (*ast.File, error) {
		return parser.ParseFile(positions, name, nil, parser.SkipObjectResolution)
	}))
	return once.(func() (*ast.File, error))()
}

// listed is a package as `go list` describes it. Tests are packages of their own: the name of one
// ends with that of the test program, in brackets.
type listed struct {
	ImportPath, Dir   string
	GoFiles, CgoFiles []string
	ImportMap         map[string]string
	Module            *struct{ GoVersion string }
	Standard, DepOnly bool
	Error             *struct{ Err string }
}

// check checks the packages of a module and returns their number.
func check(folder, target, tags string) (int, error) {
	system, architecture, found := strings.Cut(target, "/")
	sizes := types.SizesFor("gc", architecture)
	if !found || sizes == nil {
		return 0, fmt.Errorf("%s is no system and architecture, want one such as linux/arm64", target)
	}
	list := exec.Command("go", "list", "-deps", "-test", "-tags", tags,
		"-json=ImportPath,Dir,GoFiles,CgoFiles,ImportMap,Module,Standard,DepOnly,Error", "./...")
	list.Dir, list.Stderr = folder, os.Stderr
	list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+architecture, "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		return 0, fmt.Errorf("%s: go list: %w", target, err)
	}
	checked := map[string]*types.Package{"unsafe": types.Unsafe}
	packages := 0
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(listed)
		if err := d.Decode(p); err == io.EOF {
			return packages, nil
		} else if err != nil {
			return 0, fmt.Errorf("%s: go list: %w", target, err)
		}
		if p.Error != nil {
			return 0, fmt.Errorf("%s: %s: %s", target, p.ImportPath, p.Error.Err)
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") { // the latter is written by go test
			continue
		}
		if checked[p.ImportPath], err = p.check(checked, sizes); err != nil {
			return 0, fmt.Errorf("%s: %w", target, err)
		}
		if !p.DepOnly {
			packages++
		}
	}
}

// check checks a package whose imports are checked.
func (p *listed) check(checked map[string]*types.Package, sizes types.Sizes) (*types.Package, error) {
	var files []*ast.File
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		f, err := parse(name)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	var all []error
	c := types.Config{
		Importer: importer(func(path string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			if checked[path] == nil {
				return nil, fmt.Errorf("%s is not listed", path)
			}
			return checked[path], nil
		}),
		Sizes:            sizes,
		IgnoreFuncBodies: p.DepOnly, // others' code compiles
		FakeImportC:      true,
		Error:            func(err error) { all = append(all, err) },
	}
	if p.Module != nil {
		c.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	done, err := c.Check(path, positions, files, nil)
	if p.DepOnly && done != nil {
		return done, nil
	}
	return done, errors.Join(append(all, err)...)
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
