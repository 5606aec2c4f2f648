package engine

import (
	"tokitai/def"
	"tokitai/internal/answers"
	"tokitai/num"
	"tokitai/reference"
)

// SetFindAnswer replaces the committed answers, and returns a function that puts them
// back.
func SetFindAnswer(f func(definition string, formats []num.DType, test string) (answers.Answer, bool, error)) (restore func()) {
	findAnswer = f
	return func() { findAnswer = answers.Find }
}

// SetReference replaces the reference in self-tests, and returns a function that puts
// it back.
func SetReference(f func(*def.Definition, []num.Array, reference.Options) error) (restore func()) {
	runReference = f
	checkedReferences.Clear()
	return func() { runReference = reference.Run }
}
