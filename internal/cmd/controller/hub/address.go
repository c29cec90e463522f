package hub

import "github.com/fleet-hub/fleet/internal/rules/hubaddress"

// PublishedAddress returns the address in the last hub document, or the zero value if this process has published none.
func (a *App) PublishedAddress() hubaddress.Published {
	if current := a.published.Load(); current != nil {
		return *current
	}
	return hubaddress.Published{}
}

// SetPublishedAddress records the address in the hub document. A change is passed to the listeners.
func (a *App) SetPublishedAddress(address hubaddress.Published) {
	before := a.PublishedAddress()
	a.published.Store(&address)
	if before == address {
		return
	}
	for _, listen := range a.onPublished {
		listen()
	}
}

// OnPublishedAddress adds a listener. Call it in a Register.
func (a *App) OnPublishedAddress(listen func()) { a.onPublished = append(a.onPublished, listen) }
