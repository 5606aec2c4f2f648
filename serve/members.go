package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"tokitai/answer"
)

// members are the members of a request that have not been taken yet.
type members struct {
	left map[string]json.RawMessage
	err  error
}

func parseMembers(text []byte) (*members, error) {
	m := new(members)
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&m.left); err != nil {
		return nil, newError(http.StatusBadRequest, badRequest, "", "the body is no JSON object: %v", err)
	}
	if d.More() || m.left == nil {
		return nil, newError(http.StatusBadRequest, badRequest, "", "the body is not one JSON object")
	}
	return m, nil
}

// take decodes a member into a value, and reports whether it is there and not null.
func (m *members) take(name string, to any) bool {
	raw, ok := m.left[name]
	delete(m.left, name)
	if !ok || string(raw) == "null" {
		return false
	}
	if err := json.Unmarshal(raw, to); err != nil {
		m.fail(name, "%s", typeProblem(err))
		return false
	}
	return true
}

func typeProblem(err error) string {
	if e, ok := err.(*json.UnmarshalTypeError); ok {
		return fmt.Sprintf("is %s, want %v", e.Value, e.Type)
	}
	return err.Error()
}

func (m *members) fail(name, format string, args ...any) {
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

// end returns the first error, or one for a member that is left and not neutral.
func (m *members) end() error {
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
		e := badParam(name, "is not supported by this server")
		code := "unsupported_parameter"
		e.Code = &code
		return e
	}
	return nil
}

// stops takes stop: a text or an array of up to 16.
func (m *members) stops() []string {
	var raw json.RawMessage
	if !m.take("stop", &raw) {
		return nil
	}
	var one string
	var list []string
	if json.Unmarshal(raw, &one) == nil {
		list = []string{one}
	} else if err := json.Unmarshal(raw, &list); err != nil {
		m.fail("stop", "want a text or an array of texts")
	}
	if len(list) > 16 {
		m.fail("stop", "%d texts, want at most 16", len(list))
	}
	for _, s := range list {
		if s == "" || len(s) > 4096 {
			m.fail("stop", "a text of %d bytes, want 1 to 4096", len(s))
		}
	}
	return list
}

// sampling takes the parameters of drawing.
func (m *members) sampling() answer.Sampling {
	s := answer.DefaultSampling
	m.take("temperature", &s.Temperature)
	m.take("top_p", &s.TopP)
	m.take("min_p", &s.MinP)
	m.take("frequency_penalty", &s.Frequency)
	m.take("presence_penalty", &s.Presence)
	m.take("repetition_penalty", &s.Repetition)
	if m.take("top_k", &s.TopK) && s.TopK == -1 { // all, as others say it
		s.TopK = 0
	}
	var seed int64
	if m.take("seed", &seed) {
		s.Seed = uint64(seed)
	} else {
		s.Seed = answer.Seed()
	}
	var bias map[string]float64
	if m.take("logit_bias", &bias) {
		if len(bias) > 1024 {
			m.fail("logit_bias", "%d tokens, want at most 1024", len(bias))
		}
		var err error
		if s.Bias, err = answer.Biases(bias); err != nil {
			m.fail("logit_bias", "%s", strings.TrimPrefix(err.Error(), "logit_bias "))
		}
	}
	return s
}

// count takes a number from low to high.
func (m *members) count(name string, otherwise, low, high int) int {
	n := otherwise
	if m.take(name, &n) && (n < low || n > high) {
		m.fail(name, "is %d, want %d to %d", n, low, high)
	}
	return n
}
