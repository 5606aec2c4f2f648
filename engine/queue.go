package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"tokitai/def"
	"tokitai/device"
	"tokitai/device/cpu"
	"tokitai/num"
	"tokitai/tensor"
)

// Policy says which models a contraction may use. For everything else the two
// are one.
type Policy uint8

const (
	// Fast takes the first admitted lowering of the preference table.
	Fast Policy = iota
	// Same takes only the model fma, which has the same bits on every device.
	Same
)

var policyNames = [...]string{"fast", "same"}

func (p Policy) String() string { return policyNames[p] }

// ParsePolicy is the inverse of String.
func ParsePolicy(s string) (Policy, error) { return parseName[Policy]("policy", policyNames[:], s) }

// BadIndex says what becomes of an index without a row.
type BadIndex uint8

const (
	// Reject refuses the call before anything is written, with an IndexError.
	Reject BadIndex = iota
	// Skip gives a row of zeros, and no contribution.
	Skip
)

var badIndexNames = [...]string{"reject", "skip"}

func (b BadIndex) String() string { return badIndexNames[b] }

// ParseBadIndex is the inverse of String.
func ParseBadIndex(s string) (BadIndex, error) {
	return parseName[BadIndex]("bad_index", badIndexNames[:], s)
}

// Admission says whether lowerings are tested before their first use.
type Admission uint8

const (
	// SelfTest admits a lowering that has reproduced the reference's answers.
	SelfTest Admission = iota
	// Off uses lowerings untested. It is for those who work on kernels: the call gives up
	// the promise that nothing runs unchecked.
	Off
)

var admissionNames = [...]string{"selftest", "off"}

func (a Admission) String() string { return admissionNames[a] }

// ParseAdmission is the inverse of String.
func ParseAdmission(s string) (Admission, error) {
	return parseName[Admission]("admission", admissionNames[:], s)
}

func parseName[T ~uint8](what string, names []string, s string) (T, error) {
	for i, n := range names {
		if n == s {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("%s %q: want %s or %s", what, s, names[0], names[1])
}

// Queue is a device queue with its policies. Calls on it are safe from any
// goroutine.
type Queue struct {
	ctx      context.Context
	device   device.Device
	queue    device.Queue
	plans    *planCache
	closed   *atomic.Bool // shared with its copies
	settings settings
}

// settings are what options change, for a queue or for one call.
type settings struct {
	policy    Policy
	badIndex  BadIndex
	admission Admission
	using     *Lowering
	lowering  string
	params    Params
	storage   map[string]num.DType
	sizes     map[string]int
	observers []Observer
	checkOnly bool
	chosen    **Lowering
	caller    Caller
	log       *slog.Logger
}

// Option changes how a queue, or one call on it, behaves.
type Option func(*settings)

// WithPolicy sets the policy.
func WithPolicy(p Policy) Option { return func(s *settings) { s.policy = p } }

// WithBadIndex sets what becomes of an index without a row.
func WithBadIndex(b BadIndex) Option { return func(s *settings) { s.badIndex = b } }

// WithAdmission sets whether lowerings are tested before their first use.
func WithAdmission(a Admission) Option { return func(s *settings) { s.admission = a } }

// WithLowering demands the lowering of that name, such as cpu.rowwise.
func WithLowering(name string) Option { return func(s *settings) { s.lowering = name } }

// Using demands a lowering that is not in the preference table.
func Using(l *Lowering) Option {
	if l == nil {
		l = &Lowering{} // refused by the call
	}
	return func(s *settings) { s.using = l }
}

// WithParams gives the parameters of a definition by name.
func WithParams(p Params) Option { return func(s *settings) { s.params = p } }

// WithStorage tells Eval in which formats to store outputs that it makes, by name.
func WithStorage(formats map[string]num.DType) Option {
	return func(s *settings) { s.storage = formats }
}

// WithSizes tells Eval sizes, by letter, that no input has: the rows of a table that is
// summed into.
func WithSizes(sizes map[string]int) Option { return func(s *settings) { s.sizes = sizes } }

// WithObserver lets o watch one call, beside those that watch already.
func WithObserver(o Observer) Option {
	return func(s *settings) { s.observers = append(s.observers[:len(s.observers):len(s.observers)], o) }
}

// CheckOnly checks a call and prepares its plan, and runs nothing.
func CheckOnly() Option { return func(s *settings) { s.checkOnly = true } }

// Telling stores the lowering that a call takes as soon as it is chosen, also of a call
// that is only checked. Calls that another process computes store nothing.
func Telling(chosen **Lowering) Option { return func(s *settings) { s.chosen = chosen } }

// WithLog sends warnings to a logger instead of the default one.
func WithLog(l *slog.Logger) Option { return func(s *settings) { s.log = l } }

// deviceForms are the names that Open takes.
var deviceForms = []string{"auto", "cpu", "cuda:<index>", "sim", "sim:64"}

// Open opens a device by name: cpu, cuda:0 for the first of NVIDIA's GPUs, sim for a
// simulated one, or auto for the best there is: the first GPU for which programs can be
// compiled, else the CPU.
func Open(name string) (device.Device, error) {
	kind, index, err := device.ParseName(name)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "auto":
		switch dev, err := openGPU("cuda", 0); {
		case errors.Is(err, device.ErrBadArgument): // a setting that is wrong for any GPU
			return nil, err
		case err == nil:
			if probe(dev) == nil {
				return dev, nil
			}
			dev.Close()
		}
		return cpu.New(cpu.Options{})
	case "cpu":
		return cpu.New(cpu.Options{})
	case "cuda", "sim":
		return openGPU(kind, index)
	}
	return nil, &device.NoDeviceError{Name: name, Known: deviceForms, Reason: "this build has no support for " + kind}
}

// NewQueue makes a queue on a device.
func NewQueue(dev device.Device, opts ...Option) (*Queue, error) {
	if dev == nil {
		return nil, &device.NoDeviceError{Name: "nil", Known: deviceForms}
	}
	dq, err := dev.NewQueue()
	if err != nil {
		return nil, err
	}
	q := &Queue{ctx: context.Background(), device: dev, queue: dq, plans: plansOf(dev), closed: new(atomic.Bool)}
	q.settings.caller, _ = dev.(Caller)
	q.settings.apply(opts)
	return q, nil
}

var defaultQueue = sync.OnceValues(func() (*Queue, error) {
	dev, err := Open("cpu")
	if err != nil {
		return nil, err
	}
	return NewQueue(dev)
})

// CPU is a queue on the host that all callers share.
func CPU() *Queue {
	q, err := defaultQueue()
	if err != nil {
		panic("engine: the host refused a queue: " + err.Error())
	}
	return q
}

// WithContext is the same queue under another context; nil for a nil queue.
func (q *Queue) WithContext(ctx context.Context) *Queue {
	if q == nil {
		return nil
	}
	c := *q
	c.ctx = ctx
	return &c
}

// Context returns the context of the queue's calls; nil for a nil queue.
func (q *Queue) Context() context.Context {
	if q == nil {
		return nil
	}
	return q.ctx
}

// With is the same queue with other settings; nil for a nil queue.
func (q *Queue) With(opts ...Option) *Queue {
	if q == nil {
		return nil
	}
	c := *q
	c.settings.apply(opts)
	return &c
}

// Device is where the queue's calls run; nil for a nil queue.
func (q *Queue) Device() device.Device {
	if q == nil {
		return nil
	}
	return q.device
}

// DeviceQueue is the device's queue below it; nil for a nil queue.
func (q *Queue) DeviceQueue() device.Queue {
	if q == nil {
		return nil
	}
	return q.queue
}

// Wait returns when every call on the queue is done. On a GPU it tells of bad indices
// that were rejected (see IndexError), of several calls all at once, and the queue goes on.
func (q *Queue) Wait() error {
	if q == nil || q.queue == nil || q.ctx == nil {
		return &tensor.BadArgument{Op: "engine.Queue.Wait", Operand: "queue", Got: "is nil or empty", Want: "one that NewQueue made"}
	}
	return q.queue.Wait(q.ctx)
}

// Close ends the queue and its copies under other settings, not its device. Do not
// close the queue that CPU returns: everybody shares it. Closing nothing is allowed.
func (q *Queue) Close() error {
	if q == nil || q.queue == nil {
		return nil
	}
	q.closed.Store(true)
	return q.queue.Close()
}

func (s *settings) apply(opts []Option) {
	for _, o := range opts {
		if o != nil {
			o(s)
		}
	}
}

// check refuses settings that are none of the named ones.
func (s *settings) check(d *def.Definition) error {
	switch {
	case s.policy > Same:
		return bad(d, "policy", fmt.Sprintf("is %d", s.policy), "Fast or Same")
	case s.badIndex > Skip:
		return bad(d, "bad_index", fmt.Sprintf("is %d", s.badIndex), "Reject or Skip")
	case s.admission > Off:
		return bad(d, "admission", fmt.Sprintf("is %d", s.admission), "SelfTest or Off")
	case s.using != nil && s.using.Compile == nil:
		return bad(d, "lowering", "has no Compile", "a lowering that can be compiled")
	}
	return nil
}

func (s *settings) warn(msg string, args ...any) {
	log := s.log
	if log == nil {
		log = slog.Default()
	}
	log.Warn(msg, args...)
}
