package attest

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/youmark/pkcs8"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"tokitai/internal/readfile"
)

// The types of PEM blocks that keys are stored in.
const (
	pemPrivate   = "PRIVATE KEY"
	pemEncrypted = "ENCRYPTED PRIVATE KEY"
	pemPublic    = "PUBLIC KEY"
)

const maxKeyBytes = 1 << 16

// KeyID returns the id of a public key: the SHA-256 of its SubjectPublicKeyInfo in DER, in lower-case
// hexadecimal digits.
func KeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(spki(public))
	return hex.EncodeToString(sum[:])
}

func spki(public ed25519.PublicKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		panic("attest: " + err.Error()) // an ed25519 key can always be encoded
	}
	return der
}

// NewKey returns a new key: the private one as PKCS#8 in PEM, encrypted if there is a passphrase, and
// the public one as SubjectPublicKeyInfo in PEM.
func NewKey(passphrase []byte) (private, public []byte, err error) {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	block := &pem.Block{Type: pemPrivate}
	if len(passphrase) > 0 {
		block.Type = pemEncrypted
		options := *pkcs8.DefaultOpts
		options.KDFOpts = pkcs8.ScryptOpts{SaltSize: 16, CostParameter: 1 << 14, BlockSize: 8, ParallelizationParameter: 1}
		block.Bytes, err = pkcs8.MarshalPrivateKey(priv, passphrase, &options)
	} else {
		block.Bytes, err = x509.MarshalPKCS8PrivateKey(priv)
	}
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(block), pem.EncodeToMemory(&pem.Block{Type: pemPublic, Bytes: spki(pub)}), nil
}

// Signer signs with one key. It implements dsse.Signer.
type Signer struct {
	public ed25519.PublicKey
	sign   func(data []byte) ([]byte, error)
}

var _ dsse.Signer = (*Signer)(nil)

// Public returns the public key.
func (s *Signer) Public() ed25519.PublicKey { return s.public }

// KeyID returns the key's id.
func (s *Signer) KeyID() (string, error) { return KeyID(s.public), nil }

// Sign returns the signature of data.
func (s *Signer) Sign(_ context.Context, data []byte) ([]byte, error) { return s.sign(data) }

// ReadSigner reads a private key from a PEM file. If the key is encrypted, passphrase is called; nil
// means that there is none.
func ReadSigner(path string, passphrase func() ([]byte, error)) (*Signer, error) {
	block, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	var key any
	switch block.Type {
	case pemPrivate:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case pemEncrypted:
		if passphrase == nil {
			return nil, &FormatError{path, "the key is encrypted, and no passphrase is given"}
		}
		var secret []byte
		if secret, err = passphrase(); err != nil {
			return nil, err
		}
		if key, _, err = pkcs8.ParsePrivateKey(block.Bytes, secret); err != nil {
			return nil, &FormatError{path, "the key cannot be decrypted: wrong passphrase, or a cipher that is not supported"}
		}
	default:
		return nil, &FormatError{path, fmt.Sprintf("holds a %q, want a private key in PKCS#8 (PRIVATE KEY or ENCRYPTED PRIVATE KEY)", readfile.Clip(block.Type))}
	}
	if err != nil {
		return nil, &FormatError{path, err.Error()}
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, &FormatError{path, fmt.Sprintf("holds a key of type %T, want ed25519", key)}
	}
	return &Signer{private.Public().(ed25519.PublicKey), func(data []byte) ([]byte, error) { return ed25519.Sign(private, data), nil }}, nil
}

// ReadPublic reads a public key from a PEM file, or from lines as ssh-add -L prints them, exactly one of them with
// an ed25519 key.
func ReadPublic(path string) (ed25519.PublicKey, error) {
	data, err := readfile.Regular(path, maxKeyBytes)
	if err != nil {
		return nil, err
	}
	if _, _, _, _, err := ssh.ParseAuthorizedKey(data); err == nil {
		return parseSSH(path, data)
	}
	block, err := decodePEM(path, data)
	if err != nil {
		return nil, err
	}
	if block.Type != pemPublic {
		return nil, &FormatError{path, fmt.Sprintf("holds a %q, want a PUBLIC KEY", readfile.Clip(block.Type))}
	}
	public, err := parseSPKI(block.Bytes)
	if err != nil {
		return nil, &FormatError{path, err.Error()}
	}
	return public, nil
}

// parseSSH returns the ed25519 key among keys in the form of OpenSSH.
func parseSSH(path string, data []byte) (ed25519.PublicKey, error) {
	var found []ed25519.PublicKey
	var others []string
	for len(data) > 0 {
		key, _, _, rest, err := ssh.ParseAuthorizedKey(data)
		if err != nil {
			break // what is left has no key
		}
		data = rest
		if c, ok := key.(ssh.CryptoPublicKey); ok {
			if public, ok := c.CryptoPublicKey().(ed25519.PublicKey); ok {
				found = append(found, public)
				continue
			}
		}
		others = append(others, key.Type())
	}
	switch len(found) {
	case 0:
		return nil, &FormatError{path, fmt.Sprintf("holds a key of type %s, want ed25519", strings.Join(others, " and one of "))}
	case 1:
		return found[0], nil
	}
	return nil, &FormatError{path, fmt.Sprintf("holds %d ed25519 keys, want the line of one", len(found))}
}

func parseSPKI(der []byte) (ed25519.PublicKey, error) {
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, err
	}
	public, ok := key.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("holds a key of type %T, want ed25519", key)
	}
	return public, nil
}

func readPEM(path string) (*pem.Block, error) {
	data, err := readfile.Regular(path, maxKeyBytes)
	if err != nil {
		return nil, err
	}
	return decodePEM(path, data)
}

func decodePEM(path string, data []byte) (*pem.Block, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, &FormatError{path, "holds no PEM block, want a key"}
	}
	return block, nil
}

// AgentSigner returns a signer that asks the ssh-agent at a socket to sign with the private key of a
// public key. The agent is asked anew for every signature.
func AgentSigner(socket string, public ed25519.PublicKey) (*Signer, error) {
	if socket == "" {
		return nil, errors.New("no ssh-agent: the environment variable SSH_AUTH_SOCK is empty")
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	ask := func(data []byte) ([]byte, error) {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return nil, fmt.Errorf("ssh-agent: %w", err)
		}
		defer conn.Close()
		signature, err := agent.NewClient(conn).Sign(key, data)
		switch {
		case err != nil:
			return nil, fmt.Errorf("ssh-agent: it does not sign with key %s: %w", KeyID(public), err)
		case signature.Format != ssh.KeyAlgoED25519 || !ed25519.Verify(public, data, signature.Blob):
			return nil, fmt.Errorf("ssh-agent: its signature with key %s does not hold", KeyID(public))
		}
		return signature.Blob, nil
	}
	return &Signer{public, ask}, nil
}

// verifier checks signatures of one key. It implements dsse.Verifier.
type verifier struct{ public ed25519.PublicKey }

func (v verifier) KeyID() (string, error)   { return KeyID(v.public), nil }
func (v verifier) Public() crypto.PublicKey { return v.public }
func (v verifier) Verify(_ context.Context, data, signature []byte) error {
	if !ed25519.Verify(v.public, data, signature) {
		return errors.New("wrong signature")
	}
	return nil
}

// FormatError says that a file is not what it should be: no key, no envelope, truncated, or newer
// than this program.
type FormatError struct{ Path, Reason string }

func (e *FormatError) Error() string { return e.Path + ": " + e.Reason }

// SocketVariable is the environment variable with the socket of the ssh-agent.
const SocketVariable = "SSH_AUTH_SOCK"

// Socket returns the socket of the ssh-agent, or "".
func Socket() string { return os.Getenv(SocketVariable) }
