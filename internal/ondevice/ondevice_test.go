// Package ondevice tests the whole project on one device: operations, user definitions,
// memory, faults and errors, as a program meets them. The device is the one that
// TOKITAI_DEVICE names (cuda:0, sim, sim:64, amdemu:gfx1100). By default it is the first NVIDIA GPU if
// TOKITAI_REQUIRE lists cuda, else the simulator, with small sizes. The package's test
// binary needs neither Go nor the sources: docs/gpu.md says how to run it on a machine
// with a GPU.
package ondevice

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"tokitai/backend/gputest"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/kernelprocess"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/tensor"
	"tokitai/trial"
)

// roleEnv makes the test binary a child process of one of its tests, in one of the roles.
const roleEnv = "TOKITAI_TEST_ROLE"

var roles = map[string]func(args []string, in io.Reader, out io.Writer) error{}

// TestMain keeps compiled kernels in a folder of their own, unless the user names one.
func TestMain(m *testing.M) {
	kernelprocess.Main()
	if role := os.Getenv(roleEnv); role != "" {
		if err := roles[role](os.Args[1:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(gputest.KeepKernels(m.Run))
}

// child returns a command that runs this binary in a role. Settings are NAME=value.
func child(t *testing.T, role string, args []string, settings ...string) *exec.Cmd {
	t.Helper()
	if roles[role] == nil {
		t.Fatalf("no role %s", role)
	}
	program, err := os.Executable()
	must(t, err)
	c := exec.CommandContext(t.Context(), program, args...)
	c.Env = append(append(os.Environ(), roleEnv+"="+role), settings...)
	return c
}

// isSimulated reports whether tests run in the simulator or on an emulated GPU, and should be
// small.
func isSimulated() bool {
	return strings.HasPrefix(gputest.Chosen(), "sim") || strings.HasPrefix(gputest.Chosen(), "amdemu")
}

// choose returns small where a GPU is simulated and large on a GPU.
func choose[T any](small, large T) T {
	if isSimulated() {
		return small
	}
	return large
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func got[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func newQueue(t testing.TB, dev device.Device, opts ...engine.Option) *engine.Queue {
	t.Helper()
	q, err := engine.NewQueue(dev, opts...)
	must(t, err)
	t.Cleanup(func() { q.Close() })
	return q
}

// eachOf runs work for every item, on all processors, since most of the time goes into
// compilers. An error names the item and does not stop the others.
func eachOf[T fmt.Stringer](t *testing.T, items []T, work func(item T) error) {
	t.Helper()
	next := make(chan T)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for item := range next {
				if err := work(item); err != nil {
					t.Errorf("%v: %v", item, err)
				}
			}
		})
	}
	for _, item := range items {
		next <- item
	}
	close(next)
	workers.Wait()
}

// shipped is a shipped definition in one choice of formats.
type shipped struct {
	operation *op.Operation
	d         *def.Definition
	formats   []num.DType
}

func (s shipped) String() string { return fmt.Sprintf("%s %v", s.d.Name, s.formats) }

// allShipped lists every definition once, in every choice of formats.
func allShipped() []shipped {
	var list []shipped
	isListed := map[*def.Definition]bool{}
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if isListed[d] {
				continue
			}
			isListed[d] = true
			for _, f := range d.Formats() {
				list = append(list, shipped{o, d, f})
			}
		}
	}
	return list
}

// inF16 returns every definition once, in f16 where it can be.
func inF16() []shipped {
	var list []shipped
	for _, s := range allShipped() {
		if n := len(list); n == 0 || list[n-1].d != s.d {
			list = append(list, s)
		}
	}
	return list
}

// someShipped returns one of each kind of kernel.
func someShipped() []shipped {
	return slices.DeleteFunc(inF16(), func(s shipped) bool {
		return !slices.Contains([]string{"gemm.forward", "softmax.forward", "embedding.backward", "norm.square_sum"}, s.d.Name)
	})
}

// call is the arguments of one call, in host memory.
type call struct {
	d        *def.Definition
	operands []num.Array // in the order of the definition
	params   []float64   // likewise
}

// newCall fills operands with what the operation's own data look like.
func (s shipped) newCall(sizes map[string]int) (*call, error) {
	data := op.Data{}
	hasData := false
	for _, x := range s.operation.Data {
		if x.Definition == s.d && !hasData {
			data, hasData = x, true
		}
	}
	for _, p := range s.operation.Patterns {
		if p.Definition == s.d && len(p.Params) == len(s.d.Params) && !hasData {
			data, hasData = op.Data{Params: p.Params, Values: p.Values}, true
		}
	}
	if len(data.Params) != len(s.d.Params) {
		return nil, fmt.Errorf("the operation has no data for %s", s.d.Name)
	}
	c := &call{d: s.d, params: data.Params}
	sizes = maps.Clone(sizes)
	for _, letter := range s.d.Sizes() {
		sizes[letter] = s.d.FitSize(letter, sizes[letter])
	}
	if s.d.Stream() != nil && s.d.AxisOf(def.Slot) != "" { // a table of pages: each has many keys
		sizes[s.d.AxisOf(def.Slot)] = 3
	}
	for i := range s.d.Operands {
		o := &s.d.Operands[i]
		a := o.NewArray(s.formats[i], sizes)
		g := gen.New(s.d.Name + "/" + o.Name)
		element := data.Values[o.Name]
		if element == nil {
			element = op.Normal
		}
		if o.IsOffsets {
			trial.FillOffsets(a, sizes[o.Bound], func(int) int { return g.Below(sizes[o.Bound] + 1) })
		}
		isPaged := o.IsLengths || o.Lengths != ""
		if isPaged {
			size := func(letter string) int { return sizes[letter] }
			trial.FillIndex(s.d, i, append(c.operands, a), size, func(_, _, limit int) int { return g.Below(limit) })
		}
		for r := range a.Rows {
			for k := range a.Cols {
				switch {
				case !o.IsIn || o.IsOffsets || isPaged:
				case o.IsIndex:
					a.SetBits(r, k, uint32(g.Below(sizes[o.Bound])))
				default:
					a.Set(r, k, element(g, a.RowIn(r), k))
				}
			}
		}
		c.operands = append(c.operands, a)
	}
	return c, nil
}

// tensors puts operands on a device. It reuses the tensors of before for operands that
// are only read.
func (c *call) tensors(dev device.Device, before []*tensor.Tensor) ([]*tensor.Tensor, error) {
	var list []*tensor.Tensor
	for i := range c.operands {
		o, a := &c.d.Operands[i], c.operands[i]
		if before != nil && !o.IsOut {
			list = append(list, before[i])
			continue
		}
		x, err := tensor.FromBytes(dev, a.DType, a.Data, o.Shape(&a)...)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

// outputs returns the bytes of the results, one after the other.
func (c *call) outputs(tensors []*tensor.Tensor) ([]byte, error) {
	var list []byte
	for i, x := range tensors {
		if !c.d.Operands[i].IsOut {
			continue
		}
		raw, err := x.Bytes()
		if err != nil {
			return nil, err
		}
		if !c.d.Copies() { // which copies every NaN as it is
			canonical(x.DType(), raw)
		}
		list = append(list, raw...)
	}
	return list, nil
}

// canonical replaces every NaN by the canonical one.
func canonical(d num.DType, raw []byte) {
	if !d.IsFloat() {
		return
	}
	a := num.Array{DType: d, Rows: 1, Cols: len(raw) / d.Size(), Stride: len(raw) / d.Size(), Data: raw}
	for c := range a.Cols {
		if bits := a.Bits(0, c); num.IsNaN(d, bits) {
			a.SetBits(0, c, num.Canonical(d, bits))
		}
	}
}

// hashOn computes on a queue and hashes the results.
func (c *call) hashOn(q *engine.Queue) (hash [sha256.Size]byte, err error) {
	tensors, err := c.tensors(q.Device(), nil)
	if err != nil {
		return hash, err
	}
	defer closeAll(tensors)
	if err := engine.Call(q, c.d, tensors, c.params); err != nil {
		return hash, err
	}
	out, err := c.outputs(tensors)
	return sha256.Sum256(out), err
}

func closeAll(tensors []*tensor.Tensor) {
	for _, x := range tensors {
		x.Close()
	}
}
