package docs_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/verify"
)

// TestCampaign holds the shards that are committed to what campaigns.md says of their campaign.
func TestCampaign(t *testing.T) {
	text := readText(t, "campaigns.md")
	files, err := filepath.Glob("campaign/*/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no shards", err)
	}
	var list []*verify.ShardResults
	for _, file := range files {
		r, err := verify.ReadShard(file)
		if err != nil {
			t.Error(err)
			continue
		}
		list = append(list, r)
		s := r.Shard
		if want := fmt.Sprintf("shard-%d-of-%d.jsonl", s.K, s.N); filepath.Base(file) != want || s.Level != "full" || s.Seed != 1 {
			t.Errorf("%s is of %s, level %s, seed %d", file, want, s.Level, s.Seed)
		}
		for _, said := range []string{s.Program + "  campaign-tokitai", fmt.Sprintf("--shard K/%d", s.N), "campaign/" + filepath.Base(filepath.Dir(file))} {
			if !strings.Contains(text, said) {
				t.Errorf("campaigns.md does not say %q", said)
			}
		}
	}
	if err := verify.CheckShards(list); err != nil {
		t.Error(err)
	}
}
