package op

import (
	"strconv"
	"strings"

	"tokitai/def"
)

// Of makes an operation of a definition that somebody has written: parameters as it
// declares them, and one kind of data. File is where it was read from, or "".
func Of(d *def.Definition, file string) *Operation {
	o := &Operation{
		Name: d.Name, Summary: strings.Join(d.Contract().Formula, "; "), IsOwn: true, File: file,
		Definitions: []*def.Definition{d}, Run: Plain(d),
	}
	if o.Summary == "" {
		o.Summary = "a " + d.Kind.String() + " definition"
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
	o.Data = []Data{data}
	return o
}

// usualSizes are sizes of the data on which a definition is tried.
func usualSizes(d *def.Definition) map[string]int {
	sizes := map[string]int{}
	for _, letter := range d.Sizes() {
		sizes[letter] = 64
	}
	if d.Kind == def.KindRowwise {
		sizes["C"] = 1024
	}
	return sizes
}
