// Package serve answers HTTP requests with a model, as OpenAI's API does: completions and chat completions,
// streams included, by an answer.Engine. Every answer carries a receipt, from which it can be computed again.
//
// A request is read as an object of members, each taken by name. What is left over has to be neutral, such as
// null or an empty list; anything else is an error that names it, so that no request is answered as if
// it had asked for less.
//
// Start with New. The program's command is 'tokitai serve'.
package serve
