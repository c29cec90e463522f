package namespaces

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestCheckTargetNamespace(t *testing.T) {
	team := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "x"}}}
	tests := map[string]struct {
		labels   map[string]string
		exists   bool
		selector *metav1.LabelSelector
		want     string
		reason   string
	}{
		"no selector":              {selector: nil},
		"no namespace":             {selector: team, reason: conditions.ReasonNamespaceMissing, want: "target namespace web does not exist on downstream cluster"},
		"a namespace that matches": {labels: map[string]string{"team": "a"}, exists: true, selector: team},
		"a namespace that does not match": {labels: map[string]string{"team": "b"}, exists: true, selector: team, reason: conditions.ReasonNamespaceRefused,
			want: "target namespace web does not match AllowedTargetNamespaceSelector (team=a)"},
		"an invalid selector": {exists: true, selector: bad, reason: conditions.ReasonSelectorInvalid, want: `reading allowedTargetNamespaceSelector: "x" is not a valid label selector operator`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := checkTargetNamespace("web", deploytest.NamespaceWith(test.exists, test.labels), test.selector)
			deploytest.ExpectError(t, err, test.want)
			if err != nil && outcome.ReasonOf(err) != test.reason {
				t.Errorf("reason %s", outcome.ReasonOf(err))
			}
		})
	}
}

func TestWantedNamespace(t *testing.T) {
	// "ours" and "note" were set by this bundle, "old" by another writer, "shared" by another bundle.
	noted := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	current := func() *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: "web",
			Labels: map[string]string{corev1.LabelMetadataName: "web", "pod-security.kubernetes.io/enforce": "baseline",
				"old": "x", "ours": "y", "shared": "z"},
			Annotations: map[string]string{"note": "y", "others": "z"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				noted("kubectl", `{"f:metadata":{"f:labels":{"f:old":{}}}}`),
				noted(namespaceManager("hello"), `{"f:metadata":{"f:labels":{"f:ours":{},"f:pod-security.kubernetes.io/enforce":{}},"f:annotations":{".":{},"f:note":{}}}}`),
				noted(namespaceManager("other"), `{"f:metadata":{"f:labels":{"f:shared":{}}}}`),
				noted(namespaceManager("hello"), `no JSON`),
			},
		}}
	}
	labels := func(change map[string]string) map[string]string {
		wanted := current().Labels
		for key, value := range change {
			wanted[key] = value
			if value == "" {
				delete(wanted, key)
			}
		}
		return wanted
	}
	kept := map[string]string{"note": "y"}
	tests := map[string]struct {
		options     fleet.BundleDeploymentOptions
		labels      map[string]string
		annotations map[string]string
		changed     bool
	}{
		"labels already set: no change": {
			fleet.BundleDeploymentOptions{NamespaceLabels: map[string]string{"ours": "y"}, NamespaceAnnotations: kept}, labels(nil), current().Annotations, false},
		"no labels wanted: only own labels are removed": {
			fleet.BundleDeploymentOptions{}, labels(map[string]string{"ours": ""}), map[string]string{"others": "z"}, true},
		"label renamed: old label is removed": {
			fleet.BundleDeploymentOptions{NamespaceLabels: map[string]string{"new": "z"}, NamespaceAnnotations: kept},
			labels(map[string]string{"ours": "", "new": "z"}), current().Annotations, true},
		"label of another writer: is overwritten": {
			fleet.BundleDeploymentOptions{NamespaceLabels: map[string]string{"ours": "y", "old": "new"}, NamespaceAnnotations: kept},
			labels(map[string]string{"old": "new"}), current().Annotations, true},
		"pod security label in a bundle: is ignored": {
			fleet.BundleDeploymentOptions{NamespaceLabels: map[string]string{"ours": "y", "pod-security.kubernetes.io/enforce": "privileged", "pod-security.kubernetes.io/warn": "x"}, NamespaceAnnotations: kept},
			labels(nil), current().Annotations, false},
		"annotations: are handled like labels": {
			fleet.BundleDeploymentOptions{NamespaceLabels: map[string]string{"ours": "y"}, NamespaceAnnotations: map[string]string{"a": "b"}},
			labels(nil), map[string]string{"a": "b", "others": "z"}, true},
		"the name cannot be changed": {
			fleet.BundleDeploymentOptions{NamespaceLabels: map[string]string{corev1.LabelMetadataName: "other", "ours": "y"}, NamespaceAnnotations: kept},
			labels(nil), current().Annotations, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			input := current()
			got, changed := wantedNamespace(input, &test.options, namespaceManager("hello"))
			if diff := cmp.Diff([]any{test.labels, test.annotations, test.changed}, []any{got.Labels, got.Annotations, changed}); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(current(), input); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
		})
	}
}

func TestKeep_WaitsBeforeItReadsTheNamespaceAgain(t *testing.T) {
	now := deploytest.Noon()
	var waits []time.Duration
	n := New(nil, nil, func() time.Time { return now }, nil, func(_ string, after time.Duration) { waits = append(waits, after) })
	given := MarksOf(&fleet.BundleDeploymentOptions{NamespaceAnnotations: map[string]string{"a": "b"}}, now)
	now = now.Add(20 * time.Second)
	for _, marks := range []*Marks{{}, &given} {
		if err := n.Keep(t.Context(), deploytest.Deployment(), marks, "web", "web/hello:1"); err != nil { // there is no API server
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]time.Duration{40 * time.Second}, waits); diff != "" {
		t.Error(diff)
	}
}

// agentOfNamespace returns the agent of a cluster with namespace web, and the number of updates of that namespace.
func agentOfNamespace(t *testing.T, labels string) (*access.Identity, *atomic.Int32) {
	t.Helper()
	var updates atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path != "/api/v1/namespaces/web":
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","code":404}`))
			return
		case r.Method == http.MethodPut:
			updates.Add(1)
		}
		_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"web","labels":{` + labels + `}}}`))
	}))
	t.Cleanup(server.Close)
	agent, err := access.NewAgent(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, deploytest.Noon)
	if err != nil {
		t.Fatal(err)
	}
	return agent, &updates
}

func TestDisputedLabel_IsKeptByTheFirstBundle(t *testing.T) {
	with := func(name, namespace, label, value string) *fleet.BundleDeployment {
		return deploytest.Deployment(func(bd *fleet.BundleDeployment) {
			bd.Name, bd.Spec.Options = name, deploytest.InNamespace(namespace)
			bd.Spec.Options.NamespaceLabels = map[string]string{label: value}
		})
	}
	deleted := with("a", "web", "l", "1")
	deleted.DeletionTimestamp = &metav1.Time{Time: deploytest.Noon()}
	for name, test := range map[string]struct {
		other   *fleet.BundleDeployment
		current string
		want    bool
	}{
		"only bundle: sets it":                           {with("hello", "web", "l", "2"), `"l":"1"`, true},
		"comes first: sets it":                           {with("z", "web", "l", "1"), `"l":"1"`, true},
		"comes second: leaves it":                        {with("a", "web", "l", "1"), `"l":"1"`, false},
		"comes second, label is missing: sets it":        {with("a", "web", "l", "1"), `"k":"1"`, true},
		"comes second, value of a third writer: sets it": {with("a", "web", "l", "1"), `"l":"3"`, true},
		"comes second in another namespace: sets it":     {with("a", "other", "l", "1"), `"l":"1"`, true},
		"comes second with another label: sets it":       {with("a", "web", "k", "1"), `"l":"1"`, true},
		"comes second with the same value: sets it":      {with("a", "web", "l", "2"), `"l":"1"`, true},
		"comes second, the first is deleted: sets it":    {deleted, `"l":"1"`, true},
		"comes second, the value is there: changes none": {with("a", "web", "l", "2"), `"l":"2"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			agent, updates := agentOfNamespace(t, test.current)
			bd := with("hello", "web", "l", "2")
			all := func() []*fleet.BundleDeployment { return []*fleet.BundleDeployment{bd, test.other} }
			n := New(agent, access.NewAccounts(agent, "agents", ""), deploytest.Noon, all, func(string, time.Duration) {})
			given := MarksOf(&bd.Spec.Options, deploytest.Noon().Add(-marksPause))
			if err := n.Keep(t.Context(), bd, &given, "web", "web/hello:1"); err != nil {
				t.Fatal(err)
			}
			if got := updates.Load() > 0; got != test.want {
				t.Errorf("updated: %t", got)
			}
		})
	}
}

// trackedNamespace is an API server with namespace web, which tracks who owns the fields. It counts the writes.
type trackedNamespace struct {
	managedfieldstest.TestFieldManager

	t      *testing.T
	refuse metav1.StatusReason // of patches
	writes int
}

func (s *trackedNamespace) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	object, manager := &unstructured.Unstructured{}, r.URL.Query().Get("fieldManager")
	if r.Method != http.MethodGet {
		s.writes++
		if err := json.NewDecoder(r.Body).Decode(&object.Object); err != nil {
			s.t.Error(err)
		}
	}
	switch {
	case r.Method == http.MethodPatch && s.refuse != "":
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":%q}`, s.refuse)
		return
	case r.Method == http.MethodPatch && r.Header.Get("Content-Type") == string(types.ApplyYAMLPatchType):
		if err := s.Apply(object, manager, false); err != nil {
			s.t.Error(err)
		}
	case r.Method == http.MethodPut:
		if err := s.Update(object, manager); err != nil {
			s.t.Error(err)
		}
	}
	_ = json.NewEncoder(w).Encode(s.Live())
}

// Rancher Fleet's agent sets the values with another field manager. After a takeover, nothing else tells for which bundle it set them.
func TestNamespaceLabelOfRancherFleet_IsRemovedWithItsOption(t *testing.T) {
	namespace := func(labels, annotations map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
			"name": "web", "uid": "u", "labels": labels, "annotations": annotations}}}
	}
	options := fleet.BundleDeploymentOptions{NamespaceLabels: map[string]string{"ours": "y", "both": "y"}, NamespaceAnnotations: map[string]string{"note": "y"}}
	remaining := map[string]string{"both": "y", "name": "web"}
	for name, test := range map[string]struct {
		refuse metav1.StatusReason
		marked bool // the Namespace is an object of a bundle
		writes int  // when the options are there
		labels map[string]string
		noted  bool
	}{
		"after a takeover: removed":                  {writes: 1, labels: remaining},
		"the account may not patch: stays":           {refuse: metav1.StatusReasonForbidden, writes: 2, labels: deploytest.With(remaining, map[string]string{"ours": "y"}), noted: true},
		"a policy refuses the patch: stays":          {refuse: metav1.StatusReasonInvalid, writes: 2, labels: deploytest.With(remaining, map[string]string{"ours": "y"}), noted: true},
		"the Namespace is one of the objects: stays": {marked: true, labels: deploytest.With(remaining, map[string]string{"ours": "y", fleet.LabelSetHash: "h"}), noted: true},
	} {
		t.Run(name, func(t *testing.T) {
			fields := managedfieldstest.NewTestFieldManager(managedfields.NewDeducedTypeConverter(), corev1.SchemeGroupVersion.WithKind("Namespace"))
			server := &trackedNamespace{TestFieldManager: fields, t: t, refuse: test.refuse}
			before := namespace(map[string]any{"both": "y"}, nil)
			if err := server.Update(before, "kubectl"); err != nil {
				t.Fatal(err)
			}
			next := namespace(map[string]any{"both": "y", "ours": "y", "name": "web"}, map[string]any{"note": "y"})
			if test.marked {
				next.SetLabels(deploytest.With(next.GetLabels(), map[string]string{fleet.LabelSetHash: "h"}))
			}
			if err := server.Update(next, "fleetagent"); err != nil {
				t.Fatal(err)
			}
			listening := httptest.NewServer(server)
			t.Cleanup(listening.Close)
			agent, err := access.NewAgent(&rest.Config{Host: listening.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, deploytest.Noon)
			if err != nil {
				t.Fatal(err)
			}
			n := New(agent, access.NewAccounts(agent, "agents", ""), deploytest.Noon, func() []*fleet.BundleDeployment { return nil }, nil)
			bd := deploytest.Deployment()
			for range 2 {
				bd.Spec.Options = options
				if err := n.Mark(t.Context(), bd, Marks{}, "web", "web/hello:2"); err != nil {
					t.Fatal(err)
				}
			}
			if server.writes != test.writes {
				t.Errorf("%d writes, want %d", server.writes, test.writes)
			}
			bd.Spec.Options = fleet.BundleDeploymentOptions{}
			if err := n.Mark(t.Context(), bd, MarksOf(&options, deploytest.Noon()), "web", "web/hello:2"); err != nil {
				t.Fatal(err)
			}
			live, ok := server.Live().(*unstructured.Unstructured)
			if !ok {
				t.Fatalf("%T", server.Live())
			}
			if diff := cmp.Diff(test.labels, live.GetLabels()); diff != "" || (live.GetAnnotations()["note"] == "y") != test.noted {
				t.Errorf("annotations %v, labels (-want +got):\n%s", live.GetAnnotations(), diff)
			}
		})
	}
}

// Nothing else tells the first bundle, which may have been deployed long ago, that another one has changed its label.
func TestDisputedLabel_DeploymentOfAnotherBundleWakesTheFirst(t *testing.T) {
	with := func(name, namespace string, options fleet.BundleDeploymentOptions) *fleet.BundleDeployment {
		return deploytest.Deployment(func(bd *fleet.BundleDeployment) {
			bd.Name, bd.Spec.Options = name, options
			bd.Spec.Options.TargetNamespace = namespace
		})
	}
	labels := func(value string) fleet.BundleDeploymentOptions {
		return fleet.BundleDeploymentOptions{NamespaceLabels: map[string]string{"l": value}}
	}
	annotated := func(value string) fleet.BundleDeploymentOptions {
		return fleet.BundleDeploymentOptions{NamespaceAnnotations: map[string]string{"n": value}}
	}
	both := labels("2")
	both.NamespaceAnnotations = map[string]string{"n": "2"}
	for name, test := range map[string]struct {
		other *fleet.BundleDeployment
		want  map[string]time.Duration
	}{
		"another value of a label":       {with("a", "web", labels("1")), map[string]time.Duration{"a": marksPause}},
		"another value of an annotation": {with("a", "web", annotated("1")), map[string]time.Duration{"a": marksPause}},
		"the same value":                 {with("a", "web", labels("2")), map[string]time.Duration{}},
		"another namespace":              {with("a", "other", labels("1")), map[string]time.Duration{}},
		"comes later":                    {with("z", "web", labels("1")), map[string]time.Duration{}},
	} {
		t.Run(name, func(t *testing.T) {
			agent, _ := agentOfNamespace(t, `"l":"1"`)
			bd, woken := with("hello", "web", both), map[string]time.Duration{}
			all := func() []*fleet.BundleDeployment { return []*fleet.BundleDeployment{bd, test.other} }
			n := New(agent, access.NewAccounts(agent, "agents", ""), deploytest.Noon, all, func(name string, after time.Duration) { woken[name] = after })
			if err := n.Mark(t.Context(), bd, Marks{}, "web", "web/hello:1"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, woken); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamespaceWithoutLabels_GetsLabels(t *testing.T) {
	got, changed := wantedNamespace(&corev1.Namespace{}, &fleet.BundleDeploymentOptions{NamespaceLabels: map[string]string{"a": "b"}}, "m")
	if diff := cmp.Diff(map[string]string{"a": "b"}, got.Labels); diff != "" || !changed || got.Annotations != nil {
		t.Errorf("changed %t, annotations %v, labels:\n%s", changed, got.Annotations, diff)
	}
}
