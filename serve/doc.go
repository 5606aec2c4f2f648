// Package serve answers HTTP requests with a model, as OpenAI's API does: completions and chat completions,
// streams included, by an answer.Engine. Every answer carries a receipt, from which it can be computed again.
//
// A FeatureServer answers with a network of features instead.
//
// Package answer/openai reads the requests.
//
// Start with New. The program's command is 'tokitai serve'.
package serve
