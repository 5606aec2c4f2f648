package train

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"tokitai/internal/await"
	"tokitai/internal/testlevel"
)

const killedVariable = "TOKITAI_TEST_KILLED_RUN"

// TestRandomKills kills training processes at random moments until one of them finishes the run. Its chain and
// metrics must equal those of an undisturbed run.
func TestRandomKills(t *testing.T) {
	if folder := os.Getenv(killedVariable); folder != "" {
		fmt.Println("trains")
		chain, err := do(osDisk{}, folder, long(), 0)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("chain", chain)
		return
	}
	t.Parallel()
	want, err := do(osDisk{}, t.TempDir(), long(), 0)
	if err != nil {
		t.Fatal(err)
	}
	folder, kills, seed := t.TempDir(), 0, rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for most := testlevel.Pick(3, 20); ; {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRandomKills$", "-test.count=1")
		c.Env = append(os.Environ(), killedVariable+"="+folder)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		got, lines := "", bufio.NewScanner(out)
		lines.Scan() // it has begun
		began, _, _ := readMetrics(folder, 1<<30)
		if at := len(began) + 1 + random.IntN(long().Steps/2); kills < most {
			await.For(t, "a run takes steps", func() bool {
				now, _, _ := readMetrics(folder, 1<<30)
				return len(now) >= min(at, long().Steps)
			})
			kills++
			c.Process.Kill()
		}
		for lines.Scan() {
			fmt.Sscanf(lines.Text(), "chain %s", &got)
		}
		if err := c.Wait(); err == nil || kills == most && got != "" {
			if got != want.String() {
				t.Errorf("chain %q after %d kills, want %v", got, kills, want)
			}
			break
		}
	}
}

// long returns settings of a run that takes about a second.
func long() Settings {
	s := tiny()
	s.Steps, s.CheckpointEvery, s.ValidateEvery, s.Keep = 120, 5, 20, 2
	return s
}
