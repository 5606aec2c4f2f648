package train

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"tokitai/num"
	"tokitai/tensor/safetensors"
)

// header is what a checkpoint says about itself: run.json of its metadata.
type header struct {
	Origin Origin `json:"origin"`
	Step   int    `json:"step"`
	Chain  string `json:"chain"` // entry of that step
	State  string `json:"state"` // digest of the tensors: see stateDigest
}

const headerKey = "run.json"

// Prefixes of the names of moments in a checkpoint. Weights have their own names.
const (
	prefixM = "optimizer.m."
	prefixV = "optimizer.v."
)

func isMoment(name string) bool {
	return strings.HasPrefix(name, prefixM) || strings.HasPrefix(name, prefixV)
}

// checkpoint returns the state of a trainer as the content of a file. Copies of the weights in 16 bits are no
// part of it: they follow from the weights.
func (t *Trainer) checkpoint() (*safetensors.File, error) {
	f := &safetensors.File{Metadata: map[string]string{"format": "pt"}}
	if err := t.command(saveCommand); err != nil {
		return nil, err
	}
	for _, part := range t.state() {
		data, err := t.collect(part)
		if err != nil {
			return nil, err
		}
		digested, err := t.digestPart(part, data)
		if err == nil {
			err = t.auditParts([]partOf{digested})
		}
		if err != nil {
			return nil, err
		}
		f.Entries = append(f.Entries, safetensors.Entry{Name: part.name, DType: num.F32, Shape: part.shape, Data: data})
	}
	text, err := json.Marshal(header{t.origin, t.step, t.chain.String(), stateDigest(f.Entries)})
	f.Metadata[headerKey] = string(text)
	return f, err
}

// stateDigest returns the SHA-256 over name, format, shape and bytes of each tensor, in the order of the
// names, each behind its length; it does not depend on how a file stores them.
func stateDigest(entries []safetensors.Entry) string {
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b safetensors.Entry) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	h := sha256.New()
	for _, e := range entries {
		head := fmt.Sprintf("%s %v %v", e.Name, e.DType, e.Shape)
		binary.Write(h, binary.LittleEndian, []uint64{uint64(len(head)), uint64(len(e.Data))})
		h.Write([]byte(head))
		h.Write(e.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// readCheckpoint reads a file, and checks that it is whole.
func readCheckpoint(path string) (*header, *safetensors.File, error) {
	f, err := safetensors.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	bad := func(format string, args ...any) error {
		return &safetensors.FormatError{File: path, Problem: fmt.Sprintf(format, args...)}
	}
	text, ok := f.Metadata[headerKey]
	if !ok {
		return nil, nil, bad("no %s in its metadata: it is no checkpoint of a run", headerKey)
	}
	var h header
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return nil, nil, bad("%s: %v", headerKey, err)
	}
	if got := stateDigest(f.Entries); got != h.State {
		return nil, nil, bad("its tensors have the digest %s, want %s: the file is damaged", got, h.State)
	}
	return &h, f, nil
}

// restore sets the state of a trainer to that of a checkpoint.
func (t *Trainer) restore(path string) error {
	h, f, err := readCheckpoint(path)
	if err != nil {
		return err
	}
	if list := h.Origin.Config.Differences(t.config); len(list) > 0 {
		return badInput("%s: its configuration is another one: %s", path, list[0])
	}
	if h.Origin.Data != t.origin.Data {
		return badInput("%s: it is of a run on other data, with the digest %s, not %s", path, h.Origin.Data, t.origin.Data)
	}
	if h.Origin != t.origin {
		return badInput("%s: it was made by another program: the definitions of this version give other bits", path)
	}
	chain, err := hex.DecodeString(h.Chain)
	if err != nil || len(chain) != len(t.chain) || h.Step < 0 {
		return badInput("%s: step %d with the entry %q, want one of a chain", path, h.Step, h.Chain)
	}
	state := t.state()
	if len(f.Entries) != len(state) {
		return badInput("%s: %d tensors, want %d: those of the configuration, with their moments", path, len(f.Entries), len(state))
	}
	var values [][]byte
	for _, part := range state {
		e, ok := f.Entry(part.name)
		if !ok {
			return badInput("%s: no tensor %s, which the configuration needs", path, part.name)
		}
		if e.DType != num.F32 || !slices.Equal(e.Shape, part.shape) {
			return badInput("%s: tensor %s is %v %v, want f32 %v by the configuration", path, e.Name, e.DType, e.Shape, part.shape)
		}
		values = append(values, e.Data)
	}
	t.step = h.Step
	copy(t.chain[:], chain)
	if err := t.command(restoreCommand); err != nil {
		return err
	}
	var placed []partOf
	for i, part := range state {
		digested, err := t.digestPart(part, values[i])
		if err == nil {
			placed, err = append(placed, digested), t.place(part, values[i])
		}
		if err != nil {
			return err
		}
	}
	if err := t.copyWeights(); err != nil {
		return err
	}
	return t.auditParts(placed)
}
