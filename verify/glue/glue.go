// Package glue puts verdicts on parts together to a verdict on the whole: tiles of a tensor,
// shards of a verification, ranks of a training run, pages of a cache. The parts must cover
// the whole, and where they overlap they must have seen the same values. That is the gluing
// condition of a sheaf; docs/proofs.md has the theorem that it is enough (Glue.glued_is_right).
package glue

import (
	"crypto/sha256"
	"fmt"
	"iter"
)

// Hash is that of the values of a piece. It must not depend on who saw them.
type Hash = [sha256.Size]byte

// Section is the verdict on a part of a whole: its pieces as they were seen, and the number of
// mismatches in them. It can be made without the rest. K names a piece:
// a block of a tensor, a case, a tensor of a model, a page.
type Section[K comparable] struct {
	Pieces     map[K]Hash
	Mismatches int64
}

// Glued is the result of several sections together.
type Glued struct {
	Elements   int64 // of the whole
	Covered    int64
	Mismatches int64 // one counts in every section that saw it
	Conflicts  int   // times that a section saw a piece with other values than one before
	Strangers  int   // pieces that are not part of the whole
}

// Join evaluates the gluing condition. The whole is given by its pieces, each once, with the
// number of its elements, which is at least 1.
func Join[K comparable](whole iter.Seq2[K, int64], sections []Section[K]) Glued {
	var g Glued
	seen := map[K]Hash{}
	for _, s := range sections {
		g.Mismatches += s.Mismatches
		for piece, hash := range s.Pieces {
			if known, isSeen := seen[piece]; !isSeen {
				seen[piece] = hash
			} else if known != hash {
				g.Conflicts++
			}
		}
	}
	g.Strangers = len(seen)
	for piece, elements := range whole {
		g.Elements += elements
		if _, isSeen := seen[piece]; isSeen {
			g.Covered += elements
			g.Strangers--
		}
	}
	return g
}

// IsWhole reports whether the sections determine a verdict on the whole: which is right, if
// there are no mismatches.
func (g Glued) IsWhole() bool {
	return g.Covered == g.Elements && g.Conflicts == 0 && g.Strangers == 0
}

// Reason returns why they do not, or "". Parts and pieces are what the caller calls them, such
// as tiles and blocks.
func (g Glued) Reason(parts, pieces string) string {
	switch {
	case g.Conflicts > 0:
		return fmt.Sprintf("%s that overlap saw different values in %d %s", parts, g.Conflicts, pieces)
	case g.Strangers > 0:
		return fmt.Sprintf("the %s have %d %s that are not part of the whole", parts, g.Strangers, pieces)
	case g.Covered < g.Elements:
		return fmt.Sprintf("the %s cover %d of %d elements", parts, g.Covered, g.Elements)
	}
	return ""
}
