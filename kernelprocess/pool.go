package kernelprocess

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	backends "tokitai/backend/all"
	"tokitai/device"
	"tokitai/kernelprocess/shm"
	"tokitai/kernelprocess/spawn"
)

// Options configures NewPool. The zero value is the default.
type Options struct {
	// Program is the program to start, with the arguments of `tokitai process`. The default is
	// this program if it has called [Main], even if its file has been replaced since; else
	// tokitai in the same folder, else tokitai on the path.
	Program string

	MaxFrame    int64 // the longest body of a frame, in bytes; 0 leaves it to the process
	MemoryLimit int64 // the most bytes of shared memory and of memory in the process, for each process; 0 is no limit

	MaxInFlight  int           // requests in flight per process, 64 by default; further callers wait in their order
	HangAfter    time.Duration // how long an abandoned request may go on before the process is killed, 30 s by default
	StartTimeout time.Duration // within which a process must say what it is, 30 s by default
	CloseGrace   time.Duration // how long closing waits for calls, and for the process, 5 s by default

	MaxDeaths   int           // deaths within DeathWindow after which no process is started, 5 by default
	DeathWindow time.Duration // a minute by default
	Backoff     time.Duration // between a death and the next start, doubled for each death within DeathWindow; 100 ms by default
	MaxBackoff  time.Duration // at most, 5 s by default

	// Retries is how often a call is repeated if its process dies. Only a call that does not
	// write what it reads and uses no memory of the process is repeated, and no calls that
	// are made together, such as those of an optimizer's step.
	Retries int

	// Inline keeps processes from sharing memory with the host: all tensors are sent in frames.
	Inline bool

	Stderr io.Writer    // gets what processes write to their standard error; nil for nowhere. It must not block
	Log    *slog.Logger // gets deaths; nil for the default logger
}

// Pool starts kernel processes and keeps them running.
type Pool struct {
	options Options
	program string
	args    []string
	pair    func() (*shm.Conn, *os.File, error)

	mu       sync.Mutex
	cores    map[key]*core
	isClosed bool
}

type key struct{ device, group string }

// NewPool returns a pool. It finds the program, and starts no process yet.
func NewPool(o Options) (*Pool, error) {
	for _, number := range []struct {
		what  string
		value int64
	}{
		{"frame limit", o.MaxFrame}, {"memory limit", o.MemoryLimit}, {"number in flight", int64(o.MaxInFlight)},
		{"hang time", int64(o.HangAfter)}, {"start timeout", int64(o.StartTimeout)}, {"close grace", int64(o.CloseGrace)},
		{"number of deaths", int64(o.MaxDeaths)}, {"death window", int64(o.DeathWindow)},
		{"backoff", int64(o.Backoff)}, {"greatest backoff", int64(o.MaxBackoff)}, {"number of retries", int64(o.Retries)},
	} {
		if number.value < 0 {
			return nil, &device.ArgumentError{Op: "kernelprocess: new pool", Got: fmt.Sprintf("a %s of %d", number.what, number.value), Want: "at least 0"}
		}
	}
	setDefault(&o.MaxInFlight, 64)
	setDefault(&o.HangAfter, 30*time.Second)
	setDefault(&o.StartTimeout, 30*time.Second)
	setDefault(&o.CloseGrace, 5*time.Second)
	setDefault(&o.MaxDeaths, 5)
	setDefault(&o.DeathWindow, time.Minute)
	setDefault(&o.Backoff, 100*time.Millisecond)
	setDefault(&o.MaxBackoff, 5*time.Second)
	o.MaxBackoff = max(o.MaxBackoff, o.Backoff)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	p := &Pool{options: o, pair: shm.Pair, cores: map[key]*core{}}
	var err error
	if p.program, p.args, err = findProgram(o.Program); err != nil {
		return nil, err
	}
	return p, nil
}

func setDefault[T comparable](value *T, standard T) {
	var zero T
	if *value == zero {
		*value = standard
	}
}

// findProgram returns the program to start and its first argument.
func findProgram(given string) (program string, args []string, err error) {
	arguments := []string{"process"}
	if given != "" {
		if program, err = exec.LookPath(given); err != nil {
			return "", nil, fmt.Errorf("%w: %w", ErrNoProgram, err)
		}
		return program, arguments, nil
	}
	if hasMain.Load() {
		program, err := spawn.Self()
		return program, []string{processArgument}, err
	}
	name := "tokitai"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, arguments, nil
		}
	}
	program, err = exec.LookPath(name)
	if err != nil {
		return "", nil, fmt.Errorf("%w: this one has not called kernelprocess.Main, and there is no %s beside it or on the path: %w", ErrNoProgram, name, err)
	}
	return program, arguments, nil
}

// Open returns a device, such as "cpu" or "cuda:0", that computes in a kernel process. Devices
// of one name and group share a process, which is started when it is first needed.
func (p *Pool) Open(name, group string) (*Device, error) {
	if p == nil || p.cores == nil {
		return nil, &device.ArgumentError{Op: "kernelprocess: open " + name, Got: "a pool that is nil or empty", Want: "one that NewPool made"}
	}
	if _, _, err := backends.Parse(name); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed {
		return nil, fmt.Errorf("kernelprocess: open %s: pool %w", name, device.ErrClosed)
	}
	k := p.cores[key{name, group}]
	if k == nil || k.isClosed.Load() {
		k = newCore(p, name, group)
		p.cores[key{name, group}] = k
	}
	return k.shared, nil
}

// Close ends all processes, each when its calls in progress are done or after
// Options.CloseGrace. All devices are closed from then on.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.isClosed = true
	var all []*core
	for _, k := range p.cores {
		all = append(all, k)
	}
	p.mu.Unlock()
	errs := make([]error, len(all))
	var closing sync.WaitGroup
	for i, k := range all {
		closing.Go(func() { errs[i] = k.close() })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// forget removes a closed device, so that it can be opened again.
func (p *Pool) forget(k *core) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cores[key{k.device, k.group}] == k && !p.isClosed {
		delete(p.cores, key{k.device, k.group})
	}
}

// limit is a limit; 0 is none.
func limit(bytes int64) int64 {
	if bytes == 0 {
		return math.MaxInt64
	}
	return bytes
}
