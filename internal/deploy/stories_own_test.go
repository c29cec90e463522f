package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/release"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/release/objects"
	"github.com/fleet-hub/fleet/internal/deploy/watch"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// agentBundle returns the agent's own bundle with these settings.
func agentBundle(t *testing.T, v importing.AgentValues) bundle {
	t.Helper()
	manifest, err := agentchart.Manifest(v)
	if err != nil {
		t.Fatal(err)
	}
	options := deploytest.InNamespace(v.Namespace)
	options.Helm.TakeOwnership = true
	return bundle{Name: "fleet-agent-east", Files: map[string]string{agentchart.ManifestName: string(manifest)}, Options: options}
}

// marks are the labels and annotations that an import, or a release of the agent's chart, sets on an object.
type marks struct {
	labels, annotations map[string]string
}

func importMarks() marks {
	return marks{
		labels:      map[string]string{fleet.LabelSetHash: placement.AgentSet("").Hash},
		annotations: map[string]string{fleet.AnnotationSetID: names.AgentBootstrap},
	}
}

func chartMarks(namespace string) marks {
	return marks{
		labels:      map[string]string{"app.kubernetes.io/managed-by": "Helm"},
		annotations: map[string]string{objects.ReleaseNameAnnotation: "fleet-agent", objects.ReleaseNamespaceAnnotation: namespace},
	}
}

// resourceOf returns the resource of a kind in the agent's chart, and whether it is namespaced.
func resourceOf(kind string) (string, bool) {
	served := map[string]string{
		"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "ServiceAccount": "serviceaccounts",
		"Deployment": "deployments", "NetworkPolicy": "networkpolicies", "ConfigMap": "configmaps",
	}[kind]
	return served, !strings.HasPrefix(kind, "Cluster")
}

// clientFor returns a client for objects of one kind on east.
func (l *lab) clientFor(object *unstructured.Unstructured) dynamic.ResourceInterface {
	served, namespaced := resourceOf(object.GetKind())
	resource := dynamic.NewForConfigOrDie(l.local).Resource(object.GroupVersionKind().GroupVersion().WithResource(served))
	if namespaced {
		return resource.Namespace(object.GetNamespace())
	}
	return resource
}

// install applies an agent's objects on east with server-side apply, like an import.
func (l *lab) install(objects []runtime.Object, m marks) (refs []*unstructured.Unstructured) {
	l.t.Helper()
	for _, object := range objects {
		text, err := json.Marshal(object)
		if err != nil {
			l.t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(text, &u.Object); err != nil {
			l.t.Fatal(err)
		}
		delete(u.Object, "status")
		u.SetLabels(maps.Clone(m.labels))
		u.SetAnnotations(maps.Clone(m.annotations))
		if _, err := l.clientFor(u).Apply(l.t.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			l.t.Fatal(err)
		}
		refs = append(refs, u)
	}
	return refs
}

// identities returns the UID and the content of objects without metadata and status, by kind and name.
func (l *lab) identities(refs []*unstructured.Unstructured) map[string]any {
	l.t.Helper()
	found := map[string]any{}
	for _, ref := range refs {
		live, err := l.clientFor(ref).Get(l.t.Context(), ref.GetName(), metav1.GetOptions{})
		if err != nil {
			l.t.Fatal(err)
		}
		fields := live.Object
		fields["metadata"] = live.GetUID()
		delete(fields, "status")
		found[ref.GetKind()+" "+ref.GetName()] = fields
	}
	return found
}

func TestAgentAdoptsItself_NothingChanges(t *testing.T) {
	t.Parallel()
	tests := map[string]func(namespace string) marks{
		"after an import":                func(string) marks { return importMarks() },
		"after helm install fleet-agent": chartMarks,
		"after kubectl apply":            func(string) marks { return marks{} },
	}
	for name, installed := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "own-"+strings.Fields(name)[1]+strings.Fields(name)[2])
			values := deploytest.AgentIn(l.Name)
			imported := values
			imported.Config = &config.Agent{ClientID: "client"}
			objects, err := agentchart.Render(imported)
			if err != nil {
				t.Fatal(err)
			}
			refs := l.install(objects, installed(l.Name))
			before := l.identities(refs)

			l.start()
			l.apply(agentBundle(t, values))
			l.expectStatus("fleet-agent-east", ready)
			if diff := cmp.Diff(before, l.identities(refs)); diff != "" {
				t.Errorf("UIDs and specs (-before +after):\n%s", diff)
			}
			for _, ref := range refs {
				if ref.GetKind() != "ConfigMap" { // no part of the bundle
					l.expectTakenOver(ref)
				}
			}
			if got := l.revisionsOf(l.Name, "fleet-agent-east"); !slices.Equal(got, []string{"1 deployed"}) {
				t.Errorf("revisions %q", got)
			}
		})
	}
}

// expectTakenOver compares the marks of an object with the recorded ones.
func (l *lab) expectTakenOver(ref *unstructured.Unstructured) {
	l.t.Helper()
	live, err := l.clientFor(ref).Get(l.t.Context(), ref.GetName(), metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	annotations := live.GetAnnotations()
	delete(annotations, "deployment.kubernetes.io/revision")
	want := marks{
		labels: map[string]string{"app.kubernetes.io/managed-by": "Helm", fleet.LabelSetHash: "f399d0b310fbfb28e9667312fdc7a33954e2b8c8"},
		annotations: map[string]string{
			objects.ReleaseNameAnnotation: "fleet-agent-east", objects.ReleaseNamespaceAnnotation: l.Name, fleet.AnnotationSetID: "fleet-agent-bootstrap",
		},
	}
	if diff := cmp.Diff(want, marks{live.GetLabels(), annotations}, cmp.AllowUnexported(marks{})); diff != "" {
		l.t.Errorf("marks of %s (-want +got):\n%s", ref.GetKind(), diff)
	}
}

func TestDeletedAgentObjects_AreRestored(t *testing.T) {
	t.Parallel()
	l := newLab(t, "own-repair")
	l.start()
	l.apply(agentBundle(t, deploytest.AgentIn(l.Name)))
	l.expectStatus("fleet-agent-east", ready)
	policies := l.East.NetworkingV1().NetworkPolicies(l.Name)
	if err := policies.Delete(t.Context(), "default-allow-all", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.eventually(func() string {
		if _, err := policies.Get(t.Context(), "default-allow-all", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	bd := l.expectStatus("fleet-agent-east", ready)
	if !strings.HasSuffix(bd.Status.Release, ":2") {
		t.Errorf("release %s", bd.Status.Release)
	}
	// The labels identify the object.
	account, err := l.East.CoreV1().ServiceAccounts(l.Name).Get(t.Context(), "fleet-agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	account.Labels = nil
	if _, err := l.East.CoreV1().ServiceAccounts(l.Name).Update(t.Context(), account, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	l.eventually(func() string {
		if bd := l.get("fleet-agent-east"); !strings.HasSuffix(bd.Status.Release, ":3") {
			return "release " + bd.Status.Release
		}
		return ""
	})
	l.expectStatus("fleet-agent-east", ready)
}

func TestPutRight(t *testing.T) {
	t.Parallel()
	gone := fleet.ModifiedStatus{Kind: "ConfigMap", Namespace: "web", Name: "cm", Missing: true}
	changed := fleet.ModifiedStatus{Kind: "ConfigMap", Namespace: "web", Name: "cm", Patch: "{}"}
	old, current := int64(1), int64(2)
	tests := map[string]struct {
		name     string
		options  fleet.BundleDeploymentOptions
		modified []fleet.ModifiedStatus
		synced   *int64
		repair   repair
		applied  string // "a" if not said
		// again and later are the expected redeployment: at once, or after a pause.
		again bool
		later []string
	}{
		"other bundle, object changed: is not repaired":          {name: "x", modified: []fleet.ModifiedStatus{changed}},
		"other bundle, object missing: is not repaired":          {name: "x", modified: []fleet.ModifiedStatus{gone}},
		"agent unmodified: is not repaired":                      {name: "fleet-agent-east"},
		"agent not deployed: is not repaired":                    {name: "fleet-agent-east", applied: "b", modified: []fleet.ModifiedStatus{gone}},
		"agent, object missing: is repaired after a pause":       {name: "fleet-agent-east", modified: []fleet.ModifiedStatus{gone}, later: []string{"fleet-agent-east after 5s"}},
		"agent, object missing since the pause: is repaired":     {name: "fleet-agent-east", modified: []fleet.ModifiedStatus{gone}, repair: repair{at: deploytest.Noon()}, again: true, later: []string{"fleet-agent-east after 0s"}},
		"agent, repaired without effect: pause increases":        {name: "fleet-agent-east", modified: []fleet.ModifiedStatus{changed}, repair: repair{tries: 2}, later: []string{"fleet-agent-east after 20s"}},
		"agent, repaired without effect often: pause is limited": {name: "fleet-agent-east", modified: []fleet.ModifiedStatus{changed}, repair: repair{tries: 20}, later: []string{"fleet-agent-east after 10m0s"}},
		"sync forced for the first time: is repaired":            {name: "x", options: fleet.BundleDeploymentOptions{ForceSyncGeneration: 2}, modified: []fleet.ModifiedStatus{changed}, again: true, later: []string{"x after 0s"}},
		"sync forced again: is repaired":                         {name: "x", options: fleet.BundleDeploymentOptions{ForceSyncGeneration: 2}, synced: &old, modified: []fleet.ModifiedStatus{changed}, again: true, later: []string{"x after 0s"}},
		"sync forced before: is not repaired":                    {name: "x", options: fleet.BundleDeploymentOptions{ForceSyncGeneration: 2}, synced: &current, modified: []fleet.ModifiedStatus{changed}},
		"sync forced just now, without effect: is not repaired":  {name: "x", options: fleet.BundleDeploymentOptions{ForceSyncGeneration: 2}, synced: &old, repair: repair{forced: 2}, modified: []fleet.ModifiedStatus{changed}},
		"sync forced, unmodified: is not repaired":               {name: "x", options: fleet.BundleDeploymentOptions{ForceSyncGeneration: 2}, synced: &old},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			now := deploytest.Noon()
			d, queue := testDeployer(&now)
			applied := "a"
			if test.applied != "" {
				applied = test.applied
			}
			bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Name: test.name}, Spec: fleet.BundleDeploymentSpec{DeploymentID: "a", Options: test.options}}
			status := &fleet.BundleDeploymentStatus{AppliedDeploymentID: applied, ModifiedStatus: test.modified}
			r := &record{repair: test.repair}
			if err := d.repairModified(t.Context(), bd, r, test.synced, status); err != nil {
				t.Fatal(err)
			}
			if again := status.AppliedDeploymentID == ""; again != test.again || again != r.again {
				t.Errorf("again: %t, %t", again, r.again)
			}
			if diff := cmp.Diff(test.later, queue.later); diff != "" {
				t.Errorf("later:\n%s", diff)
			}
		})
	}
}

func overwrites(kind, namespace, name string) fleet.BundleDeploymentOptions {
	return fleet.BundleDeploymentOptions{Overwrites: []fleet.OverwrittenResource{{Kind: kind, Namespace: namespace, Name: name}}}
}

// TestForcedSync_RestoresModifiedObjects has a bundle whose drift is only reported. When the hub forces a sync, it
// is deployed again, once.
func TestForcedSync_RestoresModifiedObjects(t *testing.T) {
	t.Parallel()
	l := newLab(t, "forced")
	l.start()
	options := deploytest.InNamespace(l.Name)
	files := map[string]string{"cm.yaml": deploytest.ConfigMapYAML}
	id := l.apply(bundle{Name: "x", Files: files, Options: options}).Spec.DeploymentID
	l.expectStatus("x", ready)
	if err := l.East.CoreV1().ConfigMaps(l.Name).Delete(t.Context(), "cm", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.expectStatus("x", says(conditions.Ready, "cm missing"))
	options.ForceSyncGeneration = 7
	l.apply(bundle{Name: "x", Files: files, Options: options, Change: func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID = id }})
	bd := l.expectStatus("x", func(bd *fleet.BundleDeployment) string {
		if bd.Status.SyncGeneration == nil || *bd.Status.SyncGeneration != 7 {
			return "not synced"
		}
		return ready(bd)
	})
	if bd.Status.Release != l.Name+"/x:2" {
		t.Errorf("release %s", bd.Status.Release)
	}
}

// TestOverwrittenObjectDeleted_IsRestored deletes the bundle that owned an object before another bundle overwrote
// it. So many other objects are missing that the status does not list this one.
func TestOverwrittenObjectDeleted_IsRestored(t *testing.T) {
	t.Parallel()
	l := newLab(t, "overwrites")
	l.start()
	options := overwrites("ConfigMap", l.Name, "cm")
	options.DefaultNamespace = l.Name
	files, others := map[string]string{"cm.yaml": deploytest.ConfigMapYAML}, []string{}
	for i := range watch.ListLimit {
		name := fmt.Sprintf("a-%d", i)
		others = append(others, name)
		files[name+".yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
	}
	l.apply(bundle{Name: "x", Files: files, Options: options})
	l.expectStatus("x", ready)
	for _, name := range append(others, "cm") {
		if err := l.East.CoreV1().ConfigMaps(l.Name).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	l.eventually(func() string {
		if !l.configMapIsThere(l.Name, "cm") {
			return "it has not come back"
		}
		return ""
	})
	l.expectStatus("x", ready)
}

// TestInterruptedChangeReverted_ObjectsAreRestored kills the agent during a change, which the hub then reverts.
func TestInterruptedChangeReverted_ObjectsAreRestored(t *testing.T) {
	t.Parallel()
	l := newLab(t, "own-cut")
	l.start()
	values := deploytest.AgentIn(l.Name)
	l.apply(agentBundle(t, values))
	before := l.expectStatus("fleet-agent-east", ready)
	l.halt()

	changed := values
	changed.Env = []corev1.EnvVar{{Name: "HALF", Value: "done"}}
	manifest, err := agentchart.Manifest(changed)
	if err != nil {
		t.Fatal(err)
	}
	l.store(l.Name, "fleet-agent-east", "fleet-agent-east", 2, release.StatusPendingUpgrade, string(manifest))
	objects, err := agentchart.Render(changed)
	if err != nil {
		t.Fatal(err)
	}
	l.install(objects, importMarks())

	l.start()
	l.eventually(func() string {
		if bd := l.get("fleet-agent-east"); !strings.HasSuffix(bd.Status.Release, ":3") {
			return "release " + bd.Status.Release
		}
		return ""
	})
	after := l.expectStatus("fleet-agent-east", ready)
	if after.Spec.DeploymentID != before.Spec.DeploymentID {
		t.Fatalf("the BundleDeployment was changed: %v", after.Spec)
	}
	for _, found := range l.revisionsOf(l.Name, "fleet-agent-east") {
		if strings.Contains(found, "pending") {
			t.Errorf("revision %s", found)
		}
	}
	deployment, err := l.East.AppsV1().Deployments(l.Name).Get(t.Context(), "fleet-agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "HALF" {
			t.Error("the half of a change is still there")
		}
	}
}

// TestFailedUpgradeReverted_ObjectsAreRestored does the same within one process, for a bundle of a user.
func TestFailedUpgradeReverted_ObjectsAreRestored(t *testing.T) {
	t.Parallel()
	l := newLab(t, "own-undo")
	l.start()
	files := map[string]string{"a.yaml": deploytest.ConfigMapYAML}
	l.apply(bundle{Name: "x", Files: files, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	// The ConfigMap is changed before the API server rejects the Service.
	l.apply(bundle{Name: "x", Options: deploytest.InNamespace(l.Name), Files: map[string]string{
		"a.yaml": strings.Replace(deploytest.ConfigMapYAML, "a: b", "a: half", 1),
		"b.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{port: 100000}]}\n",
	}})
	l.expectStatus("x", says(conditions.Deployed, "100000"))
	l.apply(bundle{Name: "x", Files: files, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	l.eventually(func() string {
		found, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "cm", metav1.GetOptions{})
		if err != nil || found.Data["a"] != "b" {
			return "the ConfigMap is still as the failed upgrade left it"
		}
		return ""
	})
}

func TestAgentBundleDeleted_AgentStays(t *testing.T) {
	t.Parallel()
	l := newLab(t, "own-forget")
	l.start()
	l.apply(agentBundle(t, deploytest.AgentIn(l.Name)))
	l.expectStatus("fleet-agent-east", ready)
	l.delete("fleet-agent-east")
	l.expectNoRelease(l.Name, "fleet-agent-east")
	for name, get := range map[string]func(context.Context) error{
		"the Deployment": func(ctx context.Context) error {
			_, err := l.East.AppsV1().Deployments(l.Name).Get(ctx, "fleet-agent", metav1.GetOptions{})
			return err
		},
		"its account": func(ctx context.Context) error {
			_, err := l.East.CoreV1().ServiceAccounts(l.Name).Get(ctx, "fleet-agent", metav1.GetOptions{})
			return err
		},
		"its role": func(ctx context.Context) error {
			_, err := l.East.RbacV1().ClusterRoles().Get(ctx, names.SafeConcat(l.Name, "fleet-agent", "role"), metav1.GetOptions{})
			return err
		},
	} {
		if err := get(t.Context()); apierrors.IsNotFound(err) || err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// When the agent is managed again, it is adopted again.
	l.apply(agentBundle(t, deploytest.AgentIn(l.Name)))
	l.expectStatus("fleet-agent-east", ready)
}

func TestAgentUpgrade_KeepsSettingsOfAdmin(t *testing.T) {
	t.Parallel()
	l := newLab(t, "own-keep")
	given := deploytest.AsInstalled(t, l.Name, deploytest.EverySetting())
	refs := l.install([]runtime.Object{given}, chartMarks(l.Name))
	store := func(revision int, object *unstructured.Unstructured) {
		text, err := manifest.Format([]*unstructured.Unstructured{object})
		if err != nil {
			t.Fatal(err)
		}
		l.store(l.Name, "fleet-agent", "", revision, release.StatusDeployed, string(text))
	}
	store(1, given)
	before := l.identities(refs)

	l.start()
	l.apply(agentBundle(t, deploytest.AgentIn(l.Name)))
	l.expectStatus("fleet-agent-east", ready)
	if diff := cmp.Diff(before, l.identities(refs)); diff != "" {
		t.Errorf("UIDs and specs (-before +after):\n%s", diff)
	}
	if got := l.revisionsOf(l.Name, "fleet-agent-east"); !slices.Equal(got, []string{"1 deployed"}) {
		t.Errorf("revisions %q", got)
	}

	// After an upgrade of the admin's release, its settings apply with the next change by the hub.
	changed := deploytest.AsInstalled(t, l.Name, map[string]any{"proxy": "http://other:3128", "debug": true})
	store(2, changed)
	l.install([]runtime.Object{changed}, chartMarks(l.Name))
	settings := deploytest.AgentIn(l.Name)
	settings.CheckinInterval = "1m0s"
	l.halt()
	l.apply(agentBundle(t, settings))
	l.start()
	l.eventually(func() string {
		live, err := l.East.AppsV1().Deployments(l.Name).Get(t.Context(), "fleet-agent", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		container := live.Spec.Template.Spec.Containers[0]
		if len(container.Command) != 1 || *live.Spec.Replicas != 1 || !slices.Contains(container.Env, corev1.EnvVar{Name: "CHECKIN_INTERVAL", Value: "1m0s"}) {
			return fmt.Sprintf("the Deployment is not the hub's: %v", live.Spec)
		}
		if !slices.Contains(container.Env, corev1.EnvVar{Name: "HTTPS_PROXY", Value: "http://other:3128"}) {
			return "the new proxy is lost"
		}
		return ""
	})
	l.expectStatus("fleet-agent-east", ready)
}

// A bundle labels the namespaces of a cluster, with that of the agent among them. The agent would be deleted with it.
func TestBundleBringsTheAgentsNamespace_NamespaceStays(t *testing.T) {
	t.Parallel()
	l := newLab(t, "own-namespace")
	l.start()
	other := l.Name + "-other"
	namespace := func(name string) string {
		return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + ", labels: {team: a}}\n"
	}
	options := deploytest.InNamespace(other)
	options.Helm.TakeOwnership = true
	for _, name := range []string{"deleted", "changed"} {
		options.Helm.ReleaseName = name
		files := map[string]string{
			"agent.yaml": namespace(l.Name), "more.yaml": namespace(l.Name + "-" + name), "cm.yaml": strings.Replace(deploytest.ConfigMapYAML, "name: cm", "name: "+name, 1),
		}
		l.apply(bundle{Name: name, Files: files, Options: options})
		l.expectStatus(name, ready)
		if name == "changed" {
			delete(files, "agent.yaml")
			delete(files, "more.yaml")
			l.apply(bundle{Name: name, Files: files, Options: options})
			l.expectStatus(name, func(bd *fleet.BundleDeployment) string {
				if bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID || len(bd.Status.ModifiedStatus) != 0 && bd.Status.ModifiedStatus[0].Name != l.Name+"-changed" {
					return "not applied, or modified"
				}
				return ""
			})
		}
		l.delete(name)
		l.expectNoRelease(other, name)
		l.eventually(func() string {
			found, err := l.East.CoreV1().Namespaces().Get(t.Context(), l.Name+"-"+name, metav1.GetOptions{})
			if err == nil && found.DeletionTimestamp == nil {
				return "the other namespace is there"
			}
			return ""
		})
		if found, err := l.East.CoreV1().Namespaces().Get(t.Context(), l.Name, metav1.GetOptions{}); err != nil || found.DeletionTimestamp != nil {
			t.Fatalf("%s: the namespace of the agent is being deleted: %v", name, err)
		}
	}
}

// TestAgentUpgrade_GoesOnWithoutUnknownFields sets a field that the API server does not know, as settings for a later version of
// Kubernetes do. The agent reports it, also after its restart.
func TestAgentUpgrade_GoesOnWithoutUnknownFields(t *testing.T) {
	t.Parallel()
	l := newLab(t, "own-unknown")
	l.start()
	l.apply(bundle{Name: "crd", Options: deploytest.InNamespace(l.Name), Files: map[string]string{"crd.yaml": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.own.example.com}
spec:
  group: own.example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}]
`}})
	l.expectStatus("crd", ready)
	own := agentBundle(t, deploytest.AgentIn(l.Name))
	own.Files["thing.yaml"] = "apiVersion: own.example.com/v1\nkind: Thing\nmetadata: {name: x, namespace: " + l.Name + "}\nspec: {size: 1, new: 2}\n"
	own.Files["cm.yaml"] = deploytest.ConfigMapYAML + "date: {a: b}\n"
	l.apply(own)
	reported := func(bd *fleet.BundleDeployment) string {
		if missing := ready(bd); missing != "" {
			return missing
		}
		want := "does not keep these fields of thing.own.example.com " + l.Name + `/x: {"spec":{"new":2}}`
		if got := conditions.Get(bd.Status.Conditions, conditions.Monitored).Message; !strings.Contains(got, want) {
			return "the condition is " + got
		}
		return ""
	}
	l.expectStatus("fleet-agent-east", reported)
	l.halt()
	l.patchStatus("fleet-agent-east", `{"status":{"conditions":null}}`)
	l.start()
	l.expectStatus("fleet-agent-east", reported)
	own.Files["thing.yaml"] = strings.Replace(own.Files["thing.yaml"], ", new: 2", "", 1)
	l.apply(own)
	l.expectStatus("fleet-agent-east", func(bd *fleet.BundleDeployment) string {
		if got := conditions.Get(bd.Status.Conditions, conditions.Monitored).Message; got != "" {
			return "the condition is " + got
		}
		return ready(bd)
	})
}
