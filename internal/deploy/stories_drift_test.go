package deploy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// driftFiles are objects that tests edit.
func driftFiles() map[string]string {
	return map[string]string{
		"cm.yaml":     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm, labels: {own: label}}\ndata: {a: b, c: d}\n",
		"secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: secret}\nstringData: {password: hunter2-original}\n",
		"svc.yaml":    "apiVersion: v1\nkind: Service\nmetadata: {name: svc-test}\nspec: {selector: {env: test}, ports: [{port: 80, targetPort: 8080}]}\n",
		"ext.yaml":    "apiVersion: v1\nkind: Service\nmetadata: {name: ext}\nspec: {type: ExternalName, externalName: here.example.com}\n",
		"sa.yaml":     "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: account}\n",
		"dep.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: pause}\nspec: {replicas: 1, selector: {matchLabels: {a: b}}, " +
			"template: {metadata: {labels: {a: b}}, spec: {containers: [{name: p, image: 'docker.io/local/pause:1'}]}}}\n",
	}
}

// resources of driftFiles.
func driftResource(kind string) schema.GroupVersionResource {
	if kind == "deployments" {
		return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: kind}
	}
	return schema.GroupVersionResource{Version: "v1", Resource: kind}
}

// edit changes an object on east with a merge patch, like kubectl edit.
func (l *lab) edit(kind, name, patch string) {
	l.t.Helper()
	client := dynamic.NewForConfigOrDie(l.local).Resource(driftResource(kind)).Namespace(l.Name)
	if _, err := client.Patch(l.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-edit"}); err != nil {
		l.t.Fatal(err)
	}
}

// remove deletes an object on east.
func (l *lab) remove(kind, name string) {
	l.t.Helper()
	client := dynamic.NewForConfigOrDie(l.local).Resource(driftResource(kind)).Namespace(l.Name)
	if err := client.Delete(l.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// field returns a field of an object on east as text, "" if the object does not exist.
func (l *lab) field(kind, name string, read func(map[string]any) any) string {
	l.t.Helper()
	client := dynamic.NewForConfigOrDie(l.local).Resource(driftResource(kind)).Namespace(l.Name)
	object, err := client.Get(l.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return fmt.Sprint(read(object.Object))
}

// dig follows keys into maps, and indexes into lists.
func dig(keys ...any) func(map[string]any) any {
	return func(object map[string]any) any {
		var at any = object
		for _, key := range keys {
			switch key := key.(type) {
			case string:
				fields, _ := at.(map[string]any)
				at = fields[key]
			case int:
				list, _ := at.([]any)
				if key >= len(list) {
					return nil
				}
				at = list[key]
			}
		}
		return at
	}
}

// modified expects these modified objects, and a matching status.
func modified(want ...string) func(*fleet.BundleDeployment) string {
	return func(bd *fleet.BundleDeployment) string {
		var got []string
		for _, m := range bd.Status.ModifiedStatus {
			got = append(got, state.ModifiedText(m))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return "modified (-want +got):\n" + diff
		}
		if bd.Status.NonModified != (len(want) == 0) {
			return fmt.Sprintf("nonModified is %v", bd.Status.NonModified)
		}
		return ""
	}
}

// released expects a revision and a ready status.
func released(release string) func(*fleet.BundleDeployment) string {
	return func(bd *fleet.BundleDeployment) string {
		if bd.Status.Release != release {
			return "release " + bd.Status.Release
		}
		return ready(bd)
	}
}

// correcting enables the correction of drift.
func correcting(c fleet.CorrectDrift) func(*fleet.BundleDeployment) {
	c.Enabled = true
	return func(bd *fleet.BundleDeployment) { bd.Spec.CorrectDrift = &c }
}

func TestDrift_IsReportedWithPatchUntilReverted(t *testing.T) {
	t.Parallel()
	l := newLab(t, "drift-report")
	l.start()
	l.apply(bundle{Name: "x", Files: driftFiles(), Options: deploytest.InNamespace(l.Name)})
	first := l.expectStatus("x", ready)
	edits := []struct{ name, kind, object, change, back, want string }{
		{"a Service's selector", "services", "svc-test", `{"spec":{"selector":{"env":"other"}}}`, `{"spec":{"selector":{"env":"test"}}}`, `service.v1 NS/svc-test modified {"spec":{"selector":{"env":"test"}}}`},
		{"replicas", "deployments", "pause", `{"spec":{"replicas":0}}`, `{"spec":{"replicas":1}}`, `deployment.apps NS/pause modified {"spec":{"replicas":1}}`},
		{"data", "configmaps", "cm", `{"data":{"a":"x"}}`, `{"data":{"a":"b"}}`, `configmap.v1 NS/cm modified {"data":{"a":"b"}}`},
		{"data that was taken away", "configmaps", "cm", `{"data":{"a":null}}`, `{"data":{"a":"b"}}`, `configmap.v1 NS/cm modified {"data":{"a":"b"}}`},
		{"a label", "configmaps", "cm", `{"metadata":{"labels":{"own":"x"}}}`, `{"metadata":{"labels":{"own":"label"}}}`, `configmap.v1 NS/cm modified {"metadata":{"labels":{"own":"label"}}}`},
		{"where a name leads", "services", "ext", `{"spec":{"externalName":"there.example.com"}}`, `{"spec":{"externalName":"here.example.com"}}`, `service.v1 NS/ext modified {"spec":{"externalName":"here.example.com"}}`},
		{"a Secret", "secrets", "secret", `{"stringData":{"password":"hunter2-changed"}}`, `{"stringData":{"password":"hunter2-original"}}`, `secret.v1 NS/secret modified {"data":{"password":"<redacted>"}}`},
		{"the set's label", "configmaps", "cm", `{"metadata":{"labels":null}}`, `{"metadata":{"labels":{"own":"label","objectset.rio.cattle.io/hash":"HASH"}}}`, `configmap.v1 NS/cm is not owned by us`},
	}
	for _, e := range edits {
		want := strings.ReplaceAll(e.want, "NS", l.Name)
		began := time.Now()
		l.edit(e.kind, e.object, e.change)
		bd := l.expectStatus("x", modified(want))
		t.Logf("%s: reported after %s", e.name, time.Since(began))
		if missing := says(conditions.Ready, want)(bd); missing != "" && bd.Status.Ready {
			t.Error(missing)
		}
		l.edit(e.kind, e.object, strings.ReplaceAll(e.back, "HASH", placement.SetOf("x", "").Hash))
		l.expectStatus("x", ready)
	}
	// Added fields are no drift. The next edit shows that the object was compared.
	l.edit("configmaps", "cm", `{"metadata":{"labels":{"new":"label"},"annotations":{"new":"one"}},"data":{"new":"key"}}`)
	l.edit("services", "svc-test", `{"spec":{"selector":{"more":"of-it"}}}`)
	l.remove("serviceaccounts", "account")
	l.expectStatus("x", modified("serviceaccount.v1 "+l.Name+"/account missing"))
	if got := l.get("x").Status.Release; got != first.Status.Release {
		t.Errorf("release %s: drift is only reported", got)
	}
	text := l.log() + fmt.Sprint(l.get("x"))
	if strings.Contains(text, "hunter2") || strings.Contains(text, "aHVudGVyM") {
		t.Error("what is in a Secret is in the status or in the log")
	}
}

func TestDrift_IsCorrected(t *testing.T) {
	t.Parallel()
	l := newLab(t, "drift-correct")
	l.start()
	l.apply(bundle{Name: "x", Files: driftFiles(), Options: deploytest.InNamespace(l.Name), Change: correcting(fleet.CorrectDrift{})})
	l.expectStatus("x", ready)
	edits := []struct {
		name, kind, object, change string
		read                       func(map[string]any) any
		want                       string
	}{
		{"where a name leads", "services", "ext", `{"spec":{"externalName":"there.example.com"}}`, dig("spec", "externalName"), "here.example.com"},
		{"an image", "deployments", "pause", `{"spec":{"template":{"spec":{"containers":[{"name":"p","image":"other:1"}]}}}}`, dig("spec", "template", "spec", "containers", 0, "image"), "docker.io/local/pause:1"},
		{"replicas", "deployments", "pause", `{"spec":{"replicas":0}}`, dig("spec", "replicas"), "1"},
		{"a label", "configmaps", "cm", `{"metadata":{"labels":{"own":"x"}}}`, dig("metadata", "labels", "own"), "label"},
		{"data", "configmaps", "cm", `{"data":{"a":"x"}}`, dig("data", "a"), "b"},
		{"data that was taken away", "configmaps", "cm", `{"data":null}`, dig("data", "a"), "b"},
		{"the set's label", "configmaps", "cm", `{"metadata":{"labels":null}}`, dig("metadata", "labels", fleet.LabelSetHash), placement.SetOf("x", "").Hash},
	}
	for i, e := range edits {
		began := time.Now()
		l.edit(e.kind, e.object, e.change)
		l.eventually(func() string {
			if got := l.field(e.kind, e.object, e.read); got != e.want {
				return e.name + " is " + got
			}
			return ""
		})
		t.Logf("%s: put back after %s", e.name, time.Since(began))
		l.expectStatus("x", released(fmt.Sprintf("%s/x:%d", l.Name, i+2)))
	}
	if got, want := l.revisionsOf(l.Name, "x"), []string{"7 superseded", "8 deployed"}; !slices.Equal(got, want) {
		t.Errorf("revisions %q", got)
	}
}

func TestDeletedObjects_AreRestoredTogether(t *testing.T) {
	t.Parallel()
	l := newLab(t, "drift-deleted")
	l.start()
	l.apply(bundle{Name: "x", Files: driftFiles(), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	l.remove("configmaps", "cm")
	l.edit("services", "ext", `{"spec":{"externalName":"there.example.com"}}`)
	l.expectStatus("x", modified("configmap.v1 "+l.Name+"/cm missing",
		"service.v1 "+l.Name+`/ext modified {"spec":{"externalName":"here.example.com"}}`))
	// Only the correction of drift is enabled.
	l.apply(bundle{Name: "x", Files: driftFiles(), Options: deploytest.InNamespace(l.Name), Change: correcting(fleet.CorrectDrift{})})
	bd := l.expectStatus("x", released(l.Name+"/x:2"))
	if got := l.field("configmaps", "cm", dig("data", "a")) + l.field("services", "ext", dig("spec", "externalName")); got != "bhere.example.com" {
		t.Errorf("%s after %s", got, bd.Status.Release)
	}
}

func TestUncorrectableDrift_IsReportedUntilForce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change string
		read   func(map[string]any) any
		want   string
		text   string
	}{
		"port": {`{"spec":{"ports":[{"port":81,"targetPort":8080}]}}`, dig("spec", "ports", 0, "port"), "80", "spec.ports"},
		"type": {`{"spec":{"type":"NodePort"}}`, dig("spec", "type"), "ClusterIP", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "drift-force-"+name)
			l.start()
			files := driftFiles()
			files["svc.yaml"] += "  \n"
			files["svc.yaml"] = strings.Replace(files["svc.yaml"], "spec: {", "spec: {type: ClusterIP, ", 1)
			without := bundle{Name: "x", Files: files, Options: deploytest.InNamespace(l.Name), Change: correcting(fleet.CorrectDrift{})}
			l.apply(without)
			l.expectStatus("x", ready)
			l.edit("services", "svc-test", test.change)
			if test.text != "" {
				l.expectStatus("x", says(conditions.Ready, test.text))
				if got := l.revisionsOf(l.Name, "x"); !slices.Equal(got, []string{"1 deployed"}) {
					t.Errorf("revisions %q", got)
				}
				with := without
				with.Change = correcting(fleet.CorrectDrift{Force: true})
				l.apply(with)
			}
			l.eventually(func() string {
				if got := l.field("services", "svc-test", test.read); got != test.want {
					return name + " is " + got
				}
				return ""
			})
			l.expectStatus("x", ready)
			if got := l.field("services", "svc-test", dig("spec", "ports", 1)); got != "<nil>" {
				t.Errorf("another port: %s", got)
			}
		})
	}
}

func TestKeepFailHistory_KeepsFailedRevisions(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"kept": true, "gone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "drift-fail-"+name)
			l.start()
			b := bundle{Name: "x", Files: driftFiles(), Options: deploytest.InNamespace(l.Name), Change: correcting(fleet.CorrectDrift{KeepFailHistory: keep})}
			l.apply(b)
			l.expectStatus("x", ready)
			l.edit("configmaps", "cm", `{"data":{"a":"x"},"immutable":true}`)
			bd := l.expectStatus("x", says(conditions.Ready, "immutable"))
			if missing := modified("configmap.v1 " + l.Name + `/cm modified {"data":{"a":"b"}}`)(bd); missing != "" {
				t.Error(missing)
			}
			if bd.Status.Release != l.Name+"/x:1" || bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID {
				t.Errorf("release %s", bd.Status.Release)
			}
			// A restart retries the correction and does not deploy.
			l.halt()
			l.start()
			l.apply(bundle{Name: "other", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
			l.expectStatus("other", ready)
			l.expectStatus("x", says(conditions.Ready, "immutable"))
			l.halt()
			got := l.revisionsOf(l.Name, "x")
			if keep && (len(got) != 2 || got[0] != "1 deployed" || !strings.HasSuffix(got[1], " failed")) {
				t.Errorf("revisions %q", got)
			}
			if !keep && !slices.Equal(got, []string{"1 deployed"}) {
				t.Errorf("revisions %q", got)
			}
		})
	}
}

func TestPausedBundleResumes_DriftIsCorrected(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(*fleet.BundleDeployment){
		"paused": func(bd *fleet.BundleDeployment) { bd.Spec.Paused = true },
		"off":    func(bd *fleet.BundleDeployment) { bd.Spec.OffSchedule = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "drift-"+name)
			l.start()
			on := bundle{Name: "x", Files: driftFiles(), Options: deploytest.InNamespace(l.Name), Change: correcting(fleet.CorrectDrift{})}
			l.apply(on)
			l.expectStatus("x", ready)
			held := on
			held.Change = func(bd *fleet.BundleDeployment) { on.Change(bd); hold(bd) }
			l.apply(held)
			// The same worker deploys the other bundle after it has handled the pause.
			l.apply(bundle{Name: "other", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
			l.expectStatus("other", ready)
			before := l.get("x")
			l.edit("configmaps", "cm", `{"data":{"a":"x"}}`)
			l.edit("configmaps", "other", `{"data":{"greeting":"x"}}`)
			l.expectStatus("other", modified("configmap.v1 "+l.Name+`/other modified {"data":{"greeting":"hi"}}`))
			if after := l.get("x"); after.Status.Release != before.Status.Release || after.Status.NonModified != before.Status.NonModified || l.field("configmaps", "cm", dig("data", "a")) != "x" {
				t.Errorf("it was not left alone: %v", after.Status)
			}
			l.apply(on)
			l.eventually(func() string {
				if got := l.field("configmaps", "cm", dig("data", "a")); got != "b" {
					return "a is " + got
				}
				return ""
			})
			l.expectStatus("x", ready)
		})
	}
}

func TestRemovedObjectStillExists_CountsAsExtra(t *testing.T) {
	t.Parallel()
	l := newLab(t, "drift-extra")
	l.start()
	files := driftFiles()
	files["ext.yaml"] = strings.Replace(files["ext.yaml"], "{name: ext}", "{name: ext, finalizers: [example.com/wait]}", 1)
	files["cm2.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: stays, annotations: {helm.sh/resource-policy: keep}}\n"
	l.apply(bundle{Name: "x", Files: files, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "foreign", Labels: map[string]string{fleet.LabelSetHash: placement.SetOf("x", "").Hash}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "a.example.com"}}
	if _, err := l.East.CoreV1().Services(l.Name).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	delete(files, "ext.yaml")
	delete(files, "cm2.yaml")
	l.apply(bundle{Name: "x", Files: files, Options: deploytest.InNamespace(l.Name)})
	extra := modified("service.v1 " + l.Name + "/ext extra")
	bd := l.expectStatus("x", extra)
	if bd.Status.ResourceCounts.Orphaned != 1 || len(bd.Status.Resources) != len(files) {
		t.Errorf("counts %+v of %d objects", bd.Status.ResourceCounts, len(bd.Status.Resources))
	}
	// A restarted agent reports the same.
	l.halt()
	l.start()
	l.edit("configmaps", "cm", `{"data":{"a":"x"}}`)
	l.expectStatus("x", modified("configmap.v1 "+l.Name+`/cm modified {"data":{"a":"b"}}`, "service.v1 "+l.Name+"/ext extra"))
	l.edit("configmaps", "cm", `{"data":{"a":"b"}}`)
	l.expectStatus("x", extra)
	l.edit("services", "ext", `{"metadata":{"finalizers":null}}`)
	l.expectStatus("x", ready)
	if !l.configMapIsThere(l.Name, "stays") {
		t.Error("an object that was to be kept is gone")
	}
}

func TestComparePatches(t *testing.T) {
	t.Parallel()
	l := newLab(t, "drift-rules")
	l.start()
	options := deploytest.InNamespace(l.Name)
	options.Diff = &fleet.DiffOptions{ComparePatches: []fleet.ComparePatch{
		{APIVersion: "v1", Kind: "Service", Name: "ext", Namespace: l.Name, Operations: []fleet.Operation{{Op: "remove", Path: "/spec/externalName"}}},
		{APIVersion: "v1", Kind: "ConfigMap", JSONPointers: []string{"/data/a"}},
		{APIVersion: "v1", Kind: "ServiceAccount", Name: "acc.*", Namespace: l.Name, Operations: []fleet.Operation{{Op: "ignore"}}},
	}}
	l.apply(bundle{Name: "x", Files: driftFiles(), Options: options})
	l.expectStatus("x", ready)
	covered := []func(){
		func() { l.edit("services", "ext", `{"spec":{"externalName":"there.example.com"}}`) },
		func() { l.edit("configmaps", "cm", `{"data":{"a":"x"}}`) },
		func() { l.edit("configmaps", "cm", `{"data":{"a":null}}`) },
		func() { l.remove("serviceaccounts", "account") },
	}
	for _, edit := range covered {
		edit()
	}
	// An edit without a rule shows that all earlier edits were compared.
	l.edit("configmaps", "cm", `{"data":{"c":"x"}}`)
	l.expectStatus("x", modified("configmap.v1 "+l.Name+`/cm modified {"data":{"c":"d"}}`))
	l.edit("configmaps", "cm", `{"data":{"c":"d"}}`)
	bd := l.expectStatus("x", ready)
	if len(bd.Status.Resources) != len(driftFiles())-1 || bd.Status.ResourceCounts.Missing != 0 {
		t.Errorf("%d objects, counts %+v", len(bd.Status.Resources), bd.Status.ResourceCounts)
	}
	l.remove("services", "ext")
	l.expectStatus("x", modified("service.v1 "+l.Name+"/ext missing"))
	// Without the rules all edits are drift.
	l.edit("configmaps", "cm", `{"data":{"a":"x"}}`)
	l.apply(bundle{Name: "x", Files: driftFiles(), Options: deploytest.InNamespace(l.Name), Change: func(bd *fleet.BundleDeployment) {
		bd.Spec.DeploymentID = l.get("x").Spec.DeploymentID // nothing is deployed
	}})
	l.expectStatus("x", modified("configmap.v1 "+l.Name+`/cm modified {"data":{"a":"b"}}`,
		"service.v1 "+l.Name+"/ext missing", "serviceaccount.v1 "+l.Name+"/account missing"))
}

// administrator creates a cluster admin account on east, which the audit log can tell from the agent.
func (l *lab) administrator() (*rest.Config, string) {
	l.t.Helper()
	accounts := l.East.CoreV1().ServiceAccounts(l.Name)
	if _, err := accounts.Create(l.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "lab-agent"}}, metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: l.Name + "-agent"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "lab-agent", Namespace: l.Name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	if _, err := l.East.RbacV1().ClusterRoleBindings().Create(l.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
	token, err := accounts.CreateToken(l.t.Context(), "lab-agent", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(l.local)
	config.BearerToken = token.Status.Token
	return config, "system:serviceaccount:" + l.Name + ":lab-agent"
}

func TestCorrection_ChangesOnlyDriftedObjects(t *testing.T) {
	t.Parallel()
	for name, force := range map[string]bool{"changed": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "drift-audit-"+name)
			config, account := l.administrator()
			l.options = func(o *Options) { o.Local = config }
			l.start()
			l.apply(bundle{Name: "x", Files: driftFiles(), Options: deploytest.InNamespace(l.Name), Change: correcting(fleet.CorrectDrift{Force: force})})
			l.expectStatus("x", ready)
			writes := func() []string {
				var found []string
				for _, r := range requestsOf(t, control.Plane(t).Cluster(east).AuditLog, account) {
					if slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb) && !strings.Contains(r.RequestURI, "dryRun=All") {
						found = append(found, r.Verb+" "+r.ObjectRef.Resource+" "+r.ObjectRef.Name)
					}
				}
				return found
			}
			before := len(writes())
			l.edit("configmaps", "cm", `{"data":{"a":"x"}}`)
			l.expectStatus("x", released(l.Name+"/x:2"))
			l.halt()
			change := map[bool]string{false: "patch", true: "update"}[force]
			want := []string{
				"create secrets sh.helm.release.v1.x.v2", change + " configmaps cm",
				"update secrets sh.helm.release.v1.x.v1", "update secrets sh.helm.release.v1.x.v2",
			}
			if diff := cmp.Diff(want, writes()[before:]); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAutoscaler_CausesNoDrift(t *testing.T) {
	t.Parallel()
	l := newLab(t, "drift-scale")
	l.start()
	files := driftFiles()
	files["hpa.yaml"] = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: pause}\n" +
		"spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: pause}, minReplicas: 1, maxReplicas: 3}\n"
	options := deploytest.InNamespace(l.Name)
	options.Diff = &fleet.DiffOptions{ComparePatches: []fleet.ComparePatch{{APIVersion: "v1", Kind: "ConfigMap", JSONPointers: []string{"/data/c"}}}}
	l.apply(bundle{Name: "x", Files: files, Options: options, Change: correcting(fleet.CorrectDrift{})})
	l.expectStatus("x", func(bd *fleet.BundleDeployment) string { return modified()(bd) + applied(bd) })
	l.edit("deployments", "pause", `{"spec":{"replicas":3}}`)
	l.edit("configmaps", "cm", `{"data":{"c":"x"}}`)
	// The next edit shows that this one was compared: both are corrected, or none.
	l.edit("configmaps", "cm", `{"data":{"a":"x"}}`)
	l.expectStatus("x", func(bd *fleet.BundleDeployment) string {
		if bd.Status.Release != l.Name+"/x:2" {
			return "release " + bd.Status.Release
		}
		return modified()(bd)
	})
	if got := l.field("configmaps", "cm", dig("data")); got != "map[a:b c:x]" {
		t.Errorf("data %s", got)
	}
	image := dig("spec", "template", "spec", "containers", 0, "image")
	l.edit("deployments", "pause", `{"spec":{"template":{"spec":{"containers":[{"name":"p","image":"docker.io/local/pause:2"}]}}}}`)
	l.eventually(func() string {
		if got := l.field("deployments", "pause", image); got != "docker.io/local/pause:1" {
			return "image " + got
		}
		return ""
	})
	if got := l.field("deployments", "pause", dig("spec", "replicas")); got != "3" {
		t.Errorf("%s replicas", got)
	}
	l.edit("deployments", "pause", `{"spec":{"replicas":4}}`)
	l.eventually(func() string {
		if got := l.field("deployments", "pause", dig("spec", "replicas")); got != "1" {
			return got + " replicas"
		}
		return ""
	})
}

// applied expects that the wanted state was tried.
func applied(bd *fleet.BundleDeployment) string {
	if bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID {
		return "not applied"
	}
	return ""
}

func TestServerDefaultsOfCustomResource_CauseNoDrift(t *testing.T) {
	t.Parallel()
	l := newLab(t, "drift-custom")
	l.start()
	crd := func(more string) {
		l.apply(bundle{Name: "crd", Options: deploytest.InNamespace(l.Name), Files: map[string]string{"crd.yaml": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: customs.lab.example.com}
spec:
  group: lab.example.com
  scope: Namespaced
  names: {kind: Custom, plural: customs}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
      size: {type: integer}, active: {type: boolean}, ` + more + `
      list: {type: array, items: {type: object, properties: {a: {type: integer}, b: {type: string, default: x}}}}}}}}}
`}})
		l.expectStatus("crd", ready)
	}
	crd("unknown: {type: object, properties: {a: {type: string}}},")
	l.apply(bundle{Name: "x", Options: deploytest.InNamespace(l.Name), Change: correcting(fleet.CorrectDrift{}), Files: map[string]string{
		"cr.yaml": "apiVersion: lab.example.com/v1\nkind: Custom\nmetadata: {name: custom}\nspec: {size: 1, active: false, unknown: {a: b}, list: [{a: 1}]}\n",
	}})
	l.expectStatus("x", released(l.Name+"/x:1"))
	client := dynamic.NewForConfigOrDie(l.local).Resource(schema.GroupVersionResource{Group: "lab.example.com", Version: "v1", Resource: "customs"}).Namespace(l.Name)
	crd("") // since then, the API server drops the unknown field
	l.eventually(func() string {
		if live, err := client.Get(t.Context(), "custom", metav1.GetOptions{}); err != nil || dig("spec", "unknown")(live.Object) != nil {
			return fmt.Sprintf("still there, or %v", err)
		}
		return ""
	})
	for i, patch := range []string{`{"spec":{"size":2}}`, `{"spec":{"active":null}}`, `{"spec":{"list":[{"a":2}]}}`} {
		if _, err := client.Patch(t.Context(), "custom", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		l.expectStatus("x", released(fmt.Sprintf("%s/x:%d", l.Name, i+2)))
	}
	live, err := client.Get(t.Context(), "custom", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"size": int64(1), "active": false, "list": []any{map[string]any{"a": int64(1), "b": "x"}}}
	if diff := cmp.Diff(want, live.Object["spec"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// While a new state waits for its deployment, drift from the old state is not corrected.
func TestNewStateWaiting_DriftIsNotCorrected(t *testing.T) {
	t.Parallel()
	l := newLab(t, "drift-waits")
	l.start()
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	l.edit("configmaps", "x", `{"data":{"greeting":"edited"}}`)
	l.expectStatus("x", says(conditions.Ready, "modified"))
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("salut"), Options: deploytest.InNamespace(l.Name), Change: func(bd *fleet.BundleDeployment) {
		correcting(fleet.CorrectDrift{Enabled: true})(bd)
		bd.Spec.DependsOn = []fleet.BundleRef{{Name: "a"}}
	}})
	l.expectStatus("x", says(conditions.Deployed, "no bundles matching labels"))
	if got := l.revisionsOf(l.Name, "x"); !slices.Equal(got, []string{"1 deployed"}) {
		t.Errorf("revisions %q", got)
	}
	l.apply(bundle{Name: "a", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	if got := l.field("configmaps", "x", dig("data", "greeting")); got != "salut" {
		t.Errorf("the greeting is %s", got)
	}
}
