package model

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Names is a list of names: its JSON text, so that lists can be compared by ==. "" has none.
type Names string

// NamesOf returns a list.
func NamesOf(list ...string) Names {
	if len(list) == 0 {
		return ""
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(fmt.Sprintf("model: %v: %v", list, err))
	}
	return Names(text)
}

// Values returns the names.
func (n Names) Values() []string {
	var list []string
	if n == "" || json.Unmarshal([]byte(n), &list) != nil {
		return nil
	}
	return list
}

// Has reports whether the list has a name.
func (n Names) Has(name string) bool { return slices.Contains(n.Values(), name) }

// MarshalJSON writes the list as an array.
func (n Names) MarshalJSON() ([]byte, error) {
	if n == "" {
		return []byte("[]"), nil
	}
	return []byte(n), nil
}

// UnmarshalJSON reads an array of names.
func (n *Names) UnmarshalJSON(text []byte) error {
	var list []string
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	*n = NamesOf(list...)
	return nil
}
