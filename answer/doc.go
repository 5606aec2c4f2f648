// Package answer computes answers of language models: prompts in, tokens out, many at once, with bits
// that depend on the model, the prompt and the sampling parameters alone.
//
// A Model is what a folder has: weights, a vocabulary, perhaps a chat template. An Engine computes
// requests on it together: each step is one run of a recorded program over the tokens of all sequences
// that are active, prompts in pieces and answers token by token, with keys and values in pages of a
// cache. What else is in a step changes no bit of an answer. Neither do reused prefixes, a preemption, or
// speculation, whose guesses are kept only where they are what plain decoding gives.
//
// A Receipt says what an answer follows from and has a checksum of every row of logits that a token was
// drawn from. Replay computes it again, on any device.
//
// Start with Engine. HTTP is in package serve.
package answer
