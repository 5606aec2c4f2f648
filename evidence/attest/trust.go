package attest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"tokitai/internal/readfile"
)

// TrustSchema is the schema of trust files.
const TrustSchema = "urn:tokitai:trust:1"

// Trust says which keys count.
type Trust struct {
	Schema    string       `json:"schema"`
	Threshold int          `json:"threshold"` // how many different keys must have signed
	Keys      []TrustedKey `json:"keys"`
}

// TrustedKey is a key with the positions of a ledger for which it counts. A key without an end also
// counts for evidence that is in no ledger.
type TrustedKey struct {
	Name string `json:"name"`
	ID   string `json:"id"`   // KeyID
	SPKI string `json:"spki"` // base64, as in the PEM file
	From int64  `json:"from"` // the first position
	To   *int64 `json:"to"`   // the last position; null: there is no end

	public ed25519.PublicKey
}

// Trusted returns a key for a trust file.
func Trusted(name string, public ed25519.PublicKey, from int64, to *int64) TrustedKey {
	return TrustedKey{name, KeyID(public), base64.StdEncoding.EncodeToString(spki(public)), from, to, public}
}

// ReadTrust reads a trust file.
func ReadTrust(path string) (*Trust, error) {
	data, err := readfile.Regular(path, 1<<20)
	if err != nil {
		return nil, err
	}
	t := new(Trust)
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(t); err != nil {
		return nil, &FormatError{path, err.Error()}
	}
	if d.More() {
		return nil, &FormatError{path, "has data after its end"}
	}
	if err := t.Check(); err != nil {
		return nil, &FormatError{path, err.Error()}
	}
	return t, nil
}

// Check returns an error for a trust file that contradicts itself.
func (t *Trust) Check() error {
	if _, err := kindOf([]Kind{{Schema: TrustSchema}}, t.Schema); err != nil {
		return err
	}
	names := map[string]bool{}
	ids := map[string]bool{}
	for i := range t.Keys {
		k := &t.Keys[i]
		der, err := base64.StdEncoding.DecodeString(k.SPKI)
		if err == nil {
			k.public, err = parseSPKI(der)
		}
		switch {
		case err != nil:
			return fmt.Errorf("key %q: %w", k.Name, err)
		case k.ID != KeyID(k.public):
			return fmt.Errorf("key %q has id %s, but its spki has %s: keys are swapped", k.Name, clip(k.ID), KeyID(k.public))
		case k.Name == "" || names[k.Name]:
			return fmt.Errorf("two keys are named %q, or one has no name", k.Name)
		case ids[k.ID]:
			return fmt.Errorf("key %s is listed twice: it would count twice", k.ID)
		case k.From < 0 || k.To != nil && *k.To < k.From:
			return fmt.Errorf("key %q counts for no position", k.Name)
		}
		names[k.Name], ids[k.ID] = true, true
	}
	if t.Threshold < 1 || t.Threshold > len(t.Keys) {
		return fmt.Errorf("the threshold is %d of %d keys, want at least 1 and at most all", t.Threshold, len(t.Keys))
	}
	return nil
}

// JSON returns the trust file.
func (t *Trust) JSON() ([]byte, error) {
	data, err := json.MarshalIndent(t, "", "  ")
	return append(data, '\n'), err
}

// byID returns the key with an id, or nil.
func (t *Trust) byID(id string) *TrustedKey {
	i := slices.IndexFunc(t.Keys, func(k TrustedKey) bool { return k.ID == id })
	if i < 0 {
		return nil
	}
	return &t.Keys[i]
}

// Public returns the public key that a trust file was read with.
func (k *TrustedKey) Public() ed25519.PublicKey { return k.public }

// CountsAt reports whether the key counts for a position, which is negative for evidence that is in
// no ledger.
func (k *TrustedKey) CountsAt(position int64) bool {
	if position < 0 {
		return k.To == nil
	}
	return position >= k.From && (k.To == nil || position <= *k.To)
}

func (k *TrustedKey) positions() string {
	if k.To == nil {
		return fmt.Sprintf("positions from %d on", k.From)
	}
	return fmt.Sprintf("positions %d to %d", k.From, *k.To)
}

// RejectedError says why evidence is not accepted.
type RejectedError struct{ Reasons []string }

func (e *RejectedError) Error() string { return strings.Join(e.Reasons, "; ") }

// Verified is a statement whose signatures count.
type Verified struct {
	Statement *Statement
	Signers   []string // names of the keys that count, as the trust file has them
	About     string   // a line for people
	Ignored   []string // what was wrong with further signatures
}

// NoPosition is the position of evidence that is in no ledger.
const NoPosition = -1

// Verify checks an envelope: that enough of the keys that count for the position have signed it, and
// that the statement's subjects are those of its predicate. An error is a *RejectedError if the
// signatures do not suffice or the statement contradicts itself, and a *FormatError for evidence that
// this program does not know.
func (t *Trust) Verify(ctx context.Context, kinds []Kind, path string, e *dsse.Envelope, position int64) (*Verified, error) {
	payload, err := e.DecodeB64Payload()
	if err != nil {
		return nil, &FormatError{path, err.Error()}
	}
	var counting []dsse.Verifier
	for i := range t.Keys {
		if t.Keys[i].CountsAt(position) {
			counting = append(counting, verifier{t.Keys[i].public})
		}
	}
	reasons := t.reasons(e, dsse.PAE(e.PayloadType, payload), position)
	if len(counting) < t.Threshold {
		return nil, &RejectedError{append(reasons, fmt.Sprintf("%d keys count here, but the threshold is %d", len(counting), t.Threshold))}
	}
	v, err := dsse.NewMultiEnvelopeVerifier(t.Threshold, counting...)
	if err != nil {
		return nil, err
	}
	accepted, err := v.Verify(ctx, e)
	if err != nil {
		return nil, &RejectedError{append(reasons, fmt.Sprintf("%d of at least %d signatures count", len(accepted), t.Threshold))}
	}
	result := &Verified{Ignored: reasons}
	for _, a := range accepted {
		result.Signers = append(result.Signers, t.byID(a.KeyID).Name)
	}
	if result.Statement, result.About, err = check(kinds, path, payload); err != nil {
		return nil, err
	}
	return result, nil
}

// reasons says of each signature that does not count why.
func (t *Trust) reasons(e *dsse.Envelope, signed []byte, position int64) (list []string) {
	for _, s := range e.Signatures {
		signature, err := base64.StdEncoding.DecodeString(s.Sig)
		if err != nil {
			list = append(list, fmt.Sprintf("the signature of key %q is not base64", clip(s.KeyID)))
			continue
		}
		named := t.byID(s.KeyID)
		signer := slices.IndexFunc(t.Keys, func(k TrustedKey) bool { return ed25519.Verify(k.public, signed, signature) })
		switch {
		case signer >= 0 && s.KeyID != "" && t.Keys[signer].ID != s.KeyID:
			list = append(list, fmt.Sprintf("keys are swapped: a signature names key %s, but key %s (%s) made it", clip(s.KeyID), t.Keys[signer].ID, t.Keys[signer].Name))
		case signer >= 0 && !t.Keys[signer].CountsAt(position):
			k := &t.Keys[signer]
			if position < 0 {
				list = append(list, fmt.Sprintf("key %s (%s) is retired: it counts for %s of the ledger, and this is in no ledger that was given", k.ID, k.Name, k.positions()))
			} else {
				list = append(list, fmt.Sprintf("key %s (%s) counts for %s of the ledger, and this is position %d", k.ID, k.Name, k.positions(), position))
			}
		case signer >= 0:
		case named != nil:
			list = append(list, fmt.Sprintf("the signature that names key %s (%s) is wrong: the statement or the signature was changed, or another key made it", named.ID, named.Name))
		default:
			list = append(list, fmt.Sprintf("key %q is not in the trust file", clip(s.KeyID)))
		}
	}
	return list
}

// check decodes a statement and holds it to its predicate.
func check(kinds []Kind, path string, payload []byte) (*Statement, string, error) {
	s := new(Statement)
	if err := json.Unmarshal(payload, s); err != nil {
		return nil, "", &FormatError{path, "the statement is malformed: " + err.Error()}
	}
	if s.Type != StatementType {
		return nil, "", &FormatError{path, fmt.Sprintf("the statement is of type %q, want %s", clip(s.Type), StatementType)}
	}
	k, err := kindOf(kinds, s.PredicateType)
	if err != nil {
		return nil, "", &FormatError{path, err.Error()}
	}
	if len(s.Subject) == 0 {
		return nil, "", &FormatError{path, "the statement has no subject"}
	}
	if k.Subjects != nil {
		want, err := k.Subjects(path, s.Predicate)
		if err != nil {
			return nil, "", err
		}
		if !reflect.DeepEqual(s.Subject, want) {
			return nil, "", &RejectedError{[]string{"the statement's subjects are not those of its predicate"}}
		}
	}
	about := s.PredicateType
	if k.Describe != nil {
		about = k.Describe(s.Predicate)
	}
	return s, about, nil
}

// Has reports whether a statement is about something with this SHA-256.
func (s *Statement) Has(sha256 string) bool {
	return slices.ContainsFunc(s.Subject, func(x Subject) bool { return x.Digest["sha256"] == sha256 })
}

// Payload returns the bytes that an envelope's signatures cover beside the type.
func Payload(e *dsse.Envelope) ([]byte, error) { return e.DecodeB64Payload() }
