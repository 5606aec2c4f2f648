package child

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"tokitai/device"
	"tokitai/kernelprocess/protocol"
	"tokitai/kernelprocess/shm"
)

// request is a frame that has been read.
type request struct {
	header     protocol.Header
	body       []byte
	held       int64 // of the account, for the body
	descriptor int   // -1 where there is none
	hasSlot    bool  // of server.descriptors
	failure    error // found while it was read: it is answered by it in its turn
	exit       int   // the server then ends with this code, unless it is 0

	isCanceled bool // these two are guarded by server.mu
	cancel     context.CancelFunc
}

func (r *request) fail(err error) {
	if r.failure == nil {
		r.failure = err
	}
}

func (r *request) closeDescriptor() {
	if r.descriptor >= 0 {
		closeDescriptor(r.descriptor)
		r.descriptor = -1
	}
}

const (
	inputBytes = 64 << 10  // of the reader's buffer
	firstPiece = 256 << 10 // of a body: its memory grows as its bytes arrive
	maxHello   = 8 << 10   // the longest body of a HELLO
)

// read reads frames until the connection ends.
func (s *server) read() {
	in := bufio.NewReaderSize(s.in, inputBytes)
	code, err := s.readAll(in)
	if s.socket == nil { // what has been read is answered first
		close(s.waiting)
		select {
		case <-s.drained:
			s.replies.flush()
		case <-s.ended:
		}
	}
	s.finish(code, err)
}

func (s *server) readAll(in *bufio.Reader) (code int, err error) {
	for isFirst := true; ; isFirst = false {
		header, err := readHeader(in)
		if err != nil {
			return codeOf(err)
		}
		if refusal := refusalOf(header, isFirst); refusal != nil {
			return s.refuse(header, refusal)
		}
		if header.Kind == protocol.KindCancel && header.Length == 8 && header.Descriptors == 0 && header.Request != 0 {
			var body [8]byte
			if _, err := io.ReadFull(in, body[:]); err != nil {
				return codeOf(err)
			}
			number, _ := protocol.ParseNumber(body[:])
			s.cancel(number)
			continue
		}
		r := &request{header: header, descriptor: -1}
		if err := s.readRequest(in, r, isFirst); err != nil {
			r.closeDescriptor()
			return codeOf(err)
		}
		if isFirst {
			if refusal := s.greet(r); refusal != nil {
				return s.refuse(header, refusal)
			}
		}
		if !s.submit(r) {
			r.closeDescriptor()
			s.memory.giveBack(forFrame, r.held)
		}
	}
}

// refusalOf returns why a stream cannot be read any further.
func refusalOf(h protocol.Header, isFirst bool) error {
	switch {
	case h.Length > protocol.MaxLength:
		return malformed("a body of %d bytes, want at most 2^48", h.Length)
	case isFirst && (h.Kind != protocol.KindHello || h.Length > maxHello || h.Descriptors != 0 || h.Request == 0):
		return malformed("the stream begins with %v of %d bytes, want HELLO of at most %d", h.Kind, h.Length, maxHello)
	}
	return nil
}

// refuse submits a request that is answered with an error and ends the server, after earlier
// requests.
func (s *server) refuse(h protocol.Header, err error) (int, error) {
	code := ExitRefused
	if errors.Is(err, device.ErrNoDevice) || s.deviceErr != nil && errors.Is(err, s.deviceErr) {
		code = ExitDevice
	}
	r := &request{header: h, descriptor: -1, failure: err, exit: code}
	if s.submit(r) {
		select {
		case <-s.ended:
		case <-s.discardOnly:
		}
	}
	return code, err
}

// submit passes a request to the executor. It returns false if the server has ended.
func (s *server) submit(r *request) bool {
	select {
	case s.waiting <- r:
		return true
	default:
	}
	select {
	case s.waiting <- r:
		return true
	case <-s.discardOnly:
	case <-s.ended:
	}
	return false
}

// errBetween reports the end of the stream between frames.
var errBetween = errors.New("the stream ended between frames")

func codeOf(err error) (int, error) {
	switch {
	case errors.Is(err, errBetween):
		return ExitEnd, nil
	case errors.Is(err, shm.ErrDescriptors):
		return ExitRefused, err
	}
	return ExitTruncated, errEnd
}

func readHeader(in *bufio.Reader) (protocol.Header, error) {
	b, err := in.Peek(protocol.HeaderBytes)
	switch {
	case errors.Is(err, shm.ErrDescriptors):
		return protocol.Header{}, err
	case err != nil && len(b) == 0:
		return protocol.Header{}, errBetween
	case err != nil:
		return protocol.Header{}, err
	}
	h := protocol.ParseHeader(b)
	in.Discard(len(b))
	return h, nil
}

// readRequest reads a body. A malformed body becomes the failure of the request; an error is
// the end of the stream.
func (s *server) readRequest(in *bufio.Reader, r *request, isFirst bool) error {
	h := r.header
	s.takeDescriptors(r)
	switch {
	case h.Request == 0:
		r.fail(malformed("request 0, want another number"))
	case !s.remember(r):
		r.fail(malformed("request %d has not been answered yet, want another number", h.Request))
	case h.Kind == protocol.KindHello && !isFirst:
		r.fail(malformed("a second HELLO"))
	}
	if h.Length > uint64(s.MaxFrame) {
		r.fail(&protocol.Failure{Code: protocol.CodeTooLong, Message: fmt.Sprintf("a body of %d bytes, want at most %d", h.Length, s.MaxFrame),
			Details: []protocol.Detail{{Name: "limit", Value: strconv.FormatInt(s.MaxFrame, 10)}}})
	}
	if r.failure == nil {
		if err := s.memory.takeFrame(int64(h.Length)); err != nil {
			r.fail(err)
		} else {
			r.held = int64(h.Length)
		}
	}
	var err error
	if r.failure != nil {
		_, err = io.CopyN(io.Discard, in, int64(h.Length))
	} else {
		r.body, err = readBody(in, int(h.Length))
	}
	if err != nil {
		return err
	}
	if in.Buffered() == 0 && s.closeDescriptors() {
		r.fail(malformed("descriptors that no frame announced"))
	}
	return nil
}

// readBody reads a body. It allocates memory as bytes arrive, whatever length was announced.
func readBody(in *bufio.Reader, bytes int) ([]byte, error) {
	body := make([]byte, min(bytes, firstPiece))
	for read := 0; ; {
		if _, err := io.ReadFull(in, body[read:]); err != nil {
			return nil, err
		}
		if read = len(body); read == bytes {
			return body, nil
		}
		longer := make([]byte, min(bytes, 2*read))
		copy(longer, body)
		body = longer
	}
}

// takeDescriptors takes the descriptors that a frame announces from the connection, and closes
// those that its kind does not have.
func (s *server) takeDescriptors(r *request) {
	if !s.hasArenas() {
		switch {
		case r.header.Kind == protocol.KindArena:
			r.fail(fmt.Errorf("ARENA: %w on this connection", protocol.ErrUnsupported))
		case r.header.Descriptors != 0:
			r.fail(malformed("%d descriptors, want none", r.header.Descriptors))
		}
		s.closeDescriptors()
		return
	}
	want := uint32(0)
	if r.header.Kind == protocol.KindArena {
		want = 1
	}
	if r.header.Descriptors != want {
		r.fail(malformed("%v announces %d descriptors, want %d", r.header.Kind, r.header.Descriptors, want))
	}
	for range r.header.Descriptors {
		fd, ok := s.socket.TakeFD()
		if !ok {
			r.fail(malformed("%d descriptors are announced, but fewer came", r.header.Descriptors))
			break
		}
		if r.descriptor >= 0 || r.failure != nil {
			closeDescriptor(fd)
			continue
		}
		r.descriptor = fd
		select { // no more wait to be used than a process may have open
		case s.descriptors <- struct{}{}:
			r.hasSlot = true
		case <-s.discardOnly: // the end of the stream is looked for
		case <-s.ended:
		}
	}
}

// closeDescriptors closes the descriptors that wait. It returns false if there are none.
func (s *server) closeDescriptors() bool {
	if s.socket == nil {
		return false
	}
	count := 0
	for fd, ok := s.socket.TakeFD(); ok; fd, ok = s.socket.TakeFD() {
		closeDescriptor(fd)
		count++
	}
	return count > 0
}

// greet checks a HELLO, which the executor answers.
func (s *server) greet(r *request) error {
	if r.failure != nil {
		return r.failure
	}
	hello, err := protocol.ParseHello(r.body)
	if err != nil {
		return err
	}
	if hello.Lowest > protocol.Version || hello.Highest < protocol.Version {
		version := strconv.Itoa(protocol.Version)
		return &protocol.Failure{Code: protocol.CodeVersion, Message: fmt.Sprintf("the client speaks versions %d to %d, want %s", hello.Lowest, hello.Highest, version),
			Details: []protocol.Detail{{Name: "lowest", Value: version}, {Name: "highest", Value: version}}}
	}
	return s.deviceErr
}
