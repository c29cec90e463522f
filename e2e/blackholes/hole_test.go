package blackholes

import (
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/fleet-hub/fleet/internal/plane/pki"
)

// hole is a server that swallows what it is sent: it takes connections and never says anything.
type hole struct {
	listener net.Listener

	mu    sync.Mutex
	count asks
}

// asks are those of whoever wanted something of a hole.
type asks struct {
	// Open are the connections there are, Most is how many there were at once, Ended how many were given up.
	Open, Most, Ended int
}

func openHole() (*hole, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &hole{listener: listener}
	go h.serve()
	return h, nil
}

func (h *hole) serve() {
	for {
		connection, err := h.listener.Accept()
		if err != nil {
			return // closed
		}
		h.counted(func(a *asks) { a.Open++; a.Most = max(a.Most, a.Open) })
		go func() {
			_, _ = io.Copy(io.Discard, connection) // until whoever asks has given up, however that comes
			_ = connection.Close()                 // the other side has
			h.counted(func(a *asks) { a.Open--; a.Ended++ })
		}()
	}
}

func (h *hole) counted(what func(*asks)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	what(&h.count)
}

// asked is how it stands.
func (h *hole) asked() (now asks) {
	h.counted(func(a *asks) { now = *a })
	return now
}

// kubeconfig leads there.
func (h *hole) kubeconfig(name string) ([]byte, error) {
	return pki.Access{Name: name, URL: fmt.Sprintf("https://%s", h.listener.Addr()), Token: "nobody's"}.Kubeconfig()
}
