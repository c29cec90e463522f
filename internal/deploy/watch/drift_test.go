package watch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/rules/drift"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestContentHash_IgnoresStatus(t *testing.T) {
	const base = "apiVersion: v1\nkind: A\nmetadata: {name: a, resourceVersion: '1', generation: 1, labels: {a: b}}\nspec: {a: 1}\nstatus: {b: 1}\n"
	tests := map[string]struct {
		text string
		same bool
	}{
		"the same":     {base, true},
		"the status":   {"apiVersion: v1\nkind: A\nmetadata: {name: a, resourceVersion: '2', generation: 2, managedFields: [], labels: {a: b}}\nspec: {a: 1}\nstatus: {b: 2}\n", true},
		"a label":      {"apiVersion: v1\nkind: A\nmetadata: {name: a, labels: {a: c}}\nspec: {a: 1}\n", false},
		"the spec":     {"apiVersion: v1\nkind: A\nmetadata: {name: a, labels: {a: b}}\nspec: {a: 2}\n", false},
		"another name": {"apiVersion: v1\nkind: A\nmetadata: {name: b, labels: {a: b}}\nspec: {a: 1}\n", false},
	}
	first := deploytest.ObjectOf(t, base)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := deploytest.ObjectOf(t, test.text)
			before := object.DeepCopy()
			if got := contentOf(object) == contentOf(first); got != test.same {
				t.Errorf("the same: %v", got)
			}
			if diff := cmp.Diff(before, object); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
		})
	}
}

func TestChangedDiffRules_CompareAllObjectsAgain(t *testing.T) {
	ref := refTo("ConfigMap", "ns", "a")
	seen := seenAs("1", fleet.ResourceSummary{})
	seen.Compared, seen.ResourceVersion = true, "7"
	options := &fleet.BundleDeploymentOptions{Diff: &fleet.DiffOptions{ComparePatches: []fleet.ComparePatch{{Kind: "ConfigMap"}}}}
	tr := &Tracking{refs: []manifest.Ref{ref}, seen: map[manifest.Ref]observation{ref: seen}, rules: drift.RulesOf(options.Diff)}
	tr.setRules(options)
	if diff := cmp.Diff(seen, tr.seen[ref]); diff != "" {
		t.Errorf("the same rules (-before +after):\n%s", diff)
	}
	tr.setRules(&fleet.BundleDeploymentOptions{})
	if got := tr.seen[ref]; got.Compared || got.ResourceVersion != "" {
		t.Errorf("other rules: %+v", got)
	}
	if !tr.rules.AreOf(nil) {
		t.Errorf("rules %v", tr.rules)
	}
}

func TestTooManyDiffRules_AreReported(t *testing.T) {
	bd := &fleet.BundleDeployment{}
	bd.Spec.Options.Diff = &fleet.DiffOptions{ComparePatches: []fleet.ComparePatch{{Kind: "*", JSONPointers: make([]string, 20_001)}}}
	tr := &Tracking{Known: true}
	if _, err := (&Observer{}).Check(t.Context(), bd, tr); !errors.Is(err, drift.ErrTooManyRules) {
		t.Errorf("error %v", err)
	}
	if tr.Known {
		t.Error("drift would be corrected by rules that are not complete")
	}
}

func TestInvalidDiffRule_IsReportedWhileObjectsAreChecked(t *testing.T) {
	bd := &fleet.BundleDeployment{}
	bd.Spec.Options.Diff = &fleet.DiffOptions{ComparePatches: []fleet.ComparePatch{{Kind: "Deployment", JSONPointers: []string{"spec.replicas"}}}}
	tr := &Tracking{first: &manifest.Revision{}}
	found, err := (&Observer{Clock: deploytest.Noon, Watches: &Watches{stopped: true}}).Check(t.Context(), bd, tr)
	if err != nil || found == nil {
		t.Fatal(found, err)
	}
	Monitored(&bd.Status, deploytest.Noon(), *found, 0)
	const want = `diff.comparePatches: JSON pointer "spec.replicas" does not begin with /: correct or remove it`
	if got := conditions.Get(bd.Status.Conditions, conditions.Monitored); got == nil || got.Status != "True" || got.Reason != "" || got.Message != want {
		t.Errorf("condition %+v", got)
	}
	if !bd.Status.Ready || !bd.Status.NonModified || !tr.Known {
		t.Errorf("status %+v", bd.Status)
	}
}

// dryRuns is an API server with a Deployment, a Secret and a custom resource, which answers each dry run of a patch in the same way.
type dryRuns struct {
	code    int
	answer  string
	patches []string // as they were received
}

func (d *dryRuns) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code, text := http.StatusOK, map[string]string{
		"/api":    `{"kind":"APIVersions","versions":["v1"]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"secrets","namespaced":true,"kind":"Secret","verbs":["get"]}]}`,
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}]},
			{"name":"x.io","versions":[{"groupVersion":"x.io/v1","version":"v1"}]}]}`,
		"/apis/apps/v1": `{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[{"name":"deployments","namespaced":true,"kind":"Deployment","verbs":["get"]}]}`,
		"/apis/x.io/v1": `{"kind":"APIResourceList","groupVersion":"x.io/v1","resources":[{"name":"things","namespaced":true,"kind":"Thing","verbs":["get"]}]}`,
	}[r.URL.Path]
	switch {
	case r.Method == http.MethodPatch && r.URL.Query().Get("dryRun") == "All":
		patch, _ := io.ReadAll(r.Body)
		d.patches = append(d.patches, string(patch))
		code, text = d.code, d.answer
	case text == "":
		code, text = http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text)
}

func TestPatchWithoutEffect_CausesNoDrift(t *testing.T) {
	deployment := func(annotations, spec string) string {
		return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"web","annotations":{` + annotations + `}},"spec":` + spec + `}`
	}
	withImage := func(image string) string {
		return `{"template":{"spec":{"containers":[{"name":"c","image":"` + image + `","resources":{}}]}}}`
	}
	thing := func(spec string) string {
		return `{"apiVersion":"x.io/v1","kind":"Thing","metadata":{"name":"a","namespace":"web"},"spec":` + spec + `}`
	}
	secret := func(data string) string {
		return `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"web"},"data":` + data + `}`
	}
	desired := deployment("", withImage("nginx"))
	const imagePatch = `{"spec":{"template":{"spec":{"containers":[{"image":"nginx","name":"c","resources":{}}]}}}}`
	refusal := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
	tests := map[string]struct {
		desired, live string
		code          int
		answer        string
		drifts        bool
		patches       []string
	}{
		"equal: is not tried": {desired, desired, 0, "", false, nil},
		"a policy changes the image back": {desired, deployment("", withImage("local/nginx")), 200, deployment("", withImage("local/nginx")), false,
			[]string{imagePatch}},
		"a policy changes the image back, another writer an annotation": {desired, deployment(`"other":"1"`, withImage("local/nginx")), 200,
			deployment(`"other":"2"`, withImage("local/nginx")), false, []string{imagePatch}},
		"an edit, and no policy": {desired, deployment("", withImage("edited")), 200, deployment("", withImage("nginx")), true,
			[]string{imagePatch}},
		"an edit of what a policy had changed": {desired, deployment("", withImage("edited")), 200, deployment("", withImage("local/nginx")), true,
			[]string{imagePatch}},
		"a policy changes one of two fields back": {deployment("", `{"replicas":2,"template":{"metadata":{"labels":{"a":"b"}}}}`),
			deployment("", `{"replicas":1,"template":{"metadata":{"labels":{"a":"c"}}}}`), 200, deployment("", `{"replicas":2,"template":{"metadata":{"labels":{"a":"c"}}}}`), true,
			[]string{`{"spec":{"replicas":2,"template":{"metadata":{"labels":{"a":"b"}}}}}`}},
		"the API server adds an empty map": {deployment("", `{"strategy":{"rollingUpdate":{"maxSurge":1}}}`), deployment("", `{}`), 200,
			deployment("", `{"strategy":{}}`), true, []string{`{"spec":{"strategy":{"rollingUpdate":{"maxSurge":1}}}}`}},
		"the dry run is refused": {desired, deployment("", withImage("local/nginx")), 403, refusal, true, []string{imagePatch}},
		"the webhook of a policy does not answer": {desired, deployment("", withImage("local/nginx")), 500, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}`, true,
			[]string{imagePatch}},
		"the alias of a service account's name": {deployment("", `{"template":{"spec":{"serviceAccount":"a"}}}`),
			deployment("", `{"template":{"spec":{"serviceAccount":"b","serviceAccountName":"b"}}}`), 200,
			deployment("", `{"template":{"spec":{"serviceAccount":"b","serviceAccountName":"b"}}}`), true,
			[]string{`{"spec":{"template":{"spec":{"serviceAccount":"a"}}}}`}},
		"a Secret: is not tried": {secret(`{"a":"eA=="}`), secret(`{"a":"eQ=="}`), 0, "", true, nil},
		"a custom resource without the field in its schema": {thing(`{"a":1}`), thing(`{}`), 200, thing(`{}`), false,
			[]string{`{"spec":{"a":1}}`}},
		"a custom resource that was edited": {thing(`{"a":1}`), thing(`{"a":2}`), 200, thing(`{"a":1}`), true, []string{`{"spec":{"a":1}}`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			api := &dryRuns{code: test.code, answer: test.answer}
			server := httptest.NewServer(api)
			defer server.Close()
			agent, err := access.NewAgent(&rest.Config{Host: server.URL}, deploytest.Noon)
			if err != nil {
				t.Fatal(err)
			}
			wanted, live := deploytest.ObjectOf(t, test.desired), deploytest.ObjectOf(t, test.live)
			live.SetLabels(map[string]string{fleet.LabelSetHash: "h1"})
			ref := manifest.Ref{GroupVersionKind: live.GroupVersionKind(), Namespace: "web", Name: "a"}
			tr := &Tracking{refs: []manifest.Ref{ref}, set: placement.Set{Hash: "h1", IsAgent: true}, seen: map[manifest.Ref]observation{}}
			o := observing(agent)
			for range 2 { // the second time the result is known
				if err := o.processLive(t.Context(), deploytest.Deployment(), tr, manifest.Objects{ref: live}, manifest.Objects{ref: wanted}); err != nil {
					t.Fatal(err)
				}
			}
			if got := tr.Drifted()[ref]; got != test.drifts {
				t.Errorf("drifts: %t, patch %s", got, tr.seen[ref].Patch)
			}
			want := ""
			if !test.drifts && len(test.patches) > 0 {
				want = "the API server does not keep these fields of " + ref.Text() + ": " + test.patches[0] + ". If"
			}
			if got := tr.dropped(); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
				t.Errorf("reports %q, want %q", got, want)
			}
			if diff := cmp.Diff(test.patches, api.patches); diff != "" {
				t.Errorf("dry runs (-want +got):\n%s", diff)
			}
		})
	}
}

// observing returns an Observer of an agent that redacts nothing.
func observing(agent *access.Identity) *Observer {
	return &Observer{Agent: agent, Accounts: access.NewAccounts(agent, "cattle-fleet-system", ""), Clock: deploytest.Noon,
		Again: func(string, time.Duration) {},
		Cleaner: func(context.Context, *fleet.BundleDeployment) func(string) string {
			return func(text string) string { return text }
		}}
}

func TestResultOfDryRunThatMayChange_IsTriedAgain(t *testing.T) {
	deployment := func(image string) string {
		return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"web"},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"` + image + `"}]}}}}`
	}
	const internal = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}`
	tests := map[string]struct {
		code   int // of the first dry run
		answer string
		drifts bool
		again  time.Duration
		later  string // answer to the second dry run
	}{
		"the webhook of a policy does not answer at first": {500, internal, true, time.Minute, deployment("local")},
		"the policy is removed":                            {200, deployment("local"), false, 15 * time.Minute, deployment("nginx")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			api := &dryRuns{code: test.code, answer: test.answer}
			server := httptest.NewServer(api)
			defer server.Close()
			agent, err := access.NewAgent(&rest.Config{Host: server.URL}, deploytest.Noon)
			if err != nil {
				t.Fatal(err)
			}
			wanted, live := deploytest.ObjectOf(t, deployment("nginx")), deploytest.ObjectOf(t, deployment("local"))
			live.SetLabels(map[string]string{fleet.LabelSetHash: "h1"})
			ref := manifest.Ref{GroupVersionKind: live.GroupVersionKind(), Namespace: "web", Name: "a"}
			tr := &Tracking{refs: []manifest.Ref{ref}, set: placement.Set{Hash: "h1"}, seen: map[manifest.Ref]observation{}}
			o := observing(agent)
			now, again := deploytest.Noon(), time.Duration(0)
			o.Clock, o.Again = func() time.Time { return now }, func(_ string, after time.Duration) { again = after }
			expect := func(drifts bool) {
				t.Helper()
				if err := o.processLive(t.Context(), deploytest.Deployment(), tr, manifest.Objects{ref: live}, manifest.Objects{ref: wanted}); err != nil {
					t.Fatal(err)
				}
				if got := tr.Drifted()[ref]; got != drifts {
					t.Errorf("drifts: %t, patch %s", got, tr.seen[ref].Patch)
				}
			}
			expect(test.drifts)
			if again != test.again {
				t.Errorf("compared again after %s, want %s", again, test.again)
			}
			api.code, api.answer = 200, test.later
			now = now.Add(again - time.Second)
			expect(test.drifts) // too early
			now = now.Add(time.Second)
			expect(!test.drifts)
		})
	}
}
