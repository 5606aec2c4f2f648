package gpu

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tokitai/device"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
)

// Module is a program on a device.
type Module struct {
	device    *Device
	name      string
	handle    driver.Module
	functions map[string]*Function
	program   *compile.Program
	isClosed  bool // guarded by Device.mu
}

// Function is a kernel of a module.
type Function struct {
	module *Module
	entry  string
	handle driver.Function
	shared int // dynamic shared memory permitted so far; guarded by Device.mu
}

// Entry is the kernel's name.
func (f *Function) Entry() string { return f.entry }

// Load compiles a source, or finds it in the cache, and loads it. A source that does not
// compile gives a compile.Error.
func (d *Device) Load(s compile.Source, entries ...string) (*Module, error) {
	d.mu.Lock()
	err := d.usable("load " + s.Name)
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	program, err := d.table.Compile(d.index, s)
	if err != nil {
		return nil, fmt.Errorf("%s: load %s: %w", d.name, s.Name, err)
	}
	return d.LoadProgram(s.Name, program, entries...)
}

// LoadProgram loads what has been compiled for this device's architecture.
func (d *Device) LoadProgram(name string, program *compile.Program, entries ...string) (*Module, error) {
	m := &Module{device: d, name: name, functions: map[string]*Function{}, program: program}
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.submit("load "+name, func() error {
		err := d.makingRoom(int64(len(program.Image)), func() (err error) {
			m.handle, err = d.table.Load(program.Image)
			return err
		})
		if err != nil {
			return err
		}
		for _, entry := range entries {
			handle, err := d.table.Lookup(m.handle, entry)
			if err != nil {
				d.table.Unload(m.handle)
				return err
			}
			m.functions[entry] = &Function{module: m, entry: entry, handle: handle}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	d.modules[m] = struct{}{}
	return m, nil
}

// Entry is one of the kernels that Load was asked for.
func (m *Module) Entry(name string) (*Function, error) {
	if f, ok := m.functions[name]; ok {
		return f, nil
	}
	return nil, &device.ArgumentError{Op: fmt.Sprintf("%s: module %s", m.device.name, m.name), Got: fmt.Sprintf("entry %q", name),
		Want: "one of " + strings.Join(slices.Sorted(maps.Keys(m.functions)), ", ")}
}

// Program is what was compiled: log, registers, spills.
func (m *Module) Program() *compile.Program { return m.program }

// Close waits for the device's work and unloads the program.
func (m *Module) Close() error {
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if m.isClosed {
		return nil
	}
	if d.lost == nil && d.isClosed.Load() {
		return nil
	}
	m.isClosed = true
	delete(d.modules, m)
	return d.submit("unload "+m.name, func() error {
		if err := d.drain(); err != nil {
			return err
		}
		return d.table.Unload(m.handle)
	})
}
