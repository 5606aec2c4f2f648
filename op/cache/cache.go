package cache

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/tensor"
)

// AppendDefinition writes rows into a table, bit for bit.
var AppendDefinition = def.Must(def.WriteRows("cache.append", def.RowWriteForm{
	Index: "slot", Rows: "rows", Table: "cache",
	Formula: []string{"cache[slot[q],d] = rows[q,d]"},
	Clauses: []string{
		"Q >= 0, V, D >= 1; leading dimensions count as rows, and rows may be strided",
		"every bit pattern is copied, including those of NaN",
		"rows of the cache that no slot names keep their bits",
		"of equal slots the last counts, as if rows were written one after another",
		"a slot outside 0..V-1 is refused, and nothing is written; with bad_index=skip it writes nothing",
		"cache may not overlap slot or rows",
	},
}))

// Append writes rows into the cache at their slots.
func Append(q *engine.Queue, cache, slot, rows *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, AppendDefinition, []*tensor.Tensor{slot, rows, cache}, nil, opts...)
}
