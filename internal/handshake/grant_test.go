package handshake_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/handshake"
	"github.com/fleet-hub/fleet/internal/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestGrant(t *testing.T) {
	forever := boundJWT("account-1", noon().Add(handshake.TokenLifetime))
	type mod = func(*handshake.GrantInput)
	// rightful is a request whose Cluster, account and rights are there.
	rightful := func(more ...mod) handshake.GrantInput {
		return grantInput(append([]mod{found(), asked, requestAccount, requestRights}, more...)...)
	}
	// granted is one that was granted and is its Cluster's.
	granted := func(more ...mod) handshake.GrantInput {
		return rightful(append([]mod{with(requestGranted), named()}, more...)...)
	}
	tests := map[string]struct {
		in   handshake.GrantInput
		want handshake.GrantStage
	}{
		// The Cluster.
		"a client the hub has not met gets a Cluster":             {grantInput(), handshake.GrantAwaitingCluster},
		"a client whose Cluster was made beforehand gets that":    {grantInput(found(clusterWithoutNamespace)), handshake.GrantAwaitingNamespace},
		"a Cluster of the derived name and client ID is the one":  {grantInput(derived(clusterWithoutNamespace)), handshake.GrantAwaitingNamespace},
		"a Cluster of the derived name and another client is not": {grantInput(derived(clusterClient("c2"))), handshake.GrantRejected},
		"a client whose Cluster has another name gets it anyway":  {grantInput(derived(clusterClient("c2")), found()), handshake.GrantAwaitingRights},
		"a request without a client ID is rejected":               {grantInput(with(requestClient(""))), handshake.GrantRejected},
		"no Cluster without a client ID is handed to one without": {grantInput(with(requestClient("")), found(clusterClient(""))), handshake.GrantRejected},
		"while it waits a request may change its Cluster":         {grantInput(with(requestOf("east")), named(clusterClient("c2"))), handshake.GrantAwaitingCluster},
		"while it waits a request's Cluster may go":               {grantInput(with(requestOf("east"))), handshake.GrantAwaitingCluster},

		// The owner.
		"the Cluster becomes the request's owner":          {grantInput(found()), handshake.GrantAwaitingRights},
		"it becomes the only owner":                        {grantInput(found(), with(requestOwned("east", "cluster-uid"), requestOwned("west", "west-uid"), requestNoted(""))), handshake.GrantAwaitingRights},
		"it takes the place of another owner":              {grantInput(found(), with(requestOwned("west", "west-uid"))), handshake.GrantAwaitingRights},
		"the heartbeat before the grant is noted":          {grantInput(found(clusterSeen(at(-time.Minute)))), handshake.GrantAwaitingRights},
		"until the credential is written it is noted anew": {grantInput(found(clusterSeen(at(-time.Minute))), with(requestNoted("2026-07-01T00:00:00Z"))), handshake.GrantAwaitingRights},
		"from then on it stays as it was": {rightful(with(requestNoted("2026-07-01T00:00:00Z")), credential(forever), func(in *handshake.GrantInput) {
			in.Clusters = []*fleet.Cluster{aCluster(clusterSeen(at(-time.Minute)))}
		}), handshake.GrantDone},
		"an owner without a note gets one": {grantInput(found(), with(requestOwned("east", "cluster-uid"))), handshake.GrantAwaitingRights},
		"owner and note are written once":  {grantInput(found(), with(requestOwned("east", "cluster-uid"), requestNoted(""))), handshake.GrantAwaitingRights},

		// The rights and the credential.
		"an account without rights waits for them":          {grantInput(found(), requestAccount), handshake.GrantAwaitingRights},
		"meanwhile the credential to come is made readable": {grantInput(found(), asked), handshake.GrantAwaitingRights},
		"rights without their account wait for it":          {grantInput(found(), requestRights), handshake.GrantAwaitingRights},
		"with account and rights a credential is made":      {rightful(), handshake.GrantMinting},
		"a credential that works is all there is":           {rightful(credential(forever)), handshake.GrantDone},
		"an answer that nobody may read is told":            {rightful(nobodyAsked, with(requestNoted(""))), handshake.GrantMinting},
		"and stays told":                                    {granted(credential(forever), nobodyAsked, with(requestGranted, requestNoted(""))), handshake.GrantDone},
		"but not once it was used":                          {granted(credential(forever), nobodyAsked, with(requestGranted, requestNoted("")), named(clusterSeen(at(-time.Minute)))), handshake.GrantDone},
		"nor if the import's token may read it":             {rightful(nobodyAsked, imported, with(requestNoted(""))), handshake.GrantMinting},
		"of what others have granted nobody knows":          {granted(credential(forever), nobodyAsked), handshake.GrantDone},
		"the token of a token secret works too":             {rightful(credential(secretJWT("account-1"))), handshake.GrantDone},
		"rights that went are healed after the grant":       {granted(func(in *handshake.GrantInput) { in.RightsExist = false }), handshake.GrantAwaitingRights},
		"an account that went is healed after the grant":    {granted(func(in *handshake.GrantInput) { in.Account = nil }), handshake.GrantAwaitingRights},
		"the heartbeat before that is noted anew":           {granted(func(in *handshake.GrantInput) { in.Account = nil }, with(requestGranted, requestNoted("")), named(clusterSeen(at(-time.Minute)))), handshake.GrantAwaitingRights},
		"its agent is told to register until it is heard of": {
			granted(credential(forever), with(requestGranted, requestNoted(""), requestSaid(fleet.ReasonAccountReplaced))), handshake.GrantDone},
		"also while its credential is made anew": {
			granted(with(requestGranted, requestNoted(""), requestSaid(fleet.ReasonAccountReplaced))), handshake.GrantMinting},
		"once it is heard of nothing is wrong": {
			granted(credential(forever), with(requestGranted, requestNoted(""), requestSaid(fleet.ReasonAccountReplaced)), named(clusterSeen(at(-time.Minute)))), handshake.GrantDone},
		"an answer waits until it can be read":            {rightful(func(in *handshake.GrantInput) { in.ReaderExists = false }), handshake.GrantAwaitingRights},
		"but not for a reader that there will never be":   {rightful(nobodyAsked, func(in *handshake.GrantInput) { in.ReaderExists = false }), handshake.GrantMinting},
		"who may read is healed as long as there is what": {granted(credential(forever), func(in *handshake.GrantInput) { in.ReaderExists = false }), handshake.GrantDone},
		"but no longer": {granted(credential(forever), func(in *handshake.GrantInput) {
			in.Credential.CreationTimestamp = at(-handshake.CredentialLife)
		}), handshake.GrantDone},

		// Another workspace has a request of the same name.
		"what is shared is named after the workspace where an older one has it": {rightful(asked, requestNamesake("team-b", -time.Hour)), handshake.GrantMinting},
		"the older one keeps the name":                                          {rightful(asked, requestNamesake("team-b", time.Hour)), handshake.GrantMinting},

		// Lost credentials.
		"a credential that was lost before its time is made again": {granted(), handshake.GrantMinting},
		"in the second of its end it is still made again":          {granted(later(handshake.CredentialLife - 30*time.Second)), handshake.GrantMinting},
		"after its time it is not":                                 {granted(later(handshake.CredentialLife)), handshake.GrantDone},
		"a request that waited longer than that is still answered": {rightful(later(24 * time.Hour)), handshake.GrantMinting},
		"a credential of an account that was made anew is renewed": {granted(credential(boundJWT("account-0", time.Time{}))), handshake.GrantMinting},
		"a credential whose token has ended is renewed":            {granted(credential(boundJWT("account-1", noon()))), handshake.GrantMinting},
		"a credential with no token is filled":                     {granted(credential("")), handshake.GrantMinting},
		"a credential with a text for a token is renewed":          {granted(credential("letmein")), handshake.GrantMinting},
		"a credential without its other keys is renewed":           {granted(credential(forever), func(in *handshake.GrantInput) { delete(in.Credential.Data, "clusterName") }), handshake.GrantMinting},
		"a broken credential is renewed after its time, too":       {granted(credential("letmein"), later(24*time.Hour)), handshake.GrantMinting},

		// One credential, one request.
		"a credential that answers another request is not touched": {rightful(answering("request-2", workspace)), handshake.GrantRejected},
		"nor one of a request of this name in another workspace":   {rightful(answering("request-1", "fleet-local")), handshake.GrantRejected},
		"one that does not say whom it answers is this one's":      {rightful(credential(forever), answering("", "")), handshake.GrantDone},
		"what was granted is not taken away by whoever asks alike": {granted(answering("request-2", workspace)), handshake.GrantDone},

		// Leaving.
		"a request that goes leaves":                       {granted(credential(forever), with(requestGranted, requestGoing)), handshake.GrantLeaving},
		"so does one that was never granted":               {grantInput(with(requestGoing)), handshake.GrantLeaving},
		"a Cluster that goes takes its requests along":     {granted(named(clusterGoing)), handshake.GrantLeaving},
		"a request for a Cluster that goes is not granted": {rightful(func(in *handshake.GrantInput) { clusterGoing(in.Clusters[0]) }), handshake.GrantLeaving},
		"a Cluster that is gone takes its requests along":  {granted(func(in *handshake.GrantInput) { in.Named = nil }), handshake.GrantLeaving},
		"also when another Cluster has the client ID by now": {granted(func(in *handshake.GrantInput) {
			in.Named = nil
			in.Clusters = []*fleet.Cluster{aCluster(clusterNamed("west"))}
		}), handshake.GrantLeaving},
		"a Cluster made anew under the name does not inherit": {granted(named(clusterUID("another-uid"))), handshake.GrantLeaving},
		"nor does one with another client ID":                 {granted(named(clusterUID("another-uid"), clusterClient("c2"))), handshake.GrantLeaving},

		"a request that was owned by a Cluster that is gone gets no other": {grantInput(with(requestOwned("east", "cluster-uid"))), handshake.GrantLeaving},
		"one that has another owner gets its Cluster":                      {grantInput(with(requestOfTeam)), handshake.GrantAwaitingCluster},

		// What nobody waits for any more.
		"one of a Cluster that is gone, which nothing takes along, is deleted": {granted(with(func(r *fleet.ClusterRegistration) { r.Status.Granted, r.Status.ClusterName = true, "east" }), func(in *handshake.GrantInput) { in.Named, in.Clusters = nil, nil }), handshake.GrantAbandoned},
		"one that waited too long for a Cluster that is gone is deleted":       {grantInput(with(requestOf("east")), later(handshake.CredentialLife)), handshake.GrantAbandoned},
		"one that names no Cluster is kept however old it is":                  {grantInput(later(1000 * time.Hour)), handshake.GrantAwaitingCluster},
		"a rejection is kept for a day":                                        {grantInput(with(requestClient("")), later(24*time.Hour-time.Minute)), handshake.GrantRejected},
		"and then deleted":                                                     {grantInput(with(requestClient("")), later(24*time.Hour)), handshake.GrantAbandoned},
		"but not what was granted":                                             {granted(with(requestGranted, requestClient("")), named(clusterClient("")), later(240*time.Hour)), handshake.GrantRejected},

		// Requests with the token of an import.
		"one that comes after its Cluster has gone is abandoned":               {grantInput(askedWith("import-token-east")), handshake.GrantAbandoned},
		"also while the token is still there":                                  {grantInput(askedWith("import-token-east"), askedBy(tokenOfImport)), handshake.GrantAbandoned},
		"whatever the token of an import is called":                            {grantInput(askedBy(tokenOfImport)), handshake.GrantAbandoned},
		"a user's token may be called like an import's":                        {grantInput(askedWith("import-token-mine"), askedBy()), handshake.GrantAwaitingCluster},
		"a token that a user has deleted leads to a Cluster all the same":      {grantInput(askedWith("t2")), handshake.GrantAwaitingCluster},
		"a request that names no token does so, too":                           {grantInput(askedWith("")), handshake.GrantAwaitingCluster},
		"another client of an import whose Cluster is there is one of its own": {grantInput(askedWith("import-token-east"), askedBy(tokenOfImport), importer()), handshake.GrantAwaitingCluster},
		"also when the token is gone meanwhile":                                {grantInput(askedWith("import-token-east"), importer()), handshake.GrantAwaitingCluster},
		"a Cluster made anew under the name is not its importer":               {grantInput(askedWith("import-token-east"), askedBy(tokenOfImport), importer(clusterUID("another-uid"))), handshake.GrantAbandoned},
		"one in time is answered":                                              {rightful(askedWith("import-token-east"), askedBy(tokenOfImport)), handshake.GrantMinting},
		"one in time waits for its Cluster's namespace":                        {grantInput(askedWith("import-token-east"), found(clusterWithoutNamespace)), handshake.GrantAwaitingNamespace},

		// What was granted stays granted.
		"a granted request stays where it is if the Cluster's client ID changes": {granted(credential(forever), named(clusterClient("c2")), func(in *handshake.GrantInput) { in.Clusters = nil }), handshake.GrantDone},
		"one granted before there were notes is left as it is":                   {granted(credential(forever), later(24*time.Hour)), handshake.GrantDone},
		"one that lost its owner gets it back":                                   {granted(credential(forever), with(requestGranted, func(r *fleet.ClusterRegistration) { r.OwnerReferences = nil })), handshake.GrantDone},
		"a Cluster that lost its status does not cost the rights":                {granted(named(clusterWithoutNamespace)), handshake.GrantAwaitingNamespace},
	}
	golden := goldenOf(t, "grant")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := pure(t, handshake.Grant, test.in)
			expectEqual(t, "stage", got.Stage, test.want)
			golden.expect(t, name, told(t, got))
			checkGrantOutcome(t, test.in, got)
		})
	}
}

// checkGrantOutcome holds for every request.
func checkGrantOutcome(t *testing.T, in handshake.GrantInput, out handshake.GrantOutcome) {
	t.Helper()
	switch out.Stage {
	case handshake.GrantLeaving, handshake.GrantAbandoned, handshake.GrantRejected, handshake.GrantTakeoverPending:
		if len(out.Children) != 0 || out.Mint != nil || out.Reader != nil {
			t.Errorf("rights in stage %s", out.Stage)
		}
	case handshake.GrantAwaitingCluster, handshake.GrantAwaitingNamespace:
		if len(out.Children) != 0 || out.Mint != nil {
			t.Errorf("rights of an agent in stage %s", out.Stage)
		}
	default:
		if len(out.Children) != 4 {
			t.Errorf("%d children in stage %s: the set only grows", len(out.Children), out.Stage)
		}
	}
	if (out.Mint != nil) != (out.Stage == handshake.GrantMinting) {
		t.Error("a bearer token is asked for in stage Minting and in no other")
	}
	early := (out.Stage == handshake.GrantAwaitingCluster || out.Stage == handshake.GrantAwaitingNamespace || out.Stage == handshake.GrantAwaitingRights) && !in.Request.Status.Granted
	if out.Reader != nil && out.Mint == nil && !early && in.Credential == nil {
		t.Error("a credential is made readable that nobody is going to write")
	}
	if (out.CreateCluster != nil) != (out.Stage == handshake.GrantAwaitingCluster) {
		t.Error("a Cluster is created in stage AwaitingCluster and in no other")
	}
	if in.Request.Status.Granted && !out.Granted && out.Stage != handshake.GrantAbandoned && out.Stage != handshake.GrantRejected {
		t.Error("what was granted is not granted any more")
	}
	waitsInVain := out.Stage == handshake.GrantRejected || out.Stage == handshake.GrantTakeoverPending
	if waitsInVain != !out.Ends.IsZero() || waitsInVain && out.Reason == "" || (out.Reason == "") != (out.Message == "") {
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
			clusters: []*fleet.Cluster{aCluster(clusterNamed("b"), clusterMadeAt(at(-2*time.Hour))), aCluster(clusterNamed("a"), clusterMadeAt(at(-time.Hour)))},
			want:     "b",
		},
		"of the same age the first by name": {
			clusters: []*fleet.Cluster{aCluster(clusterNamed("c")), aCluster(clusterNamed("a")), aCluster(clusterNamed("b"))},
			want:     "a",
		},
		"one made beforehand, rather than one made for the client later": {
			derived:  aCluster(clusterNamed(derivedName), clusterMadeAt(at(-time.Minute))),
			clusters: []*fleet.Cluster{aCluster(clusterNamed("z"))},
			want:     "z",
		},
		"one that stays, rather than an older one that goes": {
			clusters: []*fleet.Cluster{aCluster(clusterNamed("a"), clusterMadeAt(at(-2*time.Hour)), clusterGoing), aCluster(clusterNamed("b"))},
			want:     "b",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			permute(test.clusters, func(clusters []*fleet.Cluster) {
				in := grantInput(func(in *handshake.GrantInput) { in.Clusters, in.Derived = clusters, test.derived })
				expectEqual(t, "cluster", pure(t, handshake.Grant, in).ClusterName, test.want)
			})
		})
	}
}

// permute calls with every order of the elements.
func permute[T any](of []T, call func([]T)) {
	if len(of) == 0 {
		call(nil)
		return
	}
	for i := range of {
		rest := slices.Delete(slices.Clone(of), i, i+1)
		permute(rest, func(tail []T) { call(append([]T{of[i]}, tail...)) })
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
			got := pure(t, handshake.Grant, grantInput(with(requestLabels(test.proposed)), func(in *handshake.GrantInput) { in.IgnoreLabels = test.ignore }))
			want := &fleet.Cluster{Spec: fleet.ClusterSpec{ClientID: "c1"}}
			want.APIVersion, want.Kind = "fleet.cattle.io/v1alpha1", "Cluster"
			want.Namespace, want.Name, want.Labels = workspace, derivedName, test.want
			want.Finalizers = []string{fleet.FinalizerCluster}
			want.Annotations = map[string]string{fleet.AnnotationCreatedWithToken: "unknown"}
			expectEqual(t, "cluster", got.CreateCluster, want)
		})
	}
	expectEqual(t, "the name given by a client ID", names.Cluster("c1"), derivedName)
}

// Who may read a credential: the account of the token that the agent asked with, and nobody else.
func TestGrantReader(t *testing.T) {
	const creds = "request-1-creds"
	label := func(token string) func(*handshake.GrantInput) { return askedWith(token) }
	tests := map[string]struct {
		given []func(*handshake.GrantInput)
		want  []string
	}{
		"the token the request names":                          {[]func(*handshake.GrantInput){asked}, []string{"t1-u1"}},
		"the token the request names, also of an imported one": {[]func(*handshake.GrantInput){asked, imported}, []string{"t1-u1"}},
		"the import's, if the one it names is gone":            {[]func(*handshake.GrantInput){imported}, []string{"import-token-east-i1"}},
		"an old agent that names none, of an imported Cluster": {[]func(*handshake.GrantInput){label(""), imported, tokens("b", "a")}, []string{"import-token-east-i1"}},
		"an old agent that names none: any token of its workspace, for the Secret's name is known to it alone": {
			[]func(*handshake.GrantInput){label(""), tokens("b", "a")}, []string{"a-uid-of-a", "b-uid-of-b"}},
		"but no token that goes": {
			[]func(*handshake.GrantInput){label(""), tokens("a", "b"), func(in *handshake.GrantInput) { in.Tokens[1].DeletionTimestamp = ptr(at(0)) }}, []string{"a-uid-of-a"}},
		"an old agent where there are no tokens": {[]func(*handshake.GrantInput){label("")}, nil},
		"nobody, if the one it names is gone":    {[]func(*handshake.GrantInput){tokens("a")}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := grantInput(append([]func(*handshake.GrantInput){found(), requestAccount, requestRights}, test.given...)...)
			out := pure(t, handshake.Grant, in)
			expectEqual(t, "stage", out.Stage, handshake.GrantMinting)
			expectReader(t, out.Reader, creds, test.want...)
			expectEqual(t, "that nobody can read it is said", out.Unreadable, false)
			noted := in
			noted.Request = in.Request.DeepCopy()
			noted.Request.Annotations = map[string]string{fleet.AnnotationLastSeenAtGrant: ""}
			expectEqual(t, "that nobody can read it is said", pure(t, handshake.Grant, noted).Unreadable, len(test.want) == 0)
		})
	}
}

// tokens are all of the workspace.
func tokens(all ...string) func(*handshake.GrantInput) {
	return func(in *handshake.GrantInput) {
		for _, name := range all {
			in.Tokens = append(in.Tokens, aToken(func(t *fleet.ClusterRegistrationToken) { t.Name, t.UID = name, types.UID("uid-of-"+name) }))
		}
	}
}

func expectReader(t *testing.T, reader []runtime.Object, name string, accounts ...string) {
	t.Helper()
	if len(accounts) == 0 {
		expectEqual(t, "reader", reader, []runtime.Object(nil))
		return
	}
	expectEqual(t, "reader", told(t, reader), "- Role cattle-fleet-clusters-system/"+name+"\n- RoleBinding cattle-fleet-clusters-system/"+name+"\n")
	full := toldInFull(t, reader)
	if part := "resourceNames:\n    - " + names.CredentialSecret("c1", "random-1") + "\n"; !strings.Contains(full, part) {
		t.Errorf("reader lacks %q:\n%s", part, full)
	}
	var subjects []string
	for _, subject := range reader[1].(*rbacv1.RoleBinding).Subjects {
		expectEqual(t, "namespace of the account", subject.Namespace, workspace)
		subjects = append(subjects, subject.Name)
	}
	expectEqual(t, "accounts", subjects, accounts)
}

func TestGrantObjects(t *testing.T) {
	golden := goldenOf(t, "grant-objects")
	tests := map[string][]func(*handshake.GrantInput){
		"a request": nil,
		"a request for a Cluster whose name is no label": {func(in *handshake.GrantInput) {
			in.Clusters = []*fleet.Cluster{aCluster(clusterNamed("a." + strings.Repeat("long.", 15) + "name"))}
		}},
	}
	for name, modifiers := range tests {
		t.Run(name, func(t *testing.T) {
			in := grantInput(append([]func(*handshake.GrantInput){found(), asked, requestAccount, requestRights}, modifiers...)...)
			out := pure(t, handshake.Grant, in)
			out.Credential.Token = "jwt"
			secret := pure(t, func(c handshake.Credential) runtime.Object {
				return handshake.CredentialSecret(in.Request, in.Namespaces.Registration, c)
			}, out.Credential)
			golden.expect(t, name, toldInFull(t, append(append(out.Children, out.Reader...), secret)))
		})
	}
}

func TestGrantAtItsLimits(t *testing.T) {
	unused := func(more ...func(*handshake.GrantInput)) handshake.GrantInput {
		forever := boundJWT("account-1", noon().Add(handshake.TokenLifetime))
		return grantInput(append([]func(*handshake.GrantInput){
			with(requestGranted, requestNoted("")), found(), named(), asked, requestAccount, requestRights, credential(forever),
		}, more...)...)
	}
	crowded := func(in *handshake.GrantInput) { in.Crowded = true }
	full := func(in *handshake.GrantInput) { in.TokenClusters, in.MaxClusters = 3, 3 }
	tests := map[string]struct {
		in     handshake.GrantInput
		want   handshake.GrantStage
		reason string
	}{
		"the token has created too many Clusters":        {grantInput(full), handshake.GrantRejected, fleet.ReasonTooManyClusters},
		"too many, and nobody waits any more":            {grantInput(full, later(handshake.CredentialLife)), handshake.GrantAbandoned, ""},
		"too many, and the Cluster is there":             {grantInput(full, found()), handshake.GrantAwaitingRights, ""},
		"any number where there is no limit":             {grantInput(full, func(in *handshake.GrantInput) { in.MaxClusters = 0 }), handshake.GrantAwaitingCluster, ""},
		"a client ID that is too long for a Cluster":     {grantInput(with(requestClient(strings.Repeat("x", 1025)))), handshake.GrantRejected, fleet.ReasonClientIDTooLong},
		"a client ID that just fits":                     {grantInput(with(requestClient(strings.Repeat("x", 1024)))), handshake.GrantAwaitingCluster, ""},
		"a long client ID of a Cluster that is there":    {grantInput(with(requestClient(strings.Repeat("x", 1025))), found(clusterClient(strings.Repeat("x", 1025)))), handshake.GrantAwaitingRights, ""},
		"unused, and others wait":                        {unused(crowded), handshake.GrantDone, ""},
		"unused for long, and others wait":               {unused(crowded, later(handshake.CredentialLife)), handshake.GrantAbandoned, ""},
		"unused for long, and nothing needs its place":   {unused(later(handshake.CredentialLife)), handshake.GrantDone, ""},
		"used, and others wait":                          {unused(crowded, later(handshake.CredentialLife), named(clusterSeen(at(0)))), handshake.GrantDone, ""},
		"granted by another implementation, others wait": {unused(crowded, later(handshake.CredentialLife), func(in *handshake.GrantInput) { in.Request.Annotations = nil }), handshake.GrantDone, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := pure(t, handshake.Grant, test.in)
			if got.Stage != test.want || got.Reason != test.reason {
				t.Errorf("%s, reason %q; want %s, %q", got.Stage, got.Reason, test.want, test.reason)
			}
		})
	}
}
