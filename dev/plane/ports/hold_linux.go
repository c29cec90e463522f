package ports

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// open binds a socket to the port, but does not listen. The kernel then refuses connections and reserves the port.
// The socket is bound before it enables SO_REUSEPORT, so that the call fails if another socket holds the port in the
// same way. With shared, it is enabled first, and the call succeeds if a process of the same user holds the port.
func open(port int, shared bool) (file *os.File, held bool) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	if shared {
		err = agree(socket)
	}
	if err == nil {
		err = unix.Bind(socket, &unix.SockaddrInet4{Port: port, Addr: [4]byte(net.IPv4(127, 0, 0, 1).To4())})
	}
	if err == nil {
		err = agree(socket)
	}
	if err != nil {
		_ = unix.Close(socket) // nothing was written to the socket
		return nil, false
	}
	return os.NewFile(uintptr(socket), address(port)), true
}

// share enables SO_REUSEPORT, so that a socket can bind a held port.
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
