package answer

import (
	"context"
	"errors"
	"sync"
)

// Completed is an answer that has ended.
type Completed struct {
	Index  int
	Text   string
	Finish string
	Events []Event
	Cached int // tokens of the prompt whose keys were reused
}

// Complete computes n answers to a request, whose choices are numbered from 0 on. tell, which may be nil, gets the
// events of each as they come, and at its end the rest of the text in an event of the token -1; it is called by one
// goroutine at a time, and an error of it ends all answers. After an error the answers are what there was of them.
func (e *Engine) Complete(ctx context.Context, r Request, n int, tell func(choice int, event *Event, finish string) error) ([]Completed, *Receipt, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var requests []Request
	for i := range n {
		r.Choice = i
		requests = append(requests, r)
	}
	answers, err := e.StartAll(ctx, requests)
	if err != nil {
		return nil, nil, err
	}
	receipt := NewReceipt(e.model, &r)
	list := make([]Completed, n)
	errs := make([]error, n)
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, a := range answers {
		list[i].Index = i
		all.Go(func() {
			errs[i] = list[i].collect(a, func(event *Event, finish string) error {
				if tell == nil {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				return tell(i, event, finish)
			})
			if errs[i] != nil {
				cancel()
			}
		})
	}
	all.Wait()
	if err := e.model.Unchanged(); err != nil {
		return list, nil, err // the receipt would name other weights
	}
	for i := range list {
		c := Choice{Index: i, Finish: list[i].Finish, Output: []int32{}, Checksums: []Checksum{}}
		for k := range list[i].Events {
			c.Add(&list[i].Events[k])
		}
		receipt.Choices = append(receipt.Choices, c)
	}
	for _, err := range errs { // the first that is not the end of the others
		if err != nil && !errors.Is(err, context.Canceled) {
			return list, receipt, err
		}
	}
	return list, receipt, errors.Join(errs...)
}

func (c *Completed) collect(a *Answer, tell func(event *Event, finish string) error) error {
	for {
		events, outcome, err := a.Next()
		if err != nil {
			return err
		}
		for i := range events {
			c.Text += events[i].Text
			c.Events = append(c.Events, events[i])
			if err := tell(&events[i], ""); err != nil {
				return err
			}
		}
		if outcome != nil {
			c.Text += outcome.Text
			c.Finish, c.Cached = outcome.Finish, outcome.Cached
			return tell(&Event{Token: -1, Text: outcome.Text}, outcome.Finish)
		}
	}
}
