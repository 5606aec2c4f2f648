package docs_test

import (
	"testing"

	"tokitai/internal/plaincpu"
)

func TestMain(m *testing.M) { plaincpu.Main(m) }
