package gpu

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"

	"tokitai/device/gpu"
	"tokitai/internal/tensorcore"
	lowergpu "tokitai/lower/gpu"
	"tokitai/num"
)

// MatrixInstructions lists the matrix instructions of the device that RunTiles can run.
func (d *Device) MatrixInstructions() []tensorcore.Instruction {
	return lowergpu.MatrixInstructions(d.Describe().Architecture)
}

// LoadSource compiles and loads a source with what precedes it.
func (d *Device) LoadSource(s lowergpu.Source) (*gpu.Module, error) {
	return d.Load(d.family.Program(s, s.Name+".cu"), s.Entries...)
}

// MatrixAccum returns the accumulation rule that lowerings declare for an instruction, or false if the
// device's architecture is in no table.
func (d *Device) MatrixAccum(i tensorcore.Instruction) (num.MMA, bool) {
	return lowergpu.MatrixAccum(d.Describe().Architecture, i)
}

// RunTiles runs an instruction on the tiles of batches and fills their D. It returns the
// listing of the kernel and the SHA-256 of the compiled program, in hexadecimal.
func (d *Device) RunTiles(ctx context.Context, batches ...*tensorcore.Batch) (listing, artifact string, err error) {
	probe := lowergpu.NewProbe(batches[0].Instruction)
	module, err := d.Load(d.family.Program(probe.Source, "probe.cu"), probe.Source.Entries...)
	if err != nil {
		return "", "", err
	}
	defer module.Close()
	function, err := module.Entry(probe.Source.Entries[0])
	if err != nil {
		return "", "", err
	}
	queue, err := d.NewQueueWith(gpu.QueueOptions{})
	if err != nil {
		return "", "", err
	}
	defer queue.Close()
	image := sha256.Sum256(module.Program().Image)
	for _, b := range batches {
		if err := d.runBatch(ctx, queue, function, probe, b); err != nil {
			return "", "", err
		}
	}
	return probe.Source.Text, hex.EncodeToString(image[:]), nil
}

// knownAnswers holds what checkAnswers found, by instruction.
type knownAnswers struct {
	mu    sync.Mutex
	found map[tensorcore.Instruction]error
}

// checkAnswers has an instruction reproduce the committed answers of its model, on every kind of
// data, once for the device. An instruction without any passes.
func (d *Device) checkAnswers(family string, dtype num.DType) error {
	d.known.mu.Lock()
	defer d.known.mu.Unlock()
	for _, i := range d.MatrixInstructions() {
		if i.Family != family || i.DType != dtype {
			continue
		}
		err, isFound := d.known.found[i]
		if !isFound {
			if err = d.compareAnswers(i); d.known.found == nil {
				d.known.found = map[tensorcore.Instruction]error{}
			}
			d.known.found[i] = err
		}
		return err
	}
	return nil
}

func (d *Device) compareAnswers(i tensorcore.Instruction) error {
	if m, ok := d.MatrixAccum(i); !ok || m != tensorcore.AnswerAccum(i) {
		return nil
	}
	kinds := tensorcore.KindsOf(i.DType)
	batches := make([]*tensorcore.Batch, len(kinds))
	for n := range kinds {
		batches[n] = tensorcore.NewBatch(i, n, tensorcore.AnswerSeed, tensorcore.AnswerOutputs/(i.M*i.N))
	}
	if _, _, err := d.RunTiles(context.Background(), batches...); err != nil {
		return err
	}
	for n, kind := range kinds {
		if got, want := batches[n].Answer(), tensorcore.Answer(i, kind.Name); got != want {
			return fmt.Errorf("%v of %s values, kind %s: the results have hash %s, want the known answer %s: the tensor cores do not follow their model", i, i.DType, kind.Name, got, want)
		}
	}
	return nil
}

func (d *Device) runBatch(ctx context.Context, queue *gpu.Queue, function *gpu.Function, probe *lowergpu.Probe, b *tensorcore.Batch) error {
	operands := [][]byte{b.A, b.B, b.C, b.D}
	launch := gpu.Launch{Function: function, Grid: [3]uint32{uint32(b.Tiles), 1, 1}, Block: [3]uint32{uint32(probe.Threads), 1, 1}, Shared: uint32(probe.SharedBytes)}
	call := &gpu.Call{}
	for i, bytes := range operands {
		buffer, err := d.Alloc(int64(len(bytes)))
		if err != nil {
			return err
		}
		defer buffer.Close()
		if err := buffer.CopyIn(0, bytes); err != nil {
			return err
		}
		memory := buffer.(*gpu.Buffer)
		call.Uses = append(call.Uses, gpu.Use{Buffer: memory, IsWrite: i == 3})
		launch.Params = binary.LittleEndian.AppendUint64(launch.Params, memory.Pointer())
	}
	call.Launches = []gpu.Launch{launch}
	if err := queue.Run(call, nil); err != nil {
		return err
	}
	if err := queue.Wait(ctx); err != nil {
		return err
	}
	return call.Uses[3].Buffer.CopyOut(0, b.D)
}
