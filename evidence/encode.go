package evidence

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"time"
)

// Schema is the JSON Schema of a [Report]. Those of [Index] and [Run] are in it, as
// $defs/index and $defs/run.
//
//go:embed schema.json
var Schema []byte

// SchemaID and IndexSchemaID identify the schema of a file.
const (
	SchemaID      = "urn:tokitai:evidence:1"
	IndexSchemaID = SchemaID + "#/$defs/index"
)

// FingerprintOf returns the SHA-256 of data in lower-case hexadecimal digits.
func FingerprintOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// DigestOf returns the SHA-256 of one line per case, in order: its name, a space,
// inputs_sha256, a space, outputs_sha256 and a line feed. Without cases it is the SHA-256
// of the empty string.
func DigestOf(cases []Case) string {
	h := sha256.New()
	for _, c := range cases {
		io.WriteString(h, digestLine(c))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func digestLine(c Case) string { return c.Name + " " + c.InputsSHA256 + " " + c.OutputsSHA256 + "\n" }

// JSON returns the report as JSON. It does not check the report.
func (r *Report) JSON() ([]byte, error) { return encode(r) }

// JSON returns the index as JSON.
func (x *Index) JSON() ([]byte, error) { return encode(x) }

// JSON returns the run as JSON.
func (r *Run) JSON() ([]byte, error) { return encode(r) }

// encode returns v as JSON: fields in the order of declaration, map keys sorted, nil
// lists as [], times in UTC, texts printable, and a line feed at the end.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(complete(reflect.ValueOf(v)).Interface()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

var timeType = reflect.TypeFor[time.Time]()

// complete returns a deep copy of v without nil lists and maps, unless JSON omits them, with times
// in UTC and printable texts.
func complete(v reflect.Value) reflect.Value {
	if v.Type() == timeType {
		return reflect.ValueOf(v.Interface().(time.Time).UTC())
	}
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(complete(v.Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if isOmitted := strings.HasSuffix(v.Type().Field(i).Tag.Get("json"), ",omitempty"); !isOmitted || !v.Field(i).IsZero() {
				out.Field(i).Set(complete(v.Field(i)))
			}
		}
	case reflect.Slice:
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(complete(v.Index(i)))
		}
	case reflect.Map:
		out.Set(reflect.MakeMap(v.Type()))
		for key, value := range v.Seq2() {
			out.SetMapIndex(complete(key), complete(value))
		}
	case reflect.String:
		out.SetString(Printable(v.String()))
	default:
		out.Set(v)
	}
	return out
}

// Stable returns a copy of the report without the fields that depend on the machine and
// the time: host, machine, time, and every field whose name ends in seconds. Two runs of
// the same program on the same inputs give the same stable report.
func (r *Report) Stable() *Report {
	out := complete(reflect.ValueOf(r)).Interface().(*Report)
	clearUnstable(reflect.ValueOf(out).Elem())
	return out
}

func clearUnstable(report reflect.Value) {
	for f, v := range report.Fields() {
		name := jsonName(f)
		switch {
		case f.Anonymous:
			clearUnstable(v)
		case name == "host", name == "machine", name == "time", strings.HasSuffix(name, "seconds"):
			v.SetZero()
		}
	}
}

// Fields returns the JSON names of a report's fields, except obtained, which has a text
// for each of them.
func Fields() []string { return fieldsOf(reflect.TypeFor[Report]()) }

func fieldsOf(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		switch name := jsonName(f); {
		case f.Anonymous:
			names = append(names, fieldsOf(f.Type)...)
		case name != "obtained":
			names = append(names, name)
		}
	}
	return names
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
