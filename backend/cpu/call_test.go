package cpu_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/num"
)

// TestShippedAreAdmitted has every definition computed by every lowering that makes machine
// code: none may be left to a slower one.
func TestShippedAreAdmitted(t *testing.T) {
	q := newQueue(t, newDevice(t, 2))
	for _, name := range generated(t) {
		for i, d := range shipped() {
			formats := d.Formats()
			for _, dtypes := range testlevel.Pick(formats[i%len(formats):][:1], formats) {
				if _, err := engine.Admit(q, d, dtypes, engine.WithLowering(name)); err != nil {
					t.Errorf("%s %v: %v", d.Name, dtypes, err)
				}
			}
		}
	}
}

// largeSum is a definition with more sums than the memory of machine code has room for.
var largeSum = def.Must(def.Rowwise("large_sum", func(b *def.Builder) {
	x := b.In("x", def.Only(num.F32))
	sum := def.RowSum(x)
	for i := range 200 {
		sum = sum.Add(def.RowSum(x.Mul(x.Add(sum)).Mul(b.Param(fmt.Sprintf("p%d", i)))))
	}
	b.OutRow("s", sum, def.Only(num.F32))
}))

// TestNoCodeForIt has a definition that cannot become machine code: the error says why, and a
// call that names no lowering is computed without.
func TestNoCodeForIt(t *testing.T) {
	dev := newDevice(t, 2)
	q := newQueue(t, dev, engine.WithAdmission(engine.Off), engine.WithLog(slog.New(slog.DiscardHandler)))
	p := place(t, dev, newCase(gen.New("no code"), largeSum, largeSum.Formats()[0], map[string]int{"R": 3, "C": 20}))
	var chosen *engine.Lowering
	got, err := p.compute(q, engine.ReportLowering(&chosen))
	if err != nil || chosen.Name != plainName(largeSum) {
		t.Fatalf("computed by %v, error %v", chosen, err)
	}
	want, err := p.compute(q, engine.WithLowering("cpu.reference"))
	if err != nil {
		t.Fatal(err)
	}
	if text := got.Fault(want); text != "" {
		t.Error(text)
	}
	for _, name := range generated(t) {
		_, err := p.compute(q, engine.WithLowering(name))
		if want := fmt.Sprintf("large_sum/%s is inadmissible on cpu: it does not compile: large_sum: its operands and sums take 211 words, want at most 128", name); err == nil || err.Error() != want {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}

// lowering returns the lowering of a name.
func lowering(t testing.TB, d *def.Definition, name string) *engine.Lowering {
	t.Helper()
	for _, l := range cpu.Backend.Preferred(d) {
		if l.Name == name {
			return l
		}
	}
	t.Fatalf("%s: no lowering %s", d.Name, name)
	return nil
}

// TestWarmCallsAllocateNothing makes calls whose code and memory there is already.
func TestWarmCallsAllocateNothing(t *testing.T) {
	if isRaceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // pools forget at a collection
	g := gen.New("warm calls")
	dev := newDevice(t, 2)
	for _, name := range generated(t) {
		for i, d := range shipped() {
			formats := d.Formats()
			for _, dtypes := range testlevel.Pick(formats[i%len(formats):][:1], formats) {
				q := newQueue(t, dev, engine.WithAdmission(engine.Off), engine.WithBadIndex(engine.Skip), engine.Using(lowering(t, d, name)))
				p := place(t, dev, newCase(g, d, dtypes, sized(g, d, 90)))
				call := func() {
					if err := engine.Call(q, d, p.tensors, p.c.Params); err != nil {
						t.Fatalf("%s: %v", d.Name, err)
					}
				}
				n := 1.0
				for try := 0; try < 50 && n != 0; try++ { // until every worker has had its first share
					n = testing.AllocsPerRun(10, call)
				}
				if n != 0 {
					t.Errorf("%s %v by %s: %v allocations a call, want none", d.Name, dtypes, name, n)
				}
			}
		}
		runtime.GC()
	}
}

// BenchmarkCompile measures how long making the code of a definition takes.
func BenchmarkCompile(b *testing.B) {
	for _, name := range generated(b) {
		for _, d := range shipped() {
			dtypes := d.Formats()[0]
			chosen := lowering(b, d, name)
			b.Run(d.Name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := chosen.Compile(nil, d, dtypes, 0); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkCall measures a call on a thousand elements, from the public side.
func BenchmarkCall(b *testing.B) {
	dev := newDevice(b, 2)
	for _, name := range generated(b) {
		for _, d := range shipped() {
			if d.Expression() == nil {
				continue
			}
			q := newQueue(b, dev, engine.WithAdmission(engine.Off), engine.WithBadIndex(engine.Skip), engine.Using(lowering(b, d, name)))
			p := place(b, dev, newCase(gen.New("call"), d, d.Formats()[0], map[string]int{"R": 1, "C": 1000, "K": 4}))
			b.Run(d.Name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := engine.Call(q, d, p.tensors, p.c.Params); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
