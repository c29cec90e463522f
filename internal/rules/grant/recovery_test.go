package grant_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// recovering makes the request a recovery request of the agent with a key, with a ticket that a hub has signed.
func recovering(t *testing.T, hub, key identity.Key, modifiers ...func(*identity.Ticket)) func(*grant.Input) {
	t.Helper()
	return func(in *grant.Input) {
		ticket := identity.Ticket{
			Workspace: in.Request.Namespace, Cluster: "east", ClientID: in.Request.Spec.ClientID, Key: identity.Thumbprint(key.Public()),
			Labels: map[string]string{"env": "dev", fleet.LabelTokenUID: "u1"}, Time: in.Now.Add(-time.Hour),
		}
		for _, modify := range modifiers {
			modify(&ticket)
		}
		text, err := hub.SignTicket(ticket)
		if err != nil {
			t.Fatal(err)
		}
		annotate(in, annotation.AgentTicket, text)
		in.NamedToken, in.ReaderAccount = nil, "recovery"
		in.Recovery.Readmit = true
		signedBy(t, key, key, "recovery")(in)
	}
}

// knownTo means that this hub decides.
func knownTo(hub identity.Key) func(*grant.Input) {
	return func(in *grant.Input) { in.Recovery.Hub = hub.Public() }
}

// confirmedHere means that the operator has confirmed the request.
func confirmedHere(in *grant.Input) {
	in.Clusters[0].Annotations[annotation.ConfirmTakeover] = in.Request.Name
}

// ticketsSince means that an agent without a key replaced one with a key, this long after now.
func ticketsSince(after time.Duration) func(*grant.Input) {
	return func(in *grant.Input) {
		in.Clusters[0].Annotations[annotation.TicketsSince] = in.Now.Add(after).UTC().Format(time.RFC3339)
	}
}

func unreadableSince(in *grant.Input) { in.Clusters[0].Annotations[annotation.TicketsSince] = "x" }

func TestRecovery_PinnedKeyOrTicketDecides(t *testing.T) {
	type mod = func(*grant.Input)
	const unproven, pending, granted = grant.Unproven, grant.TakeoverPending, grant.AwaitingRights
	hub, otherHub, mine, other := agentKey(t), agentKey(t), agentKey(t), agentKey(t)
	agent := registered(requestTokenUID("u1"))
	unpinned := func(in *grant.Input) { in.Clusters[0].Annotations = map[string]string{} }
	expired := func(ticket *identity.Ticket) { ticket.Time = ticket.Time.Add(-identity.TicketLife) }
	deleted := func(in *grant.Input) { in.Recovery.Deleted = true }
	off := func(in *grant.Input) { in.Recovery.Readmit = false }
	set := func(annotation, value string) mod { return func(in *grant.Input) { annotate(in, annotation, value) } }
	for name, test := range map[string]struct {
		given []mod
		want  grant.Stage
	}{
		"the pinned key: granted":                                     {[]mod{agent, pinned(mine), recovering(t, hub, mine)}, granted},
		"the pinned key, no agent has reported: granted":              {[]mod{found(), pinned(mine), recovering(t, hub, mine)}, granted},
		"the pinned key, expired ticket: granted":                     {[]mod{agent, pinned(mine), recovering(t, hub, mine, expired)}, granted},
		"the pinned key, ticket of another hub: granted":              {[]mod{agent, pinned(mine), recovering(t, otherHub, mine)}, granted},
		"the pinned key, ticket is no ticket: granted":                {[]mod{agent, pinned(mine), recovering(t, hub, mine), set(annotation.AgentTicket, "x")}, granted},
		"the pinned key, ticket of a megabyte: granted":               {[]mod{agent, pinned(mine), recovering(t, hub, mine), set(annotation.AgentTicket, strings.Repeat("x", 1<<20))}, granted},
		"the pinned key, readmission is off: granted":                 {[]mod{agent, pinned(mine), recovering(t, hub, mine), off}, granted},
		"another key with its own ticket: deleted":                    {[]mod{agent, pinned(mine), recovering(t, hub, other)}, unproven},
		"another key with the agent's ticket: deleted":                {[]mod{agent, pinned(mine), recovering(t, hub, mine), signedBy(t, other, other, "recovery")}, unproven},
		"claims the pinned key, signed with another: deleted":         {[]mod{agent, pinned(mine), recovering(t, hub, mine), signedBy(t, other, mine, "recovery")}, unproven},
		"signed for another account: deleted":                         {[]mod{agent, pinned(mine), recovering(t, hub, mine), signedBy(t, mine, mine, "import")}, unproven},
		"no proof: deleted":                                           {[]mod{agent, pinned(mine), recovering(t, hub, mine), set(annotation.AgentProof, "")}, unproven},
		"a proof of a megabyte: deleted":                              {[]mod{agent, pinned(mine), recovering(t, hub, mine), set(annotation.AgentProof, strings.Repeat("x", 1<<20))}, unproven},
		"a key of a megabyte: deleted":                                {[]mod{agent, pinned(mine), recovering(t, hub, mine), set(annotation.AgentKey, strings.Repeat("x", 1<<20))}, unproven},
		"there is no recovery account: deleted":                       {[]mod{agent, pinned(mine), recovering(t, hub, mine), readBy("")}, unproven},
		"no key, valid ticket: granted":                               {[]mod{agent, unpinned, recovering(t, hub, mine)}, granted},
		"no key, agent without a key came after the ticket: waits":    {[]mod{agent, unpinned, ticketsSince(-time.Minute), recovering(t, hub, mine)}, pending},
		"no key, agent without a key came before the ticket: granted": {[]mod{agent, unpinned, ticketsSince(-2 * time.Hour), recovering(t, hub, mine)}, granted},
		"no key, unreadable time of the agent without a key: waits":   {[]mod{agent, unpinned, unreadableSince, recovering(t, hub, mine)}, pending},
		"no key, expired ticket: waits":                               {[]mod{agent, unpinned, recovering(t, hub, mine, expired)}, pending},
		"no key, no agent, expired ticket: waits":                     {[]mod{found(), unpinned, recovering(t, hub, mine, expired)}, pending},
		"no key, ticket of a deleted Cluster: waits":                  {[]mod{agent, unpinned, recovering(t, hub, mine), deleted}, pending},
		"no key, readmission is off: waits":                           {[]mod{agent, unpinned, recovering(t, hub, mine), off}, pending},
		"no key, ticket of another hub: deleted":                      {[]mod{agent, unpinned, recovering(t, otherHub, mine)}, unproven},
		"no key, ticket of another key: deleted":                      {[]mod{agent, unpinned, recovering(t, hub, mine), signedBy(t, other, other, "recovery")}, unproven},
		"no key, own import's token exists, no ticket: deleted":       {[]mod{agent, unpinned, imported, recovering(t, otherHub, mine)}, unproven},
		"no key, ticket of another workspace: deleted":                {[]mod{agent, unpinned, recovering(t, hub, mine, func(k *identity.Ticket) { k.Workspace = "other" })}, unproven},
		"no key, ticket of another client ID: deleted":                {[]mod{agent, unpinned, recovering(t, hub, mine, func(k *identity.Ticket) { k.ClientID = "other" })}, unproven},
		"the blocked key: waits":                                      {[]mod{agent, blocked(mine), recovering(t, hub, mine)}, pending},
		"the blocked key, confirmed: granted":                         {[]mod{agent, blocked(mine), recovering(t, hub, mine), confirmedHere}, granted},
		"another key than the blocked one: deleted":                   {[]mod{agent, blocked(mine), recovering(t, hub, other)}, unproven},
		"another key than the pinned one, confirmed: granted":         {[]mod{agent, pinned(mine), recovering(t, hub, other), confirmedHere}, granted},
		"invalid proof, confirmed: deleted":                           {[]mod{agent, pinned(mine), recovering(t, hub, mine), set(annotation.AgentProof, "x"), confirmedHere}, unproven},
		"the Secret of the answer has another request's: deleted":     {[]mod{agent, pinned(mine), recovering(t, hub, mine), answering("original", "fleet-default")}, unproven},
		"the same, no Cluster, expired ticket: deleted":               {[]mod{recovering(t, hub, mine, expired), answering("original", "fleet-default"), set(annotation.AgentKeyAtGrant, mine.Public())}, unproven},
		"no key, ticket of another Cluster: deleted":                  {[]mod{agent, unpinned, recovering(t, hub, mine, func(k *identity.Ticket) { k.Cluster = "west" })}, unproven},
		"the answer to the copied request exists: deleted":            {[]mod{agent, pinned(mine), recovering(t, hub, mine), sameAnswer(replayed(requestGranted))}, unproven},
		"copy of a request that is not answered yet: deleted":         {[]mod{agent, pinned(mine), recovering(t, hub, mine), sameAnswer(replayed())}, unproven},
		"copy of a request that waits, confirmed: deleted":            {[]mod{agent, blocked(mine), recovering(t, hub, mine), confirmedHere, sameAnswer(replayed())}, unproven},
		"no Cluster, an owner that is gone, no proof: deleted":        {[]mod{with(requestOwned("east", "u")), recovering(t, hub, mine), set(annotation.AgentProof, "")}, unproven},
		"was copied: granted":                                         {[]mod{agent, pinned(mine), recovering(t, hub, mine), sameAnswer(replayed(requestMadeAt(rulestest.At(-time.Second))))}, granted},
	} {
		t.Run(name, func(t *testing.T) {
			out := rulestest.Pure(t, grant.Decide, grantInput(append([]mod{knownTo(hub)}, test.given...)...))
			if out.Stage != test.want {
				t.Errorf("stage %s (%s), want %s", out.Stage, out.Message, test.want)
			}
			if out.Stage == unproven && (len(out.Writes) != 1 || out.Writes[0] != grant.DeleteUnproven) {
				t.Errorf("writes %v", out.Writes)
			}
		})
	}
}

// The Cluster was deleted and created again, and its agent still runs.
func TestRecoveryOfAClusterWithoutAnAgent_IsDescribed(t *testing.T) {
	hub, mine := agentKey(t), agentKey(t)
	const want = "no agent is registered for this Cluster, and the ticket of this request has expired, or is from before a deletion of the Cluster: " +
		"to register the agent again, run `fleet confirm-takeover east request-1 -n fleet-default`; otherwise this request is deleted 40 minutes after its creation"
	deleted := func(in *grant.Input) { in.Recovery.Deleted, in.Clusters[0].Annotations = true, nil }
	out := rulestest.Pure(t, grant.Decide, grantInput(knownTo(hub), found(), recovering(t, hub, mine), deleted))
	if out.Stage != grant.TakeoverPending || out.Message != want {
		t.Errorf("stage %s, message %q", out.Stage, out.Message)
	}
}

// replayed is the request of which the request is a copy. It is a minute older.
func replayed(modifiers ...func(*fleet.ClusterRegistration)) *fleet.ClusterRegistration {
	r := aRequest(append([]func(*fleet.ClusterRegistration){requestNamed("original"), requestMadeAt(rulestest.At(-90 * time.Second))}, modifiers...)...)
	r.UID, r.Spec = "u-original", aRequest().Spec
	return r
}

func TestRecovery_IsForTheRecoveryAccount(t *testing.T) {
	hub, mine := agentKey(t), agentKey(t)
	in := grantInput(knownTo(hub), registered(requestTokenUID("u1")), pinned(mine), imported, recovering(t, hub, mine))
	var subjects []rbacv1.Subject
	for _, object := range rulestest.Pure(t, grant.Decide, in).CredentialAccess {
		if binding, ok := object.(*rbacv1.RoleBinding); ok {
			subjects = binding.Subjects
		}
	}
	if len(subjects) != 1 || subjects[0].Name != "fleet-recovery" || subjects[0].Namespace != in.Request.Namespace {
		t.Errorf("readers %v", subjects)
	}
}

func TestProofForTheHub_CountsOnlyThere(t *testing.T) {
	hub, other, mine := agentKey(t), agentKey(t), agentKey(t)
	for name, test := range map[string]struct {
		signedFor string
		want      grant.Stage
	}{
		"this hub: granted":     {identity.Thumbprint(hub.Public()), grant.AwaitingRights},
		"no hub: granted":       {"", grant.AwaitingRights},
		"another hub: deleted":  {identity.Thumbprint(other.Public()), grant.Unproven},
		"not a hub: is deleted": {"x", grant.Unproven},
	} {
		t.Run(name, func(t *testing.T) {
			in := grantInput(knownTo(hub), registered(requestTokenUID("u1")), pinned(mine), recovering(t, hub, mine))
			proof, err := mine.Prove(identity.Claims{ClientID: in.Request.Spec.ClientID, ClientRandom: in.Request.Spec.ClientRandom, Account: "recovery", Hub: test.signedFor})
			if err != nil {
				t.Fatal(err)
			}
			annotate(&in, annotation.AgentProof, proof)
			if out := rulestest.Pure(t, grant.Decide, in); out.Stage != test.want {
				t.Errorf("stage %s, want %s", out.Stage, test.want)
			}
		})
	}
}

func TestReadmission_CreatesTheClusterOfTheTicket(t *testing.T) {
	hub, mine, other := agentKey(t), agentKey(t), agentKey(t)
	in := grantInput(knownTo(hub), recovering(t, hub, mine, func(k *identity.Ticket) { k.Paused = true }))
	out := rulestest.Pure(t, grant.Decide, in)
	if out.Stage != grant.AwaitingCluster {
		t.Fatalf("stage %s", out.Stage)
	}
	made := out.CreateCluster
	if made.Name != "east" || made.Namespace != in.Request.Namespace || made.Spec.ClientID != in.Request.Spec.ClientID || !made.Spec.Paused ||
		made.Annotations[annotation.AgentKey] != mine.Public() || made.Labels["env"] != "dev" || made.Labels[fleet.LabelTokenUID] != "u1" {
		t.Errorf("Cluster %+v", made.ObjectMeta)
	}
	for name, change := range map[string]func(*grant.Input){
		"expired ticket":              recovering(t, hub, mine, func(k *identity.Ticket) { k.Time = k.Time.Add(-identity.TicketLife) }),
		"ticket of another hub":       recovering(t, other, mine),
		"ticket of another workspace": recovering(t, hub, mine, func(k *identity.Ticket) { k.Workspace = "other" }),
		"ticket of another client ID": recovering(t, hub, mine, func(k *identity.Ticket) { k.ClientID = "other" }),
		"ticket of another key":       recovering(t, hub, mine, func(k *identity.Ticket) { k.Key = identity.Thumbprint(other.Public()) }),
		"the Cluster was deleted":     func(in *grant.Input) { in.Recovery.Deleted = true },
		"readmission is off":          func(in *grant.Input) { in.Recovery.Readmit = false },
		"the hub has no key":          func(in *grant.Input) { in.Recovery.Hub = "" },
		"the name belongs to another one": func(in *grant.Input) {
			in.Recovery.Named = rulestest.ACluster(func(c *fleet.Cluster) { c.Spec.ClientID = "other" })
		},
	} {
		t.Run(name+": deleted", func(t *testing.T) {
			in := grantInput(knownTo(hub), recovering(t, hub, mine), change)
			if out := rulestest.Pure(t, grant.Decide, in); out.Stage != grant.Unproven {
				t.Errorf("stage %s", out.Stage)
			}
		})
	}
}

func TestAlternatingRecoveries_Wait(t *testing.T) {
	hub, mine := agentKey(t), agentKey(t)
	at := func(ago time.Duration) string { return rulestest.Noon().Add(-ago).UTC().Format(time.RFC3339) }
	recovered := func(value string) func(*grant.Input) {
		return func(in *grant.Input) { in.Clusters[0].Annotations[annotation.RecoveredBy] = value }
	}
	for name, test := range map[string]struct {
		before, pod string
		want        grant.Stage
	}{
		"first":                       {"", "a", grant.AwaitingRights},
		"second of the same pod":      {"a=" + at(time.Minute), "a", grant.AwaitingRights},
		"of another pod":              {"a=" + at(time.Minute), "b", grant.AwaitingRights},
		"A, B, A":                     {"a=" + at(2*time.Minute) + ",b=" + at(time.Minute), "a", grant.TakeoverPending},
		"A, B, B":                     {"a=" + at(2*time.Minute) + ",b=" + at(time.Minute), "b", grant.AwaitingRights},
		"A, B, C":                     {"a=" + at(2*time.Minute) + ",b=" + at(time.Minute), "c", grant.AwaitingRights},
		"A, B, A, the first long ago": {"a=" + at(25*time.Hour) + ",b=" + at(time.Minute), "a", grant.AwaitingRights},
		"damaged record":              {"a,b=x,=" + at(0), "a", grant.AwaitingRights},
		"no pod":                      {"a=" + at(2*time.Minute) + ",b=" + at(time.Minute), "", grant.AwaitingRights},
		"a pod with a strange name":   {"a=" + at(2*time.Minute) + ",b=" + at(time.Minute), "a,b=", grant.AwaitingRights},
		"strange pod in the record":   {"a=" + at(2*time.Minute) + ",run rm -rf=" + at(time.Minute), "a", grant.AwaitingRights},
		"record of a megabyte":        {strings.Repeat("x", 1<<20) + ",a=" + at(2*time.Minute) + ",b=" + at(time.Minute), "a", grant.AwaitingRights},
	} {
		t.Run(name, func(t *testing.T) {
			in := grantInput(knownTo(hub), registered(requestTokenUID("u1")), pinned(mine), recovered(test.before), recovering(t, hub, mine))
			in.Now = rulestest.Noon()
			in.Request.CreationTimestamp.Time = in.Now
			in.Request.Spec.ClusterLabels = map[string]string{fleet.LabelCreatedByAgentPod: test.pod}
			out := rulestest.Pure(t, grant.Decide, in)
			if out.Stage != test.want {
				t.Fatalf("stage %s, want %s", out.Stage, test.want)
			}
			if out.Stage == grant.TakeoverPending && (!strings.Contains(out.Message, "pods b and a") || len(out.Alternating) != 2) {
				t.Errorf("message %q", out.Message)
			}
			confirmedHere(&in)
			if out := rulestest.Pure(t, grant.Decide, in); out.Stage != grant.AwaitingRights {
				t.Errorf("confirmed: stage %s", out.Stage)
			}
		})
	}
}

// A client that has read an old recovery request can create it again, with another pod and whatever its proof does not
// cover. Only the holder of the key can use the answer.
func TestRecovery_IsRecordedWhenItsAnswerIsUsed(t *testing.T) {
	type mod = func(*grant.Input)
	hub, mine := agentKey(t), agentKey(t)
	at := func(ago time.Duration) string { return rulestest.Noon().Add(-ago).UTC().Format(time.RFC3339) }
	now := "a=" + at(30*time.Second)
	by := func(account string) mod { return func(in *grant.Input) { in.HeartbeatAccount = account } }
	pod := func(pod string) mod {
		return func(in *grant.Input) {
			in.Request.Spec.ClusterLabels = map[string]string{fleet.LabelCreatedByAgentPod: pod}
		}
	}
	recorded := func(value string) mod {
		return func(in *grant.Input) {
			metav1.SetMetaDataAnnotation(&in.Named.ObjectMeta, annotation.RecoveredBy, value)
		}
	}
	for name, test := range map[string]struct {
		given mod
		want  string
	}{
		"its account reports: recorded":                  {by("account-1"), now},
		"known to be used: recorded":                     {func(in *grant.Input) { in.UsedBy = "account-1" }, now},
		"another account reports: not recorded":          {by("account-0"), ""},
		"unknown who reports: not recorded":              {by(""), ""},
		"another pod is recorded: added":                 {both(by("account-1"), recorded("b="+at(time.Minute))), "b=" + at(time.Minute) + "," + now},
		"two others are recorded: the last one stays":    {both(by("account-1"), recorded("a="+at(time.Hour)+",b="+at(time.Minute))), "b=" + at(time.Minute) + "," + now},
		"the same pod is recorded: not recorded again":   {both(by("account-1"), recorded("a="+at(time.Minute))), ""},
		"a younger request is recorded: it is replaced":  {both(by("account-1"), recorded("b="+at(time.Second))), ""},
		"older than a day: not recorded":                 {both(by("account-1"), later(25*time.Hour)), ""},
		"recorded a day ago: forgotten":                  {both(by("account-1"), recorded("b="+at(25*time.Hour))), now},
		"strange record: replaced":                       {both(by("account-1"), recorded("x y="+at(time.Minute))), now},
		"record of a megabyte: replaced":                 {both(by("account-1"), recorded(strings.Repeat("b="+at(time.Minute)+",", 1<<15))), now},
		"pod with a strange name: not recorded":          {both(by("account-1"), pod("a b")), ""},
		"pod with a name of 64 characters: not recorded": {both(by("account-1"), pod(strings.Repeat("a", 64))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := grantInput(knownTo(hub), recovering(t, hub, mine), requestAccount, requestRights, named(rulestest.ClusterSeen(rulestest.At(-time.Second))), pod("a"))
			requestGranted(in.Request)
			annotate(&in, annotation.LastSeenAtGrant, at(time.Hour))
			annotate(&in, annotation.AgentKeyAtGrant, mine.Public())
			metav1.SetMetaDataAnnotation(&in.Named.ObjectMeta, annotation.AgentKey, mine.Public())
			credential(rulestest.BoundJWT("account-1", time.Time{}))(&in)
			if err := grant.Seal(in.Credential, mine.Public(), "account-1"); err != nil {
				t.Fatal(err)
			}
			test.given(&in)
			out := rulestest.Pure(t, grant.Decide, in)
			if out.Stage != grant.Done || out.RecoveredBy != test.want || slices.Contains(out.Writes, grant.RecordRecovery) != (test.want != "") {
				t.Errorf("stage %s, recovered by %.200q, want %q, writes %v", out.Stage, out.RecoveredBy, test.want, out.Writes)
			}
		})
	}
}

func TestSealedAnswer_IsForItsKey(t *testing.T) {
	mine, other := agentKey(t), agentKey(t)
	secret := &corev1.Secret{Data: map[string][]byte{"token": []byte("jwt")}}
	if err := grant.Seal(secret, mine.Public(), "u-account"); err != nil {
		t.Fatal(err)
	}
	if len(secret.Data) != 1 || secret.Annotations[annotation.CredentialAccount] != "u-account" {
		t.Errorf("%d keys, annotations %v", len(secret.Data), secret.Annotations)
	}
	if _, err := other.Open(string(secret.Data["encrypted"])); err == nil {
		t.Error("another key opens the answer")
	}
	document, err := mine.Open(string(secret.Data["encrypted"]))
	if err != nil || !strings.Contains(string(document), `"token"`) {
		t.Errorf("%v", err)
	}
}

// grantedHere means that the request was granted for the Cluster that is found.
func grantedHere(in *grant.Input) { in.Named = in.Clusters[0] }

func TestBlockedAgent_GetsNoOtherCredential(t *testing.T) {
	mine := agentKey(t)
	for name, test := range map[string]struct {
		modify func(*grant.Input)
		minted bool
	}{
		"not blocked": {func(*grant.Input) {}, true},
		"blocked":     {blocked(mine), false},
		"confirmed":   {func(in *grant.Input) { blocked(mine)(in); confirmedHere(in) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			in := grantInput(found(), with(requestGranted), requestAccount, requestRights, asked, test.modify, grantedHere)
			if out := rulestest.Pure(t, grant.Decide, in); (out.Mint != nil) != test.minted {
				t.Errorf("stage %s, mint %v", out.Stage, out.Mint)
			}
		})
	}
}

func TestConfirmation_EndsWhenItsRequestIsAnswered(t *testing.T) {
	mine := agentKey(t)
	in := grantInput(found(), with(requestGranted), requestAccount, requestRights, asked, credential(rulestest.BoundJWT("account-1", time.Time{})), pinned(mine), confirmedHere, grantedHere)
	out := rulestest.Pure(t, grant.Decide, in)
	if !out.EndConfirmation || !slices.Contains(out.Writes, grant.EndConfirmation) {
		t.Errorf("stage %s, writes %v", out.Stage, out.Writes)
	}
}
