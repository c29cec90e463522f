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
		"new client: gets a Cluster":                                         {grantInput(), grant.AwaitingCluster},
		"Cluster was created before: used":                                   {grantInput(found(rulestest.ClusterWithoutNamespace)), grant.AwaitingNamespace},
		"Cluster with the derived name and the client ID: used":              {grantInput(derived(rulestest.ClusterWithoutNamespace)), grant.AwaitingNamespace},
		"Cluster with the derived name and another client ID: rejected":      {grantInput(derived(rulestest.ClusterClient("c2"))), grant.Rejected},
		"derived name is taken, another Cluster has the client ID: used":     {grantInput(derived(rulestest.ClusterClient("c2")), found()), grant.AwaitingRights},
		"no client ID: rejected":                                             {grantInput(with(requestClient(""))), grant.Rejected},
		"no client ID, Cluster without one: rejected":                        {grantInput(with(requestClient("")), found(rulestest.ClusterClient(""))), grant.Rejected},
		"waiting, named Cluster has another client ID: gets another Cluster": {grantInput(with(requestOf("east")), named(rulestest.ClusterClient("c2"))), grant.AwaitingCluster},
		"waiting, named Cluster is deleted: gets another Cluster":            {grantInput(with(requestOf("east"))), grant.AwaitingCluster},

		// The owner.
		"no owner: the Cluster becomes the owner":                          {grantInput(found()), grant.AwaitingRights},
		"several owners: the Cluster becomes the only one":                 {grantInput(found(), with(requestOwned("east", "cluster-uid"), requestOwned("west", "west-uid"), requestNoted(""))), grant.AwaitingRights},
		"another owner: replaced by the Cluster":                           {grantInput(found(), with(requestOwned("west", "west-uid"))), grant.AwaitingRights},
		"last heartbeat before the grant is recorded":                      {grantInput(found(rulestest.ClusterSeen(rulestest.At(-time.Minute)))), grant.AwaitingRights},
		"newer heartbeat before the credential is written: recorded again": {grantInput(found(rulestest.ClusterSeen(rulestest.At(-time.Minute))), with(requestNoted("2026-07-01T00:00:00Z"))), grant.AwaitingRights},
		"newer heartbeat after the credential is written: record stays": {rightful(with(requestNoted("2026-07-01T00:00:00Z")), credential(forever), func(in *grant.Input) {
			in.Clusters = []*fleet.Cluster{rulestest.ACluster(rulestest.ClusterSeen(rulestest.At(-time.Minute)))}
		}), grant.Done},
		"owner without a recorded heartbeat: recorded":    {grantInput(found(), with(requestOwned("east", "cluster-uid"))), grant.AwaitingRights},
		"owner and recorded heartbeat: not written again": {grantInput(found(), with(requestOwned("east", "cluster-uid"), requestNoted(""))), grant.AwaitingRights},

		// The rights and the credential.
		"account without rights: waits":                                            {grantInput(found(), requestAccount), grant.AwaitingRights},
		"reader of the credential is created before the rights exist":              {grantInput(found(), asked), grant.AwaitingRights},
		"rights without an account: waits":                                         {grantInput(found(), requestRights), grant.AwaitingRights},
		"account and rights: a token is requested":                                 {rightful(), grant.Minting},
		"valid credential: done":                                                   {rightful(credential(forever)), grant.Done},
		"no token may read the credential: reported":                               {rightful(nobodyAsked, with(requestNoted(""))), grant.Minting},
		"granted, no token may read the credential: still reported":                {granted(credential(forever), nobodyAsked, with(requestGranted, requestNoted(""))), grant.Done},
		"granted and used, no token may read the credential: not reported":         {granted(credential(forever), nobodyAsked, with(requestGranted, requestNoted("")), named(rulestest.ClusterSeen(rulestest.At(-time.Minute)))), grant.Done},
		"token of the import may read the credential: not reported":                {rightful(nobodyAsked, imported, with(requestNoted(""))), grant.Minting},
		"granted by Rancher Fleet, no token may read the credential: not reported": {granted(credential(forever), nobodyAsked), grant.Done},
		"credential with the token of a token Secret: done":                        {rightful(credential(rulestest.SecretJWT("account-1"))), grant.Done},
		"granted, rights are deleted: created again":                               {granted(func(in *grant.Input) { in.RightsExist = false }), grant.AwaitingRights},
		"granted, account is deleted: created again":                               {granted(func(in *grant.Input) { in.Account = nil }), grant.AwaitingRights},
		"granted, account is deleted: last heartbeat is recorded again":            {granted(func(in *grant.Input) { in.Account = nil }, with(requestGranted, requestNoted("")), named(rulestest.ClusterSeen(rulestest.At(-time.Minute)))), grant.AwaitingRights},
		"account was replaced, no heartbeat since: AccountReplaced": {
			granted(credential(forever), with(requestGranted, requestNoted(""), requestSaid(conditions.ReasonAccountReplaced))), grant.Done},
		"account was replaced, credential is being replaced: AccountReplaced": {
			granted(with(requestGranted, requestNoted(""), requestSaid(conditions.ReasonAccountReplaced))), grant.Minting},
		"account was replaced, heartbeat since: done": {
			granted(credential(forever), with(requestGranted, requestNoted(""), requestSaid(conditions.ReasonAccountReplaced)), named(rulestest.ClusterSeen(rulestest.At(-time.Minute)))), grant.Done},
		"reader of the credential does not exist yet: waits":         {rightful(func(in *grant.Input) { in.AccessExists = false }), grant.AwaitingRights},
		"no token may read the credential, no reader: does not wait": {rightful(nobodyAsked, func(in *grant.Input) { in.AccessExists = false }), grant.Minting},
		"granted, reader is deleted: created again":                  {granted(credential(forever), func(in *grant.Input) { in.AccessExists = false }), grant.Done},
		"granted, credential has expired: reader is removed": {granted(credential(forever), func(in *grant.Input) {
			in.Credential.CreationTimestamp = rulestest.At(-grant.CredentialLife)
		}), grant.Done},

		// Another workspace has a request of the same name.
		"older request with the same name in another workspace: names contain the workspace": {rightful(asked, requestNamesake("team-b", -time.Hour)), grant.Minting},
		"newer request with the same name in another workspace: names stay":                  {rightful(asked, requestNamesake("team-b", time.Hour)), grant.Minting},

		// Lost credentials.
		"granted, credential is missing: issued again":                        {granted(), grant.Minting},
		"granted, credential is missing just before its expiry: issued again": {granted(later(grant.CredentialLife - 30*time.Second)), grant.Minting},
		"granted, credential is missing after its expiry: done":               {granted(later(grant.CredentialLife)), grant.Done},
		"request waited for a day: a token is requested":                      {rightful(later(24 * time.Hour)), grant.Minting},
		"credential of a former account: replaced":                            {granted(credential(rulestest.BoundJWT("account-0", time.Time{}))), grant.Minting},
		"credential with an expired token: replaced":                          {granted(credential(rulestest.BoundJWT("account-1", rulestest.Noon()))), grant.Minting},
		"credential without a token: replaced":                                {granted(credential("")), grant.Minting},
		"credential with an invalid token: replaced":                          {granted(credential("letmein")), grant.Minting},
		"credential with a missing key: replaced":                             {granted(credential(forever), func(in *grant.Input) { delete(in.Credential.Data, "clusterName") }), grant.Minting},
		"invalid credential after its expiry: replaced":                       {granted(credential("letmein"), later(24*time.Hour)), grant.Minting},

		// One credential, one request.
		"credential answers another request: rejected":                {rightful(answering("request-2", rulestest.Workspace)), grant.Rejected},
		"credential answers a request of another workspace: rejected": {rightful(answering("request-1", "fleet-local")), grant.Rejected},
		"credential does not name its request: used":                  {rightful(credential(forever), answering("", "")), grant.Done},
		"granted, credential answers another request: stays granted":  {granted(answering("request-2", rulestest.Workspace)), grant.Done},

		// Leaving.
		"granted request is being deleted: revoked":              {granted(credential(forever), with(requestGranted, requestGoing)), grant.Leaving},
		"request that was not granted is being deleted: revoked": {grantInput(with(requestGoing)), grant.Leaving},
		"granted, Cluster is being deleted: revoked":             {granted(named(rulestest.ClusterGoing)), grant.Leaving},
		"not granted, Cluster is being deleted: revoked":         {rightful(func(in *grant.Input) { rulestest.ClusterGoing(in.Clusters[0]) }), grant.Leaving},
		"granted, Cluster is deleted: revoked":                   {granted(func(in *grant.Input) { in.Named = nil }), grant.Leaving},
		"granted, Cluster is deleted, another one has the client ID: revoked": {granted(func(in *grant.Input) {
			in.Named = nil
			in.Clusters = []*fleet.Cluster{rulestest.ACluster(rulestest.ClusterNamed("west"))}
		}), grant.Leaving},
		"granted, Cluster was recreated: revoked":                        {granted(named(rulestest.ClusterUID("another-uid"))), grant.Leaving},
		"granted, Cluster was recreated with another client ID: revoked": {granted(named(rulestest.ClusterUID("another-uid"), rulestest.ClusterClient("c2"))), grant.Leaving},

		"owner Cluster is deleted: gets no other Cluster":          {grantInput(with(requestOwned("east", "cluster-uid"))), grant.Leaving},
		"owner Cluster is deleted, request has not expired: stays": {grantInput(with(requestOwned("east", "cluster-uid")), later(grant.CredentialLife-2*time.Minute)), grant.Leaving},
		"owner Cluster is deleted, request has expired: deleted":   {grantInput(with(requestOwned("east", "cluster-uid")), later(grant.CredentialLife)), grant.Abandoned},
		"owner of another kind: gets a Cluster":                    {grantInput(with(requestOfTeam)), grant.AwaitingCluster},

		// What nobody waits for any more.
		"granted without an owner, Cluster is deleted: deleted":       {granted(with(func(r *fleet.ClusterRegistration) { r.Status.Granted, r.Status.ClusterName = true, "east" }), func(in *grant.Input) { in.Named, in.Clusters = nil, nil }), grant.Abandoned},
		"waiting for a deleted Cluster, request has expired: deleted": {grantInput(with(requestOf("east")), later(grant.CredentialLife)), grant.Abandoned},
		"old request without a Cluster: gets one":                     {grantInput(later(1000 * time.Hour)), grant.AwaitingCluster},
		"rejected for less than a day: stays":                         {grantInput(with(requestClient("")), later(24*time.Hour-time.Minute)), grant.Rejected},
		"rejected for a day: deleted":                                 {grantInput(with(requestClient("")), later(24*time.Hour)), grant.Abandoned},
		"granted without a client ID, after days: stays":              {granted(with(requestGranted, requestClient("")), named(rulestest.ClusterClient("")), later(240*time.Hour)), grant.Rejected},

		// Requests with the token of an import.
		"token of an import, Cluster and token are deleted: abandoned":        {grantInput(askedWith("import-token-east")), grant.Abandoned},
		"token of an import, Cluster is deleted: abandoned":                   {grantInput(askedWith("import-token-east"), askedBy(tokenOfImport)), grant.Abandoned},
		"token of an import with another name, Cluster is deleted: abandoned": {grantInput(askedBy(tokenOfImport)), grant.Abandoned},
		"token of a user with the name of an import's token: gets a Cluster":  {grantInput(askedWith("import-token-mine"), askedBy()), grant.AwaitingCluster},
		"deleted token of a user: gets a Cluster":                             {grantInput(askedWith("t2")), grant.AwaitingCluster},
		"no token: gets a Cluster":                                            {grantInput(askedWith("")), grant.AwaitingCluster},
		"token of an import, another client ID: gets its own Cluster":         {grantInput(askedWith("import-token-east"), askedBy(tokenOfImport), importer()), grant.AwaitingCluster},
		"deleted token of an import, another client ID: gets its own Cluster": {grantInput(askedWith("import-token-east"), importer()), grant.AwaitingCluster},
		"token of an import, Cluster was recreated: abandoned":                {grantInput(askedWith("import-token-east"), askedBy(tokenOfImport), importer(rulestest.ClusterUID("another-uid"))), grant.Abandoned},
		"token of an import, Cluster exists: a token is requested":            {rightful(askedWith("import-token-east"), askedBy(tokenOfImport)), grant.Minting},
		"token of an import, Cluster has no namespace yet: waits":             {grantInput(askedWith("import-token-east"), found(rulestest.ClusterWithoutNamespace)), grant.AwaitingNamespace},

		// What was granted stays granted.
		"granted, client ID of the Cluster changes: stays":  {granted(credential(forever), named(rulestest.ClusterClient("c2")), func(in *grant.Input) { in.Clusters = nil }), grant.Done},
		"granted without a recorded heartbeat: stays":       {granted(credential(forever), later(24*time.Hour)), grant.Done},
		"granted, owner reference is missing: restored":     {granted(credential(forever), with(requestGranted, func(r *fleet.ClusterRegistration) { r.OwnerReferences = nil })), grant.Done},
		"granted, Cluster has lost its status: rights stay": {granted(named(rulestest.ClusterWithoutNamespace)), grant.AwaitingNamespace},
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
		if len(out.Children) != 0 || out.Mint != nil || out.CredentialAccess != nil {
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
	if out.CredentialAccess != nil && out.Mint == nil && !early && in.Credential == nil {
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

// Two requests of one client get the same Cluster, in whatever order the Clusters are listed.
func TestSeveralClustersOfOneClient_OneIsChosen(t *testing.T) {
	tests := map[string]struct {
		derived  *fleet.Cluster
		clusters []*fleet.Cluster
		want     string
	}{
		"several: the oldest": {
			clusters: []*fleet.Cluster{rulestest.ACluster(rulestest.ClusterNamed("b"), rulestest.ClusterMadeAt(rulestest.At(-2*time.Hour))), rulestest.ACluster(rulestest.ClusterNamed("a"), rulestest.ClusterMadeAt(rulestest.At(-time.Hour)))},
			want:     "b",
		},
		"same age: the first by name": {
			clusters: []*fleet.Cluster{rulestest.ACluster(rulestest.ClusterNamed("c")), rulestest.ACluster(rulestest.ClusterNamed("a")), rulestest.ACluster(rulestest.ClusterNamed("b"))},
			want:     "a",
		},
		"created before: preferred to one with the derived name": {
			derived:  rulestest.ACluster(rulestest.ClusterNamed(derivedName), rulestest.ClusterMadeAt(rulestest.At(-time.Minute))),
			clusters: []*fleet.Cluster{rulestest.ACluster(rulestest.ClusterNamed("z"))},
			want:     "z",
		},
		"being deleted: a newer one is preferred": {
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

func TestNewCluster_GetsTheFilteredLabelsOfTheAgent(t *testing.T) {
	tests := map[string]struct {
		proposed map[string]string
		ignore   bool
		want     map[string]string
	}{
		"labels of the agent and the Cluster's name": {
			proposed: map[string]string{"env": "dev", "example.com/zone": ""},
			want:     map[string]string{"env": "dev", "example.com/zone": "", fleet.LabelCluster: derivedName},
		},
		"no labels: only the Cluster's name": {want: map[string]string{fleet.LabelCluster: derivedName}},
		"labels of managers: dropped": {
			proposed: map[string]string{"management.cattle.io/cluster-name": "c-abc", "fleet.cattle.io/managed": "true", "fleet.cattle.io/cluster-management": "x", "env": "dev"},
			want:     map[string]string{"env": "dev", fleet.LabelCluster: derivedName},
		},
		"name of the agent's pod: kept": {
			proposed: map[string]string{fleet.LabelCreatedByAgentPod: "fleet-agent-0"},
			want:     map[string]string{fleet.LabelCreatedByAgentPod: "fleet-agent-0", fleet.LabelCluster: derivedName},
		},
		"label with a Cluster's name: overwritten": {
			proposed: map[string]string{fleet.LabelCluster: "somebody-else"},
			want:     map[string]string{fleet.LabelCluster: derivedName},
		},
		"invalid labels: dropped": {
			proposed: map[string]string{"a b": "x", "": "x", "long": strings.Repeat("x", 64), "place": "Zürich", "ok": "x"},
			want:     map[string]string{"ok": "x", fleet.LabelCluster: derivedName},
		},
		"labels are ignored: all are dropped": {
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
		"a request for a Cluster whose name is too long for a label": {func(in *grant.Input) {
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
			golden.Expect(t, name, rulestest.FullYAML(t, append(append(out.Children, out.CredentialAccess...), secret)))
		})
	}
}

func TestGrant_AtItsLimits(t *testing.T) {
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
		"too many Clusters, and the request has expired": {grantInput(full, later(grant.CredentialLife)), grant.Abandoned, ""},
		"too many Clusters, and the Cluster exists":      {grantInput(full, found()), grant.AwaitingRights, ""},
		"no limit": {grantInput(full, func(in *grant.Input) { in.MaxClusters = 0 }), grant.AwaitingCluster, ""},
		"a client ID that is too long for a Cluster": {grantInput(with(requestClient(strings.Repeat("x", 1025)))), grant.Rejected, conditions.ReasonClientIDTooLong},
		"a client ID of the maximum length":          {grantInput(with(requestClient(strings.Repeat("x", 1024)))), grant.AwaitingCluster, ""},
		"a long client ID of an existing Cluster":    {grantInput(with(requestClient(strings.Repeat("x", 1025))), found(rulestest.ClusterClient(strings.Repeat("x", 1025)))), grant.AwaitingRights, ""},
		"unused, others wait":                        {unused(crowded), grant.Done, ""},
		"unused for long, others wait":               {unused(crowded, later(grant.CredentialLife)), grant.Abandoned, ""},
		"unused for long, no other waits":            {unused(later(grant.CredentialLife)), grant.Done, ""},
		"used, others wait":                          {unused(crowded, later(grant.CredentialLife), named(rulestest.ClusterSeen(rulestest.At(0)))), grant.Done, ""},
		"granted by Rancher Fleet, others wait":      {unused(crowded, later(grant.CredentialLife), func(in *grant.Input) { in.Request.Annotations = nil }), grant.Done, ""},
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
