package shm

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Listener waits at a name for processes of the same machine and user.
type Listener struct{ socket *net.UnixListener }

// address is a name that is no file: it is gone with the process that listens.
func address(name string) *net.UnixAddr { return &net.UnixAddr{Name: "@" + name, Net: "unix"} }

// Listen listens at a name, at which no other process of this machine listens.
func Listen(name string) (*Listener, error) {
	socket, err := net.ListenUnix("unix", address(name))
	if err != nil {
		return nil, &Error{Op: "listen", Cause: err}
	}
	return &Listener{socket}, nil
}

// Accept waits for a process of this user. Others are turned away.
func (l *Listener) Accept() (*Conn, error) {
	for {
		socket, err := l.socket.AcceptUnix()
		if err != nil {
			return nil, &Error{Op: "accept", Cause: err}
		}
		if c, err := ofSameUser(socket); err == nil {
			return c, nil
		}
	}
}

// SetDeadline limits how long Accept waits.
func (l *Listener) SetDeadline(t time.Time) error { return l.socket.SetDeadline(t) }

// Close stops listening. Connections stay.
func (l *Listener) Close() error { return l.socket.Close() }

// Dial connects to the process that listens at a name, which is one of this user.
func Dial(name string) (*Conn, error) {
	socket, err := dial(name)
	if err != nil {
		return nil, &Error{Op: "connect", Cause: err}
	}
	return ofSameUser(socket)
}

func dial(name string) (*net.UnixConn, error) { return net.DialUnix("unix", nil, address(name)) }

// ofSameUser returns the connection to a process of this user. Another one's is closed: anybody may listen at a name.
func ofSameUser(socket *net.UnixConn) (*Conn, error) {
	user, err := userOf(socket)
	if err == nil && user != os.Geteuid() {
		err = fmt.Errorf("%w: user %d, want %d", os.ErrPermission, user, os.Geteuid())
	}
	if err != nil {
		socket.Close()
		return nil, &Error{Op: "connect", Cause: err}
	}
	return newConn(socket), nil
}

// userOf returns the user of the process at the other end.
func userOf(socket *net.UnixConn) (user int, err error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	if e := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		return 0, e
	}
	if err != nil {
		return 0, os.NewSyscallError("getsockopt", err)
	}
	return int(peer.Uid), nil
}
