package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// revisionsOf lists the Secrets of a release.
func (l *lab) revisionsOf(namespace, name string) []string {
	l.t.Helper()
	list, err := l.East.CoreV1().Secrets(namespace).List(l.t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=" + name})
	if err != nil {
		l.t.Fatal(err)
	}
	var found []string
	for _, secret := range list.Items {
		found = append(found, secret.Labels["version"]+" "+secret.Labels["status"])
	}
	return found
}

func (l *lab) configMapIsThere(namespace, name string) bool {
	l.t.Helper()
	_, err := l.East.CoreV1().ConfigMaps(namespace).Get(l.t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		l.t.Fatal(err)
	}
	return err == nil
}

func (l *lab) expectNoRelease(namespace, name string) {
	l.t.Helper()
	l.eventually(func() string {
		if found := l.revisionsOf(namespace, name); len(found) > 0 {
			return fmt.Sprintf("release %s is there: %v", name, found)
		}
		return ""
	})
}

func TestAgentRestarts_NothingChanges(t *testing.T) {
	t.Parallel()
	l := newLab(t, "restart")
	l.apply(bundle{Name: "x", Files: rawFiles(), Options: deploytest.InNamespace(l.Name)})
	l.start()
	before := l.expectStatus("x", ready)
	l.halt()
	l.start()
	// A second bundle shows that the first was reconciled: the first is ahead in the queue.
	l.apply(bundle{Name: "other", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("other", ready)
	if got := l.revisionsOf(l.Name, "x"); len(got) != 1 || got[0] != "1 deployed" {
		t.Errorf("revisions after a restart: %v", got)
	}
	if after := l.get("x"); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the status was written again:\n%v\n%v", before.Status, after.Status)
	}
	// The object is still watched.
	if err := l.East.CoreV1().ConfigMaps(l.Name).Delete(t.Context(), "raw", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.expectStatus("x", says(conditions.Ready, "raw missing"))
}

func TestBundleDeletedWhileAgentDown_IsUninstalled(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orphans")
	l.interval = shortInterval
	l.start()
	for _, name := range []string{"a", "b", "c"} {
		l.apply(bundle{Name: name, Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
		l.expectStatus(name, ready)
	}
	l.halt()
	l.delete("a")
	l.delete("b")
	l.store(l.Name, "elsewhere", "d", 1, "deployed", "")
	foreign := newLab(t, "orphans-other")
	foreign.store(foreign.Name, "theirs", "a", 1, "deployed", "")
	l.start()
	for _, name := range []string{"a", "b", "elsewhere"} {
		l.expectNoRelease(l.Name, name)
		if l.configMapIsThere(l.Name, name) {
			t.Errorf("the object of %s exists", name)
		}
	}
	if got := l.revisionsOf(l.Name, "c"); len(got) != 1 {
		t.Errorf("the release of an existing bundle was removed: %v", got)
	}
	if got := foreign.revisionsOf(foreign.Name, "theirs"); len(got) != 1 {
		t.Errorf("another agent's release went: %v", got)
	}
}

func TestKeptObjects_AreForgottenWithTheirBundleDeployment(t *testing.T) {
	t.Parallel()
	l := newLab(t, "keep-forgets")
	d := l.byHand()
	keep := deploytest.InNamespace(l.Name)
	keep.KeepResources = true
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: keep})
	l.eventually(func() string {
		if d.hub.Cached("x") == nil {
			return "it is not known"
		}
		return ""
	})
	if err := d.reconcile(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	l.delete("x")
	l.eventually(func() string {
		if !d.records.get("x").kept {
			return "the deletion is not known"
		}
		return ""
	})
	if err := d.reconcile(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if !l.configMapIsThere(l.Name, "x") || d.records.get("x").kept {
		t.Error("the object is gone, or the name is kept for good")
	}
}

func TestKeepResources_DeletesHistoryOnly(t *testing.T) {
	t.Parallel()
	l := newLab(t, "kept")
	l.start()
	keep := deploytest.InNamespace(l.Name)
	keep.KeepResources = true
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: keep})
	l.apply(bundle{Name: "fleet-agent-east", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	for _, name := range []string{"x", "fleet-agent-east"} {
		l.expectStatus(name, ready)
		l.delete(name)
		l.expectNoRelease(l.Name, name)
		if !l.configMapIsThere(l.Name, name) {
			t.Errorf("the object of %s is gone", name)
		}
	}
}

func TestUsersBundleNamedLikeTheAgents_IsUninstalled(t *testing.T) {
	t.Parallel()
	l := newLab(t, "named")
	l.start()
	l.apply(bundle{Name: "fleet-agent-nginx", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("fleet-agent-nginx", ready)
	l.delete("fleet-agent-nginx")
	l.expectNoRelease(l.Name, "fleet-agent-nginx")
	if l.configMapIsThere(l.Name, "fleet-agent-nginx") {
		t.Error("its object is still there")
	}
}

func TestHoldsAgent(t *testing.T) {
	d := &deployer{Options: Options{AgentNamespace: "agents"}}
	const manifest = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: %s\n  namespace: %s\n"
	for name, test := range map[string]struct {
		manifest string
		want     bool
	}{
		"the agent's Deployment":                          {fmt.Sprintf(manifest, "fleet-agent", "agents"), true},
		"the agent's Deployment in the default namespace": {fmt.Sprintf(manifest, "fleet-agent", `""`), true},
		"a Deployment of that name elsewhere":             {fmt.Sprintf(manifest, "fleet-agent", "web"), false},
		"another Deployment":                              {fmt.Sprintf(manifest, "nginx", "agents"), false},
		"nothing":                                         {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := d.holdsAgent(test.manifest, "agents"); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestPausedBundleDeployment_IsNotDeployed(t *testing.T) {
	t.Parallel()
	l := newLab(t, "paused")
	l.start()
	pause := func(on bool) func(*fleet.BundleDeployment) {
		return func(bd *fleet.BundleDeployment) { bd.Spec.Paused = on }
	}
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name), Change: pause(true)})
	l.apply(bundle{Name: "other", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("other", ready)
	if bd := l.get("x"); len(bd.Status.Conditions) > 0 || l.configMapIsThere(l.Name, "x") {
		t.Errorf("a paused bundle was deployed: %v", bd.Status)
	}
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name), Change: pause(false)})
	l.expectStatus("x", ready)
}

func TestDependencyBecomesReady_WakesDependents(t *testing.T) {
	t.Parallel()
	l := newLab(t, "depends")
	l.start()
	after := func(name string) func(*fleet.BundleDeployment) {
		return func(bd *fleet.BundleDeployment) { bd.Spec.DependsOn = []fleet.BundleRef{{Name: name}} }
	}
	l.apply(bundle{Name: "c", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name), Change: after("b")})
	l.apply(bundle{Name: "b", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name), Change: after("a")})
	l.expectStatus("b", says(conditions.Deployed, "no bundles matching labels"))
	l.expectStatus("c", says(conditions.Deployed, "dependent bundle(s) are not ready: [b]"))
	l.apply(bundle{Name: "a", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	for _, name := range []string{"a", "b", "c"} {
		l.expectStatus(name, ready)
	}
}

func TestReadiness_FollowsObjects(t *testing.T) {
	t.Parallel()
	l := newLab(t, "readiness")
	l.start()
	l.apply(bundle{Name: "x", Files: rawFiles(), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	// Set the condition that the Deployment controller sets when a rollout is stuck.
	deployments := l.East.AppsV1().Deployments(l.Name)
	setStuck := func(status corev1.ConditionStatus) {
		t.Helper()
		l.eventually(func() string {
			current, err := deployments.Get(t.Context(), "pause", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			current.Status.Conditions = append(current.Status.Conditions, appsv1.DeploymentCondition{
				Type: appsv1.DeploymentReplicaFailure, Status: status, Message: "no room"})
			if _, err := deployments.UpdateStatus(t.Context(), current, metav1.UpdateOptions{}); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	patch := []byte(`{"spec":{"replicas":3,"paused":true}}`)
	if _, err := deployments.Patch(t.Context(), "pause", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	setStuck(corev1.ConditionTrue)
	bd := l.expectStatus("x", func(bd *fleet.BundleDeployment) string {
		if bd.Status.Ready || len(bd.Status.NonReadyStatus) != 1 {
			return "not seen as not ready"
		}
		return conditionsAre(bd, "Ready=False Deployed=True Monitored=True")
	})
	if bd.Status.ResourceCounts.NotReady != 1 || bd.Status.ResourceCounts.DesiredReady != 2 {
		t.Errorf("counts: %+v", bd.Status.ResourceCounts)
	}
}

func TestHooks_RunAndAreNotWatched(t *testing.T) {
	t.Parallel()
	l := newLab(t, "hooks")
	l.start()
	files := deploytest.HelloFiles("hi")
	files["templates/hook.yaml"] = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: {{ .Release.Name }}-hook, annotations: {helm.sh/hook: 'pre-install,pre-upgrade'}}\n" +
		"spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}\n"
	l.apply(bundle{Name: "x", Files: files, Options: deploytest.InNamespace(l.Name)})
	bd := l.expectStatus("x", ready)
	if len(bd.Status.Resources) != 1 || bd.Status.Resources[0].Kind != "ConfigMap" {
		t.Errorf("resources: %v", bd.Status.Resources)
	}
	if _, err := l.East.BatchV1().Jobs(l.Name).Get(t.Context(), "x-hook", metav1.GetOptions{}); err != nil {
		t.Errorf("the hook did not run: %v", err)
	}
}

// The Job changes, which an API server accepts only for one that is deleted first.
func TestHookInPlainYAML_RunsAsAHook(t *testing.T) {
	t.Parallel()
	l := newLab(t, "plain-hooks")
	l.start()
	for _, image := range []string{"a:1", "a:2"} {
		l.apply(bundle{Name: "x", Files: map[string]string{
			"settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {image: '" + image + "'}\n",
			"job.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate, annotations: {helm.sh/hook: 'pre-install,pre-upgrade'}}\n" +
				"spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: '" + image + "'}]}}}\n",
		}, Options: deploytest.InNamespace(l.Name)})
		bd := l.expectStatus("x", ready)
		if len(bd.Status.Resources) != 1 || bd.Status.Resources[0].Kind != "ConfigMap" {
			t.Errorf("resources: %v", bd.Status.Resources)
		}
		job, err := l.East.BatchV1().Jobs(l.Name).Get(t.Context(), "migrate", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := job.Spec.Template.Spec.Containers[0].Image; got != image {
			t.Errorf("the hook ran with image %s, want %s", got, image)
		}
	}
}

func TestServiceAccount_LimitsDeployment(t *testing.T) {
	t.Parallel()
	l := newLab(t, "account")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "tenant", Namespace: l.Name}}
	l.create(func(ctx context.Context) error {
		_, err := l.East.CoreV1().ServiceAccounts(l.Name).Create(ctx, account, metav1.CreateOptions{})
		return err
	})
	l.start()
	options := fleet.BundleDeploymentOptions{DefaultNamespace: l.Name, ServiceAccount: "tenant"}
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: options})
	l.expectStatus("x", says(conditions.Deployed, "may create nothing in namespace "+l.Name))
	rights := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}}}
	l.create(func(ctx context.Context) error {
		_, err := l.East.RbacV1().Roles(l.Name).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, Rules: rights}, metav1.CreateOptions{})
		return err
	})
	l.create(func(ctx context.Context) error {
		_, err := l.East.RbacV1().RoleBindings(l.Name).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "tenant", Namespace: l.Name}},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"}}, metav1.CreateOptions{})
		return err
	})
	no := false
	options.CreateNamespace = &no // it may not
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: options})
	l.expectStatus("x", ready)
}

func TestDownstreamResources_FollowTheBundle(t *testing.T) {
	t.Parallel()
	l := newLab(t, "copies")
	ns := l.Name + "-x"
	secrets := l.HubCore.CoreV1().Secrets(l.Name)
	source := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "values", Labels: map[string]string{"a": "b"}}, Data: map[string][]byte{"values.yaml": []byte("greeting: copied\n")}}
	l.create(func(ctx context.Context) (err error) {
		source, err = secrets.Create(ctx, source, metav1.CreateOptions{})
		return
	})
	l.create(func(ctx context.Context) error {
		_, err := l.HubCore.CoreV1().ConfigMaps(l.Name).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{})
		return err
	})
	l.start()
	options := deploytest.InNamespace(ns)
	options.DownstreamResources = []fleet.DownstreamResource{{Kind: "Secret", Name: "values"}, {Kind: "configmap", Name: "cm"}}
	options.Helm.ValuesFrom = []fleet.ValuesFrom{{SecretKeyRef: &fleet.ValuesKeyRef{Name: "values", Namespace: "elsewhere"}}}
	generation := func(n int64) func(*fleet.BundleDeployment) {
		return func(bd *fleet.BundleDeployment) { bd.Spec.DownstreamResourcesGeneration = n }
	}
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: options, Change: generation(1)})
	greeting := func(want string) func(*fleet.BundleDeployment) string {
		return func(bd *fleet.BundleDeployment) string {
			cm, err := l.East.CoreV1().ConfigMaps(ns).Get(t.Context(), "x", metav1.GetOptions{})
			if err != nil || cm.Data["greeting"] != want || bd.Status.DownstreamResourcesGeneration != bd.Spec.DownstreamResourcesGeneration {
				return "greeting is not " + want
			}
			return ready(bd)
		}
	}
	l.expectStatus("x", greeting("copied"))
	copied, err := l.East.CoreV1().Secrets(ns).Get(t.Context(), "values", metav1.GetOptions{})
	if err != nil || copied.Labels[fleet.LabelBundleDeployment] != "x" || copied.Labels["a"] != "b" {
		t.Errorf("the copy is %v (%v)", copied, err)
	}

	source.Data["values.yaml"] = []byte("greeting: anew\n")
	if _, err := secrets.Update(t.Context(), source, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: options, Change: generation(2)})
	l.expectStatus("x", greeting("anew"))

	l.delete("x")
	l.eventually(func() string {
		_, err := l.East.CoreV1().Secrets(ns).Get(t.Context(), "values", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) || l.configMapIsThere(ns, "cm") {
			return "the copies are there"
		}
		return ""
	})
}

func TestNamespaceLabels_AreSet(t *testing.T) {
	t.Parallel()
	l := newLab(t, "labels")
	l.start()
	ns := l.Name + "-x"
	options := deploytest.InNamespace(ns)
	options.NamespaceLabels = map[string]string{"team": "a", "pod-security.kubernetes.io/enforce": "privileged"}
	options.NamespaceAnnotations = map[string]string{"note": "b"}
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: options})
	l.expectStatus("x", ready)
	namespace, err := l.East.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(map[string]string{"team": "a", "name": ns, corev1.LabelMetadataName: ns})
	if fmt.Sprint(namespace.Labels) != want || namespace.Annotations["note"] != "b" {
		t.Errorf("labels %v annotations %v, want %s", namespace.Labels, namespace.Annotations, want)
	}
	// Another writer adds labels. Only labels that the bundle no longer sets are removed.
	l.mark(ns, `{"metadata":{"labels":{"theirs":"c"},"annotations":{"theirs":"d"}}}`)
	options.NamespaceLabels = map[string]string{"tier": "b"}
	options.NamespaceAnnotations = nil
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("salut"), Options: options})
	l.expectNamespace(ns, map[string]string{"tier": "b", "theirs": "c", "name": ns, corev1.LabelMetadataName: ns}, map[string]string{"theirs": "d"})
	options.NamespaceLabels = nil
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("ciao"), Options: options})
	l.expectNamespace(ns, map[string]string{"theirs": "c", "name": ns, corev1.LabelMetadataName: ns}, map[string]string{"theirs": "d"})
}

// The labels of a target are not part of the deployment ID, so the hub changes them without a new deployment.
func TestNamespaceLabelsChange_NeedsNoDeployment(t *testing.T) {
	t.Parallel()
	l := newLab(t, "labels-alone")
	l.start()
	ns := l.Name + "-x"
	given := func(labels, annotations map[string]string) {
		l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(ns), Change: func(bd *fleet.BundleDeployment) {
			bd.Spec.Options.NamespaceLabels, bd.Spec.Options.NamespaceAnnotations = labels, annotations
		}})
	}
	given(nil, nil)
	l.expectStatus("x", ready)
	given(map[string]string{"team": "a"}, map[string]string{"note": "b"})
	l.expectNamespace(ns, map[string]string{"team": "a", "name": ns, corev1.LabelMetadataName: ns}, map[string]string{"note": "b"})
	given(nil, map[string]string{"note": "c"})
	l.expectNamespace(ns, map[string]string{"name": ns, corev1.LabelMetadataName: ns}, map[string]string{"note": "c"})
	given(nil, nil)
	l.expectNamespace(ns, map[string]string{"name": ns, corev1.LabelMetadataName: ns}, nil)
	if got := l.revisionsOf(ns, "x"); !slices.Equal(got, []string{"1 deployed"}) {
		t.Errorf("revisions %q", got)
	}
}

func TestNamespaceLabelRemovedByOthers_IsRestored(t *testing.T) {
	t.Parallel()
	l := newLab(t, "labels-removed")
	pass := l.fakeTime()
	l.start()
	ns := l.Name + "-x"
	options := deploytest.InNamespace(ns)
	options.NamespaceLabels = map[string]string{"team": "a"}
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: options})
	l.expectStatus("x", ready)
	labels := map[string]string{"team": "a", "name": ns, corev1.LabelMetadataName: ns}
	l.expectNamespace(ns, labels, nil)
	for _, patch := range []string{`{"metadata":{"labels":{"team":null}}}`, `{"metadata":{"labels":{"team":"b"}}}`} {
		pass(time.Hour)
		l.mark(ns, patch)
		l.expectNamespace(ns, labels, nil)
	}
	if got := l.revisionsOf(ns, "x"); !slices.Equal(got, []string{"1 deployed"}) {
		t.Errorf("revisions %q", got)
	}
}

// The release stays, and counts as not ready until its namespace has the labels and annotations.
func TestInvalidNamespaceLabels_AreReportedUntilCorrected(t *testing.T) {
	t.Parallel()
	l := newLab(t, "labels-invalid")
	l.start()
	ns := l.Name + "-x"
	given := func(labels, annotations map[string]string) {
		l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(ns), Change: func(bd *fleet.BundleDeployment) {
			bd.Spec.Options.NamespaceLabels, bd.Spec.Options.NamespaceAnnotations = labels, annotations
		}})
	}
	refused := func(bd *fleet.BundleDeployment) string {
		if bd.Status.Ready {
			return "ready"
		}
		if missing := conditionsAre(bd, "Deployed=True Ready=False Monitored=True"); missing != "" {
			return missing
		}
		return becauseOf(conditions.Installed, conditions.ReasonObjectRejected, "labelling namespace "+ns)(bd)
	}
	given(map[string]string{"team": "not valid"}, nil)
	l.expectStatus("x", refused)
	given(map[string]string{"team": "a"}, nil)
	l.expectStatus("x", ready)
	given(map[string]string{"team": "a"}, map[string]string{"not valid": "b"})
	l.expectStatus("x", refused)
	given(map[string]string{"team": "a"}, nil)
	l.expectStatus("x", ready)
	if got := l.revisionsOf(ns, "x"); !slices.Equal(got, []string{"1 deployed"}) {
		t.Errorf("revisions %q", got)
	}
}

func (l *lab) mark(namespace, patch string) {
	l.t.Helper()
	_, err := l.East.CoreV1().Namespaces().Patch(l.t.Context(), namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) expectNamespace(name string, labels, annotations map[string]string) {
	l.t.Helper()
	l.eventually(func() string {
		found, err := l.East.CoreV1().Namespaces().Get(l.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return cmp.Diff([]map[string]string{labels, annotations}, []map[string]string{found.Labels, found.Annotations})
	})
}

// thing returns the group and the definition of a kind of this lab's own, and an object of it.
func (l *lab) thing() (group, crd, object string) {
	group = strings.ReplaceAll(l.Name, "-", "") + ".example.com"
	crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things." + group + "}\n" +
		"spec: {group: " + group + ", scope: Namespaced, names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}, versions: [{name: v1, served: true, storage: true, " +
		"schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}\n"
	object = "apiVersion: " + group + "/v1\nkind: Thing\nmetadata: {name: a}\nspec: {b: c}\n"
	return group, crd, object
}

func TestCRDAndCustomResource_MayComeInAnyOrder(t *testing.T) {
	t.Parallel()
	l := newLab(t, "crds")
	l.start()
	_, crd, thing := l.thing()
	l.apply(bundle{Name: "things", Files: map[string]string{"a.yaml": thing}, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("things", says(conditions.Deployed, "no matches for kind"))
	l.apply(bundle{Name: "definition", Files: map[string]string{"crd.yaml": crd}, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("definition", ready)
	l.expectStatus("things", ready)
	// The CRD stays when its bundle is deleted, and so do its objects.
	l.delete("definition")
	l.expectNoRelease(l.Name, "definition")
	l.expectStatus("things", ready)
}

// An agent that starts after a kind was deleted reports the same as one that saw the deletion.
func TestKindDeletedBeforeStart_ObjectsAreMissing(t *testing.T) {
	t.Parallel()
	l := newLab(t, "crd-gone")
	l.start()
	group, crd, thing := l.thing()
	l.apply(bundle{Name: "definition", Files: map[string]string{"crd.yaml": crd}, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("definition", ready)
	l.apply(bundle{Name: "things", Files: map[string]string{"a.yaml": thing, "b.yaml": deploytest.ConfigMapYAML}, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("things", ready)
	l.halt()
	l.deleteCRD("things." + group)
	l.start()
	l.expectStatus("things", says(conditions.Ready, "thing."+group+" "+l.Name+"/a missing"))
	// The kind is created again, and the object is restored.
	l.apply(bundle{Name: "definition", Files: map[string]string{"crd.yaml": strings.Replace(crd, "metadata: {", "metadata: {labels: {a: b}, ", 1)}, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("definition", ready)
	l.apply(bundle{Name: "things", Files: map[string]string{"a.yaml": thing, "b.yaml": deploytest.ConfigMapYAML}, Options: deploytest.InNamespace(l.Name), Change: correcting(fleet.CorrectDrift{Enabled: true})})
	l.expectStatus("things", ready)
}

// The agent starts while a kind does not exist, and cannot know that its objects have no namespace.
func TestClusterScopedKindAppears_ObjectIsCorrected(t *testing.T) {
	t.Parallel()
	l := newLab(t, "crd-global")
	l.start()
	group, crd, thing := l.thing()
	crd = strings.Replace(crd, "Namespaced", "Cluster", 1)
	l.apply(bundle{Name: "definition", Files: map[string]string{"crd.yaml": crd}, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("definition", ready)
	l.apply(bundle{Name: "things", Files: map[string]string{"a.yaml": thing}, Options: deploytest.InNamespace(l.Name), Change: correcting(fleet.CorrectDrift{})})
	l.expectStatus("things", ready)
	l.halt()
	l.deleteCRD("things." + group)
	l.start()
	l.expectStatus("things", says(conditions.Ready, "create its CustomResourceDefinition again"))
	l.apply(bundle{Name: "definition", Files: map[string]string{"crd.yaml": strings.Replace(crd, "metadata: {", "metadata: {labels: {a: b}, ", 1)}, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("definition", ready)
	l.expectStatus("things", ready)
}

// deleteCRD deletes a CRD on east, and waits until it is gone.
func (l *lab) deleteCRD(name string) {
	l.t.Helper()
	crds := dynamic.NewForConfigOrDie(l.local).Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	if err := crds.Delete(l.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		l.t.Fatal(err)
	}
	l.eventually(func() string {
		if _, err := crds.Get(l.t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the definition is still there: %v", err)
		}
		return ""
	})
}

func TestAtomicTimeout_RollsBack(t *testing.T) {
	t.Parallel()
	l := newLab(t, "atomic")
	l.start()
	options := deploytest.InNamespace(l.Name)
	options.Helm = &fleet.HelmOptions{Atomic: true}
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: options})
	l.expectStatus("x", ready)
	options.Helm.TimeoutSeconds = 2
	files := deploytest.HelloFiles("salut")
	files["templates/never.yaml"] = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: never}\n" +
		"spec: {accessModes: [ReadWriteOnce], storageClassName: nowhere, resources: {requests: {storage: 1Gi}}}\n"
	l.apply(bundle{Name: "x", Files: files, Options: options})
	l.expectStatus("x", recognisedAs("has been rolled back due to atomic being set"))
	l.eventually(func() string { // it is tried again and again
		cm, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "x", metav1.GetOptions{})
		if err != nil || cm.Data["greeting"] != "hi" {
			return fmt.Sprintf("not rolled back: %v %v", cm.Data, err)
		}
		return ""
	})
}

func TestCustomResourceNotReady_IsRolledBack(t *testing.T) {
	t.Parallel()
	l := newLab(t, "atomic-custom")
	l.start()
	options := deploytest.InNamespace(l.Name)
	l.apply(bundle{Name: "crd", Options: options, Files: map[string]string{"crd.yaml": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.atomic.example.com}
spec:
  group: atomic.example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`}})
	l.expectStatus("crd", ready)
	options.Helm = &fleet.HelmOptions{Atomic: true, TimeoutSeconds: 2}
	with := func(greeting, ready string) bundle {
		files := deploytest.HelloFiles(greeting)
		files["templates/thing.yaml"] = "apiVersion: atomic.example.com/v1\nkind: Thing\nmetadata: {name: x}\n" +
			"status: {conditions: [{type: Ready, status: '" + ready + "'}]}\n"
		return bundle{Name: "x", Files: files, Options: options}
	}
	l.apply(with("hi", "True"))
	l.expectStatus("x", ready)
	l.apply(with("salut", "False"))
	l.expectStatus("x", recognisedAs("thing.atomic.example.com "+l.Name+"/x is not ready"))
	l.eventually(func() string { // it is tried again and again
		if got := l.field("configmaps", "x", dig("data", "greeting")); got != "hi" {
			return "not rolled back: " + got
		}
		return ""
	})
}

func TestAgentStopsDuringOperation_NextRecovers(t *testing.T) {
	t.Parallel()
	l := newLab(t, "stopped")
	files := deploytest.HelloFiles("hi")
	files["templates/never.yaml"] = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: never}\n" +
		"spec: {accessModes: [ReadWriteOnce], storageClassName: nowhere, resources: {requests: {storage: 1Gi}}}\n"
	options := deploytest.InNamespace(l.Name)
	options.Helm.TimeoutSeconds = 600
	l.start()
	l.apply(bundle{Name: "x", Files: files, Options: options})
	l.eventually(func() string {
		if !l.configMapIsThere(l.Name, "x") {
			return "nothing is installed yet"
		}
		return ""
	})
	l.halt()
	if got := fmt.Sprint(l.revisionsOf(l.Name, "x")); got != "[1 pending-install]" {
		t.Fatalf("the operation was not cut off: %s", got)
	}
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("salut"), Options: deploytest.InNamespace(l.Name)})
	l.start()
	l.expectStatus("x", ready)
	l.eventually(func() string { // Kubernetes holds it for a moment
		if _, err := l.East.CoreV1().PersistentVolumeClaims(l.Name).Get(t.Context(), "never", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return "what the operation that was cut off made is still there"
		}
		return ""
	})
}

func TestSupersededDeployment_StopsWaiting(t *testing.T) {
	t.Parallel()
	never := "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: never}\n" +
		"spec: {accessModes: [ReadWriteOnce], storageClassName: nowhere, resources: {requests: {storage: 1Gi}}}\n"
	hook := "apiVersion: v1\nkind: Pod\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\n" +
		"spec: {nodeName: nowhere, containers: [{name: a, image: b}]}\n"
	for name, template := range map[string]string{"objects": never, "hooks": hook} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "superseded-"+name)
			l.start()
			files := deploytest.HelloFiles("hi")
			files["templates/slow.yaml"] = template
			options := deploytest.InNamespace(l.Name)
			options.Helm.TimeoutSeconds = 600
			l.apply(bundle{Name: "x", Files: files, Options: options})
			l.eventually(func() string {
				if len(l.revisionsOf(l.Name, "x")) == 0 {
					return "nothing is being installed"
				}
				return ""
			})
			l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("salut"), Options: deploytest.InNamespace(l.Name)})
			l.expectStatus("x", ready)
		})
	}
}

func TestStaleRelease_IsUninstalled(t *testing.T) {
	t.Parallel()
	l := newLab(t, "stale")
	l.start()
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	l.halt()
	l.store(l.Name, "former", "x", 1, "deployed", "")
	l.start()
	l.expectNoRelease(l.Name, "former")
	l.expectStatus("x", ready)
}
