package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/pace"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/rules/drift"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Tracking describes a revision of a release and the last observed state of its objects.
type Tracking struct {
	// Release is the revision, in the format of status.release.
	Release string
	set     placement.Set
	// refs are the objects of the revision, in the order of the manifest.
	refs []manifest.Ref
	// extras are the objects that are not in this revision any longer and may still exist.
	extras []manifest.Ref
	// resources maps the kinds in refs and extras to the resources that serve them.
	resources map[schema.GroupVersionKind]schema.GroupVersionResource
	// unserved are the kinds in refs that the API server did not know when the objects were first tracked.
	unserved []schema.GroupVersionKind
	// seen is the last observed state of the objects.
	seen map[manifest.Ref]observation
	// rewrites counts how often each object was compared lately.
	rewrites map[manifest.Ref]pace.Rewrites
	// first holds the answers of the API server to the deployment itself; nil once they were processed.
	first *manifest.Revision
	// deployed is the time of the deployment if another process made the revision.
	deployed time.Time
	// leaving are the objects that were already being deleted when they were deployed.
	leaving []manifest.Ref
	// polled is the time at which the objects without a working watch were read.
	polled time.Time
	// rules are the differences to ignore.
	rules drift.Rules
	// failing is the time of the first check that failed; zero after one that succeeded.
	failing time.Time
	// Known is true while seen and extras are up to date.
	Known bool
}

// observedObjects returns the objects with their last observed state. It leaves out objects that are missing and may be
// missing.
func (t *Tracking) observedObjects() []observedObject {
	found := make([]observedObject, 0, len(t.refs))
	for _, ref := range t.refs {
		seen := t.seen[ref]
		if seen.inPlace() || !t.rules.AllowMissing(ref.GroupVersionKind, ref.Namespace, ref.Name) {
			found = append(found, observedObject{Ref: ref, observation: seen})
		}
	}
	return found
}

// watched returns the resources in which a change matters to this release.
func (t *Tracking) watched() map[schema.GroupVersionResource]bool {
	used := map[schema.GroupVersionResource]bool{}
	for _, ref := range slices.Concat(t.refs, t.extras) {
		used[t.resources[ref.GroupVersionKind]] = true
	}
	return used
}

// Refs returns the objects of the revision. t may be nil.
func (t *Tracking) Refs() []manifest.Ref {
	if t == nil {
		return nil
	}
	return t.refs
}

// AnyMissing reports whether an object is missing: the whole release may be lost.
func (t *Tracking) AnyMissing() bool {
	for _, ref := range t.refs {
		if seen, known := t.seen[ref]; known && !seen.inPlace() {
			return true
		}
	}
	return false
}

// HasLost reports whether an object is missing that was already being deleted when it was deployed, or that the bundle has
// overwritten. An entry of overwrites without a namespace matches all namespaces.
func (t *Tracking) HasLost(overwrites []fleet.OverwrittenResource) bool {
	return slices.ContainsFunc(t.observedObjects(), func(s observedObject) bool {
		return !s.Exists && (slices.Contains(t.leaving, s.Ref) || slices.ContainsFunc(overwrites, func(o fleet.OverwrittenResource) bool {
			return strings.EqualFold(o.Kind, s.Kind) && o.Name == s.Name && (o.Namespace == "" || o.Namespace == s.Namespace)
		}))
	})
}

// FailingSince records that a check failed now, and returns the time of the first one that failed since the last success.
func (t *Tracking) FailingSince(now time.Time) time.Time {
	if t.failing.IsZero() {
		t.failing = now
	}
	return t.failing
}

// Expire marks the last observation as outdated: drift must not be corrected by it.
func (t *Tracking) Expire() { t.Known = false }

// ContinueAs goes on with a revision that has the same objects.
func (t *Tracking) ContinueAs(release string, made *manifest.Revision) {
	t.Release, t.first = release, made
}

// Drifted returns the objects of the release that are missing, changed, or belong to another owner.
func (t *Tracking) Drifted() map[manifest.Ref]bool {
	found := map[manifest.Ref]bool{}
	for _, s := range t.observedObjects() {
		if !s.inPlace() || s.Patch != "" {
			found[s.Ref] = true
		}
	}
	return found
}

// FirstDrifted returns the first object in drifted.
func (t *Tracking) FirstDrifted() (ref manifest.Ref, found bool) {
	drifted := t.Drifted()
	i := slices.IndexFunc(t.refs, func(ref manifest.Ref) bool { return drifted[ref] })
	if i < 0 {
		return manifest.Ref{}, false
	}
	return t.refs[i], true
}

// pollPause is the pause between two reads of the objects whose watches have failed.
const pollPause = time.Minute

// Observer observes the objects of releases.
type Observer struct {
	Agent    *access.Identity
	Accounts *access.Accounts
	Metadata metadata.Interface
	Watches  *Watches
	Clock    func() time.Time
	// Revision reads the objects of a revision as they were deployed.
	Revision func(ctx context.Context, release string) (manifest.Objects, error)
	// Cleaner returns a function that redacts the confidential values of a BundleDeployment in a text.
	Cleaner func(ctx context.Context, bd *fleet.BundleDeployment) func(string) string
	// Again enqueues a BundleDeployment after a pause.
	Again func(name string, after time.Duration)
}

// Track starts to track the objects of a revision. left are the objects of the revision before that are not in this
// one any longer.
func (o *Observer) Track(bd *fleet.BundleDeployment, marks placement.Set, release string, made *manifest.Revision, left []manifest.Ref) (*Tracking, error) {
	t := &Tracking{
		Release: release, set: marks, refs: made.Refs, deployed: made.Deployed,
		resources: map[schema.GroupVersionKind]schema.GroupVersionResource{},
		seen:      map[manifest.Ref]observation{},
		rules:     drift.RulesOf(bd.Spec.Options.Diff),
	}
	if made.Live != nil {
		t.first = made
	}
	for _, ref := range made.Refs {
		if _, known := t.resources[ref.GroupVersionKind]; known {
			continue
		}
		mapping, err := o.mapping(ref.GroupVersionKind)
		switch {
		case meta.IsNoMatchError(err):
			t.unserved = append(t.unserved, ref.GroupVersionKind)
			t.resources[ref.GroupVersionKind] = o.resourceOfUnserved(ref.GroupVersionKind)
		case err != nil:
			return nil, err
		default:
			t.resources[ref.GroupVersionKind] = mapping.Resource
		}
	}
	for _, ref := range left {
		mapping, err := o.mapping(ref.GroupVersionKind)
		if err != nil {
			continue // the kind was deleted, and the object with it
		}
		t.resources[ref.GroupVersionKind] = mapping.Resource
		t.extras = append(t.extras, ref)
	}
	return t, nil
}

// mapping returns the resource of a kind. It repeats API discovery if a watch has found that the resource is no longer served.
func (o *Observer) mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := o.Agent.Mapping(gvk)
	if err == nil && o.Watches.Unserved(mapping.Resource) && o.Agent.Refresh() {
		mapping, err = o.Agent.Mapping(gvk)
	}
	return mapping, err
}

// resourceOfUnserved returns the resource of a kind in a version that the API server does not serve. The objects exist in the
// other versions of the kind. If the API server serves no version, the objects are missing, and the exact name of the resource
// does not matter.
func (o *Observer) resourceOfUnserved(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	if served, err := o.Agent.Served(gvk); err == nil {
		if mapping, err := o.Agent.Mapping(served); err == nil {
			return mapping.Resource
		}
	}
	guessed, _ := meta.UnsafeGuessKindToResource(gvk)
	return guessed
}

// LacksKind reports whether the API server did not know a kind of the release. t may be nil.
func (t *Tracking) LacksKind() bool { return t != nil && len(t.unserved) > 0 }

// IsCurrent reports whether t tracks a release and is not outdated: the API server serves the same kinds as when the objects were
// first tracked. t may be nil.
func (o *Observer) IsCurrent(t *Tracking, release string) bool {
	if t == nil || t.Release != release {
		return false
	}
	for gvk, resource := range t.resources {
		outdated := o.Watches.Unserved(resource)
		if slices.Contains(t.unserved, gvk) {
			_, err := o.Agent.Mapping(gvk)
			outdated = err == nil
		}
		if outdated {
			return false
		}
	}
	return true
}

func ignoredConditions(options *fleet.BundleDeploymentOptions) []map[string]string {
	if options.Ignore == nil {
		return nil
	}
	return options.Ignore.Conditions
}

// Check observes the objects of a release and returns a summary. It returns nil if some states are not known yet; the
// sync of the watches triggers the next reconcile.
func (o *Observer) Check(ctx context.Context, bd *fleet.BundleDeployment, t *Tracking) (*Report, error) {
	t.Expire()
	t.setRules(&bd.Spec.Options)
	if err := t.rules.Err(); err != nil {
		return nil, err
	}
	o.Watches.Follow(bd.Name, t.watched())
	failed := o.Watches.Failed(bd.Name)
	if len(failed) > 0 {
		o.Again(bd.Name, pollPause)
	}
	known, err := true, error(nil)
	if first := t.first; first != nil {
		t.first = nil
		err = o.processLive(ctx, bd, t, first.Live, first.Wanted)
	} else {
		known, err = o.observe(ctx, bd, t, failed)
	}
	if err == nil && known {
		err = o.checkExtras(ctx, t)
	}
	if err != nil {
		return nil, err
	}
	if !known {
		o.Again(bd.Name, watchPatience+time.Second) // in case no event triggers it earlier
		return nil, nil                             //nolint:nilnil // not known yet
	}
	t.Known, t.failing = true, time.Time{}
	found := newReport(t.observedObjects(), t.extras...)
	found.Warning = warning(failed, t.rules.Mistake(), t.dropped())
	return &found, nil
}

// dropped describes the first object of the agent that the API server does not keep as it was deployed. It returns "" if it keeps
// all, and for other bundles.
func (t *Tracking) dropped() string {
	i := slices.IndexFunc(t.refs, func(ref manifest.Ref) bool { return t.seen[ref].Dropped != "" })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("the API server does not keep these fields of %s: %s. If they are too new for the cluster, upgrade Kubernetes there, or remove them from the agent's settings in the Cluster",
		t.refs[i].Text(), t.seen[t.refs[i]].Dropped)
}

// warning joins failed watches and other texts, which may be empty.
func warning(failed map[schema.GroupVersionResource]error, others ...string) string {
	var texts []string
	for resource, err := range failed {
		texts = append(texts, fmt.Sprintf("%s cannot be listed and watched, so that the objects are only read once a minute: %s", resource.GroupResource(), outcome.Message(err)))
	}
	slices.Sort(texts) // a map has no order
	texts = append(texts, slices.DeleteFunc(others, func(text string) bool { return text == "" })...)
	return strings.Join(texts, "; ")
}

// observe updates the observed state of the objects. It fetches only changed objects. It returns false while some states are not
// known.
func (o *Observer) observe(ctx context.Context, bd *fleet.BundleDeployment, t *Tracking, failed map[schema.GroupVersionResource]error) (known bool, err error) {
	now := o.Clock()
	poll := len(failed) > 0 && now.Sub(t.polled) >= pollPause
	watched, due := t.split(failed, poll)
	changed, known := o.changed(bd.Name, t, watched)
	due = append(due, changed...)
	live, fetchErr := o.fetch(ctx, t, due)
	if poll && fetchErr == nil {
		t.polled = now
	}
	return known && len(live) == len(due), errors.Join(fetchErr, o.processLive(ctx, bd, t, live, nil))
}

// split returns the objects with a working watch, and those without one that have to be read: all of them if poll is true.
func (t *Tracking) split(failed map[schema.GroupVersionResource]error, poll bool) (watched, due []manifest.Ref) {
	for _, ref := range t.refs {
		_, seen := t.seen[ref]
		switch {
		case failed[t.resources[ref.GroupVersionKind]] == nil:
			watched = append(watched, ref)
		case poll || !seen:
			due = append(due, ref)
		}
	}
	return watched, due
}

// changed returns those of refs whose cached metadata differ from the last observation, and false while the metadata are not
// synced. An object that other writers change again and again is left for later.
func (o *Observer) changed(name string, t *Tracking, refs []manifest.Ref) (changed []manifest.Ref, known bool) {
	known = true
	now := o.Clock()
	for _, ref := range refs {
		found, ready := o.Watches.Cached(t.resources[ref.GroupVersionKind], ref.Namespace, ref.Name)
		last, seen := t.seen[ref]
		switch {
		case !ready:
			known = known && seen
		case found != nil && seen && last.isCurrent(found.ResourceVersion, now):
		case found != nil && seen && last.UID == found.UID && t.rewrites[ref].Wait(now) > 0:
			o.Again(name, t.rewrites[ref].Wait(now))
		default:
			changed = append(changed, ref)
		}
	}
	return changed, known
}

// fetch reads objects in parallel. An object that does not exist is nil in the result. The result lacks objects of a version
// that is no longer served: they may exist in another one. A watch notices it, too, and the reconcile after that uses the other
// version.
func (o *Observer) fetch(ctx context.Context, t *Tracking, refs []manifest.Ref) (manifest.Objects, error) {
	var mu sync.Mutex
	var group sync.WaitGroup
	var errs []error
	live := manifest.Objects{}
	slots := make(chan struct{}, access.Parallelism)
	for _, ref := range refs {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			found, err := o.Agent.Dynamic.Resource(t.resources[ref.GroupVersionKind]).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case isUnserved(err) && !slices.Contains(t.unserved, ref.GroupVersionKind):
				// Not known: the object may exist in another version.
			case apierrors.IsNotFound(err):
				live[ref] = nil
			case err != nil:
				errs = append(errs, fmt.Errorf("reading %s: %w", ref.Text(), err))
			default:
				live[ref] = found
			}
		})
	}
	group.Wait()
	return live, errors.Join(errs...)
}

// rewritten counts a comparison of each object.
func (t *Tracking) rewritten(objects []observedObject, now time.Time) {
	if t.rewrites == nil {
		t.rewrites = map[manifest.Ref]pace.Rewrites{}
	}
	for _, object := range objects {
		t.rewrites[object.Ref] = t.rewrites[object.Ref].Compared(now)
	}
}
