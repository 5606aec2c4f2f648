package protocol

import (
	"encoding/binary"
	"fmt"
)

// Kind is the kind of a frame.
type Kind uint32

// The requests, and the two replies.
const (
	KindHello Kind = 1 + iota
	KindCall
	KindNew
	KindWrite
	KindRead
	KindFree
	KindArena
	KindDrop
	KindCancel
	KindList
	KindStats
	KindDefine
	KindJudge
	KindTruth
	KindFork

	KindOK    Kind = 256
	KindError Kind = 257
)

var kindNames = [...]string{
	KindHello: "HELLO", KindCall: "CALL", KindNew: "NEW", KindWrite: "WRITE", KindRead: "READ", KindFree: "FREE",
	KindArena: "ARENA", KindDrop: "DROP", KindCancel: "CANCEL", KindList: "LIST", KindStats: "STATS", KindDefine: "DEFINE", KindJudge: "JUDGE", KindTruth: "TRUTH", KindFork: "FORK",
	KindOK: "OK", KindError: "ERROR",
}

func (k Kind) String() string {
	if int64(k) < int64(len(kindNames)) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint32(k))
}

// HeaderBytes is the size of a Header.
const HeaderBytes = 24

// MaxLength is the longest body that a header may announce.
const MaxLength = 1 << 48

// Header begins a frame.
type Header struct {
	Length      uint64
	Request     uint64
	Kind        Kind
	Descriptors uint32
}

// Append adds the header's bytes to b.
func (h Header) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, h.Length)
	b = binary.LittleEndian.AppendUint64(b, h.Request)
	b = binary.LittleEndian.AppendUint32(b, uint32(h.Kind))
	return binary.LittleEndian.AppendUint32(b, h.Descriptors)
}

// ParseHeader reads HeaderBytes bytes.
func ParseHeader(b []byte) Header {
	_ = b[HeaderBytes-1]
	return Header{
		Length:      binary.LittleEndian.Uint64(b),
		Request:     binary.LittleEndian.Uint64(b[8:]),
		Kind:        Kind(binary.LittleEndian.Uint32(b[16:])),
		Descriptors: binary.LittleEndian.Uint32(b[20:]),
	}
}

// AppendFrame adds a frame to b. The function body, if it is not nil, adds its body, of which
// the given number of bytes follow on the stream.
func AppendFrame(b []byte, request uint64, kind Kind, following int64, body func([]byte) []byte) []byte {
	start := len(b)
	b = Header{Request: request, Kind: kind}.Append(b)
	if body != nil {
		b = body(b)
	}
	binary.LittleEndian.PutUint64(b[start:], uint64(int64(len(b)-start-HeaderBytes)+following))
	return b
}
