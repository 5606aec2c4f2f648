// Package probe finds which model of arithmetic the matrix instructions of a device follow: it runs them on
// tiles of many kinds of data, compares every output with every candidate, and reports what held.
package probe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/tensorcore"
	"tokitai/num"
	"tokitai/verify/cases"
)

// Device is a device with matrix instructions, whose models Run finds.
type Device interface {
	engine.Device

	// MatrixInstructions lists the instructions that RunTiles can run.
	MatrixInstructions() []tensorcore.Instruction

	// MatrixAccum returns the accumulation rule that lowerings declare for an instruction, or false if
	// the device's architecture is in no table.
	MatrixAccum(i tensorcore.Instruction) (num.MMA, bool)

	// RunTiles runs one instruction on the tiles of batches and fills their D. It returns
	// the kernel's source and the SHA-256 of the compiled program, in hexadecimal.
	RunTiles(ctx context.Context, batches ...*tensorcore.Batch) (listing, artifact string, err error)
}

// levelOutputs is how many outputs of an instruction are compared with a candidate that
// holds, by level.
var levelOutputs = [...]int{cases.Smoke: 1 << 17, cases.Quick: 10_500_000, cases.Full: 1 << 25, cases.Exhaustive: 1 << 27}

// mostMismatches is the number of mismatches at which a candidate is dropped.
const mostMismatches = 100

// candidate is a model that an instruction is compared with.
type candidate struct {
	name string
	step func(x, y []uint32, c float32) float32

	byKind []kindCount
	wrong  int64 // mismatches
	seen   int64 // outputs compared
	first  *mismatch
}

// kindCount counts the outputs of one kind of data.
type kindCount struct{ seen, wrong int64 }

// mismatch is an output of a batch that is not the candidate's.
type mismatch struct {
	kind, output int
	want         uint32
}

// candidatesOf lists the models mma(L,F) and mma(L,F,F), whose steps end in a result of F
// fractional bits, for an instruction that adds its K products in steps of L; and emulated.
func candidatesOf(i tensorcore.Instruction) []*candidate {
	var list []*candidate
	add := func(m num.MMA) {
		list = append(list, &candidate{name: m.String(), step: func(x, y []uint32, c float32) float32 { return m.Dot(i.DType, x, y, c) }})
	}
	for _, l := range []int{4, 8, 16, 32} {
		for f := 10; f <= 28 && l <= i.K; f++ {
			if add(num.MMA{L: l, F: f}); f < 23 {
				add(num.MMA{L: l, F: f, R: f})
			}
		}
	}
	if i.DType.IsFP8() && i.Family == "mma.sync" {
		list = append(list, &candidate{name: "emulated", step: func(x, y []uint32, c float32) float32 { return emulatedFP8(i.DType, x, y, c) }})
	}
	return list
}

// emulatedFP8 is what NVRTC 13 makes of mma.sync with FP8 for Hopper, whose tensor cores have no
// such instruction: two steps of mma(16,25) with the factors as f16, the lower and then the upper
// halves of words of four, from +0; then an addition of the accumulator in binary32.
func emulatedFP8(d num.DType, x, y []uint32, c float32) float32 {
	sum := float32(0)
	for half := range 2 {
		var a, b [16]uint32
		for i := range a {
			k := i/2*4 + 2*half + i%2
			a[i], b[i] = num.Narrow(num.F16, num.Widen(d, x[k])), num.Narrow(num.F16, num.Widen(d, y[k]))
		}
		sum = num.MMA{L: 16, F: 25}.Step(num.F16, a[:], b[:], sum)
	}
	return sum + c
}

// Options configures Run.
type Options struct {
	Device   string // its name
	Level    cases.Level
	Seed     uint64
	Progress func(done, total int) // it may be nil

	Tool, Version, Program string // for the report; Program is the SHA-256 of the executable
}

// Run compares a matrix instruction of a device with every candidate model, on every kind of data
// that package tensorcore has, and reports which model holds. The report's model is the one that
// lowerings declare, or else the best candidate. The verdict is accepted if every output is that of
// the model and no other candidate holds.
func Run(ctx context.Context, dev Device, i tensorcore.Instruction, o Options) (*evidence.Report, error) {
	if err := o.Level.Check(); err != nil {
		return nil, err
	}
	if o.Seed > math.MaxUint16 {
		return nil, fmt.Errorf("verify: seed is %d, want at most %d for a probe", o.Seed, math.MaxUint16)
	}
	p := &probe{instruction: i, device: dev, o: &o, candidates: candidatesOf(i), began: time.Now()}
	p.declared, p.isKnown = dev.MatrixAccum(i)
	if name := p.declared.String(); p.isKnown && !slices.ContainsFunc(p.candidates, func(c *candidate) bool { return c.name == name }) {
		m := p.declared
		p.candidates = append(p.candidates, &candidate{name: name, step: func(x, y []uint32, c float32) float32 { return m.Dot(i.DType, x, y, c) }})
	}
	p.generate()
	var err error
	if p.listing, p.artifact, err = dev.RunTiles(ctx, p.batches...); err != nil {
		p.err = err
	} else {
		p.judge(ctx)
	}
	return p.report(ctx), nil
}

// probe is an instruction being probed.
type probe struct {
	instruction tensorcore.Instruction
	device      Device
	o           *Options
	declared    num.MMA
	isKnown     bool // declared holds

	batches           []*tensorcore.Batch // one of each kind
	candidates        []*candidate
	listing, artifact string
	err               error // of the device
	began             time.Time
}

// generate makes the tiles of every kind.
func (p *probe) generate() {
	kinds := len(tensorcore.KindsOf(p.instruction.DType))
	perTile := p.instruction.M * p.instruction.N
	tiles := (levelOutputs[p.o.Level] + kinds*perTile - 1) / (kinds * perTile)
	p.batches = make([]*tensorcore.Batch, kinds)
	parallel(kinds, func(kind int) {
		p.batches[kind] = tensorcore.NewBatch(p.instruction, kind, uint32(p.o.Seed), tiles)
	})
}

// judge compares the outputs with every candidate, in rounds: each takes more outputs of all
// kinds, and ends with dropping candidates. So the counts depend on nothing but the data.
func (p *probe) judge(ctx context.Context) {
	for _, c := range p.candidates {
		c.byKind = make([]kindCount, len(p.batches))
	}
	outputs := p.batches[0].Outputs()
	for from, n := 0, 64; from < outputs && ctx.Err() == nil; from, n = from+n, 2*n {
		p.round(from, min(from+n, outputs))
		if p.o.Progress != nil {
			p.o.Progress(min(from+n, outputs), outputs)
		}
	}
	slices.SortStableFunc(p.candidates, func(a, b *candidate) int { // by the share of mismatches
		return cmp.Or(cmp.Compare(float64(a.wrong)/float64(a.seen), float64(b.wrong)/float64(b.seen)), cmp.Compare(b.seen, a.seen))
	})
}

// round compares outputs from..to of every kind with the candidates that are left.
func (p *probe) round(from, to int) {
	const block = 4096 // outputs
	var left []*candidate
	for _, c := range p.candidates {
		if c.wrong < mostMismatches {
			left = append(left, c)
		}
	}
	blocks := (to - from + block - 1) / block
	var mu sync.Mutex
	parallel(blocks*len(p.batches), func(item int) {
		kind, at := item/blocks, from+item%blocks*block
		counts := make([]kindCount, len(left))
		firsts := make([]*mismatch, len(left))
		p.compare(left, kind, at, min(at+block, to), counts, firsts)
		mu.Lock()
		defer mu.Unlock()
		for i, c := range left {
			c.byKind[kind].seen += counts[i].seen
			c.byKind[kind].wrong += counts[i].wrong
			c.seen, c.wrong = c.seen+counts[i].seen, c.wrong+counts[i].wrong
			if m := firsts[i]; m != nil && (c.first == nil || cmp.Or(cmp.Compare(m.kind, c.first.kind), cmp.Compare(m.output, c.first.output)) < 0) {
				c.first = m
			}
		}
	})
}

// compare compares a range of outputs of a kind.
func (p *probe) compare(left []*candidate, kind, from, to int, counts []kindCount, firsts []*mismatch) {
	b := p.batches[kind]
	x, y := make([]uint32, b.K), make([]uint32, b.K)
	for output := from; output < to; output++ {
		acc := math.Float32frombits(b.Row(output, x, y))
		got := binary.LittleEndian.Uint32(b.D[4*output:])
		for i, c := range left {
			want := math.Float32bits(c.step(x, y, acc))
			counts[i].seen++
			if num.Canonical(num.F32, got) != num.Canonical(num.F32, want) {
				if counts[i].wrong++; firsts[i] == nil {
					firsts[i] = &mismatch{kind, output, want}
				}
			}
		}
	}
}

// IsReport reports whether a report is one of a probe.
func IsReport(r *evidence.Report) bool { return r.Op == operation }

const operation = "mma"

// Replay computes a case of a probe's report by the report's model, on the host. It returns the
// case with the hashes that the device should have given.
func Replay(r *evidence.Report, listed evidence.Case, most int) (evidence.Case, error) {
	p, kind, tiles, err := parse(r, listed, most)
	if err != nil {
		return evidence.Case{}, err
	}
	b := tensorcore.NewBatch(p.instruction, kind, uint32(*r.Generator.Seed), tiles)
	const block = 4096 // outputs
	parallel((b.Outputs()+block-1)/block, func(n int) {
		x, y := make([]uint32, b.K), make([]uint32, b.K)
		for i := n * block; i < min((n+1)*block, b.Outputs()); i++ {
			c := math.Float32frombits(b.Row(i, x, y))
			binary.LittleEndian.PutUint32(b.D[4*i:], math.Float32bits(p.candidates[0].step(x, y, c)))
		}
	})
	return p.hashes(b, listed), nil
}

// parse returns the instruction of a report with its model as the only candidate, and the
// kind of data and the tiles of a case.
func parse(r *evidence.Report, listed evidence.Case, most int) (p *probe, kind, tiles int, err error) {
	p = &probe{}
	i := &p.instruction
	if r.Generator.Seed == nil {
		return nil, 0, 0, errors.New("the report has no seed")
	}
	at := strings.LastIndex(r.Definition.Name, ".")
	if _, err := fmt.Sscanf(r.Definition.Name[at+1:], "m%dn%dk%d", &i.M, &i.N, &i.K); err != nil || at < 0 || i.M < 1 || i.N < 1 || i.K < 1 || max(i.M, i.N, i.K) > 256 {
		return nil, 0, 0, fmt.Errorf("definition is %q, want an instruction such as mma.sync.m16n8k16", r.Definition.Name)
	}
	i.Family = r.Definition.Name[:at]
	if i.DType, err = num.ParseDType(r.DType); err != nil {
		return nil, 0, 0, err
	}
	name, count, _ := strings.Cut(listed.Name, "/tiles=")
	kind = slices.IndexFunc(tensorcore.KindsOf(i.DType), func(k tensorcore.Kind) bool { return k.Name == name })
	if tiles, err = strconv.Atoi(count); err != nil || kind < 0 || tiles < 1 || tiles > most/(i.M*i.N+i.M*i.K+i.N*i.K) {
		return nil, 0, 0, fmt.Errorf("want a kind of data and a number of tiles, %d elements in all at most", most)
	}
	for _, c := range candidatesOf(*i) {
		if c.name == r.Model {
			p.candidates = []*candidate{c}
			return p, kind, tiles, nil
		}
	}
	return nil, 0, 0, fmt.Errorf("model is %q, want one that this program knows", r.Model)
}

// parallel calls f for 0 to n-1, on all processors.
func parallel(n int, f func(i int)) {
	var next, group = make(chan int), sync.WaitGroup{}
	for range min(n, runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
}

// Identity returns the name of a listed case's instruction, and a hash of the tiles that its kind
// of data makes. It returns an error if the case is none of a probe.
func Identity(r *evidence.Report, listed evidence.Case, most int) (instruction, identity string, err error) {
	p, kind, _, err := parse(r, listed, most)
	if err != nil {
		return "", "", err
	}
	i := p.instruction
	b := tensorcore.NewBatch(i, kind, 1, 3)
	hash := sha256.Sum256(slices.Concat(b.A, b.B, b.C))
	return fmt.Sprintf("%s.m%dn%dk%d/%s", i.Family, i.M, i.N, i.K, i.DType), hex.EncodeToString(hash[:4]), nil
}
