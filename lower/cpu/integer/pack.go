package integer

import (
	"encoding/binary"

	"tokitai/num"
)

// packed is a part of an operand in strips of lines, which are rows of the left operand and columns
// of the right one. A strip has, for each word of the summed index, a word of each of its lines.
type packed struct {
	words []uint32
	sums  []int32 // 128 times the sum of a line, of the left operand
}

// grow makes room for strips.
func (p *packed) grow(strips, perStrip, words int) {
	if n := strips * perStrip * words; cap(p.words) < n {
		p.words = make([]uint32, n)
	} else {
		p.words = p.words[:n]
	}
	if n := strips * perStrip; cap(p.sums) < n {
		p.sums = make([]int32, n)
	} else {
		p.sums = p.sums[:n]
	}
}

// side is how an operand is packed.
type side struct {
	a          *num.Array
	areRows    bool   // a line is contiguous in memory
	perStrip   int    // lines
	perWord    int    // bytes
	flips      uint32 // is added to every byte without carry: 0x80808080 makes b+128 of b
	first, end int    // lines
	depth      int    // of the summed index
}

// pack packs one strip. A word that is not full is filled up with zeros. Lines beyond the end keep
// what was in memory: their sums are computed, and not stored.
func (s *side) pack(to *packed, strip int) {
	n := (s.depth + s.perWord - 1) / s.perWord
	words := to.words[strip*s.perStrip*n:][:s.perStrip*n]
	first := s.first + strip*s.perStrip
	lines := min(s.perStrip, s.end-first)
	switch {
	case s.areRows:
		for from := 0; from < s.depth; from += chunk { // all lines of a few cache lines
			for i := range lines {
				s.packRow(words[from/s.perWord*s.perStrip+i:], s.a.Data[(first+i)*s.a.Stride+from:][:min(chunk, s.depth-from)])
			}
		}
	case s.perWord == 4:
		s.packColumns(words, first, lines)
	default:
		s.packColumnPairs(words, first, lines)
	}
	for i := range s.perStrip {
		sum := int32(0)
		if i < lines && s.flips == 0 && s.perWord == 4 {
			sum = s.sum(first + i)
		}
		to.sums[strip*s.perStrip+i] = sum << 7
	}
}

// chunk is how many neighbours of a line are packed before those of the next line: whole words.
const chunk = 64

// packRow packs a part of a line that is contiguous: to every perStrip-th word.
func (s *side) packRow(to []uint32, line []byte) {
	at := 0
	if s.perWord == 4 {
		for ; len(line) >= 4; line = line[4:] {
			to[at] = binary.LittleEndian.Uint32(line) ^ s.flips
			at += s.perStrip
		}
	} else {
		for ; len(line) >= 2; line = line[2:] {
			to[at] = pair(line[0], line[1])
			at += s.perStrip
		}
	}
	if len(line) > 0 {
		var rest [4]byte
		copy(rest[:], line)
		if s.perWord == 4 {
			to[at] = binary.LittleEndian.Uint32(rest[:]) ^ s.flips
		} else {
			to[at] = pair(rest[0], 0)
		}
	}
}

// pair returns two bytes with their signs in 16 bits each.
func pair(x, y byte) uint32 { return uint32(uint16(int8(x))) | uint32(uint16(int8(y)))<<16 }

// packColumns packs lines across rows of memory, four rows to a word.
func (s *side) packColumns(words []uint32, first, lines int) {
	var zeros [64]byte
	for k, at := 0, 0; k < s.depth; k, at = k+4, at+s.perStrip {
		var rows [4][]byte
		for i := range rows {
			if rows[i] = zeros[:lines]; k+i < s.depth {
				rows[i] = s.a.Data[(k+i)*s.a.Stride+first:][:lines]
			}
		}
		r0, r1, r2, r3 := rows[0], rows[1], rows[2], rows[3]
		to := words[at:][:lines]
		r0, r1, r2, r3 = r0[:len(to)], r1[:len(to)], r2[:len(to)], r3[:len(to)]
		for c := range to {
			to[c] = (uint32(r0[c]) | uint32(r1[c])<<8 | uint32(r2[c])<<16 | uint32(r3[c])<<24) ^ s.flips
		}
	}
}

// packColumnPairs packs lines across rows of memory, two rows to a word.
func (s *side) packColumnPairs(words []uint32, first, lines int) {
	var zeros [64]byte
	for k, at := 0, 0; k < s.depth; k, at = k+2, at+s.perStrip {
		to := words[at:][:lines]
		r0, r1 := s.a.Data[k*s.a.Stride+first:][:len(to)], zeros[:len(to)]
		if k+1 < s.depth {
			r1 = s.a.Data[(k+1)*s.a.Stride+first:][:len(to)]
		}
		for c := range to {
			to[c] = pair(r0[c], r1[c])
		}
	}
}

// sum returns the sum of a line, which wraps.
func (s *side) sum(line int) (sum int32) {
	if s.areRows {
		return sumBytes(s.a.Data[line*s.a.Stride:][:s.depth])
	}
	for k := range s.depth {
		sum += int32(int8(s.a.Data[k*s.a.Stride+line]))
	}
	return sum
}

// sumBytes returns the sum of bytes with signs, which wraps: of b+128 in lanes of 16 bits, eight
// bytes at a time.
func sumBytes(line []byte) (sum int32) {
	const even, flips = 0x00ff00ff00ff00ff, 0x8080808080808080
	for len(line) >= 8 {
		n := min(len(line)/8, 128) // lanes hold 128 times 2·255
		lanes := uint64(0)
		for range n {
			x := binary.LittleEndian.Uint64(line) ^ flips
			lanes += x&even + x>>8&even
			line = line[8:]
		}
		for ; lanes != 0; lanes >>= 16 {
			sum += int32(lanes & 0xffff)
		}
		sum -= int32(8 * 128 * n)
	}
	for _, b := range line {
		sum += int32(int8(b))
	}
	return sum
}
