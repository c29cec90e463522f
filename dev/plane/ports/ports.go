// Package ports gives servers of tests ports of 127.0.0.1 that nobody else on the machine takes, also while the server
// is away.
package ports

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are chosen below the range from which systems take the ports of outgoing connections (Linux from 32768, others
// from 49152), so that no connection has one by chance.
const (
	first = 20000
	last  = 32767
)

// ErrNone means that there are not as many free ports as were asked for.
var ErrNone = errors.New("no free port on 127.0.0.1")

// Free returns n different ports on which nothing listens now, and which nobody holds. Somebody may take one before it
// is used.
func Free(n int) ([]int, error) {
	found := make([]int, 0, n)
	err := search(func(port int) bool {
		if isFree(port) {
			found = append(found, port)
		}
		return len(found) >= n
	})
	if err != nil {
		return nil, fmt.Errorf("looking for %d ports: %w", n, err)
	}
	return found, nil
}

// search calls try with all ports, beginning somewhere, until it is content.
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

// Port is one that is held, until Release or the end of the process: whoever connects to it is refused unless a server
// listens, and no other program can have it. A server that is to listen must agree to share it, which is SO_REUSEPORT
// (kube-apiserver: --permit-port-sharing), and run as the same user.
//
// Only Linux knows such ports. Elsewhere it is one on which nothing listened when Hold returned.
type Port struct {
	number  int
	release func()
}

// Hold takes a free port.
func Hold() (*Port, error) {
	var p *Port
	err := search(func(port int) bool {
		if release, held := hold(port); held {
			p = &Port{number: port, release: sync.OnceFunc(release)}
		}
		return p != nil
	})
	return p, err
}

// Number is 1 to 65535.
func (p *Port) Number() int { return p.number }

// Address is 127.0.0.1:<number>.
func (p *Port) Address() string { return address(p.number) }

// Listen listens on the port. When the listener is closed the port is held as before.
func (p *Port) Listen(ctx context.Context) (net.Listener, error) {
	return (&net.ListenConfig{Control: share}).Listen(ctx, "tcp4", p.Address())
}

// Release gives the port to whoever wants it; it may be called again.
func (p *Port) Release() { p.release() }
