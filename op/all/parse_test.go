package all_test

import (
	"reflect"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/op/all"
)

// TestParseInvertsText reads back every shipped definition. Package def compares every field, of
// definitions of its own.
func TestParseInvertsText(t *testing.T) {
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			for _, text := range []string{d.Source(), d.Text()} {
				parsed, err := def.Parse(text, fn.All...)
				if err != nil {
					t.Fatalf("%s: %v\n%s", d, err, text)
				}
				if parsed.Text() != d.Text() || parsed.Hash() != d.Hash() || text == d.Source() && parsed.Source() != text {
					t.Fatalf("%s: its text parses to another one:\n%s\n%s", d, text, parsed.Source())
				}
				if !reflect.DeepEqual(parsed.Operands, d.Operands) || !reflect.DeepEqual(parsed.Params, d.Params) {
					t.Errorf("%s: parsed, it has operands %+v and parameters %+v, want %+v, %+v", d, parsed.Operands, parsed.Params, d.Operands, d.Params)
				}
				if d.Expression() != nil && (!slices.Equal(parsed.Math().Lines(d), d.Math().Lines(d)) || !slices.Equal(parsed.Exec().Lines(d), d.Exec().Lines(d))) {
					t.Errorf("%s: parsed, its graphs differ", d)
				}
			}
		}
	}
}
