package ports

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// hold binds a socket to the port and does not listen: the kernel refuses connections then, and keeps the port for it.
// It is bound before it agrees to share, so that it does not get a port that somebody else holds in the same way.
func hold(port int) (release func(), held bool) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	release = func() { _ = unix.Close(socket) } // nothing was written to it
	err = unix.Bind(socket, &unix.SockaddrInet4{Port: port, Addr: [4]byte(net.IPv4(127, 0, 0, 1).To4())})
	if err == nil {
		err = agree(socket)
	}
	if err != nil {
		release()
		return nil, false
	}
	return release, true
}

// share lets a socket have a port that is held.
func share(_, _ string, raw syscall.RawConn) error {
	var err error
	if called := raw.Control(func(socket uintptr) { err = agree(int(socket)) }); called != nil {
		return called
	}
	return err
}

func agree(socket int) error {
	return unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
}
