package serve

import (
	"encoding/json"
	"unicode/utf8"

	"tokitai/answer"
)

// The objects of OpenAI's API that this server writes. Receipts and the tokens of a prompt that were cached are
// further members, which clients that do not know them leave alone.

type reply struct {
	ID          string            `json:"id"`
	Object      string            `json:"object"`
	Created     int64             `json:"created"`
	Model       string            `json:"model"`
	Fingerprint string            `json:"system_fingerprint"`
	Choices     []replyChoice     `json:"choices"`
	Usage       *usage            `json:"usage,omitempty"`
	Receipt     *answer.Receipt   `json:"receipt,omitempty"`
	Receipts    []*answer.Receipt `json:"receipts,omitempty"` // of several prompts
}

type replyChoice struct {
	Index    int             `json:"index"`
	Text     *string         `json:"text,omitempty"`
	Message  *replyMessage   `json:"message,omitempty"`
	Delta    *replyMessage   `json:"delta,omitempty"`
	Logprobs json.RawMessage `json:"logprobs"`
	Finish   *string         `json:"finish_reason"`
}

type replyMessage struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

var none = json.RawMessage("null")

// chatLogprobs are the logprobs of a chat completion.
type chatLogprobs struct {
	Content []chatLogprob `json:"content"`
	Refusal []chatLogprob `json:"refusal"`
}

type chatLogprob struct {
	Token   string        `json:"token"`
	Logprob float32       `json:"logprob"`
	Bytes   []int         `json:"bytes"`
	Top     []chatLogprob `json:"top_logprobs,omitempty"`
}

// textLogprobs are those of a completion.
type textLogprobs struct {
	Tokens   []string             `json:"tokens"`
	Logprobs []*float32           `json:"token_logprobs"`
	Top      []map[string]float32 `json:"top_logprobs"`
	Offsets  []int                `json:"text_offset"`
}

// logprobs returns the logprobs of events. offset is the length of the text in front of them, which it updates.
func (s *Server) logprobs(r *request, events []answer.Event, offset *int) json.RawMessage {
	if !r.Base.Logprobs {
		return none
	}
	var v any
	if r.IsChat {
		list := chatLogprobs{Content: []chatLogprob{}}
		for i := range events {
			one := s.chatLogprob(events[i].Token, events[i].Logprob)
			one.Top = []chatLogprob{}
			for _, l := range events[i].Top {
				one.Top = append(one.Top, s.chatLogprob(l.Token, l.Logprob))
			}
			list.Content = append(list.Content, one)
		}
		v = list
	} else {
		list := textLogprobs{Tokens: []string{}, Logprobs: []*float32{}, Top: []map[string]float32{}, Offsets: []int{}}
		for i := range events {
			e := &events[i]
			piece := s.piece(e.Token)
			list.Tokens, list.Offsets = append(list.Tokens, piece), append(list.Offsets, *offset)
			*offset += utf8.RuneCountInString(piece)
			if !e.HasRow {
				list.Logprobs, list.Top = append(list.Logprobs, nil), append(list.Top, nil)
				continue
			}
			logprob := finite(e.Logprob)
			list.Logprobs = append(list.Logprobs, &logprob)
			top := map[string]float32{}
			for _, l := range e.Top {
				top[s.piece(l.Token)] = finite(l.Logprob)
			}
			list.Top = append(list.Top, top)
		}
		v = list
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and texts
	}
	return text
}

// finite returns a logprob as JSON can have it: that of a token which cannot be drawn is -9999, as in OpenAI's API.
func finite(logprob float32) float32 { return max(logprob, -9999) }

func (s *Server) piece(token int32) string {
	piece, _ := s.model().Vocabulary.Piece(token)
	return piece
}

func (s *Server) chatLogprob(token int32, logprob float32) chatLogprob {
	l := chatLogprob{Token: s.piece(token), Logprob: finite(logprob)}
	raw, _ := s.model().Vocabulary.Bytes(token)
	for _, b := range raw {
		l.Bytes = append(l.Bytes, int(b))
	}
	return l
}
