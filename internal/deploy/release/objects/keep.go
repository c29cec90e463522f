package objects

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/rules/drift"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
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

// Found describes which objects of a revision exist. All is true if none is missing or being deleted, Any if at least one belongs
// to the release. Hook is true if an object of a pre-delete hook that is stored as running exists.
type Found struct{ All, Any, Hook bool }

// Look returns which objects of an earlier revision exist.
func (c *Client) Look(r *release.Release) (Found, error) {
	list, err := c.Build(strings.NewReader(r.Manifest), false)
	if err != nil {
		return Found{}, fmt.Errorf("reading the manifest of release %s: %w", c.release, err)
	}
	var missing, owned atomic.Bool
	missing.Store(len(c.Refs(list)) > len(list)) // objects of kinds that no longer exist
	err = inParallel(list, func(info *resource.Info) error {
		exists, err := c.read(info)
		owner, _ := ownerOf(info.Object)
		live, ok := info.Object.(*unstructured.Unstructured)
		if !exists || !ok || live.GetDeletionTimestamp() != nil {
			missing.Store(true)
		}
		if exists && owner == c.release {
			owned.Store(true)
		}
		return err
	})
	if err != nil {
		return Found{}, err
	}
	hook, err := c.hasRunningHook(r)
	return Found{All: !missing.Load(), Any: owned.Load(), Hook: hook}, err
}

// hasRunningHook reports whether an object of a pre-delete hook that is stored as running exists.
func (c *Client) hasRunningHook(r *release.Release) (bool, error) {
	for _, hook := range r.Hooks {
		if hook.LastRun.Phase != release.HookPhaseRunning || !slices.Contains(hook.Events, release.HookPreDelete) {
			continue
		}
		list, err := c.Build(strings.NewReader(hook.Manifest), false)
		if err != nil {
			return false, fmt.Errorf("reading hook %s of release %s: %w", hook.Name, c.release, err)
		}
		for _, info := range list {
			if exists, err := c.read(info); exists || err != nil {
				return exists, err
			}
		}
	}
	return false, nil
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

// keepIgnored returns a version of an object, for a correction with the live values of the fields that are not to be corrected.
// The marks of the release are always those of the version. replaced means that the version replaces the object.
func (c *Client) keepIgnored(version runtime.Object, target *resource.Info, live runtime.Object, replaced bool) runtime.Object {
	wanted, ok := version.(*unstructured.Unstructured)
	have, okLive := live.(*unstructured.Unstructured)
	if c.Only == nil || !ok || !okLive {
		return version
	}
	var lists strategicpatch.LookupPatchMeta // unknown for custom resources
	versioned := kube.AsVersioned(target)
	if _, unknown := versioned.(runtime.Unstructured); !unknown {
		if found, err := strategicpatch.NewPatchMetaFromStruct(versioned); err == nil {
			lists = found
		}
	}
	in := c.ignored
	in.Desired, in.Live = wanted, have
	kept := drift.KeepIgnored(in, lists, replaced)
	if kept == wanted {
		return version
	}
	for _, mark := range [][]string{{"labels", fleet.LabelSetHash}, {"annotations", ReleaseNameAnnotation}, {"annotations", ReleaseNamespaceAnnotation}} {
		if value, found, err := unstructured.NestedString(wanted.Object, "metadata", mark[0], mark[1]); found && err == nil {
			_ = unstructured.SetNestedField(kept.Object, value, "metadata", mark[0], mark[1]) // the field is a map in wanted
		}
	}
	return kept
}
