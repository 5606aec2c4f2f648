package wave

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"tokitai/amdgpu/isa"
)

// launchText assembles a program and returns a launch of it.
func launchText(t *testing.T, architecture, text string) *Launch {
	t.Helper()
	family, list := assemble(t, architecture, text)
	code, err := Translate(family, list)
	if err != nil {
		t.Fatal(err)
	}
	return &Launch{Code: code, Memory: Blocks{}, Threads: family.Lanes(), Budget: NewBudget(1 << 20),
		Mode: Mode{Denorm32: 3, Denorm64: 3, IEEE: true, DX10Clamp: true}}
}

func runGroup(t *testing.T, l *Launch, prepare func(w *Wave)) (*Group, error) {
	t.Helper()
	g, err := l.resetGroup()
	if err != nil {
		t.Fatal(err)
	}
	g.Reset([3]uint32{5, 6, 7})
	for _, w := range g.Waves {
		if prepare != nil {
			prepare(w)
		}
	}
	return g, g.Run()
}

// setLanes gives register 0 the number of each thread in the group.
func setLanes(w *Wave) {
	for i := range w.Lanes {
		w.V[0][i] = uint32(w.Number*w.Lanes + i)
	}
}

// TestBarrier has each thread store its number in LDS and read that of the thread in the
// group's mirror image, which only a barrier makes right in every order of the waves.
func TestBarrier(t *testing.T) {
	const text = `
	v_lshlrev_b32 v1, 2, v0
	ds_store_b32 v1, v0
	s_waitcnt lgkmcnt(0)
	s_barrier
	v_sub_nc_u32 v2, 0xff, v0
	v_lshlrev_b32 v2, 2, v2
	ds_load_b32 v3, v2
	s_barrier
	ds_store_b32 v1, v3
	s_endpgm`
	for _, removed := range []bool{false, true} {
		wrong := 0
		for seed := range uint64(8) {
			source := text
			if removed {
				source = strings.Replace(text, "s_barrier", "s_nop 0", 1)
			}
			l := launchText(t, "gfx1100", source)
			l.Threads, l.LDS, l.Seed = 256, 1024, seed
			g, err := runGroup(t, l, setLanes)
			if err != nil {
				t.Fatal(err)
			}
			for i := range uint32(256) {
				if got := binary.LittleEndian.Uint32(g.LDS[4*i:]); got != 255-i {
					wrong++
				}
			}
		}
		if removed != (wrong > 0) {
			t.Errorf("barrier removed: %v, wrong values: %d", removed, wrong)
		}
	}
}

// TestEndedWavesArrive has the first wave end before a barrier at which the others wait.
func TestEndedWavesArrive(t *testing.T) {
	l := launchText(t, "gfx1100", `
	v_readfirstlane_b32 s0, v0
	s_cmp_eq_u32 s0, 0
	s_cbranch_scc1 end
	s_barrier
	s_mov_b32 s1, 42
	end:
	s_endpgm`)
	l.Threads = 128
	g, err := runGroup(t, l, func(w *Wave) { setLanes(w); w.S[1] = 0 })
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range g.Waves {
		if want := uint32(42); !w.Done || i > 0 && w.S[1] != want || i == 0 && w.S[1] != 0 {
			t.Errorf("wave %d: s1 is %d, done %v", i, w.S[1], w.Done)
		}
	}
}

// TestWavesTakeTurns has each wave spin until the one before it has written to LDS, in every
// order of the waves.
func TestWavesTakeTurns(t *testing.T) {
	for seed := range uint64(5) {
		l := launchText(t, "gfx1100", `
	v_readfirstlane_b32 s0, v0
	s_lshr_b32 s0, s0, 5
	s_sub_u32 s1, 3, s0
	v_mov_b32 v1, 0
	wait:
	ds_load_b32 v2, v1
	s_waitcnt lgkmcnt(0)
	v_readfirstlane_b32 s2, v2
	s_cmp_lg_u32 s2, s1
	s_cbranch_scc1 wait
	s_add_u32 s1, s1, 1
	v_mov_b32 v2, s1
	ds_store_b32 v1, v2
	s_endpgm`)
		l.Threads, l.LDS, l.Seed = 128, 4, seed
		g, err := l.resetGroup()
		if err != nil {
			t.Fatal(err)
		}
		clear(g.LDS)
		for _, w := range g.Waves {
			setLanes(w)
		}
		if err := g.Run(); err != nil {
			t.Fatal(err)
		}
		if g.LDS[0] != 4 {
			t.Errorf("seed %d: got %d, want 4", seed, g.LDS[0])
		}
	}
}

func TestBudget(t *testing.T) {
	l := launchText(t, "gfx942", `
	loop:
	s_add_u32 s0, s0, 1
	s_branch loop`)
	l.Budget = NewBudget(100_000)
	l.Threads = 256
	g, err := runGroup(t, l, func(w *Wave) { w.S[0] = 0 })
	var budget *BudgetError
	var fault *Fault
	if !errors.As(err, &budget) || !errors.As(err, &fault) || budget.Limit != 100_000 || fault.Group != [3]uint32{5, 6, 7} || fault.Instruction.Name == "" {
		t.Fatalf("got %v, want a fault for the budget of 100000", err)
	}
	var sum uint32
	for _, w := range g.Waves {
		sum += w.S[0]
	}
	if sum != 50_000 || l.Budget.Used() != 100_000 {
		t.Errorf("%d turns of the loop and %d instructions, want 50000 and 100000", sum, l.Budget.Used())
	}
	l = launchText(t, "gfx942", "s_nop 0\ns_nop 0\ns_endpgm")
	if _, err := runGroup(t, l, nil); err != nil || l.Budget.Used() != 3 {
		t.Errorf("%d instructions, %v, want 3", l.Budget.Used(), err)
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"end of the code", "s_nop 0", "execution runs past the end of the code"},
		{"code end", "s_code_end", "execution runs past the end of the code"},
		{"trap", "s_trap 2", "the kernel stops itself (s_trap 2)"},
		{"global load", "v_mov_b32 v0, 8\nv_mov_b32 v1, 0\nglobal_load_b32 v2, v[0:1], off\ns_endpgm",
			"global_load_b32 v2, v[0:1], off at offset 0x8, group (5,6,7), wave 0, lane 0: reads 4 bytes at global address 0x8: no memory is allocated there"},
		{"global store", "v_lshlrev_b32 v0, 2, v0\ns_mov_b64 s[0:1], 0x1000\nglobal_store_b64 v0, v[2:3], s[0:1]\ns_endpgm",
			"lane 15: writes 8 bytes at global address 0x103c: the block of 64 bytes at 0x1000 ends there"},
		{"read only", "v_mov_b32 v0, 0\ns_mov_b64 s[0:1], 0x2000\nglobal_store_b8 v0, v2, s[0:1]\ns_endpgm",
			"lane 0: writes 1 bytes at global address 0x2000: the memory is read only"},
		{"scalar load", "s_mov_b64 s[0:1], 0x1030\ns_load_b256 s[8:15], s[0:1], 0x10\ns_endpgm",
			"wave 0: reads 32 bytes at global address 0x1040: no memory is allocated there"},
		{"lds", "v_mov_b32 v0, 56\nds_load_b64 v[2:3], v0 offset:1\ns_endpgm", "lane 0: reads 8 bytes at LDS address 0x39: the group has 64 bytes"},
		{"lds store", "v_mov_b32 v0, 48\nds_store_b128 v0, v[2:5] offset:1\ns_endpgm", "lane 0: writes 16 bytes at LDS address 0x31: the group has 64 bytes"},
		{"global load by a byte", "v_lshlrev_b32 v0, 2, v0\ns_mov_b64 s[0:1], 0x1001\nglobal_load_b32 v2, v0, s[0:1]\ns_endpgm",
			"lane 15: reads 4 bytes at global address 0x103d: the block of 64 bytes at 0x1000 ends there"},
		{"lds 2addr", "v_mov_b32 v0, 0\nds_store_2addr_b32 v0, v1, v1 offset0:1 offset1:16\ns_endpgm", "lane 0: writes 4 bytes at LDS address 0x40: the group has 64 bytes"},
		{"private", "scratch_load_b128 v[0:3], off, off offset:4\ns_endpgm", "lane 0: reads 16 bytes at private address 0x4: a lane has 16 bytes"},
		{"atomic", "v_mov_b32 v0, 2\ns_mov_b64 s[0:1], 0x1000\nglobal_atomic_add_u32 v0, v2, s[0:1]\ns_endpgm",
			"lane 0: writes 4 bytes at global address 0x1002: the address of an atomic must be aligned"},
		{"lds atomic", "v_mov_b32 v0, 4\nds_add_u64 v0, v[2:3]\ns_endpgm", "lane 0: writes 8 bytes at LDS address 0x4: the address of an atomic must be aligned"},
		{"jump", "s_mov_b64 s[0:1], 0x1234\ns_setpc_b64 s[0:1]", "jumps to address 0x1234, where no instruction of the kernel begins"},
		{"relative", "s_movk_i32 m0, 300\nv_movrels_b32 v0, v1\ns_endpgm", "m0 is 0x12c, beyond the last vector register, v2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := launchText(t, "gfx1100", c.text)
			l.Memory = Blocks{{Address: 0x1000, Bytes: make([]byte, 64)}, {Address: 0x2000, Bytes: make([]byte, 64), IsReadOnly: true}}
			l.LDS, l.Private = 64, 16
			_, err := runGroup(t, l, setLanes)
			var fault *Fault
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a fault with %q", err, c.want)
			}
		})
	}
}

func TestUnknownInstruction(t *testing.T) {
	_, err := Translate(isa.GFX11, []isa.Instruction{
		{Encoding: isa.SOPP, Name: "s_nop", Size: 4},
		{Encoding: isa.VOP1, Name: "v_frobnicate_f32", Offset: 4, Size: 4},
	})
	if want := "v_frobnicate_f32 at offset 0x4: the emulator does not know this instruction"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, list := assemble(t, "gfx1100", "s_branch 100\ns_endpgm")
	if _, err := Translate(isa.GFX11, list); err == nil || !strings.Contains(err.Error(), "where no instruction begins") {
		t.Errorf("a branch out of the code: got %v", err)
	}
}

// TestInitialState checks that what a work group finds is arbitrary, but the same each time.
func TestInitialState(t *testing.T) {
	l := launchText(t, "gfx942", "v_mov_b32 v3, 0\nv_accvgpr_write_b32 a5, v0\nds_write_b32 v0, v1\ns_endpgm")
	l.LDS, l.Private, l.Threads, l.Seed = 512, 8, 100, 9
	g, err := l.resetGroup()
	if err != nil {
		t.Fatal(err)
	}
	state := func() (s []uint32) {
		for _, w := range g.Waves {
			for i := range w.V {
				s = append(s, w.V[i][:]...)
			}
			s = append(s, w.S...)
			for _, b := range append(append([]byte{}, g.LDS...), w.Private...) {
				s = append(s, uint32(b))
			}
		}
		return s
	}
	if g.Waves[1].Exec != 1<<36-1 || len(g.Waves) != 2 {
		t.Errorf("exec of the last wave is %#x, want the first 36 lanes", g.Waves[1].Exec)
	}
	before := state()
	for _, w := range g.Waves {
		w.V[0] = Register{}
	}
	if err := g.Run(); err != nil {
		t.Fatal(err)
	}
	if err := g.Run(); err == nil || !strings.Contains(err.Error(), "Run without Reset") {
		t.Errorf("Run without Reset: got %v", err)
	}
	g.Reset([3]uint32{1, 2, 3})
	after := state()
	for i := range before {
		if before[i] != after[i] {
			t.Fatalf("word %d of the initial state is %#x, then %#x", i, before[i], after[i])
		}
	}
}

// TestRelease checks that a launch that takes the memory of another's group runs as with new
// memory, and that a launch of another form does not take it.
func TestRelease(t *testing.T) {
	first := launchText(t, "gfx1100", "v_add_nc_u32 v1, s0, v1\nv_mov_b32 v2, v1\ns_endpgm")
	first.Seed = 3
	run := func(l *Launch, x uint32) Register {
		g, err := runGroup(t, l, func(w *Wave) { w.S[0] = x; setLanes(w) })
		if err != nil {
			t.Fatal(err)
		}
		defer g.Release()
		return g.Waves[0].V[2]
	}
	want := run(first, 7)
	second := &Launch{Code: first.Code, Memory: Blocks{}, Threads: first.Threads, Seed: 3, Budget: NewBudget(100)}
	run(second, 9)
	if got := run(second, 7); got != want {
		t.Errorf("after a release: got %v, want %v", got, want)
	}
	if second.Budget.Used() != 6 {
		t.Errorf("the launch's budget was used for %d instructions, want 6", second.Budget.Used())
	}
	third := &Launch{Code: first.Code, Memory: Blocks{}, Threads: 100, Seed: 3, LDS: 8}
	g, err := third.NewGroup()
	if err != nil || len(g.Waves) != 4 || len(g.LDS) != 8 {
		t.Errorf("a launch of 100 threads has %d waves and %d bytes of LDS", len(g.Waves), len(g.LDS))
	}
}
