package wave

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"tokitai/amdgpu/isa"
)

func TestBlocks(t *testing.T) {
	var b Blocks
	for _, x := range []Block{{Address: 0x300, Bytes: make([]byte, 16)}, {Address: 0x100, Bytes: make([]byte, 32)}, {Address: 0x200, Bytes: make([]byte, 256)}} {
		if err := b.Insert(x); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []Block{{Address: 0xff, Bytes: make([]byte, 2)}, {Address: 0x11f, Bytes: make([]byte, 1)}, {Address: 0x2ff, Bytes: make([]byte, 100)}} {
		if err := b.Insert(x); err == nil {
			t.Errorf("a block at %#x overlaps another: no error", x.Address)
		}
	}
	for address, want := range map[uint64]uint64{0xff: 0, 0x100: 0x100, 0x11f: 0x100, 0x120: 0, 0x200: 0x200, 0x2ff: 0x200, 0x300: 0x300, 0x30f: 0x300, 0x310: 0, 0: 0, 1 << 63: 0} {
		if got, ok := b.Find(address); got.Address != want || ok != (want != 0) {
			t.Errorf("address %#x: got block %#x, %v, want %#x", address, got.Address, ok, want)
		}
	}
}

// place is a way of addressing memory: how an instruction's operands and registers are set up
// so that lane i accesses byte at[i] of the memory.
type place struct {
	name     string
	encoding isa.Encoding
	prefix   string
	address  isa.Operand
	base     []isa.Operand
	prepare  func(w *Wave, at [64]uint32)
	memory   func(g *Group, global []byte, lane int) []byte
}

const globalBase = 0x7_0000_1000

func places(lanes int) []place {
	off := []isa.Operand{{Kind: isa.Off}}
	setWide := func(w *Wave, at [64]uint32, base uint64) {
		for i := range w.Lanes {
			a := base + uint64(at[i]) - 16
			w.V[0][i], w.V[1][i] = uint32(a), uint32(a>>32)
		}
	}
	global := func(_ *Group, global []byte, _ int) []byte { return global }
	shared := func(g *Group, _ []byte, _ int) []byte { return g.LDS }
	private := func(g *Group, _ []byte, lane int) []byte {
		w := g.Waves[0]
		n := len(w.Private) / w.Lanes
		return w.Private[lane*n : (lane+1)*n]
	}
	return []place{
		{"global", isa.GLOBAL, "global_", vgpr(0, 2), off, func(w *Wave, at [64]uint32) { setWide(w, at, globalBase) }, global},
		{"global with base", isa.GLOBAL, "global_", vgpr(0, 1), []isa.Operand{sgpr(4, 2)}, func(w *Wave, at [64]uint32) {
			w.setPair(4, globalBase-16-0x80000000)
			for i := range w.Lanes {
				w.V[0][i] = at[i] + 0x80000000
			}
		}, global},
		{"flat", isa.FLAT, "flat_", vgpr(0, 2), off, func(w *Wave, at [64]uint32) { setWide(w, at, globalBase) }, global},
		{"flat LDS", isa.FLAT, "flat_", vgpr(0, 2), off, func(w *Wave, at [64]uint32) { setWide(w, at, sharedAperture<<32) }, shared},
		{"flat private", isa.FLAT, "flat_", vgpr(0, 2), off, func(w *Wave, at [64]uint32) { setWide(w, at, privateAperture<<32) }, private},
		{"scratch", isa.SCRATCH, "scratch_", vgpr(0, 1), []isa.Operand{sgpr(4, 1)}, func(w *Wave, at [64]uint32) {
			w.S[4] = 100
			for i := range w.Lanes {
				w.V[0][i] = at[i] - 116
			}
		}, private},
		{"ds", isa.DS, "ds_", vgpr(0, 1), nil, func(w *Wave, at [64]uint32) {
			for i := range w.Lanes {
				w.V[0][i] = at[i] - 16
			}
		}, shared},
	}
}

// TestAccesses holds every load and store in every address space against bytes, at misaligned
// addresses too.
func TestAccesses(t *testing.T) {
	loads := map[string][2]string{ // gfx11's name, gfx9's; of DS below
		"u8": {"load_u8", "load_ubyte"}, "i8": {"load_i8", "load_sbyte"}, "u16": {"load_u16", "load_ushort"}, "i16": {"load_i16", "load_sshort"},
		"b32": {"load_b32", "load_dword"}, "b64": {"load_b64", "load_dwordx2"}, "b96": {"load_b96", "load_dwordx3"}, "b128": {"load_b128", "load_dwordx4"},
		"u8 low": {"load_d16_u8", "load_ubyte_d16"}, "i8 low": {"load_d16_i8", "load_sbyte_d16"}, "b16 low": {"load_d16_b16", "load_short_d16"},
		"u8 high": {"load_d16_hi_u8", "load_ubyte_d16_hi"}, "i8 high": {"load_d16_hi_i8", "load_sbyte_d16_hi"}, "b16 high": {"load_d16_hi_b16", "load_short_d16_hi"},
	}
	ds := map[string][2]string{
		"u8": {"load_u8", "read_u8"}, "i8": {"load_i8", "read_i8"}, "u16": {"load_u16", "read_u16"}, "i16": {"load_i16", "read_i16"},
		"b32": {"load_b32", "read_b32"}, "b64": {"load_b64", "read_b64"}, "b96": {"load_b96", "read_b96"}, "b128": {"load_b128", "read_b128"},
		"u8 low": {"load_u8_d16", "read_u8_d16"}, "i8 low": {"load_i8_d16", "read_i8_d16"}, "b16 low": {"load_u16_d16", "read_u16_d16"},
		"u8 high": {"load_u8_d16_hi", "read_u8_d16_hi"}, "i8 high": {"load_i8_d16_hi", "read_i8_d16_hi"}, "b16 high": {"load_u16_d16_hi", "read_u16_d16_hi"},
	}
	stores := map[string][2]string{
		"b8": {"store_b8", "store_byte"}, "b16": {"store_b16", "store_short"}, "b32": {"store_b32", "store_dword"}, "b64": {"store_b64", "store_dwordx2"},
		"b96": {"store_b96", "store_dwordx3"}, "b128": {"store_b128", "store_dwordx4"}, "b8 high": {"store_d16_hi_b8", "store_byte_d16_hi"},
		"b16 high": {"store_d16_hi_b16", "store_short_d16_hi"},
	}
	dsStores := map[string][2]string{
		"b8": {"store_b8", "write_b8"}, "b16": {"store_b16", "write_b16"}, "b32": {"store_b32", "write_b32"}, "b64": {"store_b64", "write_b64"},
		"b96": {"store_b96", "write_b96"}, "b128": {"store_b128", "write_b128"}, "b8 high": {"store_b8_d16_hi", "write_b8_d16_hi"},
		"b16 high": {"store_b16_d16_hi", "write_b16_d16_hi"},
	}
	r := rand.New(rand.NewPCG(9, 10))
	both(t, func(t *testing.T, family isa.Family) {
		for _, p := range places(family.Lanes()) {
			names, storeNames := loads, stores
			if p.encoding == isa.DS {
				names, storeNames = ds, dsStores
			}
			for kind, name := range names {
				in := isa.Instruction{Encoding: p.encoding, Name: p.prefix + name[1-family], Results: []isa.Operand{vgpr(4, 4)}, Operands: append([]isa.Operand{p.address}, p.base...), Immediate: 16}
				testAccess(t, r, family, p, in, kind, false)
			}
			for kind, name := range storeNames {
				in := isa.Instruction{Encoding: p.encoding, Name: p.prefix + name[1-family], Operands: append([]isa.Operand{p.address, vgpr(4, 4)}, p.base...), Immediate: 16}
				testAccess(t, r, family, p, in, kind, true)
			}
		}
	})
}

// accessBytes returns the number of bytes of a kind such as "b16 high".
func accessBytes(kind string) int {
	var n int
	fmt.Sscanf(kind[1:], "%d", &n)
	return n / 8
}

func testAccess(t *testing.T, r *rand.Rand, family isa.Family, p place, in isa.Instruction, kind string, isStore bool) {
	t.Helper()
	const size = 1024 + 256
	n := accessBytes(kind)
	global := make([]byte, size)
	l := &Launch{Memory: Blocks{{Address: globalBase, Bytes: global}}, LDS: size, Private: size, Threads: family.Lanes(), Registers: 8}
	code, err := Translate(family, []isa.Instruction{in})
	if err != nil {
		t.Fatalf("%s: %v", in.Name, err)
	}
	l.Code = code
	g, err := l.resetGroup()
	if err != nil {
		t.Fatal(err)
	}
	w := g.Waves[0]
	for _, exec := range masks(r, w.Lanes)[4:8] {
		var at [64]uint32
		perLane := uint32(size / w.Lanes)
		for i := range at {
			at[i] = (uint32(i)%uint32(w.Lanes))*perLane + uint32(r.IntN(int(perLane)-n+1))
		}
		for _, memory := range [][]byte{global, g.LDS, w.Private} {
			for i := range memory {
				memory[i] = byte(r.Uint32())
			}
		}
		randomRegisters(r, w, 8)
		p.prepare(w, at)
		before := append([]Register{}, w.V...)
		copies := make([][]byte, w.Lanes)
		for lane := range copies {
			copies[lane] = append([]byte{}, p.memory(g, global, lane)[at[lane]:int(at[lane])+n]...)
		}
		w.SetExec(exec)
		code.Steps[0](w)
		if w.fault != nil {
			t.Fatalf("%s: %v", p.name, w.fault)
		}
		for lane := range w.Lanes {
			bytes := copies[lane]
			isOn := exec>>lane&1 == 1
			if isStore {
				var data [16]byte
				for i := range 4 {
					binary.LittleEndian.PutUint32(data[4*i:], before[4+i][lane])
				}
				want := data[:n]
				if strings.HasSuffix(kind, "high") {
					want = data[2 : 2+n]
				}
				if !isOn {
					want = bytes
				}
				if got := p.memory(g, global, lane)[at[lane] : int(at[lane])+n]; string(got) != string(want) {
					t.Fatalf("%s %s, exec %#x, lane %d: got % x, want % x", p.name, in.Name, exec, lane, got, want)
				}
				continue
			}
			value := new(big.Int)
			for i := n - 1; i >= 0; i-- {
				value.Lsh(value, 8).Add(value, big.NewInt(int64(bytes[i])))
			}
			if kind[0] == 'i' && bytes[n-1] >= 128 {
				value.Sub(value, new(big.Int).Lsh(big.NewInt(1), uint(8*n)))
			}
			old := before[4][lane]
			if family == isa.GFX9 {
				old = 0
			}
			switch {
			case strings.HasSuffix(kind, "low"):
				value.SetUint64(low(value, 16) + uint64(old>>16<<16))
			case strings.HasSuffix(kind, "high"):
				value.SetUint64(low(value, 16)<<16 + uint64(old&0xffff))
			}
			words := max(1, n/4)
			for k := range 4 {
				want := uint32(low(new(big.Int).Rsh(value, uint(32*k)), 32))
				if k >= words || !isOn {
					want = before[4+k][lane]
				}
				if w.V[4+k][lane] != want {
					t.Fatalf("%s %s, exec %#x, lane %d: word %d is %#x, want %#x", p.name, in.Name, exec, lane, k, w.V[4+k][lane], want)
				}
			}
		}
	}
}

// TestLoadOverAddress loads into the registers that hold the address.
func TestLoadOverAddress(t *testing.T) {
	memory := make([]byte, 1024)
	for i := range memory {
		memory[i] = byte(i * 7)
	}
	l := &Launch{Memory: Blocks{{Address: globalBase, Bytes: memory}}}
	w, err := execute(t, isa.GFX11, l, func(w *Wave) {
		for i := range 32 {
			a := uint64(globalBase + 31*i)
			w.V[1][i], w.V[2][i] = uint32(a), uint32(a>>32)
		}
	}, isa.Instruction{Encoding: isa.GLOBAL, Name: "global_load_b128", Results: []isa.Operand{vgpr(0, 4)}, Operands: []isa.Operand{vgpr(1, 2), {Kind: isa.Off}}})
	if err != nil {
		t.Fatal(err)
	}
	for lane := range 32 {
		for k := range 4 {
			if want := binary.LittleEndian.Uint32(memory[31*lane+4*k:]); w.V[k][lane] != want {
				t.Fatalf("lane %d, word %d: got %#x, want %#x", lane, k, w.V[k][lane], want)
			}
		}
	}
}

func TestTwoAddresses(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	both(t, func(t *testing.T, family isa.Family) {
		names := [2][4]string{{"ds_read2_b%d", "ds_write2_b%d", "ds_read2st64_b%d", "ds_write2st64_b%d"},
			{"ds_load_2addr_b%d", "ds_store_2addr_b%d", "ds_load_2addr_stride64_b%d", "ds_store_2addr_stride64_b%d"}}[family]
		exchange := [2]string{"ds_wrxchg2_rtn_b%d", "ds_storexchg_2addr_rtn_b%d"}[family]
		for _, bits := range []int{32, 64} {
			n, words := bits/8, bits/32
			for i, name := range append(append(names[:], exchange), names[0]) {
				stride := []int{1, 1, 64, 64, 1, 1}[i]
				result := []int{4, 4, 4, 4, 4, 0}[i] // the last one's is also the address
				isLoad, isStore := i != 1 && i != 3, i == 1 || i == 3 || i == 4
				offsets := [2]int{3, 1}
				in := isa.Instruction{Encoding: isa.DS, Name: fmt.Sprintf(name, bits), Operands: []isa.Operand{vgpr(0, 1)}, Immediate: int64(offsets[0]), Immediate2: int64(offsets[1])}
				if isLoad {
					in.Results = []isa.Operand{vgpr(result, 2*words)}
				}
				if isStore {
					in.Operands = append(in.Operands, vgpr(8, words), vgpr(10, words))
				}
				code, err := Translate(family, []isa.Instruction{in})
				if err != nil {
					t.Fatalf("%s: %v", in.Name, err)
				}
				g, err := (&Launch{Code: code, Memory: Blocks{}, Threads: family.Lanes(), Registers: 12, LDS: 1 << 16}).resetGroup()
				if err != nil {
					t.Fatal(err)
				}
				w := g.Waves[0]
				randomRegisters(r, w, 12)
				for lane := range w.Lanes {
					w.V[0][lane] = uint32(lane * 4 * n)
					if stride == 64 {
						w.V[0][lane] = uint32(lane * n)
					}
				}
				exec := r.Uint64() & w.All
				w.SetExec(exec)
				before := append([]Register{}, w.V...)
				memory := append([]byte{}, g.LDS...)
				code.Steps[0](w)
				if w.fault != nil {
					t.Fatal(w.fault)
				}
				for lane := range w.Lanes {
					for k := range 2 {
						at := int(before[0][lane]) + offsets[k]*stride*n
						for word := range words {
							if isOn := exec>>lane&1 == 1; isOn && isLoad {
								if got, want := w.V[result+k*words+word][lane], binary.LittleEndian.Uint32(memory[at+4*word:]); got != want {
									t.Fatalf("%s lane %d: got %#x, want %#x", in.Name, lane, got, want)
								}
							} else if isOn && !isLoad || isOn && isStore {
								if got, want := binary.LittleEndian.Uint32(g.LDS[at+4*word:]), before[8+2*k+word][lane]; got != want {
									t.Fatalf("%s lane %d: got %#x, want %#x", in.Name, lane, got, want)
								}
							}
						}
					}
				}
			}
		}
	})
}

// TestPrivateBuffers reaches private memory by a buffer, as gfx90a does.
func TestPrivateBuffers(t *testing.T) {
	l := launchText(t, "gfx90a", `
	buffer_store_dwordx2 v[2:3], off, s[0:3], 0 offset:8
	v_mov_b32 v4, 4
	s_movk_i32 s5, 0x100
	buffer_load_dword v6, v4, s[0:3], s5 offen offset:4
	buffer_load_ubyte v7, v4, s[0:3], 0 offen offset:6
	s_endpgm`)
	l.Private = 32
	resource := func(w *Wave) {
		randomRegisters(rand.New(rand.NewPCG(1, 1)), w, 4)
		w.S[0], w.S[1], w.S[2], w.S[3] = 0x1000, 1<<31, 0xffffffff, 1<<23
	}
	g, err := runGroup(t, l, resource)
	if err != nil {
		t.Fatal(err)
	}
	w := g.Waves[0]
	for lane := range 64 {
		// 4 + 4 + 0x100/64 is 12, the second word; 4 + 6 is the third byte of the first.
		if a, b := w.V[6][lane], w.V[7][lane]; a != w.V[3][lane] || b != w.V[2][lane]>>16&0xff {
			t.Fatalf("lane %d: got %#x and %#x, want %#x and %#x", lane, a, b, w.V[3][lane], w.V[2][lane]>>16&0xff)
		}
	}
	_, err = runGroup(t, l, func(w *Wave) { resource(w); w.S[3] = 0 })
	if err == nil || !strings.Contains(err.Error(), "the resource is not that of private memory") {
		t.Errorf("another resource: got %v", err)
	}
}
