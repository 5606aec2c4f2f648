package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tokitai/internal/await"
	"tokitai/internal/tool"
)

// campaignProgram is what the job of a campaign finds as tokitai in tests: it notes its process.
const campaignProgram = `#!/bin/sh
echo $$ >"$PROCESSES/$SLURM_ARRAY_TASK_ID.$SLURM_RESTART_COUNT"
exec "$PROCESSES/program/tokitai" "$@"
`

// TestCampaignUnderSlurm runs the job of docs/campaigns.md on a Slurm of this machine alone. One shard is killed
// in the middle, another is requeued while it runs; both go on with what they had, and all are merged to what one
// run says.
func TestCampaignUnderSlurm(t *testing.T) {
	sbatch, scontrol := tool.Need(t, "sbatch"), tool.Need(t, "scontrol")
	document, err := os.ReadFile("../../docs/campaigns.md")
	if err != nil {
		t.Fatal(err)
	}
	_, job, isThere := strings.Cut(string(document), "\n    #!/bin/sh\n")
	job, _, ends := strings.Cut(job, "\n\n")
	if !isThere || !ends {
		t.Fatal("docs/campaigns.md has no job")
	}
	job = "#!/bin/sh\n" + strings.ReplaceAll(job, "    ", "")
	const what = "verify softmax.forward --dtype f16 --level quick"
	for old, text := range map[string]string{"--array=1-64\n": "--array=3-9:2\n", "verify --level full": what} {
		if strings.Count(job, old) != 1 {
			t.Fatalf("the job has no %q:\n%s", old, job)
		}
		job = strings.Replace(job, old, text, 1)
	}
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "program"), 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(folder, "program", toolName)
	if err := os.Symlink(os.Args[0], program); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"job": job, toolName: campaignProgram} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	variables := append(os.Environ(), startSlurm(t)...)
	variables = append(variables, "PROCESSES="+folder, "PATH="+folder+":"+os.Getenv("PATH"), "TOKITAI_CACHE="+filepath.Join(folder, "cache"))
	run := func(name string, args ...string) string {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir, c.Env = folder, variables
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", filepath.Base(name), args, err, out)
		}
		return string(out)
	}
	id, _, _ := strings.Cut(strings.TrimSpace(run(sbatch, "--parsable", "job")), ";")
	shard := func(k int) string { return filepath.Join(folder, "campaign", fmt.Sprintf("shard-%d-of-4.jsonl", k)) }
	// stopped stops the process of a task when it has results, and returns it.
	stopped := func(task, k int) int {
		t.Helper()
		await.For(t, fmt.Sprintf("results of shard %d", k), func() bool {
			data, _ := os.ReadFile(shard(k))
			return bytes.Count(data, []byte("\n")) > 3
		})
		text, err := os.ReadFile(filepath.Join(folder, fmt.Sprintf("%d.", task)))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGSTOP)
		}
		if err != nil {
			t.Fatalf("shard %d: %v", k, err)
		}
		return pid
	}
	killed := stopped(5, 2)
	stopped(9, 4)
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	run(scontrol, "requeue", id+"_9")
	state := func(task int) string {
		_, text, _ := strings.Cut(run(scontrol, "show", "job", fmt.Sprintf("%s_%d", id, task)), "JobState=")
		text, _, _ = strings.Cut(text, " ")
		return text
	}
	await.For(t, "the killed shard's failure", func() bool { return state(5) == "FAILED" })
	run(scontrol, "requeue", id+"_5")
	for _, task := range []int{3, 5, 7, 9} {
		await.For(t, fmt.Sprintf("the end of task %d", task), func() bool { return state(task) == "COMPLETED" })
	}
	for _, task := range []int{5, 9} {
		out, err := filepath.Glob(filepath.Join(folder, fmt.Sprintf("slurm-*_%d.out", task)))
		if err != nil || len(out) != 1 {
			t.Fatalf("output of task %d: %v, %v", task, out, err)
		}
		if text, _ := os.ReadFile(out[0]); !bytes.Contains(text, []byte("cases resumed from campaign/shard-")) {
			t.Errorf("task %d did not go on with what it had:\n%s", task, text)
		}
	}
	run(program, "evidence", "merge", "--out", "merged.zip", shard(1), shard(2), shard(3), shard(4))
	run(program, append(strings.Fields(what), "--out", "whole.zip")...)
	counts := func(archive string) []string {
		return regexp.MustCompile(`"(cases|elements|mismatches|verdict)": [^,\n]+`).FindAllString(run(program, "evidence", archive, "--json"), -1)
	}
	if got, want := counts("merged.zip"), counts("whole.zip"); !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("the shards have %v, want %v", got, want)
	}
}
