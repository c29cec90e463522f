package swarm

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

func TestAgentWithAKey_SignsItsRequestAndReportsTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recovery := protocol.Recovery{Token: keptToken(), Ticket: "ticket", HubKey: "hub", WorkspaceKey: []byte{1}}
		var made fleet.ClusterRegistration
		h := &fakeHub{gives: recovery.Encode(), refuse: func(r *http.Request, resource string, _ int) int {
			if resource == "registrations" {
				made = sentRegistration(t, r)
			}
			return 0
		}}
		values := testValues()
		values.Token = keptToken()
		a := play(t, h, Settings{Keyed: true, Values: &values})
		within(t, a, Joined)
		synctest.Wait()
		stored, joined := a.Identity()
		if diff := cmp.Diff(recovery, stored.Recovery); !joined || diff != "" {
			t.Errorf("joined %t, recovery (-want +got):\n%s", joined, diff)
		}
		public := stored.Key.Public()
		if made.Annotations[annotation.AgentRenews] != "true" || made.Annotations[annotation.AgentKey] != public || identity.CheckPublic(public) != nil {
			t.Errorf("annotations %v, key %s", made.Annotations, public)
		}
		claims := identity.Claims{ClientID: "c", ClientRandom: made.Spec.ClientRandom, Account: "uid-1"}
		if err := identity.Verify(public, made.Annotations[annotation.AgentProof], claims); err != nil {
			t.Error(err)
		}
		if beat := h.lines("/clusters/")[0]; !strings.Contains(beat, `"recoveryKey":"`+public) {
			t.Errorf("heartbeat %s", beat)
		}
	})
}

// sentRegistration returns the body of a request.
func sentRegistration(t *testing.T, r *http.Request) (sent fleet.ClusterRegistration) {
	t.Helper()
	body, err := r.GetBody()
	if err == nil {
		err = json.NewDecoder(body).Decode(&sent)
	}
	if err != nil {
		t.Error(err)
	}
	return sent
}

func TestAgentWithoutAKey_HasNoIdentityToKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := play(t, &fakeHub{}, Settings{})
		within(t, a, Joined)
		if stored, joined := a.Identity(); joined {
			t.Errorf("identity %+v", stored)
		}
	})
}
