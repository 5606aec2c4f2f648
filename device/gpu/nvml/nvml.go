// Package nvml reads what an NVIDIA GPU says of its health from NVIDIA's management library,
// which it opens at run time: temperature, power, what slows it down, and the errors of its
// memory.
//
// Start with Open.
package nvml

import (
	"fmt"
	"sync"

	"tokitai/device/gpu/driver/clib"
	"tokitai/internal/dl"
)

// api lists the functions of the library that are used. None takes a struct but the one of a field,
// whose layout is that of field.
type api struct {
	nvmlInit        clib.Function `symbol:"nvmlInit_v2"`
	nvmlErrorString clib.Function

	nvmlDeviceGetHandleByPciBusId clib.Function `symbol:"nvmlDeviceGetHandleByPciBusId_v2"`
	nvmlDeviceGetUUID             clib.Function
	nvmlDeviceGetSerial           clib.Function `optional:"yes"`
	nvmlSystemGetDriverVersion    clib.Function `optional:"yes"`

	nvmlDeviceGetTemperature                  clib.Function `optional:"yes"`
	nvmlDeviceGetFieldValues                  clib.Function `optional:"yes"`
	nvmlDeviceGetPowerUsage                   clib.Function `optional:"yes"`
	nvmlDeviceGetEnforcedPowerLimit           clib.Function `optional:"yes"`
	nvmlDeviceGetClockInfo                    clib.Function `optional:"yes"`
	nvmlDeviceGetCurrentClocksThrottleReasons clib.Function `optional:"yes"` // which newer headers call EventReasons
	nvmlDeviceGetTotalEccErrors               clib.Function `optional:"yes"`
	nvmlDeviceGetRemappedRows                 clib.Function `optional:"yes"`
}

// Numbers of nvml.h, the same since CUDA 11.
const (
	sensorGPU       = 0 // NVML_TEMPERATURE_GPU
	clockSM         = 1 // NVML_CLOCK_SM
	fieldMemoryTemp = 82
	corrected       = 0 // NVML_MEMORY_ERROR_TYPE_CORRECTED
	uncorrected     = 1
	sinceBoot       = 0 // NVML_VOLATILE_ECC
	ofLife          = 1 // NVML_AGGREGATE_ECC
)

// Reasons for which clocks are lower than they might be, by their bits.
var reasons = []struct {
	bit  uint64
	name string
}{
	{1 << 2, "power cap"},
	{1 << 3, "hardware slowdown"},
	{1 << 5, "heat, by software"},
	{1 << 6, "heat, by hardware"},
	{1 << 7, "power brake"},
}

// isNormal are the reasons that say nothing of the GPU's health: it has no work, or somebody has
// set its clocks.
const isNormal = 1<<0 | 1<<1 | 1<<4 | 1<<8

type library struct {
	clib.Library[structs]
	api    api
	driver string
}

// structs are what arguments point to.
type structs struct{ field field }

// field is nvmlFieldValue_t, 40 bytes.
type field struct {
	id         uint32
	_          uint32 // scope
	_          int64  // time stamp
	_          int64  // latency
	_          uint32 // type of the value
	returned   uint32
	valueBytes uint64
}

// Device is a GPU that the library sees.
type Device struct {
	library *library
	handle  uintptr

	UUID, Serial string // which name the chip; Serial is empty where it is not told
	Driver       string // the version of NVIDIA's driver: "580.159"
}

var opened = struct {
	sync.Mutex
	library *library
}{}

// open opens the library. If that fails, the next call tries again.
func open() (*library, error) {
	opened.Lock()
	defer opened.Unlock()
	if opened.library == nil {
		l, err := newLibrary()
		if err != nil {
			return nil, err
		}
		opened.library = l
	}
	return opened.library, nil
}

func newLibrary() (*library, error) {
	file, err := dl.Open(dl.Request{
		What:  "NVIDIA's management library",
		Env:   "TOKITAI_NVML",
		Files: []string{"libnvidia-ml.so.1"},
		Dirs:  dl.CUDADirs(),
		Hint:  "it comes with NVIDIA's driver, in Debian libnvidia-ml1",
	})
	if err != nil {
		return nil, err
	}
	l := &library{}
	l.Failure = l.failure
	if err := clib.Fill(&l.api, file); err != nil {
		return nil, err
	}
	f := l.Frame()
	defer l.Done(f)
	if err := l.Call(&l.api.nvmlInit, f, 0); err != nil {
		return nil, err
	}
	l.driver = l.text(&l.api.nvmlSystemGetDriverVersion)
	return l, nil
}

func (l *library) failure(call string, code int32) error {
	return fmt.Errorf("%s: %s (code %d)", call, clib.CString(l.Result(&l.api.nvmlErrorString, uintptr(uint32(code)))), code)
}

// Open finds the GPU on a PCI bus, by the driver's name of it: "0000:1b:00.0".
func Open(busID string) (*Device, error) {
	l, err := open()
	if err != nil {
		return nil, err
	}
	return l.open(busID)
}

func (l *library) open(busID string) (*Device, error) {
	f := l.Frame()
	defer l.Done(f)
	f.Out[0] = 0
	f.Args[0], f.Args[1] = f.Hold(append([]byte(busID), 0)), clib.Address(&f.Out[0])
	if err := l.Call(&l.api.nvmlDeviceGetHandleByPciBusId, f, 2); err != nil {
		return nil, err
	}
	d := &Device{library: l, handle: uintptr(f.Out[0]), Driver: l.driver}
	d.UUID, d.Serial = l.text(&l.api.nvmlDeviceGetUUID, d.handle), l.text(&l.api.nvmlDeviceGetSerial, d.handle)
	return d, nil
}

// text calls a function that writes a text, after the given arguments; "" if it cannot.
func (l *library) text(p *clib.Function, before ...uintptr) string {
	if p.IsMissing {
		return ""
	}
	f := l.Frame()
	defer l.Done(f)
	f.Text = [len(f.Text)]byte{}
	n := copy(f.Args[:], before)
	f.Args[n], f.Args[n+1] = clib.Address(&f.Text[0]), uintptr(len(f.Text))
	if l.Code(p, f, n+2) != 0 {
		return ""
	}
	return clib.CString(uint64(clib.Address(&f.Text[0])))
}

// numbers calls a function of the device that writes n numbers of the given size; false if the GPU does not
// tell them.
func (d *Device) numbers(p *clib.Function, n int, more ...uintptr) (values [4]uint64, ok bool) {
	if p.IsMissing {
		return values, false
	}
	f := d.library.Frame()
	defer d.library.Done(f)
	f.Out = [len(f.Out)]uint64{}
	f.Args[0] = d.handle
	at := 1 + copy(f.Args[1:], more)
	for i := range n {
		f.Args[at+i] = clib.Address(&f.Out[i])
	}
	ok = d.library.Code(p, f, at+n) == 0
	return f.Out, ok
}

// Sample is the state of a GPU at one moment. What it does not tell is nil.
type Sample struct {
	Celsius, MemoryCelsius *float64
	Watts                  *float64
	ClockMHz               *int64
	Slowed                 []string // why the clocks are lower than they might be
	IsTold                 bool     // Slowed is known
}

// Sample reads the state.
func (d *Device) Sample() (s Sample) {
	a := &d.library.api
	if v, ok := d.numbers(&a.nvmlDeviceGetTemperature, 1, sensorGPU); ok {
		s.Celsius = new(float64(uint32(v[0])))
	}
	s.MemoryCelsius = d.memoryCelsius()
	if v, ok := d.numbers(&a.nvmlDeviceGetPowerUsage, 1); ok {
		s.Watts = new(float64(uint32(v[0])) / 1000)
	}
	if v, ok := d.numbers(&a.nvmlDeviceGetClockInfo, 1, clockSM); ok {
		s.ClockMHz = new(int64(uint32(v[0])))
	}
	v, ok := d.numbers(&a.nvmlDeviceGetCurrentClocksThrottleReasons, 1)
	if s.IsTold = ok; ok {
		rest := v[0] &^ isNormal
		for _, r := range reasons {
			if rest&r.bit != 0 {
				s.Slowed = append(s.Slowed, r.name)
				rest &^= r.bit
			}
		}
		if rest != 0 {
			s.Slowed = append(s.Slowed, fmt.Sprintf("reasons %#x", rest))
		}
	}
	return s
}

func (d *Device) memoryCelsius() *float64 {
	l := d.library
	if l.api.nvmlDeviceGetFieldValues.IsMissing {
		return nil
	}
	f := l.Frame()
	defer l.Done(f)
	f.Structs.field = field{id: fieldMemoryTemp}
	f.Args[0], f.Args[1], f.Args[2] = d.handle, 1, clib.Address(&f.Structs.field)
	if l.Code(&l.api.nvmlDeviceGetFieldValues, f, 3) != 0 || f.Structs.field.returned != 0 || uint32(f.Structs.field.valueBytes) == 0 {
		return nil
	}
	return new(float64(uint32(f.Structs.field.valueBytes)))
}

// PowerLimitWatts returns the power at which the GPU slows down, or nil.
func (d *Device) PowerLimitWatts() *float64 {
	if v, ok := d.numbers(&d.library.api.nvmlDeviceGetEnforcedPowerLimit, 1); ok {
		return new(float64(uint32(v[0])) / 1000)
	}
	return nil
}

// Errors are the errors of a GPU's memory so far. What it does not tell is nil.
type Errors struct {
	Corrected, Uncorrected         *int64 // since the driver was loaded
	CorrectedEver, UncorrectedEver *int64
	RemappedCorrectable            *int64 // rows that were replaced for errors that could be corrected
	RemappedUncorrectable          *int64
	RemapPending, RemapFailed      *bool
}

// Errors reads the counters.
func (d *Device) Errors() (e Errors) {
	a := &d.library.api
	ecc := func(kind, counter uintptr) *int64 {
		if v, ok := d.numbers(&a.nvmlDeviceGetTotalEccErrors, 1, kind, counter); ok {
			return new(int64(v[0]))
		}
		return nil
	}
	e.Corrected, e.Uncorrected = ecc(corrected, sinceBoot), ecc(uncorrected, sinceBoot)
	e.CorrectedEver, e.UncorrectedEver = ecc(corrected, ofLife), ecc(uncorrected, ofLife)
	if v, ok := d.numbers(&a.nvmlDeviceGetRemappedRows, 4); ok {
		e.RemappedCorrectable, e.RemappedUncorrectable = new(int64(uint32(v[0]))), new(int64(uint32(v[1])))
		e.RemapPending, e.RemapFailed = new(uint32(v[2]) != 0), new(uint32(v[3]) != 0)
	}
	return e
}
