package gpu

import (
	"fmt"
	"sync"
	"sync/atomic"

	"tokitai/def"
	"tokitai/device/gpu"
	"tokitai/engine"
	"tokitai/lower"
	lowergpu "tokitai/lower/gpu"
	"tokitai/num"
)

// many is a program of lower/gpu that computes many calls. It is compiled when it is first
// launched: most programs never need it.
type many struct {
	lowered *lowergpu.Many
	device  *Device
	file    string

	loading   sync.Mutex
	functions atomic.Pointer[[]*gpu.Function] // nil until they are loaded
}

func newMany(dev *Device, d *def.Definition, dtypes []num.DType, v lowergpu.Variant) (*many, error) {
	lowered, err := lowergpu.CompileMany(d, dtypes, v)
	if err != nil {
		return nil, err
	}
	return &many{lowered: lowered, device: dev, file: fileName(lowered.Source.Name+".many", dtypes, v)}, nil
}

// load returns the functions, compiled by the first call that succeeds.
func (m *many) load() ([]*gpu.Function, error) {
	if loaded := m.functions.Load(); loaded != nil {
		return *loaded, nil
	}
	m.loading.Lock()
	defer m.loading.Unlock()
	if loaded := m.functions.Load(); loaded != nil {
		return *loaded, nil
	}
	functions, _, err := loadSource(m.device, m.lowered.Source, m.file)
	if err != nil {
		return nil, err
	}
	m.functions.Store(&functions)
	return functions, nil
}

// manyScratch is memory that launches of many calls use again.
type manyScratch struct {
	scratch
	calls []*lower.Call
}

var manyScratches = sync.Pool{New: func() any { return new(manyScratch) }}

// Joins implements engine.ManyLauncher.
func (k *kernel) Joins(c *lower.Call) bool {
	return k.many != nil && c.Rows*c.Cols > 0 && k.many.lowered.Joins(c)
}

// LaunchMany implements engine.ManyLauncher: one launch of each kernel computes all calls.
func (k *kernel) LaunchMany(ls []*engine.Launch) error {
	switch {
	case k.many == nil:
		return fmt.Errorf("%s has no kernels for many calls", k.d.Name)
	case len(ls) == 0:
		return nil
	}
	functions, err := k.many.load()
	if err != nil {
		return err
	}
	s := manyScratches.Get().(*manyScratch)
	err = k.submitMany(s, ls, functions)
	clear(s.call.Uses) // buffers must not live for the sake of memory
	clear(s.calls)
	manyScratches.Put(s)
	return err
}

func (k *kernel) submitMany(s *manyScratch, ls []*engine.Launch, functions []*gpu.Function) error {
	s.calls, s.call.Uses = resized(s.calls, len(ls)), s.call.Uses[:0]
	for i, l := range ls {
		s.calls[i] = &l.Call
		if err := k.use(&s.call, l); err != nil {
			return err
		}
	}
	if err := k.many.lowered.Plan(&s.plan, s.calls); err != nil {
		return err
	}
	s.launch(functions)
	return ls[0].Queue.(*gpu.Queue).Run(&s.call, &s.plan)
}
