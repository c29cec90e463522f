package grant_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestGrant(t *testing.T) {
	forever := rulestest.BoundJWT("account-1", rulestest.Noon().Add(protocol.TokenLifetime))
	type mod = func(*grant.Input)
	// rightful is a request whose Cluster, account and rights are there.
	rightful := func(more ...mod) grant.Input {
		return grantInput(append([]mod{found(), asked, requestAccount, requestRights}, more...)...)
	}
	// granted is one that was granted and is its Cluster's.
	granted := func(more ...mod) grant.Input {
		return rightful(append([]mod{with(requestGranted), named()}, more...)...)
	}
	tests := map[string]struct {
		in   grant.Input
		want grant.Stage
	}{
		// The Cluster.
		"a client the hub has not met gets a Cluster":             {grantInput(), grant.AwaitingCluster},
		"a client whose Cluster was made beforehand gets that":    {grantInput(found(rulestest.ClusterWithoutNamespace)), grant.AwaitingNamespace},
		"a Cluster of the derived name and client ID is the one":  {grantInput(derived(rulestest.ClusterWithoutNamespace)), grant.AwaitingNamespace},
		"a Cluster of the derived name and another client is not": {grantInput(derived(rulestest.ClusterClient("c2"))), grant.Rejected},
		"a client whose Cluster has another name gets it anyway":  {grantInput(derived(rulestest.ClusterClient("c2")), found()), grant.AwaitingRights},
		"a request without a client ID is rejected":               {grantInput(with(requestClient(""))), grant.Rejected},
		"no Cluster without a client ID is handed to one without": {grantInput(with(requestClient("")), found(rulestest.ClusterClient(""))), grant.Rejected},
		"while it waits a request may change its Cluster":         {grantInput(with(requestOf("east")), named(rulestest.ClusterClient("c2"))), grant.AwaitingCluster},
		"while it waits a request's Cluster may go":               {grantInput(with(requestOf("east"))), grant.AwaitingCluster},

		// The owner.
		"the Cluster becomes the request's owner":          {grantInput(found()), grant.AwaitingRights},
		"it becomes the only owner":                        {grantInput(found(), with(requestOwned("east", "cluster-uid"), requestOwned("west", "west-uid"), requestNoted(""))), grant.AwaitingRights},
		"it takes the place of another owner":              {grantInput(found(), with(requestOwned("west", "west-uid"))), grant.AwaitingRights},
		"the heartbeat before the grant is noted":          {grantInput(found(rulestest.ClusterSeen(rulestest.At(-time.Minute)))), grant.AwaitingRights},
		"until the credential is written it is noted anew": {grantInput(found(rulestest.ClusterSeen(rulestest.At(-time.Minute))), with(requestNoted("2026-07-01T00:00:00Z"))), grant.AwaitingRights},
		"from then on it stays as it was": {rightful(with(requestNoted("2026-07-01T00:00:00Z")), credential(forever), func(in *grant.Input) {
			in.Clusters = []*fleet.Cluster{rulestest.ACluster(rulestest.ClusterSeen(rulestest.At(-time.Minute)))}
		}), grant.Done},
		"an owner without a note gets one": {grantInput(found(), with(requestOwned("east", "cluster-uid"))), grant.AwaitingRights},
		"owner and note are written once":  {grantInput(found(), with(requestOwned("east", "cluster-uid"), requestNoted(""))), grant.AwaitingRights},

		// The rights and the credential.
		"an account without rights waits for them":            {grantInput(found(), requestAccount), grant.AwaitingRights},
		"meanwhile the credential to come is made readable":   {grantInput(found(), asked), grant.AwaitingRights},
		"rights without their account wait for it":            {grantInput(found(), requestRights), grant.AwaitingRights},
		"with account and rights a credential is made":        {rightful(), grant.Minting},
		"a credential that works is all there is":             {rightful(credential(forever)), grant.Done},
		"a credential that the agent cannot read is reported": {rightful(nobodyAsked, with(requestNoted(""))), grant.Minting},
		"and stays told":                                 {granted(credential(forever), nobodyAsked, with(requestGranted, requestNoted(""))), grant.Done},
		"but not once it was used":                       {granted(credential(forever), nobodyAsked, with(requestGranted, requestNoted("")), named(rulestest.ClusterSeen(rulestest.At(-time.Minute)))), grant.Done},
		"nor if the import's token may read it":          {rightful(nobodyAsked, imported, with(requestNoted(""))), grant.Minting},
		"of what others have granted nobody knows":       {granted(credential(forever), nobodyAsked), grant.Done},
		"the token of a token secret works too":          {rightful(credential(rulestest.SecretJWT("account-1"))), grant.Done},
		"rights that went are healed after the grant":    {granted(func(in *grant.Input) { in.RightsExist = false }), grant.AwaitingRights},
		"an account that went is healed after the grant": {granted(func(in *grant.Input) { in.Account = nil }), grant.AwaitingRights},
		"the heartbeat before that is noted anew":        {granted(func(in *grant.Input) { in.Account = nil }, with(requestGranted, requestNoted("")), named(rulestest.ClusterSeen(rulestest.At(-time.Minute)))), grant.AwaitingRights},
		"its agent is told to register until it is heard of": {
			granted(credential(forever), with(requestGranted, requestNoted(""), requestSaid(conditions.ReasonAccountReplaced))), grant.Done},
		"also while its credential is made anew": {
			granted(with(requestGranted, requestNoted(""), requestSaid(conditions.ReasonAccountReplaced))), grant.Minting},
		"once it is heard of nothing is wrong": {
			granted(credential(forever), with(requestGranted, requestNoted(""), requestSaid(conditions.ReasonAccountReplaced)), named(rulestest.ClusterSeen(rulestest.At(-time.Minute)))), grant.Done},
		"an answer waits until it can be read":            {rightful(func(in *grant.Input) { in.ReaderExists = false }), grant.AwaitingRights},
		"but not for a reader that there will never be":   {rightful(nobodyAsked, func(in *grant.Input) { in.ReaderExists = false }), grant.Minting},
		"who may read is healed as long as there is what": {granted(credential(forever), func(in *grant.Input) { in.ReaderExists = false }), grant.Done},
		"but no longer": {granted(credential(forever), func(in *grant.Input) {
			in.Credential.CreationTimestamp = rulestest.At(-grant.CredentialLife)
		}), grant.Done},

		// Another workspace has a request of the same name.
		"what is shared is named after the workspace where an older one has it": {rightful(asked, requestNamesake("team-b", -time.Hour)), grant.Minting},
		"the older one keeps the name":                                          {rightful(asked, requestNamesake("team-b", time.Hour)), grant.Minting},

		// Lost credentials.
		"a credential that was lost before its time is made again": {granted(), grant.Minting},
		"in the second of its end it is still made again":          {granted(later(grant.CredentialLife - 30*time.Second)), grant.Minting},
		"after its time it is not":                                 {granted(later(grant.CredentialLife)), grant.Done},
		"a request that waited longer than that is still answered": {rightful(later(24 * time.Hour)), grant.Minting},
		"a credential of an account that was made anew is renewed": {granted(credential(rulestest.BoundJWT("account-0", time.Time{}))), grant.Minting},
		"a credential whose token has ended is renewed":            {granted(credential(rulestest.BoundJWT("account-1", rulestest.Noon()))), grant.Minting},
		"a credential with no token is filled":                     {granted(credential("")), grant.Minting},
		"a credential with a text for a token is renewed":          {granted(credential("letmein")), grant.Minting},
		"a credential without its other keys is renewed":           {granted(credential(forever), func(in *grant.Input) { delete(in.Credential.Data, "clusterName") }), grant.Minting},
		"a broken credential is renewed after its time, too":       {granted(credential("letmein"), later(24*time.Hour)), grant.Minting},

		// One credential, one request.
		"a credential that answers another request is not touched": {rightful(answering("request-2", rulestest.Workspace)), grant.Rejected},
		"nor one of a request of this name in another workspace":   {rightful(answering("request-1", "fleet-local")), grant.Rejected},
		"one that does not say whom it answers is this one's":      {rightful(credential(forever), answering("", "")), grant.Done},
		"what was granted is not taken away by whoever asks alike": {granted(answering("request-2", rulestest.Workspace)), grant.Done},

		// Leaving.
		"a request that goes leaves":                       {granted(credential(forever), with(requestGranted, requestGoing)), grant.Leaving},
		"so does one that was never granted":               {grantInput(with(requestGoing)), grant.Leaving},
		"a Cluster that goes takes its requests along":     {granted(named(rulestest.ClusterGoing)), grant.Leaving},
		"a request for a Cluster that goes is not granted": {rightful(func(in *grant.Input) { rulestest.ClusterGoing(in.Clusters[0]) }), grant.Leaving},
		"a Cluster that is gone takes its requests along":  {granted(func(in *grant.Input) { in.Named = nil }), grant.Leaving},
		"also when another Cluster has the client ID by now": {granted(func(in *grant.Input) {
			in.Named = nil
			in.Clusters = []*fleet.Cluster{rulestest.ACluster(rulestest.ClusterNamed("west"))}
		}), grant.Leaving},
		"a Cluster made anew under the name does not inherit": {granted(named(rulestest.ClusterUID("another-uid"))), grant.Leaving},
		"nor does one with another client ID":                 {granted(named(rulestest.ClusterUID("another-uid"), rulestest.ClusterClient("c2"))), grant.Leaving},

		"a request that was owned by a Cluster that is gone gets no other": {grantInput(with(requestOwned("east", "cluster-uid"))), grant.Leaving},
		"it is not deleted before it ends":                                 {grantInput(with(requestOwned("east", "cluster-uid")), later(grant.CredentialLife-2*time.Minute)), grant.Leaving},
		"and then deleted, because its owner may be of an unknown kind":    {grantInput(with(requestOwned("east", "cluster-uid")), later(grant.CredentialLife)), grant.Abandoned},
		"one that has another owner gets its Cluster":                      {grantInput(with(requestOfTeam)), grant.AwaitingCluster},

		// What nobody waits for any more.
		"one of a Cluster that is gone, which nothing takes along, is deleted": {granted(with(func(r *fleet.ClusterRegistration) { r.Status.Granted, r.Status.ClusterName = true, "east" }), func(in *grant.Input) { in.Named, in.Clusters = nil, nil }), grant.Abandoned},
		"one that waited too long for a Cluster that is gone is deleted":       {grantInput(with(requestOf("east")), later(grant.CredentialLife)), grant.Abandoned},
		"one that names no Cluster is kept however old it is":                  {grantInput(later(1000 * time.Hour)), grant.AwaitingCluster},
		"a rejection is kept for a day":                                        {grantInput(with(requestClient("")), later(24*time.Hour-time.Minute)), grant.Rejected},
		"and then deleted":                                                     {grantInput(with(requestClient("")), later(24*time.Hour)), grant.Abandoned},
		"but not what was granted":                                             {granted(with(requestGranted, requestClient("")), named(rulestest.ClusterClient("")), later(240*time.Hour)), grant.Rejected},

		// Requests with the token of an import.
		"one that comes after its Cluster has gone is abandoned":               {grantInput(askedWith("import-token-east")), grant.Abandoned},
		"also while the token is still there":                                  {grantInput(askedWith("import-token-east"), askedBy(tokenOfImport)), grant.Abandoned},
		"whatever the token of an import is called":                            {grantInput(askedBy(tokenOfImport)), grant.Abandoned},
		"a user's token may be called like an import's":                        {grantInput(askedWith("import-token-mine"), askedBy()), grant.AwaitingCluster},
		"a token that a user has deleted leads to a Cluster all the same":      {grantInput(askedWith("t2")), grant.AwaitingCluster},
		"a request that names no token does so, too":                           {grantInput(askedWith("")), grant.AwaitingCluster},
		"another client of an import whose Cluster is there is one of its own": {grantInput(askedWith("import-token-east"), askedBy(tokenOfImport), importer()), grant.AwaitingCluster},
		"also when the token is gone meanwhile":                                {grantInput(askedWith("import-token-east"), importer()), grant.AwaitingCluster},
		"a Cluster made anew under the name is not its importer":               {grantInput(askedWith("import-token-east"), askedBy(tokenOfImport), importer(rulestest.ClusterUID("another-uid"))), grant.Abandoned},
		"one in time is answered":                                              {rightful(askedWith("import-token-east"), askedBy(tokenOfImport)), grant.Minting},
		"one in time waits for its Cluster's namespace":                        {grantInput(askedWith("import-token-east"), found(rulestest.ClusterWithoutNamespace)), grant.AwaitingNamespace},

		// What was granted stays granted.
		"a granted request stays where it is if the Cluster's client ID changes": {granted(credential(forever), named(rulestest.ClusterClient("c2")), func(in *grant.Input) { in.Clusters = nil }), grant.Done},
		"one granted before there were notes is left as it is":                   {granted(credential(forever), later(24*time.Hour)), grant.Done},
		"one that lost its owner gets it back":                                   {granted(credential(forever), with(requestGranted, func(r *fleet.ClusterRegistration) { r.OwnerReferences = nil })), grant.Done},
		"a Cluster that lost its status does not cost the rights":                {granted(named(rulestest.ClusterWithoutNamespace)), grant.AwaitingNamespace},
	}
	golden := rulestest.GoldenOf(t, "grant")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := rulestest.Pure(t, grant.Decide, test.in)
			rulestest.ExpectEqual(t, "stage", got.Stage, test.want)
			golden.Expect(t, name, rulestest.YAML(t, got))
			checkGrantOutcome(t, test.in, got)
		})
	}
}

// checkGrantOutcome holds for every request.
func checkGrantOutcome(t *testing.T, in grant.Input, out grant.Outcome) {
	t.Helper()
	switch out.Stage {
	case grant.Leaving, grant.Abandoned, grant.Rejected, grant.TakeoverPending:
		if len(out.Children) != 0 || out.Mint != nil || out.Reader != nil {
			t.Errorf("rights in stage %s", out.Stage)
		}
	case grant.AwaitingCluster, grant.AwaitingNamespace:
		if len(out.Children) != 0 || out.Mint != nil {
			t.Errorf("rights of an agent in stage %s", out.Stage)
		}
	default:
		if len(out.Children) != 4 {
			t.Errorf("%d children in stage %s: the set only grows", len(out.Children), out.Stage)
		}
	}
	if (out.Mint != nil) != (out.Stage == grant.Minting) {
		t.Error("a bearer token is asked for in stage Minting and in no other")
	}
	early := (out.Stage == grant.AwaitingCluster || out.Stage == grant.AwaitingNamespace || out.Stage == grant.AwaitingRights) && !in.Request.Status.Granted
	if out.Reader != nil && out.Mint == nil && !early && in.Credential == nil {
		t.Error("a credential is made readable that nobody is going to write")
	}
	if (out.CreateCluster != nil) != (out.Stage == grant.AwaitingCluster) {
		t.Error("a Cluster is created in stage AwaitingCluster and in no other")
	}
	if in.Request.Status.Granted && !out.Granted && out.Stage != grant.Abandoned && out.Stage != grant.Rejected {
		t.Error("what was granted is not granted any more")
	}
	waitsInVain := out.Stage == grant.Rejected || out.Stage == grant.TakeoverPending
	hasNoCluster := out.Stage == grant.Leaving && len(in.Clusters) == 0 && !in.Request.Status.Granted && in.Request.DeletionTimestamp == nil
	if (waitsInVain || hasNoCluster) != !out.Ends.IsZero() || waitsInVain && out.Reason == "" || (out.Reason == "") != (out.Message == "") {
		t.Error("what waits in vain has a reason, says what to do, and comes to an end")
	}
}

// Two requests of one client, whatever the order in which the Clusters are found, get the same Cluster.
func TestGrantPicksOneCluster(t *testing.T) {
	tests := map[string]struct {
		derived  *fleet.Cluster
		clusters []*fleet.Cluster
		want     string
	}{
		"the oldest": {
			clusters: []*fleet.Cluster{rulestest.ACluster(rulestest.ClusterNamed("b"), rulestest.ClusterMadeAt(rulestest.At(-2*time.Hour))), rulestest.ACluster(rulestest.ClusterNamed("a"), rulestest.ClusterMadeAt(rulestest.At(-time.Hour)))},
			want:     "b",
		},
		"of the same age the first by name": {
			clusters: []*fleet.Cluster{rulestest.ACluster(rulestest.ClusterNamed("c")), rulestest.ACluster(rulestest.ClusterNamed("a")), rulestest.ACluster(rulestest.ClusterNamed("b"))},
			want:     "a",
		},
		"one made beforehand, rather than one made for the client later": {
			derived:  rulestest.ACluster(rulestest.ClusterNamed(derivedName), rulestest.ClusterMadeAt(rulestest.At(-time.Minute))),
			clusters: []*fleet.Cluster{rulestest.ACluster(rulestest.ClusterNamed("z"))},
			want:     "z",
		},
		"one that stays, rather than an older one that goes": {
			clusters: []*fleet.Cluster{rulestest.ACluster(rulestest.ClusterNamed("a"), rulestest.ClusterMadeAt(rulestest.At(-2*time.Hour)), rulestest.ClusterGoing), rulestest.ACluster(rulestest.ClusterNamed("b"))},
			want:     "b",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rulestest.Permute(test.clusters, func(clusters []*fleet.Cluster) {
				in := grantInput(func(in *grant.Input) { in.Clusters, in.Derived = clusters, test.derived })
				rulestest.ExpectEqual(t, "cluster", rulestest.Pure(t, grant.Decide, in).ClusterName, test.want)
			})
		})
	}
}

func TestGrantNewCluster(t *testing.T) {
	tests := map[string]struct {
		proposed map[string]string
		ignore   bool
		want     map[string]string
	}{
		"a new Cluster carries the agent's labels and its own name": {
			proposed: map[string]string{"env": "dev", "example.com/zone": ""},
			want:     map[string]string{"env": "dev", "example.com/zone": "", fleet.LabelCluster: derivedName},
		},
		"an agent without labels gives none": {want: map[string]string{fleet.LabelCluster: derivedName}},
		"labels of the managers are dropped": {
			proposed: map[string]string{"management.cattle.io/cluster-name": "c-abc", "fleet.cattle.io/managed": "true", "fleet.cattle.io/cluster-management": "x", "env": "dev"},
			want:     map[string]string{"env": "dev", fleet.LabelCluster: derivedName},
		},
		"the name of the agent's pod is kept": {
			proposed: map[string]string{fleet.LabelCreatedByAgentPod: "fleet-agent-0"},
			want:     map[string]string{fleet.LabelCreatedByAgentPod: "fleet-agent-0", fleet.LabelCluster: derivedName},
		},
		"nobody gives a Cluster another's name": {
			proposed: map[string]string{fleet.LabelCluster: "somebody-else"},
			want:     map[string]string{fleet.LabelCluster: derivedName},
		},
		"what is no label does not keep the Cluster from being made": {
			proposed: map[string]string{"a b": "x", "": "x", "long": strings.Repeat("x", 64), "place": "Zürich", "ok": "x"},
			want:     map[string]string{"ok": "x", fleet.LabelCluster: derivedName},
		},
		"where labels are ignored, all of them are": {
			proposed: map[string]string{"env": "dev", fleet.LabelCreatedByAgentPod: "fleet-agent-0"}, ignore: true,
			want: map[string]string{fleet.LabelCluster: derivedName},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := rulestest.Pure(t, grant.Decide, grantInput(with(requestLabels(test.proposed)), func(in *grant.Input) { in.IgnoreLabels = test.ignore }))
			want := &fleet.Cluster{Spec: fleet.ClusterSpec{ClientID: "c1"}}
			want.APIVersion, want.Kind = "fleet.cattle.io/v1alpha1", "Cluster"
			want.Namespace, want.Name, want.Labels = rulestest.Workspace, derivedName, test.want
			want.Finalizers = []string{fleet.FinalizerCluster}
			want.Annotations = map[string]string{annotation.CreatedWithToken: "unknown"}
			rulestest.ExpectEqual(t, "cluster", got.CreateCluster, want)
		})
	}
	rulestest.ExpectEqual(t, "the name given by a client ID", names.Cluster("c1"), derivedName)
}

func TestGrantObjects(t *testing.T) {
	golden := rulestest.GoldenOf(t, "grant-objects")
	tests := map[string][]func(*grant.Input){
		"a request": nil,
		"a request for a Cluster whose name is no label": {func(in *grant.Input) {
			in.Clusters = []*fleet.Cluster{rulestest.ACluster(rulestest.ClusterNamed("a." + strings.Repeat("long.", 15) + "name"))}
		}},
	}
	for name, modifiers := range tests {
		t.Run(name, func(t *testing.T) {
			in := grantInput(append([]func(*grant.Input){found(), asked, requestAccount, requestRights}, modifiers...)...)
			out := rulestest.Pure(t, grant.Decide, in)
			out.Credential.Token = "jwt"
			secret := rulestest.Pure(t, func(c protocol.Credential) runtime.Object {
				return grant.CredentialSecret(in.Request, in.Namespaces.Registration, c)
			}, out.Credential)
			golden.Expect(t, name, rulestest.FullYAML(t, append(append(out.Children, out.Reader...), secret)))
		})
	}
}

func TestGrantAtItsLimits(t *testing.T) {
	unused := func(more ...func(*grant.Input)) grant.Input {
		forever := rulestest.BoundJWT("account-1", rulestest.Noon().Add(protocol.TokenLifetime))
		return grantInput(append([]func(*grant.Input){
			with(requestGranted, requestNoted("")), found(), named(), asked, requestAccount, requestRights, credential(forever),
		}, more...)...)
	}
	crowded := func(in *grant.Input) { in.Crowded = true }
	full := func(in *grant.Input) { in.TokenClusters, in.MaxClusters = 3, 3 }
	tests := map[string]struct {
		in     grant.Input
		want   grant.Stage
		reason string
	}{
		"the token has created too many Clusters":        {grantInput(full), grant.Rejected, conditions.ReasonTooManyClusters},
		"too many, and nobody waits any more":            {grantInput(full, later(grant.CredentialLife)), grant.Abandoned, ""},
		"too many, and the Cluster is there":             {grantInput(full, found()), grant.AwaitingRights, ""},
		"any number where there is no limit":             {grantInput(full, func(in *grant.Input) { in.MaxClusters = 0 }), grant.AwaitingCluster, ""},
		"a client ID that is too long for a Cluster":     {grantInput(with(requestClient(strings.Repeat("x", 1025)))), grant.Rejected, conditions.ReasonClientIDTooLong},
		"a client ID that just fits":                     {grantInput(with(requestClient(strings.Repeat("x", 1024)))), grant.AwaitingCluster, ""},
		"a long client ID of a Cluster that is there":    {grantInput(with(requestClient(strings.Repeat("x", 1025))), found(rulestest.ClusterClient(strings.Repeat("x", 1025)))), grant.AwaitingRights, ""},
		"unused, and others wait":                        {unused(crowded), grant.Done, ""},
		"unused for long, and others wait":               {unused(crowded, later(grant.CredentialLife)), grant.Abandoned, ""},
		"unused for long, and nothing needs its place":   {unused(later(grant.CredentialLife)), grant.Done, ""},
		"used, and others wait":                          {unused(crowded, later(grant.CredentialLife), named(rulestest.ClusterSeen(rulestest.At(0)))), grant.Done, ""},
		"granted by another implementation, others wait": {unused(crowded, later(grant.CredentialLife), func(in *grant.Input) { in.Request.Annotations = nil }), grant.Done, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := rulestest.Pure(t, grant.Decide, test.in)
			if got.Stage != test.want || got.Reason != test.reason {
				t.Errorf("%s, reason %q; want %s, %q", got.Stage, got.Reason, test.want, test.reason)
			}
		})
	}
}
