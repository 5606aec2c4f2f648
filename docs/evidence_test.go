package docs_test

import (
	"os"
	"path/filepath"
	"testing"

	"tokitai/evidence"
)

// TestEvidence: the reports that are kept here have the hashes of their index, and do not
// contradict themselves.
func TestEvidence(t *testing.T) {
	folders, err := os.ReadDir("evidence")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		dir := filepath.Join("evidence", folder.Name())
		if _, err := os.Stat(filepath.Join(dir, "index.json")); err != nil {
			continue // pages of an earlier version, without JSON
		}
		if _, _, err := evidence.ReadFolder(dir); err != nil {
			t.Error(err)
		}
	}
}
