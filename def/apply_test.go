package def_test

import (
	"strings"
	"testing"

	"tokitai/def"
)

// TestApply builds a definition from another one, which computes the same nodes.
func TestApply(t *testing.T) {
	inner, err := def.Parse("tokitai-def 1\nrowwise inner\nin x[R,C]\nin w[C] f32\nparam p float\nout y[R,C] as x\nout s[R] f32\nt = round(storage(x), x*w)\ny <- half(t)*p\ns <- rowsum(t)", half)
	if err != nil {
		t.Fatal(err)
	}
	outer, err := def.Rowwise("outer", func(b *def.Builder) {
		z := b.In("z")
		r := b.Apply(inner, map[string]def.Value{"x": z, "w": b.InCol("v"), "p": b.Param("q")})
		b.Out("u", r["y"].Sub(r["s"]), def.Like("z"))
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `  t1 = mul(z, v)
  t2 = round(storage(z), t1)
  t3 = half(t2)
  t4 = mul(t3, q)
  t5 = rowsum(t2)
  t6 = sub(t4, t5)
  u <- t6
`
	if !strings.Contains(outer.Text(), want) {
		t.Errorf("outer is\n%s\nwant\n%s", outer.Text(), want)
	}
}

// TestApplyRefusals applies definitions to values that do not fit.
func TestApplyRefusals(t *testing.T) {
	inner := def.Must(def.Rowwise("inner", func(b *def.Builder) {
		b.Out("y", b.In("x").Round(def.StorageOf("x")).Mul(b.InCol("w")))
	}))
	for want, apply := range map[string]func(b *def.Builder, x, w def.Value) map[string]def.Value{
		"inner is applied to no w": func(b *def.Builder, x, w def.Value) map[string]def.Value { return map[string]def.Value{"x": x} },
		"inner is applied to a value for z, which it does not have": func(b *def.Builder, x, w def.Value) map[string]def.Value {
			return map[string]def.Value{"x": x, "w": w, "z": w}
		},
		"as x, a float, one value per column; want a float, one value per element": func(b *def.Builder, x, w def.Value) map[string]def.Value { return map[string]def.Value{"x": w, "w": w} },
		"known only after the last row": func(b *def.Builder, x, w def.Value) map[string]def.Value {
			return map[string]def.Value{"x": x, "w": def.ColSum(x)}
		},
		"rounds to the format of x: want an input for it": func(b *def.Builder, x, w def.Value) map[string]def.Value {
			return map[string]def.Value{"x": x.Neg(), "w": w}
		},
	} {
		_, err := def.Rowwise("outer", func(b *def.Builder) {
			x := b.In("x")
			b.Apply(inner, apply(b, x, b.InCol("w")))
			b.Out("y", x)
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	if _, err := def.Rowwise("outer", func(b *def.Builder) { b.Out("y", b.Apply(nil, nil)["y"]) }); err == nil {
		t.Error("nothing can be applied")
	}
}
