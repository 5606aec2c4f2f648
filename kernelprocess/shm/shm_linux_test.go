package shm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tokitai/device"
	"tokitai/internal/alone"
	"tokitai/internal/await"
)

// roleVariable makes the test binary a peer instead.
const roleVariable = "TOKITAI_SHM_TEST_ROLE"

func TestMain(m *testing.M) {
	var err error
	switch role := os.Getenv(roleVariable); role {
	case "":
		os.Exit(m.Run())
	case "invert":
		err = invert()
	case "limited":
		err = createBeyondLimit()
	default:
		err = fmt.Errorf("unknown role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// patience is how long a test waits for what should come: after that something hangs.
const patience = 5 * time.Minute

func inRole(role string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("descriptors cannot be counted: %v", err)
	}
	return len(entries)
}

func TestCreate(t *testing.T) {
	page := os.Getpagesize()
	for _, size := range []int{1, page - 1, page, page + 1, 3*page + 5} {
		r, err := Create(int64(size))
		if err != nil {
			t.Fatal(err)
		}
		want := (size + page - 1) / page * page
		if got := len(r.Bytes()); got != want {
			t.Errorf("Create(%d): got %d bytes, want %d", size, got, want)
		}
		if !bytes.Equal(r.Bytes(), make([]byte, want)) {
			t.Errorf("Create(%d): not all zeros", size)
		}
		var stat unix.Stat_t
		if err := unix.Fstat(r.FD(), &stat); err != nil {
			t.Fatal(err)
		}
		if stat.Size != int64(want) || stat.Blocks*512 < int64(want) {
			t.Errorf("Create(%d): got size %d with %d bytes allocated, want %d of both", size, stat.Size, stat.Blocks*512, want)
		}
		if flags, err := unix.FcntlInt(uintptr(r.FD()), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor is inherited by programs: flags %#x, %v", flags, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		if r.Bytes() != nil || r.FD() != -1 {
			t.Errorf("closed: got %d bytes and descriptor %d, want none", len(r.Bytes()), r.FD())
		}
	}
	for _, size := range []int64{0, -1, math.MinInt64} {
		if _, err := Create(size); !errors.Is(err, ErrSize) {
			t.Errorf("Create(%d): got %v, want ErrSize", size, err)
		}
	}
}

func TestCreateNoRoom(t *testing.T) {
	if !alone.Process(t) {
		return
	}
	if _, isKnown := available(); !isKnown {
		t.Skip("what is free is not known here: asking for too much would use up the machine")
	}
	before := openDescriptors(t)
	for _, size := range []int64{1 << 50, 1<<62 + 1, math.MaxInt64 - 1, math.MaxInt64} {
		_, err := Create(size)
		oom, isOOM := errors.AsType[*device.OutOfMemoryError](err)
		if !isOOM || oom.Asked < size || oom.Free <= 0 || oom.Free >= size {
			t.Errorf("Create(%d): got %v, want out of memory", size, err)
		}
	}
	if after := openDescriptors(t); after != before {
		t.Errorf("got %d descriptors, want %d as before", after, before)
	}
}

// Memory is subject to the limit on the size of files.
func TestCreateBeyondLimit(t *testing.T) {
	if err := inRole("limited").Run(); err != nil {
		t.Error(err)
	}
}

func createBeyondLimit() error {
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
		return err
	}
	_, err := Create(1<<20 + 1)
	if oom, ok := errors.AsType[*device.OutOfMemoryError](err); !ok || oom.Free != 1<<20 {
		return fmt.Errorf("beyond the limit: got %v, want out of memory with %d bytes free", err, 1<<20)
	}
	_, err = Create(1 << 20)
	return err
}

func TestGroupAvailable(t *testing.T) {
	for _, files := range []groupFiles{version1, version2} {
		g := group{t.TempDir(), files}
		write := func(name, text string) {
			if err := os.WriteFile(filepath.Join(g.folder, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		check := func(what string, want int64) {
			if got := g.available(); got != want {
				t.Errorf("%s, %s: got %d, want %d", files.limit, what, got, want)
			}
		}
		check("without files", math.MaxInt64)
		write(files.used, "700\n")
		write(files.limit, "max\n")
		check("without limit", math.MaxInt64)
		write(files.limit, "1000\n")
		check("with limit", 300)
		write("memory.stat", fmt.Sprintf("anon 5\n%s 20\n%s 3\n", files.cached[0], files.cached[1]))
		check("with cached files", 323)
	}
}

func TestControlGroups(t *testing.T) {
	const cgroup = "5:devices:/a\n4:cpu,memory:/b/c\n3:name=memory:/d\nnonsense\n0::/e\n"
	want := []string{"/sys/fs/cgroup/memory/b/c", "/sys/fs/cgroup/memory/b", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/e", "/sys/fs/cgroup"}
	var got []string
	for _, g := range controlGroups(cgroup) {
		got = append(got, g.folder)
		if isVersion1 := strings.HasPrefix(g.folder, "/sys/fs/cgroup/memory"); isVersion1 != (g.files.limit == version1.limit) {
			t.Errorf("%s: got files of the other version", g.folder)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// memory returns a descriptor made by hand, as a careless or hostile peer would.
func memory(t *testing.T, bytes int64, flags, seals int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("peer", unix.MFD_CLOEXEC|flags)
	if err != nil {
		t.Skipf("no such memory here: %v", err)
	}
	if err := unix.Ftruncate(fd, bytes); err != nil {
		t.Fatal(err)
	}
	if bytes > 0 && flags&unix.MFD_HUGETLB == 0 {
		if err := unix.Fallocate(fd, 0, 0, bytes); err != nil {
			t.Fatal(err)
		}
	}
	if seals != 0 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
	}
	return fd
}

func TestOpenRefuses(t *testing.T) {
	if !alone.Process(t) {
		return
	}
	const size = 1 << 16
	tests := []struct {
		name string
		fd   func(t *testing.T) int
		want error
	}{
		{"unsealed", func(t *testing.T) int { return memory(t, size, unix.MFD_ALLOW_SEALING, 0) }, ErrUnsealed},
		{"can be sealed no more", func(t *testing.T) int { return memory(t, size, 0, 0) }, ErrUnsealed},
		{"may shrink", func(t *testing.T) int {
			return memory(t, size, unix.MFD_ALLOW_SEALING, unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
		}, ErrUnsealed},
		{"may grow", func(t *testing.T) int {
			return memory(t, size, unix.MFD_ALLOW_SEALING, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
		}, ErrUnsealed},
		{"may be sealed", func(t *testing.T) int {
			return memory(t, size, unix.MFD_ALLOW_SEALING, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
		}, ErrUnsealed},
		{"too small", func(t *testing.T) int { return memory(t, size-1, unix.MFD_ALLOW_SEALING, sizeSeals) }, ErrSize},
		{"empty", func(t *testing.T) int { return memory(t, 0, unix.MFD_ALLOW_SEALING, sizeSeals) }, ErrSize},
		{"too large", func(t *testing.T) int { return memory(t, size+1, unix.MFD_ALLOW_SEALING, sizeSeals) }, ErrSize},
		{"with a hole", func(t *testing.T) int {
			fd := memory(t, size, unix.MFD_ALLOW_SEALING, 0)
			if err := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096); err != nil {
				t.Fatal(err)
			}
			unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sizeSeals)
			return fd
		}, ErrUnallocated},
		{"read-only", func(t *testing.T) int {
			return memory(t, size, unix.MFD_ALLOW_SEALING, sizeSeals|unix.F_SEAL_WRITE)
		}, unix.EPERM},
		{"huge pages", func(t *testing.T) int {
			return memory(t, 2<<20, unix.MFD_ALLOW_SEALING|unix.MFD_HUGETLB|unix.MFD_HUGE_2MB, sizeSeals)
		}, ErrNotMemory},
		{"file", func(t *testing.T) int {
			name := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
				t.Fatal(err)
			}
			fd, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			return fd
		}, ErrNotMemory},
		{"pipe", func(t *testing.T) int {
			var ends [2]int
			if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			unix.Close(ends[0])
			return ends[1]
		}, ErrNotMemory},
		{"closed", func(t *testing.T) int { return 1 << 20 }, ErrNotMemory},
		{"none", func(t *testing.T) int { return -1 }, ErrNotMemory},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := openDescriptors(t)
			r, err := Open(test.fd(t), size)
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, %v, want %v", r, err, test.want)
			}
			if refused, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("got %T, want %T", err, refused)
			}
			if after := openDescriptors(t); after != before {
				t.Errorf("got %d descriptors, want %d: it was not closed", after, before)
			}
		})
	}
	for _, size := range []int64{0, -1} {
		if _, err := Open(memory(t, 1, unix.MFD_ALLOW_SEALING, sizeSeals), size); !errors.Is(err, ErrSize) {
			t.Errorf("Open of %d bytes: got %v, want ErrSize", size, err)
		}
	}
}

// A peer that makes the memory shorter would make the other fault.
func TestSealsHold(t *testing.T) {
	r, err := Create(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, size := range []int64{0, 1<<16 - 1, 1<<16 + 1} {
		if err := unix.Ftruncate(r.FD(), size); err != unix.EPERM {
			t.Errorf("truncate to %d: got %v, want EPERM", size, err)
		}
	}
	if _, err := unix.FcntlInt(uintptr(r.FD()), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE); err != unix.EPERM {
		t.Errorf("another seal: got %v, want EPERM", err)
	}
}

func TestTwoProcesses(t *testing.T) {
	const size = 3 << 20
	r, err := Create(size)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range r.Bytes() {
		r.Bytes()[i] = byte(i * 7)
	}
	host, child, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	cmd := inRole("invert")
	cmd.ExtraFiles = []*os.File{child}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child.Close()
	host.SetDeadline(time.Now().Add(patience))
	if _, err := host.Write(binary.LittleEndian.AppendUint64(nil, size), r.FD()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(host, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for i, got := range r.Bytes() {
		if want := ^byte(i * 7); got != want {
			t.Fatalf("byte %d: got %#x, want %#x", i, got, want)
		}
	}
	host.CloseWrite()
	if n, err := host.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the peer's end: got %d bytes, %v, want EOF", n, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// invert maps the memory that it is sent, inverts it there and says so.
func invert() error {
	c, err := FromFD(3)
	if err != nil {
		return err
	}
	defer c.Close()
	header := make([]byte, 8)
	if _, err := io.ReadFull(c, header); err != nil {
		return err
	}
	fd, ok := c.TakeFD()
	if !ok {
		return errors.New("no descriptor came")
	}
	r, err := Open(fd, int64(binary.LittleEndian.Uint64(header)))
	if err != nil {
		return err
	}
	defer r.Close()
	for i, b := range r.Bytes() {
		r.Bytes()[i] = ^b
	}
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_, err = c.Read(header)
	if err == io.EOF {
		return nil
	}
	return err
}

// connected returns both ends in this process.
func connected(t *testing.T) (*Conn, *Conn) {
	t.Helper()
	a, file, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	b, err := FromFD(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	limit := time.Now().Add(patience)
	a.SetDeadline(limit)
	b.SetDeadline(limit)
	return a, b
}

func identity(t *testing.T, fd int) uint64 {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		t.Fatal(err)
	}
	return stat.Ino
}

func TestNoLeak(t *testing.T) {
	if !alone.Process(t) {
		return
	}
	a, b := connected(t)
	before := openDescriptors(t)
	for range 1000 {
		r, err := Create(1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Write([]byte("ab"), r.FD(), r.FD(), r.FD()); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(b, make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
		size := int64(len(r.Bytes()))
		for _, announced := range []int64{size, size + 1, 0} {
			fd, ok := b.TakeFD()
			if !ok {
				t.Fatal("a descriptor is missing")
			}
			if peer, err := Open(fd, announced); err == nil {
				peer.Close()
			} else if announced == size {
				t.Fatal(err)
			}
		}
		r.Close()

		host, child, err := Pair()
		if err != nil {
			t.Fatal(err)
		}
		child.Close()
		host.Close()
	}
	if after := openDescriptors(t); after != before {
		t.Errorf("got %d descriptors, want %d as before", after, before)
	}
}

func TestLargeWithDescriptor(t *testing.T) {
	r, err := Create(1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	frame := make([]byte, 1<<20)
	for i := range frame {
		frame[i] = byte(i % 251)
	}
	writes := map[string]func(c *Conn) (int64, error){
		"Write": func(c *Conn) (int64, error) {
			n, err := c.Write(frame, r.FD())
			return int64(n), err
		},
		"WriteBuffers": func(c *Conn) (int64, error) {
			return c.WriteBuffers(net.Buffers{nil, frame[:24], nil, frame[24 : 1<<19], frame[1<<19:]}, r.FD())
		},
		"WriteBuffers of one": func(c *Conn) (int64, error) { return c.WriteBuffers(net.Buffers{frame}, r.FD()) },
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			a, b := connected(t)
			sent := make(chan error, 1)
			go func() {
				n, err := write(a)
				if err == nil && n != int64(len(frame)) {
					err = fmt.Errorf("sent %d bytes, want %d", n, len(frame))
				}
				sent <- err
			}()
			got := make([]byte, len(frame))
			if _, err := io.ReadFull(b, got[:1]); err != nil {
				t.Fatal(err)
			}
			fd, ok := b.TakeFD()
			if !ok {
				t.Fatal("the descriptor did not come with the first byte")
			}
			defer unix.Close(fd)
			if identity(t, fd) != identity(t, r.FD()) {
				t.Error("another descriptor came")
			}
			if _, err := io.ReadFull(b, got[1:]); err != nil {
				t.Fatal(err)
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, frame) {
				t.Error("other bytes came")
			}
			if _, ok := b.TakeFD(); ok {
				t.Error("a second descriptor came")
			}
		})
	}
}

// Frames with and without descriptors, cut into two reads at every byte and
// into reads of every size.
func TestPartialReads(t *testing.T) {
	frames := []struct{ bytes, fds int }{{5, 0}, {7, 1}, {3, 2}, {1, 0}, {1, 1}, {4, 0}, {6, 3}}
	total, fdTotal := 0, 0
	for _, frame := range frames {
		total += frame.bytes
		fdTotal += frame.fds
	}
	var regions []*Region
	for range fdTotal {
		r, err := Create(1)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		regions = append(regions, r)
	}
	check := func(name string, next func(have int) int) {
		a, b := connected(t)
		at, sent := 0, 0
		for _, frame := range frames {
			var fds []int
			for _, r := range regions[sent : sent+frame.fds] {
				fds = append(fds, r.FD())
			}
			p := make([]byte, frame.bytes)
			for i := range p {
				p[i] = byte(at + i)
			}
			if _, err := a.Write(p, fds...); err != nil {
				t.Fatal(err)
			}
			at += frame.bytes
			sent += frame.fds
		}
		var got []byte
		taken, begun, frame := 0, 0, 0
		for len(got) < total {
			p := make([]byte, next(len(got)))
			n, err := b.Read(p)
			if err != nil {
				t.Fatalf("%s: after %d bytes: %v", name, len(got), err)
			}
			got = append(got, p[:n]...)
			for ; frame < len(frames) && begun < len(got); frame++ {
				for range frames[frame].fds {
					fd, ok := b.TakeFD()
					if !ok {
						t.Fatalf("%s: frame %d has begun, its descriptor is not there", name, frame)
					}
					if identity(t, fd) != identity(t, regions[taken].FD()) {
						t.Errorf("%s: frame %d got another's descriptor", name, frame)
					}
					unix.Close(fd)
					taken++
				}
				begun += frames[frame].bytes
			}
		}
		for i, v := range got {
			if v != byte(i) {
				t.Fatalf("%s: byte %d: got %d", name, i, v)
			}
		}
		if _, ok := b.TakeFD(); ok || taken != fdTotal {
			t.Errorf("%s: got %d descriptors or more, want %d", name, taken, fdTotal)
		}
	}
	for cut := 1; cut <= total; cut++ {
		check(fmt.Sprintf("cut at %d", cut), func(have int) int {
			if have < cut {
				return cut - have
			}
			return total
		})
		check(fmt.Sprintf("reads of %d", cut), func(int) int { return cut })
	}
}

func TestTooManyDescriptors(t *testing.T) {
	if !alone.Process(t) {
		return
	}
	r, err := Create(1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	before := openDescriptors(t)
	t.Run("refused by the sender", func(t *testing.T) {
		a, _ := connected(t)
		if _, err := a.Write([]byte("x"), slices.Repeat([]int{r.FD()}, maxWaiting+1)...); !errors.Is(err, ErrDescriptors) {
			t.Errorf("got %v, want ErrDescriptors", err)
		}
	})
	t.Run("refused by the receiver", func(t *testing.T) {
		a, b := connected(t)
		// Past the sender's own check, as a hostile peer would.
		rights := unix.UnixRights(slices.Repeat([]int{r.FD()}, 100)...)
		if _, _, err := a.socket.WriteMsgUnix([]byte("x"), rights, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Write([]byte("y")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if n, err := b.Read(make([]byte, 1)); n != 0 || !errors.Is(err, ErrDescriptors) {
				t.Errorf("got %d bytes, %v, want ErrDescriptors", n, err)
			}
		}
		if _, ok := b.TakeFD(); ok {
			t.Error("a descriptor of a refused message can be taken")
		}
	})
	t.Run("never taken", func(t *testing.T) {
		a, b := connected(t)
		for i := range maxWaiting/2 + 1 {
			if _, err := a.Write([]byte("x"), r.FD(), r.FD()); err != nil {
				t.Fatal(err)
			}
			_, err := b.Read(make([]byte, 1))
			if isTooMany := i == maxWaiting/2; errors.Is(err, ErrDescriptors) != isTooMany {
				t.Errorf("message %d: got %v", i, err)
			}
		}
	})
	if after := openDescriptors(t); after != before {
		t.Errorf("got %d descriptors, want %d as before", after, before)
	}
}

func TestWriteWithoutByte(t *testing.T) {
	a, _ := connected(t)
	if _, err := a.Write(nil, 0); !errors.Is(err, ErrNoFirstByte) {
		t.Errorf("Write: got %v, want ErrNoFirstByte", err)
	}
	if _, err := a.WriteBuffers(net.Buffers{nil, {}}, 0); !errors.Is(err, ErrNoFirstByte) {
		t.Errorf("WriteBuffers: got %v, want ErrNoFirstByte", err)
	}
	if n, err := a.WriteBuffers(nil); n != 0 || err != nil {
		t.Errorf("WriteBuffers of nothing: got %d, %v", n, err)
	}
}

func TestDeadlines(t *testing.T) {
	r, err := Create(1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	a, b := connected(t)
	b.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read: got %v, want a deadline", err)
	}
	frame := make([]byte, 64<<20)
	a.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	sent, err := a.Write(frame, r.FD())
	if sent == len(frame) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write: got %d bytes, %v, want a deadline", sent, err)
	}
	b.SetReadDeadline(time.Now().Add(patience))
	if n, err := io.ReadFull(b, frame[:sent]); err != nil {
		t.Errorf("Read with a later deadline: got %d bytes, %v, want %d", n, err, sent)
	}
	if fd, ok := b.TakeFD(); ok {
		unix.Close(fd)
	} else if sent > 0 {
		t.Error("the descriptor did not come with the first byte")
	}
}

func TestCloseEndsRead(t *testing.T) {
	_, b := connected(t)
	ended := make(chan error, 1)
	go func() {
		_, err := b.Read(make([]byte, 1))
		ended <- err
	}()
	await.For(t, "the reader waits", func() bool { return await.IsBlocked("IO wait", "shm.(*Conn).Read") })
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want net.ErrClosed", err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestFromFDRefuses(t *testing.T) {
	if !alone.Process(t) {
		return
	}
	before := openDescriptors(t)
	datagram, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	for _, fd := range []int{datagram[0], datagram[1], pipe[0], pipe[1], 1 << 20, -1} {
		if _, err := FromFD(fd); !errors.Is(err, ErrNotSocket) {
			t.Errorf("descriptor %d: got %v, want ErrNotSocket", fd, err)
		}
	}
	if after := openDescriptors(t); after != before {
		t.Errorf("got %d descriptors, want %d: they were not closed", after, before)
	}
}
