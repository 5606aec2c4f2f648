package def_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"tokitai/def"
)

// A definition's identity is a cryptographic hash of a text that anyone can print,
// not one whose value changes with the compiler.
func TestAncestor15_IdentityIsSHA256(t *testing.T) {
	d := def.Must(def.Rowwise("twice", func(b *def.Builder) { b.Out("y", b.In("x").Mul(def.Two)) }))
	sum := sha256.Sum256([]byte(d.Text()))
	if d.Hash() != hex.EncodeToString(sum[:]) {
		t.Errorf("got %s, want the SHA-256 of the text, %x", d.Hash(), sum)
	}
	const text = "tokitai-def 1\nrowwise twice\n  in    x[R,C] f16 bf16 f32\n  out   y[R,C] f16 bf16 f32, may be x\n  t1 = mul(x, 2)\n  y <- t1\n"
	if d.Text() != text {
		t.Errorf("got\n%s\nwant\n%s", d.Text(), text)
	}
}
