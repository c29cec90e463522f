package programs_test

import (
	"context"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// sharedListener listens on a port that another process of this user holds, as kube-apiserver does with
// --permit-port-sharing.
func sharedListener(address string) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		if called := raw.Control(func(socket uintptr) { err = unix.SetsockoptInt(int(socket), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }); called != nil {
			return called
		}
		return err
	}}
	return config.Listen(context.Background(), "tcp4", address)
}
