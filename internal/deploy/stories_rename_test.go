package deploy

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/release/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// refusedService is an object that the API server rejects. Helm creates Services after ConfigMaps.
const refusedService = "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{port: 100000}]}\n"

// neverBound is an object that never gets ready.
const neverBound = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: never}\n" +
	"spec: {accessModes: [ReadWriteOnce], storageClassName: nowhere, resources: {requests: {storage: 1Gi}}}\n"

// renamed is a bundle before and after a rename of its release.
type renamed struct {
	// objects are the YAML files that both have.
	objects map[string]string
	old     fleet.BundleDeploymentOptions
	changed fleet.BundleDeploymentOptions
}

// renames returns renames of a release whose ConfigMap "cm" stays in the namespace of the lab.
func (l *lab) renames() map[string]renamed {
	called := deploytest.InNamespace(l.Name)
	called.Helm.ReleaseName = "shop"
	explicit := strings.Replace(deploytest.ConfigMapYAML, "name: cm", "name: cm, namespace: "+l.Name, 1)
	return map[string]renamed{
		"release name": {map[string]string{"cm.yaml": deploytest.ConfigMapYAML}, deploytest.InNamespace(l.Name), called},
		"default namespace": {map[string]string{
			"cm.yaml": explicit, "ns.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + l.Name + "-own}\n",
		}, deploytest.InNamespace(l.Name), deploytest.InNamespace(l.Name + "-to")},
	}
}

func (l *lab) liveConfigMap(name string) *corev1.ConfigMap {
	l.t.Helper()
	found, err := l.East.CoreV1().ConfigMaps(l.Name).Get(l.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return found
}

// expectRestored expects a ready bundle, with the same ConfigMap as before the rename.
func (l *lab) expectRestored(before *corev1.ConfigMap, from, to string) {
	l.t.Helper()
	l.eventually(func() string {
		if found := l.revisionsOf(to, "shop"); len(found) > 0 {
			return fmt.Sprintf("the failed release exists: %v", found)
		}
		if found := l.revisionsOf(to, "x"); from != to && len(found) > 0 {
			return fmt.Sprintf("the failed release exists: %v", found)
		}
		return ""
	})
	l.expectStatus("x", ready)
	after := l.liveConfigMap("cm")
	if after.UID != before.UID || after.DeletionTimestamp != nil {
		l.t.Errorf("the object was deleted and created again")
	}
	if after.Data["a"] != "b" || after.Annotations[objects.ReleaseNameAnnotation] != "x" || after.Annotations[objects.ReleaseNamespaceAnnotation] != from {
		l.t.Errorf("the object is still as the failed release left it: %v %v", after.Data, after.Annotations)
	}
}

// The release is renamed by a change that fails after objects were moved, and the change is reverted.
func TestFailedRenameReverted_ObjectsStay(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"release name", "default namespace"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "unrename-"+strings.Fields(name)[0])
			l.start()
			test := l.renames()[name]
			l.apply(bundle{Name: "x", Files: test.objects, Options: test.old})
			l.expectStatus("x", ready)
			before := l.liveConfigMap("cm")
			files := deploytest.With(test.objects, map[string]string{"bad.yaml": refusedService})
			files["cm.yaml"] = strings.Replace(files["cm.yaml"], "a: b", "a: half", 1)
			l.apply(bundle{Name: "x", Files: files, Options: test.changed})
			l.expectStatus("x", says(conditions.Deployed, "100000"))
			if got := l.liveConfigMap("cm").Data["a"]; got != "half" {
				t.Fatalf("the object was not moved: %s", got)
			}
			l.apply(bundle{Name: "x", Files: test.objects, Options: test.old})
			l.expectRestored(before, l.Name, test.changed.DefaultNamespace)
			namespace, err := l.East.CoreV1().Namespaces().Get(t.Context(), l.Name+"-own", metav1.GetOptions{})
			if test.objects["ns.yaml"] != "" && (err != nil || namespace.DeletionTimestamp != nil) {
				t.Errorf("the namespace of the bundle: %v %v", namespace.DeletionTimestamp, err)
			}
		})
	}
}

// The hooks with which a chart cleans up do not run while another release has its objects.
func TestRename_RunsNoDeleteHooks(t *testing.T) {
	t.Parallel()
	l := newLab(t, "rename-hooks")
	l.start()
	test := l.renames()["release name"]
	files := deploytest.With(test.objects, map[string]string{"hook.yaml": hookOf("cleanup", l.Name, "pre-delete,post-delete")})
	l.apply(bundle{Name: "x", Files: files, Options: test.old})
	l.expectStatus("x", ready)
	broken := deploytest.With(files, map[string]string{"bad.yaml": refusedService})
	l.apply(bundle{Name: "x", Files: broken, Options: test.changed})
	l.expectStatus("x", says(conditions.Deployed, "100000"))
	l.apply(bundle{Name: "x", Files: files, Options: test.old})
	l.expectNoRelease(l.Name, "shop")
	l.expectStatus("x", ready)
	l.apply(bundle{Name: "x", Files: files, Options: test.changed})
	l.expectNoRelease(l.Name, "x")
	l.expectStatus("x", ready)
	if l.configMapIsThere(l.Name, "cleanup") {
		t.Error("a hook of the former release was run")
	}
	l.delete("x")
	l.expectNoRelease(l.Name, "shop")
	if !l.configMapIsThere(l.Name, "cleanup") {
		t.Error("the hook was not run when the bundle was deleted")
	}
}

// The failed change sets a field of an object that it does not reach. Another client has set that field.
func TestFailedRenameReverted_FieldsOfOthersStay(t *testing.T) {
	t.Parallel()
	l := newLab(t, "unrename-fields")
	l.start()
	test := l.renames()["release name"]
	cron := "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: cron}\nspec:\n  schedule: '0 0 1 1 *'\n" +
		"  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}\n"
	files := deploytest.With(test.objects, map[string]string{"cron.yaml": cron})
	l.apply(bundle{Name: "x", Files: files, Options: test.old})
	l.expectStatus("x", ready)
	before, jobs := l.liveConfigMap("cm"), l.East.BatchV1().CronJobs(l.Name)
	if _, err := jobs.Patch(t.Context(), "cron", types.MergePatchType, []byte(`{"spec":{"suspend":true}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	changed := deploytest.With(files, map[string]string{"bad.yaml": refusedService, "cron.yaml": cron + "  suspend: false\n"})
	changed["cm.yaml"] = strings.Replace(changed["cm.yaml"], "a: b", "a: half", 1)
	l.apply(bundle{Name: "x", Files: changed, Options: test.changed})
	l.expectStatus("x", says(conditions.Deployed, "100000"))
	l.apply(bundle{Name: "x", Files: files, Options: test.old})
	l.expectRestored(before, l.Name, l.Name)
	after, err := jobs.Get(t.Context(), "cron", metav1.GetOptions{})
	if err != nil || after.Spec.Suspend == nil || !*after.Spec.Suspend {
		t.Errorf("the CronJob: suspend %v, %v", after.Spec.Suspend, err)
	}
}

// The failed change adds the namespace of the wanted release to its objects.
func TestFailedRenameReverted_NamespaceOfTheReleaseStays(t *testing.T) {
	t.Parallel()
	l := newLab(t, "unrename-home")
	home, elsewhere := l.Name+"-home", l.Name+"-to"
	l.start()
	explicit := map[string]string{"cm.yaml": strings.Replace(deploytest.ConfigMapYAML, "name: cm", "name: cm, namespace: "+l.Name, 1)}
	l.apply(bundle{Name: "x", Files: explicit, Options: deploytest.InNamespace(home)})
	l.expectStatus("x", ready)
	before := l.liveConfigMap("cm")
	for i, more := range []map[string]string{{}, {"home.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + home + "}\n"}} {
		port := fmt.Sprint(100001 + i)
		broken := deploytest.With(deploytest.With(explicit, more), map[string]string{"bad.yaml": strings.Replace(refusedService, "100000", port, 1)})
		broken["cm.yaml"] = strings.Replace(broken["cm.yaml"], "a: b", "a: half", 1)
		l.apply(bundle{Name: "x", Files: broken, Options: deploytest.InNamespace(elsewhere)})
		l.expectStatus("x", says(conditions.Deployed, port))
	}
	l.apply(bundle{Name: "x", Files: explicit, Options: deploytest.InNamespace(home)})
	l.expectRestored(before, home, elsewhere)
	namespace, err := l.East.CoreV1().Namespaces().Get(t.Context(), home, metav1.GetOptions{})
	if err != nil || namespace.DeletionTimestamp != nil {
		t.Errorf("the namespace of the release: %v %v", namespace.DeletionTimestamp, err)
	}
}

// The agent stops before it reports that the rename has failed, so the status still names the former release.
func TestUnreportedRenameReverted_ObjectsStay(t *testing.T) {
	t.Parallel()
	l := newLab(t, "unrename-cut")
	l.start()
	test := l.renames()["release name"]
	l.apply(bundle{Name: "x", Files: test.objects, Options: test.old})
	reported := l.expectStatus("x", ready)
	before := l.liveConfigMap("cm")
	files := deploytest.With(test.objects, map[string]string{"bad.yaml": refusedService})
	files["cm.yaml"] = strings.Replace(files["cm.yaml"], "a: b", "a: half", 1)
	l.apply(bundle{Name: "x", Files: files, Options: test.changed})
	l.expectStatus("x", says(conditions.Deployed, "100000"))
	l.halt()
	l.apply(bundle{Name: "x", Files: test.objects, Options: test.old})
	l.patchStatus("x", `{"status":{"appliedDeploymentID":"`+reported.Status.AppliedDeploymentID+`","release":"`+reported.Status.Release+`",
		"conditions":[{"type":"Installed","status":"True"},{"type":"Deployed","status":"True"}]}}`)
	l.start()
	l.expectRestored(before, l.Name, l.Name)
}

// An object of a failed release under another name lost Helm's annotations. It still belongs to the wanted release.
func TestUnmarkedObjectOfStaleRelease_Stays(t *testing.T) {
	t.Parallel()
	l := newLab(t, "unmarked")
	l.start()
	files := map[string]string{"cm.yaml": deploytest.ConfigMapYAML}
	l.apply(bundle{Name: "x", Files: files, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	l.halt()
	before := l.liveConfigMap("cm")
	patch := []byte(`{"metadata":{"annotations":{"` + objects.ReleaseNameAnnotation + `":null,"` + objects.ReleaseNamespaceAnnotation + `":null}}}`)
	if _, err := l.East.CoreV1().ConfigMaps(l.Name).Patch(t.Context(), "cm", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	marked := strings.Replace(deploytest.ConfigMapYAML, "name: cm", "name: cm, labels: {"+fleet.LabelSetHash+": "+before.Labels[fleet.LabelSetHash]+"}", 1)
	own := "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: " + l.Name + "}\n"
	l.store(l.Name, "shop", "x", 1, "failed", marked+own)
	l.mark(l.Name, `{"metadata":{"annotations":{"`+objects.ReleaseNameAnnotation+`":"shop","`+objects.ReleaseNamespaceAnnotation+`":"`+l.Name+`"}}}`)
	l.start()
	l.expectNoRelease(l.Name, "shop")
	found, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "cm", metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err != nil || found.UID != before.UID {
		t.Errorf("the object is gone: %v", err)
	}
	if namespace, err := l.East.CoreV1().Namespaces().Get(t.Context(), l.Name, metav1.GetOptions{}); err != nil || namespace.DeletionTimestamp != nil {
		t.Errorf("the namespace of the wanted objects goes: %v", err)
	}
}

// notReady expects a status that names the object that never gets ready.
func notReady(bd *fleet.BundleDeployment) string {
	for _, kind := range []string{conditions.Installed, conditions.Deployed} {
		if says(kind, "never")(bd) == "" {
			return ""
		}
	}
	return "has not failed"
}

// An atomic installation takes over objects and fails. It must not be uninstalled, because the objects existed before.
func TestAtomicInstallationFails_AdoptedObjectsStay(t *testing.T) {
	t.Parallel()
	files := map[string]string{"cm.yaml": deploytest.ConfigMapYAML}
	broken := deploytest.With(files, map[string]string{"never.yaml": neverBound})
	t.Run("renamed release", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "atomic-rename")
		l.start()
		options := deploytest.InNamespace(l.Name)
		options.Helm.Atomic, options.Helm.TimeoutSeconds = true, 2
		l.apply(bundle{Name: "x", Files: files, Options: options})
		l.expectStatus("x", ready)
		before := l.liveConfigMap("cm")
		changed := options
		changed.Helm = options.Helm.DeepCopy()
		changed.Helm.ReleaseName = "shop"
		l.apply(bundle{Name: "x", Files: broken, Options: changed})
		l.expectStatus("x", notReady)
		if after := l.liveConfigMap("cm"); after.UID != before.UID {
			t.Error("the object was deleted and created again")
		}
		if got := l.revisionsOf(l.Name, "shop"); len(got) == 0 {
			t.Error("the release that has the objects is gone")
		}
		l.apply(bundle{Name: "x", Files: files, Options: options})
		l.expectRestored(before, l.Name, l.Name)
	})
	t.Run("ownership taken", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, "atomic-take")
		l.start()
		if _, err := l.East.CoreV1().ConfigMaps(l.Name).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		before := l.liveConfigMap("cm")
		options := deploytest.InNamespace(l.Name)
		options.Helm.Atomic, options.Helm.TakeOwnership, options.Helm.TimeoutSeconds = true, true, 2
		l.apply(bundle{Name: "x", Files: broken, Options: options})
		l.expectStatus("x", notReady)
		if after := l.liveConfigMap("cm"); after.UID != before.UID || after.Annotations[objects.ReleaseNameAnnotation] != "x" {
			t.Errorf("the object was deleted, or not taken over: %v", after.Annotations)
		}
	})
}
