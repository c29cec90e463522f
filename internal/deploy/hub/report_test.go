package hub

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestStatusPatch(t *testing.T) {
	base := deploytest.Deployment()
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
			got, err := StatusPatch(base, to)
			if err != nil || string(got) != test.want {
				t.Errorf("got %s %v, want %s", got, err, test.want)
			}
		})
	}
}

func TestStatusUpdate(t *testing.T) {
	const head = `{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"BundleDeployment","metadata":{"labels":{"fleet.cattle.io/bundle-namespace":"fleet-default"},"name":"hello","namespace":"cluster-ns","resourceVersion":"7","uid":"u1"},"status":`
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
		"resource version known: body has status and metadata only": {
			base: func(bd *fleet.BundleDeployment) {
				bd.Finalizers, bd.Annotations, bd.ManagedFields = []string{"f"}, map[string]string{"a": "b"}, []metav1.ManagedFieldsEntry{{Manager: "user"}}
			},
			want: strings.Replace(head, `"uid"`, `"finalizers":["f"],"annotations":{"a":"b"},"uid"`, 1) + `{` + applied + `"display":{},"release":"web/hello:1",` + counts(0) + `}}`},
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
			base := deploytest.Deployment(func(bd *fleet.BundleDeployment) { bd.UID, bd.ResourceVersion = "u1", "7" })
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
			got, want := Newer(test.cached, test.written), test.cached
			if test.second {
				want = test.written
			}
			if got != want {
				t.Errorf("got %v", got)
			}
		})
	}
}
