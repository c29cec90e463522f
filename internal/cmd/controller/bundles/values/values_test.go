package values

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// reporting returns a BundleDeployment whose agent gives a reason why it was not deployed.
func reporting(hash, reason string) *fleet.BundleDeployment {
	bd := valued("one")
	bd.Spec.ValuesHash = hash
	if reason != "" {
		bd.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Deployed, Status: "False", Reason: reason}}
	}
	return bd
}

func TestReportedInvalidValues_HaveTheSecretChecked(t *testing.T) {
	invalid := conditions.ReasonHelmValuesInvalid
	tests := map[string]struct {
		older, newer *fleet.BundleDeployment
		want         bool
	}{
		"invalid values are reported: checked":        {reporting("h", ""), reporting("h", invalid), true},
		"invalid values reported before this process": {nil, reporting("h", invalid), true},
		"invalid values are still reported":           {reporting("h", invalid), reporting("h", invalid), false},
		"values are valid again":                      {reporting("h", invalid), reporting("h", ""), false},
		"another reason":                              {reporting("h", ""), reporting("h", conditions.ReasonError), false},
		"values are not in a Secret":                  {reporting("", ""), reporting("", invalid), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := New(hubtest.New(t).App)
			if got := s.CheckReported(test.older, test.newer); got != test.want || s.Holds(test.newer.UID) == test.want {
				t.Errorf("unverified: %t", got)
			}
		})
	}
}

// A list of Secrets of one name makes the API server read all Secrets of the hub.
func TestRead_ListsSecretsOnlyIfThereAreMany(t *testing.T) {
	read := func(number int) (found int, requests []string, err error) {
		hub := hubtest.New(t)
		var of []*fleet.BundleDeployment
		for i := range number {
			of = append(of, valued(fmt.Sprint(i)))
			secret := unownedSecret()
			secret.Namespace = of[i].Namespace
			hub.Put(secret)
		}
		hub.Requests()
		values, err := New(hub.App).Read(t.Context(), "web", of)
		return len(values), hub.Requests(), err
	}
	for _, number := range []int{1, 50, fewSecrets} {
		found, requests, err := read(number)
		if err != nil || found != number || len(requests) != number {
			t.Errorf("%d BundleDeployments: %d are read with %d requests, error %v", number, found, len(requests), err)
		}
	}
	if _, requests, err := read(fewSecrets + 1); len(requests) > 0 || err == nil || !strings.Contains(err.Error(), "list secrets") { // which the hub in memory does not serve
		t.Errorf("many BundleDeployments: %d requests, error %v, want a list", len(requests), err)
	}
}

func TestRead_ReturnsTheErrorOfASecret(t *testing.T) {
	hub := hubtest.New(t)
	failure := errors.New("boom")
	hub.Fail("get Secret c-two/web", failure)
	if _, err := New(hub.App).Read(t.Context(), "web", []*fleet.BundleDeployment{valued("one"), valued("two")}); !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
}

func TestMarkUnverified_EndsWithForget(t *testing.T) {
	s := New(hubtest.New(t).App)
	if !s.Holds("s") {
		t.Error("a Secret is unverified without a reason")
	}
	s.MarkUnverified("s")
	if s.Holds("s") || !s.Holds("other") {
		t.Error("a mark is forgotten, or spreads")
	}
	if s.Forget("s"); !s.Holds("s") {
		t.Error("a mark stays")
	}
}
