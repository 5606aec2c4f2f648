package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
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
type Isolated struct {
	spec   spawn.Spec
	most   int64 // bytes of a request
	log    *slog.Logger
	remove func() // the folder of the socket
	socket *net.UnixListener
	proxy  *httputil.ReverseProxy

	isStopping atomic.Bool
	closing    chan struct{}
	closed     chan struct{}
	close      func()
}

// Isolate starts a process, which is given a listening socket as descriptor ChildSocket. When it is ready it writes a
// line to its standard output, which Isolate returns. It has to end with its standard input. The context limits how long
// Isolate waits for it. Of the options, MaxBody and Log are used here.
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
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	i := &Isolated{spec: spec, most: o.MaxBody, log: log, remove: remove, socket: socket, closing: make(chan struct{}), closed: make(chan struct{})}
	i.spec.HasPipes, i.close = true, sync.OnceFunc(func() { close(i.closing) })
	i.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "process"})
			r.SetXForwarded()
		},
		Transport: &http.Transport{
			DisableKeepAlives: true, // a connection of an earlier process is of no use
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			},
		},
		ModifyResponse: func(r *http.Response) error {
			if strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
				r.Body = &streamBody{ReadCloser: r.Body, log: log}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				log.Error("request", "method", r.Method, "path", r.URL.Path, "status", writeError(w, errEnded), "remote", r.RemoteAddr, "error", err.Error())
			}
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, i.close)()
	child, line, err := i.start()
	if err != nil {
		close(i.closed)
		i.Close()
		return nil, "", err
	}
	go i.keep(child)
	return i, line, nil
}

// errEnded is what requests get that were under way when the process ended.
var errEnded = newError(http.StatusBadGateway, "server_error", "process_ended", "the process that computed the answer has ended; another one is started, and the request can be sent again")

// start starts the process, and returns what it says when it is ready.
func (i *Isolated) start() (*spawn.Child, string, error) {
	spec := i.spec
	var err error
	if spec.Socket, err = i.socket.File(); err != nil {
		return nil, "", err
	}
	child, err := spawn.Start(spec)
	if err != nil {
		return nil, "", err
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
	line, err := bufio.NewReader(child.Stdout()).ReadString('\n')
	if err != nil {
		return nil, "", fmt.Errorf("the process that computes: %w", errors.Join(child.Close(0), notEnd(err)))
	}
	return child, strings.TrimSpace(line), nil
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
func (i *Isolated) keep(child *spawn.Child) {
	defer close(i.closed)
	pause, began := firstPause, time.Now()
	for {
		if child != nil {
			select {
			case <-child.Done():
				i.log.Error("the process that computes has ended", "status", child.Close(0))
			case <-i.closing:
				child.Close(endTime)
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
		var line string
		var err error
		if child, line, err = i.start(); err != nil {
			i.log.Error("the process that computes does not start", "error", err)
			continue
		}
		i.log.Info("the process that computes has been started again", "says", line, "pid", child.PID())
	}
}

// Stop takes no more requests.
func (i *Isolated) Stop() { i.isStopping.Store(true) }

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

// ServeHTTP passes a request on.
func (i *Isolated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if i.isStopping.Load() {
		writeError(w, errStopping)
		return
	}
	// The body is read before it is passed on: once a response begins, a transport that still reads it fails.
	body, err := readBody(w, r, i.most)
	if err != nil {
		writeError(w, err)
		return
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	i.proxy.ServeHTTP(&patientWriter{w, http.NewResponseController(w)}, r)
}

// patientWriter gives a client the time to take each part of a response, but not for ever.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w *patientWriter) Write(data []byte) (int, error) {
	w.control.SetWriteDeadline(time.Now().Add(stall))
	return w.ResponseWriter.Write(data)
}

// Unwrap returns the writer below.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// streamBody is a stream of events. If it breaks off, its last event says so.
type streamBody struct {
	io.ReadCloser
	log *slog.Logger
	end io.Reader
}

func (b *streamBody) Read(p []byte) (int, error) {
	if b.end != nil {
		return b.end.Read(p)
	}
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF || errors.Is(err, context.Canceled) {
		return n, err
	}
	b.log.Error("a stream has broken off", "error", err.Error())
	b.end = strings.NewReader("\n\n" + string(event(map[string]any{"error": errEnded})))
	return n, nil
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
