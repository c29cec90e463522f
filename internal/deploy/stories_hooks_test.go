package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// hookOf returns a ConfigMap that is a hook.
func hookOf(name, namespace, events string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: " + namespace + ", annotations: {helm.sh/hook: '" + events + "'}}\n"
}

// TestHooksUnderANamespace_StayInIt has charts with "namespace" that try to create objects outside of it by hooks
// and CRDs.
func TestHooksUnderANamespace_StayInIt(t *testing.T) {
	t.Parallel()
	l := newLab(t, "hook-walls")
	own, other := l.Name+"-own", l.Name+"-other"
	l.namespace(other)
	l.start()
	clusterRole := "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: " + l.Name + "-smuggled, annotations: {helm.sh/hook: pre-install}}\n"
	crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: smuggled.example.com}\n" +
		"spec: {group: example.com, scope: Cluster, names: {kind: Smuggled, plural: smuggled}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n"
	kustomization := map[string]string{"kustomization.yaml": "namePrefix: k-\ncommonLabels: {by: kustomize}\n"}
	tests := map[string]struct {
		files map[string]string
		// refused is the text in the status; "" if the hook is created in the bundle's namespace.
		refused string
		hook    string
	}{
		"a hook in another namespace: is moved":                            {files: hooks(hookOf("smuggled", other, "pre-install")), hook: "smuggled"},
		"a hook and a kustomization: both count":                           {files: deploytest.With(hooks(hookOf("smuggled", other, "post-install")), kustomization), hook: "k-smuggled"},
		"a cluster-scoped hook: is refused":                                {files: hooks(clusterRole), refused: "invalid cluster scoped object"},
		"a cluster-scoped hook, kustomized: is refused":                    {files: deploytest.With(hooks(clusterRole), kustomization), refused: "invalid cluster scoped object"},
		"a CRD among the chart's CRDs: is refused":                         {files: deploytest.With(hooks(""), map[string]string{"crds/a.yaml": crd}), refused: "invalid cluster scoped object"},
		"another object among the chart's CRDs: is refused":                {files: deploytest.With(hooks(""), map[string]string{"crds/a.yaml": hookOf("smuggled", other, "none")}), refused: "nothing but CustomResourceDefinitions"},
		"an object without a namespace among the chart's CRDs: is refused": {files: deploytest.With(hooks(""), map[string]string{"crds/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: smuggled}\n"}), refused: "nothing but CustomResourceDefinitions"},
	}
	i := 0
	for name, test := range tests {
		i++
		bundleName := "walls-" + string(rune('a'+i))
		t.Run(name, func(t *testing.T) {
			namespace := own + bundleName
			l.apply(bundle{Name: bundleName, Files: test.files, Options: fleet.BundleDeploymentOptions{TargetNamespace: namespace, Helm: &fleet.HelmOptions{}}})
			if test.refused != "" {
				l.expectStatus(bundleName, becauseOf(conditions.Deployed, conditions.ReasonOutsideNamespace, test.refused))
			} else {
				l.expectStatus(bundleName, ready)
				found, err := l.East.CoreV1().ConfigMaps(namespace).Get(t.Context(), test.hook, metav1.GetOptions{})
				if err != nil || found.Labels[fleet.LabelSetHash] != placement.SetOf(bundleName, "").Hash {
					t.Errorf("the hook: %v, labels %v", err, found.Labels)
				}
			}
			if l.configMapIsThere(other, "smuggled") || l.configMapIsThere(other, "k-smuggled") {
				t.Error("an object was smuggled into another namespace")
			}
			if _, err := l.East.RbacV1().ClusterRoles().Get(t.Context(), l.Name+"-smuggled", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("a ClusterRole was smuggled: %v", err)
			}
			if err := l.East.Discovery().RESTClient().Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/smuggled.example.com").Do(t.Context()).Error(); !apierrors.IsNotFound(err) {
				t.Errorf("a CRD was smuggled: %v", err)
			}
			l.delete(bundleName)
			l.expectNoRelease(namespace, bundleName)
		})
	}
}

// The namespace of a hook is created after the first attempt.
func TestPreInstallHookFails_RunsAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, "hook-again")
	l.start()
	for name, more := range map[string]map[string]string{
		"plain": nil, "kustomized": {"kustomization.yaml": "namePrefix: k-\n"},
	} {
		t.Run(name, func(t *testing.T) {
			other := l.Name + "-other-" + name
			l.apply(bundle{Name: name, Files: deploytest.With(hooks(hookOf("first", other, "pre-install")), more), Options: deploytest.InNamespace(l.Name)})
			l.expectStatus(name, says(conditions.Deployed, "failed pre-install: "))
			l.namespace(other)
			l.expectStatus(name, ready)
			if hook := map[string]string{"plain": "first", "kustomized": "k-first"}[name]; !l.configMapIsThere(other, hook) {
				t.Error("the hook has not run")
			}
			l.apply(bundle{Name: name, Files: deploytest.With(hooks(hookOf("second", other, "pre-install")), more), Options: deploytest.InNamespace(l.Name)})
			l.expectStatus(name, ready)
			if l.configMapIsThere(other, "second") || l.configMapIsThere(other, "k-second") {
				t.Error("an upgrade has run the hook")
			}
		})
	}
}

func TestAgentStopsDuringPreInstallHook_NextCommitRunsItsHooks(t *testing.T) {
	t.Parallel()
	l := newLab(t, "hook-stopped")
	l.start()
	l.apply(bundle{Name: "x", Files: hooks("apiVersion: v1\nkind: Pod\nmetadata: {name: slow, annotations: {helm.sh/hook: pre-install}}\n" +
		"spec: {nodeName: nowhere, containers: [{name: a, image: b}]}\n"), Options: deploytest.InNamespace(l.Name)})
	l.eventually(func() string {
		if _, err := l.East.CoreV1().Pods(l.Name).Get(t.Context(), "slow", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	l.halt()
	if got := fmt.Sprint(l.revisionsOf(l.Name, "x")); got != "[1 pending-install]" {
		t.Fatalf("the operation was not interrupted: %s", got)
	}
	l.apply(bundle{Name: "x", Files: hooks(hookOf("first", l.Name, "pre-install")), Options: deploytest.InNamespace(l.Name)})
	l.start()
	l.expectStatus("x", ready)
	if !l.configMapIsThere(l.Name, "first") {
		t.Error("the hook has not run")
	}
}

// The namespace of the hook is created before the bundle returns.
func TestBundleReturnsBeforePreDeleteHookRan(t *testing.T) {
	t.Parallel()
	const held = `{"metadata":{"finalizers":["example.com/held"]}}`
	for name, test := range map[string]struct {
		change func(*lab)
		kept   bool
	}{
		"all objects exist: they stay":            {func(*lab) {}, true},
		"an object is gone: uninstalled first":    {func(l *lab) { l.remove("configmaps", "other") }, false},
		"an object is deleted: uninstalled first": {func(l *lab) { l.edit("configmaps", "other", held); l.remove("configmaps", "other") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sum := sha256.Sum256([]byte(name))
			l := newLab(t, "hook-back-"+hex.EncodeToString(sum[:4]))
			uid := func() types.UID {
				found, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "x", metav1.GetOptions{})
				if err != nil {
					return ""
				}
				return found.UID
			}
			wanted := bundle{Name: "x", Options: deploytest.InNamespace(l.Name), Files: deploytest.With(hooks(hookOf("last", l.Name+"-missing", "pre-delete")),
				map[string]string{"templates/other.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n"})}
			l.apply(wanted)
			l.start()
			l.expectStatus("x", ready)
			before := uid()
			l.delete("x")
			l.eventually(func() string {
				if got := fmt.Sprint(l.revisionsOf(l.Name, "x")); got != "[1 uninstalling]" {
					return got
				}
				return ""
			})
			l.halt()
			test.change(l)
			l.namespace(l.Name + "-missing")
			l.apply(wanted)
			l.start()
			if test.kept {
				l.expectStatus("x", ready)
			} else {
				l.eventually(func() string {
					if now := uid(); now == "" || now == before {
						return "the object was not created again"
					}
					return ""
				})
			}
			if kept, ran := uid() == before, l.configMapIsThere(l.Name+"-missing", "last"); kept != test.kept || ran == test.kept {
				t.Errorf("object kept: %t; hook has run: %t", kept, ran)
			}
		})
	}
}

// The hook may already have removed something when the bundle returns.
func TestBundleReturnsWhilePreDeleteHookRuns_IsUninstalledFirst(t *testing.T) {
	t.Parallel()
	l := newLab(t, "hook-runs")
	wanted := bundle{Name: "x", Options: deploytest.InNamespace(l.Name), Files: hooks("apiVersion: v1\nkind: Pod\n" +
		"metadata: {name: teardown, annotations: {helm.sh/hook: pre-delete}}\nspec: {containers: [{name: a, image: b}]}\n")}
	l.apply(wanted)
	l.start()
	l.expectStatus("x", ready)
	before, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "x", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l.delete("x")
	teardownAfter := func(former types.UID) (uid types.UID) {
		l.eventually(func() string {
			pod, err := l.East.CoreV1().Pods(l.Name).Get(t.Context(), "teardown", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if uid = pod.UID; uid == former {
				return fmt.Sprintf("the hook does not run again: %v", l.revisionsOf(l.Name, "x"))
			}
			return ""
		})
		return uid
	}
	first := teardownAfter("")
	l.halt()
	l.apply(wanted)
	l.start()
	teardownAfter(first)
	succeeded := []byte(`{"status":{"phase":"Succeeded"}}`)
	if _, err := l.East.CoreV1().Pods(l.Name).Patch(t.Context(), "teardown", types.MergePatchType, succeeded, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	l.expectStatus("x", ready)
	if after, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "x", metav1.GetOptions{}); err != nil || after.UID == before.UID {
		t.Errorf("the release was not uninstalled first: %v", err)
	}
}

// The revision before the kept one is not the state that ran last.
func TestAtomicUpgradeOfKeptReleaseFails_IsNotRolledBack(t *testing.T) {
	t.Parallel()
	l := newLab(t, "hook-atomic")
	options := fleet.BundleDeploymentOptions{DefaultNamespace: l.Name, Helm: &fleet.HelmOptions{Atomic: true, TimeoutSeconds: 2}}
	deploy := func(greeting, more string) {
		l.apply(bundle{Name: "x", Options: options, Files: deploytest.With(deploytest.HelloFiles(greeting),
			map[string]string{"templates/hook.yaml": hookOf("last", l.Name+"-missing", "pre-delete"), "templates/more.yaml": more})})
	}
	deploy("one", "")
	l.start()
	l.expectStatus("x", ready)
	deploy("two", "")
	l.expectStatus("x", ready)
	l.delete("x")
	l.eventually(func() string {
		if got := fmt.Sprint(l.revisionsOf(l.Name, "x")); got != "[1 superseded 2 uninstalling]" {
			return got
		}
		return ""
	})
	l.halt()
	for i, greeting := range []string{"three", "four"} {
		pod := "never-" + greeting
		deploy(greeting, "apiVersion: v1\nkind: Pod\nmetadata: {name: "+pod+"}\nspec: {nodeName: nowhere, containers: [{name: a, image: b}]}\n")
		if i == 0 {
			l.start()
		}
		l.expectStatus("x", says(conditions.Installed, pod))
		found, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "x", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := found.Data["greeting"]; got != greeting {
			t.Errorf("rolled back from %q to %q: %v", greeting, got, l.revisionsOf(l.Name, "x"))
		}
	}
}

// hooks returns a small chart with a hook.
func hooks(hook string) map[string]string {
	return deploytest.With(deploytest.HelloFiles("hi"), map[string]string{"templates/hook.yaml": hook})
}

// TestHooksThroughTheirLife_KeepPoliciesAndLabels runs the hooks of an upgrade, a correction and an
// uninstallation. The kustomization of the chart changes hooks and other objects together.
func TestHooksThroughTheirLife_KeepPoliciesAndLabels(t *testing.T) {
	t.Parallel()
	l := newLab(t, "hook-life")
	l.start()
	own, other := l.Name+"-own", l.Name+"-other"
	l.namespace(other)
	gone := strings.Replace(hookOf("gone", other, "pre-install,pre-upgrade"), "annotations: {", "annotations: {helm.sh/hook-delete-policy: hook-succeeded, ", 1)
	files := func(greeting string) map[string]string {
		return deploytest.With(deploytest.HelloFiles(greeting), map[string]string{
			"templates/up.yaml":   hookOf("up", other, "pre-install,pre-upgrade") + "data: {greeting: {{ .Values.greeting }}}\n",
			"templates/back.yaml": hookOf("back", other, "post-rollback"),
			"templates/end.yaml":  hookOf("end", other, "post-delete"),
			"templates/gone.yaml": gone,
			// A hook with the name of an object of the release, and a hook that is a List.
			"templates/same.yaml": hookOf("{{ .Release.Name }}", other, "pre-rollback"),
			"templates/list.yaml": "apiVersion: v1\nkind: ConfigMapList\nmetadata: {annotations: {helm.sh/hook: post-upgrade}}\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: item}}]\n",
			"kustomization.yaml":  "namePrefix: k-\npatches: [{patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: up, namespace: " + other + "}, data: {patched: \"yes\"}}'}]\n",
		})
	}
	options := fleet.BundleDeploymentOptions{TargetNamespace: own, Helm: &fleet.HelmOptions{}, CorrectDrift: &fleet.CorrectDrift{Enabled: true}}
	expect := func(name, greeting, patched string) {
		t.Helper()
		found, err := l.East.CoreV1().ConfigMaps(own).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || found.Labels[fleet.LabelSetHash] != placement.SetOf("x", "").Hash || found.Data["greeting"] != greeting || found.Data["patched"] != patched {
			t.Errorf("hook %s: %v, labels %v, data %v", name, err, found.Labels, found.Data)
		}
	}
	l.apply(bundle{Name: "x", Files: files("hi"), Options: options})
	l.expectStatus("x", ready)
	expect("k-up", "hi", "yes")
	l.apply(bundle{Name: "x", Files: files("salut"), Options: options})
	bd := l.expectStatus("x", ready)
	if len(bd.Status.Resources) != 1 {
		t.Errorf("hooks count as objects of the release: %v", bd.Status.Resources)
	}
	expect("k-up", "salut", "yes")
	expect("k-item", "", "")
	if l.configMapIsThere(own, "k-gone") || l.configMapIsThere(own, "k-back") || l.configMapIsThere(own, "k-end") {
		t.Error("a hook was not deleted, or has not run yet")
	}
	if err := l.East.CoreV1().ConfigMaps(own).Delete(t.Context(), "k-x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.eventually(func() string {
		if !l.configMapIsThere(own, "k-back") || !l.configMapIsThere(own, "k-x") {
			return "the release was not rolled back"
		}
		return ""
	})
	l.expectStatus("x", ready)
	l.delete("x")
	l.expectNoRelease(own, "x")
	expect("k-end", "", "")
	if found, err := l.East.CoreV1().ConfigMaps(other).List(t.Context(), metav1.ListOptions{}); err != nil || len(found.Items) > 1 { // its root CA
		t.Errorf("in the other namespace: %v %v", err, found.Items)
	}
}

func TestObjectThatBecomesAHook_IsNotExtra(t *testing.T) {
	t.Parallel()
	l := newLab(t, "hook-extra")
	l.start()
	object := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: " + l.Name + "}\n"
	l.apply(bundle{Name: "x", Files: hooks(object), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	l.apply(bundle{Name: "x", Files: hooks(hookOf("settings", l.Name, "post-upgrade")), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	// A restarted agent reports the same.
	l.halt()
	l.start()
	l.edit("configmaps", "x", `{"data":{"greeting":"x"}}`)
	l.expectStatus("x", modified("configmap.v1 "+l.Name+`/x modified {"data":{"greeting":"hi"}}`))
	if !l.configMapIsThere(l.Name, "settings") {
		t.Error("the hook's object is gone")
	}
}
