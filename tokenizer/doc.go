// Package tokenizer turns text into ids of tokens and back, as a tokenizer.json says: the file of
// Hugging Face's tokenizers library. It reads byte-level byte-pair encodings (GPT-2, Llama 3, Qwen,
// OLMo) and those that follow SentencePiece (Llama 2, Mistral, Gemma), and gives the ids of that
// library.
//
// A file is used as a whole or refused: Parse returns an error that names the first part that is not
// supported, and every member of the file that it does not know.
//
// Encode goes through these steps, each in a file of its own: added tokens are cut out of the text
// (added.go), the rest is normalized (normalizer.go, nfc.go) and divided into words (split.go,
// pattern.go), and the pairs of each word are merged (bpe.go). Decode is in decoder.go.
package tokenizer
