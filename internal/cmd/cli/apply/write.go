package apply

import (
	"context"
	"errors"

	"github.com/fleet-hub/fleet/internal/pack"
)

func (c *command) write(_ context.Context, paths []string, _ pack.Options, bundles []*pack.Bundle) error {
	if len(bundles) == 0 {
		return nothingFound(paths)
	}
	return errors.New("this version only prints Bundles: add -o -")
}
