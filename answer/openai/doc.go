// Package openai reads requests for answers as OpenAI's API writes them: bodies of /v1/completions and
// /v1/chat/completions.
//
// A request is an object of members, each taken by name. What is left over has to be neutral, such as null or an
// empty list; anything else is an error that names it, so that no request is answered as if it had asked for less.
//
// Start with Parse. HTTP is in package serve.
package openai
