package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"tokitai/engine"
	"tokitai/ranks"
	"tokitai/train"
)

// launchedRanks is the value of --ranks for processes that a launcher has started.
const launchedRanks = "env"

// meet joins the group of the ranks that a launcher has started.
func (l *launched) meet() (ranks.Group, error) {
	if l.Address == "" {
		return meetNeighbours(l)
	}
	return ranks.Connect(l.Place, ranks.Options{})
}

// trainLaunched trains as one of the ranks that a launcher has started. A rank because of which the others cannot go on ends all of
// them: the launcher may start them again.
func (f *trainFlags) trainLaunched(c *cobra.Command, q *engine.Queue, s train.Settings, content train.Data, l launched) error {
	group, err := l.meet()
	if err != nil {
		return &verdictError{exitUndecided, err}
	}
	defer group.Close()
	endsItself.Store(true) // rank 0 writes a checkpoint, for which it needs the others
	defer endsItself.Store(false)
	audit, err := f.auditShare(l.Size)
	if err != nil {
		return err
	}
	team := newTeam(group, q, audit)
	if l.Rank > 0 {
		return stoppedByPeer(train.Follow(q, team, s.Config, content))
	}
	progress := startProgress(c)
	defer progress.end()
	result, err := f.attempt(c, q, s, content, progress, func() (train.Team, func(), error) { return team, func() {}, nil })
	return stoppedByPeer(f.tell(c, progress, result, err))
}

// stoppedByPeer gives an error about another rank its exit code.
func stoppedByPeer(err error) error {
	if !isPeer(err) {
		return err
	}
	return &verdictError{exitUndecided, fmt.Errorf("%w; the same command goes on from the last checkpoint", err)}
}
