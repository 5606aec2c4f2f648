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

// Module is a program loaded on a device.
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
	shared int // dynamic shared memory permitted so far, in bytes; guarded by Device.mu
}

// Entry returns the kernel's name.
func (f *Function) Entry() string { return f.entry }

// Load compiles a source, or finds it in the cache, and loads it. If the source does not
// compile, the error is a compile.Error.
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

// Compiler returns the compiler that Load uses.
func (d *Device) Compiler() (compile.Compiler, error) { return d.table.Compiler() }

// LoadProgram loads a program that was compiled for this device's architecture.
func (d *Device) LoadProgram(name string, program *compile.Program, entries ...string) (*Module, error) {
	m := &Module{device: d, name: name, functions: map[string]*Function{}, program: program}
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.submit("load "+name, func() error {
		err := d.retryAfterTrim(int64(len(program.Image)), func() (err error) {
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

// Entry returns one of the kernels named in Load.
func (m *Module) Entry(name string) (*Function, error) {
	if f, ok := m.functions[name]; ok {
		return f, nil
	}
	return nil, &device.ArgumentError{Op: fmt.Sprintf("%s: module %s", m.device.name, m.name), Got: fmt.Sprintf("entry %q", name),
		Want: "one of " + strings.Join(slices.Sorted(maps.Keys(m.functions)), ", ")}
}

// Program returns the compiled program, with its log, registers and spills.
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

// HasTensorMaps reports whether kernels can be given tensor maps.
func (d *Device) HasTensorMaps() bool { return d.table.EncodeTensorMap != nil }

// EncodeTensorMap writes a tensor map into the parameters of a launch.
func (d *Device) EncodeTensorMap(to []byte, m *driver.TensorMap) error {
	if !d.HasTensorMaps() {
		return fmt.Errorf("%s: the driver, %s, has no tensor maps", d.name, d.table.Version)
	}
	return d.call(func() error { return d.table.EncodeTensorMap(to, m) })
}
