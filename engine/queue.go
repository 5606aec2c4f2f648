package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"tokitai/def"
	"tokitai/device"
	"tokitai/num"
)

// Policy selects the accumulation rules that a contraction may use. Other definitions are the same
// under both.
type Policy uint8

const (
	// Fast uses the first admitted lowering in the backend's order.
	Fast Policy = iota
	// Same uses only the rule fma, which has the same bits on every device, or that of WithRule.
	Same
)

var policyNames = [...]string{"fast", "same"}

func (p Policy) String() string { return policyNames[p] }

// ParsePolicy parses what String returns.
func ParsePolicy(s string) (Policy, error) { return parseName[Policy]("policy", policyNames[:], s) }

// BadIndex says how out-of-range indices are handled.
type BadIndex uint8

const (
	// Reject returns an IndexError before anything is written.
	Reject BadIndex = iota
	// Skip reads a row of zeros, and adds nothing.
	Skip
)

var badIndexNames = [...]string{"reject", "skip"}

func (b BadIndex) String() string { return badIndexNames[b] }

// ParseBadIndex parses what String returns.
func ParseBadIndex(s string) (BadIndex, error) {
	return parseName[BadIndex]("bad_index", badIndexNames[:], s)
}

// Admission selects whether lowerings are tested before their first use.
type Admission uint8

const (
	// SelfTest admits lowerings that reproduce the reference's answers.
	SelfTest Admission = iota
	// Off uses lowerings untested. It is for work on kernels: it gives up the promise that
	// nothing runs unchecked.
	Off
)

var admissionNames = [...]string{"selftest", "off"}

func (a Admission) String() string { return admissionNames[a] }

// ParseAdmission parses what String returns.
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
	backend  Backend // nil where a Caller computes
	queue    device.Queue
	plans    *planCache
	closed   *atomic.Bool // shared with its copies
	settings settings
	recorder *recorder // takes the calls instead of running them; nil otherwise

	ownsDevice bool // Close closes it
}

// settings is what options change, for a queue or for one call.
type settings struct {
	policy    Policy
	rule      def.Accum // under policy Same
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

// CallOption changes how one call behaves. Every [Option] is one.
type CallOption interface{ apply(*settings) }

// Option changes how a queue behaves, or one call on it.
type Option func(*settings)

func (o Option) apply(s *settings) {
	if o != nil {
		o(s)
	}
}

// callOption is an option that makes sense for one call only.
type callOption func(*settings)

func (o callOption) apply(s *settings) { o(s) }

// WithPolicy sets the policy.
func WithPolicy(p Policy) Option { return func(s *settings) { s.policy, s.rule = p, def.FMAChain } }

// WithRule sets policy Same with another rule than fma, such as that of a GPU's tensor cores. It is
// the rule of contractions of f16 and bf16, and of streams of them with heads of at most
// 128 columns; others follow fma. So the bits are the same on every device that
// computes the rule: tensor cores that follow it, and processors that replay it. Elsewhere such
// a call is ErrInadmissible.
func WithRule(r def.Accum) Option { return func(s *settings) { s.policy, s.rule = Same, r } }

// WithBadIndex sets how out-of-range indices are handled.
func WithBadIndex(b BadIndex) Option { return func(s *settings) { s.badIndex = b } }

// WithAdmission sets whether lowerings are tested before their first use.
func WithAdmission(a Admission) Option { return func(s *settings) { s.admission = a } }

// WithLowering demands the lowering of that name, such as cpu.rowwise.
func WithLowering(name string) Option { return func(s *settings) { s.lowering = name } }

// Using demands a lowering that need not be one of the backend's.
func Using(l *Lowering) Option {
	if l == nil {
		l = &Lowering{} // refused by the call
	}
	return func(s *settings) { s.using = l }
}

// WithObserver lets o watch calls, beside those that watch already.
func WithObserver(o Observer) Option {
	return func(s *settings) { s.observers = append(s.observers[:len(s.observers):len(s.observers)], o) }
}

// WithLog sends warnings to a logger instead of the default one.
func WithLog(l *slog.Logger) Option { return func(s *settings) { s.log = l } }

// WithParams gives the parameters of a definition by name, to Run and Eval.
func WithParams(p Params) CallOption { return callOption(func(s *settings) { s.params = p }) }

// WithStorage tells Eval in which formats to store outputs that it makes, by name.
func WithStorage(formats map[string]num.DType) CallOption {
	return callOption(func(s *settings) { s.storage = formats })
}

// WithSizes tells Eval sizes, by letter, that no input has: the rows of a table that is
// summed into.
func WithSizes(sizes map[string]int) CallOption {
	return callOption(func(s *settings) { s.sizes = sizes })
}

// CheckOnly checks a call and prepares its plan, and runs nothing.
func CheckOnly() CallOption { return callOption(func(s *settings) { s.checkOnly = true }) }

// ReportLowering stores the lowering that a call uses as soon as it is chosen, also if the
// call is only checked. Calls that another process computes store nothing.
func ReportLowering(chosen **Lowering) CallOption {
	return callOption(func(s *settings) { s.chosen = chosen })
}

// NewQueue makes a queue on a device, which is a [Device] or a [Caller].
func NewQueue(dev device.Device, opts ...Option) (*Queue, error) {
	if dev == nil {
		return nil, &device.NoDeviceError{Name: "nil", Reason: "a queue needs a device"}
	}
	q := &Queue{ctx: context.Background(), device: dev, plans: plansOf(dev), closed: new(atomic.Bool)}
	q.settings.caller, _ = dev.(Caller)
	if d, ok := dev.(Device); ok {
		q.backend = d.Backend()
	} else if q.settings.caller == nil {
		return nil, &device.NoDeviceError{Name: dev.Name(), Reason: "it has memory but no backend that computes; open it through a package below backend"}
	}
	var err error
	if q.queue, err = dev.NewQueue(); err != nil {
		return nil, err
	}
	apply(&q.settings, opts)
	return q, nil
}

// OpenQueue is NewQueue for a device that nothing else uses: closing the queue closes the
// device.
func OpenQueue(dev device.Device, opts ...Option) (*Queue, error) {
	q, err := NewQueue(dev, opts...)
	if err != nil {
		return nil, err
	}
	q.ownsDevice = true
	return q, nil
}

// WithContext returns the same queue under another context; nil for a nil queue.
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

// With returns the same queue with other settings; nil for a nil queue.
func (q *Queue) With(opts ...Option) *Queue {
	if q == nil {
		return nil
	}
	c := *q
	apply(&c.settings, opts)
	return &c
}

// Device returns the device that the queue's calls run on; nil for a nil queue.
func (q *Queue) Device() device.Device {
	if q == nil {
		return nil
	}
	return q.device
}

// DeviceQueue returns the device's queue below q; nil for a nil queue.
func (q *Queue) DeviceQueue() device.Queue {
	if q == nil {
		return nil
	}
	return q.queue
}

// Wait returns when every call on the queue is done. On a GPU it returns the IndexErrors
// of all rejected calls together, and the queue stays usable.
func (q *Queue) Wait() error {
	if q == nil || q.queue == nil || q.ctx == nil {
		return &device.ArgumentError{Op: "engine.Queue.Wait", Operand: "queue", Got: "is nil or empty", Want: "one that NewQueue made"}
	}
	if err := q.checkNotRecording("engine.Queue.Wait"); err != nil {
		return err
	}
	return q.queue.Wait(q.ctx)
}

// Close ends the queue and its copies under other settings. It closes the device only if
// OpenQueue made the queue. Closing twice, or a nil queue, is allowed.
func (q *Queue) Close() error {
	if q == nil || q.queue == nil {
		return nil
	}
	if err := q.checkNotRecording("engine.Queue.Close"); err != nil {
		return err
	}
	wasClosed := q.closed.Swap(true)
	err := q.queue.Close()
	if q.ownsDevice && !wasClosed {
		err = errors.Join(err, q.device.Close())
	}
	return err
}

// apply applies options to settings.
func apply[O CallOption](s *settings, opts []O) {
	for _, o := range opts {
		if CallOption(o) != nil {
			o.apply(s)
		}
	}
}

// check returns an error for settings outside their ranges.
func (s *settings) check(d *def.Definition) error {
	switch {
	case s.policy > Same:
		return bad(d, "policy", fmt.Sprintf("is %d", s.policy), "Fast or Same")
	case s.rule != def.FMAChain && s.rule.Check() != nil:
		return bad(d, "rule", strings.TrimPrefix(s.rule.Check().Error(), "rule "), "")
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
