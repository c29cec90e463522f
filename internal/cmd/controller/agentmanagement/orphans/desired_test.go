package orphans

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func expectOwners(t *testing.T, got, want []owner) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(owner{})); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}

func TestOwnersOfRight(t *testing.T) {
	request, token := owner{registrationKind, "ws", "r1"}, owner{tokenKind, "ws", "t1"}
	tests := map[string]struct {
		obj  metav1.Object
		want []owner
	}{
		"Role without an owner":                          {role(), nil},
		"a child of a registration":                      {role(ofRequest("ws", "r1")), []owner{request}},
		"a child of a token":                             {role(ofToken("ws", "t1")), []owner{token}},
		"reader of a credential":                         {role(answering("ws", "r1")), []owner{request}},
		"credential without the workspace":               {role(answering("", "r1")), nil},
		"credential without the request":                 {role(answering("ws", "")), nil},
		"reader Role of Rancher Fleet":                   {role(ofRequest("ws", "r1"), annotated("objectset.rio.cattle.io/applied", "H4sI")), []owner{request}},
		"without the label of the hub":                   {role(ofRequest("ws", "r1"), labelled(fleet.LabelManaged, "")), nil},
		"with another value of that label":               {role(ofRequest("ws", "r1"), labelled(fleet.LabelManaged, "false")), nil},
		"of another manager":                             {role(ofRequest("ws", "r1"), labelled(fleet.LabelClusterManagement, "somebody")), nil},
		"marked to stay":                                 {role(ofRequest("ws", "r1"), labelled(fleet.LabelSetPrune, "false")), nil},
		"being deleted":                                  {role(ofRequest("ws", "r1"), going), nil},
		"child of another set":                           {role(inSet("rancher-things", registrationKind, "ws", "r1")), nil},
		"our set with another kind of owner":             {role(inSet("cluster-registration", tokenKind, "ws", "t1")), nil},
		"the set of tokens owned by a registration":      {role(inSet("cluster-group-token", registrationKind, "ws", "r1")), nil},
		"an owner of another group":                      {role(ofRequest("ws", "r1"), annotated(fleet.AnnotationSetOwnerGVK, "example.com/v1, Kind=ClusterRegistration")), nil},
		"a copy whose owner was changed":                 {role(ofRequest("ws", "r1"), annotated(fleet.AnnotationSetOwnerName, "r2")), nil},
		"a copy without the annotation of the workspace": {role(ofRequest("ws", "r1"), annotated(fleet.AnnotationSetOwnerNamespace, "")), nil},
		"a copy without the hash":                        {role(ofRequest("ws", "r1"), labelled(fleet.LabelSetHash, "")), nil},
		"the hub's own Secret":                           {role(annotated(fleet.AnnotationSetID, "fleet-bootstrap")), nil},
		"the account of an agent": {
			role(ofRequest("ws", "r1"), answering("ws", "r1"), annotated(fleet.AnnotationCluster, "c")),
			[]owner{request, request, {clusterKind, "ws", "c"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { expectOwners(t, ownersOfRight(test.obj), test.want) })
	}
}

func TestOwnersOfBundle(t *testing.T) {
	tests := map[string]struct {
		bundle *fleet.Bundle
		want   []owner
	}{
		"the Bundle of an agent":              {agentBundle(), []owner{{clusterKind, "ws", "c"}}},
		"a user's Bundle":                     {&fleet.Bundle{ObjectMeta: metadata("ws", "fleet-agent-c"), Spec: agentBundle().Spec}, nil},
		"a Bundle that looks like an agent's": {agentBundle(annotated(fleet.AnnotationSetID, "mine")), nil},
		"a copy in another workspace":         {agentBundle(func(b metav1.Object) { b.SetNamespace("ws2") }), nil},
		"a copy of another name":              {agentBundle(func(b metav1.Object) { b.SetName("fleet-agent-d") }), nil},
		"annotation of the set was removed":   {agentBundle(labelled(fleet.LabelSetHash, "")), nil},
		"being deleted":                       {agentBundle(going), nil},
		"of another manager":                  {agentBundle(labelled(fleet.LabelClusterManagement, "x")), nil},
		"without targets":                     {agentBundle(func(b metav1.Object) { b.(*fleet.Bundle).Spec.Targets = nil }), nil},
		"with a target for all Clusters":      {agentBundle(func(b metav1.Object) { b.(*fleet.Bundle).Spec.Targets[0].ClusterName = "" }), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { expectOwners(t, ownersOfBundle(test.bundle), test.want) })
	}
}

func TestOwnersOfDeployment(t *testing.T) {
	bundle, cluster := owner{bundleKind, "ws", "b"}, owner{clusterKind, "ws", "c"}
	tests := map[string]struct {
		deployment *fleet.BundleDeployment
		want       []owner
	}{
		"complete: Bundle and Cluster":    {deployment(), []owner{bundle, cluster}},
		"without the Bundle's name":       {deployment(labelled(fleet.LabelBundleName, "")), []owner{cluster}},
		"without the Bundle's workspace":  {deployment(labelled(fleet.LabelBundleNamespace, "")), []owner{cluster}},
		"without the Cluster's name":      {deployment(labelled(fleet.LabelCluster, "")), []owner{bundle}},
		"created by a user":               {&fleet.BundleDeployment{}, nil},
		"without the label of the hub":    {deployment(labelled(fleet.LabelManaged, "")), nil},
		"being deleted":                   {deployment(going), nil},
		"of a Cluster of another manager": {deployment(labelled(fleet.LabelClusterManagement, "x")), nil},
		"of a Bundle of another manager":  {deployment(labelled(fleet.LabelSetPrune, "false")), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { expectOwners(t, ownersOfDeployment(test.deployment), test.want) })
	}
}

func TestOrphaned(t *testing.T) {
	a, b := owner{clusterKind, "ws", "a"}, owner{bundleKind, "ws", "b"}
	tests := map[string]struct {
		owners, there []owner
		want          bool
	}{
		"no owners: not an orphan":                 {nil, nil, false},
		"owner exists":                             {[]owner{a}, []owner{a, b}, false},
		"owner is deleted":                         {[]owner{a}, []owner{b}, true},
		"all owners exist":                         {[]owner{a, b}, []owner{b, a}, false},
		"one owner is deleted":                     {[]owner{a, b}, []owner{a}, true},
		"another kind of the same name is deleted": {[]owner{a}, []owner{{bundleKind, "ws", "a"}}, true},
		"an owner of the same name in another workspace is deleted": {[]owner{a}, []owner{{clusterKind, "ws2", "a"}}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			there := map[owner]bool{}
			for _, o := range test.there {
				there[o] = true
			}
			if got := orphaned(test.owners, func(o owner) bool { return there[o] }); got != test.want {
				t.Errorf("orphaned: %v, want %v", got, test.want)
			}
		})
	}
}

// made is an object whose owners the test has chosen, and whether they are all that it has.
type made struct {
	what   string
	owners []owner
	needs  []owner
}

// TestOrphaned_OnlyIfAnOwnerIsMissing creates random objects, with and without our marks, some of whose owners are
// deleted.
func TestOrphaned_OnlyIfAnOwnerIsMissing(t *testing.T) {
	for seed := range uint64(200) {
		chance := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a world, not a secret
		gone := map[owner]bool{}
		for i := range 6 {
			for _, kind := range []string{clusterKind, registrationKind, tokenKind, bundleKind} {
				gone[owner{kind, workspaceOf(i), fmt.Sprint("o", i)}] = chance.IntN(2) == 0
			}
		}
		for range 40 {
			one := anything(chance)
			want := false
			for _, needed := range one.needs {
				want = want || gone[needed]
			}
			if got := orphaned(one.owners, func(o owner) bool { return !gone[o] }); got != want {
				t.Fatalf("world %d: %s that needs %v is an orphan: %v, want %v", seed, one.what, one.needs, got, want)
			}
		}
	}
}

func workspaceOf(i int) string { return fmt.Sprint("ws", i%3) }

// anything is an object of one of the owners, as either implementation makes it, or one that only looks like it.
func anything(chance *rand.Rand) made {
	i := chance.IntN(6)
	workspace, name := workspaceOf(i), fmt.Sprint("o", i)
	theirs := []func(metav1.Object){
		labelled("team", "blue"), labelled("team", "red"), labelled("team", "green"), // still ours
		labelled(fleet.LabelManaged, "maybe"), labelled(fleet.LabelClusterManagement, "them"), labelled(fleet.LabelSetPrune, "false"),
	}
	choice := chance.IntN(len(theirs))
	noise, ours := theirs[choice], choice < 3
	var one made
	switch chance.IntN(5) {
	case 0:
		one = made{"a right", ownersOfRight(role(ofRequest(workspace, name), noise)), []owner{{registrationKind, workspace, name}}}
	case 1:
		one = made{"an import account", ownersOfRight(role(ofToken(workspace, name), noise)), []owner{{tokenKind, workspace, name}}}
	case 2:
		one = made{"a credential", ownersOfRight(role(answering(workspace, name), noise)), []owner{{registrationKind, workspace, name}}}
	case 3:
		d := deployment(labelled(fleet.LabelBundleNamespace, workspace), labelled(fleet.LabelBundleName, name),
			labelled(fleet.LabelClusterNamespace, workspace), labelled(fleet.LabelCluster, name), noise)
		one = made{"a BundleDeployment", ownersOfDeployment(d), []owner{{bundleKind, workspace, name}, {clusterKind, workspace, name}}}
	default:
		b := agentBundle(noise)
		b.Namespace, b.Name, b.Spec.Targets[0].ClusterName = workspace, names.AgentBundle(name), name
		b.Labels[fleet.LabelSetHash] = names.SetHash(names.AgentBundleSet, names.Owner{GVK: "/v1, Kind=Namespace", Name: workspace})
		one = made{"an agent's Bundle", ownersOfBundle(b), []owner{{clusterKind, workspace, name}}}
		ours = ours || choice == 3 // Bundles have no label that says whose they are
	}
	if !ours {
		one.needs = nil
	}
	return one
}
