package deploy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/release/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// TestStagedDeployment_Waits stages a deployment on the hub.
func TestStagedDeployment_Waits(t *testing.T) {
	t.Parallel()
	l := newLab(t, "staged")
	l.start()
	before := l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("salut"), Options: deploytest.InNamespace(l.Name), Change: func(bd *fleet.BundleDeployment) {
		bd.Spec.DeploymentID = before.Spec.DeploymentID
		bd.Spec.StagedOptions.KeepResources = true
	}})
	l.goesOn() // it comes behind in the queue
	if got := l.revisionsOf(l.Name, "x"); len(got) != 1 {
		t.Errorf("revisions %v", got)
	}
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("salut"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", func(bd *fleet.BundleDeployment) string {
		if bd.Status.Release != l.Name+"/x:2" {
			return "release " + bd.Status.Release
		}
		return ready(bd)
	})
}

func TestHelmOptions_AreApplied(t *testing.T) {
	t.Parallel()
	l := newLab(t, "options")
	l.start()
	t.Run("maxHistory revisions are kept", func(t *testing.T) {
		options := deploytest.InNamespace(l.Name)
		options.Helm.MaxHistory = 3
		for _, greeting := range []string{"a", "b", "c", "d"} {
			l.apply(bundle{Name: "history", Files: deploytest.HelloFiles(greeting), Options: options})
			l.expectStatus("history", ready)
		}
		if got := strings.Join(l.revisionsOf(l.Name, "history"), ", "); got != "2 superseded, 3 superseded, 4 deployed" {
			t.Errorf("revisions %s", got)
		}
	})
	found := func(t *testing.T, name string) string {
		t.Helper()
		cm, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return cm.Data["found"]
	}
	show := func(name, text string) map[string]string {
		return template("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {found: '" + text + "'}\n")
	}
	t.Run("templates see the cluster's version and kinds", func(t *testing.T) {
		l.apply(bundle{Name: "capabilities", Options: deploytest.InNamespace(l.Name), Files: show("capabilities",
			`{{ .Capabilities.KubeVersion }} {{ .Capabilities.APIVersions.Has "apps/v1/Deployment" }} {{ .Capabilities.APIVersions.Has "example.com/v1/Nothing" }}`)})
		l.expectStatus("capabilities", ready)
		version, err := l.East.Discovery().ServerVersion()
		if err != nil {
			t.Fatal(err)
		}
		if got := found(t, "capabilities"); got != version.GitVersion+" true false" {
			t.Errorf("found %q", got)
		}
	})
	t.Run("names are looked up unless disableDNS", func(t *testing.T) {
		for name, disabled := range map[string]bool{"dns": false, "no-dns": true} {
			options := deploytest.InNamespace(l.Name)
			options.Helm.DisableDNS = disabled
			l.apply(bundle{Name: name, Options: options, Files: show(name, `{{ getHostByName "localhost" }}`)})
			l.expectStatus(name, ready)
			if got := found(t, name); (got == "") != disabled {
				t.Errorf("%s: found %q", name, got)
			}
		}
	})
	t.Run("skipSchemaValidation", func(t *testing.T) {
		files := show("schema", "there")
		files["values.schema.json"] = `{"required": ["missing"]}`
		l.apply(bundle{Name: "schema", Options: deploytest.InNamespace(l.Name), Files: files})
		l.expectStatus("schema", becauseOf(conditions.Deployed, conditions.ReasonHelmValuesInvalid, "missing"))
		options := deploytest.InNamespace(l.Name)
		options.Helm.SkipSchemaValidation = true
		l.apply(bundle{Name: "schema", Options: options, Files: files})
		l.expectStatus("schema", ready)
	})
}

func TestWaitForJobs_WaitsForJobs(t *testing.T) {
	t.Parallel()
	l := newLab(t, "jobs")
	l.start()
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: {{ .Release.Name }}}\n" +
		"spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}\n"
	options := deploytest.InNamespace(l.Name)
	options.Helm.TimeoutSeconds = 600
	l.apply(bundle{Name: "without", Files: template(job), Options: options})
	l.expectStatus("without", expectedConditions("Deployed=True Installed=True"))
	waits := options
	waits.Helm = options.Helm.DeepCopy()
	waits.Helm.WaitForJobs = true
	l.apply(bundle{Name: "with", Files: template(job), Options: waits})
	jobs := l.East.BatchV1().Jobs(l.Name)
	l.eventually(func() string {
		if _, err := jobs.Get(t.Context(), "with", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	if got := strings.Join(l.revisionsOf(l.Name, "with"), ", "); got != "1 pending-install" {
		t.Errorf("it is not waited for: %s", got)
	}
	done := []byte(`{"status":{"succeeded":1,"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:00:01Z",` +
		`"conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}}`)
	if _, err := jobs.Patch(t.Context(), "with", types.MergePatchType, done, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	l.expectStatus("with", expectedConditions("Deployed=True Installed=True"))
}

// A failed Job never completes: the agent does not wait until the timeout.
func TestJobFails_IsReportedAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t, "job-fails")
	l.start()
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: {{ .Release.Name }}}\n" +
		"spec: {suspend: true, backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}\n"
	never := "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: never}\n" +
		"spec: {accessModes: [ReadWriteOnce], storageClassName: nowhere, resources: {requests: {storage: 1Gi}}}\n"
	options := deploytest.InNamespace(l.Name)
	options.Helm.TimeoutSeconds, options.Helm.WaitForJobs = 3600, true
	l.apply(bundle{Name: "x", Files: template(job + never), Options: options})
	jobs := l.East.BatchV1().Jobs(l.Name)
	failed := []byte(`{"status":{"failed":1,"startTime":"2026-01-01T00:00:00Z",` +
		`"conditions":[{"type":"FailureTarget","status":"True"},{"type":"Failed","status":"True"}]}}`)
	l.eventually(func() string {
		if _, err := jobs.Patch(t.Context(), "x", types.MergePatchType, failed, metav1.PatchOptions{}, "status"); err != nil {
			return err.Error()
		}
		return ""
	})
	l.expectStatus("x", becauseOf(conditions.Installed, conditions.ReasonNotReadyInTime, "job.batch "+l.Name+"/x has failed"))
}

func expectedConditions(want string) func(*fleet.BundleDeployment) string {
	return func(bd *fleet.BundleDeployment) string { return conditionsAre(bd, want) }
}

// TestNamespaceChanges_ReleaseMoves also moves a release that contains only a CRD.
func TestNamespaceChanges_ReleaseMoves(t *testing.T) {
	t.Parallel()
	l := newLab(t, "move")
	l.start()
	from, to := l.Name+"-from", l.Name+"-to"
	group := "move.example.com"
	crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: moves." + group + "}\n" +
		"spec: {group: " + group + ", scope: Namespaced, names: {plural: moves, singular: move, kind: Move, listKind: MoveList}, versions: [{name: v1, served: true, storage: true, " +
		"schema: {openAPIV3Schema: {type: object}}}]}\n"
	for name, files := range map[string]map[string]string{"objects": deploytest.HelloFiles("hi"), "definition": {"crd.yaml": crd}} {
		t.Run(name, func(t *testing.T) {
			for _, ns := range []string{from, to} {
				l.apply(bundle{Name: name, Files: files, Options: deploytest.InNamespace(ns)})
				l.expectStatus(name, func(bd *fleet.BundleDeployment) string {
					if bd.Status.Release != ns+"/"+name+":1" {
						return "release " + bd.Status.Release
					}
					return ready(bd)
				})
			}
			l.expectNoRelease(from, name)
			l.expectStatus(name, ready)
		})
	}
	if l.configMapIsThere(from, "objects") || !l.configMapIsThere(to, "objects") {
		t.Error("the object was not moved")
	}
}

// The existing objects have the labels of different owners.
func TestTakeOwnership_AdoptsExistingObjects(t *testing.T) {
	t.Parallel()
	l := newLab(t, "adopt")
	l.start()
	there := map[string]metav1.ObjectMeta{
		"clean":     {},
		"wrangler":  {Labels: map[string]string{fleet.LabelSetHash: placement.SetOf("adopts-wrangler", "").Hash}, Annotations: map[string]string{fleet.AnnotationSetID: "default-adopts-wrangler"}},
		"another's": {Labels: map[string]string{fleet.LabelSetHash: "0000"}, Annotations: map[string]string{fleet.AnnotationSetID: "default-another"}},
		"random":    {Labels: map[string]string{"mine": "yes"}, Annotations: map[string]string{"mine": "yes"}},
		"helm's": {Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"},
			Annotations: map[string]string{objects.ReleaseNameAnnotation: "other", objects.ReleaseNamespaceAnnotation: "elsewhere"}},
	}
	for name, meta := range there {
		t.Run(name, func(t *testing.T) {
			short := "adopts-" + strings.TrimSuffix(name, "'s")
			meta.Name = short
			l.create(func(ctx context.Context) error {
				_, err := l.East.CoreV1().ConfigMaps(l.Name).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"other": "kept", "a": "old"}}, metav1.CreateOptions{})
				return err
			})
			options := deploytest.InNamespace(l.Name)
			options.Helm.TakeOwnership = true
			l.apply(bundle{Name: short, Files: map[string]string{"cm.yaml": strings.Replace(deploytest.ConfigMapYAML, "name: cm", "name: "+short, 1)}, Options: options})
			l.expectStatus(short, ready)
			cm, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), short, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			set := placement.SetOf(short, "")
			want := marks{
				labels: map[string]string{"app.kubernetes.io/managed-by": "Helm", fleet.LabelSetHash: set.Hash},
				annotations: map[string]string{fleet.AnnotationSetID: set.ID,
					objects.ReleaseNameAnnotation: short, objects.ReleaseNamespaceAnnotation: l.Name},
			}
			if meta.Labels["mine"] != "" {
				want.labels["mine"], want.annotations["mine"] = "yes", "yes"
			}
			if diff := cmp.Diff(want, marks{cm.Labels, cm.Annotations}, cmp.AllowUnexported(marks{})); diff != "" {
				t.Errorf("marks (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]string{"other": "kept", "a": "b"}, cm.Data); diff != "" {
				t.Errorf("data (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTargetNamespace_OverridesDefaultNamespace(t *testing.T) {
	t.Parallel()
	l := newLab(t, "target")
	l.start()
	allowed, other := l.Name+"-allowed", l.Name+"-other"
	l.namespace(allowed)
	l.mark(allowed, `{"metadata":{"labels":{"team":"a"}}}`)
	options := deploytest.InNamespace(other)
	options.TargetNamespace = allowed
	options.AllowedTargetNamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	l.apply(bundle{Name: "x", Files: map[string]string{"cm.yaml": strings.Replace(deploytest.ConfigMapYAML, "name: cm", "name: cm, namespace: "+other, 1)}, Options: options})
	bd := l.expectStatus("x", ready)
	if bd.Status.Release != allowed+"/x:1" || !l.configMapIsThere(allowed, "cm") {
		t.Errorf("release %s", bd.Status.Release)
	}
	// A namespace that is no longer allowed is reported, and the release stays.
	l.mark(allowed, `{"metadata":{"labels":{"team":"b"}}}`)
	l.apply(bundle{Name: "x", Files: map[string]string{"cm.yaml": deploytest.ConfigMapYAML}, Options: options})
	l.expectStatus("x", becauseOf(conditions.Deployed, conditions.ReasonNamespaceRefused, "does not match"))
	if !l.configMapIsThere(allowed, "cm") {
		t.Error("it went")
	}
}

func TestUnwantedCopies_AreDeleted(t *testing.T) {
	t.Parallel()
	l := newLab(t, "copies-go")
	for _, name := range []string{"one", "two"} {
		l.create(func(ctx context.Context) error {
			_, err := l.HubCore.CoreV1().Secrets(l.Name).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: "example.com/typed", Data: map[string][]byte{"a": []byte("b")}}, metav1.CreateOptions{})
			return err
		})
	}
	l.start()
	ns := l.Name + "-x"
	copies := func(generation int64, names ...string) func(*fleet.BundleDeployment) {
		return func(bd *fleet.BundleDeployment) {
			bd.Spec.DownstreamResourcesGeneration = generation
			for _, name := range names {
				bd.Spec.Options.DownstreamResources = append(bd.Spec.Options.DownstreamResources, fleet.DownstreamResource{Kind: "Secret", Name: name})
			}
		}
	}
	there := func(want ...string) {
		t.Helper()
		l.eventually(func() string {
			list, err := l.East.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{LabelSelector: fleet.LabelBundleDeployment + "=x"})
			if err != nil {
				return err.Error()
			}
			var found []string
			for _, secret := range list.Items {
				if secret.Type != "example.com/typed" {
					t.Errorf("type %s", secret.Type)
				}
				found = append(found, secret.Name)
			}
			return cmp.Diff(want, found)
		})
	}
	copied := func(bd *fleet.BundleDeployment) string {
		if bd.Status.DownstreamResourcesGeneration != bd.Spec.DownstreamResourcesGeneration {
			return "not copied"
		}
		return ready(bd)
	}
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(ns), Change: copies(1, "one", "two")})
	l.expectStatus("x", copied)
	there("one", "two")
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(ns), Change: copies(2, "two")})
	l.expectStatus("x", copied)
	there("two")
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(ns), Change: copies(3)})
	l.expectStatus("x", copied)
	there()
	if _, err := l.East.CoreV1().Secrets(ns).Get(t.Context(), "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
}

// copyOne copies Secret "one" of the hub to the namespace of the release.
func copyOne(bd *fleet.BundleDeployment) {
	bd.Spec.DownstreamResourcesGeneration = 1
	bd.Spec.Options.DownstreamResources = []fleet.DownstreamResource{{Kind: "Secret", Name: "one"}}
}

// hasCopied expects a ready status and the copy.
func hasCopied(bd *fleet.BundleDeployment) string {
	if bd.Status.DownstreamResourcesGeneration != 1 {
		return "not copied"
	}
	return ready(bd)
}

func (l *lab) createOne() {
	l.t.Helper()
	l.create(func(ctx context.Context) error {
		_, err := l.HubCore.CoreV1().Secrets(l.Name).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
		return err
	})
}

// whereIsOne returns "" once Secret "one" is deleted from a namespace.
func (l *lab) whereIsOne(namespace string) string {
	_, err := l.East.CoreV1().Secrets(namespace).Get(l.t.Context(), "one", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	return fmt.Sprintf("the copy in %s: %v", namespace, err)
}

// Copies of a deleted BundleDeployment are deleted even if the first try fails.
func TestCopyDeletionFails_IsRetried(t *testing.T) {
	t.Parallel()
	l := newLab(t, "copies-go-later")
	l.createOne()
	var armed, failed atomic.Bool
	l.options = func(o *Options) {
		o.Local = rest.CopyConfig(o.Local)
		o.Local.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(request *http.Request) (*http.Response, error) {
				if request.URL.Query().Get("labelSelector") == fleet.LabelBundleDeployment+"=later" && armed.Swap(false) {
					failed.Store(true)
					return nil, errKilled
				}
				return next.RoundTrip(request)
			})
		})
	}
	l.start()
	l.apply(bundle{Name: "later", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name), Change: copyOne})
	l.expectStatus("later", hasCopied)
	armed.Store(true)
	l.delete("later")
	l.eventually(func() string { return l.whereIsOne(l.Name) })
	if !failed.Load() {
		t.Error("nothing failed")
	}
}

// Agents of two hubs run in one cluster, with BundleDeployments of the same name.
func TestCopiesOfOtherAgent_Stay(t *testing.T) {
	t.Parallel()
	one, other := newLab(t, "copies-one"), newLab(t, "copies-other")
	for _, l := range []*lab{one, other} {
		l.createOne()
		l.start()
		l.apply(bundle{Name: "both", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name), Change: copyOne})
		l.expectStatus("both", hasCopied)
	}
	one.delete("both")
	one.eventually(func() string { return one.whereIsOne(one.Name) })
	if _, err := other.East.CoreV1().Secrets(other.Name).Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
		t.Errorf("the other agent's copy: %v", err)
	}
}

// A kustomization may have each file name that kustomize accepts, in the configured folder.
func TestKustomizationFileNames_AreAllBuilt(t *testing.T) {
	t.Parallel()
	l := newLab(t, "kustomize")
	l.start()
	for name, file := range map[string]string{"yaml": "kustomization.yaml", "yml": "kustomization.yml", "none": "Kustomization"} {
		options := deploytest.InNamespace(l.Name)
		options.Kustomize = &fleet.KustomizeOptions{Dir: "overlays/prod"}
		l.apply(bundle{Name: name, Options: options, Files: map[string]string{
			"base/" + file: "resources: [cm.yaml]\n", "base/cm.yaml": deploytest.ConfigMapYAML,
			"overlays/prod/" + file: "namePrefix: " + name + "-\nresources: [../../base]\n",
		}})
	}
	for _, name := range []string{"yaml", "yml", "none"} {
		l.expectStatus(name, ready)
		if !l.configMapIsThere(l.Name, name+"-cm") {
			t.Errorf("%s: the objects are not those of the overlay", name)
		}
	}
}

// A former object of a hook has to be deleted before the hook runs again. The agent sees the deletion by its
// event.
func TestFormerHookObject_IsDeletedBeforeHookRuns(t *testing.T) {
	t.Parallel()
	l := newLab(t, "hook-gone")
	l.start()
	files := func(text string) map[string]string {
		found := deploytest.HelloFiles(text)
		found["templates/hook.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-hook, annotations: {helm.sh/hook: 'pre-install,pre-upgrade'}}\n" +
			"data: {text: " + text + "}\n"
		return found
	}
	l.apply(bundle{Name: "x", Files: files("one"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	l.edit("configmaps", "x-hook", `{"metadata":{"finalizers":["example.com/held"]}}`)
	l.apply(bundle{Name: "x", Files: files("two"), Options: deploytest.InNamespace(l.Name)})
	hook := func() *corev1.ConfigMap {
		found, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "x-hook", metav1.GetOptions{})
		if err != nil {
			return &corev1.ConfigMap{}
		}
		return found
	}
	l.eventually(func() string {
		if hook().DeletionTimestamp == nil {
			return "the hook of before is not deleted"
		}
		return ""
	})
	if got := strings.Join(l.revisionsOf(l.Name, "x"), ", "); got != "1 deployed, 2 pending-upgrade" {
		t.Errorf("it is not waited for: %s", got)
	}
	l.edit("configmaps", "x-hook", `{"metadata":{"finalizers":null}}`)
	l.eventually(func() string {
		if got := strings.Join(l.revisionsOf(l.Name, "x"), ", "); got != "1 superseded, 2 deployed" {
			return got
		}
		return ""
	})
	l.expectStatus("x", ready)
	if got := hook().Data["text"]; got != "two" {
		t.Errorf("the hook that ran says %q", got)
	}
}

// A bundle was refused the release name of another bundle. With its own release name, it still must not take over
// the other bundle's objects.
func TestRefusedReleaseName_GivesNoRightToObjects(t *testing.T) {
	t.Parallel()
	l := newLab(t, "refused-name")
	l.start()
	named := func(name string) fleet.BundleDeploymentOptions {
		options := deploytest.InNamespace(l.Name)
		options.Helm.ReleaseName = name
		return options
	}
	files := map[string]string{"Chart.yaml": "apiVersion: v2\nname: x\nversion: 0.1.0\n", "templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {of: '{{ .Values.of }}'}\n"}
	of := func(bundleName string, options fleet.BundleDeploymentOptions) fleet.BundleDeploymentOptions {
		options.Helm.Values = &fleet.GenericMap{Data: map[string]any{"of": bundleName}}
		return options
	}
	l.apply(bundle{Name: "a", Files: files, Options: of("a", named("web"))})
	l.expectStatus("a", ready)
	l.apply(bundle{Name: "x", Files: files, Options: of("x", named("web"))})
	l.expectStatus("x", becauseOf(conditions.Deployed, conditions.ReasonReleaseTaken, "belongs to bundle a"))
	l.apply(bundle{Name: "x", Files: files, Options: of("x", named("web2"))})
	l.expectStatus("x", becauseOf(conditions.Installed, conditions.ReasonObjectTaken, "cannot be imported into"))
	if got := l.field("configmaps", "settings", dig("data", "of")); got != "a" {
		t.Errorf("the object is %s's", got)
	}
	l.expectStatus("a", ready)
}

// Several files of a bundle may have the same Namespace, for example.
func TestObjectRepeatedInABundle_IsDeployedOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t, "repeated")
	l.start()
	file := func(namespace, value string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: " + namespace + "}\ndata: {a: " + value + "}\n"
	}
	files := map[string]string{"a.yaml": file("''", "one"), "b.yaml": file(l.Name, "two")}
	for revision, value := range []string{"two", "three"} {
		files["b.yaml"] = file(l.Name, value)
		l.apply(bundle{Name: "x", Files: files, Options: deploytest.InNamespace(l.Name)})
		bd := l.expectStatus("x", ready)
		if bd.Status.Release != fmt.Sprintf("%s/x:%d", l.Name, revision+1) || len(bd.Status.Resources) != 1 || bd.Status.ResourceCounts.DesiredReady != 1 {
			t.Errorf("release %s, resources %v, counts %+v", bd.Status.Release, bd.Status.Resources, bd.Status.ResourceCounts)
		}
		found, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "c", metav1.GetOptions{})
		if err != nil || found.Data["a"] != value {
			t.Errorf("data %v, error %v", found.Data, err)
		}
	}
}

// Helm creates the namespace of a release before its objects.
func TestBundleWithItsOwnNamespace_IsInstalledAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t, "bundle-namespace")
	l.start()
	for name, change := range map[string]func(*fleet.HelmOptions){
		"plain": func(*fleet.HelmOptions) {}, "atomic": func(helm *fleet.HelmOptions) { helm.Atomic = true },
		"taking": func(helm *fleet.HelmOptions) { helm.TakeOwnership = true },
	} {
		t.Run(name, func(t *testing.T) {
			namespace := l.Name + "-" + name
			options := deploytest.InNamespace(namespace)
			change(options.Helm)
			files := deploytest.HelloFiles("hi")
			files["templates/namespace.yaml"] = "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + namespace + ", labels: {team: a}}\n"
			l.apply(bundle{Name: name, Files: files, Options: options})
			bd := l.expectStatus(name, ready)
			if bd.Status.Release != namespace+"/"+name+":1" {
				t.Errorf("release %s", bd.Status.Release)
			}
			found, err := l.East.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
			if err != nil || found.Labels["team"] != "a" {
				t.Errorf("namespace %v, error %v", found, err)
			}
		})
	}
}
