// Package def is the language in which an operation is defined: once, as an
// expression in which every rounding and the order of every sum is written down.
//
//	var Forward = def.Must(def.Rowwise("softmax.forward", func(b *def.Builder) {
//		x := b.In("x")
//		e := fn.Exp(x.Sub(def.RowMax(x)))
//		b.Out("y", e.Mul(def.One.Div(def.RowSum(e))), def.Like("x"))
//	}))
//
// A definition has one of four kinds: [Rowwise] expressions over the rows of a
// matrix, a [Contraction], a [Gather] or a [ScatterAdd]. It is checked when it is
// built, prints in a stable text form ([Definition.Text]) that [Parse] reads back, has an
// identity, the SHA-256 of that text ([Definition.Hash]), and carries its contract
// ([Definition.Contract]).
//
// Every node has one meaning, down to the bit; [Op] lists them. A function node
// such as exp has two faces: its mathematics, which package truth evaluates, and
// its expansion into elementary nodes, which everything that computes executes.
// A definition therefore holds two graphs, [Definition.Math] and
// [Definition.Exec].
//
// The package deliberately does not know how anything is executed. Start
// reading at node.go (the nodes), then value.go (how expressions are written)
// and rowwise.go (how a definition is built and checked); text.go prints, parse.go reads.
package def
