package serve

import (
	"container/list"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Serve answers requests on a listener until the server is shut down, and times out clients that stall. It holds a
// limited number of connections. When one comes beyond these, it closes the one that has asked for nothing for the longest
// time; if there is none, the new one waits.
func Serve(h http.Handler, l net.Listener, connections int, secure *tls.Config, log *slog.Logger) (*http.Server, <-chan error) {
	limited := &limitedListener{Listener: l, most: connections, silent: list.New()}
	limited.hasRoom.L = &limited.mu
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: DefaultOptions.Stall, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ConnState: limited.note,
		ErrorLog:  slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	l = limited
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	return server, ended
}

// limitedListener holds a limited number of connections.
type limitedListener struct {
	net.Listener
	most int

	mu       sync.Mutex
	held     int
	silent   *list.List // of *limitedConn: those without a request, the longest first
	hasRoom  sync.Cond
	isClosed bool
}

// limitedConn is a connection of a limitedListener.
type limitedConn struct {
	net.Conn
	of       *limitedListener
	silent   *list.Element // where it is in the list
	isClosed bool
}

// Accept accepts a connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.held >= l.most && !l.isClosed {
		if e := l.silent.Front(); e != nil {
			e.Value.(*limitedConn).close()
		} else {
			l.hasRoom.Wait()
		}
	}
	if l.isClosed {
		conn.Close()
		return nil, net.ErrClosed
	}
	l.held++
	return &limitedConn{Conn: conn, of: l}, nil
}

// Close closes the listener.
func (l *limitedListener) Close() error {
	l.mu.Lock()
	l.isClosed = true
	l.mu.Unlock()
	l.hasRoom.Broadcast()
	return l.Listener.Close()
}

// note notes whether a connection has a request.
func (l *limitedListener) note(conn net.Conn, state http.ConnState) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c := conn.(*limitedConn)
	l.mu.Lock()
	defer l.mu.Unlock()
	isSilent := state == http.StateNew || state == http.StateIdle
	switch {
	case isSilent && c.silent == nil && !c.isClosed:
		c.silent = l.silent.PushBack(c)
		l.hasRoom.Broadcast()
	case !isSilent && c.silent != nil:
		l.silent.Remove(c.silent)
		c.silent = nil
	}
}

// close closes a connection, whose listener is locked.
func (c *limitedConn) close() error {
	if !c.isClosed {
		c.isClosed = true
		c.of.held--
		if c.silent != nil {
			c.of.silent.Remove(c.silent)
			c.silent = nil
		}
		c.of.hasRoom.Broadcast()
	}
	return c.Conn.Close()
}

// Close closes the connection.
func (c *limitedConn) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.close()
}
