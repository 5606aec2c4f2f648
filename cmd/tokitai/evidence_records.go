package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"tokitai/answer"
	"tokitai/evidence"
	"tokitai/evidence/attest"
	"tokitai/internal/readfile"
	"tokitai/verify"
)

// receiptSchema is the schema of a receiptRecord.
const receiptSchema = "urn:tokitai:receipt:1"

// receiptRecord is the receipt of one answer of a language model.
type receiptRecord struct {
	Schema  string          `json:"schema"`
	Receipt *answer.Receipt `json:"receipt"`
}

// receiptRecords returns a record for each receipt of an answer's JSON, or none if it has none.
func receiptRecords(path string, data []byte) (list []namedReport, err error) {
	receipts, err := answer.ReadReceipts(data)
	if err != nil {
		return nil, &attest.FormatError{Path: path, Reason: err.Error()}
	}
	for _, r := range receipts {
		record, err := json.Marshal(receiptRecord{receiptSchema, r})
		if err != nil {
			return nil, err
		}
		list = append(list, namedReport{path, record})
	}
	return list, nil
}

var sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)

// receiptSubjects returns what a receipt is about: the model, the program, and the receipt itself.
func receiptSubjects(name string, data []byte) ([]attest.Subject, error) {
	r, err := decodeReceipt(data)
	if err != nil {
		return nil, &attest.FormatError{Path: name, Reason: err.Error()}
	}
	own, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return []attest.Subject{attest.SHA256("model", r.Identity.Model), attest.SHA256("program", r.Identity.Program), attest.SHA256("receipt", evidence.FingerprintOf(own))}, nil
}

func decodeReceipt(data []byte) (*answer.Receipt, error) {
	var record receiptRecord
	if err := decodeStrictly(data, &record); err != nil {
		return nil, err
	}
	if record.Receipt == nil {
		return nil, errors.New("there is no receipt")
	}
	if id := record.Receipt.Identity; !sha256Form.MatchString(id.Model) || !sha256Form.MatchString(id.Program) {
		return nil, fmt.Errorf("the receipt names model %q and program %q, want the SHA-256 of model and program", readfile.Clip(id.Model), readfile.Clip(id.Program))
	}
	_, err := answer.ReadReceipts(data) // which checks it
	return record.Receipt, err
}

func describeReceipt(data []byte) string {
	r, err := decodeReceipt(data)
	if err != nil { // it was decoded before
		return err.Error()
	}
	tokens := 0
	for _, c := range r.Choices {
		tokens += len(c.Output)
	}
	return fmt.Sprintf("answer of model %s, seed %d: %s to a prompt of %d", r.Identity.Model, r.Sampling.Seed, counted(tokens, "token"), len(r.Prompt))
}

// signedReceipts returns the receipts in a file of envelopes, as JSON that answer.ReadReceipts reads. It
// checks no signature.
func signedReceipts(path string) ([]byte, error) {
	envelopes, err := readEnvelopes(path)
	if err != nil {
		return nil, err
	}
	var list struct {
		Receipts []json.RawMessage `json:"receipts"`
	}
	for _, e := range envelopes {
		payload, err := attest.Payload(e)
		if err != nil {
			return nil, &attest.FormatError{Path: path, Reason: err.Error()}
		}
		var s struct {
			PredicateType string
			Predicate     struct{ Receipt json.RawMessage }
		}
		if json.Unmarshal(payload, &s) == nil && s.PredicateType == receiptSchema {
			list.Receipts = append(list.Receipts, s.Predicate.Receipt)
		}
	}
	return json.Marshal(list)
}

// shardFileSchema is the schema of a shardRecord.
const shardFileSchema = "urn:tokitai:shard-file:1"

// shardRecord is about the file that a shard of a campaign has written.
type shardRecord struct {
	Schema     string       `json:"schema"`
	Shard      verify.Shard `json:"shard"` // the file's first line
	SHA256     string       `json:"sha256"`
	Cases      int          `json:"cases"` // that have results
	Mismatches int64        `json:"mismatches"`
}

// shardSuffix is the suffix of the files that shards write.
const shardSuffix = ".jsonl"

// signableLines returns what a file of lines of JSON has that can be signed: answers, one in each line, or the
// results of a shard.
func signableLines(path string) ([]namedReport, error) {
	r, noShard := verify.ReadShard(path)
	if noShard == nil {
		cases, mismatches := r.Totals()
		record, err := json.Marshal(shardRecord{shardFileSchema, r.Shard, r.SHA256, cases, mismatches})
		return []namedReport{{path, record}}, err
	}
	data, err := readfile.Regular(path, evidence.MaxReportBytes)
	if err != nil {
		return nil, err
	}
	var list []namedReport
	for line := range bytes.Lines(data) {
		receipts, err := receiptRecords(path, line)
		if err != nil {
			return nil, err
		}
		list = append(list, receipts...)
	}
	if len(list) == 0 {
		return nil, noShard
	}
	return list, nil
}

func shardSubjects(name string, data []byte) ([]attest.Subject, error) {
	var r shardRecord
	if err := decodeStrictly(data, &r); err != nil {
		return nil, &attest.FormatError{Path: name, Reason: err.Error()}
	}
	return []attest.Subject{attest.SHA256("shard:"+r.Shard.Name(), r.SHA256), attest.SHA256("program", r.Shard.Program), attest.SHA256("cut", r.Shard.Cut)}, nil
}

func describeShard(data []byte) string {
	var r shardRecord
	if err := decodeStrictly(data, &r); err != nil { // it was decoded before
		return err.Error()
	}
	return fmt.Sprintf("shard %s on %s (%s), level %s: %s, %s", r.Shard.Name(), r.Shard.Device, r.Shard.Machine, r.Shard.Level, counted(r.Cases, "case"), counted(int(r.Mismatches), "mismatch"))
}

// decodeStrictly decodes JSON without members that the type does not have.
func decodeStrictly(data []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(to)
}
