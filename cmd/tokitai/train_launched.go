package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"tokitai/engine"
	"tokitai/ranks"
	"tokitai/ranks/launch"
	"tokitai/train"
)

// launchedRanks is the value of --ranks for processes that a launcher has started.
const launchedRanks = "env"

// jobError is an error of a rank that keeps the others from going on. The launcher has to end them.
type jobError struct {
	error
	rank *launch.Rank
}

func (e *jobError) Unwrap() error { return e.error }

// afterMessage ends the job.
func (e *jobError) afterMessage(code int) { e.rank.End(code) }

// endingJob returns an error of a rank as one that ends its job.
func endingJob(l *launch.Rank, err error) error {
	if err == nil || !l.MustEnd() {
		return err
	}
	return &jobError{err, l}
}

// programDigest is that of the file of this program: two builds may have the same version.
func programDigest() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// trainLaunched trains as one of the ranks that a launcher has started. If one rank keeps the others from going on, all of them end,
// and the launcher may start them again.
func (f *trainFlags) trainLaunched(c *cobra.Command, q *engine.Queue, s train.Settings, content train.Data, l *launch.Rank) error {
	program, err := programDigest()
	if err != nil {
		return err
	}
	group, err := f.meet(q, l)
	if err != nil {
		return err
	}
	defer group.Close()
	endsItself.Store(true) // rank 0 writes a checkpoint, for which it needs the others
	defer endsItself.Store(false)
	audit, err := f.auditShare(l.Size)
	if err != nil {
		return err
	}
	spec := rankSpec{Audit: audit, DividesExperts: f.experts == "divided"}
	team := spec.team(group, q)
	team.Facts = append(team.Facts, ranks.Fact{Name: "the file of the program", Value: program})
	if l.Rank > 0 {
		return stoppedByPeer(train.Follow(q, team, s.Config, content))
	}
	start := func() (train.Team, func(), error) { return team, func() {}, nil }
	if f.dryRun {
		return stoppedByPeer(f.plan(c, q, s, content, start))
	}
	progress := startProgress(c)
	defer progress.end()
	result, err := f.attempt(c, q, s, content, progress, start)
	return stoppedByPeer(f.tell(c, progress, result, err))
}

// stoppedByPeer gives an error about another rank its exit code.
func stoppedByPeer(err error) error {
	if !isPeer(err) {
		return err
	}
	return &verdictError{exitUndecided, fmt.Errorf("%w; the same command goes on from the last checkpoint", err)}
}
