package attest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// The types of statements and of their envelopes, as in-toto defines them.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PayloadType   = "application/vnd.in-toto+json"
)

// BundleSuffix is the suffix of files with envelopes, one in each line.
const BundleSuffix = ".intoto.jsonl"

// MaxBytes limits a file of envelopes.
const MaxBytes = 256 << 20

// Statement is an in-toto statement.
type Statement struct {
	Type          string          `json:"_type"`
	Subject       []Subject       `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

// Subject is something that a statement is about.
type Subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// SHA256 returns a subject with a digest.
func SHA256(name, digest string) Subject {
	return Subject{name, map[string]string{"sha256": digest}}
}

// Kind is a form of evidence.
type Kind struct {
	// Schema is the predicate's type, which its member schema repeats, such as urn:tokitai:evidence:1.
	Schema string

	// Subjects checks a predicate and returns what it is about. Nil: predicates of this type have
	// no such member, and a statement may name any subjects.
	Subjects func(name string, predicate []byte) ([]Subject, error)

	// Describe returns a line for people about a predicate that Subjects has checked.
	Describe func(predicate []byte) string
}

var versioned = regexp.MustCompile(`^(.*[:/]v?)([0-9]{1,9})$`)

// kindOf returns the kind with a type of predicate.
func kindOf(kinds []Kind, schema string) (*Kind, error) {
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Schema == schema })
	if i >= 0 {
		return &kinds[i], nil
	}
	if m := versioned.FindStringSubmatch(schema); m != nil {
		for _, k := range kinds {
			if own := versioned.FindStringSubmatch(k.Schema); own != nil && own[1] == m[1] && number(m[2]) > number(own[2]) {
				return nil, fmt.Errorf("the evidence is of schema %s, newer than this program's %s: check it with a newer version", schema, k.Schema)
			}
		}
	}
	return nil, fmt.Errorf("the evidence is of the unknown schema %q", clip(schema))
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits) // at most nine digits
	return n
}

func clip(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// NewStatement returns the statement about a report: a JSON object with a member schema.
func NewStatement(kinds []Kind, name string, report []byte) (*Statement, error) {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(report, &head); err != nil {
		return nil, &FormatError{name, "is not JSON: " + err.Error()}
	}
	k, err := kindOf(kinds, head.Schema)
	if err != nil {
		return nil, &FormatError{name, err.Error()}
	}
	subjects, err := k.Subjects(name, report)
	if err != nil {
		return nil, err
	}
	return &Statement{StatementType, subjects, k.Schema, report}, nil
}

// Sign returns the envelope of a statement, signed by each of the signers.
func Sign(ctx context.Context, s *Statement, signers ...*Signer) (*dsse.Envelope, error) {
	var payload bytes.Buffer
	e := json.NewEncoder(&payload)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return nil, err
	}
	return signPayload(ctx, bytes.TrimSuffix(payload.Bytes(), []byte("\n")), signers)
}

func signPayload(ctx context.Context, payload []byte, signers []*Signer) (*dsse.Envelope, error) {
	list := make([]dsse.Signer, len(signers))
	for i, s := range signers {
		list[i] = s
	}
	signer, err := dsse.NewEnvelopeSigner(list...)
	if err != nil {
		return nil, err
	}
	return signer.SignPayload(ctx, PayloadType, payload)
}

// AddSignatures signs what is in an envelope with further keys. A key that has signed it signs anew.
func AddSignatures(ctx context.Context, e *dsse.Envelope, signers ...*Signer) error {
	payload, err := e.DecodeB64Payload()
	if err != nil {
		return err
	}
	more, err := signPayload(ctx, payload, signers)
	if err != nil {
		return err
	}
	for _, s := range more.Signatures {
		e.Signatures = append(slices.DeleteFunc(e.Signatures, func(old dsse.Signature) bool { return old.KeyID == s.KeyID }), s)
	}
	return nil
}

// Encode returns envelopes as a file, one in each line.
func Encode(envelopes []*dsse.Envelope) ([]byte, error) {
	var b bytes.Buffer
	for _, e := range envelopes {
		line, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		b.Write(append(line, '\n'))
	}
	return b.Bytes(), nil
}

// Decode reads a file with envelopes, one in each line.
func Decode(path string, data []byte) ([]*dsse.Envelope, error) {
	var list []*dsse.Envelope
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		e := new(dsse.Envelope)
		at := fmt.Sprintf("line %d ", n)
		err := json.Unmarshal(line, e)
		payload, b64 := base64.StdEncoding.DecodeString(e.Payload)
		switch {
		case err != nil && strings.Contains(err.Error(), "unexpected end"):
			return nil, &FormatError{path, at + "is truncated: the JSON of its envelope does not end"}
		case err != nil:
			return nil, &FormatError{path, at + "is not an envelope: " + clip(err.Error())}
		case e.Payload == "" || e.PayloadType == "":
			return nil, &FormatError{path, at + "is not an envelope: it has no payload or no payloadType"}
		case e.PayloadType != PayloadType:
			return nil, &FormatError{path, fmt.Sprintf("%sholds a %q, want an in-toto statement (%s)", at, clip(e.PayloadType), PayloadType)}
		case b64 != nil || !json.Valid(payload):
			return nil, &FormatError{path, at + "is truncated or damaged: its payload is not JSON in base64"}
		case len(e.Signatures) == 0:
			return nil, &FormatError{path, at + "has no signatures"}
		}
		list = append(list, e)
	}
	if len(list) == 0 {
		return nil, &FormatError{path, "has no envelopes"}
	}
	return list, nil
}
