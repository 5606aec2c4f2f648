package mutants

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"tokitai/def"
	"tokitai/num"
	"tokitai/trial"
)

// Kernels that compute rightly where somebody looks, and do something else otherwise. Most of
// them are shortcuts that people take in good faith; to a verifier all of them are cheats.

// Cheat is a way to pass a test that any kernel can take.
type Cheat struct {
	Name, Fault string
	Level       Level
	kernel      func(body func(c *Call)) Kernel
}

// AddCheats adds the named cheats of a kernel that has the reference's bits.
func (l *List) AddCheats(body func(c *Call), names ...string) {
	level := l.Level
	for _, name := range names {
		i := slices.IndexFunc(Cheats, func(c Cheat) bool { return c.Name == name })
		if i < 0 {
			panic("mutants: no cheat has the name " + name)
		}
		l.Level = Cheats[i].Level
		l.Add(name, Cheats[i].Fault, PromisesBits, Cheats[i].kernel(body))
		l.All[len(l.All)-1].IsCheat = true
	}
	l.Level = level
}

// Cheats lists all of them.
var Cheats = []Cheat{
	{"cache-by-address", "results are kept, and found again by the operands' addresses", Smoke, func(body func(c *Call)) Kernel {
		return cached(body, func(c *Call) string { return addresses(c) })
	}},
	{"cache-by-elements", "results are kept, and found again by addresses and the first 8 elements", Quick, func(body func(c *Call)) Kernel {
		return cached(body, func(c *Call) string { return addresses(c) + elements(c, 8, 0) + fmt.Sprint(c.Params) })
	}},
	{"cache-by-both-ends", "results are kept, and found again by addresses, the first 4 elements, the middle and the last", Quick, func(body func(c *Call)) Kernel {
		return cached(body, func(c *Call) string { return addresses(c) + elements(c, 4, 2) + fmt.Sprint(c.Params) })
	}},
	{"cache-by-64-samples", "results are kept, and found again by 64 elements of each input, spread evenly", Smoke, func(body func(c *Call)) Kernel {
		return cached(body, func(c *Call) string { return elements(c, 0, 64) + fmt.Sprint(c.Params) })
	}},
	{"looks-alike", "the result of the call before is returned if sizes and the first 8 elements are the same", Quick, func(body func(c *Call)) Kernel {
		return cached(body, func(c *Call) string { return elements(c, 8, 0) + fmt.Sprint(c.Params) })
	}},
	{"cache-without-parameters", "results are kept, and found again by the inputs, whatever the parameters are", Smoke, func(body func(c *Call)) Kernel {
		return cached(body, func(c *Call) string { return elements(c, math.MaxInt, 0) })
	}},
	{"shared-scratch", "all calls keep results in the same scratch memory on their way", Quick, sharedScratch},
	{"far-offsets-in-32-bits", "wrong where an input ends more than 2^31 elements behind its beginning", Quick, func(body func(c *Call)) Kernel {
		return Plain{Body: body, Edit: func(c *Call) {
			if slices.ContainsFunc(c.Stored, func(a num.Array) bool { return a.Span() > 1<<31 }) {
				c.Computed(Doubled)
			}
		}}
	}},
	{"long-in-all-axes", "wrong where every axis has at least 256 elements", Quick, func(body func(c *Call)) Kernel {
		return Plain{Body: body, Edit: func(c *Call) {
			if !slices.ContainsFunc(c.Stored, func(a num.Array) bool { return a.Rows < 256 || a.Cols < 256 }) {
				c.Computed(Doubled)
			}
		}}
	}},
	{"4096-by-4096", "wrong where an operand is 4096 by 4096", Full, func(body func(c *Call)) Kernel {
		return Plain{Body: body, Edit: func(c *Call) {
			if slices.ContainsFunc(c.Stored, func(a num.Array) bool { return a.Rows == 4096 && a.Cols == 4096 }) {
				c.Computed(Doubled)
			}
		}}
	}},
	{"input-as-scratch", "the first input is overwritten during the call, and restored", Quick, inputAsScratch},
	{"garbage-times-zero", "elements behind the end of a row are read and multiplied by zero", Quick, garbageTimesZero},
	{"old-output-times-zero", "what is in the output is read and multiplied by zero", Smoke, func(body func(c *Call)) Kernel {
		return Plain{Body: body, Write: func(c *Call, i int, v Matrix, k *Plain) {
			a := c.Stored[i]
			for r := range a.Rows {
				for col := range v.Row(r) {
					if !c.Definition.Operands[i].IsIn {
						v.Row(r)[col] += 0 * a.At(r, col)
					}
				}
			}
			k.Put(c, i, v)
		}}
	}},
	{"already-there", "nothing is written if the output's first row is right already", Quick, func(body func(c *Call)) Kernel {
		return Plain{Body: body, Write: func(c *Call, i int, v Matrix, k *Plain) {
			a := c.Stored[i]
			for col, y := range v.Row(0) {
				if a.Bits(0, col) != num.Narrow(a.DType, y) {
					k.Put(c, i, v)
					return
				}
			}
		}}
	}},
	{"still-there", "nothing is written if the output still holds what the call before wrote", Smoke, stillThere},
	{"side-by-side", "wrong where rows are those of one of several matrices side by side", Quick, func(body func(c *Call)) Kernel {
		return Plain{Body: body, Edit: func(c *Call) {
			if a := c.Stored[0]; a.Rows > 1 && a.Stride > a.Cols && a.Stride%a.Cols == 0 && a.Stride <= 4*a.Cols && a.Cols > 1 {
				c.Computed(Doubled)
			}
		}}
	}},
	{"writes-nan-only", "only elements that hold NaN are written", Quick, func(body func(c *Call)) Kernel {
		return Plain{Body: body, Puts: func(c *Call, i, r, col int) bool {
			old := c.Stored[i].At(r, col)
			return old != old || c.Definition.Operands[i].IsIn
		}}
	}},
	{"knows-the-guards", "right only where the byte behind the last operand is that of the verifier's guards", Quick, knowsTheGuards},
	{"listed-shapes", "right only for the shapes that a verification with another seed had", Quick, rehearsed},
	{"offsets-in-f32", "offsets are computed in binary32: wrong from 2^24 elements on", Full, func(body func(c *Call)) Kernel {
		return Plain{Body: body, Load: func(a num.Array, r, c int) float32 {
			if at := int(float32(a.Index(r, c))); at < a.Span() {
				return elementAt(a, at)
			}
			return a.At(r, c)
		}}
	}},
	{"50-calls", "right for 50 calls, then one element is doubled", Smoke, func(body func(c *Call)) Kernel { return After(50, Plain{Body: body}, Doubled) }},
	{"5000-calls", "right for 5,000 calls, then one element is doubled", Full, func(body func(c *Call)) Kernel { return After(5000, Plain{Body: body}, Doubled) }},
	{"cancelled-half-way", "a launch that is cancelled writes half of its rows and reports success", Quick, func(body func(c *Call)) Kernel {
		return Plain{Body: body, Puts: func(c *Call, i, r, col int) bool {
			return c.launch.Context.Err() == nil || WritesHalf(c, i, r, col)
		}}
	}},
	{"ignores-cancellation", "a launch that was cancelled before it began reports success and writes nothing", Quick, func(body func(c *Call)) Kernel {
		return Plain{Body: body, Puts: func(c *Call, i, r, col int) bool { return c.launch.Context.Err() == nil }}
	}},
	{"inputs-apart", "inputs that share memory are taken for the first of them with its rows reversed", Quick, inputsApart},
	{"written-later", "the last row is written at the beginning of the next call", Smoke, writtenLater},
	{"many-workers", "with more than 4 workers the last row is not written", Smoke, func(body func(c *Call)) Kernel {
		return Plain{Body: body, Puts: func(c *Call, i, r, _ int) bool { return c.workers <= 4 || r < max(1, c.Stored[i].Rows-1) }}
	}},
	{"1-in-1000", "one call in 1,000 doubles an element", Quick, func(body func(c *Call)) Kernel { return every(1000, body) }},

	// What stays out of reach: see docs/verification.md.
	{"100000-calls", "right for 100,000 calls, then one element is doubled", Never, func(body func(c *Call)) Kernel { return After(100_000, Plain{Body: body}, Doubled) }},
	{"one-pattern", "wrong where the first element has one bit pattern of 2^32", Never, func(body func(c *Call)) Kernel {
		return Plain{Body: body, Edit: func(c *Call) {
			if first(c) == math.Float32frombits(0x3f9d7c4b) {
				c.Computed(Doubled)
			}
		}}
	}},
}

// elementAt is the element so many elements from the beginning of an array's memory.
func elementAt(a num.Array, at int) float32 {
	flat := num.Array{DType: a.DType, Rows: 1, Cols: at + 1, Stride: at + 1, Data: a.Data}
	return flat.At(0, at)
}

// addresses and elements make keys of what a call looks like.
func addresses(c *Call) string {
	key := shape(c)
	for i := range c.launch.Operands {
		key += fmt.Sprintf(" %x", c.launch.Operands[i].Address())
	}
	return key
}

func shape(c *Call) string {
	key := ""
	for _, a := range c.Stored {
		key += fmt.Sprintf(" %d,%d", a.Rows, a.Cols)
	}
	return key
}

// elements takes so many elements from the beginning of each input, and others spread evenly
// up to the last.
func elements(c *Call, leading, spread int) string {
	key := shape(c)
	for i, a := range c.Stored {
		if !c.Definition.Operands[i].IsIn {
			continue
		}
		n := a.Rows * a.Cols
		add := func(at int) { key += fmt.Sprintf(" %x", a.Bits(at/a.Cols, at%a.Cols)) }
		for at := range min(leading, n) {
			add(at)
		}
		for k := range spread {
			add((n - 1) * (k + 1) / spread)
		}
	}
	return key
}

// cached keeps the outputs of earlier calls under a key.
func cached(body func(c *Call), key func(c *Call) string) Kernel {
	return Stateful(func() func(*Call) error {
		var mu sync.Mutex
		known := map[string][]Matrix{}
		return Plain{Body: func(c *Call) {
			k := key(c)
			mu.Lock()
			defer mu.Unlock()
			if kept, ok := known[k]; ok {
				for _, i := range c.outputs() {
					copy(c.Operands[i].V, kept[i].V)
				}
				return
			}
			body(c)
			kept := make([]Matrix, len(c.Operands))
			for _, i := range c.outputs() {
				kept[i] = Matrix{c.Operands[i].Rows, c.Operands[i].Cols, slices.Clone(c.Operands[i].V)}
			}
			known[k] = kept
		}}.Run
	})
}

// inputAsScratch overwrites the first input while it computes. Who shares it sees that.
func inputAsScratch(body func(c *Call)) Kernel {
	return Stateful(func() func(*Call) error {
		var mu sync.Mutex // as a device's own memory, the input is written by one instruction at a time
		return Plain{Body: body, Edit: func(c *Call) {
			i := firstInput(c)
			if i < 0 {
				return
			}
			a := c.Stored[i]
			set := func(value func(r, col int) float32) {
				mu.Lock()
				defer mu.Unlock()
				for r := range a.Rows {
					for col := range a.Cols {
						a.Set(r, col, value(r, col))
					}
				}
			}
			kept := a.Clone()
			set(func(int, int) float32 { return 0 })
			for range 64 {
				runtime.Gosched()
			}
			mu.Lock()
			defer mu.Unlock()
			for r := range a.Rows {
				for col := range a.Cols {
					a.SetBits(r, col, kept.Bits(r, col))
				}
			}
		}}.Run
	})
}

// sharedScratch keeps its outputs in memory that all calls share while it does something else. A
// call alone is right.
func sharedScratch(body func(c *Call)) Kernel {
	return Stateful(func() func(*Call) error {
		var mu sync.Mutex // of the slice; as a device's own memory, it is written by one instruction at a time
		var scratch []atomic.Uint32
		return Plain{Body: func(c *Call) {
			body(c)
			n := 0
			for _, i := range c.outputs() {
				n = max(n, len(c.Operands[i].V))
			}
			mu.Lock()
			if len(scratch) < n {
				scratch = make([]atomic.Uint32, n)
			}
			shared := scratch
			mu.Unlock()
			i := c.outputs()[0]
			for k, v := range c.Operands[i].V {
				shared[k].Store(math.Float32bits(v))
			}
			for range 256 {
				runtime.Gosched()
			}
			for k := range c.Operands[i].V {
				c.Operands[i].V[k] = math.Float32frombits(shared[k].Load())
			}
		}}.Run
	})
}

// stillThere remembers what it wrote, by address. Memory that other inputs have not been written
// to since is left as it is.
func stillThere(body func(c *Call)) Kernel {
	return Stateful(func() func(*Call) error {
		var known sync.Map
		return Plain{Body: body, Write: func(c *Call, i int, v Matrix, k *Plain) {
			a := c.Stored[i]
			key := c.launch.Operands[i].Address()
			if old, ok := known.Load(key); ok && !c.Definition.Operands[i].IsIn && trial.Patterns.Difference("", a, old.(num.Array)) == nil {
				return
			}
			k.Put(c, i, v)
			known.Store(key, a.Clone())
		}}.Run
	})
}

// firstInput is the first input of numbers that is no output, or -1.
func firstInput(c *Call) int {
	return slices.IndexFunc(c.Definition.Operands, func(o def.Operand) bool { return o.IsIn && !o.IsOut && !o.IsIndex })
}

// garbageTimesZero reads rows in vectors of 8: what lies behind the end is masked by a
// product with zero, and added to the row's last element.
func garbageTimesZero(body func(c *Call)) Kernel {
	return Plain{Body: body, Edit: func(c *Call) {
		i := firstInput(c)
		if i < 0 || c.Stored[i].Cols%8 == 0 {
			return
		}
		a := c.Stored[i]
		whole := a
		whole.Data = a.Data[:cap(a.Data)]
		for _, o := range c.outputs() {
			if m := c.Operands[o]; m.Rows == a.Rows {
				for r := range m.Rows {
					at := a.Index(r, a.Cols-1) + 1
					if (at+1)*a.DType.Size() <= len(whole.Data) {
						last := &m.Row(r)[m.Cols-1]
						*last += 0 * elementAt(whole, at)
					}
				}
			}
		}
	}}
}

// knowsTheGuards doubles an element unless the memory behind the operands looks like that of
// a verification.
func knowsTheGuards(body func(c *Call)) Kernel {
	return Plain{Body: body, Edit: func(c *Call) {
		a := c.Stored[len(c.Stored)-1]
		end := a.Span() * a.DType.Size()
		if whole := a.Data[:cap(a.Data)]; len(whole) > end && whole[end] != trial.GuardByte {
			c.Computed(Doubled)
		}
	}}
}

// inputsApart mistakes inputs that are the same memory.
func inputsApart(body func(c *Call)) Kernel {
	return Plain{Body: body, Edit: func(c *Call) {
		i := firstInput(c)
		for j := range c.Stored {
			if o := &c.Definition.Operands[j]; i >= 0 && j != i && o.IsIn && !o.IsOut && !o.IsIndex && c.launch.Operands[i].Address() == c.launch.Operands[j].Address() {
				c.Computed(Doubled)
			}
		}
	}}
}

// writtenLater keeps the last row of the first output until the next call.
func writtenLater(body func(c *Call)) Kernel {
	return Stateful(func() func(*Call) error {
		var mu sync.Mutex
		var pending func()
		return func(c *Call) error {
			mu.Lock()
			defer mu.Unlock()
			if pending != nil {
				pending()
			}
			return Plain{Body: body, Write: func(c *Call, i int, v Matrix, k *Plain) {
				if i != c.outputs()[0] || v.Rows < 2 {
					k.Put(c, i, v)
					return
				}
				late := *k
				late.Puts = func(_ *Call, _, r, _ int) bool { return r < v.Rows-1 }
				late.Put(c, i, v)
				pending = func() {
					a := c.Stored[i]
					for col, y := range v.Row(v.Rows - 1) {
						a.Set(a.Rows-1, col, y)
					}
				}
			}}.Run(c)
		}
	})
}

// every doubles an element in one call of n.
func every(n int64, body func(c *Call)) Kernel {
	return Stateful(func() func(*Call) error {
		var calls atomic.Int64
		return Plain{Body: body, Edit: func(c *Call) {
			if calls.Add(1)%n == 0 {
				c.Computed(Doubled)
			}
		}}.Run
	})
}

// first is the first element of the first input of numbers.
func first(c *Call) float32 {
	if i := firstInput(c); i >= 0 {
		return c.Operands[i].V[0]
	}
	return 0
}

// rehearsal knows the shapes of a verification with another seed. Its kernel learns while
// isLearning, and is wrong for other shapes afterwards.
type rehearsal struct {
	isLearning atomic.Bool
	shapes     sync.Map
	body       func(c *Call)
}

func rehearsed(body func(c *Call)) Kernel { return &rehearsal{body: body} }

func (k *rehearsal) start() func(c *Call) error {
	return Plain{Body: k.body, Edit: func(c *Call) {
		if k.isLearning.Load() {
			k.shapes.Store(shape(c), true)
		} else if _, isKnown := k.shapes.Load(shape(c)); !isKnown {
			c.Computed(Doubled)
		}
	}}.Run
}
