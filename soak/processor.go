package soak

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"tokitai/verify/origin"
)

// Processor holds each core of this machine's processor to known answers for some time, and a share of the
// memory to patterns. answers computes some on the calling goroutine alone, which the core has to itself, and
// says how many were right; an error is a fault of the core, unless it is one of ctx.
func Processor(ctx context.Context, o Options, answers func(ctx context.Context, core int) (int, error)) (*Report, error) {
	began := time.Now()
	host := origin.Host("")
	cores, isPlaced := allowedCores()
	r := &Report{
		Schema: Schema, Began: began.UTC().Truncate(time.Second), Asked: o.Time.Seconds(), Seed: o.Seed,
		Device: "cpu", Name: host.CPU, Architecture: host.Arch, Units: Units{What: "cores", Total: len(cores)},
	}
	if !isPlaced {
		r.Units.What = "workers"
		r.NotAsked = append(r.NotAsked, "which core is wrong: this system does not let a program choose its core")
	}
	memory := o.Memory
	if memory == 0 {
		memory = host.MemoryBytes / 8
	}
	words := int(max(memory, 1<<16) / int64(len(cores)) / 8)
	r.Memory = Memory{Total: max(host.MemoryBytes, int64(words)*8*int64(len(cores))), Held: int64(words) * 8 * int64(len(cores)), Patterns: patternNames[:]}
	monitor := watchProcessor()
	list := make([]coreSoak, len(cores))
	var group sync.WaitGroup
	for i, core := range cores {
		c := &list[i]
		*c = coreSoak{core: core, first: int64(i) * int64(words), words: make([]uint64, words), seed: o.Seed}
		group.Go(func() {
			done := make(chan struct{})
			go func() { // which ends with its thread: that one stays on its core
				defer close(done)
				runtime.LockOSThread()
				if isPlaced {
					if c.err = pin(core); c.err != nil {
						return
					}
				}
				c.run(ctx, began, &o, answers)
			}()
			<-done
		})
	}
	group.Wait()
	monitor.end(&r.Health)
	r.Seconds = time.Since(began).Seconds()
	known := Check{Name: "known answers"}
	for i := range list {
		c := &list[i]
		if c.err != nil && ctx.Err() == nil {
			return nil, c.err
		}
		if c.answers > 0 && c.passes >= int64(len(patternNames)) {
			r.Units.Held++
		} else {
			r.Units.Missing = append(r.Units.Missing, c.core)
		}
		known.Runs += c.rounds
		if known.Answers += c.answers; known.Least == 0 || c.answers < known.Least {
			known.Least = c.answers
		}
		known.Most = max(known.Most, c.answers)
		if c.isWrong {
			known.WrongUnits = append(known.WrongUnits, c.core)
		}
		r.Memory.Passes += c.passes
		r.Memory.Moved += 2 * 8 * int64(words) * c.passes
		r.FaultsFound += c.found
		r.Faults = append(r.Faults, c.faults...)
	}
	r.Memory.Passes /= int64(len(list))
	r.Checks = []Check{known}
	ended := ""
	if ctx.Err() != nil {
		ended = ctx.Err().Error()
	}
	r.decide(ended)
	return r, ctx.Err()
}

// coreSoak is what one core does.
type coreSoak struct {
	core  int
	first int64 // word, among those of all cores
	words []uint64
	seed  uint32

	rounds, answers, passes int64
	isWrong                 bool
	found                   int64
	faults                  []Fault
	err                     error
}

func (c *coreSoak) run(ctx context.Context, began time.Time, o *Options, answers func(context.Context, int) (int, error)) {
	for ctx.Err() == nil {
		n, err := answers(ctx, c.core)
		if ctx.Err() != nil {
			return
		}
		c.rounds++
		if c.answers += int64(n); err != nil {
			c.isWrong = true
			c.tell(Fault{Check: "known answers", Unit: new(c.core), Text: err.Error()})
		}
		c.pass()
		isOver := time.Since(began) >= o.Time
		for isOver && c.passes < int64(len(patternNames)) && ctx.Err() == nil { // each pattern once, at least
			c.pass()
		}
		if o.Progress != nil {
			o.Progress(min(time.Since(began).Seconds()/o.Time.Seconds(), 1), "known answers and memory")
		}
		if isOver {
			return
		}
	}
}

func (c *coreSoak) tell(f Fault) {
	c.found++
	if len(c.faults) < mostFaults {
		c.faults = append(c.faults, f)
	}
}

// pass writes the core's memory with a pattern and reads it back.
func (c *coreSoak) pass() {
	kind, seed := uint32(c.passes%int64(len(patternNames))), c.seed+uint32(c.passes/int64(len(patternNames)))
	for i := range c.words {
		c.words[i] = pattern(kind, seed, uint64(c.first)+uint64(i))
	}
	if planted != nil {
		planted(c)
	}
	for i, got := range c.words {
		if want := pattern(kind, seed, uint64(c.first)+uint64(i)); got != want {
			c.tell(Fault{Check: "memory", Unit: new(c.core), Address: new(8 * (uint64(c.first) + uint64(i))), Bits: fmt.Sprintf("%016x", got^want)})
		}
	}
	c.passes++
}

// planted changes memory between the two, in tests.
var planted func(*coreSoak)

// pattern returns the word of a pattern, of those that patternNames lists.
func pattern(kind, seed uint32, i uint64) uint64 {
	var flip uint64
	if kind%2 == 1 {
		flip = ^uint64(0)
	}
	switch kind / 2 {
	case 0:
		return flip
	case 1:
		return 0x5555555555555555 ^ flip
	case 2:
		return 1<<((i+uint64(seed))%64) ^ flip
	}
	x := (i ^ uint64(seed)<<40) * 0x9e3779b97f4a7c15
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return x ^ x>>32 ^ flip
}

// workers numbers as many as there are processors.
func workers() []int {
	list := make([]int, runtime.NumCPU())
	for i := range list {
		list[i] = i
	}
	return list
}
