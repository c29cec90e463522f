package faults

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/fleet-hub/fleet/dev/plane/ports"
)

// Wire forwards bytes between processes and a server, and can stop doing so. TLS is not terminated: clients
// verify the server's certificate, which must be valid for 127.0.0.1.
type Wire struct {
	// URL is the https URL for processes. Its loopback port is reserved until Close.
	URL string

	port   *ports.Port
	target string

	mu         sync.Mutex // guards the fields below
	listener   net.Listener
	conns      map[*carried]struct{}
	silent     bool
	delay      time.Duration
	resetAfter int64
	changed    chan struct{} // closed and replaced when a flow may continue
	closed     bool
}

// NewWire forwards to the host and port of a server's URL, until Close.
func NewWire(server string) (*Wire, error) {
	target, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("parsing the server's URL: %w", err)
	}
	port, err := ports.Hold()
	if err != nil {
		return nil, err
	}
	w := &Wire{
		URL: target.Scheme + "://" + port.Address(), port: port, target: target.Host,
		conns: map[*carried]struct{}{}, resetAfter: -1, changed: make(chan struct{}),
	}
	if err := w.listen(); err != nil {
		port.Release()
		return nil, err
	}
	return w, nil
}

func (w *Wire) listen() error {
	listener, err := w.port.Listen(context.Background()) // until Refuse or Close
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	w.listener = listener
	go w.accept(listener)
	return nil
}

// Heal ends all faults. Bytes that were held are delivered, as after a network failure that TCP survives.
func (w *Wire) Heal() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent, w.delay, w.resetAfter = false, 0, -1
	for c := range w.conns {
		c.abandoned = false
	}
	w.wake()
	if w.listener != nil || w.closed {
		return nil
	}
	return w.listen()
}

// Silence stops forwarding in both directions without closing connections. New connections are accepted.
func (w *Wire) Silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = true
}

// Abandon stops forwarding on existing connections without closing them. New connections work, as if a router had
// lost the state of the old ones.
func (w *Wire) Abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.abandoned = true
	}
}

// Cut resets all connections. New connections work.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut()
}

// cut does the same as Cut. The caller holds w.mu.
func (w *Wire) cut() {
	for c := range w.conns {
		c.end()
	}
}

// Refuse resets all connections and refuses new ones. A connection that was just accepted is closed too, because
// the listener is gone.
func (w *Wire) Refuse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listener != nil {
		_ = w.listener.Close() // it may be accepting a connection
		w.listener = nil
	}
	w.cut()
}

// Delay delays all bytes by this time, in both directions.
func (w *Wire) Delay(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = by
}

// ResetAfter resets each new connection after its client has received this number of bytes.
func (w *Wire) ResetAfter(bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resetAfter = bytes
}

// Connections returns the number of connections.
func (w *Wire) Connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.conns)
}

// Close ends the wire and all connections.
func (w *Wire) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.Refuse()
	w.port.Release()
}

// wake makes flows check their state again. The caller holds w.mu.
func (w *Wire) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}
