package dispatch

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/tensor"
)

// ForwardDefinition sorts the choices of tokens by expert.
var ForwardDefinition = def.Must(def.Dispatch("dispatch.forward", def.DispatchForm{
	Index: "expert", Counts: "counts", Offsets: "offsets", Source: "source", Slot: "slot", Place: "place",
	Formula: []string{
		"rows r are the choices (t,s), sorted by (expert[t,s], t, s)",
		"counts[e] = the number of rows of expert e,  offsets[e] = counts[0] + ... + counts[e-1]",
		"source[r] = t,  slot[r] = t*S + s,  place[t,s] = r",
	},
	Clauses: []string{
		"T >= 0, S, E >= 1, T*S < 2^31; leading dimensions count as tokens, and rows may be strided; element r of source and slot is counted row after row",
		"the rows of an expert are offsets[e] to offsets[e+1]-1, those of lower tokens first, and of a token those of lower choices; offsets[0] is 0",
		"nothing is dropped or padded: without bad indices place names every row once, source[place[t,s]] = t and slot[place[t,s]] = t*S + s",
		"a token may choose an expert several times; an expert without tokens has no rows",
		"an expert outside 0..E-1 is refused, and nothing is written; with bad_index=skip it has no row: its place is -1, it does not count, and as many elements at the end of source and slot are -1",
		"outputs may not overlap each other or the input",
	},
}))

// Forward computes the rows of experts from the experts that tokens chose.
func Forward(q *engine.Queue, counts, offsets, source, slot, place, expert *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, ForwardDefinition, []*tensor.Tensor{expert, counts, offsets, source, slot, place}, nil, opts...)
}
