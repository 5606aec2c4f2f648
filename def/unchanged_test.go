package def_test

import (
	"reflect"
	"testing"

	"tokitai/def"
	"tokitai/num"
)

// TestCheckUnchanged changes one thing at a time.
func TestCheckUnchanged(t *testing.T) {
	half := &def.Function{Name: "half", Expand: func(x def.Value) def.Value { return x.Mul(def.Half) }}
	build := func() *def.Definition {
		return def.Must(def.Rowwise("test", func(b *def.Builder) {
			x := b.In("x")
			b.Out("y", half.Of(x.Sub(def.RowMax(x))).Round(def.FixedStorage(num.F16)).Add(b.Param("p")), def.Like("x"))
		}))
	}
	if err := build().CheckUnchanged(); err != nil {
		t.Fatalf("as built: %v", err)
	}
	for what, change := range map[string]func(d *def.Definition){
		"name":      func(d *def.Definition) { d.Name = "other" },
		"operand":   func(d *def.Definition) { d.Operands[0].Name = "z" },
		"extent":    func(d *def.Definition) { d.Operands[0].Extent = def.PerRow },
		"format":    func(d *def.Definition) { d.Operands[0].DTypes = def.Only(num.F32) },
		"parameter": func(d *def.Definition) { d.Params[0].Name = "q" },
		"truth":     func(d *def.Definition) { d.Math().Nodes[len(d.Math().Nodes)-1].Op = def.OpSub },
		"execution": func(d *def.Definition) { d.Exec().Nodes[len(d.Exec().Nodes)-1].Op = def.OpSub },
		"late":      func(d *def.Definition) { d.Exec().Nodes[1].Late = true },
		"argument": func(d *def.Definition) {
			n := d.Exec().Nodes[len(d.Exec().Nodes)-1]
			n.Args[0], n.Args[1] = n.Args[1], n.Args[0]
		},
		"storage": func(d *def.Definition) {
			for _, n := range d.Exec().Nodes {
				n.Storage = def.FixedStorage(num.BF16)
			}
		},
		"output":  func(d *def.Definition) { d.Exec().Outputs[0].Value = d.Exec().Nodes[0] },
		"node":    func(d *def.Definition) { d.Exec().Nodes[1] = nil },
		"nothing": func(d *def.Definition) { *d = def.Definition{Name: "test"} },
		"form":    func(d *def.Definition) { d.Form = &def.Expression{Math: d.Math(), Exec: d.Math()} },
	} {
		d := build()
		if change(d); d.CheckUnchanged() == nil {
			t.Errorf("a change of the %s was not found", what)
		}
	}
	product := def.Must(def.Contraction("test", def.ContractionForm{
		Left: "A", LeftDims: []string{"M", "K"}, Right: "B", RightDims: []string{"K", "N"}, Result: "C", ResultDims: []string{"M", "N"},
	}))
	if err := product.CheckUnchanged(); err != nil {
		t.Fatalf("a product as built: %v", err)
	}
	if product.Product().TransposeLeft = true; product.CheckUnchanged() == nil {
		t.Error("a change of a product's form was not found")
	}
}

// TestEveryFieldOfOperands changes each field of an operand alone, also those inside of it.
func TestEveryFieldOfOperands(t *testing.T) {
	d := def.Must(def.Rowwise("test", func(b *def.Builder) { b.Out("y", b.In("x").Add(def.One), def.Like("x")) }))
	var change func(path string, v reflect.Value)
	change = func(path string, v reflect.Value) {
		before := reflect.New(v.Type()).Elem()
		before.Set(v)
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				change(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
			return
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.String:
			v.SetString(v.String() + "other")
		case reflect.Uint8:
			v.SetUint(v.Uint() + 1)
		case reflect.Slice:
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		default:
			t.Fatalf("%s: a field of type %s", path, v.Type())
		}
		if d.CheckUnchanged() == nil {
			t.Errorf("a change of %s was not found", path)
		}
		v.Set(before)
		if err := d.CheckUnchanged(); err != nil {
			t.Errorf("%s as it was: %v", path, err)
		}
	}
	change("Operand", reflect.ValueOf(&d.Operands[0]).Elem())
}
