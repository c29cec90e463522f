package deploy

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// atRest stops the clock of the deployer. The time is the returned number of seconds.
func (l *lab) atRest() *atomic.Int64 {
	var seconds atomic.Int64
	former := l.options
	l.options = func(options *Options) {
		former(options)
		options.Clock = func() time.Time { return deploytest.Noon().Add(time.Duration(seconds.Load()) * time.Second) }
	}
	return &seconds
}

// expectKnown waits until a deployer has the wanted state of a BundleDeployment.
func (l *lab) expectKnown(d *deployer, bd *fleet.BundleDeployment) {
	l.t.Helper()
	l.eventually(func() string {
		if cached := d.hub.Cached(bd.Name); cached == nil || cached.Generation < bd.Generation {
			return "the state is not known"
		}
		return ""
	})
}

func (l *lab) reconcile(d *deployer) {
	l.t.Helper()
	d.slots.Take()
	defer d.slots.Free()
	if err := d.reconcile(l.t.Context(), "x"); err != nil {
		l.t.Fatal(err)
	}
}

// Each reconcile here is what an event of an object starts.
func TestFailedDeployment_IsNotRetriedByObjectEvents(t *testing.T) {
	t.Parallel()
	l := newLab(t, "retry-events")
	other, tries := l.Name+"-other", 0
	l.options = func(options *Options) { options.OnDeploy = func(outcome.Outcome, time.Duration) { tries++ } }
	seconds := l.atRest()
	d := l.byHand()
	wanted := bundle{Name: "x", Files: hooks(hookOf("first", other, "pre-install")), Options: deploytest.InNamespace(l.Name)}
	l.expectKnown(d, l.apply(wanted))
	for range 3 {
		l.reconcile(d)
	}
	l.expectStatus("x", says(conditions.Deployed, "failed pre-install: "))
	if tries != 1 {
		t.Errorf("%d tries during the pause", tries)
	}
	seconds.Add(1)
	l.reconcile(d)
	if tries != 2 {
		t.Errorf("%d tries after the pause", tries)
	}
	l.namespace(other)
	wanted.Change = func(bd *fleet.BundleDeployment) { bd.Annotations = map[string]string{"example.com/try": "now"} }
	l.apply(wanted)
	l.eventually(func() string { // a change of the BundleDeployment ends the pause
		l.reconcile(d)
		return ready(l.get("x"))
	})
	if tries != 3 {
		t.Errorf("%d tries", tries)
	}
}

func TestFormerReleaseCannotBeRemoved_IsNotRetriedByObjectEvents(t *testing.T) {
	t.Parallel()
	l, requests := newLab(t, "retry-stale"), &faults.Plan{}
	l.local = rest.CopyConfig(l.local)
	l.local.Wrap(requests.Transport)
	tries := requests.Add(faults.Rule{Match: faults.Match{Verb: "create", Resource: "configmaps", Namespace: l.Name + "-missing"}, Fault: faults.Before(func(faults.Request) {})})
	seconds := l.atRest()
	d := l.byHand()
	wanted := bundle{Name: "x", Files: hooks(hookOf("last", l.Name+"-missing", "pre-delete")), Options: deploytest.InNamespace(l.Name)}
	for _, name := range []string{"a", "b"} {
		wanted.Options.Helm.ReleaseName = name
		l.expectKnown(d, l.apply(wanted))
		l.reconcile(d)
	}
	l.expectStatus("x", says(conditions.Deployed, l.Name+"-missing"))
	first := tries.Met()
	l.edit("configmaps", "b", `{"data":{"greeting":"salut"}}`)
	l.eventually(func() string { // objects are still watched
		l.reconcile(d)
		return modified("configmap.v1 " + l.Name + `/b modified {"data":{"greeting":"hi"}}`)(l.get("x"))
	})
	if got := tries.Met(); first == 0 || got != first {
		t.Errorf("the hook ran %d times, then %d times during the pause", first, got)
	}
	seconds.Add(1)
	l.reconcile(d)
	if tries.Met() == first {
		t.Error("it is not tried again after the pause")
	}
}

func TestReleaseLostBeforeFormerIsRemoved_IsDeployedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, "retry-lost")
	missing := l.Name + "-missing"
	seconds := l.atRest()
	d := l.byHand()
	wanted := bundle{Name: "x", Files: hooks(hookOf("last", missing, "pre-delete")), Options: deploytest.InNamespace(l.Name)}
	for _, name := range []string{"a", "b"} {
		wanted.Options.Helm.ReleaseName = name
		l.expectKnown(d, l.apply(wanted))
		l.reconcile(d)
	}
	l.expectStatus("x", says(conditions.Deployed, missing))
	if err := l.East.CoreV1().Secrets(l.Name).Delete(t.Context(), "sh.helm.release.v1.b.v1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.namespace(missing)
	l.eventually(func() string {
		seconds.Add(60)
		l.reconcile(d)
		return ready(l.get("x"))
	})
	if _, err := l.East.CoreV1().Secrets(l.Name).Get(t.Context(), "sh.helm.release.v1.b.v1", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// expectSeen waits until the agent has seen all changes of BundleDeployments so far: it has deployed a later one.
func (l *lab) expectSeen() {
	l.t.Helper()
	l.apply(bundle{Name: "later", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("later", ready)
}

// podStatus waits for the Pod of the test and sets its status.
func (l *lab) podStatus(labels, status string) corev1.Pod {
	l.t.Helper()
	var pods *corev1.PodList
	l.eventually(func() string {
		var err error
		if pods, err = l.East.CoreV1().Pods(l.Name).List(l.t.Context(), metav1.ListOptions{LabelSelector: labels}); err != nil || len(pods.Items) != 1 {
			return fmt.Sprintf("no Pod: %v", err)
		}
		return ""
	})
	pod := pods.Items[0]
	if _, err := l.East.CoreV1().Pods(l.Name).Patch(l.t.Context(), pod.Name, types.MergePatchType, []byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status"); err != nil {
		l.t.Fatal(err)
	}
	return pod
}

const runs = `{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`

func TestAtomicInstallation_IsNotUndoneForTheNextCommit(t *testing.T) {
	t.Parallel()
	l := newLab(t, "atomic-next")
	l.start()
	options := deploytest.InNamespace(l.Name)
	options.Helm.Atomic, options.Helm.TimeoutSeconds = true, 600
	slow := map[string]string{"templates/slow.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: slow, labels: {a: slow}}\nspec: {containers: [{name: a, image: b}]}\n"}
	l.apply(bundle{Name: "x", Files: deploytest.With(deploytest.HelloFiles("hi"), slow), Options: options})
	first := l.podStatus("a=slow", `{"phase":"Pending"}`)
	l.apply(bundle{Name: "x", Files: deploytest.With(deploytest.HelloFiles("salut"), slow), Options: options})
	l.expectSeen()
	if second := l.podStatus("a=slow", runs); second.UID != first.UID {
		t.Error("the Pod was created again")
	}
	l.expectStatus("x", ready)
	if got := fmt.Sprint(l.revisionsOf(l.Name, "x")); got != "[1 superseded 2 deployed]" {
		t.Errorf("revisions %s", got)
	}
}

func TestRunningHook_EndsBeforeTheNextCommit(t *testing.T) {
	t.Parallel()
	l := newLab(t, "hook-next")
	l.start()
	options := deploytest.InNamespace(l.Name)
	options.Helm.TimeoutSeconds = 600
	hook := "apiVersion: v1\nkind: Pod\nmetadata: {name: migrate, labels: {a: migrate}, annotations: {helm.sh/hook: pre-install}}\nspec: {containers: [{name: a, image: b}]}\n"
	l.apply(bundle{Name: "x", Files: hooks(hook), Options: options})
	l.podStatus("a=migrate", runs)
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("salut"), Options: deploytest.InNamespace(l.Name)})
	l.expectSeen()
	l.podStatus("a=migrate", `{"phase":"Succeeded"}`)
	l.expectStatus("x", ready)
	if got := fmt.Sprint(l.revisionsOf(l.Name, "x")); got != "[1 superseded 2 deployed]" {
		t.Errorf("revisions %s", got)
	}
}
