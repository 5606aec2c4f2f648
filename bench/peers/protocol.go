package peers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"tokitai/kernelprocess/spawn"
)

// A peer reads one request per line from its standard input and writes one answer per line
// to its standard output, both as JSON. Before the first request it introduces itself. It
// ends at the end of its input.

// Introduction is a peer's first line.
type Introduction struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Details []string `json:"details,omitempty"` // libraries beneath it
	Threads int      `json:"threads"`
	Missing string   `json:"missing,omitempty"` // why the library cannot be used; the peer then ends
}

// Request is a line to a peer. Do selects what is asked:
//
//	prepare  loads the operands of a case, in place of those of the one before
//	check    computes once from the original values and returns some rows of the outputs
//	run      times calls, one set of operands after another
//	release  frees the operands
type Request struct {
	Do string `json:"do"`

	// For prepare.
	Op       string              `json:"op,omitempty"`
	Operands map[string]*Operand `json:"operands,omitempty"`
	Result   string              `json:"result,omitempty"` // the first output
	Params   map[string]float64  `json:"params"`           // as people set them
	Sets     int                 `json:"sets,omitempty"`   // of operands, with equal values in different memory

	// For check: by output, the rows to return.
	Rows map[string][]int `json:"rows,omitempty"`

	// For run: how many times to measure, and the calls of one measurement. For prepare
	// Calls is what a peer may use to choose between forms.
	Repeat int `json:"repeat,omitempty"`
	Calls  int `json:"calls,omitempty"`
}

// Operand describes an operand of a case.
type Operand struct {
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
	File  string `json:"file"` // raw little-endian values; "" for an output
}

// Answer is a line from a peer.
type Answer struct {
	Form        string            `json:"form,omitempty"` // how the library is called
	NS          []int64           `json:"ns,omitempty"`   // of each measurement
	Outputs     map[string][]byte `json:"outputs,omitempty"`
	IsOwn       bool              `json:"own,omitempty"`         // the results follow from random words of the peer's own, and are not compared
	Unsupported string            `json:"unsupported,omitempty"` // why the library cannot compute the case
	Error       string            `json:"error,omitempty"`
}

// unsupportedError says why a party cannot compute a case.
type unsupportedError struct{ reason string }

func (e *unsupportedError) Error() string { return e.reason }

// child is a peer that runs.
type child struct {
	Introduction
	process *spawn.Child
	out     *bufio.Reader
}

// startTime is how long a peer may take until it introduces itself, answerTime how long it
// may take for an answer. Both are far beyond what is needed, and mean that it hangs.
const (
	startTime  = 2 * time.Minute
	answerTime = 5 * time.Minute
)

// start starts a peer and waits for its introduction.
func start(ctx context.Context, spec spawn.Spec) (*child, error) {
	spec.HasPipes = true
	p, err := spawn.Start(spec)
	if err != nil {
		return nil, err
	}
	c := &child{process: p, out: bufio.NewReaderSize(p.Stdout(), 1<<20)}
	line, err := c.read(ctx, startTime)
	if err == nil {
		err = json.Unmarshal(line, &c.Introduction)
	}
	if err == nil && c.Missing != "" {
		err = errors.New(c.Missing)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// ask sends a request and returns the answer.
func (c *child) ask(ctx context.Context, r *Request) (*Answer, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if _, err := c.process.Stdin().Write(append(line, '\n')); err != nil {
		return nil, c.died(err)
	}
	if line, err = c.read(ctx, answerTime); err != nil {
		return nil, err
	}
	a := &Answer{}
	switch err := json.Unmarshal(line, a); {
	case err != nil:
		return nil, fmt.Errorf("%s answered %.100q: %w", c.Name, line, err)
	case a.Unsupported != "":
		return nil, &unsupportedError{a.Unsupported}
	case a.Error != "":
		return nil, fmt.Errorf("%s: %s", c.Name, a.Error)
	}
	return a, nil
}

// read reads a line. When the context ends or the time is over, the peer is killed.
func (c *child) read(ctx context.Context, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.process.Kill() })
	defer stop()
	line, err := c.out.ReadBytes('\n')
	switch {
	case err == nil:
		return bytes.TrimSpace(line), nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, c.died(err)
}

// died returns why a peer does not answer.
func (c *child) died(err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	if err := c.process.Close(closeTime); err != nil {
		return err
	}
	return errors.New("the peer ended without an answer")
}

// closeTime is how long a peer may take to end.
const closeTime = 2 * time.Second

func (c *child) close() {
	if c != nil {
		c.process.Close(closeTime)
	}
}

// floats decodes binary32 values.
func floats(raw []byte) []float32 {
	values := make([]float32, len(raw)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return values
}
