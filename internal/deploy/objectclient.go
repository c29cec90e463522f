package deploy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// fieldManager is who the API server notes as the writer of deployed objects. Changing it leaves fields
	// behind that nobody manages.
	fieldManager = "fleetagent"
	// parallelism is how many objects of one kind are written at a time.
	parallelism = 8
)

// objectClient is how Helm reads and writes objects: one instance for each operation on a release. It reads
// each object once, takes away only what is the release's, corrects live changes of custom resources as well
// as of built-in kinds, and remembers what the API server answered, so that nothing has to be read again to
// report the status.
type objectClient struct {
	*kube.Client // waits for hooks

	identity *identity
	release  releaseKey
	// adopt, if not empty, are the releases whose objects this one may take over, and no others.
	adopt []releaseKey
	// confined, if not empty, is the namespace that no object that is created or changed may be outside of, however
	// it came: rendered, as a hook, among a chart's CRDs, or from the history.
	confined string
	// set is the hash that the objects of the release have as a label.
	set string
	// foreign means that others may have written what the release says of itself. What it has deleted has to be marked
	// as an object of this release.
	foreign bool
	// only, if not nil, are the objects that an update touches.
	only map[objectRef]bool
	// old are the manifests of the revisions there are. Kinds in them that the server no longer knows are
	// left out: their objects are gone.
	old map[int]string
	// leftovers are revisions in old that failed: their objects go unless the new revision has them.
	leftovers []int
	// namespaceExists tells whether the release's namespace is there, to who may not create it; nil: nobody is told.
	namespaceExists func() bool
	// news tell when to look again; nil while an operation waits for nothing.
	news *news
	// stopped ends waiting, and so does superseded, which may be nil.
	stopped    <-chan struct{}
	superseded func() bool
	// slots are given free while waiting.
	slots slots

	mu       sync.Mutex
	rendered string      // the manifest to be installed, once it is known
	unserved []objectRef // what was left out of the manifest that was built last
	live     map[objectRef]*unstructured.Unstructured
	deletion error // what went wrong with deleting
}

func newObjectClient(who *identity, key releaseKey, stopped <-chan struct{}) *objectClient {
	return &objectClient{
		Client:   &kube.Client{Factory: who, Namespace: key.Namespace, Log: func(string, ...any) {}},
		identity: who, release: key, stopped: stopped,
		live: map[objectRef]*unstructured.Unstructured{},
	}
}

// IsReachable implements kube.Interface. The operation itself will tell.
func (c *objectClient) IsReachable() error { return nil }

// Create implements kube.Interface.
func (c *objectClient) Create(list kube.ResourceList) (*kube.Result, error) {
	if len(list) == 0 {
		return nil, kube.ErrNoObjectsVisited
	}
	return &kube.Result{Created: list}, inBatches(list, c.create)
}

func (c *objectClient) create(info *resource.Info) error {
	if err := c.confine(info); err != nil {
		return err
	}
	object, err := c.helper(info).Create(info.Namespace, true, info.Object)
	if apierrors.IsForbidden(err) && c.isOwnNamespace(info) && c.namespaceExists() {
		err = apierrors.NewAlreadyExists(info.Mapping.Resource.GroupResource(), info.Name) // which is no trouble to Helm
	}
	if err != nil {
		return fmt.Errorf("creating %s: %w", describeInfo(info), err)
	}
	if err := info.Refresh(object, true); err != nil {
		return fmt.Errorf("reading the answer about %s: %w", describeInfo(info), err)
	}
	c.remember(info)
	return nil
}

// isOwnNamespace tells the namespace that Helm makes for a release from one that is an object of the release.
func (c *objectClient) isOwnNamespace(info *resource.Info) bool {
	object, ok := info.Object.(*unstructured.Unstructured)
	return ok && c.namespaceExists != nil && info.Name == c.release.Namespace &&
		info.Mapping.GroupVersionKind.GroupKind() == schema.GroupKind{Kind: "Namespace"} &&
		len(object.GetAnnotations()) == 0 && maps.Equal(object.GetLabels(), map[string]string{"name": info.Name})
}

// confine refuses an object outside of the namespace that confines the release, but for the namespace itself. A CRD that
// is there is left as it is, which is no trouble to Helm.
func (c *objectClient) confine(info *resource.Info) error {
	if (c.confined != "" || c.identity.account != "") && isReleaseSecret(info) {
		return because(fleet.ReasonForbidden, fmt.Errorf("%s is a Helm release, which neither a bundle with \"namespace\" nor one with a service account may bring: take it out of the bundle",
			describeInfo(info)))
	}
	if !c.isOutside(info) || c.isOwnNamespace(info) {
		return nil
	}
	if info.Namespace != "" {
		return because(fleet.ReasonOutsideNamespace, fmt.Errorf("%s is outside of namespace %s: with \"namespace\" every object has to be in that one; use \"defaultNamespace\" instead",
			describeInfo(info), c.confined))
	}
	if isCRD(info.Mapping.GroupVersionKind) {
		if _, err := c.helper(info).Get("", info.Name); err == nil {
			return apierrors.NewAlreadyExists(info.Mapping.Resource.GroupResource(), info.Name)
		}
	}
	return clusterScoped(info.Name, info.Mapping.GroupVersionKind)
}

// isReleaseSecret tells the Secrets in which Helm keeps releases: the agent does what they say.
func isReleaseSecret(info *resource.Info) bool {
	object, ok := info.Object.(*unstructured.Unstructured)
	return ok && object.Object["type"] == releaseSecretType && info.Mapping.GroupVersionKind.GroupKind() == schema.GroupKind{Kind: "Secret"}
}

// confineHooks takes the hooks out of a history that are outside of the namespace that confines the release: earlier
// agents stored them.
func (c *objectClient) confineHooks(h *history) {
	if c.confined == "" {
		return
	}
	for _, r := range h.revisions {
		r.Hooks = slices.DeleteFunc(slices.Clone(r.Hooks), func(hook *release.Hook) bool {
			list, err := c.Build(strings.NewReader(hook.Manifest), false)
			return err != nil || slices.ContainsFunc(list, c.isOutside)
		})
	}
}

// isOutside tells whether an object is outside of the namespace that confines the release.
func (c *objectClient) isOutside(info *resource.Info) bool {
	return c.confined != "" && info.Namespace != c.confined
}

func (c *objectClient) helper(info *resource.Info) *resource.Helper {
	return resource.NewHelper(info.Client, info.Mapping).WithFieldManager(fieldManager)
}

func (c *objectClient) remember(info *resource.Info) {
	object, ok := info.Object.(*unstructured.Unstructured)
	if !ok {
		return // the API server answered with something else; it will be looked at later
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live[refOf(info)] = object
}

// Delete implements kube.Interface, for hooks. One that is outside of the namespace that confines the release stays.
func (c *objectClient) Delete(list kube.ResourceList) (*kube.Result, []error) {
	return c.deleteAll(list, metav1.DeletePropagationBackground, func(info *resource.Info) (bool, error) { return !c.isOutside(info), nil })
}

// DeleteWithPropagationPolicy implements kube.InterfaceDeletionPropagation, for the objects of a release that
// is uninstalled. What another release has taken over stays.
func (c *objectClient) DeleteWithPropagationPolicy(list kube.ResourceList, policy metav1.DeletionPropagation) (*kube.Result, []error) {
	return c.deleteAll(list, policy, c.isOurs)
}

func (c *objectClient) deleteAll(list kube.ResourceList, policy metav1.DeletionPropagation, may func(*resource.Info) (bool, error)) (*kube.Result, []error) {
	var mu sync.Mutex
	result := &kube.Result{}
	err := inBatches(list, func(info *resource.Info) error {
		allowed, err := may(info)
		if err != nil || !allowed {
			return err
		}
		options := &metav1.DeleteOptions{PropagationPolicy: &policy}
		_, err = c.helper(info).DeleteWithOptions(info.Namespace, info.Name, options)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting %s: %w", describeInfo(info), err)
		}
		mu.Lock()
		defer mu.Unlock()
		result.Deleted = append(result.Deleted, info)
		return nil
	})
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.deletion = err
		return result, []error{err}
	}
	return result, nil
}

func (c *objectClient) deletionError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deletion
}

// inBatches does something with every object: those of one kind, next to each other in the list, at the same
// time, one kind after the other. It stops before the kind after one that failed.
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

func inParallel(list kube.ResourceList, do func(*resource.Info) error) error {
	if len(list) == 1 {
		return do(list[0])
	}
	errs := make([]error, len(list))
	slots := make(chan struct{}, parallelism)
	var group sync.WaitGroup
	for i, info := range list {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(info)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func refOf(info *resource.Info) objectRef {
	return objectRef{GroupVersionKind: info.Mapping.GroupVersionKind, Namespace: info.Namespace, Name: info.Name}
}

func describeInfo(info *resource.Info) string {
	return state.Describe(info.Mapping.GroupVersionKind.GroupVersion().String(), info.Mapping.GroupVersionKind.Kind,
		info.Namespace, info.Name)
}
