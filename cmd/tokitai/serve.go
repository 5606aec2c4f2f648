package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tokitai/answer"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/kernelprocess/spawn"
	"tokitai/serve"
	"tokitai/train"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	modelFlags
	listen, keyFile, cert, key, log, name string
	limits                                answer.Limits
	options                               serve.Options
	grace                                 time.Duration
	connections, fd                       int
	isIsolated                            bool
}

func newServe() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve MODEL",
		Short: "answer requests for a model over HTTP, as OpenAI's API does",
		Long: `Answer requests for a model over HTTP, as OpenAI's API does: /v1/completions,
/v1/chat/completions (for a model with a chat template) and /v1/models, streams included. MODEL
is what 'tokitai generate' takes. A page for people is at /.

A network of features is served at /infer, for one row, {"features": [1, 0.5]}, or several,
{"batch": [[1, 0.5], [0, 2]]}, and answers with logits and router_weights. Without --listen it
listens on TOKITAI_MODEL_BIND_ADDR, or 127.0.0.1:9100.

An answer has the same bits whatever else is being answered. Each has a receipt, from which
'tokitai replay' computes it again.

The server listens on this machine alone unless --listen says otherwise. With --key-file,
requests need one of the keys in that file, which has one in each line. With --tls-cert and
--tls-key it speaks HTTPS. SIGTERM and SIGINT stop it: no more requests are taken, and those
that are under way have the time of --grace to end; a second signal ends it at once.

With --isolate another process has the model and the device. If it ends, by a fault of the
device or of itself, requests that are under way get an error 502, and it is started again.

Standard output has one line, with the address, when the server is ready. Standard error has
the log.`,
		Example: `  tokitai serve run --listen 127.0.0.1:8000
  tokitai serve run --listen 0.0.0.0:8443 --key-file keys.txt --tls-cert cert.pem --tls-key key.pem`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return wrongUse("no model given, want a folder or a checkpoint")
			}
			return noMore(args[1:])
		},
		ValidArgsFunction: oneFile,
		RunE:              func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	f.limits, f.options = answer.DefaultLimits, serve.DefaultOptions
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8000", "listen on `ADDRESS`; port 0 takes a free one")
	flags.StringVar(&f.name, "name", "", "the model's `NAME` in requests (default: that of its folder or file)")
	flags.StringVar(&f.keyFile, "key-file", "", "want one of the API keys in `FILE`")
	flags.StringVar(&f.cert, "tls-cert", "", "speak HTTPS with the certificate in `FILE`")
	flags.StringVar(&f.key, "tls-key", "", "and its private key in `FILE`")
	flags.IntVar(&f.limits.Sequences, "sequences", f.limits.Sequences, "compute `N` answers together")
	flags.IntVar(&f.limits.Tokens, "step-tokens", f.limits.Tokens, "compute at most `N` tokens in a step")
	flags.IntVar(&f.limits.Pages, "pages", 0, "keep keys and values in `N` pages (default: as many as the answers can fill)")
	flags.IntVar(&f.limits.PageSize, "page-size", f.limits.PageSize, "of `N` tokens: 16, 32, 64, 128 or 256")
	flags.BoolVar(&f.limits.NoReuse, "no-reuse", false, "compute every prompt from its beginning; changes no bit")
	flags.IntVar(&f.options.Guesses, "guess", f.options.Guesses, "guess `N` tokens at a time, by --draft or from what repeats; changes no bit")
	flags.IntVar(&f.limits.Waiting, "waiting", f.limits.Waiting, "let at most `N` answers wait; refuse others with 429")
	flags.DurationVar(&f.limits.Queued, "waiting-time", time.Minute, "let them wait at most for `TIME`")
	flags.IntVar(&f.options.MaxTokens, "max-tokens", f.options.MaxTokens, "end every answer after `N` tokens")
	flags.Int64Var(&f.options.MaxBody, "max-body", f.options.MaxBody, "refuse requests of more than `BYTES`")
	flags.DurationVar(&f.options.MaxTime, "max-time", f.options.MaxTime, "end every answer after `TIME`")
	flags.IntVar(&f.connections, "connections", 512, "hold at most `N` connections")
	flags.DurationVar(&f.grace, "grace", 30*time.Second, "after a signal, let answers end for `TIME`")
	flags.BoolVar(&f.isIsolated, "isolate", false, "compute in a process of its own, which is started again when it ends")
	flags.IntVar(&f.fd, "fd", 0, "listen on the inherited socket with descriptor `N`, until standard input ends")
	flags.StringVar(&f.log, "log", "json", "`FORMAT` of the log: json, text or none")
	f.modelFlags.add(c)
	registerProgress(c)
	c.RegisterFlagCompletionFunc("log", cobra.FixedCompletions([]string{"json", "text", "none"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (f *serveFlags) run(c *cobra.Command, path string) error {
	endsItself.Store(true)
	defer endsItself.Store(false)
	var err error
	switch {
	case (f.cert == "") != (f.key == ""):
		return wrongUse("--tls-cert and --tls-key belong together")
	case f.connections < 1 || f.options.MaxBody < 1 || f.options.MaxTokens < 1 || f.options.MaxTime <= 0 || f.grace < 0 || f.options.Guesses < 0:
		return wrongUse("--connections, --max-body, --max-tokens and --max-time want at least 1, --grace and --guess at least 0")
	}
	if f.options.Log, err = f.logger(c.ErrOrStderr()); err != nil {
		return err
	}
	if f.options.Keys, err = readKeys(f.keyFile); err != nil {
		return err
	}
	var secure *tls.Config
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return wrongUse("--tls-cert, --tls-key: %v", err)
		}
		secure = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	isOfFeatures := train.IsOfFeatures(path)
	if isOfFeatures && !c.Flags().Changed("listen") {
		f.listen = cmp.Or(os.Getenv("TOKITAI_MODEL_BIND_ADDR"), featuresAddress)
	}
	if f.isIsolated {
		return f.isolate(c, path, secure)
	}
	if isOfFeatures {
		return f.serveFeatures(c, path, secure)
	}
	f.limits.Widen()
	return f.withModel(c, path, func(q *engine.Queue, m *answer.Model) error {
		if f.name != "" {
			m.Name = f.name
		}
		e, err := answer.NewEngine(q, m, f.limits)
		if err != nil {
			return err
		}
		defer e.Close()
		s := serve.New(e, f.options)
		err = f.serve(c, m.Name, s, secure, e.Lost())
		select {
		case <-e.Lost():
			return errors.Join(err, device.ErrLost)
		default:
			return err
		}
	})
}

// featuresAddress is where networks of features listen, unless the environment or a flag says otherwise.
const featuresAddress = "127.0.0.1:9100"

// serveFeatures answers with a network of features.
func (f *serveFlags) serveFeatures(c *cobra.Command, path string, secure *tls.Config) error {
	if err := checkDevice(f.device); err != nil {
		return err
	}
	return withQueue(c, f.device, func(q *engine.Queue) error {
		start, err := train.ReadStart(q.Device(), path)
		if err != nil {
			return err
		}
		p, err := train.NewPredictor(q, start, inferredRows)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		defer p.Close()
		name := cmp.Or(f.name, filepath.Base(path))
		return f.serve(c, name, serve.NewFeatures(name, p, start.Features.Inputs, f.options), secure, nil)
	})
}

// isolate has another process compute.
func (f *serveFlags) isolate(c *cobra.Command, path string, secure *tls.Config) error {
	program, err := spawn.Self()
	if err != nil {
		return err
	}
	spec := spawn.Spec{Program: program, Name: os.Args[0], Args: []string{"serve", path, fmt.Sprintf("--fd=%d", serve.ChildSocket)}, Stderr: c.ErrOrStderr()}
	c.Flags().Visit(func(flag *pflag.Flag) {
		switch flag.Name {
		case "isolate", "fd", "listen", "tls-cert", "tls-key", "connections": // of this process
		default:
			spec.Args = append(spec.Args, "--"+flag.Name+"="+flag.Value.String())
		}
	})
	s, said, err := serve.Isolate(c.Context(), spec, f.options)
	if ended, ok := errors.AsType[*spawn.ExitError](err); ok {
		return &verdictError{max(exitFailed, ended.Code), err}
	}
	if err != nil {
		return err
	}
	defer s.Close()
	name, _, _ := strings.Cut(said, " on ")
	return f.serve(c, name, s, secure, nil)
}

// handler answers requests until it is stopped.
type handler interface {
	http.Handler
	Stop()
	End() // what is under way
}

// listener returns what the server listens on, and its address.
func (f *serveFlags) listener(secure *tls.Config) (l net.Listener, address string, err error) {
	if f.fd > 0 {
		l, err = serve.Inherited(f.fd)
	} else {
		l, err = net.Listen("tcp", f.listen)
	}
	if err != nil {
		return nil, "", wrongUse("--listen, --fd: %v", err)
	}
	address = "http://" + l.Addr().String()
	l = &limitedListener{Listener: l, free: make(chan struct{}, f.connections), closed: make(chan struct{})}
	if secure != nil {
		address, l = "https://"+l.Addr().String(), tls.NewListener(l, secure)
	}
	return l, address, nil
}

// serve answers requests until the context ends, or the device is lost.
func (f *serveFlags) serve(c *cobra.Command, name string, h handler, secure *tls.Config, lost <-chan struct{}) error {
	listener, address, err := f.listener(secure)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	if f.fd > 0 {
		go func() {
			io.Copy(io.Discard, c.InOrStdin())
			cancel()
		}()
	}
	server := serve.HTTP(h, f.options.Log)
	w := c.OutOrStdout()
	fmt.Fprintf(w, "%s on %s\n", name, address)
	flush(w)
	f.options.Log.Info("ready", "model", name, "address", address, "device", f.device, "keys", len(f.options.Keys))
	endsItself.Store(true) // answers that are under way end; --grace limits that
	defer endsItself.Store(false)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-lost:
		f.options.Log.Error("the device is lost")
	case <-ctx.Done():
	}
	h.Stop()
	f.options.Log.Info("stopping")
	err = f.shutdown(c, server, f.grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = &verdictError{exitFailed, fmt.Errorf("answers did not end within %v", f.grace)}
		h.End()
		f.shutdown(c, server, time.Second) // until their clients have been told
	}
	server.Close()
	f.options.Log.Info("stopped")
	return err
}

// shutdown lets the requests of a server end for a time.
func (f *serveFlags) shutdown(c *cobra.Command, server *http.Server, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), limit)
	defer cancel()
	return server.Shutdown(ctx)
}

// logger returns the logger of the server.
func (f *serveFlags) logger(w io.Writer) (*slog.Logger, error) {
	switch f.log {
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil)), nil
	case "text":
		return slog.New(slog.NewTextHandler(w, nil)), nil
	case "none":
		return slog.New(slog.DiscardHandler), nil
	}
	return nil, unknownName("--log", f.log, []string{"json", "text", "none"})
}

// readKeys reads a file of API keys: one in each line, empty lines and those that begin with # left out.
func readKeys(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var keys []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			keys = append(keys, line)
		}
	}
	if len(keys) == 0 {
		return nil, wrongUse("--key-file: %s has no keys", path)
	}
	return keys, nil
}

// limitedListener holds a limited number of connections. Others wait to be accepted.
type limitedListener struct {
	net.Listener
	free   chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.free <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { <-l.free })}, nil
}

func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
