package plane

import (
	"context"
	"errors"
	"fmt"

	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// ReplaceSigningKey restarts the cluster with another key for the tokens of ServiceAccounts. All tokens of before are
// invalid then, and token Secrets keep theirs.
func (c *Cluster) ReplaceSigningKey(ctx context.Context) error {
	key, err := pki.NewAccountKey()
	if err != nil {
		return fmt.Errorf("replacing the signing key of cluster %s: %w", c.Name, err)
	}
	if err := errors.Join(c.endControllers(), c.Pause(), pki.Write(c.dir, pki.FileAccounts, key.Key)); err != nil {
		return fmt.Errorf("replacing the signing key of cluster %s: %w", c.Name, err)
	}
	return errors.Join(c.Resume(ctx), c.startControllers(ctx))
}
