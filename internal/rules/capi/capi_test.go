package capi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const ws = "team-a"

// change modifies the input of a row.
type change func(*capi.Input)

// input is a selected Cluster with an initialized control plane and a valid Secret, whose cluster was identified.
func input(changes ...change) capi.Input {
	in := capi.Input{
		Now: rulestest.Noon(), Key: types.NamespacedName{Namespace: ws, Name: "east"}, Selected: true,
		Cluster: cluster(),
		Secret: capi.Secret{
			Exists: true, HasKubeconfig: true, Type: "cluster.x-k8s.io/secret", Cluster: "east",
			Owners: []capi.Owner{{Reference: controlPlane(), UID: "cp-1"}},
		},
		Identity: capi.Identity{Tried: true, UID: "system-1"},
	}
	for _, modify := range changes {
		modify(&in)
	}
	return in
}

func controlPlane() capi.Reference {
	return capi.Reference{Group: "controlplane.cluster.x-k8s.io", Kind: "LabControlPlane", Name: "east-cp"}
}

func cluster() *capi.Cluster {
	return &capi.Cluster{
		ObjectMeta:  metav1.ObjectMeta{Namespace: ws, Name: "east", UID: "capi-1", Labels: map[string]string{"env": "dev"}},
		Initialized: true, ControlPlane: controlPlane(),
	}
}

func of(modify func(*capi.Cluster)) change { return func(in *capi.Input) { modify(in.Cluster) } }

func secret(modify func(*capi.Secret)) change { return func(in *capi.Input) { modify(&in.Secret) } }

// registered has the Cluster of Fleet that the hub created.
func registered(modifiers ...func(*fleet.Cluster)) change {
	return func(in *capi.Input) {
		c := capi.NewCluster(cluster())
		c.UID = "fleet-1"
		in.Fleet = rulestest.Build(c, modifiers)
		in.SameSecret = append(in.SameSecret, in.Fleet)
	}
}

// byHand has a Cluster of Fleet that a user created with the Secret.
func byHand(namespace, name string) change {
	return func(in *capi.Input) {
		c := &fleet.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       fleet.ClusterSpec{KubeConfigSecret: "east-kubeconfig", KubeConfigSecretNamespace: ws},
		}
		in.SameSecret = append(in.SameSecret, c)
		if namespace == ws && name == "east" {
			in.Fleet = c
		}
	}
}

// sameCluster has a Cluster of Fleet that leads to the same cluster with another Secret.
func sameCluster(namespace, name string, modifiers ...func(*fleet.Cluster)) change {
	return func(in *capi.Input) {
		c := rulestest.Build(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, modifiers)
		in.SameCluster = append(in.SameCluster, c)
		if namespace == ws && name == "east" {
			in.Fleet = c
		}
	}
}

func identity(is capi.Identity) change { return func(in *capi.Input) { in.Identity = is } }

// unknown has an import of which it is not known which cluster it is.
func unknown(in *capi.Input) { in.Unknown = append(in.Unknown, &fleet.Cluster{}) }

// marked is a mark of the hub.
func marked(c *fleet.Cluster) {
	c.Annotations = map[string]string{annotation.CAPICluster: c.Namespace + "/" + c.Name + "/capi-9"}
}

// deployed has had an agent.
func deployed(c *fleet.Cluster) { c.Status.AgentDeployedGeneration = rulestest.Ptr(int64(0)) }

func going(c *fleet.Cluster) { c.DeletionTimestamp = rulestest.Ptr(rulestest.At(0)) }

func kept(reason string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { capi.Keep(c, reason) }
}

func notSelected(in *capi.Input) { in.Selected = false }

func gone(in *capi.Input) { in.Cluster, in.Selected, in.Secret = nil, false, capi.Secret{} }

func last(modify func(*capi.Cluster)) change {
	return func(in *capi.Input) {
		in.Last = cluster()
		modify(in.Last)
	}
}

func paused(c *capi.Cluster)      { c.Paused = true }
func forMove(c *capi.Cluster)     { c.ForMove = true }
func recreated(c *capi.Cluster)   { c.UID = "capi-2" }
func deleted(c *capi.Cluster)     { c.DeletionTimestamp = rulestest.Ptr(rulestest.At(0)) }
func starting(c *capi.Cluster)    { c.Initialized = false }
func noControl(c *capi.Cluster)   { c.ControlPlane = capi.Reference{} }
func manyLabels(c *capi.Cluster)  { c.LabelsLeftOut = true }
func noSecret(s *capi.Secret)     { *s = capi.Secret{} }
func emptySecret(s *capi.Secret)  { s.HasKubeconfig = false }
func opaqueSecret(s *capi.Secret) { s.Type = "Opaque" }
func ofAnother(s *capi.Secret)    { s.Cluster = "west" }
func withoutLabel(s *capi.Secret) { s.Cluster = "" }
func ownerless(s *capi.Secret)    { s.Owners = nil }

func owner(group, kind, name string, uid types.UID) change {
	return secret(func(s *capi.Secret) {
		s.Owners = []capi.Owner{{Reference: capi.Reference{Group: group, Kind: kind, Name: name}, UID: uid}}
	})
}

// valid is a credential that was issued this long ago and ends this late.
func valid(since, left time.Duration) change {
	return secret(func(s *capi.Secret) {
		s.Validity = capi.Validity{From: rulestest.Noon().Add(-since), Until: rulestest.Noon().Add(left)}
	})
}

func TestDecide(t *testing.T) {
	const day = 24 * time.Hour
	tests := map[string]struct {
		in     capi.Input
		want   capi.Stage
		reason string
	}{
		"a new cluster whose control plane answers is registered":  {input(), capi.Creating, ""},
		"before, the hub waits":                                    {input(of(starting)), capi.Waiting, conditions.ReasonAwaitingControlPlane},
		"one that is not selected is not registered":               {input(notSelected), capi.Waiting, conditions.ReasonNotSelected},
		"nor one that is paused":                                   {input(of(paused)), capi.Waiting, conditions.ReasonClusterPaused},
		"nor one that is being moved":                              {input(of(forMove)), capi.Waiting, conditions.ReasonClusterPaused},
		"nor one that is being deleted":                            {input(of(deleted)), capi.Nothing, ""},
		"nor one without a Secret":                                 {input(secret(noSecret)), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"nor with an empty one":                                    {input(secret(emptySecret)), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"nor with one of another type":                             {input(secret(opaqueSecret)), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"nor with that of another cluster":                         {input(secret(ofAnother)), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"nor with one without the label":                           {input(secret(withoutLabel)), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"nor with one without an owner":                            {input(secret(ownerless)), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"nor with one of an earlier cluster of the name":           {input(owner("cluster.x-k8s.io", "Cluster", "east", "capi-0")), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"nor with one of another control plane":                    {input(owner("controlplane.cluster.x-k8s.io", "LabControlPlane", "west-cp", "cp-1")), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"nor of an object without a name, if there is none":        {input(of(noControl), owner("", "", "", "x")), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"the Cluster itself may own the Secret":                    {input(of(noControl), owner("cluster.x-k8s.io", "Cluster", "east", "capi-1")), capi.Creating, ""},
		"an import by hand stays, and is noted":                    {input(byHand(ws, "mine")), capi.ImportedByHand, conditions.ReasonImportedTwice},
		"also with the name of the cluster":                        {input(byHand(ws, "east")), capi.ImportedByHand, ""},
		"one of another namespace that only names it is ignored":   {input(byHand("team-b", "east")), capi.Creating, ""},
		"it is not believed that the cluster is the other one's":   {input(byHand("team-b", "east"), registered()), capi.Following, ""},
		"first, the cluster is asked which one it is":              {input(identity(capi.Identity{})), capi.Identifying, ""},
		"so are the imports of earlier releases":                   {input(unknown), capi.Identifying, ""},
		"unless it is the hub":                                     {input(unknown, identity(capi.Identity{Tried: true, IsHub: true})), capi.Waiting, conditions.ReasonIsTheHub},
		"or one of them is found":                                  {input(unknown, sameCluster(ws, "mine")), capi.ImportedByHand, conditions.ReasonImportedTwice},
		"but not without a valid Secret":                           {input(identity(capi.Identity{}), secret(opaqueSecret)), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"nor if a Cluster names the Secret":                        {input(identity(capi.Identity{}), byHand(ws, "mine")), capi.ImportedByHand, conditions.ReasonImportedTwice},
		"one that does not answer is left to the import":           {input(identity(capi.Identity{Tried: true})), capi.Creating, ""},
		"the hub's own cluster is not registered":                  {input(identity(capi.Identity{Tried: true, UID: "hub", IsHub: true})), capi.Waiting, conditions.ReasonIsTheHub},
		"an import with another Secret stays, and is noted":        {input(sameCluster(ws, "mine")), capi.ImportedByHand, conditions.ReasonImportedTwice},
		"also with the name of the cluster and another Secret":     {input(sameCluster(ws, "east")), capi.ImportedByHand, ""},
		"one of another namespace is neither noted nor imported":   {input(sameCluster("team-b", "east")), capi.Waiting, conditions.ReasonImportedTwice},
		"of both, the one of the namespace counts":                 {input(sameCluster("a", "a"), sameCluster(ws, "mine")), capi.ImportedByHand, conditions.ReasonImportedTwice},
		"one of another Cluster of Cluster API is not noted":       {input(sameCluster(ws, "west", marked)), capi.Waiting, conditions.ReasonImportedTwice},
		"of two, the first by name is noted":                       {input(byHand(ws, "b"), byHand(ws, "a")), capi.ImportedByHand, conditions.ReasonImportedTwice},
		"a Cluster of the name with another purpose stays":         {input(func(in *capi.Input) { in.Fleet = rulestest.ACluster(rulestest.ClusterNamed("east")) }), capi.Waiting, conditions.ReasonNameTaken},
		"until that is gone the hub waits":                         {input(func(in *capi.Input) { in.Fleet = rulestest.ACluster(rulestest.ClusterNamed("east"), going) }), capi.Nothing, ""},
		"a copy with the mark of another Cluster is not the hub's": {input(registered(func(c *fleet.Cluster) { c.Annotations[annotation.CAPICluster] = "team-b/east/capi-1" })), capi.ImportedByHand, ""},

		"a registered one is followed":                       {input(registered()), capi.Following, ""},
		"and reports that the control plane is new":          {input(registered(), of(starting)), capi.Following, conditions.ReasonAwaitingControlPlane},
		"or that its Secret is gone":                         {input(registered(), secret(noSecret)), capi.Following, conditions.ReasonKubeconfigMissing},
		"or that another Cluster names the Secret":           {input(registered(), byHand(ws, "mine")), capi.Following, conditions.ReasonImportedTwice},
		"it goes if the import finds out that it is the hub": {input(registered(importedAs(conditions.ReasonTargetIsHub))), capi.Deleting, conditions.ReasonIsTheHub},
		"or that it is another Cluster":                      {input(registered(importedAs(conditions.ReasonImportedTwice))), capi.Deleting, conditions.ReasonImportedTwice},
		"unless it has had an agent":                         {input(registered(deployed, importedAs(conditions.ReasonTargetIsHub))), capi.Following, conditions.ReasonIsTheHub},
		"which has reported":                                 {input(registered(heard, importedAs(conditions.ReasonImportedTwice))), capi.Following, conditions.ReasonImportedTwice},
		"it may be its own holder":                           {input(registered(deployed), sameCluster(ws, "east", marked)), capi.Deleting, ""},
		"another failure of the import is the import's":      {input(registered(importedAs(conditions.ReasonDownstreamUnreachable))), capi.Following, ""},
		"or that some labels are left out":                   {input(registered(), of(manyLabels)), capi.Following, conditions.ReasonLabelsLeftOut},
		"or that some variables are left out":                {input(registered(), of(func(c *capi.Cluster) { c.VariablesLeftOut = true })), capi.Following, conditions.ReasonVariablesLeftOut},
		"or that a ClusterGroup has the name of its class":   {input(registered(), func(in *capi.Input) { in.GroupTaken = true }), capi.Following, conditions.ReasonNameTaken},
		"a certificate for a year is good":                   {input(registered(), valid(0, 365*day)), capi.Following, ""},
		"until a day before its end":                         {input(registered(), valid(364*day, day)), capi.Following, conditions.ReasonKubeconfigExpiring},
		"one that has ended is reported, too":                {input(registered(), valid(366*day, -day)), capi.Following, conditions.ReasonKubeconfigExpiring},
		"one for an hour is good for three quarters of that": {input(registered(), valid(40*time.Minute, 20*time.Minute)), capi.Following, ""},
		"and then reported":                                  {input(registered(), valid(45*time.Minute, 15*time.Minute)), capi.Following, conditions.ReasonKubeconfigExpiring},

		"a paused one is kept":                                {input(registered(), of(paused)), capi.Keeping, conditions.ReasonClusterPaused},
		"also while it is deleted":                            {input(registered(), of(paused), of(deleted)), capi.Keeping, conditions.ReasonClusterPaused},
		"one that is moved is kept":                           {input(registered(), of(forMove), of(deleted)), capi.Keeping, conditions.ReasonClusterPaused},
		"one that is no longer selected is kept":              {input(registered(), notSelected, of(deleted)), capi.Keeping, conditions.ReasonNotSelected},
		"one that is selected again is followed again":        {input(registered(kept(conditions.ReasonNotSelected))), capi.Following, ""},
		"one that is deleted is deleted":                      {input(registered(), of(deleted)), capi.Deleting, ""},
		"once":                                                {input(registered(going), of(deleted)), capi.Nothing, ""},
		"one that was recreated makes room":                   {input(registered(), of(recreated)), capi.Deleting, ""},
		"and the hub waits for that":                          {input(registered(going), of(recreated)), capi.Nothing, ""},
		"one that was moved back is followed":                 {input(registered(kept(conditions.ReasonClusterPaused)), of(recreated)), capi.Following, ""},
		"one that is gone is deleted":                         {input(registered(), gone), capi.Deleting, ""},
		"also if its end was seen":                            {input(registered(), gone, last(deleted)), capi.Deleting, ""},
		"unless it was paused then":                           {input(registered(), gone, last(paused)), capi.Keeping, conditions.ReasonClusterPaused},
		"or moved":                                            {input(registered(), gone, last(forMove)), capi.Keeping, conditions.ReasonClusterPaused},
		"the end of an earlier one of the name says nothing":  {input(registered(), gone, last(paused), last(func(c *capi.Cluster) { c.UID, c.Paused = "capi-0", true })), capi.Deleting, ""},
		"what was kept stays kept":                            {input(registered(kept(conditions.ReasonClusterPaused)), gone), capi.Nothing, ""},
		"a Cluster of a user is not deleted":                  {input(byHand(ws, "east"), gone), capi.Nothing, ""},
		"nor a copy of a marked one with another name":        {input(registered(func(c *fleet.Cluster) { c.Name = "copy" }), gone), capi.Nothing, ""},
		"one that is gone with its Cluster needs nothing":     {input(gone), capi.Nothing, ""},
		"a Cluster of a user is not deleted with the cluster": {input(byHand(ws, "east"), of(deleted)), capi.Nothing, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := rulestest.Pure(t, capi.Decide, test.in)
			rulestest.ExpectEqual(t, "stage", got.Stage, test.want)
			rulestest.ExpectEqual(t, "reason", got.Reason, test.reason)
			if (got.Reason == "") != (got.Message == "") {
				t.Errorf("reason %q has message %q", got.Reason, got.Message)
			}
			if (got.ByHand != nil) != (got.Stage == capi.ImportedByHand) {
				t.Errorf("stage %s has Cluster %v", got.Stage, got.ByHand)
			}
		})
	}
}

func heard(c *fleet.Cluster) { c.Status.Agent.LastSeen = rulestest.At(0) }

// Users of a workspace do not learn the names of another one.
func TestImportedTwiceMessage_NamesNothingOfAnotherWorkspace(t *testing.T) {
	other := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "secret-team", Name: "secret-name"}}
	if message := capi.ImportedTwiceMessage(ws, other); strings.Contains(message, "secret-") {
		t.Error(message)
	}
	if message := capi.ImportedTwiceMessage("secret-team", other); !strings.Contains(message, "secret-team/secret-name") {
		t.Error(message)
	}
}

func importedAs(reason string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) {
		c.Status.Conditions = append(c.Status.Conditions, genericcondition.GenericCondition{
			Type: conditions.Imported, Status: corev1.ConditionFalse, Reason: reason, Message: "of the import",
		})
	}
}

func TestDecide_ReturnsWhenToWarn(t *testing.T) {
	for name, test := range map[string]struct {
		in   capi.Input
		want time.Duration
	}{
		"a year":             {input(registered(), valid(0, 8760*time.Hour)), 8736 * time.Hour},
		"an hour":            {input(registered(), valid(0, time.Hour)), 45 * time.Minute},
		"a known end only":   {input(registered(), secret(func(s *capi.Secret) { s.Validity.Until = rulestest.Noon().Add(25 * time.Hour) })), time.Hour},
		"an end before now":  {input(registered(), valid(2*time.Hour, -time.Hour)), 0},
		"an unknown end":     {input(registered()), 0},
		"not yet registered": {input(valid(0, time.Hour)), 0},
		"imported twice":     {input(registered(), sameCluster("team-b", "other")), time.Minute},
		"and an hour":        {input(registered(), sameCluster("team-b", "other"), valid(0, time.Hour)), time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			want := time.Time{}
			if test.want > 0 {
				want = rulestest.Noon().Add(test.want)
			}
			rulestest.ExpectEqual(t, "again", capi.Decide(test.in).Again, want)
		})
	}
}

func TestNewCluster(t *testing.T) {
	want := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ws, Name: "east", Labels: map[string]string{"env": "dev"},
			Annotations: map[string]string{annotation.CAPICluster: ws + "/east/capi-1", annotation.CAPILabels: "env"},
		},
		Spec: fleet.ClusterSpec{KubeConfigSecret: "east-kubeconfig", HostNetwork: rulestest.Ptr(true)},
	}
	got := capi.NewCluster(cluster())
	tolerated := map[string]bool{}
	for _, toleration := range got.Spec.AgentTolerations {
		tolerated[toleration.Key] = toleration.Operator == corev1.TolerationOpExists && toleration.Effect == corev1.TaintEffectNoSchedule
	}
	rulestest.ExpectEqual(t, "tolerated", tolerated, map[string]bool{
		"node-role.kubernetes.io/control-plane": true, "node.kubernetes.io/not-ready": true, "node.kubernetes.io/network-unavailable": true,
		"node.cloudprovider.kubernetes.io/uninitialized": true, "node.cluster.x-k8s.io/uninitialized": true,
	})
	got.Spec.AgentTolerations = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Cluster (-want +got):\n%s", diff)
	}
}

// What a user changes in the spec stays.
func TestFollow_ChangesNoSettingsOfTheAgent(t *testing.T) {
	c := capi.NewCluster(cluster())
	c.Spec.HostNetwork, c.Spec.AgentTolerations = nil, nil
	capi.Follow(c, cluster())
	if c.Spec.HostNetwork != nil || c.Spec.AgentTolerations != nil {
		t.Errorf("spec %+v", c.Spec)
	}
}

func TestFollow(t *testing.T) {
	type labels = map[string]string
	for name, test := range map[string]struct {
		found  labels
		copied string
		from   labels
		want   labels
		noted  string
	}{
		"a new label is copied":                 {labels{}, "", labels{"a": "1"}, labels{"a": "1"}, "a"},
		"a changed one follows":                 {labels{"a": "1"}, "a", labels{"a": "2"}, labels{"a": "2"}, "a"},
		"a removed one goes":                    {labels{"a": "1", "b": "1"}, "a,b", labels{"b": "1"}, labels{"b": "1"}, "b"},
		"one of a user stays":                   {labels{"own": "x"}, "", labels{"a": "1"}, labels{"own": "x", "a": "1"}, "a"},
		"also with the key of a label there":    {labels{"a": "mine"}, "", labels{"a": "1"}, labels{"a": "mine"}, ""},
		"one that a user removed is put back":   {labels{}, "a", labels{"a": "1"}, labels{"a": "1"}, "a"},
		"all go":                                {labels{"a": "1"}, "a", nil, labels{}, ""},
		"a note about a label that is not here": {labels{}, "x,,y", labels{}, labels{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Labels: test.found, Annotations: labels{
				annotation.CAPILabels: test.copied, annotation.CAPIKept: conditions.ReasonClusterPaused, "own": "y",
			}}}
			from := cluster()
			from.Labels = test.from
			capi.Follow(c, from)
			rulestest.ExpectEqual(t, "labels", c.Labels, test.want)
			want := labels{annotation.CAPICluster: ws + "/east/capi-1", "own": "y"}
			if test.noted != "" {
				want[annotation.CAPILabels] = test.noted
			}
			rulestest.ExpectEqual(t, "annotations", c.Annotations, want)
		})
	}
}

func TestAgentTakenBy_ReturnsOnlyAClusterOfClusterAPIWithTheSameAgent(t *testing.T) {
	one := func(name string, modifiers ...func(*fleet.Cluster)) *fleet.Cluster {
		return rulestest.Build(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: name}}, modifiers)
	}
	elsewhere := func(c *fleet.Cluster) { c.Spec.AgentNamespace = "elsewhere" }
	for name, test := range map[string]struct {
		cluster, holder *fleet.Cluster
		taken           bool
	}{
		"of Cluster API":                 {one("new"), one("east", marked), true},
		"both in a namespace":            {one("new", elsewhere), one("east", marked, elsewhere), true},
		"of a user":                      {one("new"), one("east"), false},
		"in another agent namespace":     {one("new", elsewhere), one("east", marked), false},
		"the cluster has an agent":       {one("new", deployed), one("east", marked), false},
		"the cluster has reported":       {one("new", heard), one("east", marked), false},
		"the holder's workspace differs": {one("new"), one("east", func(c *fleet.Cluster) { c.Namespace = "other" }, marked), false},
	} {
		if got := capi.AgentTakenBy(test.cluster, []*fleet.Cluster{test.holder}); (got != nil) != test.taken {
			t.Errorf("%s: %v", name, got)
		}
	}
}
