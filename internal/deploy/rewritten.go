package deploy

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
)

const (
	// mostManifests is the number of cached manifests. Manifests are cached for releases whose objects were changed
	// lately. manifestLife is how long each is cached, longestManifest its maximum size in bytes. Together they take
	// at most 4 MiB.
	mostManifests   = 8
	manifestLife    = 10 * time.Minute
	longestManifest = 512 << 10

	// freeComparisons is the number of comparisons of an object without a pause. After that, the pause starts at
	// firstPace and doubles up to longestPace, until the object has not changed for quietTime.
	freeComparisons = 5
	firstPace       = 500 * time.Millisecond
	longestPace     = 8 * time.Second
	quietTime       = time.Minute
)

// manifests caches the manifests of releases that were read lately.
type manifests struct{ lru *utilcache.LRUExpireCache }

func newManifests() manifests { return manifests{utilcache.NewLRUExpireCache(mostManifests)} }

// keptManifest is the manifest of a revision, with the UID and the resource version of its Secret.
type keptManifest struct {
	uid           types.UID
	version, text string
}

// manifestOf returns the manifest of a revision. If it is cached, only the metadata of the Secret are read, to
// check that it has not changed.
func (d *deployer) manifestOf(ctx context.Context, key releaseKey, number int) (string, error) {
	name, release := secretName(key.Name, number), key.at(number)
	if found, ok := d.manifests.lru.Get(release); ok {
		kept, _ := found.(keptManifest)
		secrets := d.metadata.Resource(corev1.SchemeGroupVersion.WithResource(copiedSecrets)).Namespace(key.Namespace)
		current, err := secrets.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if current.UID == kept.uid && current.ResourceVersion == kept.version {
			return kept.text, nil
		}
	}
	secret, err := d.agent.clientset.CoreV1().Secrets(key.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	stored, err := decodeRelease(secret)
	if err != nil {
		return "", err
	}
	if len(stored.Manifest) <= longestManifest {
		d.manifests.lru.Add(release, keptManifest{uid: secret.UID, version: secret.ResourceVersion, text: stored.Manifest}, manifestLife)
	}
	return stored.Manifest, nil
}

// rewrites counts the comparisons of an object that others have changed.
type rewrites struct {
	count int
	last  time.Time
}

// compared counts one more comparison.
func (r rewrites) compared(now time.Time) rewrites {
	if now.Sub(r.last) > quietTime {
		r.count = 0
	}
	return rewrites{count: r.count + 1, last: now}
}

// wait returns how long to wait before the next comparison.
func (r rewrites) wait(now time.Time) time.Duration {
	if r.count < freeComparisons {
		return 0
	}
	pace := min(firstPace<<min(r.count-freeComparisons, 8), longestPace)
	return max(r.last.Add(pace).Sub(now), 0)
}

// rewritten counts a comparison of each object.
func (t *tracking) rewritten(objects []sighting, now time.Time) {
	if t.rewrites == nil {
		t.rewrites = map[objectRef]rewrites{}
	}
	for _, object := range objects {
		t.rewrites[object.objectRef] = t.rewrites[object.objectRef].compared(now)
	}
}
