package safetensors

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
)

// parseIndex parses an index and returns the file of each tensor. It ignores all keys but
// weight_map.
func parseIndex(text []byte) (map[string]string, error) {
	if err := checkText("the index", text); err != nil {
		return nil, err
	}
	p := newParser("the index", text)
	var shards map[string]string
	var seen []string
	err := p.object(func(key string) error {
		if slices.Contains(seen, key) {
			return bad("the key %q occurs twice", key)
		}
		value := func(string) error { return p.skip() }
		switch key {
		case "metadata":
		case "weight_map":
			shards = map[string]string{}
			value = func(name string) error { return p.shard(shards, name) }
		default:
			return p.skip()
		}
		seen = append(seen, key)
		return under(key, p.object(value))
	})
	if err != nil {
		return nil, err
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	if shards == nil {
		return nil, bad("weight_map is missing, want {\"weight_map\": {\"TENSOR\": \"FILE\", ...}}")
	}
	return shards, nil
}

// shard reads the file name of one tensor.
func (p *parser) shard(shards map[string]string, name string) error {
	t, err := p.token()
	if err != nil {
		return err
	}
	file, ok := t.(string)
	switch _, isTwice := shards[name]; {
	case isTwice:
		return bad("the name %q occurs twice", name)
	case !ok:
		return badTensor(name, "the file is %v, want a string", describe(t))
	case !isInside(file):
		return badTensor(name, "the file is %q, want one in the folder of the index", file)
	}
	shards[name] = file
	return nil
}

// isInside reports whether a relative path stays in its folder. It does not follow
// symbolic links: caches store shards as links to files elsewhere.
func isInside(file string) bool {
	isParent := func(s string) bool { return s == ".." }
	return filepath.IsLocal(filepath.FromSlash(file)) && filepath.Clean(file) != "." && !strings.HasSuffix(file, "/") &&
		!strings.ContainsRune(file, 0) && !slices.ContainsFunc(strings.FieldsFunc(file, isSlash), isParent)
}

func isSlash(r rune) bool { return r == '/' || r == '\\' }

// skip reads one value of any kind.
func (p *parser) skip() error {
	depth := 0
	for {
		t, err := p.token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
