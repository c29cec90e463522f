package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// recordedObjects reads the objects of a recorded file.
func recordedObjects(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile("../../testdata/recorded/" + path + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := parseObjects(text)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// recordedDeployment returns a recorded BundleDeployment of cluster east.
func recordedDeployment(t *testing.T, name string) *fleet.BundleDeployment {
	t.Helper()
	for _, object := range recordedObjects(t, "hub/bundledeployments") {
		if object.GetName() != name || !strings.Contains(object.GetNamespace(), "-east-") {
			continue
		}
		text, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var bd fleet.BundleDeployment
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&bd); err != nil {
			t.Fatal(err)
		}
		return &bd
	}
	t.Fatalf("no BundleDeployment %s", name)
	return nil
}

// recordedLive returns the recorded objects of a release in cluster east.
func recordedLive(t *testing.T, release string) map[objectRef]*unstructured.Unstructured {
	t.Helper()
	live := map[objectRef]*unstructured.Unstructured{}
	for _, kind := range []string{"configmaps", "deployments", "networkpolicies", "serviceaccounts", "clusterroles", "clusterrolebindings"} {
		for _, object := range recordedObjects(t, "east/"+kind) {
			if object.GetAnnotations()[releaseNameAnnotation] == release {
				live[objectRef{object.GroupVersionKind(), object.GetNamespace(), object.GetName()}] = object
			}
		}
	}
	return live
}

// TestRecordedStatus computes the recorded statuses from the recorded objects. The objects were recorded without
// creation times, so these come from the status.
func TestRecordedStatus(t *testing.T) {
	tests := map[string]struct {
		// change brings the recorded objects to the state at the time of the status.
		change func(objectRef, *unstructured.Unstructured)
	}{
		"hello":            {},
		"fleet-agent-east": {},
		"raw": {func(ref objectRef, object *unstructured.Unstructured) { // when it was not available yet
			if ref.Kind != "Deployment" {
				return
			}
			object.Object["status"] = map[string]any{
				"observedGeneration": int64(1), "replicas": int64(1), "updatedReplicas": int64(1), "unavailableReplicas": int64(1),
				"conditions": []any{
					map[string]any{"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "Deployment does not have minimum availability."},
					map[string]any{"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "message": `ReplicaSet "pause-784ddc56c8" is progressing.`},
				}}
			object.SetGeneration(1)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bd := recordedDeployment(t, name)
			want := bd.Status
			created := map[string]metav1.Time{}
			for _, r := range want.Resources {
				created[r.Kind+" "+r.Name] = r.CreatedAt
			}
			p, err := newPackage(packageInput{Name: name, ManifestID: "s-0123", Resources: manifestOf(recordedFiles(t, name)).Resources, Options: &bd.Spec.Options})
			if err != nil {
				t.Fatal(err)
			}
			live := recordedLive(t, name)
			tr := &tracking{set: recordedSet(name), refs: manifestRefs(t, p, bd), seen: map[objectRef]observation{}}
			for ref, object := range live {
				object.SetCreationTimestamp(created[ref.Kind+" "+ref.Name])
				if test.change != nil {
					test.change(ref, object)
				}
				if ref.Kind == "Deployment" && test.change == nil {
					object.SetGeneration(2)
				}
			}
			if err := new(observer).takeIn(t.Context(), bd, tr, live, manifest{}); err != nil {
				t.Fatal(err)
			}

			var got fleet.BundleDeploymentStatus
			at := func(i int) time.Time { return recordedTime(t, want.Conditions[i].LastUpdateTime) }
			deployed(&got, at(0), bd.Spec.DeploymentID, want.Release)
			monitored(&got, at(2), newReport(tr.sightings()), bd.Spec.Options.ForceSyncGeneration)
			got.Display = displayed(bd, &got)
			// Conditions are in the order of their first appearance, in both.
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-recorded +made:\n%s", diff)
			}
			// The first request has no zero values.
			patch, err := statusPatch(&fleet.BundleDeployment{}, &got)
			if err != nil {
				t.Fatal(err)
			}
			expectGolden(t, indent(t, patch))
		})
	}
}

func recordedTime(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// recordedFiles returns the resources of the recorded Bundle.
func recordedFiles(t *testing.T, name string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, object := range recordedObjects(t, "hub/bundles") {
		if object.GetName() != name {
			continue
		}
		resources, _, err := unstructured.NestedSlice(object.Object, "spec", "resources")
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range resources {
			resource, _ := entry.(map[string]any)
			files[fmt.Sprint(resource["name"])] = fmt.Sprint(resource["content"])
		}
	}
	if len(files) == 0 {
		t.Fatalf("no resources of %s", name)
	}
	return files
}

// recordedSet returns the set of a recorded BundleDeployment.
func recordedSet(name string) set {
	if name == "fleet-agent-east" {
		return agentSet("")
	}
	return setFor(name, "")
}

// isNamespaced treats the kinds that a recorded bundle may have as the API server does.
func isNamespaced(gvk schema.GroupVersionKind) (bool, error) {
	return !strings.HasPrefix(gvk.Kind, "ClusterRole"), nil
}

// manifestRefs returns the objects of a bundle in the order of its manifest. It does not render templates: the
// only object of the recorded chart has a literal name.
func manifestRefs(t *testing.T, p *bundlePackage, bd *fleet.BundleDeployment) []objectRef {
	t.Helper()
	var rendered bytes.Buffer
	for _, template := range p.Chart.Templates {
		text := strings.NewReplacer("{{ .Values.greeting | quote }}", "x", "{{ .Values.cluster | quote }}", "x").Replace(string(template.Data))
		rendered.WriteString("---\n" + text)
	}
	f := &finisher{Package: p, Set: recordedSet(bd.Name), TargetNamespace: bd.Spec.Options.TargetNamespace, Namespaced: isNamespaced}
	out, err := f.Run(&rendered)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := parseObjects(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var refs []objectRef
	for _, object := range objects {
		ref := objectRef{GroupVersionKind: object.GroupVersionKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
		if ref.Namespace == "" && !strings.HasPrefix(ref.Kind, "ClusterRole") {
			ref.Namespace = namespaceFor(&bd.Spec.Options)
		}
		refs = append(refs, ref)
	}
	return refs
}

func indent(t *testing.T, text []byte) string {
	t.Helper()
	out, err := yaml.JSONToYAML(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func refTo(kind, namespace, name string) objectRef {
	return objectRef{schema.GroupVersionKind{Group: map[string]string{"Deployment": "apps"}[kind], Version: "v1", Kind: kind}, namespace, name}
}

// seenAs returns an observation. Its UID also defines its place in the list.
func seenAs(uid string, summary fleet.ResourceSummary) observation {
	return observation{Exists: true, Owned: true, UID: types.UID(uid), Created: metav1.Time{Time: noon}, Summary: summary}
}

func TestReport(t *testing.T) {
	fine := fleet.ResourceSummary{State: "active"}
	progressing := fleet.ResourceSummary{State: "updating", Transitioning: true, Message: []string{"Available: 0/1"}}
	broken := fleet.ResourceSummary{State: "failed", Error: true, Message: []string{"no room"}}
	many := func(o observation, n int) []sighting {
		var out []sighting
		for i := range n {
			o.UID = types.UID(fmt.Sprintf("u%02d", n-i))
			out = append(out, sighting{refTo("ConfigMap", "web", fmt.Sprintf("cm-%02d", i)), o})
		}
		return out
	}
	tests := map[string][]sighting{
		"nothing":                            nil,
		"all is well":                        {{refTo("ConfigMap", "web", "a"), seenAs("1", fine)}, {refTo("Deployment", "web", "b"), seenAs("2", fine)}},
		"listed by kind, namespace and name": {{refTo("ConfigMap", "web", "z"), seenAs("1", fine)}, {refTo("Deployment", "web", "b"), seenAs("2", fine)}, {refTo("ConfigMap", "web", "a"), seenAs("3", fine)}, {refTo("ConfigMap", "db", "zz"), seenAs("4", fine)}},
		"one is on its way and one broken":   {{refTo("Deployment", "web", "a"), seenAs("2", progressing)}, {refTo("Deployment", "web", "b"), seenAs("1", broken)}, {refTo("ConfigMap", "web", "c"), seenAs("3", fine)}},
		"one is missing":                     {{refTo("ConfigMap", "web", "a"), observation{}}, {refTo("ConfigMap", "web", "b"), seenAs("1", fine)}},
		"one is somebody else's":             {{refTo("ConfigMap", "web", "a"), observation{Exists: true, UID: "1", Summary: progressing}}},
		"one is missing and one on its way":  {{refTo("ConfigMap", "web", "a"), observation{}}, {refTo("Deployment", "web", "b"), seenAs("1", progressing)}},
		"ten are missing":                    many(observation{}, 10),
		"eleven are missing":                 many(observation{}, 11),
		"eleven are on their way":            many(seenAs("", progressing), 11),
	}
	for name, sightings := range tests {
		t.Run(name, func(t *testing.T) {
			var status fleet.BundleDeploymentStatus
			monitored(&status, noon, newReport(sightings), 3)
			text, err := yaml.Marshal(status)
			if err != nil {
				t.Fatal(err)
			}
			expectGolden(t, string(text))
		})
	}
}

func TestCompleteList_ClearsIncompleteState(t *testing.T) {
	var status fleet.BundleDeploymentStatus
	var sightings []sighting
	for i := range 11 {
		sightings = append(sightings, sighting{refTo("ConfigMap", "web", fmt.Sprint(i)), observation{}})
	}
	monitored(&status, noon, newReport(sightings), 0)
	before := &fleet.BundleDeployment{Status: *status.DeepCopy()}
	monitored(&status, noon, newReport(sightings[:1]), 0)
	patch, err := statusPatch(before, &status)
	if err != nil || !strings.Contains(string(patch), `"incompleteState":null`) {
		t.Errorf("%s %v", patch, err)
	}
}

func TestStatusOfEachOutcome(t *testing.T) {
	later := noon.Add(time.Hour)
	tests := map[string]func(*fleet.BundleDeploymentStatus){
		"deployed":       func(s *fleet.BundleDeploymentStatus) { deployed(s, later, "s-2:b", "web/hello:2") },
		"deployed again": func(s *fleet.BundleDeploymentStatus) { deployed(s, later, "s-1:a", "web/hello:1") },
		"not deployed":   func(s *fleet.BundleDeploymentStatus) { notDeployed(s, later, fleet.ReasonRenderingFailed, "because") },
		"failed for good": func(s *fleet.BundleDeploymentStatus) {
			failedDeployment(s, later, "s-2:b", fleet.ReasonManifestInvalid, "because")
		},
		"failed for good and then deployed": func(s *fleet.BundleDeploymentStatus) {
			failedDeployment(s, later, "s-2:b", fleet.ReasonManifestInvalid, "because")
			deployed(s, later, "s-2:b", "web/hello:2")
		},
		"a namespace that is forbidden": func(s *fleet.BundleDeploymentStatus) { namespaceForbidden(s, later, "s-2:b", "web/hello:2", "because") },
		"not monitored":                 func(s *fleet.BundleDeploymentStatus) { notMonitored(s, later, "because") },
	}
	for name, outcome := range tests {
		t.Run(name, func(t *testing.T) {
			status := deployment().Status
			monitored(&status, noon, newReport([]sighting{{refTo("ConfigMap", "web", "a"), seenAs("1", fleet.ResourceSummary{State: "active"})}}), 0)
			outcome(&status)
			text, err := yaml.Marshal(status)
			if err != nil {
				t.Fatal(err)
			}
			expectGolden(t, string(text))
		})
	}
}

func TestStatusPatch(t *testing.T) {
	base := deployment()
	base.Status.Ready, base.Status.NonModified, base.Status.ResourceCounts = true, true, fleet.ResourceCounts{DesiredReady: 1, Ready: 1}
	base.Status.Resources = []fleet.DeployedResource{{Kind: "ConfigMap", APIVersion: "v1", Namespace: "web", Name: "a"}}
	base.Status.Display = fleet.BundleDeploymentDisplay{Monitored: "True", State: "Ready"}
	tests := map[string]struct {
		change func(*fleet.BundleDeploymentStatus)
		want   string
	}{
		"nothing":                                {func(*fleet.BundleDeploymentStatus) {}, ""},
		"only printer columns changed: no patch": {func(s *fleet.BundleDeploymentStatus) { s.Display.State = "NotReady" }, ""},
		"only printer columns removed: no patch": {func(s *fleet.BundleDeploymentStatus) { s.Display = fleet.BundleDeploymentDisplay{} }, ""},
		"status and printer columns changed: both are patched": {func(s *fleet.BundleDeploymentStatus) { s.Ready, s.Display.State = false, "NotReady" },
			`{"status":{"display":{"state":"NotReady"},"ready":null}}`},
		"status changed, printer columns removed: both are patched": {func(s *fleet.BundleDeploymentStatus) { s.Ready, s.Display.Monitored = false, "" },
			`{"status":{"display":{"monitored":null},"ready":null}}`},
		"a flag that is unset": {func(s *fleet.BundleDeploymentStatus) { s.Ready = false }, `{"status":{"ready":null}}`},
		"a count":              {func(s *fleet.BundleDeploymentStatus) { s.ResourceCounts.NotReady = 1 }, `{"status":{"resourceCounts":{"notReady":1}}}`},
		"a list was removed":   {func(s *fleet.BundleDeploymentStatus) { s.Resources = nil }, `{"status":{"resources":null}}`},
		"a release":            {func(s *fleet.BundleDeploymentStatus) { s.Release = "web/hello:2" }, `{"status":{"release":"web/hello:2"}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			to := base.Status.DeepCopy()
			test.change(to)
			got, err := statusPatch(base, to)
			if err != nil || string(got) != test.want {
				t.Errorf("got %s %v, want %s", got, err, test.want)
			}
		})
	}
}

func TestStatusUpdate(t *testing.T) {
	const head = `{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"BundleDeployment","metadata":{"name":"hello","namespace":"cluster-ns","resourceVersion":"7","uid":"u1"},"status":`
	applied := `"appliedDeploymentID":"s-1:a","conditions":[` +
		`{"type":"Installed","status":"True","lastUpdateTime":"2026-11-21T12:00:00Z"},{"type":"Deployed","status":"True","lastUpdateTime":"2026-11-21T12:00:00Z"}],`
	counts := func(ready int) string {
		return fmt.Sprintf(`"resourceCounts":{"ready":%d,"desiredReady":%d,"waitApplied":0,"modified":0,"orphaned":0,"missing":0,"unknown":0,"notReady":0}`, ready, ready)
	}
	tests := map[string]struct {
		base   func(*fleet.BundleDeployment)
		change func(*fleet.BundleDeploymentStatus)
		want   string
	}{
		"resource version known: body has status and identity only": {
			base: func(bd *fleet.BundleDeployment) {
				bd.Finalizers, bd.Annotations = []string{"f"}, map[string]string{"a": "b"}
			},
			want: head + `{` + applied + `"display":{},"release":"web/hello:1",` + counts(0) + `}}`},
		"changed fields and printer columns": {
			change: func(s *fleet.BundleDeploymentStatus) {
				s.Ready, s.Display.State, s.ResourceCounts = true, "Ready", fleet.ResourceCounts{Ready: 1, DesiredReady: 1}
			},
			want: head + `{` + applied + `"display":{"state":"Ready"},"ready":true,"release":"web/hello:1",` + counts(1) + `}}`},
		"creation time unknown": {
			change: func(s *fleet.BundleDeploymentStatus) {
				s.Resources = []fleet.DeployedResource{{Kind: "ConfigMap", Name: "a"}}
			},
			want: head + `{` + applied + `"display":{},"release":"web/hello:1",` + counts(0) + `,"resources":[{"createdAt":null,"kind":"ConfigMap","name":"a"}]}}`},
		"resource version unknown: no update": {base: func(bd *fleet.BundleDeployment) { bd.ResourceVersion = "" }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			base := deployment(func(bd *fleet.BundleDeployment) { bd.UID, bd.ResourceVersion = "u1", "7" })
			if test.base != nil {
				test.base(base)
			}
			before, to := base.DeepCopy(), base.Status.DeepCopy()
			if test.change != nil {
				test.change(to)
			}
			got, err := statusUpdate(base, to)
			if err != nil || (got == nil) != (test.want == "") {
				t.Fatalf("got %s %v", got, err)
			}
			if got != nil {
				if diff := cmp.Diff(decoded(t, test.want), decoded(t, string(got))); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
			if diff := cmp.Diff(before, base); diff != "" {
				t.Errorf("base was changed:\n%s", diff)
			}
		})
	}
}

func decoded(t *testing.T, text string) (found map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestObserve(t *testing.T) {
	const hash = "h1"
	always := fleet.ResourceSummary{State: "active", Message: []string{"Resource is always ready"}}
	tests := map[string]struct {
		object  string
		ignored []map[string]string
		want    observation
	}{
		"a ConfigMap": {object: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, uid: u, resourceVersion: '7', labels: {objectset.rio.cattle.io/hash: h1}}\n",
			want: observation{Exists: true, Owned: true, UID: "u", ResourceVersion: "7", Summary: always}},
		"label of another set": {object: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {objectset.rio.cattle.io/hash: h2}}\n",
			want: observation{Exists: true, Summary: always}},
		"no label": {object: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
			want: observation{Exists: true, Summary: always}},
		"a condition in error": {object: "apiVersion: x.io/v1\nkind: A\nmetadata: {name: a}\nstatus: {conditions: [{type: Ready, status: 'False', message: not yet}, {type: Stalled, status: 'True', message: stuck}]}\n",
			want: observation{Exists: true, Summary: fleet.ResourceSummary{State: "error", Error: true, Message: []string{"stuck"}}}},
		"ignored condition in error": {object: "apiVersion: x.io/v1\nkind: A\nmetadata: {name: a}\nstatus: {conditions: [{type: Ready, status: 'False', message: not yet}, {type: Stalled, status: 'True'}]}\n",
			ignored: []map[string]string{{"type": "Ready", "status": "False"}, {"type": "Stalled"}},
			want:    observation{Exists: true, Summary: fleet.ResourceSummary{State: "active", Message: []string{"Resource is current"}}}},
		"condition that matches an ignored one only in part": {object: "apiVersion: x.io/v1\nkind: A\nmetadata: {name: a}\nstatus: {conditions: [{type: Ready, status: 'False', message: not yet}]}\n",
			ignored: []map[string]string{{"type": "Ready", "status": "Unknown"}, {}},
			want:    observation{Exists: true, Summary: fleet.ResourceSummary{State: "unavailable", Transitioning: true, Message: []string{"not yet"}}}},
		"terminating": {object: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, deletionTimestamp: '2026-11-21T12:00:00Z', finalizers: [x.io/wait]}\n",
			want: observation{Exists: true, Summary: fleet.ResourceSummary{State: "removing", Transitioning: true, Message: []string{"Resource scheduled for deletion"}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := objectOf(t, test.object)
			before := object.DeepCopy()
			got := observe(object, hash, test.ignored)
			got.Content = 0 // see TestContentHash_IgnoresStatus
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, object); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
		})
	}
}

func TestSameButDetails(t *testing.T) {
	base := deployment().Status
	monitored(&base, noon, report{Ready: true, NonModified: true}, 0)
	tests := map[string]struct {
		change func(*fleet.BundleDeploymentStatus)
		want   bool
	}{
		"equal":                   {func(*fleet.BundleDeploymentStatus) {}, true},
		"another message":         {func(s *fleet.BundleDeploymentStatus) { s.Conditions[0].Message = "x" }, true},
		"another count":           {func(s *fleet.BundleDeploymentStatus) { s.ResourceCounts.NotReady = 3 }, true},
		"another readiness":       {func(s *fleet.BundleDeploymentStatus) { s.Ready = false }, false},
		"modified":                {func(s *fleet.BundleDeploymentStatus) { s.NonModified = false }, false},
		"another release":         {func(s *fleet.BundleDeploymentStatus) { s.Release = "x" }, false},
		"another deployment":      {func(s *fleet.BundleDeploymentStatus) { s.AppliedDeploymentID = "x" }, false},
		"another condition":       {func(s *fleet.BundleDeploymentStatus) { s.Conditions[0].Status = "False" }, false},
		"a condition was removed": {func(s *fleet.BundleDeploymentStatus) { s.Conditions = s.Conditions[1:] }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			to := base.DeepCopy()
			test.change(to)
			if got := sameButDetails(&base, to); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestNewer(t *testing.T) {
	bd := func(uid, version string) *fleet.BundleDeployment {
		return &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}}
	}
	tests := map[string]struct {
		cached, written *fleet.BundleDeployment
		second          bool
	}{
		"no report yet":            {bd("a", "5"), nil, false},
		"the cache is behind":      {bd("a", "5"), bd("a", "10"), true},
		"the cache is ahead":       {bd("a", "10"), bd("a", "5"), false},
		"both are the same":        {bd("a", "5"), bd("a", "5"), false},
		"it was recreated":         {bd("b", "5"), bd("a", "10"), false},
		"versions are not numbers": {bd("a", "x"), bd("a", "y"), false},
		"cache is empty":           {nil, bd("a", "5"), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, want := newer(test.cached, test.written), test.cached
			if test.second {
				want = test.written
			}
			if got != want {
				t.Errorf("got %v", got)
			}
		})
	}
}
