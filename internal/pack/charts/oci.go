package charts

import (
	"context"
	"errors"
	"strings"
)

// isOCI reports whether an address belongs to an OCI registry.
func isOCI(text string) bool { return strings.HasPrefix(text, "oci://") }

func pull(context.Context, target, string, limits) error {
	return errors.New("charts in OCI registries cannot be fetched")
}
