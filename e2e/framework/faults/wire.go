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

// Wire carries bytes between processes and a server, and can stop doing so. TLS passes unseen: clients verify the
// server's own certificate, which must be for 127.0.0.1.
type Wire struct {
	// URL is where processes reach the server: https, at a port on loopback that nobody else gets before Close.
	URL string

	port   *ports.Port
	target string

	mu         sync.Mutex // guards what follows
	listener   net.Listener
	conns      map[*carried]struct{}
	silent     bool
	delay      time.Duration
	resetAfter int64
	changed    chan struct{} // closed and made anew when a flow may go on
	closed     bool
}

// NewWire leads to the host and port of a server's URL, until Close.
func NewWire(server string) (*Wire, error) {
	target, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("reading the server's address: %w", err)
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

// Heal ends all faults. What was held back arrives, as after a cut of a network that TCP outlasts.
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

// Silence carries nothing more, in either direction, and tells nobody: connections stay, new ones are accepted.
func (w *Wire) Silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = true
}

// Abandon carries nothing more on the connections there are, and tells nobody. New ones pass: so it is when something on
// the way has forgotten them.
func (w *Wire) Abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.abandoned = true
	}
}

// Cut resets all connections there are. New ones pass.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut()
}

// cut is Cut; w.mu is held.
func (w *Wire) cut() {
	for c := range w.conns {
		c.end()
	}
}

// Refuse resets all connections and refuses new ones. One that was accepted and is not known yet finds no listener when
// it is.
func (w *Wire) Refuse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listener != nil {
		_ = w.listener.Close() // it may be accepting
		w.listener = nil
	}
	w.cut()
}

// Delay lets bytes arrive after this time, in both directions.
func (w *Wire) Delay(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = by
}

// ResetAfter resets each connection that is made from now on when the client has got so many bytes.
func (w *Wire) ResetAfter(bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resetAfter = bytes
}

// Connections is how many there are.
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

// wake lets flows look again; w.mu is held.
func (w *Wire) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}
