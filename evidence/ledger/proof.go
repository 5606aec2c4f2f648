package ledger

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// proofHead begins proofs: c2sp.org/tlog-proof.
const proofHead = "c2sp.org/tlog-proof@v1\n"

// Prove returns a proof that an entry is in the log, which can be checked without the log. It has the
// entry, the hashes beside its path to the root, and the checkpoint.
func (t *Tree) Prove(position int64) ([]byte, error) {
	if position < 0 || position >= t.Checkpoint.Size {
		return nil, fmt.Errorf("the ledger has positions from 0 to %d, not %d", t.Checkpoint.Size-1, position)
	}
	raw, err := t.entry(position)
	if err != nil {
		return nil, err
	}
	proof, err := tlog.ProveRecord(t.Checkpoint.Size, position, t.hashes)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%sextra %s\nindex %d\n", proofHead, base64.StdEncoding.EncodeToString(raw), position)
	for _, h := range proof {
		fmt.Fprintf(&b, "%v\n", h)
	}
	b.WriteByte('\n')
	b.Write(t.note)
	return b.Bytes(), nil
}

// CheckProof checks a proof and returns the entry, its position, and the checkpoint.
func CheckProof(path string, data []byte, keys Keys) (e Entry, position int64, c Checkpoint, err error) {
	head, checkpoint, ok := strings.Cut(string(data), "\n\n")
	lines := strings.Split(head, "\n")
	if !ok || !strings.HasPrefix(head, proofHead) || len(lines) < 3 {
		return e, 0, c, &Malformed{path, "is no proof, or is truncated"}
	}
	extra, isExtra := strings.CutPrefix(lines[1], "extra ")
	index, isIndex := strings.CutPrefix(lines[2], "index ")
	raw, rawErr := base64.StdEncoding.DecodeString(extra)
	position, indexErr := strconv.ParseInt(index, 10, 64)
	if !isExtra || !isIndex || rawErr != nil || indexErr != nil {
		return e, 0, c, &Malformed{path, "is no proof of this program: want an entry and its index"}
	}
	var proof tlog.RecordProof
	for _, line := range lines[3:] {
		h, err := tlog.ParseHash(line)
		if err != nil {
			return e, 0, c, &Malformed{path, "has a line that is no hash"}
		}
		proof = append(proof, h)
	}
	if c, err = parseCheckpoint(path, []byte(checkpoint), keys); err != nil {
		return e, 0, c, err
	}
	if position < 0 || position >= c.Size {
		return e, 0, c, &Malformed{path, fmt.Sprintf("proves position %d of a log of %d entries", position, c.Size)}
	}
	if err := tlog.CheckRecord(proof, c.Size, c.Root, position, tlog.RecordHash(raw)); err != nil {
		return e, 0, c, tampered("%s: entry %d is not in the log that the checkpoint signs", path, position)
	}
	if e, err = parseEntry(raw); err != nil {
		return e, 0, c, &Malformed{path, err.Error()}
	}
	return e, position, c, nil
}
