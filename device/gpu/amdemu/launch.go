package amdemu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"tokitai/amdgpu/wave"
	"tokitai/device/gpu/driver"
)

// dispatch is one launch of a kernel.
type dispatch struct {
	*kernel
	memory      *memory
	grid, block [3]uint32
	shared      uint32 // bytes of dynamic LDS

	kernarg, packet wave.Block
}

// Find returns the block that holds an address: one of the launch, else one of the device.
func (d *dispatch) Find(address uint64) (wave.Block, bool) {
	for _, b := range []*wave.Block{&d.kernarg, &d.packet} {
		if address >= b.Address && address-b.Address < uint64(len(b.Bytes)) {
			return *b, true
		}
	}
	return d.memory.Find(address)
}

// launch runs a kernel to its end.
func (e *emulator) launch(f driver.Function, grid, block [3]uint32, shared uint32, params []byte) error {
	e.mu.Lock()
	k, ok := e.functions[f]
	e.mu.Unlock()
	if !ok {
		return &driver.Error{Call: "launch", Text: fmt.Sprintf("function %d is not loaded", f)}
	}
	d := &dispatch{kernel: k, memory: &e.memory, grid: grid, block: block, shared: shared}
	if err := d.prepare(params); err != nil {
		return &driver.LaunchError{Entry: k.Name, Message: err.Error()}
	}
	if err := d.run(e.settings); err != nil {
		return &driver.LaunchError{Entry: k.Name, Message: d.message(err)}
	}
	return nil
}

// threads returns the number of work items of a group.
func (d *dispatch) threads() uint64 {
	return uint64(d.block[0]) * uint64(d.block[1]) * uint64(d.block[2])
}

// groups returns the number of work groups.
func (d *dispatch) groups() uint64 { return uint64(d.grid[0]) * uint64(d.grid[1]) * uint64(d.grid[2]) }

// prepare checks the launch and makes the memory that only it has.
func (d *dispatch) prepare(params []byte) error {
	limit := threadsPerBlock
	if d.MaxThreads > 0 {
		limit = min(limit, d.MaxThreads)
	}
	for i := range 3 {
		if d.grid[i] == 0 || d.block[i] == 0 || d.block[i] > threadsPerBlock {
			return fmt.Errorf("got a grid of %v groups of %v work items, want at least 1 everywhere, and at most %d work items in a group", d.grid, d.block, limit)
		}
		if uint64(d.grid[i])*uint64(d.block[i]) > 1<<32-1 {
			return fmt.Errorf("got a grid of %v groups of %v work items, want fewer than 2^32 work items in each dimension", d.grid, d.block)
		}
	}
	if high, _ := bits.Mul64(uint64(d.grid[0])*uint64(d.grid[1]), uint64(d.grid[2])); high != 0 {
		return fmt.Errorf("got a grid of %v groups, want fewer than 2^64", d.grid)
	}
	if d.threads() > uint64(limit) {
		return fmt.Errorf("got groups of %v = %d work items, want at most %d", d.block, d.threads(), limit)
	}
	if lds := uint64(d.GroupBytes) + uint64(d.shared); lds > sharedBytes {
		return fmt.Errorf("got %d bytes of LDS, %d of them dynamic, want at most %d", lds, d.shared, sharedBytes)
	}
	if want := d.ExplicitBytes(); len(params) != want {
		return fmt.Errorf("got %d bytes of parameters, want %d", len(params), want)
	}
	d.kernarg = wave.Block{Address: kernargAddress, Bytes: d.arguments(params), IsReadOnly: true}
	d.packet = wave.Block{Address: packetAddress, Bytes: d.dispatchPacket(), IsReadOnly: true}
	return nil
}

// hidden lists the arguments that the runtime provides. Those that arguments leaves at zero are
// offsets of the grid, which HIP does not have, what remains of groups that are not whole, and
// pointers to services of the runtime, which are not emulated: a kernel that uses one reads
// at address 0, a fault.
var hidden = []string{
	"hidden_none", "hidden_grid_dims", "hidden_dynamic_lds_size",
	"hidden_block_count_x", "hidden_block_count_y", "hidden_block_count_z",
	"hidden_group_size_x", "hidden_group_size_y", "hidden_group_size_z",
	"hidden_remainder_x", "hidden_remainder_y", "hidden_remainder_z",
	"hidden_global_offset_x", "hidden_global_offset_y", "hidden_global_offset_z",
	"hidden_printf_buffer", "hidden_hostcall_buffer", "hidden_default_queue", "hidden_completion_action",
	"hidden_multigrid_sync_arg", "hidden_heap_v1", "hidden_queue_ptr",
}

// arguments returns the memory that the kernel reads its arguments from.
func (d *dispatch) arguments(params []byte) []byte {
	memory := make([]byte, max(int(d.KernargBytes), 1))
	copy(memory, params)
	values := map[string]uint64{"hidden_grid_dims": 3, "hidden_dynamic_lds_size": uint64(d.shared)}
	for i, axis := range []string{"x", "y", "z"} {
		values["hidden_block_count_"+axis] = uint64(d.grid[i])
		values["hidden_group_size_"+axis] = uint64(d.block[i])
	}
	for i := range d.Arguments {
		if a := &d.Arguments[i]; a.IsHidden() {
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], values[a.Kind])
			copy(memory[a.Offset:a.Offset+a.Bytes], word[:])
		}
	}
	return memory
}

// dispatchPacket returns the packet that a runtime puts into a queue to launch a kernel. Code
// objects of version 4 read the sizes of the grid and of groups in it.
func (d *dispatch) dispatchPacket() []byte {
	packet := make([]byte, 64)
	binary.LittleEndian.PutUint16(packet[2:], 3) // dimensions
	for i := range 3 {
		binary.LittleEndian.PutUint16(packet[4+2*i:], uint16(d.block[i]))
		binary.LittleEndian.PutUint32(packet[12+4*i:], d.grid[i]*d.block[i])
	}
	binary.LittleEndian.PutUint32(packet[24:], d.PrivateBytes)
	binary.LittleEndian.PutUint32(packet[28:], d.GroupBytes+d.shared)
	binary.LittleEndian.PutUint64(packet[40:], kernargAddress)
	return packet
}

// run runs all work groups, on several goroutines. Of several faults it returns that of the
// group that is first in the order of the launch.
func (d *dispatch) run(s settings) error {
	launch := &wave.Launch{
		Code: d.code, CodeAddress: d.module.address, Memory: d, Budget: wave.NewBudget(s.budget),
		Threads: int(d.threads()), Registers: d.vectorRegisters(), LDS: int(d.GroupBytes + d.shared), Private: int(d.PrivateBytes),
		Mode: wave.Mode{Round32: d.Round32, Round64: d.Round64, Denorm32: d.Denorm32, Denorm64: d.Denorm64, IEEE: d.IEEE, DX10Clamp: d.DX10Clamp},
		Seed: s.seed,
	}
	total := d.groups()
	order := newOrder(total, s.seed)
	next, failed := atomic.Uint64{}, atomic.Uint64{}
	failed.Store(total)
	errs := make([]error, workers(total))
	at := make([]uint64, len(errs))
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			g, err := launch.NewGroup()
			if err == nil {
				defer g.Release()
			}
			for number := uint64(0); err == nil; {
				if number = next.Add(1) - 1; number >= failed.Load() {
					return
				}
				id := d.groupID(order.at(number))
				g.Reset(id)
				d.setRegisters(g)
				if err = g.Run(); err != nil {
					at[i] = number
				}
			}
			errs[i] = err
			for {
				was := failed.Load()
				if at[i] >= was || failed.CompareAndSwap(was, at[i]) {
					return
				}
			}
		})
	}
	group.Wait()
	var first error
	for i, err := range errs {
		if err != nil && at[i] == failed.Load() {
			first = err
		}
	}
	return first
}

func (d *dispatch) groupID(number uint64) [3]uint32 {
	x, y := uint64(d.grid[0]), uint64(d.grid[1])
	return [3]uint32{uint32(number % x), uint32(number / x % y), uint32(number / x / y)}
}

// order is an order of the numbers below n.
type order struct{ n, step, first uint64 }

// newOrder returns the order that a seed determines; 0 is ascending. Multiplying by a number
// that has no divisor in common with n visits every remainder once.
func newOrder(n, seed uint64) order {
	if seed == 0 {
		return order{n, 1, 0}
	}
	step := seed * 0x9e3779b97f4a7c15 % n
	for gcd(step, n) != 1 {
		step++
	}
	return order{n, step % n, seed % n}
}

// at returns the i-th number.
func (o order) at(i uint64) uint64 {
	high, low := bits.Mul64(i, o.step)
	low, carry := bits.Add64(low, o.first, 0)
	return bits.Rem64(high+carry, low, o.n)
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// privateBuffer is the resource of private memory: addresses are those of a lane, interleaved
// by lane (swizzling and the lane's number are enabled), from 0 on.
var privateBuffer = [4]uint32{0, 1 << 31, ^uint32(0), 1 << 23}

// setRegisters sets the registers of a group's waves as hardware does before the first
// instruction.
func (d *dispatch) setRegisters(g *wave.Group) {
	for _, w := range g.Waves {
		s := w.S
		at := 0
		set := func(has bool, words ...uint32) {
			if has {
				at += copy(s[at:], words)
			}
		}
		set(d.HasPrivateBuffer, privateBuffer[:]...)
		set(d.HasDispatchPointer, packetAddress&0xffffffff, packetAddress>>32)
		set(d.HasQueuePointer, 0, 0)
		set(d.HasKernargPointer, kernargAddress&0xffffffff, kernargAddress>>32)
		set(d.HasDispatchID, 0, 0)
		set(d.HasFlatScratchInit, 0, 0)
		set(d.HasPrivateSize, d.PrivateBytes)
		for i := range d.PreloadWords {
			set(true, binary.LittleEndian.Uint32(d.kernarg.Bytes[4*(d.PreloadOffset+i):]))
		}
		at = d.UserRegisters
		for i, has := range d.HasGroupID {
			set(has, g.ID[i])
		}
		set(d.HasScratchOffset, 0)
		for lane := range w.Lanes {
			item := uint32(w.Number*w.Lanes + lane)
			x, y := d.block[0], d.block[1]
			id := [3]uint32{item % x, item / x % y, item / x / y}
			w.V[0][lane] = id[0]
			for i := 1; i < d.ItemIDs; i++ {
				w.V[0][lane] |= id[i] << (10 * i)
			}
		}
	}
}

// message says what a launch failed of, and where.
func (d *dispatch) message(err error) string {
	f, ok := errors.AsType[*wave.Fault](err)
	if !ok {
		return err.Error()
	}
	place := fmt.Sprintf("offset %#x", f.Instruction.Offset-d.Entry)
	if line := d.module.object.Line(f.Instruction.Offset); line != "" {
		place = line + ", " + place
	}
	lane := ""
	if f.Lane >= 0 {
		lane = fmt.Sprintf(", lane %d", f.Lane)
	}
	reason := f.Err.Error()
	if e, ok := errors.AsType[*wave.BudgetError](f.Err); ok {
		reason = fmt.Sprintf("%v (TOKITAI_AMDEMU_BUDGET): it does not end, or needs more", e)
	} else if e, ok := errors.AsType[*wave.AccessError](f.Err); ok && e.Space == "global" {
		reason += ", " + d.memory.describe(e.Address)
	}
	return fmt.Sprintf("%s (%s), work group (%d,%d,%d), wave %d%s: %s", &f.Instruction, place, f.Group[0], f.Group[1], f.Group[2], f.Wave, lane, reason)
}
