package gpu_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tokitai/lower"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/op/crossentropy"
	"tokitai/op/embedding"
	"tokitai/trial"
)

// TestCheckingPass finds the first bad index, in any order of blocks and threads, and the
// kernels after it write nothing then.
func TestCheckingPass(t *testing.T) {
	t.Parallel()
	const queries, table, cols, gap = 1500, 5, 3, 1
	d := embedding.ForwardDefinition
	k, err := gpu.Compile(d, []num.DType{num.I32, num.F16, num.F16}, gpu.Element)
	if err != nil {
		t.Fatal(err)
	}
	limits := gpu.Limits{WarpWidth: 32, Multiprocessors: 1} // less threads than indices
	programs := map[simtest.Build]*simtest.Program{}
	for _, b := range []simtest.Build{simtest.Plain, simtest.Address, simtest.Race} {
		programs[b] = simtest.Compile(t, k.Source.Text, b)
	}
	for i, x := range []struct {
		bad  map[int]int32
		want uint64
	}{
		{nil, gpu.Passed},
		{map[int]int32{0: table}, table},
		{map[int]int32{1499: -1}, 1499<<32 | 0xffffffff},
		{map[int]int32{700: -2147483648, 701: 2147483647, 1400: 9}, 700<<32 | 0x80000000},
	} {
		index := make([]byte, 4*queries*(1+gap))
		for q := range queries {
			v, ok := x.bad[q]
			if !ok {
				v = int32(q % table)
			}
			binary.LittleEndian.PutUint32(index[4*q*(1+gap):], uint32(v))
			binary.LittleEndian.PutUint32(index[4*q*(1+gap)+4:], 1<<20) // in the gap
		}
		words := bytes.Repeat([]byte{0xff}, 16)
		out := bytes.Repeat([]byte{trial.GuardByte}, 2*queries*cols)
		buffers := [][]byte{index, make([]byte, 2*table*cols), out, words}
		var plan gpu.Plan
		err := k.PlanChecked(&plan, newCall(d, []lower.Operand{
			{Array: num.Array{DType: num.I32, Rows: queries, Cols: 1, Stride: 1 + gap}, Pointer: simtest.Pointer(0)},
			{Array: num.Array{DType: num.F16, Rows: table, Cols: cols, Stride: cols}, Pointer: simtest.Pointer(1)},
			{Array: num.Array{DType: num.F16, Rows: queries, Cols: cols, Stride: cols}, Pointer: simtest.Pointer(2)},
		}, nil), limits)
		if err != nil || len(plan.Checks) != 1 || plan.Checks[0] != (gpu.Check{Operand: 0, Bound: table}) {
			t.Fatalf("got checks %+v, %v", plan.Checks, err)
		}
		plan.Place(0, simtest.Pointer(3)+8)
		for build, program := range programs {
			for warp, seed := range map[int]uint64{32: 0, 64: uint64(i + 3)} {
				run := simtest.Run{Warp: warp, Seed: seed, Launches: simtest.LaunchesOf(k, &plan)}
				for _, b := range buffers {
					run.Buffers = append(run.Buffers, slices.Clone(b))
				}
				if err := program.Run(run); err != nil {
					t.Fatalf("%s: %v", build, err)
				}
				if got := binary.LittleEndian.Uint64(run.Buffers[3][8:]); got != x.want || binary.LittleEndian.Uint64(run.Buffers[3]) != gpu.Passed {
					t.Errorf("%v, %s, warps of %d: got %#x, want %#x", x.bad, build, warp, got, x.want)
				}
				want := bytes.Repeat([]byte{trial.GuardByte}, len(out))
				if x.bad == nil {
					clear(want)
				}
				if !bytes.Equal(run.Buffers[2], want) {
					t.Errorf("%v, %s, warps of %d: the output is wrong", x.bad, build, warp)
				}
			}
		}
	}
}

// TestCheckedPlan has the checking pass before everything else, and says what it checks.
func TestCheckedPlan(t *testing.T) {
	d := crossentropy.Definition
	k, dtypes := compileVector(t, d)
	operands := operandsOf(d, dtypes, 3, 1000)
	label := d.Operand("label")
	var plan gpu.Plan
	if err := k.PlanChecked(&plan, newCall(d, operands, []float64{-100, 0.1}), limits); err != nil {
		t.Fatal(err)
	}
	if want := []gpu.Check{{Operand: label, Bound: 1000, Except: -100}}; !slices.Equal(plan.Checks, want) {
		t.Errorf("got %+v, want %+v", plan.Checks, want)
	}
	plan.Place(0, 1<<50)
	if len(plan.Launches) != 2 || !strings.HasSuffix(k.Source.Entries[plan.Launches[0].Entry], "_check") {
		t.Fatalf("got %+v, want the check and the rows", plan.Launches)
	}
	for i, l := range plan.Launches {
		if l.IsEarly != (i == 1) {
			t.Errorf("launch %d starts early: %v; the rows wait for the check themselves", i, l.IsEarly)
		}
		if !bytes.Contains(l.Params, binary.LittleEndian.AppendUint64(nil, 1<<50)) {
			t.Errorf("launch %d is not told where the word is", i)
		}
	}
	if err := k.Plan(&plan, newCall(d, operands, []float64{-100, 0.1}), limits); err != nil || len(plan.Launches) != 1 || len(plan.Checks) != 0 || plan.Launches[0].IsEarly {
		t.Errorf("without checks: got %d launches, %d checks, %v", len(plan.Launches), len(plan.Checks), err)
	}
	operands[label].Rows = 1<<32 + 1
	if err := k.PlanChecked(&plan, newCall(d, operands, []float64{-100, 0.1}), limits); err == nil || !strings.Contains(err.Error(), fmt.Sprint(1<<32+1, " indices")) {
		t.Errorf("too many indices: got %v", err)
	}
}

// TestCheckOfColumns finds the first bad index of rows that have several, and none between rows.
func TestCheckOfColumns(t *testing.T) {
	t.Parallel()
	const rows, cols, stride, table = 700, 3, 5, 9
	d := embedding.ForwardDefinition
	k, err := gpu.Compile(d, []num.DType{num.I32, num.F16, num.F16}, gpu.Element)
	if err != nil {
		t.Fatal(err)
	}
	program := simtest.Compile(t, k.Source.Text, simtest.Plain)
	for _, x := range []struct {
		bad  []int
		want uint64
	}{
		{nil, gpu.Passed},
		{[]int{0}, table},
		{[]int{rows*cols - 1}, (rows*cols-1)<<32 | table},
		{[]int{1001, 2000}, 1001<<32 | table},
	} {
		index := bytes.Repeat([]byte{0xff}, 4*rows*stride)
		for i := range rows * cols {
			v := i % table
			if slices.Contains(x.bad, i) {
				v = table
			}
			binary.LittleEndian.PutUint32(index[4*(i/cols*stride+i%cols):], uint32(v))
		}
		var plan gpu.Plan
		err := k.PlanChecked(&plan, newCall(d, []lower.Operand{
			{Array: num.Array{DType: num.I32, Rows: rows, Cols: cols, Stride: stride}, Pointer: simtest.Pointer(0)},
			{Array: num.Array{DType: num.F16, Rows: table, Cols: 1, Stride: 1}, Pointer: simtest.Pointer(1)},
			{Array: num.Array{DType: num.F16, Rows: rows, Cols: 1, Stride: 1}, Pointer: simtest.Pointer(2)},
		}, nil), gpu.Limits{WarpWidth: 32, Multiprocessors: 1})
		if err != nil {
			t.Fatal(err)
		}
		plan.Place(0, simtest.Pointer(3))
		run := simtest.Run{Warp: 32, Launches: simtest.LaunchesOf(k, &plan), Buffers: [][]byte{index, make([]byte, 2*table), make([]byte, 2*rows), bytes.Repeat([]byte{0xff}, 8)}}
		if err := program.Run(run); err != nil {
			t.Fatal(err)
		}
		if got := binary.LittleEndian.Uint64(run.Buffers[3]); got != x.want {
			t.Errorf("bad %v: got %#x, want %#x", x.bad, got, x.want)
		}
	}
}
