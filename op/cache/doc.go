// Package cache writes the keys and values of new tokens into a cache, at the slots that a program gave them.
//
//	cache[slot[q],d] = rows[q,d]
//
// # How it is computed
//
// Bits are copied: no value is interpreted. Of equal slots the last counts. On GPUs no two threads write the same
// element: a row's last query is found first, and the others write nothing.
//
// # cache.append
//
//	cache[slot[q],d] = rows[q,d]
//
//	operand  shape  dtypes        note
//	slot     Q      i32           int32 in 0..V-1
//	rows     Q,D    f16 bf16 f32
//	cache    V,D    as rows       read, then written in place
//
//	C1  Q >= 0, V, D >= 1; leading dimensions count as rows, and rows may be strided
//	C2  every bit pattern is copied, including those of NaN
//	C3  rows of the cache that no slot names keep their bits
//	C4  of equal slots the last counts, as if rows were written one after another
//	C5  a slot outside 0..V-1 is refused, and nothing is written; with bad_index=skip it writes nothing
//	C6  cache may not overlap slot or rows
package cache
