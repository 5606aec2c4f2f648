// Package asm holds what the assemblers share: the code so far, its labels, the first error, and
// remarks for listings.
package asm

import (
	"fmt"
	"strings"
)

// Unbound is the offset of a label that is not placed yet.
const Unbound = -1

// Base is the part of an assembler that does not depend on instructions. L is its type of labels,
// numbered from 0.
type Base[L ~int | ~int32] struct {
	Code []byte

	err      error
	places   []int32 // offset of each label, or Unbound
	comments []comment
}

type comment struct {
	offset int
	format string
	args   []any
}

// Len returns the number of bytes assembled so far.
func (b *Base[L]) Len() int { return len(b.Code) }

// Err returns the first error so far.
func (b *Base[L]) Err() error { return b.err }

// Fail records an error, if it is the first.
func (b *Base[L]) Fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Label returns a new label. Bind places it.
func (b *Base[L]) Label() L {
	b.places = append(b.places, Unbound)
	return L(len(b.places) - 1)
}

// Knows reports whether l is a label, and fails if it is not.
func (b *Base[L]) Knows(l L) bool {
	if l < 0 || int(l) >= len(b.places) {
		b.Fail(fmt.Errorf("unknown label %v", l))
		return false
	}
	return true
}

// Bind places l here.
func (b *Base[L]) Bind(l L) {
	switch {
	case !b.Knows(l):
	case b.places[l] != Unbound:
		b.Fail(fmt.Errorf("label %v is bound twice", l))
	default:
		b.places[l] = int32(len(b.Code))
	}
}

// Place returns the offset in the code of l, a label, or Unbound.
func (b *Base[L]) Place(l L) int32 { return b.places[l] }

// Offset returns the offset of l in the code, and whether l is bound.
func (b *Base[L]) Offset(l L) (int, bool) {
	if l < 0 || int(l) >= len(b.places) || b.places[l] == Unbound {
		return 0, false
	}
	return int(b.places[l]), true
}

// Comment records a remark about the instructions that follow, for listings.
// The arguments are formatted when one is made.
func (b *Base[L]) Comment(format string, args ...any) {
	b.comments = append(b.comments, comment{len(b.Code), format, args})
}

// Remarks returns a function for listings. Called with ascending offsets, it returns the labels that
// are bound at an offset, and what was remarked since the last.
func (b *Base[L]) Remarks() func(offset int) ([]L, string) {
	placed := make(map[int][]L)
	for l, at := range b.places {
		if at != Unbound {
			placed[int(at)] = append(placed[int(at)], L(l))
		}
	}
	comments := b.comments
	return func(offset int) ([]L, string) {
		labels := placed[offset]
		delete(placed, offset)
		var texts []string
		for ; len(comments) > 0 && comments[0].offset <= offset; comments = comments[1:] {
			texts = append(texts, fmt.Sprintf(comments[0].format, comments[0].args...))
		}
		return labels, strings.Join(texts, "; ")
	}
}
