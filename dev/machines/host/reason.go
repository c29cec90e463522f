package host

import "errors"

// Reason returns the reason of a condition that reports an error of a Client.
func Reason(err error) string {
	for _, each := range []struct {
		err    error
		reason string
	}{
		{ErrUnavailable, "HostUnavailable"},
		{ErrPortInUse, "PortInUse"},
		{ErrFull, "HostFull"},
		{ErrConflict, "HostConflict"},
		{ErrNotFound, "NotFoundAtHost"},
		{ErrInvalid, "InvalidRequest"},
	} {
		if errors.Is(err, each.err) {
			return each.reason
		}
	}
	return "HostFailed"
}
