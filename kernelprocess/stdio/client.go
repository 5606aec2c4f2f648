package stdio

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
)

// ErrBroken is returned by a Client after an error on its stream: what follows on the stream
// belongs to no request.
var ErrBroken = errors.New("the connection is broken")

// ReplyError reports a malformed response.
type ReplyError struct {
	Kernel string
	Reason string
	Cause  error
}

func (e *ReplyError) Error() string {
	text := e.Kernel + ": the answer " + e.Reason
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

func (e *ReplyError) Unwrap() error { return e.Cause }

// Client sends framed requests to a server. Its methods are safe for concurrent use; calls
// take turns. It knows no process: whoever started one closes the client when it has died.
type Client struct {
	r     io.Reader
	w     io.Writer
	close func() error

	turn   chan struct{} // has one element when nobody has the turn
	broken error         // belongs to whoever has the turn
}

// NewClient returns a client that reads responses from r and writes requests to w. The function
// close must end a read or a write in progress. It is called once: by Client.Close, or when
// a call is canceled or fails.
func NewClient(r io.Reader, w io.Writer, close func() error) *Client {
	c := &Client{r: r, w: w, close: sync.OnceValue(close), turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c
}

// Close ends the connection, and with it calls in progress.
func (c *Client) Close() error { return c.close() }

// Do sends a request and returns its response. An *Error is the response of the server, and
// the client can still be used. After any other error the connection is closed, unless the
// request was not sent: its context ended before its turn, or it is invalid.
func (c *Client) Do(ctx context.Context, q *Request) (*Response, error) {
	if q == nil {
		return nil, errors.New("the request is nil")
	}
	k, f, err := q.form(math.MaxInt64)
	if err != nil {
		return nil, fmt.Errorf("the request was not sent: %w", err)
	}
	frame, err := q.AppendTo(make([]byte, 4))
	if err == nil && len(frame)-4 > math.MaxUint32 {
		err = refuse(k.sizeCode, "the request has %d bytes, more than a frame can", len(frame)-4)
	}
	if err != nil {
		return nil, fmt.Errorf("the request was not sent: %w", err)
	}
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-4))
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.turn:
	}
	defer func() { c.turn <- struct{}{} }()
	if c.broken != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, c.broken)
	}
	stop := context.AfterFunc(ctx, func() { c.close() })
	r, err := c.exchange(k, f, q.IsBinary, frame)
	isCanceled := !stop()
	_, isAnswer := errors.AsType[*Error](err)
	switch {
	case err == nil || isAnswer:
		if isCanceled { // too late for this call
			c.broken = context.Cause(ctx)
		}
		return r, err
	case isCanceled:
		err = fmt.Errorf("%s: %w", k.name, context.Cause(ctx))
	}
	c.broken = err
	c.close()
	return nil, err
}

func (c *Client) exchange(k *kernel, f *form, isBinary bool, frame []byte) (*Response, error) {
	if _, err := c.w.Write(frame); err != nil {
		return nil, fmt.Errorf("%s: writing the request: %w", k.name, err)
	}
	payload, err := readFrame(c.r, f.mostBytes(isBinary))
	if err != nil {
		return nil, &ReplyError{Kernel: k.name, Reason: "cannot be read", Cause: err}
	}
	return parseResponse(k, f, isBinary, payload)
}

// readFrame reads a frame of at most that many bytes. Memory grows as bytes arrive.
func readFrame(r io.Reader, most int64) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("length: %w", err)
	}
	n := int64(binary.LittleEndian.Uint32(length[:]))
	if n > most {
		return nil, fmt.Errorf("a length of %d bytes, want at most %d", n, most)
	}
	var payload []byte
	for int64(len(payload)) < n {
		payload = room(payload, int(n))
		k, err := r.Read(payload[len(payload):min(cap(payload), int(n))])
		payload = payload[:len(payload)+k]
		if err == io.EOF && int64(len(payload)) < n {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && int64(len(payload)) < n {
			return nil, fmt.Errorf("%d of %d bytes: %w", len(payload), n, err)
		}
	}
	return payload, nil
}
