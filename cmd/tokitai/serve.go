package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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
	s, name, err := serve.Isolate(c.Context(), spec, f.options)
	if ended, ok := errors.AsType[*spawn.ExitError](err); ok {
		return &verdictError{max(exitFailed, ended.Code), err}
	}
	if err != nil {
		return err
	}
	defer s.Close()
	return f.serve(c, name, s, secure, nil)
}

// handler answers requests until it is stopped.
type handler interface {
	http.Handler
	Stop() <-chan struct{}
	End() // what is under way
}

// listener returns what the server listens on.
func (f *serveFlags) listener() (l net.Listener, err error) {
	if f.fd > 0 {
		l, err = serve.Inherited(f.fd)
	} else {
		l, err = net.Listen("tcp", f.listen)
	}
	if err != nil {
		return nil, wrongUse("--listen, --fd: %v", err)
	}
	return l, nil
}

// serve answers requests until the context ends, or the device is lost.
func (f *serveFlags) serve(c *cobra.Command, name string, h handler, secure *tls.Config, lost <-chan struct{}) error {
	listener, err := f.listener()
	if err != nil {
		return err
	}
	address := "http://" + listener.Addr().String()
	if secure != nil {
		address = "https://" + listener.Addr().String()
	}
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	w := c.OutOrStdout()
	fmt.Fprintf(w, "%s on %s\n", name, address)
	flush(w)
	if f.fd > 0 {
		f.connections = math.MaxInt // as many as the server that passes them on
		go func() {
			io.Copy(io.Discard, c.InOrStdin())
			cancel()
		}()
		if s, ok := h.(*serve.Server); ok {
			go s.Report(ctx, flushed{w})
		}
	}
	server, ended := serve.Serve(h, listener, f.connections, secure, f.options.Log)
	f.options.Log.Info("ready", "model", name, "address", address, "device", f.device, "keys", len(f.options.Keys))
	endsItself.Store(true) // answers that are under way end; --grace limits that
	defer endsItself.Store(false)
	select {
	case err := <-ended:
		return err
	case <-lost:
		f.options.Log.Error("the device is lost")
	case <-ctx.Done():
	}
	f.options.Log.Info("stopping")
	done := h.Stop()
	select {
	case <-done:
	case <-time.After(f.grace):
		err = &verdictError{exitFailed, fmt.Errorf("answers did not end within %v", f.grace)}
		h.End()
	}
	closing, end := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // until clients have been told
	defer end()
	server.Shutdown(closing)
	server.Close()
	f.options.Log.Info("stopped")
	return err
}

// flushed flushes whatever is written.
type flushed struct{ w io.Writer }

func (f flushed) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	flush(f.w)
	return n, err
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
