package huggingface

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tokitai/internal/jsontree"
	"tokitai/internal/nearest"
	"tokitai/internal/readfile"
)

// FormatError is a file that is malformed, contradicts itself or asks for what is not supported.
type FormatError struct {
	Path string
	Err  error
}

func (e *FormatError) Error() string { return e.Path + ": " + e.Err.Error() }
func (e *FormatError) Unwrap() error { return e.Err }

// maxJSON is the largest size of a configuration.
const maxJSON = 1 << 22

// readObject reads a file that holds a JSON object.
func readObject(path string) (*jsontree.Value, []byte, error) {
	text, err := readfile.Linked(path, maxJSON)
	if err != nil {
		return nil, nil, err
	}
	object, err := parseObject(text)
	if err != nil {
		return nil, nil, &FormatError{path, err}
	}
	return object, text, nil
}

func parseObject(text []byte) (*jsontree.Value, error) {
	object, err := jsontree.Parse(text)
	if err == nil && object.Kind != jsontree.Object {
		err = fmt.Errorf("got %v, want an object", object.Kind)
	}
	return object, err
}

// fields reads the members of an object and remembers which were read. After the first error it does
// nothing more.
type fields struct {
	object *jsontree.Value
	within string // the name of the object and a dot, or ""
	read   map[string]bool
	nulls  bool // all members may be null
	err    error
}

func newFields(object *jsontree.Value, within string) *fields {
	return &fields{object: object, within: within, read: map[string]bool{}}
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

// get returns a member; nil if there is none or it is null.
func (f *fields) get(name string) *jsontree.Value {
	f.read[name] = true
	v := f.object.Get(name)
	if v == nil || v.Kind == jsontree.Null {
		return nil
	}
	return v
}

// has reports whether there is a member, null or not.
func (f *fields) has(name string) bool { return f.object.Get(name) != nil }

// nullable are the numbers, names and so on that may be null, which is what transformers then computes from other fields
// or leaves out. Where it is null, any other one would have no value.
var nullable = []string{
	"dtype", "torch_dtype", "num_key_value_heads", "head_dim", "n_inner", "sliding_window", "original_max_position_embeddings", "attn_logit_softcapping", "final_logit_softcapping",
	"factor", "attention_factor", "mscale", "mscale_all_dim", "beta_fast", "beta_slow",
}

// value is get of a member that must not be null.
func (f *fields) value(name string) *jsontree.Value {
	v := f.get(name)
	if v == nil && f.has(name) && !f.nulls && !slices.Contains(nullable, name) {
		f.fail("%s%s is null, want a value", f.within, name)
	}
	return v
}

func (f *fields) wrong(name string, v *jsontree.Value, want string) {
	got := v.Kind.String()
	if v.Kind == jsontree.Number || v.Kind == jsontree.Bool {
		got = readfile.Clip(v.Text)
	} else if v.Kind == jsontree.String {
		got = strconv.Quote(readfile.Clip(v.Text))
	}
	f.fail("%s%s is %s, want %s", f.within, name, got, want)
}

// size returns a whole number of at least 1, or otherwise if there is none.
func (f *fields) size(name string, otherwise int) int {
	v := f.value(name)
	if v == nil {
		return otherwise
	}
	n, err := strconv.ParseInt(v.Text, 10, 64)
	if v.Kind != jsontree.Number || err != nil || n < 1 || n > math.MaxInt32 {
		f.wrong(name, v, "a whole number from 1 to 2^31-1")
		return 1
	}
	return int(n)
}

// needed is size of a member that must be there.
func (f *fields) needed(name string) int {
	if f.get(name) == nil {
		f.fail("%s%s is missing", f.within, name)
		return 1
	}
	return f.size(name, 1)
}

// number returns a finite number.
func (f *fields) number(name string, otherwise float64) float64 {
	v := f.value(name)
	if v == nil {
		return otherwise
	}
	x, err := strconv.ParseFloat(v.Text, 64)
	if v.Kind != jsontree.Number || err != nil || math.IsInf(x, 0) {
		f.wrong(name, v, "a number")
		return otherwise
	}
	return x
}

func (f *fields) bool(name string, otherwise bool) bool {
	v := f.value(name)
	if v == nil {
		return otherwise
	}
	if v.Kind != jsontree.Bool {
		f.wrong(name, v, "true or false")
	}
	return v.Text == "true"
}

func (f *fields) text(name, otherwise string) string {
	v := f.value(name)
	if v == nil {
		return otherwise
	}
	if v.Kind != jsontree.String {
		f.wrong(name, v, "a string")
		return otherwise
	}
	return v.Text
}

// list returns the elements of an array, or of a value that stands for an array of one.
func (f *fields) list(name string) []jsontree.Value {
	v := f.get(name)
	if v == nil {
		return nil
	}
	if v.Kind != jsontree.Array {
		return []jsontree.Value{*v}
	}
	return v.List
}

// texts returns a list of strings.
func (f *fields) texts(name string) []string {
	var list []string
	for _, v := range f.list(name) {
		if v.Kind != jsontree.String {
			f.wrong(name, &v, "a list of strings")
			return nil
		}
		list = append(list, v.Text)
	}
	return list
}

// numbers returns a list of finite numbers.
func (f *fields) numbers(name string) []float64 {
	var list []float64
	for _, v := range f.list(name) {
		x, err := strconv.ParseFloat(v.Text, 64)
		if v.Kind != jsontree.Number || err != nil || math.IsInf(x, 0) {
			f.wrong(name, &v, "a list of numbers")
			return nil
		}
		list = append(list, x)
	}
	return list
}

// integers returns a list of whole numbers that are not negative.
func (f *fields) integers(name string) []int {
	var list []int
	for _, x := range f.numbers(name) {
		if x < 0 || x > math.MaxInt32 || x != math.Trunc(x) {
			f.fail("%s%s has %v, want whole numbers from 0 to 2^31-1", f.within, name, x)
			return nil
		}
		list = append(list, int(x))
	}
	return list
}

// ignore notes members that change nothing.
func (f *fields) ignore(names ...string) {
	for _, n := range names {
		f.read[n] = true
	}
}

// must refuses a member unless it is absent, null or has one of some values, as JSON writes them.
func (f *fields) must(name, because string, values ...string) {
	v := f.get(name)
	if v == nil {
		return
	}
	text := v.Text
	switch {
	case v.Kind == jsontree.String:
		text = strconv.Quote(v.Text)
	case v.Kind == jsontree.Array && len(v.List) == 0:
		text = "[]"
	case v.Kind == jsontree.Object && len(v.Members) == 0:
		text = "{}"
	case v.Kind == jsontree.Array || v.Kind == jsontree.Object:
		text = v.Kind.String()
	}
	if slices.Contains(values, text) {
		return
	}
	// Numbers are compared by value: 1 is 1.0.
	if x, err := strconv.ParseFloat(v.Text, 64); v.Kind == jsontree.Number && err == nil {
		for _, w := range values {
			if y, err := strconv.ParseFloat(w, 64); err == nil && x == y {
				return
			}
		}
	}
	f.fail("%s%s is %s, which is not supported: %s", f.within, name, readfile.Clip(text), because)
}

// end refuses members that were not read, but for those that are null.
func (f *fields) end() error {
	if f.err != nil {
		return f.err
	}
	var known []string
	for name := range f.read {
		known = append(known, name)
	}
	slices.Sort(known)
	for _, m := range f.object.Members {
		if f.read[m.Name] || m.Value.Kind == jsontree.Null {
			continue
		}
		hint := ""
		if near := nearest.Names(m.Name, known); len(near) > 0 {
			hint = ", did you mean " + strings.Join(near, " or ") + "?"
		}
		return fmt.Errorf("%s%s is a field that is not known here: it may change what the network computes%s", f.within, readfile.Clip(m.Name), hint)
	}
	return nil
}
