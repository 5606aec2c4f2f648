package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"

	"tokitai/op/checksum"
)

// Entry is an entry of a chain.
type Entry [sha256.Size]byte

func (e Entry) String() string { return hex.EncodeToString(e[:]) }

// Origin is what a chain begins with. It has neither the device nor paths nor times.
type Origin struct {
	Config    Config `json:"config"`
	Program   string `json:"program"`   // identity of the program of one leaf
	Update    string `json:"update"`    // hashes of the definitions of the end of a step
	Rule      string `json:"rule"`      // of the products' sums
	Tokenizer string `json:"tokenizer"` // bytes, or the SHA-256 of tokenizer.json
	Data      string `json:"data"`      // digest of the corpus
	Weights   string `json:"weights"`   // digest of the initial weights

	// Of a run that begins with moments: how many steps they have seen, and their digest.
	Before  int    `json:"before,omitempty"`
	Moments string `json:"moments,omitempty"`
}

// Genesis returns the entry in front of the first step: the SHA-256 of the origin as JSON.
func (o *Origin) Genesis() Entry {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // all fields are numbers and text
	}
	return sha256.Sum256(text)
}

// Next returns the entry of a step: the SHA-256 of the entry before it, the number of the step, the bits
// of the loss and of the norm, and the two words of the digest of each weight, in the order of
// their names, and then those of each router's biases. All numbers are little-endian, the step of 64 bits, the others of 32.
func (e Entry) Next(step int, loss, norm float32, digests []checksum.Digest) Entry {
	b := binary.LittleEndian.AppendUint64(append(make([]byte, 0, 64+8*len(digests)), e[:]...), uint64(step))
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(loss))
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(norm))
	for _, d := range digests {
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, d.Word0), d.Word1)
	}
	return sha256.Sum256(b)
}
