package main

import (
	"slices"
	"testing"
)

func TestWithoutFlags(t *testing.T) {
	args := []string{"check", "softmax", "--batch", "dir", "--exec=python {}", "--json", "--level", "smoke", "--seed", "7", "--budget=2s"}
	want := []string{"check", "softmax", "--level", "smoke", "--budget=2s"}
	if got := withoutFlags(args, "batch", "exec", "seed", "json"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
