package soak

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	backend "tokitai/backend/gpu"
	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/device/gpu/driver"
	"tokitai/internal/tensorcore"
	lowergpu "tokitai/lower/gpu"
	"tokitai/num"
)

// Options configures a soak.
type Options struct {
	Time   time.Duration // that it takes; what has begun then is ended
	Memory int64         // to hold to patterns, in bytes; 0 is most of what is free
	Seed   uint32

	Progress func(done float64, text string) // the share of the time that is gone; it may be nil

	// IsSmall makes every step short, for a device that is slow.
	IsSmall bool
}

// mostUnits is more than the multiprocessors of any GPU. Their numbers need not be contiguous.
const mostUnits = 1024

// room is for how many faults the device has memory between two looks at it.
const room = 4096

// CanHold reports whether GPU knows how to hold a kind of device to answers.
func CanHold(kind string) bool { return kind == "cuda" || kind == "sim" }

// GPU holds a GPU to known answers for some time. Its steps take turns: arithmetic and shared memory on every
// multiprocessor, matrix instructions on every multiprocessor, and each pattern over the memory. A report
// is returned with an error of ctx, too; any other error means that there is none.
func GPU(ctx context.Context, dev *backend.Device, o Options) (*Report, error) {
	if !CanHold(dev.Kind()) {
		return nil, fmt.Errorf("%s: a soak is for cpu, cuda and sim: which multiprocessor computes what is not known of %s", dev.Name(), dev.Kind())
	}
	s := &gpuSoak{dev: dev, o: o, limits: dev.Limits(), began: time.Now()}
	about := dev.Describe()
	r := &Report{
		Schema: Schema, Began: s.began.UTC().Truncate(time.Second), Asked: o.Time.Seconds(), Seed: o.Seed,
		Device: dev.Name(), Name: about.Name, Architecture: about.Architecture, Driver: about.Driver,
		Units: Units{What: "multiprocessors", Total: s.limits.Multiprocessors},
	}
	s.report = r
	defer s.close()
	if err := s.prepare(); err != nil {
		return nil, err
	}
	monitor := watchGPU(dev, r)
	err := s.run(ctx)
	monitor.end(&r.Health)
	r.Seconds = time.Since(s.began).Seconds()
	s.finish()
	ended := ""
	if err != nil {
		if ctx.Err() == nil && !isLost(err) {
			return nil, err
		}
		ended = err.Error()
	}
	r.decide(ended)
	return r, ctx.Err()
}

func isLost(err error) bool {
	_, ok := errors.AsType[*device.LostError](err)
	return ok
}

// step is one kernel that compares answers.
type step struct {
	check  string
	entry  string
	params lowergpu.SoakParams
	shared uint32
	blocks uint32
	held   *gpu.Buffer
	runs   int64

	byUnit [mostUnits]int64
	wrong  map[int]bool
}

type gpuSoak struct {
	dev    *backend.Device
	o      Options
	limits driver.Properties
	report *Report
	began  time.Time

	module  *gpu.Module
	queue   *gpu.Queue
	buffers []*gpu.Buffer // all of them
	chunks  []*gpu.Buffer // that are held to patterns
	faults  *gpu.Buffer
	found   *gpu.Buffer
	steps   []*step // but those of memory
	memory  *step

	all     []Fault // the first of each look
	pattern int64
}

func (s *gpuSoak) alloc(bytes int64) (*gpu.Buffer, error) {
	b, err := s.dev.Alloc(bytes)
	if err != nil {
		return nil, err
	}
	s.buffers = append(s.buffers, b.(*gpu.Buffer))
	return b.(*gpu.Buffer), nil
}

func (s *gpuSoak) upload(data []byte) (uint64, error) {
	b, err := s.alloc(int64(len(data)))
	if err != nil {
		return 0, err
	}
	return b.Pointer(), b.CopyIn(0, data)
}

// prepare compiles the kernels, computes the answers, and takes the memory.
func (s *gpuSoak) prepare() error {
	kernels := lowergpu.NewSoak(s.dev.Architecture())
	var err error
	if s.module, err = s.dev.LoadSource(kernels.Source); err != nil {
		return err
	}
	if s.queue, err = s.dev.NewQueueWith(gpu.QueueOptions{}); err != nil {
		return err
	}
	if s.faults, err = s.alloc(room * lowergpu.SoakFaultBytes); err != nil {
		return err
	}
	if s.found, err = s.alloc(4); err != nil {
		return err
	}
	rounds, matrixRounds, sharedRounds, perUnit := uint32(4096), uint32(4096), uint32(16), uint32(8)
	if s.o.IsSmall {
		rounds, matrixRounds, sharedRounds, perUnit = 4, 2, 2, 2
	}
	units := uint32(s.limits.Multiprocessors)
	add := func(check, entry string, rounds, blocks uint32) (*step, error) {
		held, err := s.alloc(8 * mostUnits)
		if err != nil {
			return nil, err
		}
		t := &step{check: check, entry: entry, blocks: blocks, held: held, wrong: map[int]bool{}}
		t.params = lowergpu.SoakParams{Held: held.Pointer(), Faults: s.faults.Pointer(), Found: s.found.Pointer(), Room: room, Units: mostUnits, Seed: s.o.Seed, Rounds: rounds}
		return t, nil
	}
	t, err := add("arithmetic", "soak_arithmetic", rounds, units*perUnit)
	if err != nil {
		return err
	}
	if t.params.Answers, err = s.upload(arithmeticAnswers(s.o.Seed, rounds)); err != nil {
		return err
	}
	s.steps = append(s.steps, t)

	// A block with all of the shared memory has a multiprocessor to itself.
	if t, err = add("shared memory", "soak_shared", sharedRounds, units); err != nil {
		return err
	}
	t.shared = uint32(s.limits.SharedBytes) / 1024 * 1024
	t.params.Words = t.shared / 4
	s.steps = append(s.steps, t)

	hasMatrix := false
	for _, i := range s.dev.MatrixInstructions() {
		if i.Family != "mma.sync" || i.DType != num.F16 && i.DType != num.BF16 {
			continue
		}
		model, isKnown := s.dev.MatrixAccum(i)
		if !isKnown {
			s.report.NotAsked = append(s.report.NotAsked, fmt.Sprintf("%v of %v: its model is not known for %s", i, i.DType, s.dev.Architecture()))
			continue
		}
		if err := s.addMatrix(i, model, add, matrixRounds, units*perUnit); err != nil {
			return err
		}
		hasMatrix = true
	}
	if !hasMatrix && len(s.report.NotAsked) == 0 {
		s.report.NotAsked = append(s.report.NotAsked, "matrix instructions: "+s.dev.Architecture()+" has none that a soak knows")
	}

	if s.memory, err = add("memory", "soak_compare", 0, units*perUnit); err != nil {
		return err
	}
	return s.takeMemory()
}

func (s *gpuSoak) addMatrix(i tensorcore.Instruction, model num.MMA, add func(string, string, uint32, uint32) (*step, error), rounds, blocks uint32) error {
	entry, _ := lowergpu.SoakMatrix(i.DType)
	t, err := add("matrix products of "+i.DType.String(), entry, rounds, blocks)
	if err != nil {
		return err
	}
	f := matrixFragments(i, model, s.o.Seed)
	for _, x := range []struct {
		to   *uint64
		data []byte
	}{{&t.params.Left, f.left}, {&t.params.Right, f.right}, {&t.params.Start, f.start}, {&t.params.Answers, f.answers}} {
		if *x.to, err = s.upload(x.data); err != nil {
			return err
		}
	}
	s.steps = append(s.steps, t)
	return nil
}

// takeMemory allocates what is held to patterns: nearly all that is free.
func (s *gpuSoak) takeMemory() error {
	free, err := s.dev.Free()
	if err != nil {
		return err
	}
	want := s.o.Memory
	switch {
	case want > 0:
	case s.o.IsSmall:
		want = 1 << 20
	default:
		want = free - max(free/50, 256<<20)
	}
	const largest = 4 << 30
	for want >= 1<<20 {
		size := min(want, largest) &^ (1<<20 - 1)
		b, err := s.alloc(size)
		if _, isFull := errors.AsType[*device.OutOfMemoryError](err); isFull {
			want = min(want, largest) / 2 // in pieces, until none fits
			continue
		}
		if err != nil {
			return err
		}
		s.chunks = append(s.chunks, b)
		s.report.Memory.Held += size
		want -= size
	}
	if len(s.chunks) == 0 {
		return fmt.Errorf("%s: a soak needs at least 1 MiB of free memory: got %d bytes", s.dev.Name(), free)
	}
	s.report.Memory.Total = s.limits.MemoryBytes
	return nil
}

// launch queues a kernel.
func (s *gpuSoak) launch(entry string, p *lowergpu.SoakParams, blocks, shared uint32) error {
	f, err := s.module.Entry(entry)
	if err != nil {
		return err
	}
	return s.queue.Launch(f, [3]uint32{blocks, 1, 1}, [3]uint32{lowergpu.SoakThreads, 1, 1}, shared, p.Bytes())
}

// run takes turns until the time is over.
func (s *gpuSoak) run(ctx context.Context) error {
	turn, batch := time.Second, 16
	if s.o.IsSmall {
		turn, batch = 0, 1
	}
	for turns := 0; ; turns++ {
		for _, t := range s.steps {
			for began := time.Now(); ; {
				for range batch {
					if err := s.launch(t.entry, &t.params, t.blocks, t.shared); err != nil {
						return err
					}
				}
				t.runs += int64(batch)
				if err := s.queue.Wait(ctx); err != nil {
					return err
				}
				if time.Since(began) >= turn || s.isOver() {
					break
				}
			}
			if err := s.look(t); err != nil {
				return err
			}
			s.progress(t.check)
		}
		for range lowergpu.SoakPatterns {
			if err := s.pass(ctx); err != nil {
				return err
			}
			s.progress("memory")
			if s.isOver() && s.pattern >= lowergpu.SoakPatterns { // each pattern once, at least
				break
			}
		}
		if s.isOver() {
			return nil
		}
	}
}

func (s *gpuSoak) isOver() bool { return time.Since(s.began) >= s.o.Time }

func (s *gpuSoak) progress(text string) {
	if s.o.Progress != nil {
		s.o.Progress(min(time.Since(s.began).Seconds()/s.o.Time.Seconds(), 1), text)
	}
}

// pass writes all of the memory with a pattern and reads it back.
func (s *gpuSoak) pass(ctx context.Context) error {
	p := s.memory.params
	p.Pattern = uint32(s.pattern % lowergpu.SoakPatterns)
	p.Seed += uint32(s.pattern / lowergpu.SoakPatterns)
	for _, entry := range []string{"soak_fill", "soak_compare"} {
		p.First = 0
		for _, b := range s.chunks {
			p.Memory, p.Pieces = b.Pointer(), b.Bytes()/16
			if err := s.launch(entry, &p, s.memory.blocks, 0); err != nil {
				return err
			}
			p.First += b.Bytes()
		}
	}
	if err := s.queue.Wait(ctx); err != nil {
		return err
	}
	s.memory.runs++
	s.pattern++
	s.report.Memory.Passes++
	s.report.Memory.Moved += 2 * s.report.Memory.Held
	return s.look(s.memory)
}

// look reads what a step has found, and begins anew.
func (s *gpuSoak) look(t *step) error {
	held := make([]byte, 8*mostUnits)
	if err := t.held.CopyOut(0, held); err != nil {
		return err
	}
	for unit := range t.byUnit {
		t.byUnit[unit] = int64(binary.LittleEndian.Uint64(held[8*unit:]))
	}
	word := make([]byte, 4)
	if err := s.found.CopyOut(0, word); err != nil {
		return err
	}
	found := binary.LittleEndian.Uint32(word)
	if found == 0 {
		return nil
	}
	s.report.FaultsFound += int64(found)
	list := make([]byte, min(found, room)*lowergpu.SoakFaultBytes)
	if err := s.faults.CopyOut(0, list); err != nil {
		return err
	}
	for ; len(list) > 0; list = list[lowergpu.SoakFaultBytes:] {
		var f lowergpu.SoakFault
		if _, err := binary.Decode(list, binary.LittleEndian, &f); err != nil {
			return err
		}
		t.wrong[int(f.Unit)] = true
		if len(s.all) < room {
			s.all = append(s.all, s.fault(&f, t.check))
		}
	}
	return s.found.CopyIn(0, make([]byte, 4))
}

func (s *gpuSoak) fault(f *lowergpu.SoakFault, check string) Fault {
	x := Fault{Check: check, Unit: new(int(f.Unit)), Block: new(int64(f.Block)), Bits: fmt.Sprintf("%08x", uint32(f.Bits))}
	switch f.Kind {
	case lowergpu.SoakMemory:
		x.Address, x.Again = new(f.At), fmt.Sprintf("%08x", uint32(f.Bits>>32))
		return x
	case lowergpu.SoakShared:
		x.Address = new(f.At)
	case lowergpu.SoakExchange:
		x.Check = "exchange between lanes"
	}
	x.Thread, x.Lane = new(int(f.Thread)), new(int(f.Thread)%s.limits.WarpWidth)
	return x
}

// finish fills in what the steps have counted.
func (s *gpuSoak) finish() {
	r := s.report
	seen := map[int]int{} // how many steps have an answer of a unit
	for _, t := range s.steps {
		c := Check{Name: t.check, Runs: t.runs}
		for unit, n := range t.byUnit {
			if n == 0 {
				continue
			}
			seen[unit]++
			if c.Answers += n; c.Least == 0 || n < c.Least {
				c.Least = n
			}
			c.Most = max(c.Most, n)
		}
		c.WrongUnits = sortedKeys(t.wrong)
		r.Checks = append(r.Checks, c)
	}
	for _, n := range seen {
		if n == len(s.steps) {
			r.Units.Held++
		}
	}
	r.Units.Total = max(r.Units.Total, r.Units.Held)
	for unit := 0; unit < mostUnits && len(r.Units.Missing) < r.Units.Total-r.Units.Held; unit++ {
		if seen[unit] < len(s.steps) {
			r.Units.Missing = append(r.Units.Missing, unit)
		}
	}
	for i := range int64(min(s.pattern, lowergpu.SoakPatterns)) {
		r.Memory.Patterns = append(r.Memory.Patterns, patternNames[i])
	}
	slices.SortStableFunc(s.all, func(a, b Fault) int { return cmp.Compare(a.Check, b.Check) })
	r.Faults = s.all
}

var patternNames = [lowergpu.SoakPatterns]string{"zeros", "ones", "0101", "1010", "one bit", "all bits but one", "hash of the address", "its complement"}

func sortedKeys(set map[int]bool) []int {
	var list []int
	for key := range set {
		list = append(list, key)
	}
	slices.Sort(list)
	return list
}

func (s *gpuSoak) close() {
	for _, b := range s.buffers {
		b.Close()
	}
	if s.queue != nil {
		s.queue.Close()
	}
	if s.module != nil {
		s.module.Close()
	}
}
