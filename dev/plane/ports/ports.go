// Package ports reserves ports of 127.0.0.1 for servers of tests. No other program gets a reserved port, even
// while the server is stopped.
package ports

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
)

// Ports are chosen below the range of ephemeral ports (from 32768 on Linux, from 49152 on others), so that no
// outgoing connection uses them.
const (
	first = 20000
	last  = 32767
)

// ErrNone means that there are not enough free ports.
var ErrNone = errors.New("no free port on 127.0.0.1")

// ErrInUse means that a certain port is not free.
var ErrInUse = errors.New("another process uses the port")

// Free returns n different ports on which no process listens and which no process holds. Another process may
// still take one before it is used.
func Free(n int) ([]int, error) {
	found := make([]int, 0, n)
	err := search(func(port int) bool {
		if isFree(port) {
			found = append(found, port)
		}
		return len(found) >= n
	})
	if err != nil {
		return nil, fmt.Errorf("finding %d free ports: %w", n, err)
	}
	return found, nil
}

// search calls try with all ports, starting at a random one, until try returns true.
func search(try func(port int) bool) error {
	const span = last - first + 1
	start := rand.IntN(span)
	for i := range span {
		if try(first + (start+i)%span) {
			return nil
		}
	}
	return fmt.Errorf("%w between %d and %d", ErrNone, first, last)
}

func isFree(port int) bool {
	listener, err := net.Listen("tcp4", address(port))
	return err == nil && listener.Close() == nil
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// Port is a port that is held until Release or until the process ends. Connections to it are refused unless a
// server listens, and no other program can bind it. A server that listens on it has to set SO_REUSEPORT
// (kube-apiserver: --permit-port-sharing) and run as the same user.
//
// Only Linux can hold ports. On other systems it is a port on which no process listened when Hold returned.
type Port struct {
	number int
	file   *os.File // nil on systems that cannot hold ports
}

// Hold reserves a free port.
func Hold() (*Port, error) {
	var p *Port
	err := search(func(port int) bool {
		if file, held := open(port, false); held {
			p = &Port{number: port, file: file}
		}
		return p != nil
	})
	return p, err
}

// HoldNumber reserves a certain port. The error wraps ErrInUse if another process uses or holds it.
func HoldNumber(port int) (*Port, error) { return holdNumber(port, false) }

// Rejoin reserves a port that may be held by another process of the same user. The error wraps ErrInUse if it is used
// in another way.
func Rejoin(port int) (*Port, error) { return holdNumber(port, true) }

func holdNumber(port int, shared bool) (*Port, error) {
	file, held := open(port, shared)
	if !held {
		return nil, fmt.Errorf("reserving %s: %w", address(port), ErrInUse)
	}
	return &Port{number: port, file: file}, nil
}

// Files returns the open files that hold the port. A child process that inherits them holds the port, too.
func (p *Port) Files() []*os.File {
	if p.file == nil {
		return nil
	}
	return []*os.File{p.file}
}

// Number returns the port number, 1 to 65535.
func (p *Port) Number() int { return p.number }

// Address returns 127.0.0.1:<number>.
func (p *Port) Address() string { return address(p.number) }

// Listen listens on the port. The port stays held when the listener is closed.
func (p *Port) Listen(ctx context.Context) (net.Listener, error) {
	return (&net.ListenConfig{Control: share}).Listen(ctx, "tcp4", p.Address())
}

// Release releases the port. It may be called more than once.
func (p *Port) Release() {
	if p.file != nil {
		_ = p.file.Close() // nothing was written to the socket
	}
}
