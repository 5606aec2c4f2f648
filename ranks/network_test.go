package ranks

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// freeAddress returns an address of this machine at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestConnectErrors: processes that are no group are refused, and both ends say why.
func TestConnectErrors(t *testing.T) {
	t.Parallel()
	secret, other := []byte("0123456789abcdef"), []byte("another secret of ranks")
	for name, c := range map[string]struct {
		places [2]Place
		want   [2]string
	}{
		"another secret": {[2]Place{{0, 2, "", secret}, {1, 2, "", other}}, [2]string{"secret", "secret"}},
		"another size":   {[2]Place{{0, 2, "", secret}, {1, 3, "", secret}}, [2]string{"rank 0 of 2 meets rank 1 of 3", "rank 1 of 3 meets rank 0 of 2"}},
		"the same rank":  {[2]Place{{0, 2, "", secret}, {2, 2, "", secret}}, [2]string{"rank 0 waits for 1 more", "rank 2 of 2, want"}},
		"no secret":      {[2]Place{{0, 2, "", secret[:15]}, {1, 2, "", nil}}, [2]string{"the secret has 15 bytes, want at least 16", "the secret has 0 bytes"}},
	} {
		address := freeAddress(t)
		var wait sync.WaitGroup
		for i, p := range c.places {
			p.Address = address
			wait.Go(func() {
				_, err := Connect(p, Options{Limit: 2 * time.Second})
				if err == nil || !strings.Contains(err.Error(), c.want[i]) {
					t.Errorf("%s: rank %d: error %v, want one with %q", name, p.Rank, err, c.want[i])
				}
			})
		}
		wait.Wait()
	}
}

// TestKnock: what connects and is no rank does not disturb those that are.
func TestKnock(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	place := Place{0, 2, address, []byte("0123456789abcdef")}
	var wait sync.WaitGroup
	wait.Go(func() {
		g, err := Connect(place, Options{})
		if err != nil {
			t.Error(err)
			return
		}
		defer g.Close()
		if err := g.Barrier(); err != nil {
			t.Error(err)
		}
	})
	for {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			continue // it does not listen yet
		}
		conn.Write([]byte("GET / HTTP/1.1\r\nHost: somebody who wants to see a page of this machine\r\n\r\n"))
		conn.Close()
		break
	}
	second := place
	second.Rank = 1
	g, err := Connect(second, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := g.Barrier(); err != nil {
		t.Error(err)
	}
	wait.Wait()
}
