package clusterimport

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/fleet-hub/fleet/internal/kube/foreign"
)

// Bounds of the jobs.
const (
	// jobTimeout bounds one import, over all its requests: some twenty, to a server that takes ten seconds for each.
	jobTimeout = 5 * time.Minute
	// retryMin and retryMax bound the time between two tries for one Cluster.
	retryMin, retryMax = 2 * time.Second, 10 * time.Minute
	// retryDeleting is the longest time between two tries where it is only waited for something to be gone.
	retryDeleting = 15 * time.Second
)

// jobs are the imports under way and the failed ones that wait: at most one for each Cluster.
type jobs struct {
	clock func() time.Time

	mu   sync.Mutex
	jobs map[string]*job
}

type job struct {
	running bool
	// of is what was tried; something else is tried at once, the same only after notBefore.
	of        string
	failures  int
	notBefore time.Time
	// dead means that nobody answered the last time, reached that somebody did, and nothing more was wanted.
	dead, reached bool
	// written is the resourceVersion of the Cluster in which the last success was noted. What a cache
	// shows of the Cluster before that is not to be acted on: the import would be done twice.
	written string
}

func newJobs(clock func() time.Time) *jobs {
	return &jobs{clock: clock, jobs: map[string]*job{}}
}

// busy says whether a job of the Cluster is running, or its success is not yet to be seen in this version
// of the Cluster.
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

// begin marks a job as running, unless one is, or the same failed and its time has not come: then it
// says how long to wait.
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
		found.of, found.failures, found.notBefore, found.dead, found.reached = of, 0, time.Time{}, false, false
	}
	if wait := found.notBefore.Sub(j.clock()); wait > 0 {
		return false, wait
	}
	found.running = true
	return true, 0
}

// succeeded notes in which version of the Cluster the job's success is written.
func (j *jobs) succeeded(cluster, written string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if found := j.jobs[cluster]; found != nil {
		*found = job{written: written}
	}
}

// answered notes that a cluster is there, which was all that the job wanted to know.
func (j *jobs) answered(cluster string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if found := j.jobs[cluster]; found != nil {
		*found = job{of: found.of, reached: true, written: found.written}
	}
}

// hasAnswered says whether a cluster has answered to the same attempt.
func (j *jobs) hasAnswered(cluster, of string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := j.jobs[cluster]
	return found != nil && found.reached && found.of == of
}

// dead says whether nobody answered when a job of the Cluster tried the same the last time.
func (j *jobs) dead(cluster string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := j.jobs[cluster]
	return found != nil && found.dead
}

// failed notes why, and says when to try again.
func (j *jobs) failed(cluster string, err error) (retry time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := j.jobs[cluster]
	if found == nil {
		return 0 // the Cluster went meanwhile
	}
	found.running, found.dead, found.reached = false, errors.Is(err, foreign.ErrUnreachable), false
	retry = backoff(found.failures)
	if isBeingDeleted(err) {
		retry = min(retry, retryDeleting)
	}
	found.failures++
	found.notBefore = j.clock().Add(retry)
	return retry
}

// ended notes the end of a look: it leaves nothing to be tried again, and written if it has written the Cluster.
func (j *jobs) ended(cluster, written string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if found := j.jobs[cluster]; found != nil {
		found.running, found.dead, found.written = false, errors.Is(err, foreign.ErrUnreachable), written
	}
}

// backoff doubles from retryMin to retryMax and adds up to a quarter, so that clusters that failed
// together do not come back together.
func backoff(failures int) time.Duration {
	d := retryMin << min(failures, 20)
	d = min(d, retryMax)
	return d + time.Duration(rand.Int64N(int64(d)/4+1)) //nolint:gosec // a spread, not a secret
}

// forget drops what failed before; a job that is running ends by itself.
func (j *jobs) forget(cluster string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if found := j.jobs[cluster]; found != nil && !found.running {
		delete(j.jobs, cluster)
	}
}
