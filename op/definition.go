package op

import (
	"math"
	"strconv"
	"strings"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
)

// Of returns an operation for a user's definition, with the parameters that it declares and
// one kind of data. File is the file it was read from, or "".
func Of(d *def.Definition, file string) *Operation {
	o := &Operation{
		Name: d.Name, Summary: strings.Join(d.Contract().Formula, "; "), IsOwn: true, File: file,
		Definitions: []*def.Definition{d},
	}
	open := openOutputs(d)
	o.Run = func(q *engine.Queue, in engine.Args, v *Values, opts ...engine.CallOption) (engine.Args, error) {
		return Plain(d)(q, in, v, append(opts[:len(opts):len(opts)], open.options(v)...)...)
	}
	if o.Summary == "" {
		o.Summary = "a " + d.Form.String() + " definition"
	}
	data := Data{Name: "normal", Definition: d, Sizes: usualSizes(d)}
	for i := range d.Params {
		p := &d.Params[i]
		param := Param{Name: p.Name, Help: p.Want()}
		if p.Default != nil {
			param.Default = strconv.FormatFloat(*p.Default, 'g', -1, 64)
			if p.IsInt {
				param.Default = strconv.FormatInt(int64(*p.Default), 10)
			}
		}
		o.Params = append(o.Params, param)
		data.Params = append(data.Params, p.Usual(float64(i+1)*0.171875))
	}
	o.Params = append(o.Params, open.params(d)...)
	o.Data = []Data{data}
	return o
}

// outputs holds what the inputs of a definition do not determine about its outputs.
type outputs struct {
	sizes   []string // letters that no input has
	formats []string // outputs that may have several formats
}

func openOutputs(d *def.Definition) outputs {
	var open outputs
	known := map[string]bool{}
	for _, o := range d.Operands {
		for _, letter := range o.Dims {
			known[letter] = known[letter] || o.IsIn
		}
	}
	for i := range d.Operands {
		o := &d.Operands[i]
		if o.IsIn {
			continue
		}
		for _, letter := range o.Dims {
			if letter = strings.TrimSuffix(letter, "+1"); !known[letter] {
				known[letter] = true
				open.sizes = append(open.sizes, letter)
			}
		}
		if o.DTypes.Like == "" && len(o.DTypes.Allowed) > 1 || o.DTypes.Like != "" && len(o.DTypes.Allowed) > 0 {
			open.formats = append(open.formats, o.Name)
		}
	}
	return open
}

// params returns the parameters by which people choose these.
func (x outputs) params(d *def.Definition) []Param {
	var params []Param
	for _, letter := range x.sizes {
		params = append(params, Param{Name: "size." + letter, Help: "the size " + letter + ", which no input has"})
	}
	for _, name := range x.formats {
		rule := d.Operands[d.Operand(name)].DTypes
		params = append(params, Param{Name: "dtype." + name, Default: "auto", Help: "how " + name + " is stored: " + rule.String() + "; auto is as an input is, if it may be"})
	}
	return params
}

// options returns the choices as options of a call.
func (x outputs) options(v *Values) []engine.CallOption {
	sizes, formats := map[string]int{}, map[string]num.DType{}
	for _, letter := range x.sizes {
		sizes[letter] = int(v.Int("size."+letter, 1, math.MaxInt32))
	}
	for _, name := range x.formats {
		text := v.Text("dtype." + name)
		if text == "auto" {
			continue
		}
		format, err := num.ParseDType(text)
		if err != nil {
			v.Refuse("dtype."+name, "f16, bf16, f32 or auto")
		}
		formats[name] = format
	}
	return []engine.CallOption{engine.WithSizes(sizes), engine.WithStorage(formats)}
}

// usualSizes returns the sizes of the data on which a definition is tried.
func usualSizes(d *def.Definition) map[string]int {
	sizes := map[string]int{}
	for _, letter := range d.Sizes() {
		sizes[letter] = 64
	}
	if d.Access() == def.AlongRows {
		sizes[d.AxisOf(def.Column)] = 1024
	}
	return sizes
}
