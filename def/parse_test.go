package def_test

import (
	"math"
	"reflect"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/trial/randdef"
)

// TestParseInvertsText reads back every definition at hand: those of the tests, and random ones.
// Those that are shipped are in op/all: beside package def's own tests, all operations would be
// compiled once more.
func TestParseInvertsText(t *testing.T) {
	t.Parallel()
	definitions := append(golden(), axes()...)
	for _, f := range fn.All {
		definitions = append(definitions, def.Must(def.Rowwise("calls."+f.Name, func(b *def.Builder) { b.Out("y", f.Of(b.In("x"))) })))
	}
	for seed := range uint64(testlevel.Pick(100, 400, 5000)) {
		d, err := randdef.New(gen.Seeded(seed))
		if err != nil {
			t.Fatal(err)
		}
		definitions = append(definitions, d)
	}
	for _, d := range definitions {
		known := append(fn.All[:len(fn.All):len(fn.All)], power, half)
		parsed, err := def.Parse(d.Source(), known...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", d, err, d.Source())
		}
		if difference := unequal(reflect.ValueOf(d), reflect.ValueOf(parsed), "definition", map[[2]any]bool{}); difference != "" {
			t.Fatalf("%s: parsed, %s differs:\n%s\n%s", d, difference, d.Source(), parsed.Source())
		}
		plain, err := def.Parse(d.Text(), known...)
		if err != nil || plain.Text() != d.Text() || plain.Hash() != d.Hash() {
			t.Fatalf("%s: its text parses to %v, %v", d, plain, err)
		}
		strange, err := def.Parse(d.Source()) // functions that nobody knows
		if err != nil || strange.Source() != d.Source() {
			t.Fatalf("%s: without known functions it parses to %v, %v", d, strange, err)
		}
		if difference := unequal(reflect.ValueOf(d), reflect.ValueOf(strange), "definition", map[[2]any]bool{}); difference != "" && len(d.Functions()) == 0 {
			t.Fatalf("%s: without known functions, %s differs", d, difference)
		}
	}
}

// axes are products with batch axes and groups, with scales, and of FP8.
func axes() []*def.Definition {
	g := def.Groups{Number: "G", Of: "M", Offsets: "offsets"}
	plain := def.ContractionForm{Left: "A", LeftDims: []string{"M", "K"}, Right: "B", RightDims: []string{"K", "N"}, Result: "C", ResultDims: []string{"M", "N"}}
	rows, cols, bytes := plain, plain, plain
	rows.Scales.Row, cols.Scales.Col = "s", "s"
	bytes.Factors, bytes.Accumulate = def.Only(num.E5M2), true
	return []*def.Definition{
		def.Must(def.Contraction("scaled.rows", rows)),
		def.Must(def.Contraction("scaled.cols", cols)),
		def.Must(def.Contraction("bytes", bytes)),
		def.Must(def.Contraction("batched", def.ContractionForm{
			Left: "A", LeftDims: []string{"H", "M", "K"}, Right: "B", RightDims: []string{"K", "N"}, Result: "C", ResultDims: []string{"H", "M", "N"},
		})),
		def.Must(def.Contraction("grouped.forward", def.ContractionForm{
			Left: "A", LeftDims: []string{"M", "K"}, Right: "B", RightDims: []string{"G", "K", "N"}, Result: "C", ResultDims: []string{"M", "N"}, Groups: g,
		})),
		def.Must(def.Contraction("grouped.grad_b", def.ContractionForm{
			Left: "A", LeftDims: []string{"M", "K"}, TransposeLeft: true, Right: "dC", RightDims: []string{"M", "N"},
			Result: "dB", ResultDims: []string{"G", "K", "N"}, Accumulate: true, Groups: g,
		})),
	}
}

// unequal names the first field in which two values differ, or returns "". Functions of
// Go are not compared: what they build is.
func unequal(a, b reflect.Value, path string, seen map[[2]any]bool) string {
	if a.Kind() != b.Kind() {
		return path
	}
	switch a.Kind() {
	case reflect.Func:
		return ""
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				return path
			}
			return ""
		}
		key := [2]any{a.Pointer(), b.Pointer()}
		if seen[key] {
			return ""
		}
		seen[key] = true
		return unequal(a.Elem(), b.Elem(), path, seen)
	case reflect.Struct:
		for i := range a.NumField() {
			name := a.Type().Field(i).Name
			if name == "Body" && a.Type().Name() == "Node" {
				continue // before its expansion; Exec has what is made of it
			}
			if name == "forms" && a.Type().Name() == "Definition" {
				continue // which are no part of the text
			}
			if name == "last" && a.Type().Name() == "realNode" {
				continue // what was computed before
			}
			if s := unequal(a.Field(i), b.Field(i), path+"."+name, seen); s != "" {
				return s
			}
		}
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return path
		}
		for i := range a.Len() {
			if s := unequal(a.Index(i), b.Index(i), path+"[…]", seen); s != "" {
				return s
			}
		}
	case reflect.Float32, reflect.Float64:
		if math.Float64bits(a.Float()) != math.Float64bits(b.Float()) {
			return path
		}
	case reflect.Interface:
		return unequal(a.Elem(), b.Elem(), path, seen)
	case reflect.Invalid:
	default:
		if !a.Equal(b) {
			return path
		}
	}
	return ""
}
