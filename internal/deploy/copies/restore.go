package copies

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/watch"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// copyChanged enqueues the BundleDeployments that need a changed copy.
func (c *Copier) copyChanged(resource schema.GroupVersionResource, object *metav1.PartialObjectMetadata) {
	one := copied{resource.Resource, object.Namespace, object.Name}
	var users []string // several BundleDeployments may share a copy
	for _, bd := range c.Hub.All() {
		if slices.Contains(copiesOf(bd), one) {
			users = append(users, bd.Name)
		}
	}
	c.Changed(users)
}

// followCopies watches the copies of a BundleDeployment, and drops the records of copies that it no longer has.
func (c *Copier) followCopies(bd *fleet.BundleDeployment, s *State) {
	copies := copiesOf(bd)
	resources := map[schema.GroupVersionResource]bool{}
	for _, one := range copies {
		if one.resource != "" {
			resources[one.served()] = true
		}
	}
	maps.DeleteFunc(s.copied, func(one copied, _ string) bool { return !slices.Contains(copies, one) })
	c.watches.Follow(bd.Name, resources)
}

// Unfollow stops watching the copies of a BundleDeployment.
func (c *Copier) Unfollow(name string) { c.watches.Follow(name, nil) }

func (c copied) served() schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource(c.resource)
}

// changedCopies returns the copies that have changed since this process wrote or checked them.
func (c *Copier) changedCopies(bd *fleet.BundleDeployment, s *State) []copied {
	var changed []copied
	for _, one := range copiesOf(bd) {
		found, known := c.watches.Cached(one.served(), one.namespace, one.name)
		if known && (found == nil || !notAfter(found.ResourceVersion, s.copied[one])) {
			changed = append(changed, one)
		}
	}
	return changed
}

// notAfter reports whether the resource version from the watch is the known one or an earlier one.
func notAfter(told, known string) bool {
	a, errA := strconv.ParseUint(told, 10, 64)
	b, errB := strconv.ParseUint(known, 10, 64)
	return told == known || errA == nil && errB == nil && a < b
}

// keepCopies restores copies that were changed or deleted downstream, with the identity that deploys. If a copy is
// changed again and again, it is restored at the same rate as drift is corrected.
func (c *Copier) keepCopies(ctx context.Context, bd *fleet.BundleDeployment, s *State) {
	s.restoring.For(bd.Generation)
	changed := c.changedCopies(bd, s)
	if len(changed) == 0 {
		s.restoring.Worked()
		return
	}
	if wait := s.restoring.Wait(c.Clock()); wait > 0 {
		one := changed[0]
		s.restoring.Failure = cmp.Or(s.restoring.Failure, fmt.Sprintf(
			"another writer keeps changing the copy %s/%s: find it with \"kubectl get %s -n %s %s -o yaml --show-managed-fields\"",
			one.namespace, one.name, one.resource, one.namespace, one.name))
		c.Again(bd.Name, wait)
		return
	}
	s.restoring.Began(c.Clock())
	err := c.Namespaces.Check(ctx, bd)
	if err == nil {
		_, err = c.copyAll(ctx, bd, s, changed, true)
	}
	if err != nil {
		s.restoring.Failed(c.Clock(), "restoring copies: "+outcome.Message(err), c.Random())
		c.Log.Warn("restoring copies failed", "bundledeployment", c.Namespace+"/"+bd.Name, "error", err)
		c.Again(bd.Name, s.restoring.Wait(c.Clock()))
		return
	}
	s.restoring.Worked()
	c.Log.Debug("copies are in place", "bundledeployment", c.Namespace+"/"+bd.Name, "objects", len(changed))
}

// Report writes the failure to restore copies into the status. Changed copies count as modified, if the
// states of the other objects are known.
func (c *Copier) Report(bd *fleet.BundleDeployment, s *State, status *fleet.BundleDeploymentStatus, known bool) {
	if s.restoring.Failure == "" {
		return
	}
	outcome.SetCondition(status, c.Clock(), conditions.Ready, s.restoring.Failure)
	if !known {
		return
	}
	for _, one := range c.changedCopies(bd, s) {
		found, _ := c.watches.Cached(one.served(), one.namespace, one.name)
		status.ModifiedStatus = append(status.ModifiedStatus, one.modified(found == nil))
		status.NonModified = false
	}
	if len(status.ModifiedStatus) > watch.ListLimit {
		status.ModifiedStatus, status.IncompleteState = status.ModifiedStatus[:watch.ListLimit], true
	}
}

// modified returns the status entry of a changed or missing copy. The entry does not contain its data.
func (c copied) modified(missing bool) fleet.ModifiedStatus {
	found := fleet.ModifiedStatus{APIVersion: "v1", Kind: "ConfigMap", Namespace: c.namespace, Name: c.name, Missing: missing}
	if c.resource == copiedSecrets {
		found.Kind = "Secret"
	}
	if !missing {
		found.Patch = `{"…":"differs from the copied object"}`
	}
	return found
}

// compareCopy reports whether a copy is correct (isRight), and whether it differs only in the agent that made it
// (same). A restored copy may have additional labels and annotations, and it may carry the label of another
// BundleDeployment that needs the same copy. A copy of another agent is an error. Otherwise, an object that is not a copy is.
func (c *Copier) compareCopy(bd *fleet.BundleDeployment, kind string, current metav1.ObjectMeta, wanted *metav1.ObjectMeta, sameData, again bool) (isRight, same bool, err error) {
	if !again {
		if err := c.mayReplace(bd, kind, current); err != nil {
			return false, false, err
		}
		same = sameData && sameMeta(current, *wanted)
		return same && c.copiedIt(current), same, nil
	}
	if agent := current.Annotations[fleet.AnnotationAgentNamespace]; agent != "" && agent != c.AgentNamespace {
		return false, false, fmt.Errorf("%s %s/%s is a copy of the agent in namespace %s: configure only one of the two agents to copy it", kind, current.Namespace, current.Name, agent)
	}
	if other := current.Labels[fleet.LabelBundleDeployment]; other != "" && c.copiedIt(current) && c.Hub.Cached(other) != nil {
		wanted.Labels[fleet.LabelBundleDeployment] = other
	}
	return sameData && contains(current.Labels, wanted.Labels) && contains(current.Annotations, wanted.Annotations), false, nil
}

// mayReplace returns an error for an object that is not a copy, even if its data are the same: it would later be deleted like
// a copy. The copies of Rancher Fleet's agents have only the label, those that outlived their Bundle only the annotation. An
// object of the release may move to downstreamResources: the upgrade that follows leaves it, because the copy has no marks of
// the release.
func (c *Copier) mayReplace(bd *fleet.BundleDeployment, kind string, found metav1.ObjectMeta) error {
	isCopy := found.Labels[fleet.LabelBundleDeployment] != "" || found.Annotations[fleet.AnnotationAgentNamespace] != "" ||
		found.Labels[fleet.LabelSetHash] == c.SetOf(bd.Name).Hash && found.Namespace != bd.Labels[fleet.LabelBundleNamespace]
	if helm := bd.Spec.Options.Helm; isCopy || helm != nil && helm.TakeOwnership {
		return nil
	}
	fix := fmt.Sprintf("rename the original, remove that object with \"kubectl delete %s -n %s %s\", or set helm.takeOwnership to replace it",
		strings.ToLower(kind), found.Namespace, found.Name)
	if found.Namespace == bd.Labels[fleet.LabelBundleNamespace] {
		fix = "if this is the hub's own cluster, that object is the original: do not delete it, and deploy the bundle to another " +
			"namespace; on another cluster rename the original, or set helm.takeOwnership to replace that object"
	}
	return outcome.Because(conditions.ReasonObjectTaken, fmt.Errorf("downstreamResources: %s %s/%s exists on the cluster and is not a copy; %s",
		kind, found.Namespace, found.Name, fix))
}

// contains reports whether all has every entry of part.
func contains(all, part map[string]string) bool {
	for key, value := range part {
		if found, there := all[key]; !there || found != value {
			return false
		}
	}
	return true
}
