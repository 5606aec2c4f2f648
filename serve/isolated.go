package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tokitai/internal/leftover"
	"tokitai/kernelprocess/spawn"
)

// ChildSocket is the descriptor on which the process of an Isolated accepts connections.
const ChildSocket = 3

// Isolated passes requests on to a process that answers them, and starts that again when it ends: a fault of the
// device, or of the process, costs the requests that are under way. Others wait in the socket, which stays open, for
// the next process.
//
// The counters of its metrics are those of all processes, and never run backwards.
type Isolated struct {
	gate
	spec      spawn.Spec
	remove    func() // the folder of the socket
	socket    *net.UnixListener
	transport *http.Transport
	counts    counts

	isUp    atomic.Bool // the process is ready
	closing chan struct{}
	closed  chan struct{}
	close   func()
}

// Isolate starts a process, which is given a listening socket as descriptor ChildSocket. When it is ready it writes a
// line to its standard output, "NAME on ADDRESS", and Isolate returns the name, that of its model. Then it may tell what its
// engine counts: Server.Report. It has to end with its standard input. The context limits how long Isolate waits for it. Of the
// options, Keys, MaxBody and Log are used here.
func Isolate(ctx context.Context, spec spawn.Spec, o Options) (*Isolated, string, error) {
	folder, remove, err := leftover.Folder("", "tokitai-serve-")
	if err != nil {
		return nil, "", err
	}
	path := filepath.Join(folder, "socket")
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		remove()
		return nil, "", err
	}
	i := &Isolated{gate: newGate(o), spec: spec, remove: remove, socket: socket, closing: make(chan struct{}), closed: make(chan struct{})}
	i.spec.HasPipes, i.close = true, sync.OnceFunc(func() { close(i.closing) })
	i.transport = &http.Transport{
		DisableKeepAlives: true, // a connection of an earlier process is of no use
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}
	handlers := map[string]func(*exchange) error{
		"GET /{$}": i.pass, "GET /health": i.serveHealth, "GET /healthz": i.serveHealth, "/": i.pass,
	}
	for _, pattern := range keyed {
		handlers[pattern] = i.pass
	}
	handlers["GET /metrics"] = i.serveMetrics
	i.handle(handlers)
	defer context.AfterFunc(ctx, i.close)()
	p, err := i.start()
	if err != nil {
		close(i.closed)
		i.Close()
		return nil, "", err
	}
	go i.keep(p)
	return i, p.name, nil
}

// process is one that computes.
type process struct {
	*spawn.Child
	name     string        // of its model
	followed chan struct{} // closed when all that it reports has been read
}

// errEnded is what requests get that were under way when the process ended.
var errEnded = newError(http.StatusBadGateway, "server_error", "process_ended", "the process that computed the answer has ended; another one is started, and the request can be sent again")

// start starts the process, and waits until it is ready.
func (i *Isolated) start() (*process, error) {
	spec := i.spec
	var err error
	if spec.Socket, err = i.socket.File(); err != nil {
		return nil, err
	}
	child, err := spawn.Start(spec)
	if err != nil {
		return nil, err
	}
	isReady := make(chan struct{})
	defer close(isReady)
	go func() {
		select {
		case <-i.closing:
			child.Kill()
		case <-isReady:
		}
	}()
	reports := bufio.NewReader(child.Stdout())
	line, err := reports.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the process that computes: %w", errors.Join(child.Close(0), notEnd(err)))
	}
	name, _, _ := strings.Cut(strings.TrimSpace(line), " on ")
	p := &process{child, name, make(chan struct{})}
	i.isUp.Store(true)
	i.counts.begin()
	go func() {
		defer close(p.followed)
		i.counts.follow(reports)
		i.isUp.Store(false)
	}()
	return p, nil
}

// end ends the process, which may take so long for it, and returns its status.
func (p *process) end(grace time.Duration) error {
	select {
	case <-p.Done():
		select {
		case <-p.followed:
		case <-time.After(time.Second): // another process has its output, too
		}
	default:
	}
	return p.Close(grace)
}

// notEnd returns an error that is not the end of a file.
func notEnd(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// Pauses before a process is started that has ended again and again.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 30 * time.Second
	calm       = time.Minute // a process that has lived so long is no sign of more trouble
)

// endTime is how long the process may take to end when it is asked to.
const endTime = 5 * time.Second

// keep starts the process again whenever it ends.
func (i *Isolated) keep(p *process) {
	defer close(i.closed)
	pause, began := firstPause, time.Now()
	for {
		if p != nil {
			select {
			case <-p.Done():
				i.options.Log.Error("the process that computes has ended", "status", p.end(0))
			case <-i.closing:
				p.end(endTime)
				return
			}
		}
		if time.Since(began) > calm {
			pause = firstPause
		}
		select {
		case <-time.After(pause):
		case <-i.closing:
			return
		}
		pause, began = min(2*pause, lastPause), time.Now()
		var err error
		if p, err = i.start(); err != nil {
			i.options.Log.Error("the process that computes does not start", "error", err)
			continue
		}
		i.options.Log.Info("the process that computes has been started again", "model", p.name, "pid", p.PID())
	}
}

// End ends the process, and with it what is under way.
func (i *Isolated) End() {
	i.close()
	<-i.closed
}

// Close ends the process.
func (i *Isolated) Close() error {
	i.End()
	defer i.remove()
	return i.socket.Close()
}

// serveHealth tells whether requests are answered: they wait while no process is ready.
func (i *Isolated) serveHealth(x *exchange) error {
	switch {
	case i.work.isStopped():
		return errStopping
	case i.isUp.Load():
		return i.pass(x)
	}
	return newError(http.StatusServiceUnavailable, "server_error", "starting", "the process that computes has ended, and another one is being started")
}

// serveMetrics writes what all processes have counted. Requests are counted here, as clients see them.
func (i *Isolated) serveMetrics(x *exchange) error {
	stats, starts := i.counts.stats()
	return i.writeMetrics(x, stats, metric("process_starts_total", "counter", "Processes that were started to compute.", starts))
}

// passed are the members of a request's header that the process needs.
var passed = []string{"Authorization", "Content-Type"}

// pass has the process answer a request.
func (i *Isolated) pass(x *exchange) error {
	url := *x.request.URL
	url.Scheme, url.Host = "http", "process"
	ctx := x.request.Context()
	r, err := http.NewRequestWithContext(ctx, x.request.Method, url.String(), bytes.NewReader(x.body))
	if err != nil {
		return err
	}
	for _, name := range passed {
		r.Header[name] = x.request.Header[name]
	}
	r.Header.Set("X-Forwarded-For", x.request.RemoteAddr)
	r.Header.Set("X-Request-Id", x.id)
	response, err := i.transport.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("%w: %w", errEnded, err)
	}
	defer response.Body.Close()
	response.Header.Del("Connection") // that to the process ends, and not the client's
	maps.Copy(x.Header(), response.Header)
	x.isLogged = true
	x.WriteHeader(response.StatusCode)
	buffer := make([]byte, 32<<10)
	for {
		n, err := response.Body.Read(buffer)
		if n > 0 {
			if err := x.write(buffer[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err == nil:
			continue
		case ctx.Err() != nil:
			return err
		}
		x.isLogged = false
		err = fmt.Errorf("%w: the answer breaks off: %w", errEnded, err)
		if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
			x.isBroken = true
			return err
		}
		x.write(append([]byte("\n\n"), event(map[string]any{"error": errEnded})...))
		return err
	}
}

// Inherited returns the socket that a process has been given as a descriptor.
func Inherited(fd int) (net.Listener, error) {
	f := os.NewFile(uintptr(fd), "socket")
	if f == nil {
		return nil, fmt.Errorf("descriptor %d: want a listening socket", fd)
	}
	defer f.Close()
	return net.FileListener(f)
}
