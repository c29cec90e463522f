package bundles_test

import (
	"math/rand"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/rules/templating"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// customised is a target with a value of its own.
func customised(target fleet.BundleTarget, value string) fleet.BundleTarget {
	target.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"who": value}}}
	return target
}

func withTargets(targets ...fleet.BundleTarget) func(*fleet.Bundle) {
	return func(b *fleet.Bundle) { b.Spec.Targets = targets }
}

func restrictedTo(restrictions ...fleet.BundleTargetRestriction) func(*fleet.Bundle) {
	return func(b *fleet.Bundle) { b.Spec.TargetRestrictions = restrictions }
}

func ofGroup(name string) fleet.BundleTarget {
	return fleet.BundleTarget{Name: name, ClusterGroup: name}
}

// restrictedGroup is the restriction that goes with ofGroup.
func restrictedGroup(name string) fleet.BundleTargetRestriction {
	return fleet.BundleTargetRestriction{Name: name, ClusterGroup: name}
}

// threeOfTwo are clusters one, two and three, with groups first (one) and all.
func threeOfTwo(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	for _, name := range []string{"one", "two", "three"} {
		w.cluster(t, name, map[string]string{"n": name, "all": "yes"})
	}
	w.group(t, "first", byLabel("n", "one"), nil)
	w.group(t, "second", byLabel("n", "two"), nil)
	w.group(t, "all", byLabel("all", "yes"), nil)
	return w
}

func TestChangedTargetsAndRestrictions_AreApplied(t *testing.T) {
	w := threeOfTwo(t)
	everyone := ofGroup("all")
	everyone.Name = "everyone"
	w.bundle(t, "web",
		withTargets(customised(ofGroup("first"), "the first"), customised(everyone, "all"), ofGroup("all")), restrictedTo(restrictedGroup("all")))
	for cluster, who := range map[string]string{"one": "the first", "two": "all", "three": "all"} {
		w.expectValues(t, w.deployment(t, "web", cluster, "its BundleDeployment", exists), `{"who":"`+who+`"}`)
	}

	t.Run("fewer clusters", func(t *testing.T) {
		one := w.deployment(t, "web", "one", "the one that stays", exists)
		w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{
			"targets":            []any{customised(ofGroup("first"), "the first"), customised(everyone, "all"), ofGroup("first")},
			"targetRestrictions": []any{restrictedGroup("first")},
		}})
		w.expectGone(t, "web", "two")
		w.expectGone(t, "web", "three")
		if after := w.deployment(t, "web", "one", "the one that stays", exists); after.UID != one.UID {
			t.Error("it was made anew")
		}
	})
	t.Run("doNotDeploy", func(t *testing.T) {
		never := everyone
		never.DoNotDeploy = true
		w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"targets": []any{never, ofGroup("first")}}})
		w.expectGone(t, "web", "one")
		second := ofGroup("second")
		second.DoNotDeploy = true
		w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{
			"targets": []any{second, ofGroup("all")}, "targetRestrictions": []any{restrictedGroup("all")},
		}})
		w.deployment(t, "web", "one", "its BundleDeployment", exists)
		w.deployment(t, "web", "three", "its BundleDeployment", exists)
		w.expectNone(t, "web", "two")
	})
	t.Run("all that match", func(t *testing.T) {
		also := ofGroup("first")
		also.Name, also.Helm = "also", &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"also": true}}}
		w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{
			"targetCustomizationMode": "AllMatches", "targets": []any{customised(everyone, "all"), also, ofGroup("all")},
		}})
		for cluster, values := range map[string]string{"one": `{"also":true,"who":"all"}`, "two": `{"who":"all"}`} {
			w.deployment(t, "web", cluster, "its values", hasValues(values))
		}
	})
}

func TestMissingClusterGroup_IsReportedAndDeploymentsStay(t *testing.T) {
	w := threeOfTwo(t)
	w.bundle(t, "web", withTargets(ofGroup("first")))
	before := w.deployment(t, "web", "one", "its BundleDeployment", exists)
	told := func(status corev1.ConditionStatus, reason, message string) {
		t.Helper()
		w.bundleThat(t, "web", "what is said of its targets", func(b *fleet.Bundle) bool {
			condition := conditions.Get(b.Status.Conditions, conditions.TargetsKnown)
			return condition != nil && condition.Status == status && condition.Reason == reason && condition.Message == message
		})
	}
	must(t, w.Delete(t.Context(), client.ClusterGroups, w.workspace, "first"))
	told("False", "ClusterGroupUnknown", "spec.targets[0] (first): clusterGroup first: there is no such ClusterGroup in "+w.workspace+
		"; create it or name another: until then, what only it selects stays as it is, and clusters that another target selects follow that target")
	if after := w.deployment(t, "web", "one", "what was there", exists); after.UID != before.UID || after.DeletionTimestamp != nil {
		t.Errorf("what was deployed was touched: %+v", after)
	}
	w.group(t, "first", byLabel("n", "two"), nil)
	told("True", "", "")
	w.deployment(t, "web", "two", "that of the new member", exists)
	w.expectGone(t, "web", "one")
}

func TestTargetNamesAnAbsentCluster_IsReportedUntilItExists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The selector does not match, so nothing is deployed: only the name counts.
	w.bundle(t, "web", withTargets(fleet.BundleTarget{ClusterName: "one", ClusterSelector: byLabel("n", "other")}))
	reported := func(status corev1.ConditionStatus, reason string) {
		t.Helper()
		w.bundleThat(t, "web", "its condition TargetsKnown", func(b *fleet.Bundle) bool {
			condition := conditions.Get(b.Status.Conditions, conditions.TargetsKnown)
			return condition != nil && condition.Status == status && condition.Reason == reason &&
				strings.HasPrefix(condition.Message, "spec.targets[0]: clusterName one: there is no such Cluster in "+w.workspace) == (status == "False")
		})
	}
	reported("False", "AwaitingTargetCluster")
	w.cluster(t, "one", nil)
	reported("True", "")
	must(t, w.Delete(t.Context(), client.Clusters, w.workspace, "one"))
	reported("False", "AwaitingTargetCluster")
}

func dependingOn(names ...string) func(*fleet.Bundle) {
	return func(b *fleet.Bundle) {
		for _, name := range names {
			b.Spec.DependsOn = append(b.Spec.DependsOn, fleet.BundleRef{Name: name, AcceptedStates: []fleet.BundleState{fleet.Ready, fleet.Modified}})
		}
	}
}

func TestDependencies_AreCopiedAndCyclesReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", nil)
	w.bundle(t, "db", to("one"))
	w.bundle(t, "web", to("one"), dependingOn("db"))
	bd := w.deployment(t, "web", "one", "what it depends on", func(bd *fleet.BundleDeployment) bool { return len(bd.Spec.DependsOn) == 1 })
	if got := bd.Spec.DependsOn[0]; got.Name != "db" || len(got.AcceptedStates) != 2 {
		t.Errorf("it depends on %+v", got)
	}
	ofTheCircle := func(b *fleet.Bundle) bool {
		ready := conditions.Get(b.Status.Conditions, conditions.Ready)
		return ready != nil && ready.Reason == "DependsOnCircle" && strings.HasPrefix(ready.Message, "dependsOn: "+b.Name+" → ")
	}
	w.patch(t, client.Bundles, "db", map[string]any{"spec": map[string]any{"dependsOn": []any{map[string]any{"name": "web"}}}})
	w.bundleThat(t, "db", "the circle", ofTheCircle)
	w.bundleThat(t, "web", "the circle", ofTheCircle)
	w.deployment(t, "db", "one", "it is still there", func(bd *fleet.BundleDeployment) bool { return bd.DeletionTimestamp == nil })

	w.patch(t, client.Bundles, "db", map[string]any{"spec": map[string]any{"dependsOn": nil}})
	for _, name := range []string{"db", "web"} {
		w.bundleThat(t, name, "the end of the circle", func(b *fleet.Bundle) bool {
			message, _ := readyMessage(b)
			return strings.HasPrefix(message, "WaitApplied(1)")
		})
	}
}

func TestTooLongNames_AreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("a", 64)
	w.cluster(t, "one", nil)
	w.bundle(t, long, to("one"))
	w.bundleThat(t, long, "the reason", func(b *fleet.Bundle) bool {
		message, _ := readyMessage(b)
		return strings.HasPrefix(message, "targeting error: metadata.name is too long: ")
	})
	w.bundle(t, strings.Repeat("b", 63), to("one"))
	w.deployment(t, strings.Repeat("b", 63), "one", "its BundleDeployment", exists)

	far := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.workspace, Name: long}}
	must(t, w.Create(t.Context(), client.Clusters, far))
	w.patchStatus(t, client.Clusters, w.workspace, long, map[string]any{"namespace": w.namespaceOf(long)})
	w.bundle(t, "web", everywhere)
	w.deployment(t, "web", "one", "the other goes on", exists)
	w.bundleThat(t, "web", "the reason", func(b *fleet.Bundle) bool {
		message, _ := readyMessage(b)
		return strings.Contains(message, "[Cluster "+w.workspace+"/"+long+": targeting error: cluster "+long+" in namespace "+w.workspace+": metadata.name is too long: ")
	})
}

func TestTooLargeValues_AreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", map[string]string{"size": "1"})
	w.cluster(t, "two", map[string]string{"size": "1"})
	w.bundle(t, "web", everywhere, values("text", "${ repeat (atoi .ClusterLabels.size) \"x\" }"))
	one := w.deployment(t, "web", "one", "its BundleDeployment", exists)
	w.label(t, client.Clusters, "one", "size", "600000")
	w.bundleThat(t, "web", "the reason", func(b *fleet.Bundle) bool {
		message, _ := readyMessage(b)
		return strings.Contains(message, "/one: targeting error: helm.values: the values in use and the staged values together exceed 1 MiB")
	})
	w.label(t, client.Clusters, "two", "size", "2")
	w.expectValues(t, w.deployment(t, "web", "two", "the other goes on", hasValues(`{"text":"xx"}`)), `{"text":"xx"}`)
	if after := w.deployment(t, "web", "one", "what it had", exists); after.UID != one.UID || after.Spec.DeploymentID != one.Spec.DeploymentID {
		t.Errorf("what was deployed was touched: %+v", after.Spec)
	}
}

func TestEndlessTemplate_IsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", map[string]string{"n": "1"})
	w.cluster(t, "two", map[string]string{"n": "1000000000000"})
	w.bundle(t, "web", everywhere, values("text", "${ range (atoi .ClusterLabels.n) }x${ end }"))
	w.expectValues(t, w.deployment(t, "web", "one", "its BundleDeployment", exists), `{"text":"x"}`)
	w.bundleThat(t, "web", "the reason", func(b *fleet.Bundle) bool {
		message, _ := readyMessage(b)
		return strings.Contains(message, "/two: targeting error: ") && strings.Contains(message, templating.ErrTooMuchWork.Error())
	})
}

func TestTerminatingClusterNamespace_OthersContinue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", nil)
	w.cluster(t, "two", nil)
	w.bundle(t, "web", everywhere)
	one, two := w.deployment(t, "web", "one", "the first", exists), w.deployment(t, "web", "two", "the second", exists)
	must(t, w.Kube.CoreV1().Namespaces().Delete(t.Context(), w.namespaceOf("one"), metav1.DeleteOptions{}))
	w.bundle(t, "db", everywhere)
	w.deployment(t, "db", "two", "the other goes on", exists)
	w.bundleThat(t, "db", "the reason", func(b *fleet.Bundle) bool {
		message, _ := readyMessage(b)
		return strings.Contains(message, "/one: write error: ") && strings.Contains(message, "it is being terminated")
	})
	w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"forceSyncGeneration": 2}})
	after := w.deployment(t, "web", "two", "the change", func(bd *fleet.BundleDeployment) bool { return bd.Spec.Options.ForceSyncGeneration == 2 })
	if after.UID != two.UID {
		t.Error("the other one was made anew")
	}
	found := &fleet.BundleDeployment{}
	err := w.Get(t.Context(), client.BundleDeployments, w.namespaceOf("one"), "web", found)
	if err == nil && found.UID != one.UID || err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("the first is %+v, %v", found, err)
	}
}

func TestTooLargeContent_IsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", nil)
	// So much that the store takes the Bundle, and not the Content, which compresses it little and encodes it again.
	noise, random := make([]byte, 1_480_000), rand.New(rand.NewSource(1)) //nolint:gosec // the same each time
	for i := range noise {
		for noise[i] == 0 || strings.ContainsRune(`"\\<>&`, rune(noise[i])) {
			noise[i] = byte(' ' + random.Intn('~'-' '))
		}
	}
	w.bundle(t, "web", to("one"), func(b *fleet.Bundle) {
		b.Spec.Resources = []fleet.BundleResource{{Name: "noise.txt", Content: string(noise)}}
	})
	w.bundleThat(t, "web", "the reason", func(b *fleet.Bundle) bool {
		message, _ := readyMessage(b)
		return strings.HasPrefix(message, "targeting error: resources: their Content is larger than the API server accepts")
	})
	w.expectNone(t, "web", "one")
}

// TestReportsOfAnAgent_AreShownOnTheBundle checks the messages, because users search for them.
func TestReportsOfAnAgent_AreShownOnTheBundle(t *testing.T) {
	t.Parallel()
	service := func(change map[string]any) map[string]any {
		out := map[string]any{"kind": "Service", "apiVersion": "v1", "namespace": "ns", "name": "svc-test"}
		for key, value := range change {
			out[key] = value
		}
		return out
	}
	w := newWorld(t)
	w.cluster(t, "one", nil)
	w.bundle(t, "web", to("one"))
	bd := w.deployment(t, "web", "one", "its BundleDeployment", exists)
	tests := []struct {
		status  map[string]any
		message string
	}{
		{map[string]any{"nonModified": false, "modifiedStatus": []any{service(map[string]any{"patch": `{"spec":{"selector":{"a":"b"}}}`})}},
			`service.v1 ns/svc-test modified {"spec":{"selector":{"a":"b"}}}`},
		{map[string]any{"nonModified": false, "modifiedStatus": []any{service(map[string]any{"delete": true})}}, "service.v1 ns/svc-test extra"},
		{map[string]any{"nonModified": false, "modifiedStatus": []any{service(map[string]any{"missing": true})}}, "service.v1 ns/svc-test missing"},
		{map[string]any{"nonModified": false, "modifiedStatus": []any{service(map[string]any{"missing": true, "exist": true})}}, "service.v1 ns/svc-test is not owned by us"},
	}
	for _, test := range tests {
		w.report(t, bd, test.status)
		w.bundleThat(t, "web", test.message, func(b *fleet.Bundle) bool {
			message, _ := readyMessage(b)
			return message == "Modified(1) [Cluster "+w.workspace+"/one]; "+test.message && b.Status.Display.State == "Modified"
		})
	}
	w.report(t, bd, map[string]any{"modifiedStatus": nil})
	w.bundleThat(t, "web", "ready again", isReady)

	t.Run("errors of an earlier state are no longer reported", func(t *testing.T) {
		w.report(t, bd, map[string]any{"ready": false, "conditions": []any{
			map[string]any{"type": "Installed", "status": "False", "message": `unknown field "spec.nope"`},
		}})
		w.bundleThat(t, "web", "the failure", func(b *fleet.Bundle) bool {
			message, _ := readyMessage(b)
			return strings.Contains(message, "unknown field")
		})
		w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"forceSyncGeneration": 3}})
		w.bundleThat(t, "web", "that it waits", func(b *fleet.Bundle) bool {
			message, _ := readyMessage(b)
			return message == "WaitApplied(1) [Cluster "+w.workspace+"/one]"
		})
	})
}

func TestDownstreamResources_AreCopiedAndUpdated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", nil)
	w.cluster(t, "two", nil)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.workspace, Name: "creds"}, Type: "example.com/login", Data: map[string][]byte{"k": []byte("1")}}
	own := fleet.BundleTarget{ClusterName: "one"}
	own.DownstreamResources = []fleet.DownstreamResource{{Kind: "Secret", Name: "creds"}}
	w.bundle(t, "web", withTargets(own, fleet.BundleTarget{ClusterName: "two"}), func(b *fleet.Bundle) {
		b.Spec.DownstreamResources = []fleet.DownstreamResource{{Kind: "configmap", Name: "settings"}}
	})
	w.bundleThat(t, "web", "what is missing", func(b *fleet.Bundle) bool {
		message, _ := readyMessage(b)
		return strings.Contains(message, "/one: downstreamResources[0]: configmap settings: it does not exist in the Bundle's namespace]")
	})
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.workspace, Name: "settings"}, Data: map[string]string{"a": "b"}}
	_, err := w.Kube.CoreV1().ConfigMaps(w.workspace).Create(t.Context(), settings, metav1.CreateOptions{})
	must(t, err)
	_, err = w.Kube.CoreV1().Secrets(w.workspace).Create(t.Context(), secret, metav1.CreateOptions{})
	must(t, err)
	copiedTo := func(bd *fleet.BundleDeployment) bool { return bd.Spec.DownstreamResourcesGeneration > 0 }
	bd := w.deployment(t, "web", "one", "copies", copiedTo)
	w.deployment(t, "web", "two", "a copy", copiedTo)
	copied := func(value string) *corev1.Secret {
		var found *corev1.Secret
		NewWithT(t).Eventually(func(g Gomega) {
			var err error
			found, err = w.Kube.CoreV1().Secrets(w.namespaceOf("one")).Get(t.Context(), "creds", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(found.Data["k"])).To(Equal(value))
			g.Expect(found.Type).To(Equal(secret.Type))
			g.Expect(found.OwnerReferences).To(HaveExactElements(HaveField("UID", bd.UID)))
		}).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(Succeed())
		return found
	}
	first := copied("1")
	bd = w.deployment(t, "web", "one", "both copies", copiedTo)
	if _, err := w.Kube.CoreV1().Secrets(w.namespaceOf("two")).Get(t.Context(), "creds", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the other cluster has it too, or %v", err)
	}

	// Another type of the original cannot be had: the data is, and the copy stays of its type.
	must(t, w.Kube.CoreV1().Secrets(w.workspace).Delete(t.Context(), "creds", metav1.DeleteOptions{}))
	changed := secret.DeepCopy()
	changed.Type, changed.Data = "example.com/other", map[string][]byte{"k": []byte("2")}
	_, err = w.Kube.CoreV1().Secrets(w.workspace).Create(t.Context(), changed, metav1.CreateOptions{})
	must(t, err)
	if second := copied("2"); second.UID != first.UID {
		t.Error("the copy was made anew")
	}
	w.deployment(t, "web", "one", "that it changed", func(now *fleet.BundleDeployment) bool {
		return now.Spec.DownstreamResourcesGeneration > bd.Spec.DownstreamResourcesGeneration
	})
}

// TestEditedValues_AreRestored has an agent notice that the values are not those of the hash.
func TestEditedValues_AreRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", map[string]string{"n": "1"})
	w.bundle(t, "web", to("one"), w.confidential(t, "web", `{"a":1}`))
	bd := w.deployment(t, "web", "one", "its BundleDeployment", exists)
	w.expectSecret(t, bd, `{"a":1}`)
	secrets := w.Kube.CoreV1().Secrets(bd.Namespace)
	secret, err := secrets.Get(t.Context(), "web", metav1.GetOptions{})
	must(t, err)
	secret.Data["values"] = []byte(`{"a":666}`)
	_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	must(t, err)
	w.report(t, bd, map[string]any{"ready": false, "conditions": []any{
		map[string]any{"type": "Deployed", "status": "False", "reason": conditions.ReasonHelmValuesInvalid, "message": "hash mismatch"},
	}})
	w.bundleThat(t, "web", "what the agent says", func(b *fleet.Bundle) bool {
		message, _ := readyMessage(b)
		return strings.Contains(message, "hash mismatch")
	})
	w.expectSecret(t, bd, `{"a":1}`)
	next := &fleet.Bundle{}
	w.confidential(t, "web", `{"a":2}`)(next)
	w.patch(t, client.Bundles, "web", map[string]any{"spec": map[string]any{"valuesHash": next.Spec.ValuesHash}})
	bd = w.deployment(t, "web", "one", "other values", func(now *fleet.BundleDeployment) bool { return now.Spec.ValuesHash != bd.Spec.ValuesHash })
	w.expectSecret(t, bd, `{"a":2}`)
}
