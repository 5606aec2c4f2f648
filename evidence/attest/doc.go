// Package attest signs evidence and checks signatures: in-toto statements in DSSE envelopes, signed
// with ed25519, which the tools of others read too.
//
// The predicate of a statement is a report as it is, and its subjects are the SHA-256 of what the
// report is about: a definition, a kernel, a model, and the report's own file. A key is known by the
// SHA-256 of its SubjectPublicKeyInfo. Which keys count is said by a Trust, for ranges of positions in a ledger: no
// clock decides.
//
// The package does not know what a report says. A Kind says for one form of report which subjects
// it has; callers list the kinds. Start with Sign and Trust.Verify.
package attest
