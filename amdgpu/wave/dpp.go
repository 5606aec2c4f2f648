package wave

import "tokitai/amdgpu/isa"

// noLane marks a lane that has no source.
const noLane = 0xff

// laneSelection is a translated DPP modifier.
type laneSelection struct {
	from         [64]uint8 // the source of each lane, or noLane
	enabled      uint64    // lanes that the row and bank masks let store
	readsZero    bool      // a lane without a source reads 0, otherwise it does not store
	fetchInvalid bool      // lanes that are off can be sources
	lanes        int
}

// newLaneSelection resolves a modifier for waves of the given number of lanes.
func newLaneSelection(d *isa.DPP, lanes int) *laneSelection {
	s := &laneSelection{readsZero: d.BoundControl, fetchInvalid: d.FetchInvalid, lanes: lanes}
	if d.IsDPP8 {
		// A lane whose source is off reads 0.
		s.readsZero = true
		s.enabled = ^uint64(0)
		for i := range s.from {
			s.from[i] = uint8(i&^7) | d.Lanes[i&7]&7
		}
		return s
	}
	for i := range s.from {
		if d.RowMask>>(i/16&3)&1 != 0 && d.BankMask>>(i/4&3)&1 != 0 {
			s.enabled |= 1 << i
		}
		from := sourceLane(d.Control, i, lanes)
		if from < 0 || from >= lanes {
			from = noLane
		}
		s.from[i] = uint8(from)
	}
	return s
}

// sourceLane returns the lane that lane i reads, or -1.
func sourceLane(control uint16, i, lanes int) int {
	row, in := i&^15, i&15
	n := int(control & 15)
	within := func(j int) int {
		if j < 0 || j > 15 {
			return -1
		}
		return row | j
	}
	switch {
	case control <= 0xff: // quad_perm
		return i&^3 | int(control>>(2*(i&3))&3)
	case control >= 0x101 && control <= 0x10f: // row_shl
		return within(in + n)
	case control >= 0x111 && control <= 0x11f: // row_shr
		return within(in - n)
	case control >= 0x121 && control <= 0x12f: // row_ror
		return row | (in-n)&15
	case control == 0x130: // wave_shl:1
		return i + 1
	case control == 0x134: // wave_rol:1
		return (i + 1) % lanes
	case control == 0x138: // wave_shr:1
		return i - 1
	case control == 0x13c: // wave_ror:1
		return (i + lanes - 1) % lanes
	case control == 0x140: // row_mirror
		return row | 15 - in
	case control == 0x141: // row_half_mirror
		return i&^7 | 7 - i&7
	case control == 0x142: // row_bcast:15, to the next row
		return row - 1
	case control == 0x143: // row_bcast:31, to the upper rows
		if i < 32 {
			return -1
		}
		return 31
	case control >= 0x150 && control <= 0x15f: // row_share; row_newbcast of gfx90a
		return row | n
	case control >= 0x160 && control <= 0x16f: // row_xmask
		return row | in ^ n
	}
	return -1
}

// fetch stores what each lane reads, and returns the mask of the lanes that store a result.
func (s *laneSelection) fetch(to, from *Register, exec uint64) uint64 {
	stores := exec & s.enabled
	for i := range s.lanes {
		j := s.from[i&63]
		if j != noLane && (s.fetchInvalid || exec>>j&1 != 0) {
			to[i&63] = from[j&63]
			continue
		}
		to[i&63] = 0
		if !s.readsZero {
			stores &^= 1 << i
		}
	}
	return stores
}
