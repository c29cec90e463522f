package objects

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
)

// IsTaken reports whether any object of a manifest now belongs to one of the other releases.
func (c *Client) IsTaken(text string, others []placement.Release) (bool, error) {
	list, err := c.Build(strings.NewReader(text), false)
	if err != nil {
		return false, fmt.Errorf("reading the manifest of release %s: %w", c.release, err)
	}
	var taken atomic.Bool
	err = inParallel(list, func(info *resource.Info) error {
		live, err := c.helper(info).Get(info.Namespace, info.Name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", describeInfo(info), err)
		}
		if owner, known := ownerOf(live); known && slices.Contains(others, owner) {
			taken.Store(true)
		}
		return nil
	})
	return taken.Load(), err
}

// isKept reports whether an object is one of those to keep, or the namespace of one.
func (c *Client) isKept(info *resource.Info) bool {
	ref := refOf(info)
	isNamespace := ref.GroupKind() == schema.GroupKind{Kind: "Namespace"}
	return slices.ContainsFunc(c.Keep, func(kept manifest.Ref) bool {
		if isNamespace && kept.Namespace == ref.Name {
			return true
		}
		return kept.GroupKind() == ref.GroupKind() && kept.Namespace == ref.Namespace && kept.Name == ref.Name
	})
}
