package release

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Key and labels of the Secrets in which Helm stores releases.
const (
	releaseDataKey  = "release"
	labelOwner      = "owner"
	labelName       = "name"
	labelStatus     = "status"
	labelVersion    = "version"
	labelCreatedAt  = "createdAt"
	labelModifiedAt = "modifiedAt"
	ownerHelm       = "helm"
)

// History is the storage of one release during one operation. It reads the revisions once, keeps them in memory, and writes
// every change through. This agent is the only writer of its releases. History implements Helm's storage driver. The driver's
// methods take no context, so their requests are cancelled by the transport.
type History struct {
	secrets typedcorev1.SecretInterface
	Key     placement.Release
	clock   func() time.Time
	// revisions are sorted by their numbers.
	revisions []*release.Release
	// broken holds the names of Secrets to overwrite: they contain no readable release, or one that was taken back.
	broken map[string]bool
	// unstored holds the names of Secrets whose last update failed, which Helm mostly ignores.
	unstored map[string]bool
	// seal seals the revisions that are stored; nil for none.
	seal *Seal
	// foreign holds the Secrets of revisions that this agent has not stored. forged lists those of them that were left
	// out of the history, because the history has revisions that this agent has stored.
	foreign map[string]bool
	forged  []string
	// beforeCreate is called with the next revision before it is stored. It may change the hooks or return an error;
	// nil for none.
	beforeCreate func(*release.Release) error
	// beforeDelete is called before the first revision is deleted; nil for none.
	beforeDelete func()
}

// LoadHistory reads all revisions of a release. A revision that cannot be decoded is left out and overwritten
// later. A revision that this agent has not stored loses its hooks. If it is forged and the release has revisions
// of this agent, it is left out as well.
func LoadHistory(ctx context.Context, secrets typedcorev1.SecretInterface, key placement.Release, clock func() time.Time, sealed *Seal) (*History, error) {
	selector := labels.Set{labelOwner: ownerHelm, labelName: key.Name}.AsSelector().String()
	list, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("reading the history of release %s: %w", key, err)
	}
	h := &History{secrets: secrets, Key: key, clock: clock, broken: map[string]bool{}, unstored: map[string]bool{}, seal: sealed, foreign: map[string]bool{}}
	for i := range list.Items {
		secret := &list.Items[i]
		decoded, err := Decode(secret)
		if err != nil || SecretName(key.Name, decoded.Version) != secret.Name || decoded.Name != key.Name {
			h.broken[secret.Name] = true
			continue
		}
		from, err := sealed.origin(ctx, key, decoded.Version, secret)
		if err != nil {
			return nil, err
		}
		if from != originAgent {
			h.foreign[secret.Name], decoded.Hooks = true, nil
		}
		if from == originOther {
			h.forged = append(h.forged, secret.Name)
		}
		h.revisions = append(h.revisions, decoded)
	}
	if len(h.foreign) == len(h.revisions) {
		h.forged = nil // no revision of this agent
	}
	for _, name := range h.forged {
		h.broken[name] = true
	}
	h.revisions = slices.DeleteFunc(h.revisions, func(r *release.Release) bool { return h.broken[SecretName(r.Name, r.Version)] })
	slices.SortFunc(h.revisions, func(a, b *release.Release) int { return a.Version - b.Version })
	return h, nil
}

// DeleteForged deletes the Secrets of forged revisions, which hide the revisions of this agent from Helm.
func (h *History) DeleteForged(ctx context.Context) error {
	for _, name := range h.forged {
		if err := utilerrors.FilterOut(h.secrets.Delete(ctx, name, metav1.DeleteOptions{}), apierrors.IsNotFound); err != nil {
			return fmt.Errorf("deleting Secret %s, which is not a revision of release %s: %w", name, h.Key, err)
		}
		delete(h.broken, name)
	}
	h.forged = nil
	return nil
}

// isForeign reports whether another writer has stored a revision.
func (h *History) isForeign(r *release.Release) bool {
	return r != nil && h.foreign[SecretName(r.Name, r.Version)]
}

// Last returns the newest revision, nil for an empty history.
func (h *History) Last() *release.Release {
	if len(h.revisions) == 0 {
		return nil
	}
	return h.revisions[len(h.revisions)-1]
}

// takeBack removes the last revision, which was interrupted, so that the next revision can reuse its number and
// its Secret. It returns false, without a change, if the next revision would get another number.
func (h *History) takeBack() bool {
	last := h.Last()
	rest := h.revisions[:len(h.revisions)-1]
	next := 1
	if len(rest) > 0 {
		next = rest[len(rest)-1].Version + 1
	}
	if last.Version != next {
		return false
	}
	h.broken[SecretName(last.Name, last.Version)] = true
	h.revisions = slices.Clone(rest)
	return true
}

// toUninstall returns the revisions, besides the last one, whose objects have to be deleted with the release. Revisions
// that another writer stored do not count: they do not prove that their objects belong to the release.
func (h *History) toUninstall() []int {
	return slices.DeleteFunc(unfinished(h.revisions), func(number int) bool {
		return h.foreign[SecretName(h.Key.Name, number)]
	})
}

// ManifestsToUninstall returns the manifests whose objects an uninstallation deletes.
func (h *History) ManifestsToUninstall() []string {
	var found []string
	numbers := h.toUninstall()
	for _, r := range h.revisions {
		if r == h.Last() || slices.Contains(numbers, r.Version) {
			found = append(found, r.Manifest)
		}
	}
	return found
}

// manifests returns the manifests of all revisions, by number.
func (h *History) manifests() map[int]string {
	found := map[int]string{}
	for _, r := range h.revisions {
		found[r.Version] = r.Manifest
	}
	return found
}

// storage returns a storage for Helm that uses h. Each operation needs its own, because Helm changes MaxHistory.
func (h *History) storage(maxHistory int) *storage.Storage {
	s := storage.Init(h)
	s.MaxHistory = maxHistory
	return s
}

// Name implements driver.Driver.
func (h *History) Name() string { return driver.SecretsDriverName }

// Get implements driver.Queryor.
func (h *History) Get(key string) (*release.Release, error) {
	if i := h.index(key); i >= 0 {
		return h.revisions[i], nil
	}
	return nil, driver.ErrReleaseNotFound
}

// List implements driver.Queryor.
func (h *History) List(filter func(*release.Release) bool) ([]*release.Release, error) {
	return slices.DeleteFunc(slices.Clone(h.revisions), func(r *release.Release) bool { return !filter(r) }), nil
}

// Query implements driver.Queryor, for the labels that Helm uses.
func (h *History) Query(wanted map[string]string) ([]*release.Release, error) {
	found, err := h.List(func(r *release.Release) bool {
		status, asked := wanted[labelStatus]
		return wanted[labelName] == r.Name && (!asked || status == r.Info.Status.String())
	})
	if err == nil && len(found) == 0 {
		err = driver.ErrReleaseNotFound
	}
	return found, err
}

// Create implements driver.Creator.
func (h *History) Create(key string, r *release.Release) error {
	if h.beforeCreate != nil {
		if err := h.beforeCreate(r); err != nil {
			return err
		}
		h.beforeCreate = nil // the revision of an automatic rollback keeps its own hooks
	}
	delete(h.foreign, key)
	secret, err := h.secret(key, r, labelCreatedAt)
	if err != nil {
		return err
	}
	if h.broken[key] {
		_, err = h.secrets.Update(context.Background(), secret, metav1.UpdateOptions{})
	} else {
		_, err = h.secrets.Create(context.Background(), secret, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("storing revision %d of release %s: %w", r.Version, h.Key, err)
	}
	h.revisions = append(h.revisions, r) // Helm counts on from the last one
	return nil
}

// Update implements driver.Updator.
func (h *History) Update(key string, r *release.Release) error {
	secret, err := h.secret(key, r, labelModifiedAt)
	if err != nil {
		return err
	}
	if _, err := h.secrets.Update(context.Background(), secret, metav1.UpdateOptions{}); err != nil {
		h.unstored[key] = true
		return fmt.Errorf("storing revision %d of release %s: %w", r.Version, h.Key, err)
	}
	delete(h.unstored, key)
	return nil
}

// storeAgain stores the revisions whose last update failed.
func (h *History) storeAgain() error {
	for _, r := range h.revisions {
		if name := SecretName(r.Name, r.Version); h.unstored[name] {
			if err := h.Update(name, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// Delete implements driver.Deletor. It succeeds if the Secret was already deleted.
func (h *History) Delete(key string) (*release.Release, error) {
	i := h.index(key)
	if i < 0 {
		return nil, driver.ErrReleaseNotFound
	}
	if h.beforeDelete != nil {
		h.beforeDelete()
		h.beforeDelete = nil
	}
	err := h.secrets.Delete(context.Background(), key, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("deleting %s of release %s: %w", key, h.Key, err)
	}
	deleted := h.revisions[i]
	h.revisions = slices.Delete(slices.Clone(h.revisions), i, i+1)
	return deleted, nil
}

func (h *History) index(key string) int {
	return slices.IndexFunc(h.revisions, func(r *release.Release) bool {
		return SecretName(r.Name, r.Version) == key
	})
}

func (h *History) secret(key string, r *release.Release, timeLabel string) (*corev1.Secret, error) {
	text, err := Encode(r)
	if err != nil {
		return nil, err
	}
	if len(text) > corev1.MaxSecretSize {
		return nil, outcome.Because(conditions.ReasonBundleTooLarge, fmt.Errorf("release %s has %d bytes with its chart, compressed, and a Secret holds at most %d: make the bundle smaller, or split it",
			h.Key, len(text), corev1.MaxSecretSize))
	}
	marks := map[string]string{}
	for name, value := range r.Labels {
		if !slices.Contains(driver.GetSystemLabels(), name) {
			marks[name] = value
		}
	}
	marks[labelOwner], marks[labelName] = ownerHelm, r.Name
	marks[labelStatus], marks[labelVersion] = r.Info.Status.String(), strconv.Itoa(r.Version)
	marks[timeLabel] = strconv.FormatInt(h.clock().Unix(), 10)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: key, Namespace: h.Key.Namespace, Labels: marks},
		Type:       placement.ReleaseSecretType,
		Data:       map[string][]byte{releaseDataKey: text},
	}
	if h.foreign[key] {
		return secret, nil // never seal content that another writer stored
	}
	return secret, h.seal.put(context.Background(), secret)
}

// SecretName returns the name of the Secret of a revision.
func SecretName(name string, version int) string {
	return strings.Join([]string{"sh.helm.release.v1", name, "v" + strconv.Itoa(version)}, ".")
}
