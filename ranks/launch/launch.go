// Package launch makes processes that a launcher has started ranks of a group: torchrun, mpirun of Open MPI or MPICH, or srun.
//
// [Read] finds out from the environment which rank a process is. [Rank.Meet] joins the group. Ranks of one Linux machine
// meet by the name of their job, and share memory; others meet at an address, by TCP.
//
// Start with Read.
package launch

import (
	"cmp"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"tokitai/ranks"
)

// Environment variables with which a user tells ranks what the launcher does not.
const (
	AddressVariable = "TOKITAI_RANKS_ADDRESS" // where rank 0 listens
	SecretVariable  = "TOKITAI_RANKS_SECRET"  // of ranks on several machines
)

// Rank is what a launcher says to a process.
type Rank struct {
	ranks.Place        // without an address if the ranks meet by the name of the job
	Launcher    string // "mpirun of Open MPI"
	OnMachine   int    // ranks on the machine of this process
	manager     string // descriptor of the socket to MPICH; "" under the others
	job         string // what the ranks of one start of a job have in common, and no others on the machine; "" if nothing is known
}

// Meet joins the group of the ranks of the job. It waits for all of them. On one machine, the bytes of each rank go through
// window bytes of memory.
func (r *Rank) Meet(window int) (ranks.Watched, error) {
	if r.Address == "" {
		return meetNeighbours(r, window)
	}
	return ranks.Connect(r.Place, ranks.Options{})
}

// MustEnd reports whether a rank that fails has to call End: other launchers than MPICH end a job when one of its ranks fails.
// MPICH waits for those that are left, as if they were of another program.
func (r *Rank) MustEnd() bool { return r.manager != "" }

// End has MPICH end all ranks of the job, by a message of its interface for processes, PMI. Under other launchers it does nothing.
func (r *Rank) End(code int) { end(r.manager, code) }

// Inherit returns the environment with which a process that this one starts reaches the launcher as this one does, for a library of MPI.
// It has no secret. The process is to be started before release is called.
func (r *Rank) Inherit(environ []string) (variables []string, release func(), err error) {
	for _, variable := range environ {
		if !strings.HasPrefix(variable, SecretVariable+"=") {
			variables = append(variables, variable)
		}
	}
	if r.manager == "" {
		return variables, func() {}, nil
	}
	fd, release, err := inheritable(r.manager)
	return append(variables, managerSocket+"="+fd), release, err
}

// Inherited returns the descriptor that a process has got by [Rank.Inherit]; -1 for none.
func Inherited(variable func(name string) string) int {
	if fd, err := strconv.Atoi(variable(managerSocket)); err == nil {
		return fd
	}
	return -1
}

// launcher is a program that starts ranks, and the variables by which it tells each of them its place.
type launcher struct {
	name       string
	sign       string // the variable that the others do not set
	rank, size string
	onMachine  func(variable func(string) string) string
	job        []string // variables that differ between two jobs on a machine, and between two starts of one
}

// launchers are those that are known, with those first that another one may have started.
var launchers = []launcher{
	{"torchrun", "RANK", "RANK", "WORLD_SIZE", of("LOCAL_WORLD_SIZE"), []string{"MASTER_PORT", "MASTER_ADDR", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
	{"mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", of("OMPI_COMM_WORLD_LOCAL_SIZE"), []string{"PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri"}},
	{"mpirun of MPICH", "MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE", of("MPI_LOCALNRANKS"), []string{managerVariable, "PMI_PORT"}},
	{"srun", "SLURM_PROCID", "SLURM_PROCID", "SLURM_NTASKS", tasksOfNode, []string{"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}},
}

func of(name string) func(func(string) string) string {
	return func(variable func(string) string) string { return variable(name) }
}

// managerSocket is the variable with the descriptor of a socket to the process that MPICH starts on each machine.
const managerSocket = "PMI_FD"

// managerVariable stands for the process that has made this socket. MPICH sets no other name of a job.
const managerVariable = "maker of " + managerSocket

// Read reads what a launcher has set. variable returns the value of an environment variable, as os.Getenv does.
func Read(variable func(name string) string) (r Rank, err error) {
	var signs, names []string
	for _, from := range launchers {
		if variable(from.sign) != "" {
			return from.read(variable)
		}
		signs, names = append(signs, from.sign), append(names, from.name)
	}
	return r, fmt.Errorf("none of %s is set, as %s do: want one of these, which starts this command", strings.Join(signs, ", "), strings.Join(names, ", "))
}

func (from *launcher) read(variable func(name string) string) (r Rank, err error) {
	number := func(name, text string, least int) int {
		n, e := strconv.Atoi(text)
		if e != nil || n < least {
			err = cmp.Or(err, fmt.Errorf("%s is %q, want a number from %d on, as %s sets it", name, text, least, from.name))
		}
		return n
	}
	r.Launcher = from.name
	r.Rank, r.Size, r.OnMachine = number(from.rank, variable(from.rank), 0), number(from.size, variable(from.size), 1), 1
	if text := from.onMachine(variable); text != "" {
		r.OnMachine = number("the number of ranks on this machine", text, 1)
	}
	if err != nil {
		return r, err
	}
	if r.Rank >= r.Size || r.OnMachine > r.Size {
		return r, fmt.Errorf("%s is %d and %s %d, with %d ranks on this machine", from.rank, r.Rank, from.size, r.Size, r.OnMachine)
	}
	if slices.Contains(from.job, managerVariable) {
		r.manager = variable(managerSocket)
	}
	r.Secret = []byte(variable(SecretVariable))
	if r.OnMachine == r.Size && runtime.GOOS == "linux" && variable(AddressVariable) == "" {
		if r.job = from.nameJob(variable); r.job != "" {
			return r, nil
		}
	}
	if r.Address = meetingAddress(variable); r.Address == "" {
		return r, fmt.Errorf("%s does not say where rank 0 listens: %s is to be its HOST:PORT, on every rank", from.name, AddressVariable)
	}
	if len(r.Secret) < ranks.MinSecret {
		return r, fmt.Errorf("%s has %d bytes, want at least %d, the same on every rank", SecretVariable, len(r.Secret), ranks.MinSecret)
	}
	return r, nil
}

// nameJob returns what the ranks of one start of a job have in common; "" if the first two variables for it are not set.
func (from *launcher) nameJob(variable func(name string) string) string {
	parts := []string{from.name}
	isKnown := false
	for i, name := range from.job {
		text := variable(name)
		if name == managerVariable {
			text = makerOf(variable(managerSocket))
		}
		isKnown = isKnown || i < 2 && text != ""
		parts = append(parts, text)
	}
	if !isKnown {
		return ""
	}
	return strings.Join(parts, "\n")
}

// meetingAddress returns where ranks of several machines meet; "" if nothing says it.
func meetingAddress(variable func(name string) string) string {
	if address := variable(AddressVariable); address != "" {
		return address
	}
	host, port := variable("MASTER_ADDR"), variable("MASTER_PORT")
	if n, err := strconv.Atoi(port); err == nil && variable("TORCHELASTIC_USE_AGENT_STORE") == "True" {
		port = strconv.Itoa(n + 1) // torchrun itself listens at the other one
	}
	if host == "" {
		host = firstHost(cmp.Or(variable("SLURM_STEP_NODELIST"), variable("SLURM_JOB_NODELIST")))
	}
	if job, err := strconv.Atoi(variable("SLURM_JOB_ID")); port == "" && err == nil {
		port = strconv.Itoa(20_000 + job%10_000)
	}
	if host == "" || port == "" {
		return ""
	}
	return net.JoinHostPort(host, port)
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

// tasksOfNode returns how many tasks Slurm has started on the machine of this process, from a list with a number for each
// machine, in order: 4,2(x3) is 4,2,2,2.
func tasksOfNode(variable func(string) string) string {
	node, err := strconv.Atoi(variable("SLURM_NODEID"))
	if err != nil {
		return ""
	}
	for one := range strings.SplitSeq(cmp.Or(variable("SLURM_STEP_TASKS_PER_NODE"), variable("SLURM_TASKS_PER_NODE")), ",") {
		tasks, times := one, 1
		if n, err := fmt.Sscanf(one, "%d(x%d)", new(int), &times); err == nil && n == 2 {
			tasks, _, _ = strings.Cut(one, "(")
		}
		if node -= times; node < 0 {
			return tasks
		}
	}
	return ""
}
