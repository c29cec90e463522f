package clusterimport

import (
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/fleet-hub/fleet/internal/kube/foreign"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/reconcile"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

const (
	// retryMin and retryMax limit the time between two attempts for one Cluster.
	retryMin, retryMax = 2 * time.Second, 10 * time.Minute
	// retryDeleting is the longest time between two attempts while an object is being deleted.
	retryDeleting = 15 * time.Second
)

// clusterRecords remember what this process knows of each imported Cluster and did for it. After a restart it is empty: each
// silent agent is inspected soon, and everything else is read again.
type clusterRecords struct {
	clock   func() time.Time
	backoff workqueue.TypedRateLimiter[string]

	mu    sync.Mutex
	known map[string]*clusterRecord
}

// clusterRecord is what is remembered of one Cluster.
type clusterRecord struct {
	uid        types.UID
	kubeconfig kubeconfigRecord
	job        jobRecord
	silence    silenceRecord
}

// kubeconfigRecord is what the kubeconfig Secret contains about the hub's address. The kubeconfig itself is never kept.
type kubeconfigRecord struct {
	// secret has a placeholder for the kubeconfig. It is nil if the Secret did not exist when it was last read.
	secret *corev1.Secret
	// hash is that of the last kubeconfig, zero if there was none. See fingerprint.
	hash [sha256.Size]byte
	// changed means that this kubeconfig was not used yet, but an earlier one was.
	changed bool
	// failed means that the kubeconfig failed before the process started, and was not used since.
	failed bool
}

// doubted reports whether a kubeconfig has to be tried. An agent that does not report is inspected anyway.
func (k kubeconfigRecord) doubted(in importing.Input) bool {
	return k.changed || k.failed && !supervisionrule.Supervised(in.Cluster, in.Stale)
}

// jobRecord is the Cluster's job, if one is queued or running, or its last one.
type jobRecord struct {
	running bool
	// gone means that the Cluster was deleted while the job ran.
	gone bool
	// attempt identifies what the job does. A different attempt starts at once, the same one only after retryAt.
	attempt string
	retryAt time.Time
	// unreachable means that the cluster did not answer the last probe. reached means that it did, and that the job
	// needed nothing else.
	unreachable, reached bool
	// written is the resourceVersion of the Cluster that the last job wrote. An older version from the cache must not
	// be acted on: the import would be done twice.
	written string
}

// silenceRecord is what is remembered of an agent that does not report. It is empty for any other.
type silenceRecord struct {
	// state identifies the inspected state. If it changes, the agent is inspected at once.
	state string
	// since is when this process deployed the agent, or else when it first noticed the agent.
	since    time.Time
	deployed bool
	// quiet is when the agent was deployed or got its last fresh token.
	quiet       time.Time
	tokens      int
	inspections int
	next        time.Time
	repair      supervisionrule.Repair
}

func newClusterRecords(clock func() time.Time) *clusterRecords {
	return &clusterRecords{
		clock: clock, known: map[string]*clusterRecord{},
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryMin, retryMax),
	}
}

// identify forgets an earlier Cluster with the same name. The queue joins its deletion with the creation of this one if
// they follow each other quickly.
func (r *clusterRecords) identify(cluster string, uid types.UID) {
	if known := r.get(cluster).uid; known != "" && known != uid {
		r.forget(cluster)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of(cluster).uid = uid
}

// get returns what is known of a Cluster.
func (r *clusterRecords) get(cluster string) clusterRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.known[cluster]; found != nil {
		return *found
	}
	return clusterRecord{}
}

// of returns the record of a Cluster and creates it if necessary. The caller holds the lock.
func (r *clusterRecords) of(cluster string) *clusterRecord {
	found := r.known[cluster]
	if found == nil {
		found = &clusterRecord{}
		r.known[cluster] = found
	}
	return found
}

// isBusy reports whether a job is running, or whether this version of the Cluster does not show its success yet.
func (r clusterRecord) isBusy(version string) bool {
	return r.job.running || reconcile.NewerVersion(r.job.written, version)
}

// secret returns what is remembered of this version of a Secret. It returns nil if nothing is remembered, or if the
// Cluster now names another Secret.
func (r clusterRecord) secret(name types.NamespacedName, version string) *corev1.Secret {
	known := r.kubeconfig.secret
	if known == nil || version == "" || known.ResourceVersion != version || known.Namespace != name.Namespace || known.Name != name.Name {
		return nil
	}
	return known
}

// fingerprint returns a hash. If it is unchanged, a new version of the kubeconfig is not tested against the cluster.
type fingerprint func(kubeconfig []byte) [sha256.Size]byte

// fingerprintFor returns the fingerprint for the kubeconfigs of a Cluster. Those of Cluster API are renewed all the time:
// another credential is not tried out as long as the agent reports.
func fingerprintFor(cluster *fleet.Cluster) fingerprint {
	if capirule.IsMarked(cluster) || cluster.Annotations[annotation.CAPIImported] != "" {
		return kubeconfigs.AddressHash
	}
	return func(kubeconfig []byte) [sha256.Size]byte { return sha256.Sum256(kubeconfig) }
}

// putSecret remembers a Secret that was read, and returns the record. For a Secret that does not exist, only the hash
// of the last kubeconfig is kept: the Secret may be created again with the kubeconfig of another cluster. failed counts
// for the first kubeconfig that the process reads.
func (r *clusterRecords) putSecret(cluster string, secret *corev1.Secret, hashOf fingerprint, failed bool) kubeconfigRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := &r.of(cluster).kubeconfig
	if known.secret = nil; secret == nil {
		return *known
	}
	slim := &corev1.Secret{Data: map[string][]byte{}}
	slim.Namespace, slim.Name, slim.ResourceVersion = secret.Namespace, secret.Name, secret.ResourceVersion
	if allowed, found := secret.Annotations[annotation.AllowedWorkspaces]; found {
		slim.Annotations = map[string]string{annotation.AllowedWorkspaces: allowed}
	}
	for _, key := range []string{protocol.APIServerURLKey, protocol.APIServerCAKey} {
		if value := secret.Data[key]; len(value) > 0 {
			slim.Data[key] = value
		}
	}
	if len(secret.Data[protocol.KubeconfigValueKey]) > 0 {
		slim.Data[protocol.KubeconfigValueKey] = []byte("not kept")
	}
	hash := hashOf(secret.Data[protocol.KubeconfigValueKey])
	if known.hash == [sha256.Size]byte{} {
		known.failed = failed
	} else {
		known.changed = known.changed || known.hash != hash
	}
	known.secret, known.hash = slim, hash
	return *known
}

// usedKubeconfig records that a kubeconfig was used, unless it has been replaced since. The fingerprint of a Cluster changes when
// Cluster API adopts it.
func (r *clusterRecords) usedKubeconfig(cluster string, kubeconfig []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hashes := [][sha256.Size]byte{sha256.Sum256(kubeconfig), kubeconfigs.AddressHash(kubeconfig)}
	if known := r.known[cluster]; known != nil && slices.Contains(hashes, known.kubeconfig.hash) {
		known.kubeconfig.changed, known.kubeconfig.failed = false, false
	}
}

// begin marks a job as running, unless one is running already or the same attempt failed and has to wait. In the
// latter case it returns how long. retry means that the cluster did not answer at the last attempt.
func (r *clusterRecords) begin(cluster, attempt string) (begun, retry bool, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	job := &r.of(cluster).job
	if job.running {
		return false, false, 0
	}
	if job.attempt != attempt {
		*job = jobRecord{attempt: attempt, written: job.written}
		r.backoff.Forget(cluster)
	}
	if wait := job.retryAt.Sub(r.clock()); wait > 0 {
		return false, false, wait
	}
	job.running = true
	return true, job.unreachable, 0
}

// end records the end of a job. A Cluster that was deleted in the meantime is forgotten.
func (r *clusterRecords) end(cluster string, change func(*jobRecord)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.known[cluster]
	switch {
	case found == nil:
	case found.job.gone:
		delete(r.known, cluster)
		r.backoff.Forget(cluster)
	default:
		found.job.running = false
		change(&found.job)
	}
}

// stopped records that a job was interrupted because the process is stopping.
func (r *clusterRecords) stopped(cluster string) { r.end(cluster, func(*jobRecord) {}) }

// succeeded records the version of the Cluster in which the job's success is written.
func (r *clusterRecords) succeeded(cluster, written string) {
	r.end(cluster, func(job *jobRecord) {
		*job = jobRecord{written: written}
		r.backoff.Forget(cluster)
	})
}

// reached records that a cluster is reachable, for a job that needed nothing else.
func (r *clusterRecords) reached(cluster string) {
	r.end(cluster, func(job *jobRecord) {
		*job = jobRecord{attempt: job.attempt, reached: true, written: job.written}
		r.backoff.Forget(cluster)
	})
}

// failed records a failure and returns the time until the next attempt.
func (r *clusterRecords) failed(cluster string, err error) (retry time.Duration) {
	r.end(cluster, func(job *jobRecord) {
		job.unreachable, job.reached = errors.Is(err, foreign.ErrUnreachable), false
		retry = r.backoff.When(cluster)
		retry += spread(retry / 4) // clusters that failed together are not retried together
		if isBeingDeleted(err) {
			retry = min(retry, retryDeleting)
		}
		job.retryAt = r.clock().Add(retry)
	})
	return retry
}

// spread returns a random part of d.
func spread(d time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(d) + 1)) //nolint:gosec // a spread, not a secret
}

// inspected records the end of an inspection, which is never retried, and when the next one is due. written is the
// resourceVersion that it wrote.
func (r *clusterRecords) inspected(cluster, written string, heard bool, out supervisionrule.Outcome, err error) {
	r.end(cluster, func(job *jobRecord) {
		job.unreachable, job.written = errors.Is(err, foreign.ErrUnreachable), written
		agent := r.silenceOf(cluster)
		agent.inspections++
		pause := supervisionrule.NextLook(agent.inspections, heard)
		agent.next = r.clock().Add(pause + spread(pause/4))
		agent.repair = agent.repair.Then(out.Repair)
		if out.FreshToken {
			agent.tokens++
			agent.quiet = r.clock()
		}
	})
}

// settled forgets failures and silence of a Cluster whose agent is in place and reports.
func (r *clusterRecords) settled(cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.known[cluster]; found != nil && !found.job.running {
		found.job, found.silence = jobRecord{}, silenceRecord{}
		r.backoff.Forget(cluster)
	}
}

// forget removes a Cluster that is gone. A running job is remembered until its end, so that no other one starts.
func (r *clusterRecords) forget(cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.known[cluster]
	switch {
	case found == nil:
	case found.job.running:
		*found = clusterRecord{job: jobRecord{running: true, gone: true}}
	default:
		delete(r.known, cluster)
		r.backoff.Forget(cluster)
	}
}

// silenceOf returns the record of a silent agent and creates it if necessary. The caller holds the lock. If this
// process did not deploy the agent, the first inspection is soon, at a random time so that not all agents are inspected
// at once.
func (r *clusterRecords) silenceOf(cluster string) *silenceRecord {
	agent := &r.of(cluster).silence
	if agent.since.IsZero() {
		now := r.clock()
		*agent = silenceRecord{since: now, quiet: now, next: now.Add(spread(supervisionrule.FirstInspection))}
	}
	return agent
}

// silence returns what is remembered of a silent agent.
func (r *clusterRecords) silence(cluster string) silenceRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *r.silenceOf(cluster)
}

// dueIn returns the time until the next inspection of an agent. It returns at most 0 if something has changed since
// the last one.
func (r *clusterRecords) dueIn(cluster, state string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	agent := r.silenceOf(cluster)
	if agent.state != "" && agent.state != state {
		agent.next = r.clock()
	}
	agent.state = state
	return agent.next.Sub(r.clock())
}

// deployed records that an agent was applied, and whether it has to register, or only got a bootstrap Secret.
func (r *clusterRecords) deployed(cluster string, registers, bootstrap bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if registers {
		r.of(cluster).silence = silenceRecord{}
	}
	agent, now := r.silenceOf(cluster), r.clock()
	if registers {
		agent.deployed = true
		agent.next = now.Add(supervisionrule.FirstInspection + spread(supervisionrule.FirstInspection/4))
	} else if bootstrap {
		agent.quiet = now
	}
	agent.repair = supervisionrule.RepairNone
}

// want records that an agent needs a repair, which the next import does.
func (r *clusterRecords) want(cluster string, repair supervisionrule.Repair) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silenceOf(cluster).repair = repair
}
