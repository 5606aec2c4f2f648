package verify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tokitai/evidence"
	"tokitai/internal/testlevel"
	"tokitai/verify"
)

// campaign is a verification of one target in shards.
type campaign struct {
	t      *testing.T
	x      *verify.Target
	dir    string
	n      int
	o      verify.Options
	cut    verify.Cut
	header verify.Shard
}

func newCampaign(t *testing.T, x *verify.Target, n int) *campaign {
	c := &campaign{t: t, x: x, dir: t.TempDir(), n: n, o: verify.Options{Seed: 1, Tool: "test", Version: "0", Part: func(string) bool { return true }}}
	c.cut = verify.CutCases([]*verify.Target{x}, c.options, n)
	c.header = verify.Shard{Schema: verify.ShardSchema, N: n, Tool: "test", Version: "0", Device: "cpu", Level: "smoke", Seed: 1, Cut: c.cut.Hash([]*verify.Target{x})}
	return c
}

func (c *campaign) options(*verify.Target) verify.Options { return c.o }

func (c *campaign) path(k int) string { return filepath.Join(c.dir, fmt.Sprint(k)) }

// run runs shard k, up to the given number of cases if that is not 0.
func (c *campaign) run(k, most int) {
	c.t.Helper()
	j, err := verify.OpenJournal(c.path(k), true)
	if err != nil {
		c.t.Fatal(err)
	}
	header := c.header
	header.K = k
	if err := j.BeginShard(&header); err != nil {
		c.t.Fatal(err)
	}
	o := c.o
	o.Journal, o.Part = j, func(name string) bool { return c.cut[0][name] == k }
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o.Progress = func(done, _ int) {
		if done == most {
			cancel()
		}
	}
	runUnder(c.t, ctx, c.x, o)
	closeJournal(c.t, j)
}

// read reads the given shards.
func (c *campaign) read(ks ...int) (list []*verify.ShardResults) {
	c.t.Helper()
	for _, k := range ks {
		r, err := verify.ReadShard(c.path(k))
		if err != nil {
			c.t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

func (c *campaign) glue(list []*verify.ShardResults) (*evidence.Report, error) {
	r, err := verify.Glue(c.x, c.o, c.cut[0], list)
	if err != nil {
		return nil, err
	}
	return r.Report, r.Report.Check()
}

// TestShardsGlued checks that shards, put together in any order, give the report of one run, also when one of
// them was killed and continued.
func TestShardsGlued(t *testing.T) {
	t.Parallel()
	for name, x := range reported(t) {
		if name == "inadmissible" && testlevel.Current() < testlevel.Quick {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := run(t, x, verify.Options{Seed: 1}).Report
			c := newCampaign(t, x, 3)
			for k := 1; k <= 3; k++ {
				if k == 2 {
					c.run(k, 5)
					if name != "inadmissible" && len(verify.FindMissing([]*verify.Target{x}, c.options, c.cut, c.read(2))) != 3 {
						t.Errorf("nothing is missing after a shard was killed")
					}
				}
				c.run(k, 0)
			}
			list := c.read(2, 3, 1)
			if err := verify.CheckShards(list); err != nil {
				t.Fatal(err)
			}
			missing := verify.FindMissing([]*verify.Target{x}, c.options, c.cut, list)
			if name == "inadmissible" {
				if len(missing) == 0 || !strings.Contains(missing[0].Reason, "nine") {
					t.Errorf("a kernel that ends in errors: %v", missing)
				}
				return
			}
			if len(missing) > 0 {
				t.Fatal(missing)
			}
			glued, err := c.glue(list)
			if err != nil {
				t.Fatal(err)
			}
			const claim = "the cases ran in 3 shards"
			at := slices.IndexFunc(glued.Evidence, func(s string) bool { return strings.HasPrefix(s, claim) })
			if at < 0 {
				t.Fatalf("no claim %q in %q", claim, glued.Evidence)
			}
			glued.Evidence = slices.Delete(glued.Evidence, at, at+1)
			if name == "rejected" { // the shards have reduced what they met
				if glued.Failure == nil || whole.Failure == nil || glued.Failure.Tier != whole.Failure.Tier {
					t.Errorf("failure %+v", glued.Failure)
				}
				glued.Failure, whole.Failure, glued.Reason, whole.Reason = nil, nil, "", ""
			}
			same(t, "glued", glued, whole)
		})
	}
}

// TestShardsRefused checks that shards which are missing, twice there, changed, or of another campaign
// are named.
func TestShardsRefused(t *testing.T) {
	t.Parallel()
	x := reported(t)["softmax.forward"]
	c := newCampaign(t, x, 2)
	c.run(1, 0)
	c.run(2, 0)
	targets := []*verify.Target{x}
	if missing := verify.FindMissing(targets, c.options, c.cut, c.read(1)); len(missing) != 1 || !strings.HasPrefix(missing[0].String(), "shard 2 is missing: ") {
		t.Errorf("without shard 2: %v", missing)
	}
	if _, err := c.glue(c.read(1)); err == nil || !strings.Contains(err.Error(), "the shards cover") {
		t.Errorf("without shard 2, glued: %v", err)
	}
	if err := verify.CheckShards(c.read(1, 2, 1)); err == nil || !strings.Contains(err.Error(), "shard 1/2 is given twice") {
		t.Errorf("shard 1 twice: %v", err)
	}
	text, err := os.ReadFile(c.path(2))
	if err != nil {
		t.Fatal(err)
	}
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(c.path(9), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	lines := bytes.SplitAfter(text, []byte("\n"))

	// A file that was cut off lacks its last cases, and one with a changed result is refused.
	write(text[:len(text)*2/3])
	if missing := verify.FindMissing(targets, c.options, c.cut, append(c.read(1), c.read(9)...)); len(missing) != 1 || missing[0].Shard != 2 || missing[0].Cases == missing[0].Of {
		t.Errorf("a truncated shard: %v", missing)
	}
	write(bytes.Replace(text, []byte(`"mismatches":0`), []byte(`"mismatches":1`), 1))
	if _, err := verify.ReadShard(c.path(9)); err == nil || !strings.Contains(err.Error(), "a result is not what was written") {
		t.Errorf("a changed result: %v", err)
	}
	write(bytes.Join(lines[1:], nil))
	if _, err := verify.ReadShard(c.path(9)); err == nil || !strings.Contains(err.Error(), "is not the file of a shard") {
		t.Errorf("no header: %v", err)
	}

	// A case of another shard.
	one, err := os.ReadFile(c.path(1))
	if err != nil {
		t.Fatal(err)
	}
	write(append(bytes.Clone(text), bytes.SplitAfter(one, []byte("\n"))[1]...))
	if _, err := c.glue(append(c.read(1), c.read(9)...)); err == nil || !strings.Contains(err.Error(), "which is not one of shard 2/2") {
		t.Errorf("a case of another shard: %v", err)
	}

	// Other campaigns.
	for want, change := range map[string]func(h *verify.Shard){
		"another seed, 7 and not 1":                 func(h *verify.Shard) { h.Seed = 7 },
		"another level, full and not smoke":         func(h *verify.Shard) { h.Level = "full" },
		"another version, test 0.2 and not test 0":  func(h *verify.Shard) { h.Version = "0.2" },
		"another program":                           func(h *verify.Shard) { h.Program = "x" },
		"another device, cuda and not cpu":          func(h *verify.Shard) { h.Device = "cuda" },
		"another kind of machine, gfx942 and not ":  func(h *verify.Shard) { h.Machine = "gfx942" },
		"another number of shards, 3 and not 2":     func(h *verify.Shard) { h.N = 3 },
		"another cut of the cases":                  func(h *verify.Shard) { h.Cut = "x" },
		"is of shard 0/2":                           func(h *verify.Shard) { h.K = 0 },
		`is of schema "urn:tokitai:shard:2", want `: func(h *verify.Shard) { h.Schema = "urn:tokitai:shard:2" },
	} {
		header := c.header
		header.K = 2
		change(&header)
		os.Remove(c.path(9))
		j := openJournal(t, c.path(9), false)
		if err := j.BeginShard(&header); err != nil {
			t.Fatal(err)
		}
		closeJournal(t, j)
		r, err := verify.ReadShard(c.path(9))
		if err == nil {
			err = verify.CheckShards(append(c.read(1), r))
		}
		if _, ok := errors.AsType[*verify.ShardError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		j = openJournal(t, c.path(9), true)
		good := c.header
		if good.K = 2; want[:2] != "is" {
			if err := j.BeginShard(&good); err == nil {
				t.Errorf("a shard continues one with %s", want)
			}
		}
		closeJournal(t, j)
	}
}

// TestCut checks that every case is in exactly one shard, that the cut is deterministic, and that no shard has
// more work than the mean plus the largest case.
func TestCut(t *testing.T) {
	t.Parallel()
	targets := cpuTargets()[:3]
	o := func(*verify.Target) verify.Options { return verify.Options{Seed: 1} }
	for _, n := range []int{1, 2, 7, 5000} {
		cut := verify.CutCases(targets, o, n)
		if a, b := cut.Hash(targets), verify.CutCases(targets, o, n).Hash(targets); a != b {
			t.Errorf("%d shards: the cuts differ", n)
		}
		work, all, largest, cases := make([]float64, n+1), 0.0, 0.0, 0
		for i, x := range targets {
			works := verify.WorkOfCases(x, o(x))
			if len(cut[i]) != len(works) {
				t.Errorf("%d cases of %d are in the cut", len(cut[i]), len(works))
			}
			for name, k := range cut[i] {
				w := works[name]
				work[k] += w
				all += w
				largest = max(largest, w)
				cases++
			}
		}
		for k := 1; k <= n; k++ {
			if work[k] > all/float64(n)+largest {
				t.Errorf("shard %d/%d has work %g, the mean is %g and the largest case %g", k, n, work[k], all/float64(n), largest)
			}
			if n <= cases/2 && work[k] == 0 {
				t.Errorf("shard %d/%d has no case", k, n)
			}
		}
	}
}
