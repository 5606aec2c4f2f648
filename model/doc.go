// Package model describes networks as programs: lists of calls of definitions over named values.
//
// A Builder composes calls, of the operations of package op or of any other definitions, and
// derives the gradients of the weights (Builder.Backward): each forward definition has a row in a
// table that names its gradients. A Program is the finished list. Its buffers are planned once:
// values whose lives do not overlap share one. Its text says everything that decides a bit, and
// the SHA-256 of the text is its identity.
//
// An Instance is a program with memory on a device; its calls are recorded once and run again.
// Config describes decoders, dense or with mixtures of experts, block by block. NewDecoder turns it into a program
// for whole sequences, with gradients or without, and NewInference into one whose keys lie in pages: both by the
// same calls. Package model/huggingface reads and writes the folders that people exchange.
//
// Program.Divide takes the calls over rows of experts out of a program, for experts that are elsewhere; Experts makes them for
// some experts alone.
//
// The package knows neither data nor optimizers: package train does. Start with Builder.
package model
