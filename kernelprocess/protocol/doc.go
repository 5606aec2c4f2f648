// Package protocol encodes and decodes the frames and messages of kernel processes:
// docs/protocol.md in Go. It opens nothing, runs nothing, and knows no package that does.
//
// Every message is a struct with Append, which adds its body to a slice, and a Parse
// function, which refuses whatever the page does not allow and allocates no more than a
// small multiple of the body's length. The frame around them is in frame.go, the fields
// of bodies in fields.go, the error reply in failure.go. Package failure converts that
// reply from and to Go's errors.
package protocol

// Version is the protocol's version that this package speaks.
const Version = 1

// Magic begins the body of a Hello.
const Magic = "tokitai\n"
