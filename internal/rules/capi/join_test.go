package capi_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestJoinOf(t *testing.T) {
	for value, want := range map[string]capi.Join{"agent": capi.JoinByManifest, "Agent": capi.JoinUnknown, "": capi.JoinUnknown, "kubeconfig": capi.JoinUnknown} {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		object.SetAnnotations(map[string]string{annotation.CAPIJoin: value})
		if got := capi.Parse(object).Join; got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
	if got := capi.Parse(&unstructured.Unstructured{Object: map[string]any{}}).Join; got != capi.JoinByKubeconfig {
		t.Errorf("without the annotation: %s", got)
	}
}

// joins is how the Cluster of Cluster API asks to be joined.
func joins(how capi.Join) change { return func(in *capi.Input) { in.Cluster.Join = how } }

func notInitialized(in *capi.Input) { in.Cluster.Initialized = false }

// byManifest is a Cluster of Fleet that the hub has arranged so.
func byManifest(in *capi.Input) {
	registered()(in)
	capi.Arrange(in.Fleet, input(joins(capi.JoinByManifest)), "client-1")
	in.SameSecret = nil
}

func hasReported(in *capi.Input) { in.Fleet.Status.Agent.LastSeen = rulestest.At(0) }

func TestDecide_AboutClustersThatJoinWithAManifest(t *testing.T) {
	tests := map[string]struct {
		in     capi.Input
		stage  capi.Stage
		reason string
	}{
		"before the control plane exists: is created":         {input(joins(capi.JoinByManifest), notInitialized), capi.Creating, ""},
		"without a kubeconfig Secret: is created":             {input(joins(capi.JoinByManifest), func(in *capi.Input) { in.Secret = capi.Secret{} }), capi.Creating, ""},
		"unknown identity: the cluster is not asked":          {input(joins(capi.JoinByManifest), func(in *capi.Input) { in.Identity = capi.Identity{} }), capi.Creating, ""},
		"the name is taken by a user: says so":                {input(joins(capi.JoinByManifest), notInitialized, func(in *capi.Input) { in.Fleet = &fleet.Cluster{} }), capi.Waiting, conditions.ReasonNameTaken},
		"imported by hand: is noted":                          {input(joins(capi.JoinByManifest), func(in *capi.Input) { byHand(ws, "mine")(in) }), capi.ImportedByHand, conditions.ReasonImportedTwice},
		"paused: waits":                                       {input(joins(capi.JoinByManifest), func(in *capi.Input) { in.Cluster.Paused = true }), capi.Waiting, conditions.ReasonClusterPaused},
		"not selected: waits":                                 {input(joins(capi.JoinByManifest), func(in *capi.Input) { in.Selected = false }), capi.Waiting, conditions.ReasonNotSelected},
		"an unknown value: nothing is created":                {input(joins(capi.JoinUnknown)), capi.Waiting, conditions.ReasonJoinUnknown},
		"an unknown value later: says so":                     {input(joins(capi.JoinUnknown), byManifest), capi.Following, conditions.ReasonJoinUnknown},
		"created: needs neither control plane nor Secret":     {input(joins(capi.JoinByManifest), notInitialized, byManifest), capi.Following, ""},
		"created: a second Cluster for it is reported":        {input(joins(capi.JoinByManifest), byManifest, func(in *capi.Input) { byHand(ws, "mine")(in) }), capi.Following, conditions.ReasonImportedTwice},
		"too many labels are reported":                        {input(joins(capi.JoinByManifest), byManifest, func(in *capi.Input) { in.Cluster.LabelsLeftOut = true }), capi.Following, conditions.ReasonLabelsLeftOut},
		"annotation removed before the control plane exists":  {input(notInitialized, byManifest), capi.Following, conditions.ReasonAwaitingControlPlane},
		"annotation removed after a heartbeat: no kubeconfig": {input(byManifest, hasReported, func(in *capi.Input) { in.Secret = capi.Secret{} }), capi.Following, ""},
		"deleted: is deleted":                                 {input(joins(capi.JoinByManifest), byManifest, func(in *capi.Input) { in.Cluster.DeletionTimestamp = rulestest.Ptr(rulestest.At(0)) }), capi.Deleting, ""},
		"recreated: the earlier one is deleted":               {input(joins(capi.JoinByManifest), byManifest, func(in *capi.Input) { in.Cluster.UID = "another" }), capi.Deleting, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := capi.Decide(test.in)
			if got.Stage != test.stage || got.Reason != test.reason {
				t.Errorf("stage %s, reason %q (%s), want %s, %q", got.Stage, got.Reason, got.Message, test.stage, test.reason)
			}
		})
	}
}

func TestNeedsSecret_NotForAManifest(t *testing.T) {
	if capi.NeedsSecret(input(joins(capi.JoinByManifest))) || !capi.NeedsSecret(input()) {
		t.Error("the kubeconfig Secret is read for an import only")
	}
}

func TestArrange(t *testing.T) {
	type form struct{ secret, clientID, annotation string }
	kubeconfig, manifest := form{secret: "east-kubeconfig"}, form{clientID: "client-1", annotation: "agent"}
	tests := map[string]struct {
		in   capi.Input
		want form
	}{
		"with a kubeconfig: stays":                               {input(registered()), kubeconfig},
		"annotated: joins with a manifest":                       {input(joins(capi.JoinByManifest), registered()), form{clientID: "new", annotation: "agent"}},
		"annotated while it is imported: keeps its client ID":    {input(joins(capi.JoinByManifest), registered(), func(in *capi.Input) { in.Fleet.Spec.ClientID = "own" }), form{clientID: "own", annotation: "agent"}},
		"annotated after its agent has reported: stays":          {input(joins(capi.JoinByManifest), registered(), hasReported), kubeconfig},
		"another Secret of a user: stays":                        {input(joins(capi.JoinByManifest), registered(), func(in *capi.Input) { in.Fleet.Spec.KubeConfigSecret = "own" }), form{secret: "own", clientID: "new", annotation: "agent"}},
		"with a manifest: stays":                                 {input(joins(capi.JoinByManifest), byManifest), manifest},
		"an unknown value: stays":                                {input(joins(capi.JoinUnknown), byManifest), manifest},
		"annotation removed: is imported, with its client ID":    {input(byManifest), form{secret: "east-kubeconfig", clientID: "client-1"}},
		"annotation removed before the control plane: waits":     {input(byManifest, notInitialized), manifest},
		"annotation removed without a valid Secret: waits":       {input(byManifest, func(in *capi.Input) { in.Secret.Owners = nil }), manifest},
		"annotation removed after its agent has reported: stays": {input(byManifest, hasReported), manifest},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for range 2 { // the second time changes nothing
				capi.Arrange(test.in.Fleet, test.in, "new")
				got := form{test.in.Fleet.Spec.KubeConfigSecret, test.in.Fleet.Spec.ClientID, test.in.Fleet.Annotations[annotation.CAPIJoin]}
				if got != test.want {
					t.Errorf("got %+v, want %+v", got, test.want)
				}
			}
		})
	}
}

// The Secret was checked in the namespace of the cluster. One in another namespace was not.
func TestArrange_UsesTheSecretOfItsNamespaceOnly(t *testing.T) {
	in := input(byManifest, func(in *capi.Input) { in.Fleet.Spec.KubeConfigSecretNamespace = "team-b" })
	capi.Arrange(in.Fleet, in, "new")
	if spec := in.Fleet.Spec; spec.KubeConfigSecret != "east-kubeconfig" || spec.KubeConfigSecretNamespace != "" {
		t.Errorf("Secret %s/%s", spec.KubeConfigSecretNamespace, spec.KubeConfigSecret)
	}
}

func TestNeedsClientID(t *testing.T) {
	for name, test := range map[string]struct {
		in   capi.Input
		want bool
	}{
		"a new Cluster with a manifest":        {input(joins(capi.JoinByManifest)), true},
		"a new Cluster with a kubeconfig":      {input(), false},
		"a Cluster with a client ID":           {input(joins(capi.JoinByManifest), byManifest), false},
		"a Cluster that changes to a manifest": {input(joins(capi.JoinByManifest), registered()), true},
	} {
		if got := capi.NeedsClientID(test.in); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
