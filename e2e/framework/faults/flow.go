package faults

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// carried is a connection through the wire.
type carried struct {
	client, server net.Conn
	abandoned      bool  // guarded by Wire.mu
	left           int64 // bytes for the client until the connection is reset; negative means no limit
	over           chan struct{}
	end            func()
}

func (w *Wire) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // the connection is closed
		}
		go w.carry(client)
	}
}

func (w *Wire) carry(client net.Conn) {
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		reset(client)
		return
	}
	c := &carried{client: client, server: server, over: make(chan struct{})}
	c.end = sync.OnceFunc(func() {
		close(c.over)
		reset(client)
		reset(server)
	})
	w.mu.Lock()
	c.left = w.resetAfter
	refused := w.listener == nil
	w.conns[c] = struct{}{}
	w.mu.Unlock()
	if refused {
		c.end()
	}
	var flows sync.WaitGroup
	flows.Go(func() { w.flow(c, client, server, false) })
	flows.Go(func() { w.flow(c, server, client, true) })
	flows.Wait()
	c.end()
	w.mu.Lock()
	delete(w.conns, c)
	w.mu.Unlock()
}

// flow copies one direction until its source ends or an error occurs. At the end of the source it closes the
// other side for writing.
func (w *Wire) flow(c *carried, from, to net.Conn, towardsClient bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !w.wait(c) {
			return
		}
		bytes, last := buffer[:n], false
		if towardsClient && c.left >= 0 {
			last = int64(n) >= c.left
			bytes = bytes[:min(int64(n), c.left)]
			c.left -= int64(len(bytes))
		}
		if _, wrote := to.Write(bytes); wrote != nil || last {
			c.end()
			return
		}
		switch half, _ := to.(*net.TCPConn); {
		case errors.Is(err, io.EOF) && half != nil && half.CloseWrite() == nil:
			return // the other direction continues
		case err != nil:
			c.end()
			return
		}
	}
}

// wait blocks while bytes may not pass. It returns false if the connection has ended.
func (w *Wire) wait(c *carried) bool {
	w.mu.Lock()
	delay := w.delay
	w.mu.Unlock()
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.over:
			return false
		}
	}
	for {
		w.mu.Lock()
		silent, changed := w.silent || c.abandoned, w.changed
		w.mu.Unlock()
		if !silent {
			return true
		}
		select {
		case <-changed:
		case <-c.over:
			return false
		}
	}
}
