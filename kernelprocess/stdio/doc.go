// Package stdio serves one kernel per process over standard input and output: a request as
// text in, the response as text out. [Process] serves, and [Client] drives any program
// that serves in the same formats. They are those of the Rust crate tokitai-operator, so
// that programs written for either can drive the other.
//
// Eight kernels have these formats: embedding, softmax, gemm-bw, gelu-bwd, adamw, gemm,
// gelu and layernorm; adamw has a binary one too. They are the rows of one table
// (kernels.go), which determines what a request holds, the codes of its errors, what is
// computed and how the response reads. docs/stdio.md documents the formats and
// the codes.
//
// A request is numbers between white space; u16 are bit patterns of fp16 in decimal. The
// softmax of one row of 0 and 0 is asked for by the 10 bytes
//
//	0 1 2\n0 0\n
//
// and answered by lines KEY=value, of which the last is OUTPUT=14336,14336 (0x3800, one
// half). A server takes requests in frames, a length of four bytes, little-endian, before
// each,
//
//	0a 00 00 00  30 20 31 20 32 0a  30 20 30 0a
//
// and frames its responses likewise. An error is the response ERR <code> <reason>.
//
// Requests are parsed as they arrive: nothing is allocated because a length or a size was
// announced. The package starts no process and knows no pipe: it is given a reader and a
// writer.
package stdio
