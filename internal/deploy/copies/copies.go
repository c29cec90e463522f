package copies

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/metadata"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/hub"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/namespaces"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/pace"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/watch"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Options are the parts of the agent that a copier needs.
type Options struct {
	Hub        *hub.Hub
	Accounts   *access.Accounts
	Namespaces *namespaces.Namespaces
	Metadata   metadata.Interface
	// AgentNamespace marks the copies of this agent. Namespace is the cluster's namespace on the hub.
	AgentNamespace, Namespace string
	// SetOf returns the set of a BundleDeployment.
	SetOf  func(name string) placement.Set
	Log    *slog.Logger
	Clock  func() time.Time
	Random func() float64
	// Again enqueues a BundleDeployment after a pause, Changed those that need a changed copy, and Synced those whose
	// copies are watched.
	Again   func(name string, after time.Duration)
	Changed func(names []string)
	Synced  func(names []string)
}

// Copier copies Secrets and ConfigMaps from the hub downstream, and keeps them as they were copied.
type Copier struct {
	Options
	watches *watch.Watches
}

func New(options Options) *Copier {
	c := &Copier{Options: options}
	c.watches = watch.NewWatches(fleet.LabelBundleDeployment, c.Metadata, c.Clock, c.copyChanged, c.Synced)
	return c
}

// Stop stops all watches.
func (c *Copier) Stop() { c.watches.Stop() }

// State is what is known about the copies of one BundleDeployment. The zero value knows nothing.
type State struct {
	// surplus is true if the downstream cluster may have copies that are no longer wanted.
	surplus bool
	// copies is true if Secrets or ConfigMaps were copied downstream.
	copies bool
	// copied maps each copy to the resource version at which it was written or last found correct.
	copied map[copied]string
	// restoring records the restoration of copies.
	restoring pace.Correction
}

// MayExist reports whether the downstream cluster may have copies of the BundleDeployment.
func (s *State) MayExist() bool { return s.copies }

// Copy copies the downstream resources of a BundleDeployment, with the identity that deploys. It reports
// whether an existing copy has changed, because the release then has to be deployed again.
func (c *Copier) Copy(ctx context.Context, bd *fleet.BundleDeployment, s *State, status *fleet.BundleDeploymentStatus) (changed bool, err error) {
	wanted := bd.Spec.Options.DownstreamResources
	s.copies = s.copies || len(wanted) > 0
	c.followCopies(bd, s)
	inPlace := status.DownstreamResourcesGeneration == bd.Spec.DownstreamResourcesGeneration &&
		status.AppliedDeploymentID == bd.Spec.DeploymentID
	if inPlace {
		c.keepCopies(ctx, bd, s)
		return false, nil
	}
	if len(wanted) == 0 && status.DownstreamResourcesGeneration == 0 {
		return false, nil
	}
	if len(wanted) > 0 {
		if changed, err = c.copyAll(ctx, bd, s, copiesOf(bd), false); err != nil {
			return false, err
		}
		s.restoring.Worked()
	}
	wasInPlace := status.AppliedDeploymentID == bd.Spec.DeploymentID || status.AppliedDeploymentID == ""
	if last := status.DownstreamResourcesGeneration; last != 0 && last != bd.Spec.DownstreamResourcesGeneration && wasInPlace {
		changed = true // an earlier process may have copied them, and have stopped or failed before the deployment
	}
	s.surplus = true
	status.DownstreamResourcesGeneration = bd.Spec.DownstreamResourcesGeneration
	return changed, nil
}

// copyAll copies Secrets and ConfigMaps, for the first time or again to restore them. It reports whether an
// existing copy has changed.
func (c *Copier) copyAll(ctx context.Context, bd *fleet.BundleDeployment, s *State, copies []copied, again bool) (changed bool, err error) {
	for _, resource := range bd.Spec.Options.DownstreamResources {
		if resourceOfKind(resource.Kind) == "" {
			return false, outcome.Because(conditions.ReasonManifestInvalid, fmt.Errorf("downstreamResources: kind %q is neither Secret nor ConfigMap", resource.Kind))
		}
	}
	namespace := placement.NamespaceOf(&bd.Spec.Options)
	identity, err := c.Accounts.Find(ctx, bd)
	if err != nil {
		return false, err
	}
	if create := bd.Spec.Options.CreateNamespace; create == nil || *create {
		if err := c.Namespaces.Ensure(ctx, identity, namespace); err != nil {
			return false, err
		}
	}
	for _, wanted := range copies {
		var version string
		var updated bool
		if wanted.resource == copiedSecrets {
			version, updated, err = c.copySecret(ctx, identity, bd, wanted.name, namespace, again)
		} else {
			version, updated, err = c.copyConfigMap(ctx, identity, bd, wanted.name, namespace, again)
		}
		if err != nil {
			return false, err
		}
		if s.copied == nil {
			s.copied = map[copied]string{}
		}
		s.copied[wanted] = version
		changed = changed || updated
	}
	return changed, nil
}

// copiesOf returns the copies of a BundleDeployment. If a kind cannot be copied, its copy has no resource.
func copiesOf(bd *fleet.BundleDeployment) []copied {
	var found []copied
	for _, resource := range bd.Spec.Options.DownstreamResources {
		found = append(found, copied{resourceOfKind(resource.Kind), placement.NamespaceOf(&bd.Spec.Options), resource.Name})
	}
	return found
}

// Resources of Secrets and ConfigMaps.
const (
	copiedSecrets    = "secrets"
	copiedConfigMaps = "configmaps"
)

// resourceOfKind returns the resource of a kind in downstreamResources, "" if the kind cannot be copied.
func resourceOfKind(kind string) string {
	switch strings.ToLower(kind) {
	case "secret":
		return copiedSecrets
	case "configmap":
		return copiedConfigMaps
	}
	return ""
}

func (c *Copier) copySecret(ctx context.Context, identity *access.Identity, bd *fleet.BundleDeployment, name, namespace string, again bool) (version string, updated bool, err error) {
	source, err := c.Hub.Secret(ctx, name)
	if err != nil {
		return "", false, err
	}
	if err := checkWorkspace(bd, "Secret", &source.ObjectMeta); err != nil {
		return "", false, err
	}
	wanted := &corev1.Secret{ObjectMeta: c.copyMeta(source.ObjectMeta, bd.Name, namespace), Type: source.Type, Data: source.Data}
	secrets := identity.Clientset.CoreV1().Secrets(namespace)
	current, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		made, err := secrets.Create(ctx, wanted, metav1.CreateOptions{FieldManager: access.FieldManager})
		return made.GetResourceVersion(), false, copying(err, "Secret", namespace, name)
	}
	if err != nil {
		return "", false, fmt.Errorf("reading Secret %s/%s: %w", namespace, name, err)
	}
	sameData := equality.Semantic.DeepEqual(current.Data, wanted.Data)
	isRight, same, err := c.compareCopy(bd, "Secret", current.ObjectMeta, &wanted.ObjectMeta, sameData, again)
	if isRight || err != nil {
		return current.ResourceVersion, false, err
	}
	next := current.DeepCopy()
	next.Labels, next.Annotations, next.Data = wanted.Labels, wanted.Annotations, wanted.Data
	made, err := secrets.Update(ctx, next, metav1.UpdateOptions{FieldManager: access.FieldManager})
	return made.GetResourceVersion(), !same, copying(err, "Secret", namespace, name)
}

func (c *Copier) copyConfigMap(ctx context.Context, identity *access.Identity, bd *fleet.BundleDeployment, name, namespace string, again bool) (version string, updated bool, err error) {
	source, err := c.Hub.ConfigMap(ctx, name)
	if err != nil {
		return "", false, err
	}
	if err := checkWorkspace(bd, "ConfigMap", &source.ObjectMeta); err != nil {
		return "", false, err
	}
	wanted := &corev1.ConfigMap{ObjectMeta: c.copyMeta(source.ObjectMeta, bd.Name, namespace), Data: source.Data, BinaryData: source.BinaryData}
	configMaps := identity.Clientset.CoreV1().ConfigMaps(namespace)
	current, err := configMaps.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		made, err := configMaps.Create(ctx, wanted, metav1.CreateOptions{FieldManager: access.FieldManager})
		return made.GetResourceVersion(), false, copying(err, "ConfigMap", namespace, name)
	}
	if err != nil {
		return "", false, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, name, err)
	}
	sameData := equality.Semantic.DeepEqual(current.Data, wanted.Data) && equality.Semantic.DeepEqual(current.BinaryData, wanted.BinaryData)
	isRight, same, err := c.compareCopy(bd, "ConfigMap", current.ObjectMeta, &wanted.ObjectMeta, sameData, again)
	if isRight || err != nil {
		return current.ResourceVersion, false, err
	}
	next := current.DeepCopy()
	next.Labels, next.Annotations = wanted.Labels, wanted.Annotations
	next.Data, next.BinaryData = wanted.Data, wanted.BinaryData
	made, err := configMaps.Update(ctx, next, metav1.UpdateOptions{FieldManager: access.FieldManager})
	return made.GetResourceVersion(), !same, copying(err, "ConfigMap", namespace, name)
}

// copyMeta returns the metadata of a copy: that of the source, the label for finding it when it has to be
// deleted, and the annotation of this agent. The annotation is needed because the agent of another hub may have a
// BundleDeployment with the same name.
func (c *Copier) copyMeta(source metav1.ObjectMeta, bundleDeployment, namespace string) metav1.ObjectMeta {
	labels, annotations := map[string]string{}, map[string]string{}
	maps.Copy(labels, source.Labels)
	maps.Copy(annotations, source.Annotations)
	labels[fleet.LabelBundleDeployment] = bundleDeployment
	annotations[fleet.AnnotationAgentNamespace] = c.AgentNamespace
	return metav1.ObjectMeta{Name: source.Name, Namespace: namespace, Labels: labels, Annotations: annotations}
}

// checkWorkspace returns an error if the hub has copied an object for Bundles of another workspace than this one's. Hubs of
// Rancher Fleet do not say for which.
func checkWorkspace(bd *fleet.BundleDeployment, kind string, source *metav1.ObjectMeta) error {
	workspace, noted := source.Annotations[annotation.CopiedFrom]
	if !noted || workspace == bd.Labels[fleet.LabelBundleNamespace] {
		return nil
	}
	return outcome.Because(conditions.ReasonContentMissing, fmt.Errorf(
		"downstreamResources: %s %s on the hub was copied for a Bundle of another workspace; rename the original", kind, source.Name))
}

// copiedIt reports whether this agent made a copy.
func (c *Copier) copiedIt(made metav1.ObjectMeta) bool {
	return made.Annotations[fleet.AnnotationAgentNamespace] == c.AgentNamespace
}

// sameMeta reports whether two copies have the same labels and annotations, except for the annotation of the
// agent.
func sameMeta(a, b metav1.ObjectMeta) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(unmarked(a), unmarked(b))
}

func unmarked(made metav1.ObjectMeta) map[string]string {
	annotations := maps.Clone(made.Annotations)
	delete(annotations, fleet.AnnotationAgentNamespace)
	return annotations
}

// copying adds the kind and the name of the copy to an error.
func copying(err error, kind, namespace, name string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("copying %s %s/%s: %w", kind, namespace, name, err)
}

// Prune deletes copies that are no longer wanted, if this process or an earlier one (left) may have made any. A copy that is now
// one of the release's objects stays.
func (c *Copier) Prune(ctx context.Context, bd *fleet.BundleDeployment, s *State, left bool, released []manifest.Ref) error {
	if !s.surplus && !left {
		return nil
	}
	wanted := map[copied]bool{}
	for _, one := range copiesOf(bd) {
		wanted[one] = true
	}
	for _, ref := range released {
		if ref.Group == "" {
			wanted[copied{resourceOfKind(ref.Kind), ref.Namespace, ref.Name}] = true
		}
	}
	if err := c.Remove(ctx, bd.Name, wanted); err != nil {
		return err
	}
	s.surplus = false
	return nil
}

// copied identifies a Secret or ConfigMap that was copied downstream.
type copied struct{ resource, namespace, name string }

// Remove deletes the Secrets and ConfigMaps that were copied for a BundleDeployment, in all namespaces,
// except the given ones. Copies without the annotation of an agent are deleted as well: they were made by an
// earlier version, or by the agent of Rancher Fleet that this one has replaced.
func (c *Copier) Remove(ctx context.Context, name string, except map[copied]bool) error {
	return c.each(ctx, fleet.LabelBundleDeployment+"="+name, func(client metadata.ResourceInterface, one copied, found *metav1.PartialObjectMetadata) error {
		anothers := found.Annotations[fleet.AnnotationAgentNamespace] != "" && !c.copiedIt(found.ObjectMeta)
		if anothers || except[one] {
			return nil
		}
		if err := utilerrors.FilterOut(client.Delete(ctx, one.name, metav1.DeleteOptions{}), apierrors.IsNotFound); err != nil {
			return fmt.Errorf("deleting the copy %s/%s: %w", one.namespace, one.name, err)
		}
		return nil
	})
}

// Keep removes the label of a deleted BundleDeployment from its copies, so that no later process deletes them.
func (c *Copier) Keep(ctx context.Context, name string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, fleet.LabelBundleDeployment)
	return c.each(ctx, fleet.LabelBundleDeployment+"="+name, func(client metadata.ResourceInterface, one copied, found *metav1.PartialObjectMetadata) error {
		if !c.copiedIt(found.ObjectMeta) {
			return nil
		}
		_, err := client.Patch(ctx, one.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: access.FieldManager})
		if err := utilerrors.FilterOut(err, apierrors.IsNotFound); err != nil {
			return fmt.Errorf("removing the label of the copy %s/%s: %w", one.namespace, one.name, err)
		}
		return nil
	})
}

// Leftovers returns the BundleDeployments for which this agent made copies that they do not want, or that do not exist.
func (c *Copier) Leftovers(ctx context.Context) (names map[string]bool, err error) {
	names = map[string]bool{}
	err = c.each(ctx, fleet.LabelBundleDeployment, func(_ metadata.ResourceInterface, one copied, found *metav1.PartialObjectMetadata) error {
		name := found.Labels[fleet.LabelBundleDeployment]
		bd := c.Hub.Cached(name)
		if c.copiedIt(found.ObjectMeta) && (bd == nil || !slices.Contains(copiesOf(bd), one)) {
			names[name] = true
		}
		return nil
	})
	return names, err
}

// each calls do for every Secret and ConfigMap with a label.
func (c *Copier) each(ctx context.Context, selector string, do func(metadata.ResourceInterface, copied, *metav1.PartialObjectMetadata) error) error {
	for _, resource := range []string{copiedSecrets, copiedConfigMaps} {
		client := c.Metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource})
		found, err := client.List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return fmt.Errorf("listing the copied %s: %w", resource, err)
		}
		for i := range found.Items {
			item := &found.Items[i]
			if err := do(client.Namespace(item.Namespace), copied{resource, item.Namespace, item.Name}, item); err != nil {
				return err
			}
		}
	}
	return nil
}
