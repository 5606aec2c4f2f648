package def_test

import (
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/num"
)

// A usual form has the definition's operands and parameters.
func TestUsualForms(t *testing.T) {
	build := func(name, input, param string, rules ...def.Rule) *def.Definition {
		return def.Must(def.Rowwise(name, func(b *def.Builder) {
			b.Out("y", b.In(input, rules...).Mul(b.Param(param)), def.Like(input))
		}))
	}
	form := build("test.form", "x", "scale")
	with := func(form *def.Definition) (*def.Definition, error) {
		return def.Rowwise("test.own", func(b *def.Builder) {
			b.Out("y", b.Param("scale").Mul(b.In("x")), def.Like("x"))
			b.Usually(form)
		})
	}
	d, err := with(form)
	if err != nil || len(d.UsualForms()) != 1 || d.UsualForms()[0] != form {
		t.Errorf("got %v and %v", d, err)
	}
	for want, form := range map[string]*def.Definition{
		"want a rowwise definition":                       nil,
		"form test.other: its operands are [z y], want [": build("test.other", "z", "scale"),
		"other parameters":                                build("test.other", "x", "factor"),
		"its operands are":                                build("test.other", "x", "scale", def.Only(num.F32)),
	} {
		if _, err := with(form); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
