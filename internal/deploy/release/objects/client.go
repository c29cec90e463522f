package objects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/rules/drift"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Client is the client that Helm uses to read and write objects; each operation on a release has its own. It
// reads each object once, deletes only objects of the release, and corrects live changes of custom resources as
// well as of built-in kinds. It keeps the answers of the API server, so that the status needs no second read.
type Client struct {
	identity *access.Identity
	release  placement.Release
	// Adopt, if not empty, are the only releases whose objects this release may take over.
	Adopt []placement.Release
	// Confined, if not empty, is the only namespace in which objects may be created or changed. This also applies to
	// hooks, to CRDs of a chart, and to objects from the history.
	Confined string
	// Set is the set's hash, which the objects of the release carry as a label.
	Set string
	// IsAgent is true for the agent's own release. Its objects may have fields that the API server does not know, which it drops: the
	// hub may set a field that is too new for the cluster, and a refusal would keep the agent from being upgraded.
	IsAgent bool
	// Foreign is true if others may have written the release. Then only objects that carry the marks of this release
	// are deleted.
	Foreign bool
	// Only, if not nil, are the only objects that an update changes.
	Only map[manifest.Ref]bool
	// Diff, with Only, describes differences to ignore. An update does not change those fields, and not the replicas that an
	// autoscaler of the release has set.
	Diff *fleet.DiffOptions
	// Old are the manifests of the existing revisions. Their objects whose kind the API server no longer knows are
	// left out.
	Old map[int]string
	// Removes is true if the operation deletes objects of former revisions. It then finds them also if the API server serves
	// their kind in another version only.
	Removes bool
	// Undeployed is true if an upgrade starts from a failed revision, whose content was not accepted.
	Undeployed bool
	// Leftovers are failed revisions in old. Their objects are deleted unless the new revision has them.
	Leftovers []int
	// Former are manifests of other releases, whose objects this release may have taken over. An update removes the
	// fields that only those manifests have, and deletes none of their objects.
	Former []string
	// Keep are objects that are never deleted, because another release needs them.
	Keep []manifest.Ref
	// NamespaceExists reports whether the release's namespace exists. It is used when the API server refuses to create the
	// namespace, because admission comes before the check whether it exists; nil if not needed.
	NamespaceExists func() bool
	// Changes wakes an operation that waits; nil if the operation does not wait.
	Changes *Changes
	// Installs is true if a chart is installed. Until it is rendered, the client creates the chart's CRDs. They are not
	// objects of the release, and may be large, so the client keeps only their names.
	Installs bool
	// stopped and superseded end waiting. superseded may be nil.
	stopped    <-chan struct{}
	Superseded func() bool
	// Slots are released while the operation waits.
	Slots Slots

	mu       sync.Mutex
	rendered string         // the manifest to install, once it is rendered
	unserved []manifest.Ref // objects that Build left out of the last manifest
	live     map[manifest.Ref]*unstructured.Unstructured
	deletion error       // the last error of a deletion
	ignored  drift.Input // without objects: what an update with Only does not change
	// madeNamespace is true if the operation has created the release's namespace.
	madeNamespace bool
}

func New(identity *access.Identity, key placement.Release, stopped <-chan struct{}) *Client {
	return &Client{
		identity: identity, release: key, stopped: stopped,
		live: map[manifest.Ref]*unstructured.Unstructured{},
	}
}

// errNoTests means that Helm runs the tests of a chart, which no operation of the agent does.
var errNoTests = errors.New("waiting for the Pod of a chart's test: not supported")

// WaitAndGetCompletedPodPhase implements kube.Interface, for the tests of charts, which are not run.
func (c *Client) WaitAndGetCompletedPodPhase(string, time.Duration) (corev1.PodPhase, error) {
	return corev1.PodUnknown, errNoTests
}

// IsReachable implements kube.Interface. It does nothing: the operation itself shows whether the API server is
// reachable.
func (c *Client) IsReachable() error { return nil }

// Create implements kube.Interface. The list is empty for a hook of a former revision that Build left out.
func (c *Client) Create(list kube.ResourceList) (*kube.Result, error) {
	return &kube.Result{Created: list}, inBatches(list, func(info *resource.Info) error { return c.create(info) })
}

// create creates an object. accepted are lists of objects whose content the API server has accepted.
func (c *Client) create(info *resource.Info, accepted ...kube.ResourceList) error {
	if err := c.confine(info); err != nil {
		return err
	}
	object, err := c.send(info, func() (runtime.Object, error) {
		return c.checking(info, accepted...).Create(info.Namespace, true, info.Object)
	})
	if err != nil && !apierrors.IsAlreadyExists(err) && c.isOwnNamespace(info) && c.NamespaceExists() {
		err = apierrors.NewAlreadyExists(info.Mapping.Resource.GroupResource(), info.Name) // Helm accepts this error
	}
	if apierrors.IsAlreadyExists(err) && c.hasMade(info) {
		_, err := c.update(nil, nil, info, false)
		return err
	}
	if err != nil {
		return fmt.Errorf("creating %s: %w", describeInfo(info), err)
	}
	c.noteNamespace(info)
	if err := info.Refresh(object, true); err != nil {
		return fmt.Errorf("reading the API server's answer for %s: %w", describeInfo(info), err)
	}
	if !c.forget(info) {
		c.remember(info)
	}
	return nil
}

// forget drops the content of a chart's CRD from info. It returns false, without a change, for other objects.
func (c *Client) forget(info *resource.Info) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.Installs || c.rendered != "" || !manifest.IsCRD(info.Mapping.GroupVersionKind) {
		return false
	}
	name := &unstructured.Unstructured{}
	name.SetGroupVersionKind(info.Mapping.GroupVersionKind)
	name.SetName(info.Name)
	info.Object = name
	return true
}

// isOwnNamespace reports whether info is the namespace that Helm creates for a release, and not an object of the
// release.
func (c *Client) isOwnNamespace(info *resource.Info) bool {
	object, ok := info.Object.(*unstructured.Unstructured)
	return ok && c.NamespaceExists != nil && c.isReleaseNamespace(info) &&
		len(object.GetAnnotations()) == 0 && maps.Equal(object.GetLabels(), map[string]string{"name": info.Name})
}

// isReleaseNamespace reports whether info is the namespace of the release, as an object of the release or not.
func (c *Client) isReleaseNamespace(info *resource.Info) bool {
	return info.Name == c.release.Namespace && info.Mapping.GroupVersionKind.GroupKind() == schema.GroupKind{Kind: "Namespace"}
}

// noteNamespace records that Helm has created the namespace of the release. A bundle may contain this namespace as well.
func (c *Client) noteNamespace(info *resource.Info) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.madeNamespace = c.madeNamespace || c.isOwnNamespace(info)
}

// hasMade reports whether info is the namespace of the release, and this operation has created it.
func (c *Client) hasMade(info *resource.Info) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.madeNamespace && c.isReleaseNamespace(info)
}

// confine refuses an object outside of the confining namespace, except the namespace itself. For an existing CRD
// it returns AlreadyExists, which Helm accepts and which leaves the CRD unchanged.
func (c *Client) confine(info *resource.Info) error {
	if (c.Confined != "" || c.identity.Account != "") && isReleaseSecret(info) {
		return outcome.Because(conditions.ReasonForbidden, fmt.Errorf("%s is a Helm release, which neither a bundle with \"namespace\" nor one with a service account may bring: take it out of the bundle",
			describeInfo(info)))
	}
	if !c.isOutside(info) || c.isOwnNamespace(info) {
		return nil
	}
	if info.Namespace != "" {
		return outcome.Because(conditions.ReasonOutsideNamespace, fmt.Errorf("%s is outside of namespace %s: with \"namespace\" every object has to be in that one; use \"defaultNamespace\" instead",
			describeInfo(info), c.Confined))
	}
	if manifest.IsCRD(info.Mapping.GroupVersionKind) {
		if _, err := c.helper(info).Get("", info.Name); err == nil {
			return apierrors.NewAlreadyExists(info.Mapping.Resource.GroupResource(), info.Name)
		}
	}
	return outcome.ClusterScoped(info.Name, info.Mapping.GroupVersionKind)
}

// isReleaseSecret reports whether an object is a Secret in which Helm stores a release. The agent executes what
// such Secrets say.
func isReleaseSecret(info *resource.Info) bool {
	object, ok := info.Object.(*unstructured.Unstructured)
	return ok && object.Object["type"] == placement.ReleaseSecretType && info.Mapping.GroupVersionKind.GroupKind() == schema.GroupKind{Kind: "Secret"}
}

// ConfineHooks removes hooks outside of the confining namespace from a revision. Earlier agents stored such hooks.
func (c *Client) ConfineHooks(r *release.Release) {
	if c.Confined == "" {
		return
	}
	r.Hooks = slices.DeleteFunc(slices.Clone(r.Hooks), func(hook *release.Hook) bool {
		list, err := c.Build(strings.NewReader(hook.Manifest), false)
		return err != nil || slices.ContainsFunc(list, c.isOutside)
	})
}

// isOutside reports whether an object is outside of the confining namespace.
func (c *Client) isOutside(info *resource.Info) bool {
	return c.Confined != "" && info.Namespace != c.Confined
}

func (c *Client) helper(info *resource.Info) *resource.Helper {
	return resource.NewHelper(info.Client, info.Mapping).WithFieldManager(access.FieldManager)
}

// fromBundle is the source of the objects that an installation or an upgrade has rendered. Objects of a rollback have no source.
const fromBundle = "bundle"

// checking returns the helper with which an object is written. The API server refuses unknown fields of an object of the bundle, but
// not of one that has the content of an earlier deployment, which was accepted, nor of the agent's own objects.
func (c *Client) checking(info *resource.Info, earlier ...kube.ResourceList) *resource.Helper {
	isSame := func(list kube.ResourceList) bool {
		found := list.Get(info) // of objects that Helm adopts, it is the new object itself
		return found != nil && found.Object != info.Object && equality.Semantic.DeepEqual(contentOf(found.Object), contentOf(info.Object))
	}
	if c.IsAgent || info.Source != fromBundle || slices.ContainsFunc(earlier, isSame) {
		return c.helper(info)
	}
	return c.helper(info).WithFieldValidation(metav1.FieldValidationStrict)
}

// contentOf returns an object without its labels and annotations, to which Helm adds some.
func contentOf(object runtime.Object) map[string]any {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	content := maps.Clone(u.Object)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "labels")
		delete(metadata, "annotations")
		content["metadata"] = metadata
	}
	return content
}

// schemaDelay is how long a write waits until the API server uses the schema of a changed CustomResourceDefinition.
const schemaDelay = 10 * time.Second

// send writes an object and returns the API server's answer. It repeats a write of a custom resource that is refused because of an
// unknown field: this bundle or another one may just have written the CustomResourceDefinition with the field.
func (c *Client) send(info *resource.Info, write func() (runtime.Object, error)) (answer runtime.Object, err error) {
	isBuiltIn := scheme.Scheme.IsGroupRegistered(info.Mapping.GroupVersionKind.Group)
	_ = wait.PollUntilContextTimeout(wait.ContextForChannel(c.stopped), 500*time.Millisecond, schemaDelay, true, func(context.Context) (bool, error) {
		answer, err = write()
		return isBuiltIn || !outcome.IsUnknownField(err), nil
	})
	return answer, outcome.WithoutContent(err)
}

func (c *Client) remember(info *resource.Info) {
	object, ok := info.Object.(*unstructured.Unstructured)
	if !ok {
		return // not the expected type; the object is read again later
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live[refOf(info)] = object
}

// Delete implements kube.Interface, for hooks. Hooks outside of the confining namespace are not deleted.
func (c *Client) Delete(list kube.ResourceList) (*kube.Result, []error) {
	return c.deleteAll(list, metav1.DeletePropagationBackground, func(info *resource.Info) (bool, error) { return !c.isOutside(info), nil })
}

// DeleteWithPropagationPolicy implements kube.InterfaceDeletionPropagation, for the objects of a release that is
// uninstalled. Objects that another release has taken over are not deleted.
func (c *Client) DeleteWithPropagationPolicy(list kube.ResourceList, policy metav1.DeletionPropagation) (*kube.Result, []error) {
	return c.deleteAll(list, policy, c.isOurs)
}

// deleteAll deletes objects, the kinds one after the other. After an error it goes on with the next object.
func (c *Client) deleteAll(list kube.ResourceList, policy metav1.DeletionPropagation, may func(*resource.Info) (bool, error)) (*kube.Result, []error) {
	var mu sync.Mutex
	var errs []error
	result := &kube.Result{}
	err := inBatches(list, func(info *resource.Info) error {
		deleted, err := c.deleteIf(may, info, policy)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			errs = append(errs, err)
		case deleted:
			result.Deleted = append(result.Deleted, info)
		}
		return nil
	})
	if err != nil { // a panic
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) }) // messages are constant
		c.setDeletionError(errors.Join(errs...))
	}
	return result, errs
}

// deleteIf deletes an object that may be deleted. If may has read the object and it has changed since, deleteIf asks again: the
// object may belong to another release now. The last attempt ignores changes, because controllers may write the status all the time.
func (c *Client) deleteIf(may func(*resource.Info) (bool, error), info *resource.Info,
	policy metav1.DeletionPropagation) (deleted bool, err error) {
	deployed, attempts := info.Object, 0
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		attempts++
		info.Object = deployed // may compares the live object with it
		allowed, err := may(info)
		if err != nil || !allowed {
			return err
		}
		options := &metav1.DeleteOptions{PropagationPolicy: &policy}
		if info.Object != deployed {
			options.Preconditions = preconditionsOf(info.Object, attempts == retry.DefaultBackoff.Steps)
		}
		_, err = c.helper(info).DeleteWithOptions(info.Namespace, info.Name, options)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting %s: %w", describeInfo(info), err)
		}
		deleted = true
		return nil
	})
	return deleted, err
}

// preconditionsOf returns the preconditions for deleting an object in this version or in any version. It returns nil if its API
// has no versions.
func preconditionsOf(object runtime.Object, anyVersion bool) *metav1.Preconditions {
	live, ok := object.(*unstructured.Unstructured)
	if !ok || live.GetUID() == "" || live.GetResourceVersion() == "" {
		return nil
	}
	uid, version := live.GetUID(), live.GetResourceVersion()
	if anyVersion {
		return &metav1.Preconditions{UID: &uid}
	}
	return &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
}

func (c *Client) setDeletionError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deletion = err
}

func (c *Client) DeletionError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deletion
}

// inBatches calls do for every object. Adjacent objects of the same kind run in parallel, and kinds run one after
// the other. It stops after a kind that failed.
func inBatches(list kube.ResourceList, do func(*resource.Info) error) error {
	for start := 0; start < len(list); {
		end := start + 1
		for end < len(list) && list[end].Mapping.GroupVersionKind == list[start].Mapping.GroupVersionKind {
			end++
		}
		if err := inParallel(list[start:end], do); err != nil {
			return err
		}
		start = end
	}
	return nil
}

// inParallel calls do for every object. It stops early after as many failures as objects run at once: an API server or
// a webhook that does not answer takes up to 30 seconds for each of possibly thousands of objects.
func inParallel(list kube.ResourceList, do func(*resource.Info) error) error {
	if len(list) == 1 {
		return guarded(list[0], do)
	}
	errs := make([]error, len(list))
	slots := make(chan struct{}, access.Parallelism)
	var group sync.WaitGroup
	var failures atomic.Int32
	for i, info := range list {
		slots <- struct{}{}
		if failures.Load() >= access.Parallelism {
			break
		}
		group.Go(func() {
			defer func() { <-slots }()
			if errs[i] = guarded(info, do); errs[i] != nil {
				failures.Add(1)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// guarded turns a panic into an error: it would end the agent, because Helm uses the client in goroutines of its own. The
// libraries that compare objects panic at empty items of lists.
func guarded(info *resource.Info, do func(*resource.Info) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%s: panic: %v", describeInfo(info), cause)
		}
		if object, ok := info.Object.(*unstructured.Unstructured); err != nil && ok && hasEmptyItem(object.Object) {
			err = fmt.Errorf("%w (%s has a list with an empty item, which a template may make of an empty value: remove it)", err, describeInfo(info))
		}
	}()
	return do(info)
}

// hasEmptyItem reports whether a list in a value has the item null.
func hasEmptyItem(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range value {
			if hasEmptyItem(field) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, func(item any) bool { return item == nil || hasEmptyItem(item) })
	}
	return false
}

func refOf(info *resource.Info) manifest.Ref {
	return manifest.Ref{GroupVersionKind: info.Mapping.GroupVersionKind, Namespace: info.Namespace, Name: info.Name}
}

func describeInfo(info *resource.Info) string {
	return state.Describe(info.Mapping.GroupVersionKind.GroupVersion().String(), info.Mapping.GroupVersionKind.Kind,
		info.Namespace, info.Name)
}
