// Package data provides corpora as tokens, cut into blocks, and the order in which blocks are read.
//
// Tokens are bytes, and one more that begins every document, or those of a tokenizer.json, which may
// be trained on the corpus. The last tenth of the blocks is for
// validation. The order of the others is a permutation for each epoch, which follows from a seed
// and the number of the epoch: whoever knows the number of a step knows its blocks, so that
// nothing about the order has to be saved.
//
// A table has rows of features and targets instead of tokens.
//
// The package knows no model. Start with ReadDocuments, Corpus and Split; Grammar makes text of known entropy, Synthetic a table.
package data
