package clusterimport

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/workqueue"

	"github.com/fleet-hub/fleet/internal/kube/foreign"
)

// Limits of the jobs.
const (
	// jobTimeout limits one import over all its requests: about twenty, to a server that takes ten seconds for each.
	jobTimeout = 5 * time.Minute
	// retryMin and retryMax limit the time between two attempts for one Cluster.
	retryMin, retryMax = 2 * time.Second, 10 * time.Minute
	// retryDeleting is the longest time between two attempts while an object is being deleted.
	retryDeleting = 15 * time.Second
)

// jobs holds the running imports and the failed ones that wait for a retry, at most one per Cluster.
type jobs struct {
	clock   func() time.Time
	backoff workqueue.TypedRateLimiter[string]

	mu   sync.Mutex
	jobs map[string]*job
}

type job struct {
	running bool
	// of identifies the attempt. A different job starts at once, the same job only after notBefore.
	of        string
	notBefore time.Time
	// dead means that the cluster did not answer the last probe. reached means that it did, and that the job needed
	// nothing else.
	dead, reached bool
	// written is the resourceVersion of the Cluster in which the last success was recorded. An older version from the
	// cache must not be acted on: the import would be done twice.
	written string
}

func newJobs(clock func() time.Time) *jobs {
	return &jobs{clock: clock, jobs: map[string]*job{}, backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryMin, retryMax)}
}

// busy reports whether a job of the Cluster is running, or whether this version of the Cluster does not show its
// success yet.
func (j *jobs) busy(cluster, version string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := j.jobs[cluster]
	return found != nil && (found.running || isOlder(version, found.written))
}

func isOlder(version, written string) bool {
	if written == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(version, written)
	return err == nil && order < 0
}

// begin marks a job as running, unless one is running already or the same job failed and has to wait. In the latter
// case it returns how long.
func (j *jobs) begin(cluster, of string) (begun bool, wait time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := j.jobs[cluster]
	if found == nil {
		found = &job{}
		j.jobs[cluster] = found
	}
	if found.running {
		return false, 0
	}
	if found.of != of {
		found.of, found.notBefore, found.dead, found.reached = of, time.Time{}, false, false
		j.backoff.Forget(cluster)
	}
	if wait := found.notBefore.Sub(j.clock()); wait > 0 {
		return false, wait
	}
	found.running = true
	return true, 0
}

// succeeded records the version of the Cluster in which the job's success is written.
func (j *jobs) succeeded(cluster, written string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if found := j.jobs[cluster]; found != nil {
		*found = job{written: written}
		j.backoff.Forget(cluster)
	}
}

// answered records that a cluster is reachable, for a job that needed nothing else.
func (j *jobs) answered(cluster string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if found := j.jobs[cluster]; found != nil {
		*found = job{of: found.of, reached: true, written: found.written}
		j.backoff.Forget(cluster)
	}
}

// hasAnswered reports whether a cluster answered the same attempt.
func (j *jobs) hasAnswered(cluster, of string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := j.jobs[cluster]
	return found != nil && found.reached && found.of == of
}

// dead reports whether the cluster did not answer when its last job tried the same.
func (j *jobs) dead(cluster string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := j.jobs[cluster]
	return found != nil && found.dead
}

// failed records a failure and returns the time until the next attempt.
func (j *jobs) failed(cluster string, err error) (retry time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := j.jobs[cluster]
	if found == nil {
		return 0 // the Cluster was deleted in the meantime
	}
	found.running, found.dead, found.reached = false, errors.Is(err, foreign.ErrUnreachable), false
	retry = j.backoff.When(cluster)
	retry += spread(retry / 4) // clusters that failed together are not retried together
	if isBeingDeleted(err) {
		retry = min(retry, retryDeleting)
	}
	found.notBefore = j.clock().Add(retry)
	return retry
}

// ended records the end of a check, which is never retried. written is the resourceVersion that the check wrote, or
// "".
func (j *jobs) ended(cluster, written string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if found := j.jobs[cluster]; found != nil {
		found.running, found.dead, found.written = false, errors.Is(err, foreign.ErrUnreachable), written
	}
}

// forget removes the failures of a Cluster. A running job ends by itself.
func (j *jobs) forget(cluster string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if found := j.jobs[cluster]; found != nil && !found.running {
		delete(j.jobs, cluster)
		j.backoff.Forget(cluster)
	}
}
