package ranks

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// Fact is something that ranks must have in common.
type Fact struct {
	Name  string // "the data"
	Value string // a digest, or a text that is short enough for an error
}

// DifferenceError reports ranks that do not have in common what they must.
type DifferenceError struct {
	Rank      int
	Fact      string
	Got, Want string // of that rank, and of rank 0
}

func (e *DifferenceError) Error() string {
	return fmt.Sprintf("rank %d differs from rank 0 in %s: %s, not %s", e.Rank, e.Fact, e.Got, e.Want)
}

// Agree returns an error unless all ranks give the same facts. Every rank has the same *DifferenceError, with the first
// rank that differs from rank 0.
func Agree(g Group, facts []Fact) error {
	text, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	all, err := gather(g, text)
	if err != nil {
		return err
	}
	var first []Fact
	for r, text := range all {
		var theirs []Fact
		if err := json.Unmarshal(text, &theirs); err != nil {
			return &PeerError{r, fmt.Sprintf("does not say what it has: %v", err)}
		}
		if r == 0 {
			first = theirs
		}
		if len(theirs) != len(first) {
			return &PeerError{r, fmt.Sprintf("tells %d facts, and rank 0 %d: they are not the same program", len(theirs), len(first))}
		}
		for i, f := range theirs {
			if f != first[i] {
				return &DifferenceError{r, f.Name, f.Value, first[i].Value}
			}
		}
	}
	return nil
}

// gather returns the bytes of all ranks, whatever their lengths.
func gather(g Group, data []byte) ([][]byte, error) {
	lengths := make([][]byte, g.Size())
	for r := range lengths {
		lengths[r] = make([]byte, 8)
	}
	if err := g.AllGather(binary.LittleEndian.AppendUint64(nil, uint64(len(data))), lengths); err != nil {
		return nil, err
	}
	all := make([][]byte, g.Size())
	for r := range all {
		n := binary.LittleEndian.Uint64(lengths[r])
		if n > maxFacts {
			return nil, &PeerError{r, fmt.Sprintf("sends facts of %d bytes, want at most %d", n, maxFacts)}
		}
		all[r] = make([]byte, n)
	}
	return all, g.AllGather(data, all)
}

// maxFacts bounds what a rank says about itself.
const maxFacts = 1 << 20
