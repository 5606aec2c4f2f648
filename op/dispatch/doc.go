// Package dispatch sorts the choices of a router by expert: where the rows of each expert begin,
// which token and choice each row is of, and in which row each choice is.
//
// # How it is computed
//
// A stable counting sort. All results are integers with one right value, whatever computes them: GPUs count in
// blocks, add the counts up, and place every choice behind those of lower experts, earlier blocks and earlier choices.
//
// source and slot have the shape of the input, but element r of them, row after row, belongs to row r: seen as vectors
// they are indices for combine.permute.forward and for a gather of weights. offsets divides the rows as
// products with groups want them, and place brings results back to tokens (combine.forward).
//
// # dispatch.forward
//
//	rows r are the choices (t,s), sorted by (expert[t,s], t, s)
//	counts[e] = the number of rows of expert e,  offsets[e] = counts[0] + ... + counts[e-1]
//	source[r] = t,  slot[r] = t*S + s,  place[t,s] = r
//
//	operand  shape  dtypes  note
//	expert   T,S    i32     int32 in 0..E-1
//	counts   E      i32     fully written
//	offsets  E+1    i32     fully written
//	source   T,S    i32     fully written
//	slot     T,S    i32     fully written
//	place    T,S    i32     fully written
//
//	C1  T >= 0, S, E >= 1, T*S < 2^31; leading dimensions count as tokens, and rows may be strided; element r of source and slot is counted row after row
//	C2  the rows of an expert are offsets[e] to offsets[e+1]-1, those of lower tokens first, and of a token those of lower choices; offsets[0] is 0
//	C3  nothing is dropped or padded: without bad indices place names every row once, source[place[t,s]] = t and slot[place[t,s]] = t*S + s
//	C4  a token may choose an expert several times; an expert without tokens has no rows
//	C5  an expert outside 0..E-1 is refused, and nothing is written; with bad_index=skip it has no row: its place is -1, it does not count, and as many elements at the end of source and slot are -1
//	C6  outputs may not overlap each other or the input
package dispatch
