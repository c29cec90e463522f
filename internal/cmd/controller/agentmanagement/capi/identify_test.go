package capi

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/remote"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const getSecret = "get Secret team-a/east-kubeconfig"

// imported is a Cluster that a user imported with another Secret, and its namespace, in which the hub recorded its UID.
func imported(namespace, name, system string) []hubtest.Object {
	return []hubtest.Object{
		&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "fleet-9"}, Spec: fleet.ClusterSpec{KubeConfigSecret: "own"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: names.ClusterNamespace(namespace, name), Labels: map[string]string{fleet.LabelManaged: "true"},
			Annotations: map[string]string{fleet.AnnotationCluster: name, fleet.AnnotationClusterNamespace: namespace, annotation.SystemUID: system},
		}},
	}
}

func (b *bench) expectAsked(times int) {
	b.t.Helper()
	if b.asked != times {
		b.t.Errorf("the cluster was asked %d times, not %d", b.asked, times)
	}
}

func TestACluster_IsAskedOnceWhichOneItIs(t *testing.T) {
	b := newBench(t)
	b.Put(kubeconfigSecret())
	b.have(capiCluster())
	b.expect(getSecret, "create Cluster team-a/east")
	b.expect("update Cluster/status team-a/east")
	b.Put(kubeconfigSecret(func(s *corev1.Secret) { s.Data["value"] = []byte("another") }))
	b.expect(getSecret)
	b.expectAsked(1)
}

func TestAnImportWithAnotherSecret_IsNoted(t *testing.T) {
	b := newBench(t)
	b.Put(kubeconfigSecret())
	b.Put(imported(ws, "mine", "system-1")...)
	b.have(capiCluster())
	b.expect(getSecret, "patch Cluster team-a/mine")
	b.expectTold("ImportedTwice")
	if noted := hubtest.MustGet[*fleet.Cluster](t, b.Hub, ws, "mine").Annotations[annotation.CAPIImported]; noted != "capi-1" {
		t.Errorf("noted %q", noted)
	}
	b.expect()
	b.expectAsked(1)

	b.Remove(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "mine"}})
	b.expect("create Cluster team-a/east")
}

// An agent that has registered by itself has the UID as its client ID.
func TestAnAgentThatRegisteredByItself_IsNoted(t *testing.T) {
	for namespace, want := range map[string][]string{
		ws:       {getSecret, "patch Cluster team-a/mine"},
		"team-b": {getSecret, "create Cluster team-a/east"}, // what an agent of another workspace says is not believed
	} {
		b := newBench(t)
		b.Put(kubeconfigSecret(), &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"}, Spec: fleet.ClusterSpec{ClientID: "system-1"}})
		b.have(capiCluster())
		b.expect(want...)
	}
}

func TestAClusterOfAnotherWorkspace_IsNotRegisteredAgain(t *testing.T) {
	b := newBench(t)
	b.Put(kubeconfigSecret())
	b.Put(imported("team-b", "theirs", "system-1")...)
	b.have(capiCluster())
	b.expect(getSecret)
	for _, event := range b.Told() {
		if !strings.HasPrefix(event, "Warning ImportedTwice ") || strings.Contains(event, "team-b") || strings.Contains(event, "theirs") {
			t.Errorf("Event %q", event)
		}
	}
	b.Remove(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: "theirs"}})
	b.Pass(time.Minute)
	b.expect("create Cluster team-a/east")
	b.expectAsked(1)
}

// The import of a followed Cluster has recorded which cluster it is. A process that has not asked it knows that too.
func TestAnImportInAnotherWorkspace_IsReportedAfterARestart(t *testing.T) {
	b := newBench(t)
	b.Put(kubeconfigSecret())
	b.Put(imported("team-b", "theirs", "system-1")...)
	b.Put(imported(ws, "east", "system-1")[1], capirule.NewCluster(capiCluster()))
	b.have(capiCluster())
	b.expect(getSecret, "update Cluster/status team-a/east")
	if reason := b.reason(); reason != conditions.ReasonImportedTwice {
		t.Errorf("reason %q", reason)
	}
	b.expectAsked(0)
}

func TestTheHubsOwnCluster_IsNotRegistered(t *testing.T) {
	b := newBench(t)
	b.behind = "system-hub"
	b.Put(kubeconfigSecret())
	b.have(capiCluster())
	b.expect(getSecret)
	b.expectTold("IsTheHub")
	b.expect()
	b.expectTold()
	b.Put(kubeconfigSecret(func(s *corev1.Secret) { s.Data["value"] = []byte(kubeconfigOf("https://elsewhere.example")) }))
	b.behind = "system-2"
	b.expect(getSecret, "create Cluster team-a/east")
	b.expectAsked(2)
}

// The credential is another one, and the cluster the same.
func TestARotation_DoesNotAskAgain(t *testing.T) {
	b := newBench(t)
	b.behind = "system-hub"
	b.have(capiCluster())
	for i := range 20 {
		b.Put(kubeconfigSecret(func(s *corev1.Secret) {
			s.Data["value"] = []byte(strings.Replace(kubeconfigOf("https://east.example"), "token: t", "token: t"+strings.Repeat("x", i), 1))
		}))
		b.expect(getSecret)
	}
	b.expectAsked(1)
}

func kubeconfigOf(server string) string {
	return "{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: '" + server + "'}}], users: [{name: u, user: {token: t}}]}"
}

// The import of a cluster that does not answer reports why. It may find out later that the cluster is the hub.
func TestAClusterThatDoesNotAnswer_IsLeftToTheImport(t *testing.T) {
	b := newBench(t)
	b.silent, b.behind = errServer, "system-hub"
	b.Put(kubeconfigSecret())
	b.have(capiCluster())
	b.expect(getSecret, "create Cluster team-a/east")
	b.silent = nil
	c := hubtest.MustGet[*fleet.Cluster](t, b.Hub, ws, "east")
	refused(c, conditions.ReasonTargetIsHub)
	b.Put(c)
	b.Sync()
	b.expect("delete Cluster team-a/east")
	b.expectTold("IsTheHub")
	b.expect(getSecret)
	b.expectTold()
	b.expectAsked(2)
}

// The import of a cluster that did not answer may also find out that the cluster has joined by itself.
func TestAClusterThatTheImportRefuses_IsAskedAgain(t *testing.T) {
	b := newBench(t)
	b.silent = errServer
	b.Put(kubeconfigSecret(), &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "mine"}, Spec: fleet.ClusterSpec{ClientID: "system-1"}})
	b.have(capiCluster())
	b.expect(getSecret, "create Cluster team-a/east")
	b.silent = nil
	c := hubtest.MustGet[*fleet.Cluster](t, b.Hub, ws, "east")
	refused(c, conditions.ReasonImportedTwice)
	b.Put(c)
	b.Sync()
	b.expect("delete Cluster team-a/east")
	b.expect(getSecret, "patch Cluster team-a/mine")
	b.expect()
}

// An API server may answer the import with another UID than the hub. The clock stands still, so nothing but the time of the
// last refusal lets the hub create the Cluster again.
func TestClusterThatEachImportRefuses_IsCreatedEverMoreRarely(t *testing.T) {
	for name, silent := range map[string]error{"the hub gets an error": errServer, "the hub gets another UID": nil} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.silent = silent
			b.Put(kubeconfigSecret())
			b.have(capiCluster())
			b.expect(getSecret, "create Cluster team-a/east")
			for _, wait := range []time.Duration{1, 2, 4} {
				c := hubtest.MustGet[*fleet.Cluster](t, b.Hub, ws, "east")
				refused(c, conditions.ReasonTargetIsHub)
				b.Put(c)
				b.expect("delete Cluster team-a/east")
				b.expect(getSecret) // it is asked again
				b.Step(wait*time.Minute - 1)
				b.expect()
				b.Step(1)
				b.expect("create Cluster team-a/east")
			}
			c := hubtest.MustGet[*fleet.Cluster](t, b.Hub, ws, "east")
			refused(c, conditions.ReasonTargetIsHub)
			b.Put(c)
			b.expect("delete Cluster team-a/east")
			b.have(capiCluster(func(c *capirule.Cluster) { c.UID = "capi-2" }))
			b.expect(getSecret, "create Cluster team-a/east") // another cluster of the name
		})
	}
}

// The cause of a refusal may have been the credential. A Secret that changes all the time must not cause an attempt each time.
func TestClusterThatTheImportRefused_IsCreatedAgainWhenItsKubeconfigChanges(t *testing.T) {
	for name, server := range map[string]string{"another credential": "https://east.example", "another address": "https://west.example"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			renew := func(times int) {
				b.Put(kubeconfigSecret(func(s *corev1.Secret) {
					s.Data["value"] = []byte(strings.Replace(kubeconfigOf(server), "token: t", "token: t"+strings.Repeat("x", times), 1))
				}))
			}
			b.Put(kubeconfigSecret(func(s *corev1.Secret) { s.Data["value"] = []byte(kubeconfigOf("https://east.example")) }))
			b.have(capiCluster())
			b.expect(getSecret, "create Cluster team-a/east")
			refuse := func() {
				c := hubtest.MustGet[*fleet.Cluster](t, b.Hub, ws, "east")
				refused(c, conditions.ReasonTargetIsHub)
				b.Put(c)
				b.expect("delete Cluster team-a/east")
			}
			for _, wait := range []time.Duration{1, 2, 4} {
				refuse()
				b.expect(getSecret)
				b.Step(wait * time.Minute)
				b.expect("create Cluster team-a/east")
			}
			refuse() // for eight minutes
			b.expect(getSecret)
			b.Step(time.Minute + time.Second)
			b.expect()
			renew(1)
			b.expect(getSecret, "create Cluster team-a/east")
			refuse()
			b.expect(getSecret)
			for times := range 5 {
				renew(2 + times)
				b.expect(getSecret)
			}
			b.Step(time.Minute)
			b.expect("create Cluster team-a/east")
		})
	}
}

// holdJobs keeps the jobs instead of running them.
func (b *bench) holdJobs() *[]remote.Job {
	jobs := &[]remote.Job{}
	b.submit = func(job remote.Job) { *jobs = append(*jobs, job) }
	return jobs
}

func (b *bench) runJobs(jobs []remote.Job) {
	b.t.Helper()
	for _, job := range jobs {
		kubeconfig, err := job.Kubeconfig(b.t.Context())
		job.Do(b.t.Context(), kubeconfig, err)
	}
}

func conditionOf(reason string) genericcondition.GenericCondition {
	return genericcondition.GenericCondition{Type: conditions.Imported, Status: corev1.ConditionFalse, Reason: reason, Message: "m"}
}

func refused(c *fleet.Cluster, reason string) {
	conditions.Set(&c.Status.Conditions, time.Unix(0, 0), conditionOf(reason))
}

func TestWhileAClusterIsAsked_ItIsNotAskedAgain(t *testing.T) {
	b := newBench(t)
	b.Put(kubeconfigSecret())
	b.have(capiCluster())
	jobs := b.holdJobs()
	b.decide()
	b.have(capiCluster(func(c *capirule.Cluster) { c.UID = "capi-2" }))
	b.decide()
	if len(*jobs) != 1 {
		t.Fatalf("%d jobs", len(*jobs))
	}
	b.runJobs(*jobs)
	b.decide() // the answer was for the earlier one of the name
	if len(*jobs) != 2 {
		t.Fatalf("%d jobs", len(*jobs))
	}
}

// An earlier release recorded nothing. The clusters of these imports are asked before another one is registered.
func TestImportsOfEarlierReleases_AreAskedOnceWhichOnesTheyAre(t *testing.T) {
	for name, test := range map[string]struct {
		behind map[string]types.UID // by kubeconfig
		want   []string
	}{
		"one is the same cluster":  {map[string]types.UID{"a kubeconfig": "system-1", "mine": "system-1", "other": "system-2"}, []string{"patch Cluster team-a/mine"}},
		"none is the same cluster": {map[string]types.UID{"a kubeconfig": "system-1", "mine": "system-3", "other": "system-2"}, []string{"create Cluster team-a/east"}},
		"one does not answer":      {map[string]types.UID{"a kubeconfig": "system-1", "mine": "", "other": "system-2"}, []string{"create Cluster team-a/east"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			asked := map[string]int{}
			b.App.Dial = func(_ context.Context, kubeconfig []byte, _ string, _ bool) (hub.Downstream, error) {
				asked[string(kubeconfig)]++
				b.behind, b.silent = test.behind[string(kubeconfig)], nil
				if b.behind == "" {
					b.silent = errServer
				}
				return cluster{b: b}, nil
			}
			b.Put(kubeconfigSecret())
			for _, hand := range []string{"mine", "other"} {
				objects := imported(ws, hand, "")
				objects[0].(*fleet.Cluster).Spec.KubeConfigSecret = hand
				b.Put(objects...)
				b.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: hand}, Data: map[string][]byte{"value": []byte(hand)}})
			}
			b.have(capiCluster())
			var requests []string
			for range 4 {
				b.decide()
				for _, request := range b.Requests() {
					if !strings.HasPrefix(request, "get ") && !strings.HasPrefix(request, "patch Namespace ") && !strings.HasPrefix(request, "update ") {
						requests = append(requests, request)
					}
				}
				b.Sync()
			}
			if diff := cmp.Diff(test.want, requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]int{"a kubeconfig": 1, "mine": 1, "other": 1}, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			recorded := hubtest.MustGet[*corev1.Namespace](t, b.Hub, "", names.ClusterNamespace(ws, "other")).Annotations[annotation.SystemUID]
			if recorded != "system-2" {
				t.Errorf("recorded %q", recorded)
			}
		})
	}
}
