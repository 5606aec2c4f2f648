// Package cputest runs programs of lower/cpu in tests, and has the definitions and answers that
// the tests of several generators of code share.
package cputest

import (
	"slices"
	"sync"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	"tokitai/num"
	"tokitai/trial/randdef"
)

// CallOf returns a case as a call.
func CallOf(c *randdef.Case) *lower.Call { return Call(c.Definition, c.Operands, c.Params) }

// Call returns the call of a definition with operands on the host.
func Call(d *def.Definition, operands []num.Array, params []float64) *lower.Call {
	call := &lower.Call{Params: params}
	for _, a := range operands {
		call.Operands = append(call.Operands, lower.Operand{Array: a})
	}
	call.Measure(d)
	return call
}

// DTypesOf returns the formats of operands.
func DTypesOf(operands []num.Array) []num.DType {
	var dtypes []num.DType
	for _, a := range operands {
		dtypes = append(dtypes, a.DType)
	}
	return dtypes
}

// Execute runs a program in one goroutine, its items in an order and on workers that the
// generator decides: whatever depends on either shows.
func Execute(p lowercpu.Program, call *lower.Call, workers int, g *gen.Generator) {
	job := p.Bind(call, workers)
	defer job.Release()
	for items, ok := job.Next(); ok; items, ok = job.Next() {
		order := make([]int, items)
		for i := range order {
			k := g.Below(i + 1)
			order[i], order[k] = order[k], i
		}
		for _, item := range order {
			job.Do(g.Below(workers), item)
		}
	}
}

// ExecuteInTurn runs a program in one goroutine, its items in ascending order.
func ExecuteInTurn(p lowercpu.Program, call *lower.Call, workers int) {
	job := p.Bind(call, workers)
	for items, ok := job.Next(); ok; items, ok = job.Next() {
		for item := range items {
			job.Do(item%workers, item)
		}
	}
	job.Release()
}

// ExecuteParallel runs a program with a goroutine for each worker.
func ExecuteParallel(p lowercpu.Program, call *lower.Call, workers int) {
	job := p.Bind(call, workers)
	defer job.Release()
	for items, ok := job.Next(); ok; items, ok = job.Next() {
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				for item := w; item < items; item += workers {
					job.Do(w, item)
				}
			})
		}
		all.Wait()
	}
}

// Products returns all forms of a contraction: each operand as it is or transposed, the result
// set or, in the second half, added to. Sizes are M×N, summed over K.
func Products() []*def.Definition {
	return append(Transposes("product", def.ContractionForm{}), Transposes("product.accumulate", def.ContractionForm{Accumulate: true})...)
}

// Transposes returns the four definitions of c = a·b in a form, with a and b as they are or
// transposed.
func Transposes(name string, form def.ContractionForm) []*def.Definition {
	var all []*def.Definition
	for i := range 4 {
		f, name := form, name
		f.Left, f.LeftDims, f.TransposeLeft = "a", []string{"M", "K"}, i&1 != 0
		f.Right, f.RightDims, f.TransposeRight = "b", []string{"K", "N"}, i&2 != 0
		f.Result, f.ResultDims = "c", []string{"M", "N"}
		if f.TransposeLeft {
			slices.Reverse(f.LeftDims)
			name += ".left_transposed"
		}
		if f.TransposeRight {
			slices.Reverse(f.RightDims)
			name += ".right_transposed"
		}
		all = append(all, def.Must(def.Contraction(name, f)))
	}
	return all
}
