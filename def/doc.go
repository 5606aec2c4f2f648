// Package def is the language in which operations are defined, each once, as an
// expression in which every rounding and the order of every sum is explicit.
//
//	var Forward = def.Must(def.Rowwise("softmax.forward", func(b *def.Builder) {
//		x := b.In("x")
//		e := fn.Exp(x.Sub(def.RowMax(x)))
//		b.Out("y", e.Mul(def.One.Div(def.RowSum(e))), def.Like("x"))
//	}))
//
// There are four kinds of definitions: [Rowwise] expressions over the rows of a
// matrix, a [Contraction], a [Gather] and a [ScatterAdd]. A definition is checked when
// it is built. It has a stable text ([Definition.Text]), which [Parse] reads back; an
// identity, the SHA-256 of that text ([Definition.Hash]); and a contract
// ([Definition.Contract]).
//
// Every node has one meaning, down to the bit; [Op] lists them. A function node such
// as exp stands for a mathematical function, which package truth evaluates, and for
// an expansion into elementary nodes, which everything else executes. A definition
// therefore has two graphs, [Definition.Math] and [Definition.Exec].
//
// The package deliberately does not know how anything is executed. Start with node.go
// (the nodes), then value.go (writing expressions) and rowwise.go (building and
// checking definitions). text.go prints, parse.go reads, derivative.go differentiates.
package def
