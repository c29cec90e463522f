package release

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/release"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/metadata"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/release/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// pageSize is the page size for lists of Secrets.
	pageSize = 500
	// mostManifests is the number of cached manifests, of releases whose objects were changed lately. manifestLife is how
	// long each is cached, longestManifest its maximum size in bytes. Together they take at most 4 MiB.
	mostManifests   = 8
	manifestLife    = 10 * time.Minute
	longestManifest = 512 << 10
)

func secretsResource() schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource("secrets")
}

// Reader reads releases from the cluster without running Helm.
type Reader struct {
	agent     *access.Identity
	metadata  metadata.Interface
	namespace string // of the agent
	seal      *Seal
	clock     func() time.Time
	stopped   <-chan struct{}
	first     *startupList
	manifests *utilcache.LRUExpireCache
}

// NewReader returns a reader for the agent in a namespace.
func NewReader(agent *access.Identity, client metadata.Interface, namespace string, sealed *Seal, clock func() time.Time, stopped <-chan struct{}) *Reader {
	return &Reader{
		agent: agent, metadata: client, namespace: namespace, seal: sealed, clock: clock, stopped: stopped,
		first: newStartupList(), manifests: utilcache.NewLRUExpireCache(mostManifests),
	}
}

// RevisionSecret describes the newest revision of a release, from the metadata of its Secret.
type RevisionSecret struct {
	secret, ResourceVersion, status string
	number                          int
}

// List lists the newest revision of each Helm release. It reads only metadata.
func (r *Reader) List(ctx context.Context) (map[placement.Release]RevisionSecret, error) {
	found, err := r.newest(ctx, "", metav1.ListOptions{FieldSelector: "type=" + placement.ReleaseSecretType, Limit: pageSize})
	if err != nil {
		err = fmt.Errorf("listing Helm's releases: %w", err)
	}
	r.first.set(found, r.clock())
	return found, err
}

// Expire is called before this process writes to a release: the first list no longer has its newest revision.
func (r *Reader) Expire(key placement.Release) { r.first.claim(key) }

// newest lists the newest revisions of releases in a namespace, or in all.
func (r *Reader) newest(ctx context.Context, namespace string, options metav1.ListOptions) (map[placement.Release]RevisionSecret, error) {
	client := r.metadata.Resource(secretsResource()).Namespace(namespace)
	newest := map[placement.Release]RevisionSecret{}
	for {
		page, err := client.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			note(newest, &page.Items[i])
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return newest, nil
		}
	}
}

// note adds a revision to the newest ones, if Helm has written the Secret.
func note(newest map[placement.Release]RevisionSecret, secret *metav1.PartialObjectMetadata) {
	number, err := strconv.Atoi(secret.Labels[labelVersion])
	name := secret.Labels[labelName]
	if err != nil || name == "" || secret.Labels[labelOwner] != ownerHelm {
		return // not written by Helm
	}
	key := placement.Release{Namespace: secret.Namespace, Name: name}
	if number > newest[key].number {
		newest[key] = RevisionSecret{
			secret: secret.Name, ResourceVersion: secret.ResourceVersion, status: secret.Labels[labelStatus], number: number,
		}
	}
}

// IsLast reports whether a revision is the last one of a release. A failed rollback to it does not count.
func (r *Reader) IsLast(ctx context.Context, key placement.Release, number int) (bool, error) {
	newest, counts := r.first.newestOf(ctx, key, r.clock())
	if !counts {
		selector := labels.Set{labelOwner: ownerHelm, labelName: key.Name}.AsSelector().String()
		found, err := r.newest(ctx, key.Namespace, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return false, fmt.Errorf("listing the revisions of release %s: %w", key, err)
		}
		newest = found[key]
	}
	if newest.number <= number {
		return true, nil
	}
	return r.isFailedRollback(ctx, key, newest.number)
}

// isFailedRollback reports whether a revision only records drift that could not be corrected.
func (r *Reader) isFailedRollback(ctx context.Context, key placement.Release, number int) (bool, error) {
	secret, err := r.Get(ctx, key, number)
	if err != nil {
		return false, fmt.Errorf("reading release %s: %w", key.At(number), err)
	}
	stored, err := Decode(secret) // an unreadable revision has to be repaired
	return err == nil && stored.Info.Status == release.StatusFailed && strings.HasPrefix(stored.Info.Description, "Rollback"), nil
}

// Annotations returns the annotations of the chart of the newest revision of a release, none if it is unreadable. It
// returns false if the release was deleted in the meantime.
func (r *Reader) Annotations(ctx context.Context, key placement.Release, found RevisionSecret) (marks map[string]string, exists bool, err error) {
	secret, err := r.agent.Clientset.CoreV1().Secrets(key.Namespace).Get(ctx, found.secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading release %s: %w", key, err)
	}
	stored, err := r.lastOf(ctx, key, secret)
	return AnnotationsOf(stored), err == nil, err
}

// IsBeingUninstalled reports whether an uninstallation of a release by this agent has begun, false if that is unknown.
func (r *Reader) IsBeingUninstalled(ctx context.Context, key placement.Release, found RevisionSecret) bool {
	if found.status != release.StatusUninstalling.String() && found.status != release.StatusUninstalled.String() {
		return false
	}
	secret, err := r.agent.Clientset.CoreV1().Secrets(key.Namespace).Get(ctx, found.secret, metav1.GetOptions{})
	if err != nil {
		return false
	}
	from, err := r.seal.origin(ctx, key, found.number, secret)
	return err == nil && from != originOther
}

// lastOf returns the newest revision of a release: the one in the Secret, unless that is forged. It returns nil if
// the Secret is unreadable.
func (r *Reader) lastOf(ctx context.Context, key placement.Release, secret *corev1.Secret) (*release.Release, error) {
	stored, err := Decode(secret)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // not a release
	}
	if AnnotationsOf(stored)[fleet.AnnotationAgentNamespace] != r.namespace {
		return stored, nil
	}
	from, err := r.seal.origin(ctx, key, stored.Version, secret)
	if err != nil || from != originOther {
		return stored, err
	}
	h, err := LoadHistory(ctx, r.agent.Clientset.CoreV1().Secrets(key.Namespace), key, r.clock, r.seal)
	if err != nil {
		return nil, err
	}
	return h.Last(), nil
}

// Get reads the Secret of a revision.
func (r *Reader) Get(ctx context.Context, key placement.Release, number int) (*corev1.Secret, error) {
	return r.agent.Clientset.CoreV1().Secrets(key.Namespace).Get(ctx, SecretName(key.Name, number), metav1.GetOptions{})
}

// Stored returns the revision in a Secret. It returns NotFound if the Secret is unreadable, or if another writer stored it: the
// revision then counts as missing, and is made again.
func (r *Reader) Stored(ctx context.Context, key placement.Release, number int, secret *corev1.Secret) (*release.Release, error) {
	stored, unreadable := Decode(secret)
	from, err := r.seal.origin(ctx, key, number, secret)
	if err == nil && (unreadable != nil || from == originOther) {
		return nil, apierrors.NewNotFound(secretsResource().GroupResource(), secret.Name)
	}
	return stored, err
}

// Recall returns a revision that another process made, from its Secret. It returns nil if the Secret is unreadable or was
// stored by another writer, or if the revision is not deployed: it then counts as missing, and is made again.
func (r *Reader) Recall(ctx context.Context, key placement.Release, number int, secret *corev1.Secret) (*manifest.Revision, error) {
	stored, err := Decode(secret)
	if err != nil || stored.Info.Status != release.StatusDeployed {
		return nil, nil //nolint:nilerr,nilnil // see above
	}
	if from, err := r.seal.origin(ctx, key, number, secret); err != nil || from != originAgent {
		return nil, err
	}
	client := objects.New(r.agent, key, r.stopped)
	list, err := client.Build(strings.NewReader(stored.Manifest), false)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest of release %s: %w", key.At(number), err)
	}
	made := &manifest.Revision{Number: number, Deployed: stored.Info.LastDeployed.Time, Refs: client.Refs(list)}
	if made.Former, err = r.formerRefs(ctx, key, number-1); err != nil {
		return nil, err
	}
	return made, nil
}

// formerRefs returns the objects of the previous revision, or none if the history no longer has that revision.
func (r *Reader) formerRefs(ctx context.Context, key placement.Release, number int) ([]manifest.Ref, error) {
	if number < 1 {
		return nil, nil
	}
	found, err := r.Objects(ctx, key.At(number))
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return slices.Collect(maps.Keys(found)), err
}

// Objects reads the objects of a revision from Helm's history.
func (r *Reader) Objects(ctx context.Context, release string) (manifest.Objects, error) {
	key, number, ok := placement.ParseRelease(release)
	if !ok {
		return nil, fmt.Errorf("%q is not a release", release)
	}
	text, err := r.manifest(ctx, key, number)
	if err != nil {
		return nil, fmt.Errorf("reading release %s: %w", release, err)
	}
	return objects.New(r.agent, key, r.stopped).ObjectsOf(text)
}

// keptManifest is the manifest of a revision, with the UID and the resource version of its Secret.
type keptManifest struct {
	uid           types.UID
	version, text string
}

// manifest returns the manifest of a revision. If it is cached, only the metadata of the Secret are read, to
// check that it has not changed.
func (r *Reader) manifest(ctx context.Context, key placement.Release, number int) (string, error) {
	release := key.At(number)
	if found, ok := r.manifests.Get(release); ok {
		kept, _ := found.(keptManifest)
		current, err := r.metadata.Resource(secretsResource()).Namespace(key.Namespace).Get(ctx, SecretName(key.Name, number), metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if current.UID == kept.uid && current.ResourceVersion == kept.version {
			return kept.text, nil
		}
	}
	secret, err := r.Get(ctx, key, number)
	if err != nil {
		return "", err
	}
	stored, err := r.Stored(ctx, key, number, secret)
	if err != nil {
		return "", err
	}
	if len(stored.Manifest) <= longestManifest {
		r.manifests.Add(release, keptManifest{uid: secret.UID, version: secret.ResourceVersion, text: stored.Manifest}, manifestLife)
	}
	return stored.Manifest, nil
}

// namespaceOf returns a namespace as an object.
func namespaceOf(name string) manifest.Ref {
	return manifest.Ref{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Namespace"), Name: name}
}

// LeftBehind returns the objects that a revision no longer has. Objects of its hooks are not left behind: a former
// object may have become a hook, and only Helm deletes hooks. Nor is the agent's own namespace, which stays.
func (r *Reader) LeftBehind(ctx context.Context, release string, made *manifest.Revision) ([]manifest.Ref, error) {
	left := manifest.Surplus(made.Former, slices.Concat(made.Refs, []manifest.Ref{namespaceOf(r.namespace)}))
	if len(left) == 0 {
		return nil, nil
	}
	key, number, _ := placement.ParseRelease(release)
	secret, err := r.Get(ctx, key, number)
	if err != nil {
		return nil, fmt.Errorf("reading the hooks of release %s: %w", release, err)
	}
	stored, err := Decode(secret)
	if err != nil {
		return nil, fmt.Errorf("reading the hooks of release %s: %w", release, err)
	}
	client := objects.New(r.agent, key, r.stopped)
	for _, hook := range stored.Hooks {
		found, err := client.Build(strings.NewReader(hook.Manifest), false)
		if meta.IsNoMatchError(err) {
			continue // the kind was deleted, and the object with it
		}
		if err != nil {
			return nil, fmt.Errorf("reading hook %s of release %s: %w", hook.Path, release, err)
		}
		left = manifest.Surplus(left, objects.RefsOf(found))
	}
	return left, nil
}
