package kernelprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strconv"
	"strings"
	"time"

	"tokitai/device"
	"tokitai/kernelprocess/protocol"
	"tokitai/kernelprocess/shm"
	"tokitai/kernelprocess/spawn"
)

const (
	// lastRepliesWait is how long the replies of a process that has ended are read. It takes
	// that long only if a process that it started is still running.
	lastRepliesWait = time.Second

	// exitWait is how long a process may run after it has closed its stream.
	exitWait = time.Second
)

// child is a kernel process.
type child struct {
	conn     *conn
	process  *spawn.Child
	welcome  protocol.Welcome // once it is ready
	isReady  bool             // under the core's mutex
	isBuried chan struct{}    // closed when its death is known to everybody
	death    error            // once buried
}

// attempt is a start of a process that several calls may wait for.
type attempt struct {
	now   chan struct{} // closed where the delay is not waited for
	done  chan struct{}
	child *child
	err   error
}

// hurry ends the delay before the start. The caller holds the core's mutex.
func (a *attempt) hurry() {
	select {
	case <-a.now:
	default:
		close(a.now)
	}
}

// running returns the process, and starts one if there is none.
func (k *core) running(ctx context.Context) (*child, error) {
	for {
		k.mu.Lock()
		switch {
		case k.isClosed.Load():
			k.mu.Unlock()
			return nil, k.closedError()
		case k.child != nil && k.child.conn.cause() == nil:
			c := k.child
			k.mu.Unlock()
			return c, nil
		case k.child != nil: // it is dying
			dying := k.child.isBuried
			k.mu.Unlock()
			select {
			case <-dying:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			continue
		case k.isRefused:
			err := &RefusedError{Device: k.name, Deaths: len(k.deaths), Within: k.options.DeathWindow, Last: k.lastDeath}
			k.mu.Unlock()
			return nil, err
		}
		a := k.attempt
		if a == nil {
			a = &attempt{now: make(chan struct{}), done: make(chan struct{})}
			k.attempt = a
			k.starts.Go(func() { k.start(a) })
		}
		k.mu.Unlock()
		select {
		case <-a.done:
			return a.child, a.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// start makes an attempt after its delay.
func (k *core) start(a *attempt) {
	k.mu.Lock()
	delay := time.Until(k.notBefore())
	k.mu.Unlock()
	select {
	case <-time.After(delay):
		a.child, a.err = k.launch()
	case <-a.now:
		a.child, a.err = k.launch()
	case <-k.closing:
		a.err = k.closedError()
	}
	k.mu.Lock()
	k.attempt = nil
	k.mu.Unlock()
	close(a.done)
}

// notBefore returns when a process may be started: the more have died recently, the later.
func (k *core) notBefore() time.Time {
	if len(k.deaths) == 0 {
		return time.Time{}
	}
	last := k.deaths[len(k.deaths)-1]
	delay := k.options.Backoff
	for _, d := range k.deaths[:len(k.deaths)-1] {
		if last.Sub(d) <= k.options.DeathWindow {
			delay = min(2*delay, k.options.MaxBackoff)
		}
	}
	return last.Add(delay)
}

// launch starts a process and makes the handshake.
func (k *core) launch() (*child, error) {
	spec := spawn.Spec{Program: k.pool.program, Args: k.pool.args, Stderr: k.options.Stderr}
	spec.Args = append(spec.Args[:len(spec.Args):len(spec.Args)], "--device", k.device)
	flag := func(name string, value int64) {
		if value > 0 {
			spec.Args = append(spec.Args, name, strconv.FormatInt(value, 10))
		}
	}
	flag("--max-frame", k.options.MaxFrame)
	flag("--memory-limit", k.options.MemoryLimit)

	var s stream
	socket, file, err := k.pool.pair()
	switch {
	case errors.Is(err, shm.ErrUnsupported):
		spec.HasPipes = true
		spec.Args = append(spec.Args, "--stdio")
	case err != nil:
		return nil, k.notStarted(err)
	default:
		s, spec.Socket, spec.Host = socket, file, socket
		spec.Args = append(spec.Args, "--fd", "3")
	}
	p, err := spawn.Start(spec)
	if err != nil {
		if spec.Host != nil {
			spec.Host.Close()
		}
		return nil, k.notStarted(err)
	}
	if s == nil {
		s = pipes{p}
	}
	c := &child{process: p, conn: newConn(s, k.settled), isBuried: make(chan struct{})}
	k.starts.Go(func() { k.supervise(c) })

	hello := newRequest(protocol.KindHello)
	hello.frame = (&protocol.Hello{Lowest: protocol.Version, Highest: protocol.Version, Client: "tokitai kernelprocess"}).Append(hello.frame)
	if c.conn.send(hello, -1) == nil {
		select {
		case <-hello.done:
		case <-time.After(k.options.StartTimeout):
			c.conn.fail(fmt.Errorf("%w: got nothing within %v", errSilent, k.options.StartTimeout))
			<-hello.done
		case <-k.closing:
			c.conn.fail(device.ErrClosed)
			<-hello.done
		}
		if err = hello.err; err == nil {
			c.welcome, err = protocol.ParseWelcome(hello.body)
			c.welcome.HasArenas = c.welcome.HasArenas && !k.options.Inline
		}
		if err == nil && c.welcome.Version != protocol.Version {
			err = misbehaved(fmt.Sprint(protocol.Version), "version %d", c.welcome.Version)
		}
		if err == nil && k.enter(c) {
			return c, nil
		}
	}
	if err == nil { // the host is closing, unless the process has failed already
		err = device.ErrClosed
	}
	c.conn.fail(err)
	<-c.isBuried
	return nil, k.because(c.death, err)
}

// because adds the last words of a process that ended by itself to its error.
func (k *core) because(death, said error) error {
	died, ok := death.(*DiedError)
	if !ok || died.Cause != nil || errors.Is(said, ErrDied) || errors.Is(said, device.ErrClosed) {
		return death
	}
	whole := *died
	whole.Cause = said
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lastDeath == death {
		k.lastDeath = &whole
	}
	return &whole
}

// enter makes a process the current one after its handshake.
func (k *core) enter(c *child) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.isClosed.Load() || c.conn.cause() != nil {
		return false
	}
	c.isReady = true
	k.child = c
	k.description = c.welcome
	k.stats.starts.Add(1)
	return true
}

// notStarted counts a process that could not be started as dead.
func (k *core) notStarted(err error) error {
	death := &DiedError{Device: k.name, Group: k.group, Program: k.pool.program, Cause: err, InStart: true}
	k.mu.Lock()
	k.count(death)
	k.mu.Unlock()
	k.logDeath(death)
	return death
}

// supervise waits for the end of the process, kills it if necessary, and fails its requests.
func (k *core) supervise(c *child) {
	defer close(c.isBuried)
	select {
	case <-c.conn.failed:
	case <-c.process.Done():
		select {
		case <-c.conn.readerDone:
		case <-time.After(lastRepliesWait):
		}
		c.conn.fail(io.EOF)
	}
	cause := c.conn.cause()
	grace := time.Duration(0)
	switch {
	case errors.Is(cause, device.ErrClosed):
		grace = k.options.CloseGrace
	case isEnd(cause):
		cause = nil
		select {
		case <-c.process.Done():
		case <-time.After(exitWait):
			cause = errClosedStream
		}
	}
	c.process.Close(grace) // with the stream
	<-c.conn.readerDone
	<-c.conn.writerDone

	status := c.process.Status()
	death := &DiedError{Device: k.name, Group: k.group, Program: k.pool.program, PID: status.PID,
		Exit: exitText(status), LastWords: strings.Join(status.LastWords, " | "), Cause: cause}
	k.mu.Lock()
	death.InStart = !c.isReady
	switch {
	case errors.Is(cause, device.ErrClosed):
		c.death = k.closedError()
	default:
		c.death = death
		k.count(death)
	}
	if k.child == c {
		k.child = nil
	}
	k.mu.Unlock()
	if c.death == error(death) {
		k.logDeath(death)
	}
	c.conn.bury(c.death)
}

// count counts a death. After too many, no process is started any more.
func (k *core) count(death *DiedError) {
	now := time.Now()
	recent := k.deaths[:0]
	for _, d := range k.deaths {
		if now.Sub(d) <= k.options.DeathWindow {
			recent = append(recent, d)
		}
	}
	k.deaths = append(recent, now)
	k.lastDeath = death
	k.isRefused = len(k.deaths) >= k.options.MaxDeaths
	k.stats.deaths.Add(1)
}

func (k *core) logDeath(death *DiedError) {
	k.options.Log.Warn("kernel process died", "device", k.device, "group", k.group, "pid", death.PID, "exit", death.Exit,
		"cause", death.Cause, "last_words", death.LastWords)
}

// isEnd reports whether a stream failed because the other side is gone.
func isEnd(err error) bool {
	if _, is := errors.AsType[*net.OpError](err); is { // of a socket
		return true
	}
	if _, is := errors.AsType[*fs.PathError](err); is { // of a pipe
		return true
	}
	return errors.Is(err, io.EOF)
}

func exitText(status *spawn.ExitError) string {
	switch {
	case status.Cause != nil:
		return status.Cause.Error()
	case status.Signal != nil:
		return "signal: " + status.Signal.String()
	}
	return fmt.Sprintf("exit status %d", status.Code)
}

// pipes is the standard input and output of a process as a stream.
type pipes struct{ process *spawn.Child }

func (p pipes) Read(b []byte) (int, error) { return p.process.Stdout().Read(b) }

func (p pipes) Write(b []byte, fds ...int) (int, error) { return p.process.Stdin().Write(b) }

func (p pipes) WriteBuffers(buffers net.Buffers, fds ...int) (n int64, err error) {
	for _, b := range buffers {
		written, err := p.process.Stdin().Write(b)
		if n += int64(written); err != nil {
			return n, err
		}
	}
	return n, nil
}
