package amdemu_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"tokitai/amdgpu/codeobject"
	"tokitai/device"
	"tokitai/device/gpu/amdemu"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/gputest"
)

// TestMain keeps the user's own cache out of the tests.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tokitai-cache-")
	if err != nil {
		panic(err)
	}
	os.Setenv("TOKITAI_CACHE", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func TestKernels(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		const n = 1000
		xs, ys := make([]uint32, n), make([]uint32, n)
		for i := range n {
			xs[i], ys[i] = math.Float32bits(float32(i)/3), math.Float32bits(float32(n-i)/7)
		}
		x, y := r.buffer(xs...), r.buffer(ys...)
		if err := r.launch("saxpy", [3]uint32{4, 1, 1}, [3]uint32{256, 1, 1}, 0, params{y: y, x: x, n: n, a: 1.5}.bytes()); err != nil {
			t.Fatal(err)
		}
		for i, got := range r.words(y) {
			want := math.Float32bits(float32(1.5*math.Float32frombits(xs[i])) + math.Float32frombits(ys[i]))
			if got != want {
				t.Fatalf("saxpy: y[%d] = %#x, want %#x", i, got, want)
			}
		}

		// Every work item of a grid in three dimensions, whose groups are not whole waves.
		grid, block := [3]uint32{2, 3, 2}, [3]uint32{5, 3, 7}
		y = r.buffer(make([]uint32, 10*9*14)...)
		if err := r.launch("where", grid, block, 0, params{y: y}.bytes()); err != nil {
			t.Fatal(err)
		}
		for i, got := range r.words(y) {
			at := [3]uint32{uint32(i) % 10, uint32(i) / 10 % 9, uint32(i) / 90}
			want := at[0]%5 + 10*(at[1]%3) + 100*(at[2]%7) + 1000*(at[0]/5) + 10000*(at[1]/3) + 100000*(at[2]/7)
			if got != want {
				t.Fatalf("where: y%v = %d, want %d", at, got, want)
			}
		}

		xs = xs[:512]
		x, y = r.buffer(xs...), r.buffer(make([]uint32, 512)...)
		if err := r.launch("reverse", [3]uint32{2, 1, 1}, [3]uint32{256, 1, 1}, 1024, params{y: y, x: x}.bytes()); err != nil {
			t.Fatal(err)
		}
		for i, got := range r.words(y) {
			if want := xs[i/256*256+255-i%256] + uint32(2*(255-i%256)); got != want {
				t.Fatalf("reverse: y[%d] = %#x, want %#x", i, got, want)
			}
		}

		y = r.buffer(make([]uint32, 128)...)
		if err := r.launch("spill", [3]uint32{2, 1, 1}, [3]uint32{64, 1, 1}, 0, params{y: y, mode: 3}.bytes()); err != nil {
			t.Fatal(err)
		}
		for i, got := range r.words(y) {
			var memory [16]uint32
			item, sum := uint32(i%64), uint32(0)
			for j := range uint32(16) {
				memory[(j*5+item)&15] = j*3 + item
			}
			for _, v := range memory {
				sum = sum*3 + v
			}
			if got != sum {
				t.Fatalf("spill: y[%d] = %#x, want %#x", i, got, sum)
			}
		}

		y = r.buffer(make([]uint32, 128)...)
		if err := r.launch("indexed", [3]uint32{2, 1, 1}, [3]uint32{64, 1, 1}, 0, params{y: y, mode: 3}.bytes()); err != nil {
			t.Fatal(err)
		}
		for i, got := range r.words(y) {
			var memory [300]uint32
			item, sum := uint32(i%64), uint32(0)
			for j := range memory {
				memory[j] = uint32(j)*3 + item
			}
			for j := range uint32(40) {
				memory[(j*3+item)%300] += memory[(j*7+item)%300]
			}
			for _, v := range memory {
				sum = sum*3 + v
			}
			if got != sum {
				t.Fatalf("indexed: y[%d] = %#x, want %#x", i, got, sum)
			}
		}

		y = r.buffer(make([]uint32, 4)...)
		for mode, want := range [][4]uint32{{7, 8, 10, 12}, {8, 10, 12, 7}, {14, 16, 11, 12}} {
			if err := r.launch("globals", [3]uint32{1, 1, 1}, [3]uint32{4, 1, 1}, 0, params{y: y, mode: uint32(mode)}.bytes()); err != nil {
				t.Fatal(err)
			}
			if got := [4]uint32(r.words(y)); got != want {
				t.Fatalf("globals, mode %d: got %d, want %d", mode, got, want)
			}
		}
	})
}

func TestDescribe(t *testing.T) {
	for architecture, width := range map[string]int{"gfx1100": 32, "gfx942": 64} {
		d := gputest.NeedsAMDEmulator(t, architecture)
		about, limits := d.Describe(), d.Limits()
		if d.Name() != "amdemu:"+architecture || d.Kind() != "amdemu" || about.Architecture != architecture || about.Name != "emulated "+architecture ||
			about.Caveat != "emulated instructions, not hardware" || !strings.Contains(about.Driver, about.Caveat) || limits.WarpWidth != width || limits.SharedBytes != 64<<10 {
			t.Errorf("%s: %+v, %+v", d.Name(), about, limits)
		}
	}
	if _, err := amdemu.Table("gfx906"); !errors.Is(err, device.ErrNoDevice) || !strings.Contains(err.Error(), `"gfx906" is not an emulated architecture, want one of gfx1100`) {
		t.Errorf("gfx906: got %v", err)
	}
}

// TestFaults: what a kernel does wrong is an error that says what, where and by whom. The device
// can be used afterwards.
func TestFaults(t *testing.T) {
	t.Setenv("TOKITAI_AMDEMU_SEED", "0") // the first group in the grid is the first to fail
	r := newRig(t, "gfx1100")
	x := r.buffer(make([]uint32, 256)...) // 1024 bytes: the size of its block
	y := r.buffer(make([]uint32, 1024)...)
	one, items := [3]uint32{1, 1, 1}, [3]uint32{64, 1, 1}
	good := params{y: y, x: x, n: 256}
	for _, c := range []struct {
		name, entry string
		grid, block [3]uint32
		shared      uint32
		params      []byte
		want        []string
	}{
		{"read beyond a block", "saxpy", [3]uint32{9, 1, 1}, items, 0, params{y: y, x: x, n: 1 << 20}.bytes(), []string{
			"kernel saxpy: global_load", "(kernels.cu:4, offset 0x", "work group (4,0,0), wave 0, lane 0: reads 4 bytes at global address 0x",
			"0 bytes after the end of the block of 1024 bytes at 0x"}},
		{"in a function that was inlined", "inlined", one, items, 0, params{y: y, x: x, n: 1 << 20}.bytes(), []string{
			"(header.h:2, called at kernels.cu:61, offset 0x", "reads 4 bytes at global address 0x"}},
		{"read before a block", "saxpy", one, items, 0, func() []byte {
			b := good.bytes()
			binary.LittleEndian.PutUint64(b[8:], x.Pointer()-8)
			return b
		}(), []string{"lane 0: reads 4 bytes", "8 bytes before the block of 1024 bytes at 0x"}},
		{"a pointer that is nil", "saxpy", one, items, 0, params{y: y, n: 1}.bytes(), []string{"reads 4 bytes at global address 0x0", "no memory is allocated near it"}},
		{"writes to arguments", "small", one, items, 0, func() []byte {
			b := good.bytes()
			binary.LittleEndian.PutUint64(b, 0x0100_0000_0000)
			return b
		}(), []string{"kernels.cu:44", "writes 4 bytes at global address 0x10000000000: the memory is read only"}},
		{"LDS beyond the group's", "reverse", one, [3]uint32{32, 1, 1}, 128, params{y: y, x: x, mode: 1}.bytes(), []string{"(kernels.cu:28,", "LDS address", "the group has 1152 bytes"}},
		{"too many work items", "small", one, [3]uint32{65, 1, 1}, 0, good.bytes(), []string{"got groups of [65 1 1] = 65 work items, want at most 64"}},
		{"too few parameters", "saxpy", one, items, 0, good.bytes()[:16], []string{"got 16 bytes of parameters, want 32"}},
		{"too much LDS", "reverse", one, items, 64 << 10, good.bytes(), []string{"got 66560 bytes of LDS, 65536 of them dynamic, want at most 65536"}},
	} {
		err := r.launch(c.entry, c.grid, c.block, c.shared, c.params)
		fault, isFault := errors.AsType[*driver.LaunchError](err)
		if isFault && fault.Entry != c.entry || !isFault && c.name != "too much LDS" {
			t.Errorf("%s: got %v, want a LaunchError of %s", c.name, err, c.entry)
		}
		for _, part := range c.want {
			if !isFault && c.name == "too much LDS" {
				break // device/gpu refuses it before
			}
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: got %v, want an error that says %q", c.name, err, part)
			}
		}
	}
	if err := r.launch("saxpy", [3]uint32{4, 1, 1}, items, 0, good.bytes()); err != nil {
		t.Errorf("after the faults: %v", err)
	}
}

func TestRunaway(t *testing.T) {
	t.Setenv("TOKITAI_AMDEMU_BUDGET", "100000")
	each(t, func(t *testing.T, r *rig) {
		y := r.buffer(0)
		err := r.launch("spin", [3]uint32{3, 1, 1}, [3]uint32{64, 1, 1}, 0, params{y: y}.bytes())
		for _, part := range []string{"kernel spin: ", "(kernels.cu:16, ", "has executed 100000 instructions, its budget (TOKITAI_AMDEMU_BUDGET): it does not end, or needs more"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("got %v, want an error that says %q", err, part)
			}
		}
		if err := r.launch("spin", [3]uint32{3, 1, 1}, [3]uint32{64, 1, 1}, 0, params{y: r.buffer(1)}.bytes()); err != nil {
			t.Errorf("a loop that ends: %v", err)
		}
	})
}

func TestSettings(t *testing.T) {
	for variable, values := range map[string][]string{"TOKITAI_AMDEMU_SEED": {"-1", "x"}, "TOKITAI_AMDEMU_BUDGET": {"0", "-5", "x"}} {
		for _, value := range values {
			t.Run(variable+"="+value, func(t *testing.T) {
				t.Setenv(variable, value)
				if _, err := amdemu.Table(""); !errors.Is(err, device.ErrNoDevice) || !strings.Contains(err.Error(), fmt.Sprintf("%s: got %q, want an integer", variable, value)) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// TestSeeds: a seed changes the order of work groups and the last bits of approximations; the
// same seed changes nothing.
func TestSeeds(t *testing.T) {
	run := func(seed string) (order, reciprocals []uint32) {
		t.Setenv("TOKITAI_AMDEMU_SEED", seed)
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // for one order
		r := newRig(t, "gfx1100")
		const groups = 37
		x, y := r.buffer(0), r.buffer(make([]uint32, groups)...)
		if err := r.launch("order", [3]uint32{groups, 1, 1}, [3]uint32{1, 1, 1}, 0, params{y: y, x: x}.bytes()); err != nil {
			t.Fatal(err)
		}
		z := r.buffer(make([]uint32, 64*groups)...)
		if err := r.launch("reciprocal", [3]uint32{groups, 1, 1}, [3]uint32{64, 1, 1}, 0, params{y: z}.bytes()); err != nil {
			t.Fatal(err)
		}
		order, reciprocals = r.words(y), r.words(z)
		seen := make([]bool, groups)
		for _, at := range order {
			if at >= groups || seen[at] {
				t.Fatalf("seed %s: the groups ran in the order %d", seed, order)
			}
			seen[at] = true
		}
		for i, bits := range reciprocals { // within one unit in the last place, as AMD documents it
			exact := 1 / (1 + float64(i)*0x1p-20)
			if error := math.Abs(float64(math.Float32frombits(bits)) - exact); error > 0x1p-24 {
				t.Fatalf("seed %s: v_rcp_f32 is %g off", seed, error)
			}
		}
		return order, reciprocals
	}
	zero, rounded := run("0")
	for i, bits := range rounded {
		if want := math.Float32bits(float32(1 / (1 + float64(i)*0x1p-20))); bits != want {
			t.Fatalf("seed 0: reciprocal %d is %#x, want %#x", i, bits, want)
		}
	}
	one, varied := run("1")
	two, other := run("2")
	same := func(a, b []uint32) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
	if same(rounded, varied) || same(varied, other) {
		t.Error("approximations do not depend on the seed")
	}
	if same(zero, one) || same(one, two) {
		t.Error("the order of groups does not depend on the seed")
	}
	if again, bits := run("2"); !same(bits, other) || !same(again, two) {
		t.Error("the same seed gives something else")
	}
	if standard, bits := run(""); !same(bits, varied) || !same(standard, one) {
		t.Error("the default seed is not 1")
	}
}

func TestWrongArchitecture(t *testing.T) {
	c := gputest.NeedsClang(t)
	p, err := c.Compile("gfx1101", source(kernels))
	if err != nil {
		t.Fatal(err)
	}
	table, err := amdemu.Table("gfx1100")
	if err != nil {
		t.Fatal(err)
	}
	_, err = table.Load(p.Image)
	if e, ok := errors.AsType[*codeobject.ArchitectureError](err); !ok || e.Got != "gfx1101" || e.Want != "gfx1100" {
		t.Errorf("got %v, want an ArchitectureError", err)
	}
	if _, err := table.Load([]byte("not a code object")); err == nil || !strings.HasPrefix(err.Error(), "load: code object: ") {
		t.Errorf("not a code object: got %v", err)
	}
}

// TestLines: tables of lines change no instruction.
func TestLines(t *testing.T) {
	c := gputest.NeedsClang(t)
	for _, architecture := range []string{"gfx1100", "gfx942"} {
		var code [2][]byte
		for i, c := range []*compile.Clang{c, c.WithLines()} {
			p, err := c.Compile(architecture, source(kernels))
			if err != nil {
				t.Fatal(err)
			}
			o, err := codeobject.Read(p.Image, architecture)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range o.Kernels {
				code[i] = append(code[i], k.Code...)
			}
			k, ok := o.Kernel("small")
			if !ok {
				t.Fatal("no kernel small")
			}
			if line := o.Line(k.Entry); line != map[int]string{0: "", 1: "kernels.cu:44"}[i] {
				t.Errorf("%s: the first line of small is %q", architecture, line)
			}
		}
		if len(code[0]) == 0 || !bytes.Equal(code[0], code[1]) {
			t.Errorf("%s: the instructions differ", architecture)
		}
	}
}

func TestNoClang(t *testing.T) {
	t.Setenv("TOKITAI_CLANG", "no-such-clang")
	table, err := amdemu.Table("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Compiler(0); !errors.Is(err, compile.ErrNoClang) {
		t.Errorf("got %v, want ErrNoClang", err)
	}
	if _, err := table.Compile(0, source(kernels)); !errors.Is(err, compile.ErrNoClang) {
		t.Errorf("got %v, want ErrNoClang", err)
	}
}

func TestDisassemble(t *testing.T) {
	c := gputest.NeedsClang(t).WithLines()
	p, err := c.Compile("gfx90a", source(kernels))
	if err != nil {
		t.Fatal(err)
	}
	text, err := amdemu.Disassemble(p.Image, "gfx90a")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"\nsmall: ", " VGPRs, 0 bytes of LDS, 0 bytes of private memory\n; kernels.cu:44\n  000000  s_load_dwordx2 s[0:1], s[4:5], 0x0\n", "\n; header.h:2\n", "s_endpgm\n\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("the listing does not have %q", part)
		}
	}
	if n := strings.Count(text, "s_endpgm\n"); n < len(entries) {
		t.Errorf("%d ends, want at least %d", n, len(entries))
	}
	if _, err := amdemu.Disassemble(p.Image, "gfx942"); err == nil {
		t.Error("listed for another architecture")
	}
	if _, err := amdemu.Disassemble(p.Image, "gfx1"); err == nil {
		t.Error("listed for an unknown architecture")
	}
}

// TestRefusedKernels: a kernel that asks for what is not emulated is refused when it is looked
// up, and so is one with an unknown instruction.
func TestRefusedKernels(t *testing.T) {
	p, err := gputest.NeedsClang(t).Compile("gfx1100", source(kernels))
	if err != nil {
		t.Fatal(err)
	}
	file, err := elf.NewFile(bytes.NewReader(p.Image))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{} // where a symbol is in the file
	for _, s := range symbols {
		section := file.Sections[s.Section]
		at[s.Name] = int(s.Value - section.Addr + section.Offset)
	}
	for _, c := range []struct {
		reason, symbol string
		offset         int
		change         func(word uint32) uint32
	}{
		{"it clamps overflows in binary16 (FP16_OVFL), which is not emulated", "small.kd", 48, func(w uint32) uint32 { return w | 1<<26 }},
		{"it traps exceptions (compute_pgm_rsrc2 0x1000000), which is not emulated", "small.kd", 52, func(w uint32) uint32 { return w | 1<<24 }},
		{"it asks for work-group information in an SGPR, which is not emulated", "small.kd", 52, func(w uint32) uint32 { return w | 1<<10 }},
		{"it uses a stack of dynamic size, which is not emulated", "small.kd", 56, func(w uint32) uint32 { return w | 1<<11 }},
		{"VGPRs and 0 AGPRs, its descriptor allocates 8 and 0", "indexed.kd", 48, func(w uint32) uint32 { return w &^ 0x3f }},
		{"kernel small: gfx1100: offset 0x", "small", 0, func(uint32) uint32 { return 0xffffffff }},
	} {
		image := bytes.Clone(p.Image)
		place := image[at[c.symbol]+c.offset:]
		binary.LittleEndian.PutUint32(place, c.change(binary.LittleEndian.Uint32(place)))
		table, err := amdemu.Table("gfx1100")
		if err != nil {
			t.Fatal(err)
		}
		m, err := table.Load(image)
		if err != nil {
			t.Fatal(err)
		}
		entry, _, _ := strings.Cut(c.symbol, ".")
		if _, err := table.Lookup(m, entry); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("got %v, want an error that says %q", err, c.reason)
		}
		if _, err := table.Lookup(m, "saxpy"); err != nil {
			t.Errorf("another kernel of the program: %v", err)
		}
	}
}

// TestHandles: handles that the driver has not given out, and addresses that it has not, are
// errors.
func TestHandles(t *testing.T) {
	table, err := amdemu.Table("")
	if err != nil {
		t.Fatal(err)
	}
	p, err := table.Alloc(1000)
	if err != nil {
		t.Fatal(err)
	}
	_, noModule := table.Lookup(7, "saxpy")
	_, noBytes := table.Alloc(0)
	for what, err := range map[string]error{
		"lookup: module 7 is not loaded":     noModule,
		"unload: module 7 is not loaded":     table.Unload(7),
		"launch: function 7 is not loaded":   table.Launch(7, [3]uint32{1, 1, 1}, [3]uint32{1, 1, 1}, 0, 0, nil),
		"alloc: got 0 bytes":                 noBytes,
		"free: 0x7 was not allocated":        table.Free(7),
		"copy: 1001 bytes at 0x":             table.CopyIn(p, make([]byte, 1001), 0),
		"copy: 1 bytes at 0x":                table.CopyOut(make([]byte, 1), p+1000, 0),
		"copy: 2 bytes at 0x":                table.Copy(p, p+999, 2, 0),
		"fill: 1000 bytes at 0x":             table.Fill(p+1, 5, 1000, 0),
		"no memory is allocated near it":     table.CopyOut(make([]byte, 1), 7, 0),
		"0 bytes after the end of the block": table.CopyOut(make([]byte, 1), p+1000, 0),
	} {
		if _, ok := errors.AsType[*driver.Error](err); !ok || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want an error that says %q", err, what)
		}
	}
	free, total, err := table.MemoryInfo()
	if err != nil || free != total-1000 {
		t.Errorf("%d of %d bytes are free, %v", free, total, err)
	}
	if _, err := table.Alloc(free + 1); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("out of memory: %d of %d bytes are free", free, total)) {
		t.Errorf("more than there is: got %v", err)
	}
	q, err := table.Alloc(1)
	if err != nil || q == p || table.Free(p) != nil || table.Free(q) != nil {
		t.Errorf("got %#x after %#x, %v", q, p, err)
	}
	if r, err := table.Alloc(1000); err != nil || r == p || r == q {
		t.Errorf("an address that was freed is used again: %#x, %v", r, err)
	}
}
