package gpu_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"tokitai/lower/gpu/internal/simtest"
)

// boxKernels copy a box of a tensor to shared memory, from there to another array as it lies,
// and to a tensor like the first.
const boxKernels = withTensorCores + `
struct Params { TensorMap from, to; u32* seen; i32 bytes, at[5], pad[8]; };
template <int RANK>
DEVICE void copy_box(const Params& p) {
    SHARED_DYN(char, memory);
    SHARED(u64, barrier, 1);
    u32 box = (shared_address(memory) + 1023) / 1024 * 1024, full = shared_address(barrier);
    const i32* at = p.at;
    if (threadIdx.x == 0) {
        mbarrier_init(full, 1);
        mbarrier_fence_init();
        mbarrier_expect(full, p.bytes);
        if (RANK == 2) tensor_load(box, &p.from, full, at[0], at[1]);
        else tensor_load(box, &p.from, full, at[0], at[1], at[2], at[3], at[4]);
    }
    BARRIER();
    mbarrier_wait(full, 0);
    const u32* words = reinterpret_cast<const u32*>(memory + (box - shared_address(memory)));
    for (int i = threadIdx.x; i < p.bytes / 4; i += 32) p.seen[i] = words[i];
    if (threadIdx.x == 0) {
        if (RANK == 2) tensor_store(&p.to, box, at[0], at[1]);
        else tensor_store(&p.to, box, at[0], at[1], at[2], at[3], at[4]);
        tensor_store_commit();
        tensor_store_wait<0>();
    }
}
KERNEL(copy_2, 32)(GRID_CONSTANT Params p) { copy_box<2>(p); }
KERNEL(copy_5, 32)(GRID_CONSTANT Params p) { copy_box<5>(p); }
`

// TestSimBoxes copies boxes that lie in a tensor, across its borders and outside of it, and
// compares them with plain loops.
func TestSimBoxes(t *testing.T) {
	t.Parallel()
	program := simtest.Compile(t, boxKernels, simtest.Plain)
	for _, x := range []struct {
		sizes   []uint64
		strides []uint64 // in bytes
		box     []uint32
		at      [5]int32
		swizzle bool
	}{
		{[]uint64{40, 7}, []uint64{176}, []uint32{32, 4}, [5]int32{0, 2}, true},
		{[]uint64{40, 7}, []uint64{176}, []uint32{32, 16}, [5]int32{20, -3}, true},
		{[]uint64{40, 7}, []uint64{176}, []uint32{20, 6}, [5]int32{-5, 3}, false},
		{[]uint64{40, 7}, []uint64{176}, []uint32{32, 8}, [5]int32{40, 0}, true},
		{[]uint64{9, 5, 4, 3, 2}, []uint64{48, 240, 960, 2880}, []uint32{8, 2, 3, 2, 1}, [5]int32{4, 4, 2, -1, 1}, false},
		{[]uint64{33, 5, 2, 3, 2}, []uint64{144, 720, 1440, 4320}, []uint32{32, 3, 2, 2, 2}, [5]int32{1, -1, 0, 2, 0}, true},
	} {
		rank := len(x.sizes)
		elements := int(x.strides[rank-2]*x.sizes[rank-1]) / 4
		from, to := make([]byte, 4*elements), bytes.Repeat([]byte{0xa5}, 4*elements)
		for i := range elements {
			binary.LittleEndian.PutUint32(from[4*i:], uint32(1000+i))
		}
		count := 1
		for _, n := range x.box {
			count *= int(n)
		}
		seen, wantSeen, wantTo := make([]byte, 4*count), make([]byte, 4*count), bytes.Clone(to)
		for i := range count {
			offset, isInside, rest := uint64(0), true, i
			for d := range rank {
				at := int64(x.at[d]) + int64(rest%int(x.box[d]))
				rest /= int(x.box[d])
				isInside = isInside && at >= 0 && at < int64(x.sizes[d])
				if d == 0 {
					offset += uint64(4 * at)
				} else {
					offset += uint64(at) * x.strides[d-1]
				}
			}
			place := 4 * i
			if x.swizzle {
				place ^= place >> 7 & 7 << 4
			}
			if isInside {
				copy(wantSeen[place:place+4], from[offset:])
				copy(wantTo[offset:offset+4], from[offset:])
			}
		}
		var params []byte
		for buffer := range 2 {
			m := simtest.TensorMap{Address: simtest.Pointer(buffer), ElementBytes: 4, Sizes: x.sizes, Strides: x.strides, Box: x.box, IsSwizzled: x.swizzle}
			params = m.AppendTo(params)
		}
		params = binary.LittleEndian.AppendUint64(params, simtest.Pointer(2))
		params = binary.LittleEndian.AppendUint32(params, uint32(4*count))
		for _, c := range x.at {
			params = binary.LittleEndian.AppendUint32(params, uint32(c))
		}
		params = append(params, make([]byte, 32)...)
		run := simtest.Run{Buffers: [][]byte{from, to, seen}, Launches: []simtest.Launch{{
			Entry: fmt.Sprintf("copy_%d", rank), Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}, Shared: uint32(4*count + 1024), Params: params,
		}}}
		if err := program.Run(run); err != nil {
			t.Fatalf("%+v: %v", x, err)
		}
		if !bytes.Equal(seen, wantSeen) {
			t.Errorf("%+v: the box is not in shared memory as it should be", x)
		}
		if !bytes.Equal(to, wantTo) {
			t.Errorf("%+v: the box is not stored as it should be", x)
		}
	}
}
