package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"tokitai/answer"
)

// Members are the members of a request that have not been taken yet.
type Members struct {
	left map[string]json.RawMessage
	err  error
}

// Parse returns the members of a request.
func Parse(text []byte) (*Members, error) {
	if !utf8.Valid(text) {
		return nil, badParam("", "the body is not UTF-8")
	}
	m := new(Members)
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&m.left); err != nil {
		return nil, badParam("", "the body is no JSON object: %v", err)
	}
	if d.More() || m.left == nil {
		return nil, badParam("", "the body is not one JSON object")
	}
	return m, nil
}

// Has reports whether a member is there and not null.
func (m *Members) Has(name string) bool {
	raw, ok := m.left[name]
	return ok && string(raw) != "null"
}

// Take decodes a member into a value, and reports whether it is there and not null.
func (m *Members) Take(name string, to any) bool {
	raw, has := m.left[name], m.Has(name)
	delete(m.left, name)
	if !has {
		return false
	}
	if err := json.Unmarshal(raw, to); err != nil {
		m.Fail(name, "%s", typeProblem(err))
		return false
	}
	return true
}

func typeProblem(err error) string {
	if e, ok := err.(*json.UnmarshalTypeError); ok {
		return fmt.Sprintf("is %s, want %s", articled(e.Value), kindOf(e.Type))
	}
	return err.Error()
}

// articled returns what package encoding/json calls a value, as part of a sentence: a string, but number 1.5.
func articled(value string) string {
	if value == "string" || value == "number" || value == "bool" {
		return "a " + value
	}
	return value
}

// kindOf returns what JSON calls the values of a type.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.Uint64:
		return "an integer of 64 bits"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a text"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}

// Fail makes an error in a member that of the request, unless there is one already.
func (m *Members) Fail(name, format string, args ...any) {
	if m.err == nil {
		m.err = badParam(name, format, args...)
	}
}

// neutral are values of members that ask for nothing, besides null, false, 0 and what is empty.
var neutral = map[string][]string{
	"response_format":     {`{"type":"text"}`},
	"tool_choice":         {`"none"`, `"auto"`},
	"function_call":       {`"none"`, `"auto"`},
	"parallel_tool_calls": {`true`},
	"service_tier":        {`"auto"`, `"default"`},
	"modalities":          {`["text"]`},
	"best_of":             {`1`},
	"verbosity":           {`"medium"`},
	"reasoning_effort":    {`"none"`},
	"truncation":          {`"disabled"`},
}

// End returns the first error, or one for a member that is left and not neutral.
func (m *Members) End() error {
	if m.err != nil {
		return m.err
	}
	for _, name := range slices.Sorted(maps.Keys(m.left)) {
		var compact bytes.Buffer
		if err := json.Compact(&compact, m.left[name]); err != nil {
			return err
		}
		if slices.Contains([]string{"null", "false", "0", "0.0", `""`, "[]", "{}"}, compact.String()) || slices.Contains(neutral[name], compact.String()) {
			continue
		}
		switch name {
		case "user", "safety_identifier", "prompt_cache_key", "metadata": // what they say decides nothing
			continue
		}
		return &Error{Param: name, Code: Unsupported, cause: errUnsupported}
	}
	return nil
}

// stops takes stop: a text or an array of up to 16.
func (m *Members) stops(to *[]string) {
	var raw json.RawMessage
	if !m.Take("stop", &raw) {
		return
	}
	list, isList := as[[]string](raw)
	if one, isOne := as[string](raw); isOne {
		list = []string{one}
	} else if !isList {
		m.Fail("stop", "want a text or an array of texts")
	}
	if len(list) > 16 {
		m.Fail("stop", "%d texts, want at most 16", len(list))
	}
	for _, s := range list {
		if s == "" || len(s) > 4096 {
			m.Fail("stop", "a text of %d bytes, want 1 to 4096", len(s))
		}
	}
	*to = list
}

// sampling takes the parameters of drawing.
func (m *Members) sampling(s *answer.Sampling) {
	m.Take("temperature", &s.Temperature)
	m.Take("top_p", &s.TopP)
	m.Take("min_p", &s.MinP)
	m.Take("frequency_penalty", &s.Frequency)
	m.Take("presence_penalty", &s.Presence)
	m.Take("repetition_penalty", &s.Repetition)
	if m.Take("top_k", &s.TopK) && s.TopK == -1 { // all, as others say it
		s.TopK = 0
	}
	m.Take("seed", (*seed)(&s.Seed))
	var bias map[string]float64
	if m.Take("logit_bias", &bias) {
		if len(bias) > 1024 {
			m.Fail("logit_bias", "%d tokens, want at most 1024", len(bias))
		}
		var err error
		if s.Bias, err = answer.Biases(bias); err != nil {
			m.Fail("logit_bias", "%s", strings.TrimPrefix(err.Error(), "logit_bias "))
		}
	}
}

// seed is an integer of 64 bits, with a sign or without.
type seed uint64

// UnmarshalJSON reads the integer.
func (s *seed) UnmarshalJSON(text []byte) error {
	var signed int64
	if json.Unmarshal(text, &signed) == nil {
		*s = seed(signed)
		return nil
	}
	return json.Unmarshal(text, (*uint64)(s))
}

// count takes a number from low to high.
func (m *Members) count(name string, otherwise, low, high int) int {
	n := otherwise
	if m.Take(name, &n) && (n < low || n > high) {
		m.Fail(name, "is %d, want %d to %d", n, low, high)
	}
	return n
}
