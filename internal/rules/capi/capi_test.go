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

// former has a Cluster of Fleet that was kept for an earlier cluster, whose UID is recorded. It has had an agent.
func former(recorded types.UID, modifiers ...func(*fleet.Cluster)) change {
	return func(in *capi.Input) {
		registered(append([]func(*fleet.Cluster){deployed, kept(conditions.ReasonClusterPaused)}, modifiers...)...)(in)
		in.Recorded = recorded
		recreated(in.Cluster)
	}
}

func neverDeployed(c *fleet.Cluster) { c.Status.AgentDeployedGeneration = nil }
func withManifest(c *fleet.Cluster)  { c.Annotations[annotation.CAPIJoin] = "agent" }

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
		"control plane answers: registered":                                  {input(), capi.Creating, ""},
		"control plane does not answer yet: waits":                           {input(of(starting)), capi.Waiting, conditions.ReasonAwaitingControlPlane},
		"not selected: waits":                                                {input(notSelected), capi.Waiting, conditions.ReasonNotSelected},
		"paused: waits":                                                      {input(of(paused)), capi.Waiting, conditions.ReasonClusterPaused},
		"being moved: waits":                                                 {input(of(forMove)), capi.Waiting, conditions.ReasonClusterPaused},
		"being deleted: nothing":                                             {input(of(deleted)), capi.Nothing, ""},
		"no Secret: waits":                                                   {input(secret(noSecret)), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"empty Secret: waits":                                                {input(secret(emptySecret)), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"Secret of another type: waits":                                      {input(secret(opaqueSecret)), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"Secret of another cluster: waits":                                   {input(secret(ofAnother)), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"Secret without the label: waits":                                    {input(secret(withoutLabel)), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"Secret without an owner: waits":                                     {input(secret(ownerless)), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"Secret of an earlier cluster of the name: waits":                    {input(owner("cluster.x-k8s.io", "Cluster", "east", "capi-0")), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"Secret of another control plane: waits":                             {input(owner("controlplane.cluster.x-k8s.io", "LabControlPlane", "west-cp", "cp-1")), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"Secret of an owner without a name, no control plane: waits":         {input(of(noControl), owner("", "", "", "x")), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"Secret owned by the Cluster itself: registered":                     {input(of(noControl), owner("cluster.x-k8s.io", "Cluster", "east", "capi-1")), capi.Creating, ""},
		"imported by hand: stays, and is noted":                              {input(byHand(ws, "mine")), capi.ImportedByHand, conditions.ReasonImportedTwice},
		"imported by hand with the name of the cluster: stays":               {input(byHand(ws, "east")), capi.ImportedByHand, ""},
		"import of another namespace that names the Secret: ignored":         {input(byHand("team-b", "east")), capi.Creating, ""},
		"registered, import of another namespace names the Secret: followed": {input(byHand("team-b", "east"), registered()), capi.Following, ""},
		"unknown identity: the cluster is asked":                             {input(identity(capi.Identity{})), capi.Identifying, ""},
		"import of an earlier release without identity: it is asked":         {input(unknown), capi.Identifying, ""},
		"import of an earlier release, cluster is the hub: waits":            {input(unknown, identity(capi.Identity{Tried: true, IsHub: true})), capi.Waiting, conditions.ReasonIsTheHub},
		"import of an earlier release, same cluster: noted":                  {input(unknown, sameCluster(ws, "mine")), capi.ImportedByHand, conditions.ReasonImportedTwice},
		"unknown identity, invalid Secret: waits":                            {input(identity(capi.Identity{}), secret(opaqueSecret)), capi.Waiting, conditions.ReasonKubeconfigMissing},
		"unknown identity, a Cluster names the Secret: noted":                {input(identity(capi.Identity{}), byHand(ws, "mine")), capi.ImportedByHand, conditions.ReasonImportedTwice},
		"cluster does not answer: registered, the import reports it":         {input(identity(capi.Identity{Tried: true})), capi.Creating, ""},
		"cluster is the hub: waits":                                          {input(identity(capi.Identity{Tried: true, UID: "hub", IsHub: true})), capi.Waiting, conditions.ReasonIsTheHub},
		"same cluster with another Secret: stays, and is noted":              {input(sameCluster(ws, "mine")), capi.ImportedByHand, conditions.ReasonImportedTwice},
		"same cluster with the same name and another Secret: stays":          {input(sameCluster(ws, "east")), capi.ImportedByHand, ""},
		"same cluster in another namespace: waits":                           {input(sameCluster("team-b", "east")), capi.Waiting, conditions.ReasonImportedTwice},
		"same cluster in this and another namespace: this one is noted":      {input(sameCluster("a", "a"), sameCluster(ws, "mine")), capi.ImportedByHand, conditions.ReasonImportedTwice},
		"same cluster of another Cluster API Cluster: waits":                 {input(sameCluster(ws, "west", marked)), capi.Waiting, conditions.ReasonImportedTwice},
		"two imports by hand: the first by name is noted":                    {input(byHand(ws, "b"), byHand(ws, "a")), capi.ImportedByHand, conditions.ReasonImportedTwice},
		"name is taken by a Cluster of a user: waits":                        {input(func(in *capi.Input) { in.Fleet = rulestest.ACluster(rulestest.ClusterNamed("east")) }), capi.Waiting, conditions.ReasonNameTaken},
		"name is taken by a Cluster being deleted: nothing":                  {input(func(in *capi.Input) { in.Fleet = rulestest.ACluster(rulestest.ClusterNamed("east"), going) }), capi.Nothing, ""},
		"copy with the mark of another Cluster: imported by hand":            {input(registered(func(c *fleet.Cluster) { c.Annotations[annotation.CAPICluster] = "team-b/east/capi-1" })), capi.ImportedByHand, ""},

		"registered: followed":                                   {input(registered()), capi.Following, ""},
		"registered, control plane does not answer: reported":    {input(registered(), of(starting)), capi.Following, conditions.ReasonAwaitingControlPlane},
		"registered, Secret is missing: reported":                {input(registered(), secret(noSecret)), capi.Following, conditions.ReasonKubeconfigMissing},
		"registered, another Cluster names the Secret: reported": {input(registered(), byHand(ws, "mine")), capi.Following, conditions.ReasonImportedTwice},
		"registered, import reports that it is the hub: deleted": {input(registered(importedAs(conditions.ReasonTargetIsHub))), capi.Deleting, conditions.ReasonIsTheHub},
		"registered, import reports another Cluster: deleted":    {input(registered(importedAs(conditions.ReasonImportedTwice))), capi.Deleting, conditions.ReasonImportedTwice},
		"registered and deployed, it is the hub: stays":          {input(registered(deployed, importedAs(conditions.ReasonTargetIsHub))), capi.Following, conditions.ReasonIsTheHub},
		"registered and reported, imported twice: stays":         {input(registered(heard, importedAs(conditions.ReasonImportedTwice))), capi.Following, conditions.ReasonImportedTwice},
		"registered, same identity in its own Cluster: deleted":  {input(registered(deployed), sameCluster(ws, "east", marked)), capi.Deleting, ""},
		"registered, import fails otherwise: followed":           {input(registered(importedAs(conditions.ReasonDownstreamUnreachable))), capi.Following, ""},
		"registered, too many labels: reported":                  {input(registered(), of(manyLabels)), capi.Following, conditions.ReasonLabelsLeftOut},
		"registered, variables left out: reported":               {input(registered(), of(func(c *capi.Cluster) { c.VariablesLeftOut = true })), capi.Following, conditions.ReasonVariablesLeftOut},
		"registered, name of the class is taken: reported":       {input(registered(), func(in *capi.Input) { in.GroupTaken = true }), capi.Following, conditions.ReasonNameTaken},
		"new certificate for a year: no warning":                 {input(registered(), valid(0, 365*day)), capi.Following, ""},
		"certificate for a year, a day left: reported":           {input(registered(), valid(364*day, day)), capi.Following, conditions.ReasonKubeconfigExpiring},
		"expired certificate: reported":                          {input(registered(), valid(366*day, -day)), capi.Following, conditions.ReasonKubeconfigExpiring},
		"certificate for an hour, 20 minutes left: no warning":   {input(registered(), valid(40*time.Minute, 20*time.Minute)), capi.Following, ""},
		"certificate for an hour, 15 minutes left: reported":     {input(registered(), valid(45*time.Minute, 15*time.Minute)), capi.Following, conditions.ReasonKubeconfigExpiring},

		"registered, paused: kept":                                       {input(registered(), of(paused)), capi.Keeping, conditions.ReasonClusterPaused},
		"registered, paused and being deleted: kept":                     {input(registered(), of(paused), of(deleted)), capi.Keeping, conditions.ReasonClusterPaused},
		"registered, being moved: kept":                                  {input(registered(), of(forMove), of(deleted)), capi.Keeping, conditions.ReasonClusterPaused},
		"registered, no longer selected: kept":                           {input(registered(), notSelected, of(deleted)), capi.Keeping, conditions.ReasonNotSelected},
		"kept, selected again: followed":                                 {input(registered(kept(conditions.ReasonNotSelected))), capi.Following, ""},
		"registered, being deleted: deleted":                             {input(registered(), of(deleted)), capi.Deleting, ""},
		"registered, being deleted, deletion requested: nothing":         {input(registered(going), of(deleted)), capi.Nothing, ""},
		"registered, cluster was recreated: deleted":                     {input(registered(), of(recreated)), capi.Deleting, ""},
		"registered, cluster was recreated, deletion requested: nothing": {input(registered(going), of(recreated)), capi.Nothing, ""},
		"kept, cluster was moved back: followed":                         {input(former("system-1")), capi.Following, ""},
		"kept, another cluster of the name: kept and reported":           {input(former("system-0")), capi.Keeping, conditions.ReasonNameTaken},
		"kept, another one, no agent ever: deleted":                      {input(former("", neverDeployed)), capi.Deleting, ""},
		"kept, another one, joined with a manifest: kept and reported":   {input(former("", neverDeployed, withManifest)), capi.Keeping, conditions.ReasonNameTaken},
		"kept, another one, nothing is recorded: kept and reported":      {input(former("")), capi.Keeping, conditions.ReasonNameTaken},
		"kept, another one, control plane starts: kept":                  {input(former("system-0"), of(starting)), capi.Keeping, conditions.ReasonAwaitingControlPlane},
		"kept, another one, no Secret: kept":                             {input(former("system-0"), secret(noSecret)), capi.Keeping, conditions.ReasonKubeconfigMissing},
		"kept, another one, not asked: asked":                            {input(former("system-0"), identity(capi.Identity{})), capi.Identifying, ""},
		"kept, another one, no answer: kept and reported":                {input(former("system-0"), identity(capi.Identity{Tried: true, At: rulestest.Noon()})), capi.Keeping, conditions.ReasonNameTaken},
		"kept, another one, no answer ten minutes ago: asked":            {input(former("system-0"), identity(capi.Identity{Tried: true, At: rulestest.Noon().Add(-10 * time.Minute)})), capi.Identifying, ""},
		"kept, another one, being deleted: nothing":                      {input(former("system-0"), of(deleted)), capi.Nothing, ""},
		"kept, another one, paused: waits":                               {input(former("system-0"), of(paused)), capi.Waiting, conditions.ReasonClusterPaused},
		"kept, another one, not selected: waits":                         {input(former("system-0"), notSelected), capi.Waiting, conditions.ReasonNotSelected},
		"kept, another one, deletion requested: nothing":                 {input(former("system-0", going)), capi.Nothing, ""},
		"registered, cluster is gone: deleted":                           {input(registered(), gone), capi.Deleting, ""},
		"registered, cluster is gone after its deletion: deleted":        {input(registered(), gone, last(deleted)), capi.Deleting, ""},
		"registered, cluster is gone after a pause: kept":                {input(registered(), gone, last(paused)), capi.Keeping, conditions.ReasonClusterPaused},
		"registered, cluster is gone after a move: kept":                 {input(registered(), gone, last(forMove)), capi.Keeping, conditions.ReasonClusterPaused},
		"registered, an earlier cluster of the name was paused: deleted": {input(registered(), gone, last(paused), last(func(c *capi.Cluster) { c.UID, c.Paused = "capi-0", true })), capi.Deleting, ""},
		"not selected, cluster is gone: kept":                            {input(registered(kept(conditions.ReasonNotSelected)), gone), capi.Keeping, conditions.ReasonNotSelected},
		"kept, cluster is gone: nothing":                                 {input(registered(kept(conditions.ReasonClusterPaused)), gone), capi.Nothing, ""},
		"Cluster of a user, cluster is gone: nothing":                    {input(byHand(ws, "east"), gone), capi.Nothing, ""},
		"copy with another name, cluster is gone: nothing":               {input(registered(func(c *fleet.Cluster) { c.Name = "copy" }), gone), capi.Nothing, ""},
		"no Cluster, cluster is gone: nothing":                           {input(gone), capi.Nothing, ""},
		"Cluster of a user, cluster is being deleted: nothing":           {input(byHand(ws, "east"), of(deleted)), capi.Nothing, ""},
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

func TestRefusedCluster_IsCreatedAgainEverMoreRarely(t *testing.T) {
	for times, wait := range []time.Duration{1: time.Minute, 2: 2 * time.Minute, 4: 8 * time.Minute, 5: 10 * time.Minute, 1000: 10 * time.Minute} {
		if wait == 0 {
			continue
		}
		in := input()
		in.Refusal = capi.Refusal{Reason: conditions.ReasonIsTheHub, Message: "m", At: in.Now, Times: times}
		want := capi.Outcome{Stage: capi.Waiting, Reason: conditions.ReasonIsTheHub, Message: "m", Again: in.Now.Add(wait)}
		if got := capi.Decide(in); got != want {
			t.Errorf("after %d refusals: %+v, want %+v", times, got, want)
		}
		in.Now = want.Again
		if got := capi.Decide(in); got.Stage != capi.Creating {
			t.Errorf("after %d refusals and %s: %+v, want %s", times, wait, got, capi.Creating)
		}
	}
}

// A minute stays between two attempts, also if the kubeconfig changes all the time.
func TestRefusedCluster_WithAnotherKubeconfig_IsCreatedAMinuteAfterTheRefusal(t *testing.T) {
	in := input()
	in.Refusal = capi.Refusal{Reason: conditions.ReasonIsTheHub, Message: "m", At: in.Now, Times: 9, Renewed: true}
	in.Now = in.Now.Add(time.Minute - 1)
	want := capi.Outcome{Stage: capi.Waiting, Reason: conditions.ReasonIsTheHub, Message: "m", Again: in.Now.Add(1)}
	if got := capi.Decide(in); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	in.Now = want.Again
	if got := capi.Decide(in); got.Stage != capi.Creating {
		t.Errorf("after a minute: %+v, want %s", got, capi.Creating)
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
		"a new label is copied":                     {labels{}, "", labels{"a": "1"}, labels{"a": "1"}, "a"},
		"a changed label is copied":                 {labels{"a": "1"}, "a", labels{"a": "2"}, labels{"a": "2"}, "a"},
		"a removed label is removed":                {labels{"a": "1", "b": "1"}, "a,b", labels{"b": "1"}, labels{"b": "1"}, "b"},
		"a label of a user stays":                   {labels{"own": "x"}, "", labels{"a": "1"}, labels{"own": "x", "a": "1"}, "a"},
		"a label of a user with the same key stays": {labels{"a": "mine"}, "", labels{"a": "1"}, labels{"a": "mine"}, ""},
		"a label that a user removed is restored":   {labels{}, "a", labels{"a": "1"}, labels{"a": "1"}, "a"},
		"all labels are removed":                    {labels{"a": "1"}, "a", nil, labels{}, ""},
		"a record of labels that do not exist":      {labels{}, "x,,y", labels{}, labels{}, ""},
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
