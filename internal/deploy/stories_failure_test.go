package deploy

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	releases "github.com/fleet-hub/fleet/internal/deploy/release"
	"github.com/fleet-hub/fleet/internal/deploy/release/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestUndeployableBundle_IsReported(t *testing.T) {
	t.Parallel()
	l := newLab(t, "bad")
	l.start()
	for _, name := range []string{"of-another-version", "with-an-empty-item"} {
		l.create(func(ctx context.Context) error {
			_, err := l.East.CoreV1().ConfigMaps(l.Name).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			return err
		})
	}
	takeover := fleet.BundleDeploymentOptions{DefaultNamespace: l.Name, Helm: &fleet.HelmOptions{TakeOwnership: true}}
	tests := map[string]struct {
		files   map[string]string
		options fleet.BundleDeploymentOptions
		change  func(*fleet.BundleDeployment)
		want    []func(*fleet.BundleDeployment) string
	}{
		"a chart for another Kubernetes version is a permanent failure": {
			files:   map[string]string{"Chart.yaml": "apiVersion: v2\nname: x\nversion: 0.1.0\nkubeVersion: '<1.20.0'\n", "templates/a.yaml": deploytest.ConfigMapYAML},
			options: deploytest.InNamespace(l.Name + "-version"),
			want:    []func(*fleet.BundleDeployment) string{recognisedAs("chart requires kubeVersion"), becauseOf(conditions.Installed, conditions.ReasonKubeVersionUnsupported, "")},
		},
		"a template that is not YAML is a permanent failure": {
			files:   map[string]string{"Chart.yaml": "apiVersion: v2\nname: x\nversion: 0.1.0\n", "templates/a.yaml": "a: b: c\n"},
			options: deploytest.InNamespace(l.Name + "-yaml"),
			want:    []func(*fleet.BundleDeployment) string{recognisedAs("YAML parse error"), becauseOf(conditions.Installed, conditions.ReasonManifestInvalid, "")},
		},
		"invalid plain YAML is a permanent failure": {
			files:   map[string]string{"a.yaml": "a: b: c\n"},
			options: deploytest.InNamespace(l.Name + "-rawyaml"),
			want:    []func(*fleet.BundleDeployment) string{recognisedAs("YAML parse error"), becauseOf(conditions.Installed, conditions.ReasonManifestInvalid, "")},
		},
		"a template that fails is retried": {
			files:   map[string]string{"Chart.yaml": "apiVersion: v2\nname: x\nversion: 0.1.0\n", "templates/a.yaml": `{{ fail "no good" }}`},
			options: deploytest.InNamespace(l.Name + "-fail"),
			want:    []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonRenderingFailed, "no good")},
		},
		"a kind the cluster does not have": {
			files:   map[string]string{"a.yaml": "apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: a}\n"},
			options: deploytest.InNamespace(l.Name + "-kind"),
			want:    []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonKindMissing, "Nothing")},
		},
		"a cluster-scoped object where a namespace is forced": {
			files:   map[string]string{"a.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n"},
			options: fleet.BundleDeploymentOptions{TargetNamespace: l.Name + "-scope"},
			want:    []func(*fleet.BundleDeployment) string{says(conditions.Deployed, "invalid cluster scoped object")},
		},
		"an object of another owner": {
			files:   map[string]string{"a.yaml": strings.Replace(deploytest.ConfigMapYAML, "name: cm", "name: kube-root-ca.crt", 1)},
			options: deploytest.InNamespace(l.Name),
			want:    []func(*fleet.BundleDeployment) string{recognisedAs("exists and cannot be imported into the current release"), becauseOf(conditions.Installed, conditions.ReasonObjectTaken, "")},
		},
		"a missing service account": {
			files:   map[string]string{"a.yaml": deploytest.ConfigMapYAML},
			options: fleet.BundleDeploymentOptions{DefaultNamespace: l.Name, ServiceAccount: "nobody"},
			want:    []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonServiceAccountMissing, `service account "nobody" does not exist`)},
		},
		"a name that leads out of the bundle": {
			files:   map[string]string{"../../etc/passwd.yaml": deploytest.ConfigMapYAML},
			options: deploytest.InNamespace(l.Name + "-path"),
			want:    []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonManifestInvalid, "leads out of the bundle")},
		},
		"contents in a registry": {
			files: map[string]string{"a.yaml": deploytest.ConfigMapYAML}, options: deploytest.InNamespace(l.Name),
			change: func(bd *fleet.BundleDeployment) { bd.Spec.OCIContents = true },
			want:   []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonUnsupported, "OCI registry are not supported")},
		},
		"a chart that the agent would have to download": {
			files: map[string]string{"a.yaml": deploytest.ConfigMapYAML}, options: deploytest.InNamespace(l.Name),
			change: func(bd *fleet.BundleDeployment) { bd.Spec.HelmChartOptions = &fleet.BundleHelmOptions{} },
			want:   []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonUnsupported, "HelmOps")},
		},
		"a chart of a repository that is not in the bundle": {
			files: map[string]string{"a.yaml": deploytest.ConfigMapYAML},
			options: fleet.BundleDeploymentOptions{DefaultNamespace: l.Name,
				Helm: &fleet.HelmOptions{Chart: "web", Repo: "https://charts.example.com"}},
			want: []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonUnsupported, `does not contain the chart "web"`)},
		},
		"a kustomization in a folder that does not exist": {
			files:   map[string]string{"a.yaml": deploytest.ConfigMapYAML},
			options: fleet.BundleDeploymentOptions{DefaultNamespace: l.Name, Kustomize: &fleet.KustomizeOptions{Dir: "prd"}},
			want:    []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonRenderingFailed, "prd/kustomization.yaml")},
		},
		"an object that the API server rejects": {
			files:   map[string]string{"a.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{port: 100000}]}\n"},
			options: deploytest.InNamespace(l.Name + "-invalid"),
			want:    []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonObjectRejected, "100000")},
		},
		"an object that was exported with its version": {
			files:   map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-another-version, resourceVersion: \"1\"}\n"},
			options: takeover,
			want:    []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonObjectRejected, "the object has been modified")},
		},
		"a list with an empty item": {
			files:   map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: with-an-empty-item, ownerReferences: [null]}\n"},
			options: takeover,
			want:    []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonError, l.Name+"/with-an-empty-item has a list with an empty item")},
		},
		"a chart without a dependency that it lists": {
			files: map[string]string{"Chart.yaml": "apiVersion: v2\nname: x\nversion: 0.1.0\ndependencies: [{name: db, version: 1.0.0}]\n",
				"templates/a.yaml": deploytest.ConfigMapYAML},
			options: deploytest.InNamespace(l.Name + "-dependency"),
			want:    []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonRenderingFailed, `dependency "db" is found in Chart.yaml, but missing`)},
		},
		"a kustomization that does not build": {
			files:   map[string]string{"kustomization.yaml": "resources: [nothing.yaml]\n"},
			options: deploytest.InNamespace(l.Name + "-kustomize"),
			want:    []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonRenderingFailed, "nothing.yaml")},
		},
		"a missing namespace that must exist": {
			files: map[string]string{"a.yaml": deploytest.ConfigMapYAML},
			options: fleet.BundleDeploymentOptions{TargetNamespace: l.Name + "-nowhere", DefaultNamespace: l.Name,
				AllowedTargetNamespaceSelector: &metav1.LabelSelector{},
				DownstreamResources:            []fleet.DownstreamResource{{Kind: "Secret", Name: "any"}}},
			want: []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonNamespaceMissing,
				"target namespace "+l.Name+"-nowhere does not exist on downstream cluster")},
		},
		"a missing namespace that the bundle must not create": {
			files:   map[string]string{"a.yaml": deploytest.ConfigMapYAML},
			options: fleet.BundleDeploymentOptions{DefaultNamespace: l.Name + "-none", CreateNamespace: new(bool)},
			want:    []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonNamespaceMissing, "not found")},
		},
		"a missing object to copy": {
			files:   map[string]string{"a.yaml": deploytest.ConfigMapYAML},
			options: fleet.BundleDeploymentOptions{DefaultNamespace: l.Name, DownstreamResources: []fleet.DownstreamResource{{Kind: "Secret", Name: "nothing"}}},
			change:  func(bd *fleet.BundleDeployment) { bd.Spec.DownstreamResourcesGeneration = 1 },
			want:    []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonContentMissing, "Secret nothing")},
		},
		"a missing Content": {
			files: map[string]string{"a.yaml": deploytest.ConfigMapYAML}, options: deploytest.InNamespace(l.Name),
			change: func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID = "s-nothing:x" },
			want:   []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonContentMissing, "s-nothing")},
		},
		"a namespace that is not allowed": {
			files: map[string]string{"a.yaml": deploytest.ConfigMapYAML},
			options: fleet.BundleDeploymentOptions{DefaultNamespace: l.Name, AllowedTargetNamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"team": "a"}}},
			want: []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonNamespaceRefused, "does not match AllowedTargetNamespaceSelector (team=a)")},
		},
		"a dependency that does not exist": {
			files: map[string]string{"a.yaml": deploytest.ConfigMapYAML}, options: deploytest.InNamespace(l.Name + "-dep"),
			change: func(bd *fleet.BundleDeployment) { bd.Spec.DependsOn = []fleet.BundleRef{{Name: "missing"}} },
			want:   []func(*fleet.BundleDeployment) string{becauseOf(conditions.Deployed, conditions.ReasonDependencyMissing, "no bundles matching labels")},
		},
	}
	i := 0
	for name, test := range tests {
		i++
		bundleName := "bad-" + string(rune('a'+i))
		t.Run(name, func(t *testing.T) {
			l.apply(bundle{Name: bundleName, Files: test.files, Options: test.options, Change: test.change})
			for _, want := range test.want {
				l.expectStatus(bundleName, want)
			}
		})
	}
}

// recognisedAs expects the status after a permanent failure.
func recognisedAs(text string) func(*fleet.BundleDeployment) string {
	return func(bd *fleet.BundleDeployment) string {
		if missing := says(conditions.Installed, text)(bd); missing != "" {
			return missing
		}
		if bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID || bd.Status.Release != "" || bd.Status.Ready || !bd.Status.NonModified {
			return "the failure is not recorded as applied"
		}
		return conditionsAre(bd, "Deployed=True Ready=False Installed=False")
	}
}

func TestFailedBundle_RecoversWithNextChange(t *testing.T) {
	t.Parallel()
	l := newLab(t, "heals")
	l.start()
	options := deploytest.InNamespace(l.Name + "-x")
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: options})
	l.expectStatus("x", ready)
	broken := deploytest.HelloFiles("hi")
	broken["templates/bad.yaml"] = "a: b: c\n"
	l.apply(bundle{Name: "x", Files: broken, Options: options})
	l.expectStatus("x", recognisedAs("YAML parse error"))
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: options})
	l.expectStatus("x", ready)
}

func TestValuesSecret_IsUsedWhenHashMatches(t *testing.T) {
	t.Parallel()
	l := newLab(t, "values")
	l.start()
	ns := l.Name + "-x"
	values, err := json.Marshal(map[string]any{"greeting": "from the secret"})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(values)
	withHash := func(bd *fleet.BundleDeployment) { bd.Spec.ValuesHash = hex.EncodeToString(sum[:]) }
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: l.Name}, Type: fleet.SecretTypeBundleDeployment,
		Data: map[string][]byte{"values": []byte(`{"greeting":"older"}`)}}
	if _, err := l.HubCore.CoreV1().Secrets(l.Name).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(ns), Change: withHash})
	l.expectStatus("x", says(conditions.Deployed, "does not match the hash"))

	secret.Data["values"] = values
	if _, err := l.HubCore.CoreV1().Secrets(l.Name).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	l.expectStatus("x", ready)
	cm, err := l.East.CoreV1().ConfigMaps(ns).Get(t.Context(), "x", metav1.GetOptions{})
	if err != nil || cm.Data["greeting"] != "from the secret" {
		t.Errorf("greeting is %q (%v)", cm.Data["greeting"], err)
	}
}

func TestSecretValue_IsNotInStatus(t *testing.T) {
	t.Parallel()
	l := newLab(t, "hidden")
	l.start()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "creds", Namespace: l.Name}, Data: map[string][]byte{
		"values.yaml": []byte("password: hunter2hunter2\n")}}
	if _, err := l.East.CoreV1().Secrets(l.Name).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"Chart.yaml":         "apiVersion: v2\nname: x\nversion: 0.1.0\n",
		"values.schema.json": `{"properties": {"password": {"pattern": "^[0-9]+$"}}}`,
	}
	options := deploytest.InNamespace(l.Name)
	options.Helm.ValuesFrom = []fleet.ValuesFrom{{SecretKeyRef: &fleet.ValuesKeyRef{Name: "creds"}}}
	l.apply(bundle{Name: "x", Files: files, Options: options})
	bd := l.expectStatus("x", says(conditions.Deployed, "password"))
	text, err := json.Marshal(bd.Status)
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{string(text), l.log()} {
		if strings.Contains(place, "hunter2") {
			t.Errorf("the password is in %s", place)
		}
	}
}

// store stores a revision as a killed agent would have left it.
func (l *lab) store(namespace, name, bundleDeployment string, number int, status release.Status, manifest string) {
	l.t.Helper()
	var sealed *releases.Seal
	if bundleDeployment != "" {
		sealed = releases.NewSeal(l.East.CoreV1().Secrets(l.Name), func(placement.Release) int { return 0 })
	}
	h, err := releases.LoadHistory(l.t.Context(), l.East.CoreV1().Secrets(namespace), placement.Release{Namespace: namespace, Name: name}, time.Now, sealed)
	if err != nil {
		l.t.Fatal(err)
	}
	r := &release.Release{
		Name: name, Namespace: namespace, Version: number, Manifest: manifest, Info: &release.Info{Status: status},
		Chart: &chart.Chart{Metadata: &chart.Metadata{APIVersion: "v2", Name: name, Version: "0.1.0", Annotations: map[string]string{
			fleet.AnnotationBundleID: bundleDeployment, fleet.AnnotationAgentNamespace: l.Name,
		}}},
	}
	if err := h.Create(releases.SecretName(name, number), r); err != nil {
		l.t.Fatal(err)
	}
}

// storedRevision is a revision as a killed agent has left it.
type storedRevision struct {
	Number int
	Status release.Status
}

func TestInterruptedOperation_IsContinued(t *testing.T) {
	t.Parallel()
	leftover := strings.Replace(deploytest.ConfigMapYAML, "name: cm", "name: leftover", 1)
	tests := map[string]struct {
		revisions []storedRevision
		want      string
	}{
		"a first installation": {[]storedRevision{{1, release.StatusPendingInstall}}, ":2"},
		"an upgrade":           {[]storedRevision{{1, release.StatusDeployed}, {2, release.StatusPendingUpgrade}}, ":3"},
		"a rollback":           {[]storedRevision{{3, release.StatusDeployed}, {4, release.StatusPendingRollback}}, ":5"},
		"an upgrade of a release that never was deployed": {[]storedRevision{{1, release.StatusFailed}, {2, release.StatusPendingUpgrade}}, ":3"},
		"an uninstallation": {[]storedRevision{{1, release.StatusUninstalling}}, ":1"},
		"a replacement of a release that was uninstalled": {[]storedRevision{{1, release.StatusUninstalled}, {2, release.StatusPendingInstall}}, ":3"},
		"a failed release": {[]storedRevision{{1, release.StatusFailed}}, ":2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sum := sha256.Sum256([]byte(name))
			l := newLab(t, "cut-"+hex.EncodeToString(sum[:4]))
			for _, r := range test.revisions {
				l.store(l.Name, "x", "x", r.Number, r.Status, leftover)
			}
			owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "leftover", Annotations: map[string]string{
				objects.ReleaseNameAnnotation: "x", objects.ReleaseNamespaceAnnotation: l.Name}}}
			if _, err := l.East.CoreV1().ConfigMaps(l.Name).Create(t.Context(), owned, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			l.apply(bundle{Name: "x", Files: map[string]string{"cm.yaml": deploytest.ConfigMapYAML}, Options: deploytest.InNamespace(l.Name)})
			l.start()
			bd := l.expectStatus("x", ready)
			if !strings.HasSuffix(bd.Status.Release, test.want) {
				t.Errorf("release is %s, want …%s", bd.Status.Release, test.want)
			}
			if _, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "leftover", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("what the operation that was cut off left is still there (%v)", err)
			}
		})
	}
}

func TestTakeOwnership_TakesOverObjects(t *testing.T) {
	t.Parallel()
	l := newLab(t, "takeover")
	l.start()
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm", Labels: map[string]string{"mine": "yes"}}, Data: map[string]string{"other": "kept"}}
	if _, err := l.East.CoreV1().ConfigMaps(l.Name).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	options := deploytest.InNamespace(l.Name)
	l.apply(bundle{Name: "a", Files: map[string]string{"cm.yaml": deploytest.ConfigMapYAML}, Options: options})
	l.expectStatus("a", recognisedAs("cannot be imported"))
	options.Helm.TakeOwnership = true
	l.apply(bundle{Name: "a", Files: map[string]string{"cm.yaml": deploytest.ConfigMapYAML}, Options: options})
	l.expectStatus("a", ready)
	cm, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "cm", metav1.GetOptions{})
	if err != nil || cm.Data["a"] != "b" || cm.Data["other"] != "kept" || cm.Labels["mine"] != "yes" ||
		cm.Annotations[fleet.AnnotationSetID] != "default-a" {
		t.Errorf("the object was not taken over as it was: %v %v", cm, err)
	}

	l.apply(bundle{Name: "b", Files: map[string]string{"cm.yaml": deploytest.ConfigMapYAML}, Options: options})
	l.expectStatus("b", ready)
	l.expectStatus("a", says(conditions.Ready, "configmap.v1 "+l.Name+"/cm is not owned by us"))

	l.delete("a") // what b took over stays
	l.eventually(func() string {
		if _, err := l.East.CoreV1().Secrets(l.Name).Get(t.Context(), "sh.helm.release.v1.a.v1", metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return ""
		}
		return "release a is there"
	})
	if _, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "cm", metav1.GetOptions{}); err != nil {
		t.Errorf("the object of b went with a: %v", err)
	}
	l.expectStatus("b", ready)
}

func TestReleaseRenamed_ObjectsMove(t *testing.T) {
	t.Parallel()
	l := newLab(t, "rename")
	l.start()
	options := deploytest.InNamespace(l.Name)
	l.apply(bundle{Name: "x", Files: map[string]string{"cm.yaml": deploytest.ConfigMapYAML, "old.yaml": strings.Replace(deploytest.ConfigMapYAML, "name: cm", "name: old", 1)}, Options: options})
	l.expectStatus("x", ready)
	before, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "cm", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	options.Helm.ReleaseName = "renamed"
	l.apply(bundle{Name: "x", Files: map[string]string{"cm.yaml": deploytest.ConfigMapYAML}, Options: options})
	bd := l.expectStatus("x", ready)
	if bd.Status.Release != l.Name+"/renamed:1" {
		t.Errorf("release is %s", bd.Status.Release)
	}
	l.eventually(func() string {
		secrets, err := l.East.CoreV1().Secrets(l.Name).List(t.Context(), metav1.ListOptions{LabelSelector: "name=x"})
		if err != nil || len(secrets.Items) > 0 {
			return "the old release is there"
		}
		if _, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "old", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return "an object of the old release is there"
		}
		return ""
	})
	after, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "cm", metav1.GetOptions{})
	if err != nil || after.UID != before.UID {
		t.Errorf("the object was recreated instead of moved: %v", err)
	}
	l.expectStatus("x", ready)
}

func TestMissingObjects_AreReportedAndRestored(t *testing.T) {
	t.Parallel()
	l := newLab(t, "missing")
	l.start()
	l.apply(bundle{Name: "x", Files: map[string]string{"cm.yaml": deploytest.ConfigMapYAML}, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	configMaps := l.East.CoreV1().ConfigMaps(l.Name)
	cm, err := configMaps.Get(t.Context(), "cm", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := configMaps.Delete(t.Context(), "cm", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.expectStatus("x", says(conditions.Ready, "configmap.v1 "+l.Name+"/cm missing"))
	labels := cm.Labels
	cm.ResourceVersion, cm.UID, cm.Labels = "", "", nil
	if cm, err = configMaps.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cm.Labels = labels
	if _, err := configMaps.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	l.expectStatus("x", ready)
	if _, err := configMaps.Patch(t.Context(), "cm", types.MergePatchType, []byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	l.expectStatus("x", says(conditions.Ready, "is not owned by us"))
}

// A BundleDeployment waits for another object. Only the event of that object can wake it within a quarter of an
// hour.
func TestAwaitedObjectCreated_WakesBundle(t *testing.T) {
	t.Parallel()
	l := newLab(t, "awaited")
	l.start()
	allowed := func(namespace string) fleet.BundleDeploymentOptions {
		options := deploytest.InNamespace(namespace)
		options.AllowedTargetNamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
		return options
	}
	l.tenant("later", l.Name+"-team")
	if err := l.East.CoreV1().ServiceAccounts(l.Name).Delete(t.Context(), "later", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	valued, account := deploytest.InNamespace(l.Name), deploytest.InNamespace(l.Name+"-team")
	valued.Helm.ValuesFrom = []fleet.ValuesFrom{{SecretKeyRef: &fleet.ValuesKeyRef{Name: "later", Namespace: l.Name}}}
	account.ServiceAccount = "later"
	refused, missing := l.Name+"-refused", l.Name+"-missing"
	l.namespace(refused)
	waits := map[string]struct {
		options fleet.BundleDeploymentOptions
		reason  string
		come    func()
	}{
		"labels":    {allowed(refused), conditions.ReasonNamespaceRefused, func() { l.mark(refused, `{"metadata":{"labels":{"team":"a"}}}`) }},
		"namespace": {allowed(missing), conditions.ReasonNamespaceMissing, func() { l.namespace(missing); l.mark(missing, `{"metadata":{"labels":{"team":"a"}}}`) }},
		"values": {valued, conditions.ReasonHelmValuesInvalid, func() {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "later"}, StringData: map[string]string{"values.yaml": "greeting: hi"}}
			if _, err := l.East.CoreV1().Secrets(l.Name).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}},
		"account": {account, conditions.ReasonServiceAccountMissing, func() {
			l.create(func(ctx context.Context) error {
				_, err := l.East.CoreV1().ServiceAccounts(l.Name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "later"}}, metav1.CreateOptions{})
				return err
			})
		}},
	}
	for name, wait := range waits {
		l.apply(bundle{Name: name, Files: map[string]string{"cm.yaml": strings.ReplaceAll(deploytest.ConfigMapYAML, "name: cm", "name: "+name)}, Options: wait.options})
	}
	for name, wait := range waits {
		l.expectStatus(name, becauseOf(conditions.Deployed, wait.reason, ""))
	}
	for name, wait := range waits {
		wait.come()
		l.expectStatus(name, ready)
	}
}

func TestUnknownField_IsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, "unknown-field")
	l.start()
	crd := func(more string) {
		l.apply(bundle{Name: "crd", Options: deploytest.InNamespace(l.Name), Files: map[string]string{"crd.yaml": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.fields.example.com}
spec:
  group: fields.example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}` + more + `}}}}}}]
`}})
		l.expectStatus("crd", ready)
	}
	crd(", old: {type: integer}")
	options := deploytest.InNamespace(l.Name)
	options.Helm = &fleet.HelmOptions{Atomic: true}
	with := func(greeting, thing, more string) bundle {
		files := deploytest.HelloFiles(greeting)
		files["templates/cm.yaml"] += more
		files["templates/thing.yaml"] = "apiVersion: fields.example.com/v1\nkind: Thing\nmetadata: {name: x}\nspec: " + thing + "\n"
		return bundle{Name: "x", Files: files, Options: options}
	}
	greets := func(want string) {
		t.Helper()
		l.eventually(func() string {
			if got := l.field("configmaps", "x", dig("data", "greeting")); got != want {
				return "the greeting is " + got
			}
			return ""
		})
	}
	l.apply(with("hi", "{size: 1, old: 1}", ""))
	l.expectStatus("x", ready)
	crd("")
	client := dynamic.NewForConfigOrDie(l.local).Resource(schema.GroupVersionResource{Group: "fields.example.com", Version: "v1", Resource: "things"}).Namespace(l.Name)
	l.eventually(func() string {
		if live, err := client.Get(t.Context(), "x", metav1.GetOptions{}); err != nil || dig("spec", "old")(live.Object) != nil {
			return fmt.Sprintf("the field is still known, or %v", err)
		}
		return ""
	})
	l.apply(with("salut", "{size: 1, old: 1}", "")) // the custom resource did not change
	l.expectStatus("x", ready)
	l.apply(with("ciao", "{size: 2, old: 1}", ""))
	l.expectStatus("x", recognisedAs(`unknown field "spec.old"`))
	l.expectStatus("x", recognisedAs("has been rolled back due to atomic being set"))
	greets("salut")
	l.apply(with("ciao", "{size: 2}", "date: {a: b}\n"))
	l.expectStatus("x", recognisedAs(`unknown field "date"`))
	greets("salut")
	l.apply(with("ciao", "{size: 2}", ""))
	l.expectStatus("x", ready)
	greets("ciao")
	options.Helm = nil
	files := deploytest.HelloFiles("hi")
	files["templates/cm.yaml"] += "date: {a: b}\n"
	l.apply(bundle{Name: "new", Files: files, Options: options})
	l.expectStatus("new", recognisedAs(`unknown field "date"`))
}

func TestUnknownField_IsRefusedInEachAttempt(t *testing.T) {
	t.Parallel()
	l := newLab(t, "unknown-again")
	l.start()
	if _, err := l.East.CoreV1().ConfigMaps(l.Name).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	options := deploytest.InNamespace(l.Name)
	options.Helm.TakeOwnership = true
	typo := deploytest.ConfigMapYAML + "date: {a: b}\n"
	l.apply(bundle{Name: "x", Files: map[string]string{"cm.yaml": typo}, Options: options})
	l.expectStatus("x", recognisedAs(`configmap.v1 `+l.Name+`/cm: unknown field "date": correct or remove the field`)) // taken over
	options.Helm.MaxHistory = 5
	bd := l.apply(bundle{Name: "x", Files: map[string]string{"cm.yaml": typo}, Options: options}) // an upgrade of the failed revision
	l.eventually(func() string {
		if l.get("x").Status.AppliedDeploymentID != bd.Spec.DeploymentID {
			return "the new attempt is not recorded"
		}
		return ""
	})
	l.expectStatus("x", recognisedAs(`unknown field "date"`))
	l.apply(bundle{Name: "x", Files: map[string]string{"cm.yaml": deploytest.ConfigMapYAML}, Options: options})
	l.expectStatus("x", ready)
}

// The API server repeats the content of a patch that it refuses.
func TestRefusedObject_ContentIsNotReported(t *testing.T) {
	t.Parallel()
	l := newLab(t, "refused-content")
	l.start()
	group, crd, _ := l.thing()
	crd = strings.Replace(crd, "x-kubernetes-preserve-unknown-fields: true", "properties: {spec: {type: object, properties: {token: {type: string}}}}", 1)
	l.apply(bundle{Name: "crd", Files: map[string]string{"crd.yaml": crd}, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("crd", ready)
	const old, secret = "former-secret", "very-secret"
	forms := []string{old, secret, base64.StdEncoding.EncodeToString([]byte(old)), base64.StdEncoding.EncodeToString([]byte(secret))}
	thing := func(name, spec string) string {
		return "apiVersion: " + group + "/v1\nkind: Thing\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
	}
	credentials := func(name, fields string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + "}\n" + fields + "\n"
	}
	for name, test := range map[string]struct {
		before, after, want string
		force               bool
	}{
		"create":      {after: credentials("create", "stringData: {a: "+secret+"}\ndatax: {a: b}"), want: `creating secret.v1 ` + l.Name + `/create: unknown field "datax": correct or remove the field`},
		"patch":       {before: credentials("patch", "stringData: {a: "+old+"}"), after: credentials("patch", "stringData: {a: "+secret+"}\ndatax: {a: b}"), want: `changing secret.v1 ` + l.Name + `/patch: unknown field "datax": correct or remove the field`},
		"metadata":    {before: credentials("metadata", "stringData: {a: "+old+"}"), after: strings.Replace(credentials("metadata", "stringData: {a: "+secret+"}"), "metadata: {", "metadata: {lables: {a: b}, ", 1), want: `unknown field "metadata.lables"`},
		"replace":     {before: credentials("replace", "stringData: {a: "+old+"}"), after: credentials("replace", "stringData: {a: "+secret+"}\ndatax: {a: b}"), force: true, want: `changing secret.v1 ` + l.Name + `/replace: unknown field "datax": correct or remove the field`},
		"merge-patch": {before: thing("merge-patch", "{token: "+old+"}"), after: thing("merge-patch", "{token: "+secret+", tokn: a}"), want: `changing thing.` + group + ` ` + l.Name + `/merge-patch: unknown field "spec.tokn": correct or remove the field`},
		"type":        {before: credentials("type", "stringData: {a: "+old+"}"), after: credentials("type", "stringData: {a: "+secret+", b: 1}"), want: `changing secret.v1 ` + l.Name + `/type: json: cannot unmarshal number into Go struct field Secret.stringData of type string`},
		"custom-type": {before: thing("custom-type", "{token: "+old+"}"), after: strings.Replace(thing("custom-type", "{token: "+secret+"}"), "metadata: {", "metadata: {finalizers: {a: b}, ", 1), want: `/custom-type: json: cannot unmarshal object into Go struct field ObjectMeta.finalizers of type []string`},
	} {
		t.Run(name, func(t *testing.T) {
			options := deploytest.InNamespace(l.Name)
			options.Helm.Force = test.force
			if test.before != "" {
				l.apply(bundle{Name: name, Files: map[string]string{"a.yaml": test.before}, Options: options})
				l.expectStatus(name, ready)
			}
			l.apply(bundle{Name: name, Files: map[string]string{"a.yaml": test.after}, Options: options})
			var bd *fleet.BundleDeployment
			var messages string
			l.eventually(func() string {
				bd, messages = l.get(name), ""
				for _, condition := range bd.Status.Conditions {
					messages += condition.Message + "\n"
				}
				if !strings.Contains(messages, l.Name+"/"+name+": ") {
					return "it is not refused: " + messages
				}
				return ""
			})
			if !strings.Contains(messages, test.want) {
				t.Errorf("the status lacks %q: %s", test.want, messages)
			}
			status, err := json.Marshal(bd.Status)
			if err != nil {
				t.Fatal(err)
			}
			reported := string(status) + l.log()
			for _, core := range []kubernetes.Interface{l.HubCore, l.East} {
				events, err := core.CoreV1().Events(l.Name).List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				reported += fmt.Sprint(events.Items)
			}
			for _, form := range forms {
				if strings.Contains(reported, form) {
					t.Errorf("%q is in the status, an event or the log", form)
				}
			}
		})
	}
}

func TestNewFieldOfCRD_MayBeUsedInTheSameBundle(t *testing.T) {
	t.Parallel()
	l := newLab(t, "new-field")
	l.start()
	_, crd, thing := l.thing()
	options := deploytest.InNamespace(l.Name)
	options.Helm.Atomic = true
	with := func(fields, spec string) bundle {
		return bundle{Name: "x", Options: options, Files: map[string]string{
			"crd.yaml": strings.Replace(crd, "x-kubernetes-preserve-unknown-fields: true", "properties: {spec: {type: object, properties: {b: {type: string}"+fields+"}}}", 1),
			"a.yaml":   strings.Replace(thing, "{b: c}", spec, 1),
		}}
	}
	first := with("", "")
	delete(first.Files, "a.yaml") // Helm needs the kind before it can read the object
	l.apply(first)
	l.expectStatus("x", ready)
	var fields, spec string
	for i := range 10 {
		fields, spec = fields+fmt.Sprintf(", f%d: {type: string}", i), spec+fmt.Sprintf(", f%d: a", i)
		bd := l.apply(with(fields, "{b: c"+spec+"}"))
		l.eventually(func() string {
			if now := l.get("x"); now.Status.AppliedDeploymentID != bd.Spec.DeploymentID {
				return "not applied"
			}
			return ""
		})
		if got := l.expectStatus("x", ready); got.Status.AppliedDeploymentID != bd.Spec.DeploymentID {
			t.Errorf("deployed %s, want %s", got.Status.AppliedDeploymentID, bd.Spec.DeploymentID)
		}
	}
}
