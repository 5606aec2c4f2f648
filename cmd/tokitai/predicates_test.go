package main

import (
	"bytes"
	"encoding"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"tokitai/answer"
	"tokitai/evidence"
	"tokitai/evidence/attest"
	"tokitai/soak"
	"tokitai/train"
	"tokitai/verify"
)

// predicates are the types of predicates whose JSON Schema follows from a Go type, and a predicate of each
// type. evidence.Schema is written by hand.
var predicates = []struct {
	schema, file string
	value        any
}{
	{runSchema, "run", runRecord{Schema: runSchema, Origin: train.Origin{Config: train.Config{}}, Genesis: "0f", Steps: 1, Chain: "0f", Weights: "0f"}},
	{soak.Schema, "soak", soak.Report{Schema: soak.Schema}},
	{receiptSchema, "receipt", receiptRecord{receiptSchema, &answer.Receipt{Version: 1, Choices: []answer.Choice{{Checksums: []answer.Checksum{1}}}}}},
	{shardFileSchema, "shard-file", shardRecord{Schema: shardFileSchema, Shard: verify.Shard{K: 1, N: 2}}},
}

// TestPredicateSchemas: docs/schemas has the JSON Schema of every kind of predicate, with the comments of its
// fields, and what the program writes follows it.
func TestPredicateSchemas(t *testing.T) {
	has := map[string]bool{evidence.SchemaID: true, provenanceType: true}
	for _, p := range predicates {
		has[p.schema] = true
		w := schemaWriter{module: strings.TrimSuffix(reflect.TypeFor[evidence.Report]().PkgPath(), "evidence"), comments: map[string]map[string]string{}}
		schema := w.schema(t, reflect.TypeOf(p.value))
		schema["$schema"], schema["$id"] = "https://json-schema.org/draft/2020-12/schema", p.schema
		schema["properties"].(map[string]any)["schema"] = map[string]any{"const": p.schema}
		text, err := json.MarshalIndent(schema, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, '\n')
		path := filepath.Join("..", "..", "docs", "schemas", p.file+".json")
		if *update {
			if err := os.WriteFile(path, text, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, text) {
			t.Errorf("%s is not up to date: go test ./cmd/tokitai -run TestPredicateSchemas -update (%v)", path, err)
		}
		value, err := json.Marshal(p.value)
		if err != nil {
			t.Fatal(err)
		}
		follows := validator(t, text)
		if err := follows(value); err != nil {
			t.Errorf("%s: %v", p.schema, err)
		}
		if follows(bytes.Replace(value, []byte("{"), []byte(`{"extra": 1, `), 1)) == nil {
			t.Errorf("%s: an unknown member follows the schema", p.schema)
		}
		if follows(bytes.Replace(value, []byte(p.schema), []byte(p.schema+"1"), 1)) == nil {
			t.Errorf("%s: another version follows the schema", p.schema)
		}
		if p.schema == soak.Schema {
			if err := follows(committedSoak(t)); err != nil {
				t.Errorf("the committed soak: %v", err)
			}
		}
	}
	for _, k := range evidenceKinds {
		if !has[k.Schema] {
			t.Errorf("predicates of type %s have no JSON Schema", k.Schema)
		}
	}
}

// committedSoak returns the predicate of docs/soak/h200.intoto.jsonl.
func committedSoak(t *testing.T) []byte {
	t.Helper()
	list, err := readEnvelopes("../../docs/soak/h200.intoto.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	payload, err := attest.Payload(list[0])
	if err != nil {
		t.Fatal(err)
	}
	var s attest.Statement
	if err := json.Unmarshal(payload, &s); err != nil {
		t.Fatal(err)
	}
	return s.Predicate
}

// validator returns a function that holds JSON to a schema.
func validator(t *testing.T, schema []byte) func(data []byte) error {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return func(data []byte) error {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			return err
		}
		return compiled.Validate(value)
	}
}

// schemaWriter writes JSON Schemas of Go types.
type schemaWriter struct {
	module   string                       // its path with a slash, or ""
	comments map[string]map[string]string // of fields, by package and TYPE.FIELD
}

func (w *schemaWriter) schema(t *testing.T, of reflect.Type) map[string]any {
	t.Helper()
	if of.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return map[string]any{"type": "string"}
	}
	switch of.Kind() {
	case reflect.Pointer:
		return w.schema(t, of.Elem())
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice:
		return map[string]any{"type": []string{"array", "null"}, "items": w.schema(t, of.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": w.schema(t, of.Elem())}
	case reflect.Struct:
	default:
		t.Fatalf("no schema for %v", of)
	}
	properties, required := map[string]any{}, []string{}
	w.fields(t, of, properties, &required)
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// fields adds the fields of a struct, and those of structs that are embedded in it.
func (w *schemaWriter) fields(t *testing.T, of reflect.Type, properties map[string]any, required *[]string) {
	t.Helper()
	for f := range of.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			w.fields(t, f.Type, properties, required)
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			name = f.Name
		}
		property := w.schema(t, f.Type)
		if text := w.comment(t, of, f.Name); text != "" {
			property["description"] = text
		}
		properties[name] = property
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			*required = append(*required, name)
		}
	}
}

// comment returns the comment of a field.
func (w *schemaWriter) comment(t *testing.T, of reflect.Type, field string) string {
	t.Helper()
	path, isOwn := strings.CutPrefix(of.PkgPath(), w.module)
	folder := filepath.Join("..", "..", filepath.FromSlash(path))
	if of.PkgPath() == reflect.TypeFor[schemaWriter]().PkgPath() {
		folder, isOwn = ".", true
	}
	if !isOwn {
		return ""
	}
	if w.comments[folder] == nil {
		w.comments[folder] = fieldComments(t, folder)
	}
	return w.comments[folder][of.Name()+"."+field]
}

// fieldComments returns the comments of all fields of the types in a folder.
func fieldComments(t *testing.T, folder string) map[string]string {
	t.Helper()
	comments := map[string]string{}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(folder, err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						comments[spec.Name.Name+"."+name.Name] = strings.TrimSpace(f.Doc.Text() + f.Comment.Text())
					}
				}
			}
			return true
		})
	}
	return comments
}
