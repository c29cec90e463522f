package plane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are chosen below the range from which systems take the ports of outgoing connections (Linux
// from 32768, others from 49152), so that a server that is stopped for a while finds its port free
// when it comes back.
const (
	firstPort = 20000
	lastPort  = 32767
)

var errNoPort = errors.New("no free port on 127.0.0.1")

// freePorts returns n different ports of 127.0.0.1 on which nothing listens now. Somebody may take
// one before it is used: whoever uses them tries again with others then.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	const span = lastPort - firstPort + 1
	start := rand.IntN(span)
	for i := 0; i < span && len(ports) < n; i++ {
		port := firstPort + (start+i)%span
		if isFree(port) {
			ports = append(ports, port)
		}
	}
	if len(ports) < n {
		return nil, fmt.Errorf("looking for %d ports between %d and %d: %w", n, firstPort, lastPort, errNoPort)
	}
	return ports, nil
}

func isFree(port int) bool {
	listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
