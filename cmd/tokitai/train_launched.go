package main

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tokitai/engine"
	"tokitai/ranks"
	"tokitai/train"
)

// launchedRanks is the value of --ranks for processes that a launcher has started.
const launchedRanks = "env"

// secretVariable is the environment variable with the secret of ranks on several machines.
const secretVariable = "TOKITAI_RANKS_SECRET"

// launched is what a launcher says to a process.
type launched struct {
	ranks.Place
	onMachine int // ranks on the machine of this process
}

// readLaunched reads what torchrun or Slurm has set.
func readLaunched(variable func(name string) string) (l launched, err error) {
	number := func(names ...string) int {
		for _, name := range names {
			text := variable(name)
			if text == "" {
				continue
			}
			n, e := strconv.Atoi(text)
			if e != nil || n < 0 {
				err = cmp.Or(err, wrongUse("--ranks env: %s is %q, want a number", name, text))
			}
			return n
		}
		err = cmp.Or(err, wrongUse("--ranks env: neither %s is set: want torchrun's variables or those of srun", strings.Join(names, " nor ")))
		return 0
	}
	l.Rank, l.Size = number("RANK", "SLURM_PROCID"), number("WORLD_SIZE", "SLURM_NTASKS")
	if err != nil {
		return l, err
	}
	host, port := variable("MASTER_ADDR"), variable("MASTER_PORT")
	if host == "" {
		host = firstHost(cmp.Or(variable("SLURM_STEP_NODELIST"), variable("SLURM_JOB_NODELIST")))
	}
	if job, e := strconv.Atoi(variable("SLURM_JOB_ID")); port == "" && e == nil {
		port = strconv.Itoa(20_000 + job%10_000)
	}
	if host == "" || port == "" {
		return l, wrongUse("--ranks env: MASTER_ADDR is %q and MASTER_PORT %q, want where rank 0 listens", host, port)
	}
	l.Address, l.Secret = net.JoinHostPort(host, port), []byte(variable(secretVariable))
	if len(l.Secret) < ranks.MinSecret {
		return l, wrongUse("--ranks env: %s has %d bytes, want at least %d, the same on every rank", secretVariable, len(l.Secret), ranks.MinSecret)
	}
	l.onMachine = 1
	for _, name := range []string{"LOCAL_WORLD_SIZE", "SLURM_NTASKS_PER_NODE"} {
		if n, e := strconv.Atoi(variable(name)); e == nil && n > 0 {
			l.onMachine = n
			break
		}
	}
	return l, nil
}

// firstHost returns the first host of a list as Slurm writes it: a,b or a[03-07,9],b.
func firstHost(list string) string {
	name, _, _ := strings.Cut(list, ",")
	prefix, numbers, isRange := strings.Cut(name, "[")
	if !isRange {
		return name
	}
	first, _, _ := strings.Cut(strings.TrimSuffix(numbers, "]"), "-")
	return prefix + first
}

// trainLaunched trains as one of the ranks that a launcher has started. A rank because of which the others cannot go on ends all of
// them: the launcher may start them again.
func (f *trainFlags) trainLaunched(c *cobra.Command, q *engine.Queue, s train.Settings, content train.Data, l launched) error {
	endsItself.Store(true) // rank 0 writes a checkpoint, for which it needs the others
	defer endsItself.Store(false)
	group, err := ranks.Connect(l.Place, ranks.Options{})
	if err != nil {
		return &verdictError{exitUndecided, err}
	}
	defer group.Close()
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
