package model

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Numbers is a list of numbers: its JSON text, so that lists can be compared by ==. "" has none.
type Numbers string

// NumbersOf returns a list.
func NumbersOf[T int | float64](list ...T) Numbers {
	if len(list) == 0 {
		return ""
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(fmt.Sprintf("model: %v has numbers that JSON does not: %v", list, err))
	}
	return Numbers(text)
}

// Values returns the numbers.
func (n Numbers) Values() []float64 {
	var list []float64
	if n == "" || json.Unmarshal([]byte(n), &list) != nil {
		return nil
	}
	return list
}

// MarshalJSON writes the list as an array.
func (n Numbers) MarshalJSON() ([]byte, error) {
	if n == "" {
		return []byte("[]"), nil
	}
	return []byte(n), nil
}

// UnmarshalJSON reads an array of numbers.
func (n *Numbers) UnmarshalJSON(text []byte) error {
	var list []json.Number
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	var values []float64
	if err := json.Unmarshal(text, &values); err != nil {
		return err
	}
	if *n = ""; len(list) == 0 {
		return nil
	}
	var b bytes.Buffer
	err := json.Compact(&b, text)
	*n = Numbers(b.String())
	return err
}
