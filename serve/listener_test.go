package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"tokitai/answer"
	"tokitai/serve"
)

// TestFlood: connections that ask for nothing do not keep out one that does; those that are being answered stay.
func TestFlood(t *testing.T) {
	begun, end := make(chan bool), make(chan bool)
	address := listen(t, 3, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			begun <- true
			<-end
		}
		fmt.Fprint(w, "answered")
	}))
	slow := dial(t, address)
	io.WriteString(slow, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
	<-begun
	var silent []net.Conn
	for i := range 20 {
		conn := dial(t, address)
		if i%2 == 0 {
			io.WriteString(conn, "GET /slow HT") // half of a line
		}
		silent = append(silent, conn)
	}
	conn := dial(t, address)
	for range 2 { // a connection that is used again
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if text := said(t, conn); !strings.HasSuffix(text, "answered") {
			t.Errorf("the connection behind the flood gets %q", text)
		}
	}
	if _, err := silent[0].Read(make([]byte, 1)); err == nil {
		t.Error("the first silent connection is not closed")
	}
	close(end)
	if text := said(t, slow); !strings.HasSuffix(text, "answered") {
		t.Errorf("the request before the flood gets %q", text)
	}
}

// TestStop: a request that came before the server stops is answered, and later ones are told that it stops, on connections
// of their own.
func TestStop(t *testing.T) {
	_, s, _ := start(t, answer.DefaultLimits, serve.DefaultOptions)
	address := listen(t, 9, s)
	const body = `{"prompt":"ab","max_tokens":2,"seed":1,"ignore_eos":true}`
	head := fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
	early := dial(t, address)
	io.WriteString(early, head)
	reader := bufio.NewReader(early)
	if line, err := reader.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	done := s.Stop()
	late := dial(t, address)
	io.WriteString(late, strings.Replace(head, "Expect: 100-continue\r\n", "", 1)+body)
	if text := said(t, late); !strings.Contains(text, "the server is stopping") {
		t.Errorf("a request that comes late gets %q", text)
	}
	if _, err := late.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("its connection stays open: %v", err)
	}
	health := dial(t, address)
	io.WriteString(health, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
	if text := said(t, health); !strings.Contains(text, `"stopping"`) {
		t.Errorf("the health is %q", text)
	}
	select {
	case <-done:
		t.Error("the server says that all requests have ended")
	default:
	}
	io.WriteString(early, body)
	reader.ReadString('\n') // the end of 100 Continue
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("the request that came early gets %v, %v", response, err)
	}
	<-done
	<-s.Stop()
}

// listen serves with a handler and at most so many connections, until the test ends.
func listen(t *testing.T, connections int, h http.Handler) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, ended := serve.Serve(h, l, connections, nil, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		server.Close()
		<-ended
	})
	return l.Addr().String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// said returns what a response has.
func said(t *testing.T, conn net.Conn) string {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}
