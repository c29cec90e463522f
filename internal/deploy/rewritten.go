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
	// mostManifests is how many manifests are kept of releases whose objects others have changed lately, manifestLife
	// how long, and longestManifest bounds each, in bytes: together they are at most 4 MiB.
	mostManifests   = 8
	manifestLife    = 10 * time.Minute
	longestManifest = 512 << 10

	// freeComparisons of an object are made at once; after that they are as far apart as firstPace, twice as much each
	// time up to longestPace, until the object has been left alone for quietTime.
	freeComparisons = 5
	firstPace       = 500 * time.Millisecond
	longestPace     = 8 * time.Second
	quietTime       = time.Minute
)

// manifests keeps what was read of releases lately.
type manifests struct{ lru *utilcache.LRUExpireCache }

func newManifests() manifests { return manifests{utilcache.NewLRUExpireCache(mostManifests)} }

// keptManifest is that of a revision, as the Secret of a UID and version has it.
type keptManifest struct {
	uid           types.UID
	version, text string
}

// manifestOf is the manifest of a revision. While it is kept, only the metadata of its Secret are read, which tell
// whether it is still the same.
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

// rewrites is how often an object was compared lately because others had changed it.
type rewrites struct {
	count int
	last  time.Time
}

// compared counts one more.
func (r rewrites) compared(now time.Time) rewrites {
	if now.Sub(r.last) > quietTime {
		r.count = 0
	}
	return rewrites{count: r.count + 1, last: now}
}

// wait is how long the object is left as it was seen, 0 for not at all.
func (r rewrites) wait(now time.Time) time.Duration {
	if r.count < freeComparisons {
		return 0
	}
	pace := min(firstPace<<min(r.count-freeComparisons, 8), longestPace)
	return max(r.last.Add(pace).Sub(now), 0)
}

// rewritten counts a comparison of each of some objects.
func (t *tracking) rewritten(objects []sighting, now time.Time) {
	if t.rewrites == nil {
		t.rewrites = map[objectRef]rewrites{}
	}
	for _, object := range objects {
		t.rewrites[object.objectRef] = t.rewrites[object.objectRef].compared(now)
	}
}
