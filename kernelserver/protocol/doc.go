// Package protocol has the frames and messages of kernel processes as bytes:
// docs/protocol.md in Go. It opens nothing and runs nothing.
//
// Every message is a struct with Append, which adds its body to a slice, and a Parse
// function, which refuses whatever the page does not allow and allocates no more than
// a small multiple of the body's length. frame.go has the frame around them, fields.go what bodies are made of,
// failure.go the error reply and what Go makes of it.
package protocol

// Version is the protocol's version that this package speaks.
const Version = 1

// Magic begins the body of a Hello.
const Magic = "tokitai\n"
