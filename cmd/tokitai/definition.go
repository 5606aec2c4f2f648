package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/op"
	"tokitai/op/all"
)

// isDefinitionFile reports whether an argument is a file with a definition, rather than
// the name of an operation.
func isDefinitionFile(word string) bool {
	return strings.EqualFold(filepath.Ext(word), ".def") || strings.ContainsAny(word, `/\`)
}

// definitionFiles caches the files that have been read, so that a file named twice is one
// operation.
var definitionFiles struct {
	sync.Mutex
	operations map[string]*op.Operation
}

// readDefinition reads the operation that a file defines.
func readDefinition(path string) (*op.Operation, error) {
	definitionFiles.Lock()
	defer definitionFiles.Unlock()
	if o := definitionFiles.operations[path]; o != nil {
		return o, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, def.MaxText+1))
	if err != nil {
		return nil, err
	}
	d, err := def.Parse(string(text), fn.All...)
	if err != nil {
		var syntax *def.SyntaxError
		if errors.As(err, &syntax) {
			return nil, wrongUse("%s:%d:%d: %s", path, syntax.Line, syntax.Column, syntax.Message)
		}
		return nil, wrongUse("%s: %v", path, err)
	}
	if err := checkOwnName(path, d); err != nil {
		return nil, err
	}
	o := op.Of(d, path)
	if definitionFiles.operations == nil {
		definitionFiles.operations = map[string]*op.Operation{}
	}
	definitionFiles.operations[path] = o
	return o, nil
}

// checkOwnName returns an error if a definition of somebody's own has the name of a shipped one
// and is another: results, reports and evidence name it. The text of a shipped definition, as
// 'tokitai explain' prints it, is that definition.
func checkOwnName(path string, d *def.Definition) error {
	for _, o := range all.Operations {
		for _, shipped := range o.Definitions {
			if shipped.Name == d.Name && shipped.Hash() != d.Hash() {
				return wrongUse("%s: %s is an operation of this program, and this definition is another: give it a name of its own, such as my.%s", path, d.Name, d.Name)
			}
		}
	}
	return nil
}
