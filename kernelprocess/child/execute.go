package child

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/kernelprocess/failure"
	"tokitai/kernelprocess/protocol"
	"tokitai/kernelprocess/shm"
)

// executor is the state of the goroutine that answers requests.
type executor struct {
	drained chan struct{} // closed when there is nothing more to answer
	stats   protocol.Stats
	handles map[uint64]device.Buffer
	newest  uint64 // handle
	arenas  map[uint32]*arena
	start   []byte // of the reply
	caller
}

type arena struct {
	region *shm.Region
	buffer device.Buffer // the region itself, on the CPU
}

func (e *executor) init(s *server) {
	e.drained = make(chan struct{})
	e.handles, e.arenas = map[uint64]device.Buffer{}, map[uint32]*arena{}
	e.caller.init()
}

// closeExecutor releases what requests have left.
func (s *server) closeExecutor() {
	for _, b := range s.handles {
		b.Close()
	}
	for _, a := range s.arenas {
		a.region.Close()
	}
	if s.scratch != nil {
		s.scratch.Close()
	}
	s.queues[0].Close() // they are one
	if s.device != nil {
		s.device.Close()
	}
}

// execute answers requests until the server ends.
func (s *server) execute() {
	defer close(s.drained)
	for {
		select {
		case <-s.ended:
			return
		default:
		}
		select {
		case <-s.ended:
			return
		case r, ok := <-s.waiting:
			if !ok {
				return
			}
			s.answer(r)
		}
	}
}

// reply is the end of a reply, after the bytes in start.
type reply struct {
	data     []byte
	reserved int64 // of the account, for data
}

func (s *server) answer(r *request) {
	s.stats.Requests++
	s.start = protocol.Header{Request: r.header.Request, Kind: protocol.KindOK}.Append(s.start[:0])
	result, err := s.respond(r)
	r.closeDescriptor()
	if r.hasSlot {
		<-s.descriptors
	}
	r.body = nil
	s.memory.giveBack(forFrame, r.held)
	var problem *protocol.Failure
	if err != nil {
		s.stats.Errors++
		s.memory.giveBack(forReply, result.reserved)
		result = reply{}
		problem = failure.Of(err)
		s.start = protocol.Header{Request: r.header.Request, Kind: protocol.KindError}.Append(s.start[:0])
		s.start = problem.Append(s.start)
	}
	binary.LittleEndian.PutUint64(s.start, uint64(len(s.start)-protocol.HeaderBytes+len(result.data)))
	s.forget(r)
	s.replies.add(s.start, result.data, result.reserved, len(s.waiting) == 0)
	switch {
	case r.exit != 0:
		s.replies.flush()
		s.finish(r.exit, err)
	case problem != nil && problem.Code == protocol.CodeLost:
		s.replies.flush()
		s.finish(ExitDevice, err)
	}
	if cap(s.start) > maxUnsent {
		s.start = nil
	}
}

// respond executes a request. A panic becomes an error of that request.
func (s *server) respond(r *request) (result reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v: panic: %v\n%s", r.header.Kind, p, debug.Stack())
		}
	}()
	if r.failure != nil {
		return reply{}, r.failure
	}
	ctx, ok := s.begin(r)
	if !ok {
		return reply{}, errCanceled
	}
	switch r.header.Kind {
	case protocol.KindHello:
		return reply{}, s.hello()
	case protocol.KindCall:
		return s.call(ctx, r.body)
	case protocol.KindNew:
		return reply{}, s.new(r.body)
	case protocol.KindWrite:
		return reply{}, s.writeHandle(r.body)
	case protocol.KindRead:
		return s.readHandle(r.body)
	case protocol.KindFree:
		return reply{}, s.free(r.body)
	case protocol.KindArena:
		return reply{}, s.addArena(r)
	case protocol.KindDrop:
		return reply{}, s.drop(r.body)
	case protocol.KindCancel: // a good one never comes here
		return reply{}, malformed("a CANCEL of %d bytes, want 8", len(r.body))
	case protocol.KindList:
		if err := protocol.ParseNothing(r.body); err != nil {
			return reply{}, err
		}
		s.start = protocol.AppendList(s.start, s.definitions.list)
		return reply{}, nil
	case protocol.KindStats:
		return reply{}, s.tellStats(r.body)
	case protocol.KindDefine:
		return reply{}, s.define(r.body)
	case protocol.KindJudge:
		if s.Judge != nil {
			return s.judge(ctx, r.body)
		}
	case protocol.KindTruth:
		if s.Judge != nil {
			return s.truth(ctx, r.body)
		}
	}
	return reply{}, fmt.Errorf("%v: %w", r.header.Kind, protocol.ErrUnsupported)
}

func (s *server) hello() error {
	about := s.device.Describe()
	description := about.Name
	for _, more := range []string{about.Architecture, about.Driver} {
		if more != "" {
			description += ", " + more
		}
	}
	welcome := protocol.Welcome{
		Version: protocol.Version, Generation: s.generation, Build: s.Build, Device: s.device.Name(), Description: description,
		MaxFrame: s.MaxFrame, MemoryLimit: s.MemoryLimit, HasArenas: s.hasArenas(),
	}
	s.start = welcome.Append(s.start)
	return nil
}

// handleBytes is the memory that a handle takes beside its bytes, about: their alignment, the
// buffer and its cleanup, and the entry in the table.
const handleBytes = 512

func (s *server) new(body []byte) error {
	n, err := protocol.ParseNumber(body)
	if err != nil {
		return err
	}
	bytes := int64(min(n, 1<<63-1))
	if bytes == 0 {
		return &device.ArgumentError{Op: "NEW", Operand: "memory", Got: "has 0 bytes", Want: "at least 1"}
	}
	if bytes > math.MaxInt64-handleBytes {
		return s.memory.exhausted(bytes)
	}
	if err := s.memory.take(forState, bytes+handleBytes); err != nil {
		return err
	}
	buffer, err := s.device.Alloc(bytes)
	if err != nil {
		s.memory.giveBack(forState, bytes+handleBytes)
		return err
	}
	s.newest++
	s.handles[s.newest] = buffer
	s.start = protocol.Numbers(s.start, s.newest)
	return nil
}

func (s *server) free(body []byte) error {
	n, err := protocol.ParseNumber(body)
	if err != nil {
		return err
	}
	buffer, err := s.buffer(n)
	if err != nil {
		return err
	}
	delete(s.handles, n)
	s.memory.giveBack(forState, buffer.Bytes()+handleBytes)
	return buffer.Close()
}

func (s *server) buffer(n uint64) (device.Buffer, error) {
	if b := s.handles[n]; b != nil {
		return b, nil
	}
	return nil, fmt.Errorf("handle %d: %w", n, protocol.ErrNoHandle)
}

func (s *server) arena(n uint32) (*arena, error) {
	if a := s.arenas[n]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("arena %d: %w", n, protocol.ErrNoHandle)
}

// part returns the bytes of an arena at one end of a transfer.
func (s *server) part(op string, e *protocol.End, bytes int64) ([]byte, error) {
	a, err := s.arena(e.Arena)
	if err != nil {
		return nil, err
	}
	memory := a.region.Bytes()
	if err := within(op, "arena", e.Offset, bytes, int64(len(memory))); err != nil {
		return nil, err
	}
	return memory[e.Offset : e.Offset+bytes], nil
}

func within(op, operand string, offset, bytes, size int64) error {
	if offset > size || bytes > size-offset {
		return &device.ArgumentError{Op: op, Operand: operand, Got: fmt.Sprintf("has %d bytes", size), Want: fmt.Sprintf("%d bytes from offset %d on", bytes, offset)}
	}
	return nil
}

func (s *server) writeHandle(body []byte) error {
	t, err := protocol.ParseWrite(body)
	if err != nil {
		return err
	}
	buffer, err := s.buffer(t.Handle)
	if err == nil {
		err = within("WRITE", "handle", t.Offset, t.Bytes, buffer.Bytes())
	}
	if err == nil && t.End.Place == protocol.InArena {
		t.Data, err = s.part("WRITE", &t.End, t.Bytes)
	}
	if err != nil || t.Bytes == 0 {
		return err
	}
	return buffer.CopyIn(t.Offset, t.Data)
}

func (s *server) readHandle(body []byte) (reply, error) {
	t, err := protocol.ParseRead(body)
	if err != nil {
		return reply{}, err
	}
	buffer, err := s.buffer(t.Handle)
	if err == nil {
		err = within("READ", "handle", t.Offset, t.Bytes, buffer.Bytes())
	}
	if err != nil || t.Bytes == 0 && t.End.Place == protocol.InFrame {
		return reply{}, err
	}
	if t.End.Place == protocol.InArena {
		to, err := s.part("READ", &t.End, t.Bytes)
		if err != nil || t.Bytes == 0 {
			return reply{}, err
		}
		return reply{}, buffer.CopyOut(t.Offset, to)
	}
	if err := s.memory.take(forReply, t.Bytes); err != nil {
		return reply{}, err
	}
	result := reply{data: make([]byte, t.Bytes), reserved: t.Bytes}
	return result, buffer.CopyOut(t.Offset, result.data)
}

func (s *server) addArena(r *request) error {
	m, err := protocol.ParseArena(r.body)
	if err != nil {
		return err
	}
	page := int64(os.Getpagesize())
	switch {
	case s.arenas[m.Arena] != nil:
		return &device.ArgumentError{Op: "ARENA", Operand: "arena", Got: fmt.Sprintf("%d exists", m.Arena), Want: "another number, or DROP first"}
	case len(s.arenas) >= maxArenas:
		return &device.ArgumentError{Op: "ARENA", Operand: "arena", Got: fmt.Sprintf("%d is one more than %d", m.Arena, maxArenas), Want: "fewer, of more bytes"}
	case m.Bytes == 0 || m.Bytes%page != 0:
		return &device.ArgumentError{Op: "ARENA", Operand: "arena", Got: fmt.Sprintf("has %d bytes", m.Bytes), Want: fmt.Sprintf("pages of %d", page)}
	}
	if err := s.memory.take(forState, m.Bytes); err != nil {
		return err
	}
	fd := r.descriptor
	r.descriptor = -1 // Open closes it
	a := &arena{}
	if a.region, err = shm.Open(fd, m.Bytes); err == nil {
		for n, other := range s.arenas {
			if other.region.IsSame(a.region) { // overlaps could not be seen
				err = fmt.Errorf("it is arena %d already", n)
			}
		}
		if err != nil {
			a.region.Close()
		}
	}
	if err == nil {
		if host, ok := s.device.(*cpu.Device); ok {
			if a.buffer, err = host.Adopt(a.region.Bytes()); err != nil {
				a.region.Close()
			}
		}
	}
	if err != nil {
		s.memory.giveBack(forState, m.Bytes)
		if !errors.Is(err, device.ErrOutOfMemory) {
			err = &device.ArgumentError{Op: "ARENA", Operand: "arena", Got: "cannot be used: " + err.Error(), Want: "a sealed memfd of the announced size", Cause: err}
		}
		return err
	}
	s.arenas[m.Arena] = a
	return nil
}

// maxArenas is the maximum number of arenas: the system limits mappings.
const maxArenas = 4096

func (s *server) drop(body []byte) error {
	n, err := protocol.ParseDrop(body)
	if err != nil {
		return err
	}
	a, err := s.arena(n)
	if err != nil {
		return err
	}
	delete(s.arenas, n)
	s.memory.giveBack(forState, int64(len(a.region.Bytes())))
	if a.buffer != nil {
		a.buffer.Close()
	}
	return a.region.Close()
}

func (s *server) tellStats(body []byte) error {
	if err := protocol.ParseNothing(body); err != nil {
		return err
	}
	s.replies.flush() // what the client has read must not count
	m := s.stats
	held, peak := s.memory.usage()
	m.HeldBytes, m.PeakBytes = uint64(held), uint64(peak)
	m.Handles, m.Arenas = uint64(len(s.handles)), uint64(len(s.arenas))
	s.start = m.Append(s.start)
	return nil
}
