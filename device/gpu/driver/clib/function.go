// Package clib implements what drivers have in common that are C libraries in the manner of
// libcuda: functions that return a code, handles written through the first argument, and
// kernels with one struct as their parameter. Packages cuda and hip use it.
//
// Fill looks up a library's functions, Library calls them, and Calls becomes the part of a
// driver's table that is the same for both.
package clib

import (
	"reflect"

	"tokitai/internal/dl"
)

// Function is a C function of a library.
type Function struct {
	Name      string // as in the documentation: the symbol may have a suffix
	IsMissing bool   // an optional function that the library does not export
	proc      dl.Proc
}

// Fill looks up the functions of a library. The argument api points to a struct all of whose
// fields are Functions. A function's symbol is its field's name, unless a tag symbol gives
// another. A function with a tag optional may be missing; for any other, the error is a
// *dl.SymbolError.
func Fill(api any, l *dl.Library) error {
	value := reflect.ValueOf(api).Elem()
	for i := range value.NumField() {
		field := value.Type().Field(i)
		f := (*Function)(value.Field(i).Addr().UnsafePointer())
		f.Name = field.Name
		symbol := field.Tag.Get("symbol")
		if symbol == "" {
			symbol = field.Name
		}
		proc, err := l.Proc(symbol)
		switch {
		case err == nil:
			f.proc = proc
		case field.Tag.Get("optional") != "":
			f.IsMissing = true
		default:
			return err
		}
	}
	return nil
}
