package hub

import "sync/atomic"

// addressSerial is the serial of the first hub document with the current URL and CAs, and who wants to know when it
// changes.
type addressSerial struct {
	serial    atomic.Int64
	listeners []func()
}

// AddressSerial returns the serial of the first hub document with the hub's current URL and CAs. It returns 0 while none
// is published.
func (a *Context) AddressSerial() int64 { return a.address.serial.Load() }

// SetAddressSerial records that serial. A change is passed to the listeners.
func (a *Context) SetAddressSerial(serial int64) {
	if a.address.serial.Swap(serial) == serial {
		return
	}
	for _, listen := range a.address.listeners {
		listen()
	}
}

// OnAddressSerial adds a listener. Call it in a Register.
func (a *Context) OnAddressSerial(listen func()) {
	a.address.listeners = append(a.address.listeners, listen)
}
