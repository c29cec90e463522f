package hub

import "sync/atomic"

// PublishedAddress is the address in the last hub document of this process.
type PublishedAddress struct {
	// Hash is the hubaddress.Hash of the configuration that was published.
	Hash string
	// Serial is the serial of the first document with this address.
	Serial int64
}

// publishedAddress stores the published address and the listeners for its changes.
type publishedAddress struct {
	current   atomic.Pointer[PublishedAddress]
	listeners []func()
}

// PublishedAddress returns the address in the last hub document, or the zero value if this process has published none.
func (a *Context) PublishedAddress() PublishedAddress {
	if current := a.published.current.Load(); current != nil {
		return *current
	}
	return PublishedAddress{}
}

// SetPublishedAddress records the address in the hub document. A change is passed to the listeners.
func (a *Context) SetPublishedAddress(address PublishedAddress) {
	before := a.PublishedAddress()
	a.published.current.Store(&address)
	if before == address {
		return
	}
	for _, listen := range a.published.listeners {
		listen()
	}
}

// OnPublishedAddress adds a listener. Call it in a Register.
func (a *Context) OnPublishedAddress(listen func()) {
	a.published.listeners = append(a.published.listeners, listen)
}
