package cpu

import (
	"fmt"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// Job is one execution of a program: phases of independent items.
type Job interface {
	// Next begins the next phase and returns how many items it has; ok is false
	// after the last one. All items of a phase are done before Next is called.
	Next() (items int, ok bool)
	// Do runs one item. Items of a phase may run at the same time, on different workers.
	Do(worker, item int)
	// Release gives the job's scratch memory back for the next one.
	Release()
}

// Program is a definition lowered for one choice of storage formats.
type Program interface {
	// Bind prepares an execution.
	Bind(c *lower.Call, workers int) Job
	// String lists the program for people.
	String() string
}

// Class divides shapes into those that run the same program.
type Class int

const (
	// Short rows are kept between passes.
	Short Class = iota
	// Long rows would not stay in the cache: their elements are computed again in
	// every pass.
	Long
)

// longRow is the number of columns beyond which a row is Long: values of one row
// that are kept between passes then fill a quarter of a megabyte each.
const longRow = 1 << 16

// ClassOf returns the class of a definition on rows of cols columns.
func ClassOf(d *def.Definition, cols int) Class {
	if d.Kind == def.KindRowwise && cols > longRow && !d.IsFlat() {
		return Long
	}
	return Short
}

// Compile lowers a definition for operands stored in the given formats.
func Compile(d *def.Definition, dtypes []num.DType, class Class) (Program, error) {
	switch d.Kind {
	case def.KindRowwise:
		return compileRowwise(d, dtypes, class), nil
	case def.KindContraction:
		if d.Ring.IsExact() {
			return newRing(d, false)
		}
		return newContraction(d), nil
	case def.KindGather:
		return newGather(d), nil
	case def.KindScatterAdd:
		return newScatter(d), nil
	}
	return nil, fmt.Errorf("%s: no lowering for kind %s", d.Name, d.Kind)
}
