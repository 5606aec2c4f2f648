package launch

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"tokitai/kernelprocess/shm"
)

// maxMessage bounds what ranks are told before they are a group.
const maxMessage = 1 << 20

// WriteMessage writes a value behind its length, with descriptors.
func WriteMessage(conn *shm.Conn, v any, fds ...int) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = conn.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), fds...)
	return err
}

// ReadMessage reads what WriteMessage has written.
func ReadMessage(conn *shm.Conn, v any) error {
	var size [8]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint64(size[:])
	if n > maxMessage {
		return fmt.Errorf("%d bytes, want at most %d", n, maxMessage)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(conn, text); err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}
