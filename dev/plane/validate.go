package plane

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
)

// ErrOptions means that the options are invalid.
var ErrOptions = errors.New("invalid options")

// clusterName matches names that are valid as a directory, an etcd prefix and a kubeconfig context.
var clusterName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

func validate(o Options) error {
	for i, name := range o.Downstreams {
		switch {
		case name == HubName:
			return fmt.Errorf("%w: downstream %q has the hub's name", ErrOptions, name)
		case !clusterName.MatchString(name):
			return fmt.Errorf("%w: downstream %q is invalid: use 1 to 32 lower case letters, digits and inner hyphens", ErrOptions, name)
		case slices.Contains(o.Downstreams[:i], name):
			return fmt.Errorf("%w: downstream %q is listed twice", ErrOptions, name)
		}
	}
	for command, path := range o.Binaries {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%w: the path of %s, %q, is not absolute", ErrOptions, command, path)
		}
	}
	return nil
}
