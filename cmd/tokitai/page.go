package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"tokitai/internal/newfile"
	"tokitai/train"
	"tokitai/train/page"
)

func newPage() *cobra.Command {
	var address, out string
	c := &cobra.Command{
		Use:   "page RUN [RUN]",
		Short: "show training runs in a browser",
		Long: `Serve a page of a training run, or of two side by side: loss, validation, norm, rate, speed, the
chain, and the first step in which two runs differ. It shows runs that train, in whatever
process, and finished ones. The path /metrics has the last numbers as text for Prometheus.

With --out, the page is written to a file instead, with everything that the runs have
recorded so far; it needs no server.`,
		Example: `  tokitai page run --out run.html
  tokitai page run other --address 127.0.0.1:8080`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > page.MaxRuns {
				return wrongUse("%d arguments, want 1 or 2: the folder of a run each", len(args))
			}
			return nil
		},
		ValidArgsFunction: completeFolders,
		RunE: func(c *cobra.Command, args []string) error {
			for _, folder := range args {
				if _, err := train.ReadDescription(folder); err != nil {
					return err
				}
			}
			if out != "" {
				if err := newfile.Write(out, func(w io.Writer) error { return page.Write(w, args...) }); err != nil {
					return err
				}
				_, err := fmt.Fprintf(c.OutOrStdout(), "page: %s\n", out)
				return err
			}
			end, err := servePage(c, address, args...)
			if err != nil {
				return err
			}
			<-c.Context().Done()
			end()
			return nil
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&address, "address", "127.0.0.1:8080", "serve the page at `ADDRESS`; port 0 is any free one")
	flags.StringVar(&out, "out", "", "write the page to `FILE`")
	return c
}

// servePage serves the page of runs until end is called, and prints where it is.
func servePage(c *cobra.Command, address string, folders ...string) (end func(), err error) {
	s, err := page.New(folders...)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, wrongUse("the page cannot be served at %s: %v", address, withoutOperation(err))
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	go s.Watch(ctx)
	go server.Serve(listener)
	fmt.Fprintf(c.OutOrStdout(), "page  http://%s/\n", listener.Addr())
	flush(c.OutOrStdout())
	return func() {
		cancel()
		server.Close()
	}, nil
}

// withoutOperation returns what went wrong in an operation of the network, without its name and address.
func withoutOperation(err error) error {
	if e, isOperation := errors.AsType[*net.OpError](err); isOperation {
		return e.Err
	}
	return err
}
