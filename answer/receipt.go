package answer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"tokitai/def"
)

// Receipt says what answers to a prompt follow from, and what they are. With the model, anybody can compute them
// again: Replay. It has neither device nor time.
type Receipt struct {
	Version  int      `json:"receipt"` // 1
	Identity Identity `json:"identity"`
	Prompt   []int32  `json:"prompt"`         // tokens
	Date     string   `json:"date,omitempty"` // that was given to the chat template
	Sampling Sampling `json:"sampling"`
	Most     int      `json:"max_tokens"`
	Stops    []string `json:"stop,omitempty"`
	NoEnd    bool     `json:"ignore_end,omitempty"`
	Choices  []Choice `json:"choices"`
}

// Choice is one answer of a receipt.
type Choice struct {
	Index     int        `json:"index"` // names the random words
	Output    []int32    `json:"output"`
	Checksums []Checksum `json:"checksums"` // of the row of logits from which each token of the output was drawn
	Finish    string     `json:"finish"`
}

// Checksum is that of package checksum, as 16 hexadecimal digits.
type Checksum uint64

// MarshalText writes the digits.
func (c Checksum) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(c)), nil }

// UnmarshalText reads the digits.
func (c *Checksum) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil || len(text) != 16 {
		return fmt.Errorf("the checksum %q, want 16 hexadecimal digits", text)
	}
	*c = Checksum(v)
	return nil
}

// NewReceipt returns a receipt without choices.
func NewReceipt(m *Model, r *Request) *Receipt {
	return &Receipt{Version: 1, Identity: m.Identity, Prompt: r.Prompt, Sampling: r.Sampling.normal(), Most: r.Most, Stops: r.Stops, NoEnd: r.NoEnd, Choices: []Choice{}}
}

// Add adds an event to the choice.
func (c *Choice) Add(e *Event) {
	if !e.IsPrompt {
		c.Output = append(c.Output, e.Token)
		c.Checksums = append(c.Checksums, Checksum(e.Checksum))
	}
}

// Seed draws a seed for a request that has none: 53 bits, which every reader of JSON keeps.
func Seed() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) >> 11
}

// ReadReceipts returns the receipts that JSON has: the receipt itself, or those of an object with a member receipt
// or receipts, such as an answer of a server. It returns none for JSON that has none.
func ReadReceipts(text []byte) ([]*Receipt, error) {
	var outer struct {
		Receipt  json.RawMessage `json:"receipt"`
		Receipts []*Receipt      `json:"receipts"`
	}
	if err := json.Unmarshal(text, &outer); err != nil {
		return nil, badInput("the receipt: %w", err)
	}
	list := outer.Receipts
	if len(outer.Receipt) > 0 && string(outer.Receipt) != "null" {
		if outer.Receipt[0] == '{' {
			text = outer.Receipt
		}
		r := new(Receipt)
		if err := json.Unmarshal(text, r); err != nil {
			return nil, badInput("the receipt: %w", err)
		}
		list = append(list, r)
	}
	for _, r := range list {
		if err := r.check(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// check returns an error for a receipt that cannot be one of this package.
func (r *Receipt) check() error {
	switch {
	case r == nil || r.Version != 1:
		return badInput("the receipt is not of version 1")
	case len(r.Prompt) == 0:
		return badInput("the receipt has no prompt")
	case slices.Contains(r.Stops, ""):
		return badInput("the receipt has an empty stop")
	}
	if _, err := def.ParseAccum(r.Identity.Rule); err != nil {
		return badInput("the receipt: %w", err)
	}
	for i := range r.Choices {
		c := &r.Choices[i]
		if len(c.Output) != len(c.Checksums) {
			return badInput("choice %d of the receipt has %d tokens and %d checksums", c.Index, len(c.Output), len(c.Checksums))
		}
	}
	return nil
}

// Difference is where an answer that was computed again differs from its receipt.
type Difference struct {
	Choice   int    `json:"choice"`
	Position int    `json:"position"` // of the token in prompt and answer, from 0
	What     string `json:"what"`     // logits, token or end
	Want     string `json:"want"`     // of the receipt
	Got      string `json:"got"`
}

func (d *Difference) Error() string {
	return fmt.Sprintf("choice %d differs at position %d: %s %s, the receipt has %s", d.Choice, d.Position, d.What, d.Got, d.Want)
}

// Differences lists the members in which two identities differ: NAME is A, not B.
func (i *Identity) Differences(other *Identity) []string {
	var list []string
	for _, m := range []struct{ name, a, b string }{
		{"model", i.Model, other.Model}, {"program", i.Program, other.Program}, {"policy", i.Policy, other.Policy}, {"rule", i.Rule, other.Rule},
	} {
		if m.a != m.b {
			list = append(list, fmt.Sprintf("%s is %s, not %s", m.name, m.a, m.b))
		}
	}
	return list
}

// Replay computes the answers of a receipt again: all logits that tokens were drawn from, and the draws. It returns
// how many tokens were compared. The error is a *Difference for the first position that differs. The model
// must be that of the receipt.
func Replay(ctx context.Context, e *Engine, r *Receipt, tell func(tokens int)) (tokens int, err error) {
	if list := e.model.Identity.Differences(&r.Identity); len(list) > 0 {
		return 0, badInput("the receipt is of another model or program: %s", list[0])
	}
	for i := range r.Choices {
		c := &r.Choices[i]
		n, err := replayChoice(ctx, e, r, c, func(n int) {
			if tell != nil {
				tell(tokens + n)
			}
		})
		tokens += n
		if err := cmp.Or(e.model.Unchanged(), err); err != nil {
			return tokens, err
		}
	}
	return tokens, nil
}

func replayChoice(ctx context.Context, e *Engine, r *Receipt, c *Choice, tell func(int)) (n int, err error) {
	given := append([]int32{}, c.Output...)
	a, err := e.Start(ctx, Request{Prompt: r.Prompt, Choice: c.Index, Sampling: r.Sampling, Most: r.Most, Given: given})
	if err != nil {
		return 0, err
	}
	defer a.Cancel()
	for {
		events, outcome, err := a.Next()
		if err != nil {
			return n, err
		}
		if outcome != nil {
			return n, r.checkEnd(e.model, c)
		}
		for _, event := range events {
			if n >= len(c.Output) {
				continue
			}
			d := &Difference{Choice: c.Index, Position: event.Position}
			switch {
			case Checksum(event.Checksum) != c.Checksums[n]:
				d.What, d.Want, d.Got = "logits", fmt.Sprintf("%016x", uint64(c.Checksums[n])), fmt.Sprintf("%016x", event.Checksum)
				return n, d
			case event.Drawn != event.Token:
				d.What, d.Want, d.Got = "token", strconv.Itoa(int(event.Token)), strconv.Itoa(int(event.Drawn))
				return n, d
			}
			n++
		}
		tell(n)
	}
}

// checkEnd returns an error if an answer does not end where it has to.
func (r *Receipt) checkEnd(m *Model, c *Choice) error {
	text, stop := m.Vocabulary.Text(), stopper{stops: r.Stops}
	got := ""
	for i, t := range c.Output {
		isLast := i == len(c.Output)-1
		switch part, err := text.Next(t); {
		case slices.Contains(m.Ends, t) && !r.NoEnd:
			got = FinishStop
		case i+1 >= r.Most || len(r.Prompt)+i+1 >= m.Config.Block:
			got = FinishLength
			fallthrough
		default:
			if err != nil {
				part = ""
			}
			if _, isStopped := stop.add(part); isStopped {
				got = FinishStop
			}
			if _, isStopped := stop.add(map[bool]string{true: text.End()}[got == FinishLength]); isStopped {
				got = FinishStop
			}
		}
		if got != "" && !isLast {
			return &Difference{c.Index, len(r.Prompt) + i + 1, "end", "token " + strconv.Itoa(int(c.Output[i+1])), "of reason " + got}
		}
	}
	if len(c.Output) > 0 && got != c.Finish {
		return &Difference{c.Index, len(r.Prompt) + len(c.Output), "end", strconv.Quote(c.Finish), strconv.Quote(got)}
	}
	return nil
}
