package attest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"tokitai/evidence/attest"
	"tokitai/internal/tool"
)

const schema = "urn:tokitai:test:1"

var kinds = []attest.Kind{{
	Schema: schema,
	Subjects: func(name string, data []byte) ([]attest.Subject, error) {
		var p struct{ SHA256 string }
		err := json.Unmarshal(data, &p)
		return []attest.Subject{attest.SHA256("thing", p.SHA256)}, err
	},
	Describe: func([]byte) string { return "a thing" },
}}

var report = []byte(`{"schema": "` + schema + `", "sha256": "` + strings.Repeat("ab", 32) + `", "text": "a < b & ü"}`)

// key makes a key in a folder and returns its signer.
func key(t *testing.T, dir, name string, passphrase string) *attest.Signer {
	t.Helper()
	private, public, err := attest.NewKey([]byte(passphrase))
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, name+".key.pem"), private, 0o600), os.WriteFile(filepath.Join(dir, name+".pub.pem"), public, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := attest.ReadSigner(filepath.Join(dir, name+".key.pem"), func() ([]byte, error) { return []byte(passphrase), nil })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func signed(t *testing.T, signers ...*attest.Signer) *dsse.Envelope {
	t.Helper()
	s, err := attest.NewStatement(kinds, "r.json", report)
	if err != nil {
		t.Fatal(err)
	}
	e, err := attest.Sign(context.Background(), s, signers...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func trust(t *testing.T, threshold int, keys ...attest.TrustedKey) *attest.Trust {
	t.Helper()
	x := &attest.Trust{Schema: attest.TrustSchema, Threshold: threshold, Keys: keys}
	if err := x.Check(); err != nil {
		t.Fatal(err)
	}
	return x
}

// TestVerify: signatures count or do not, and each reason is named.
func TestVerify(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b, stranger := key(t, dir, "a", ""), key(t, dir, "b", ""), key(t, dir, "c", "")
	nine := int64(9)
	open := func(name string, s *attest.Signer) attest.TrustedKey { return attest.Trusted(name, s.Public(), 0, nil) }
	both := trust(t, 1, open("alice", a), open("bob", b))
	two := trust(t, 2, open("alice", a), open("bob", b))
	retired := trust(t, 1, attest.Trusted("alice", a.Public(), 2, &nine), open("bob", b))
	idA, _ := a.KeyID()
	idB, _ := b.KeyID()

	changed := func(change func(e *dsse.Envelope)) *dsse.Envelope {
		e := signed(t, a)
		change(e)
		return e
	}
	forged := func(from, to string) *dsse.Envelope {
		return changed(func(e *dsse.Envelope) {
			payload, _ := base64.StdEncoding.DecodeString(e.Payload)
			if !bytes.Contains(payload, []byte(from)) {
				t.Fatalf("no %s in %s", from, payload)
			}
			e.Payload = base64.StdEncoding.EncodeToString(bytes.Replace(payload, []byte(from), []byte(to), 1))
		})
	}
	for _, test := range []struct {
		what     string
		trust    *attest.Trust
		e        *dsse.Envelope
		position int64
		want     string // part of the error; "" if it is accepted
	}{
		{"one signature", both, signed(t, a), attest.NoPosition, ""},
		{"two signatures", two, signed(t, a, b), attest.NoPosition, ""},
		{"one of two", two, signed(t, a), attest.NoPosition, "1 of at least 2 signatures count"},
		{"one key twice", two, signed(t, a, a), attest.NoPosition, "1 of at least 2 signatures count"},
		{"a stranger beside", both, signed(t, a, stranger), attest.NoPosition, ""},
		{"a wrong key", both, signed(t, stranger), attest.NoPosition, "is not in the trust file"},
		{"a forged report", both, forged("abab", "cdab"), attest.NoPosition, "the signature that names key " + idA + " (alice) is wrong"},
		{"swapped keys", both, changed(func(e *dsse.Envelope) { e.Signatures[0].KeyID = idB }), attest.NoPosition, "keys are swapped: a signature names key " + idB + ", but key " + idA + " (alice) made it"},
		{"no key id", both, changed(func(e *dsse.Envelope) { e.Signatures[0].KeyID = "" }), attest.NoPosition, ""},
		{"a retired key without a ledger", retired, signed(t, a), attest.NoPosition, "(alice) is retired: it counts for positions 2 to 9"},
		{"a retired key at its last position", retired, signed(t, a), 9, ""},
		{"a retired key after it", retired, signed(t, a), 10, "counts for positions 2 to 9 of the ledger, and this is position 10"},
		{"a key before its first position", retired, signed(t, a), 1, "this is position 1"},
		{"another payload type", both, changed(func(e *dsse.Envelope) { e.PayloadType = "application/json" }), attest.NoPosition, "is wrong"},
	} {
		v, err := test.trust.Verify(context.Background(), kinds, "e", test.e, test.position)
		_, isRejected := errors.AsType[*attest.RejectedError](err)
		switch {
		case test.want == "" && (err != nil || len(v.Signers) < test.trust.Threshold || v.About != "a thing"):
			t.Errorf("%s: %v %+v", test.what, err, v)
		case test.want != "" && (!isRejected || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want %s", test.what, err, test.want)
		}
	}
	v, err := both.Verify(context.Background(), kinds, "e", signed(t, a, stranger), attest.NoPosition)
	if err != nil || len(v.Ignored) != 1 || !strings.Contains(v.Ignored[0], "not in the trust file") {
		t.Errorf("a stranger's signature: %v %+v", err, v)
	}
}

// TestStatement: a signed statement that contradicts itself or is newer is refused.
func TestStatement(t *testing.T) {
	t.Parallel()
	a := key(t, t.TempDir(), "a", "")
	x := trust(t, 1, attest.Trusted("alice", a.Public(), 0, nil))
	for _, test := range []struct {
		what   string
		change func(s *attest.Statement)
		want   string
	}{
		{"subjects of another report", func(s *attest.Statement) { s.Subject[0].Digest["sha256"] = strings.Repeat("cd", 32) }, "subjects are not those of its predicate"},
		{"no subject", func(s *attest.Statement) { s.Subject = nil }, "no subject"},
		{"a newer schema", func(s *attest.Statement) { s.PredicateType = "urn:tokitai:test:2" }, "newer than this program's " + schema},
		{"another schema", func(s *attest.Statement) { s.PredicateType = "urn:other:test:1" }, `unknown schema "urn:other:test:1"`},
		{"another statement", func(s *attest.Statement) { s.Type = "https://in-toto.io/Statement/v0.1" }, "the statement is of type"},
	} {
		s, err := attest.NewStatement(kinds, "r.json", report)
		if err != nil {
			t.Fatal(err)
		}
		test.change(s)
		e, err := attest.Sign(context.Background(), s, a)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.Verify(context.Background(), kinds, "e", e, attest.NoPosition); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.what, err, test.want)
		}
	}
	for text, want := range map[string]string{
		`{"schema": "urn:tokitai:test:7"}`: "newer than", `{"schema": "x"}`: "unknown schema", `[`: "is not JSON", `{}`: "unknown schema",
	} {
		if _, err := attest.NewStatement(kinds, "r.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "r.json: ") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestDecode: files that hold no whole envelopes are named. Every truncation is an error.
func TestDecode(t *testing.T) {
	t.Parallel()
	a := key(t, t.TempDir(), "a", "")
	data, err := attest.Encode([]*dsse.Envelope{signed(t, a), signed(t, a)})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := attest.Decode("e", data); err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	whole := bytes.IndexByte(data, '\n')
	for n := range whole {
		if _, err := attest.Decode("e", data[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are read", n, whole)
		}
	}
	for text, want := range map[string]string{
		"": "has no envelopes", "{": "line 1 is truncated", "x": "line 1 is not an envelope", "{}": "no payload",
		`{"payload":"e30=","payloadType":"x","signatures":[]}`:                            `holds a "x"`,
		`{"payload":"e30=","payloadType":"` + attest.PayloadType + `","signatures":[]}`:   "has no signatures",
		`{"payload":"e30","payloadType":"` + attest.PayloadType + `","signatures":[{}]}`:  "truncated or damaged",
		`{"payload":"eyJh","payloadType":"` + attest.PayloadType + `","signatures":[{}]}`: "truncated or damaged",
		string(data[:whole+1]) + `{"payload`:                                              "line 2 is truncated",
	} {
		if _, err := attest.Decode("e", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %s", text, err, want)
		}
	}
}

// TestKeys: keys are read as they were written, with the right passphrase only, and other files are named.
func TestKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := key(t, dir, "k", "a secret")
	path := filepath.Join(dir, "k.key.pem")
	public, err := attest.ReadPublic(filepath.Join(dir, "k.pub.pem"))
	if err != nil || !public.Equal(s.Public()) {
		t.Fatalf("%v, %v is not %v", err, public, s.Public())
	}
	if _, err := attest.ReadSigner(path, func() ([]byte, error) { return []byte("another"), nil }); err == nil || !strings.Contains(err.Error(), "wrong passphrase") {
		t.Errorf("a wrong passphrase: %v", err)
	}
	if _, err := attest.ReadSigner(path, nil); err == nil || !strings.Contains(err.Error(), "no passphrase is given") {
		t.Errorf("no passphrase: %v", err)
	}
	if _, err := attest.ReadSigner(filepath.Join(dir, "k.pub.pem"), nil); err == nil || !strings.Contains(err.Error(), `holds a "PUBLIC KEY"`) {
		t.Errorf("a public key: %v", err)
	}
	if _, err := attest.ReadPublic(path); err == nil || !strings.Contains(err.Error(), "want a PUBLIC KEY") {
		t.Errorf("a private key: %v", err)
	}
	const rsaLike = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEVs/o5+uQbTjL3chynL4wXgUg2R9\nq9UU8I5mEovUf86QZ7kOBIjJwqnzD1omageEHWwHdBO6B+dFabmdT9POxg==\n-----END PUBLIC KEY-----\n"
	other := filepath.Join(dir, "other.pem")
	if err := os.WriteFile(other, []byte(rsaLike), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := attest.ReadPublic(other); err == nil || !strings.Contains(err.Error(), "want ed25519") {
		t.Errorf("an ECDSA key: %v", err)
	}
}

// TestTrust: a trust file that contradicts itself is refused.
func TestTrust(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := key(t, dir, "a", ""), key(t, dir, "b", "")
	ka, kb := attest.Trusted("a", a.Public(), 0, nil), attest.Trusted("b", b.Public(), 0, nil)
	swapped := ka
	swapped.SPKI = kb.SPKI
	again := ka
	again.Name = "again"
	early := int64(3)
	path := filepath.Join(dir, "trust.json")
	for _, test := range []struct {
		x    attest.Trust
		want string
	}{
		{attest.Trust{Schema: attest.TrustSchema, Threshold: 2, Keys: []attest.TrustedKey{ka, kb}}, ""},
		{attest.Trust{Schema: attest.TrustSchema, Threshold: 1, Keys: []attest.TrustedKey{swapped}}, "keys are swapped"},
		{attest.Trust{Schema: attest.TrustSchema, Threshold: 1, Keys: []attest.TrustedKey{ka, again}}, "listed twice"},
		{attest.Trust{Schema: attest.TrustSchema, Threshold: 3, Keys: []attest.TrustedKey{ka, kb}}, "the threshold is 3 of 2 keys"},
		{attest.Trust{Schema: attest.TrustSchema, Keys: []attest.TrustedKey{ka, kb}}, "the threshold is 0"},
		{attest.Trust{Schema: "urn:tokitai:trust:2", Threshold: 1, Keys: []attest.TrustedKey{ka}}, "newer than"},
		{attest.Trust{Schema: attest.TrustSchema, Threshold: 1, Keys: []attest.TrustedKey{attest.Trusted("a", a.Public(), 4, &early)}}, "counts for no position"},
	} {
		data, err := test.x.JSON()
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = attest.ReadTrust(path)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}

// TestAgent: an ssh-agent that has the key signs, and one that does not have it is named.
func TestAgent(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "agent") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	private, public, err := attest.NewKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := ssh.ParseRawPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: raw}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Skip("needs sockets: ", err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { agent.ServeAgent(ring, c); c.Close() }()
		}
	}()
	path := filepath.Join(dir, "p.pem")
	if err := os.WriteFile(path, public, 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := attest.ReadPublic(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := attest.AgentSigner(filepath.Join(dir, "s"), key)
	if err != nil {
		t.Fatal(err)
	}
	line, err := ssh.NewPublicKey(key)
	if err == nil {
		err = os.WriteFile(path, ssh.MarshalAuthorizedKey(line), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if again, err := attest.ReadPublic(path); err != nil || !again.Equal(key) {
		t.Errorf("a line of ssh-add -L: %v", err)
	}
	lines := ssh.MarshalAuthorizedKey(line)
	const other = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBGsX0fLhLEJH+Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT+NC4v4af5uO5+tKfA+eFivOM1drMV7Oy7ZAaDe/UfU= other\n"
	for _, test := range []struct{ text, want string }{
		{other + string(lines), ""},
		{string(lines) + other, ""},
		{other, "holds a key of type ecdsa-sha2-nistp256, want ed25519"},
		{string(lines) + string(lines), "holds 2 ed25519 keys, want the line of one"},
	} {
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := attest.ReadPublic(path)
		if test.want == "" && (err != nil || !again.Equal(key)) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("lines %q: %v, want %q", test.text, err, test.want)
		}
	}
	x := trust(t, 1, attest.Trusted("a", key, 0, nil))
	if _, err := x.Verify(context.Background(), kinds, "e", signed(t, s), attest.NoPosition); err != nil {
		t.Error(err)
	}
	if err := ring.RemoveAll(); err != nil {
		t.Fatal(err)
	}
	log.SetOutput(io.Discard) // the agent's server says what it refuses
	defer log.SetOutput(os.Stderr)
	if _, err := s.Sign(context.Background(), []byte("x")); err == nil || !strings.Contains(err.Error(), "does not sign with key") {
		t.Errorf("without the key: %v", err)
	}
	if _, err := attest.AgentSigner("", key); err == nil || !strings.Contains(err.Error(), "SSH_AUTH_SOCK is empty") {
		t.Errorf("without an agent: %v", err)
	}
}

// TestPython: securesystemslib and in-toto-attestation, other people's implementations, accept our
// envelopes and refuse forged ones.
func TestPython(t *testing.T) {
	t.Parallel()
	python := tool.Need(t, "python3")
	if p := os.Getenv("TOKITAI_PYTHON"); p != "" {
		python = p
	}
	if out, err := exec.Command(python, "-c", "import securesystemslib.dsse, in_toto_attestation.v1.statement, cryptography").CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		tool.Missing(t, "securesystemslib", lines[len(lines)-1])
	}
	dir := t.TempDir()
	s := key(t, dir, "k", "")
	good := signed(t, s)
	id, _ := s.KeyID()
	check := func(e *dsse.Envelope) string {
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		command := exec.Command(python, "testdata/check.py", filepath.Join(dir, "k.pub.pem"), id)
		command.Stdin = bytes.NewReader(data)
		out, err := command.CombinedOutput()
		if err != nil && command.ProcessState.ExitCode() != 3 {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := check(good); got != "thing "+strings.Repeat("ab", 32)+" "+schema {
		t.Errorf("our envelope: %s", got)
	}
	payload, _ := base64.StdEncoding.DecodeString(good.Payload)
	good.Payload = base64.StdEncoding.EncodeToString(bytes.Replace(payload, []byte("abab"), []byte("cdab"), 1))
	if got := check(good); got != "refused" {
		t.Errorf("a forged envelope: %s", got)
	}
}
