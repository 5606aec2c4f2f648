package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/kernelprocess/shm"
	"tokitai/kernelprocess/spawn"
	"tokitai/ranks"
	"tokitai/ranks/launch"
	"tokitai/train"
)

// rankCommand is the command of a process that another one has started as a rank.
const rankCommand = "rank"

// rankWindow is the size of the memory through which the bytes of a rank go.
const rankWindow = 8 << 20

// rankSpec is what a rank is told by the process that starts it, which is rank 0.
type rankSpec struct {
	Rank, Ranks  int
	MemoryBytes  int64
	Config       train.Config
	Source       train.Source
	Device       string
	Data, Suffix string
	Audit        float64 // the share of steps

	DividesExperts bool
}

// rankFacts are what ranks must have in common besides what they train.
func rankFacts(q *engine.Queue) []ranks.Fact {
	d := q.Device().Describe()
	return []ranks.Fact{{Name: "the program", Value: thisBuild().String()}, {Name: "the device", Value: q.Device().Kind() + " " + d.Name}}
}

// rankProcesses are the ranks that this process has started, and its own place among them.
type rankProcesses struct {
	group    *ranks.Memory
	region   *shm.Region
	children []*spawn.Child
	watching sync.WaitGroup // for their ends
}

// startRanks starts ranks 1 to n-1. For one rank there is nothing to start: the result is nil.
func startRanks(n int, s rankSpec) (p *rankProcesses, err error) {
	if n < 2 {
		return nil, nil
	}
	p = &rankProcesses{}
	defer func() {
		if err != nil {
			p.end()
		}
	}()
	if p.region, err = shm.Create(int64(ranks.MemoryBytes(n, rankWindow))); err != nil {
		return nil, fmt.Errorf("--ranks %d: %w", n, err)
	}
	memory := p.region.Bytes()
	if p.group, err = ranks.Join(memory, 0, n, ranks.Options{}); err != nil {
		return nil, err
	}
	for rank := 1; rank < n; rank++ {
		s.Rank, s.Ranks, s.MemoryBytes = rank, n, int64(len(memory))
		child, err := s.start(p.region)
		if err != nil {
			return nil, fmt.Errorf("rank %d: %w", rank, err)
		}
		p.children = append(p.children, child)
		p.watching.Go(func() {
			<-child.Done()
			if status := child.Status(); status.Code != 0 {
				p.group.Lose(rank, fateOf(status))
			}
		})
	}
	return p, nil
}

// start starts the process of a rank, and tells it what it is.
func (s *rankSpec) start(region *shm.Region) (*spawn.Child, error) {
	self, err := spawn.Self()
	if err != nil {
		return nil, err
	}
	ours, theirs, err := shm.Pair()
	if err != nil {
		return nil, err
	}
	threads := fmt.Sprintf("GOMAXPROCS=%d", runtime.GOMAXPROCS(0)) // this process has given the others their share
	child, err := spawn.Start(spawn.Spec{
		Program: self, Name: toolName, Args: []string{rankCommand}, Env: append(spawn.Environment(os.Environ()), threads), Socket: theirs, Host: ours,
	})
	if err != nil {
		ours.Close()
		return nil, err
	}
	if err := launch.WriteMessage(ours, s, region.FD()); err != nil {
		child.Close(0)
		return nil, fmt.Errorf("%w: %w", err, child.Wait())
	}
	return child, nil
}

// fateOf says how the process of a rank has ended.
func fateOf(e *spawn.ExitError) string {
	text := fmt.Sprintf("has ended with exit status %d", e.Code)
	if e.Signal != nil {
		text = fmt.Sprintf("has ended: signal %v", e.Signal)
	}
	if len(e.LastWords) > 0 {
		text += ": " + strings.Join(e.LastWords, " | ")
	}
	return fmt.Sprintf("(process %d) %s", e.PID, text)
}

// team returns the ranks as a trainer wants them.
func (p *rankProcesses) team(q *engine.Queue, s *rankSpec) train.Team {
	if p == nil {
		return train.Team{}
	}
	return s.team(p.group, q)
}

// team returns what a trainer needs to know of the ranks. Their third opinions come from the CPU.
func (s *rankSpec) team(g ranks.Group, q *engine.Queue) train.Team {
	team := train.Team{Group: g, Facts: rankFacts(q), Audit: s.Audit, DividesExperts: s.DividesExperts}
	if judge := cpu.Queue(); q.Device().Kind() != judge.Device().Kind() {
		team.Judge = judge
	}
	return team
}

// rankGrace is how long a rank may take to end.
const rankGrace = 2 * time.Second

// end ends the other ranks, and waits for them.
func (p *rankProcesses) end() {
	if p == nil {
		return
	}
	if p.group != nil {
		p.group.Close()
	}
	for _, c := range p.children {
		c.Close(rankGrace)
	}
	p.watching.Wait() // before the memory goes
	if p.region != nil {
		p.region.Close()
	}
}

// shareCores gives each of n ranks its share of the processors that this process has.
func shareCores(n int) { runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/n)) }

// isPeer reports whether an error is about another rank.
func isPeer(err error) bool {
	_, is := errors.AsType[*ranks.PeerError](err)
	return is
}

// maxRestarts is how many times in a row a run is begun again without a new checkpoint.
const maxRestarts = 3

// restarts counts how often a run was begun again because of a rank.
type restarts struct{ count, from int }

// allows reports whether a run that went on from a step may be begun again after an error.
func (r *restarts) allows(ctx context.Context, err error, from int) bool {
	if !isPeer(err) || ctx.Err() != nil {
		return false
	}
	if from > r.from {
		*r = restarts{from: from}
	}
	r.count++
	return r.count <= maxRestarts
}

func newRank() *cobra.Command {
	return &cobra.Command{
		Use:     rankCommand,
		Short:   "train as a rank of another process",
		Long:    `Train as a rank of 'tokitai train --ranks', which starts this command with a socket as descriptor 3.`,
		Example: `  tokitai train --help`,
		Hidden:  true,
		Args:    noArguments,
		RunE:    func(c *cobra.Command, _ []string) error { return runRank(c) },
	}
}

// runRank is the life of a rank that another process has started.
func runRank(c *cobra.Command) error {
	if err := spawn.CloseOthers(3); err != nil {
		return err
	}
	conn, err := shm.FromFD(3)
	if err != nil {
		return wrongUse("'tokitai train --ranks' starts this command: %v", err)
	}
	spec, memory, err := readRankSpec(conn)
	if err != nil {
		return err
	}
	defer memory.Close()
	group, err := ranks.Join(memory.Bytes(), spec.Rank, spec.Ranks, ranks.Options{})
	if err != nil {
		return err
	}
	defer group.Close()
	ctx, end := context.WithCancel(c.Context())
	defer end()
	go func() {
		io.Copy(io.Discard, conn) // until rank 0 has ended
		end()
	}()
	return untilInterrupted(ctx, func() error {
		settings := train.Settings{Config: spec.Config, Source: spec.Source}
		content, err := readData(spec.Data, spec.Suffix, &settings, settings.Corpus)
		if err != nil {
			return err
		}
		return withQueue(c, spec.Device, func(q *engine.Queue) error {
			return train.Follow(q, spec.team(group, q), spec.Config, content)
		})
	})
}

// readRankSpec reads what a rank is told, and maps the memory of the group.
func readRankSpec(conn *shm.Conn) (*rankSpec, *shm.Region, error) {
	var s rankSpec
	if err := launch.ReadMessage(conn, &s); err != nil {
		return nil, nil, wrongUse("what this rank is told: %v", err)
	}
	fd, ok := conn.TakeFD()
	if !ok {
		return nil, nil, wrongUse("no memory comes with what this rank is told")
	}
	memory, err := shm.Open(fd, s.MemoryBytes)
	return &s, memory, err
}
