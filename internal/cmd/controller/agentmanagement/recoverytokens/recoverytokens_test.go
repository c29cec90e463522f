package recoverytokens

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/recoveries"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	reads   = "get Secret ws/fleet-recovery-token"
	reviews = "review token"
	mints   = "mint ws/fleet-recovery 10m0s"
	drops   = "delete Secret ws/fleet-recovery-token"
	deletes = "delete ServiceAccount ws/fleet-recovery"
)

var errServer = errors.New("the server is upset")

// start is a hub with the recovery account of a workspace and its token. Failed reviews are repeated once.
func start(t *testing.T) (*hubtest.Hub, *handler) {
	t.Helper()
	hub := hubtest.New(t)
	set := names.SetHash(recoveries.SetID, names.Owner{GVK: "/v1, Kind=Namespace", Name: "ws"})
	hub.Put(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ws", Name: "fleet-recovery", UID: "u1", Labels: map[string]string{fleet.LabelManaged: "true", fleet.LabelSetHash: set},
	}}, tokenSecret("u1"), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ws2", Name: "fleet-recovery", UID: "u2", Labels: map[string]string{fleet.LabelManaged: "true"}, // of another owner
	}})
	hub.Sync()
	pauses := 0
	return hub, newHandler(hub.App, flowcontrol.NewFakeAlwaysRateLimiter(), func(context.Context) bool {
		pauses++
		hub.Pass(again)
		hub.Sync()
		return pauses == 1
	})
}

func tokenSecret(account string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "fleet-recovery-token", UID: "u-secret", Annotations: map[string]string{
			corev1.ServiceAccountUIDKey: account, corev1.ServiceAccountNameKey: "fleet-recovery",
		}},
		Type: corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte(hubtest.Token(account, time.Time{}))},
	}
}

func stored(token string) bool { return token == hubtest.Token("u1", time.Time{}) }

func TestRecoveryToken_IsReplacedIfOnlyItIsRejected(t *testing.T) {
	tests := map[string]struct {
		prepare func(*hubtest.Hub)
		want    []string
	}{
		"token is accepted": {func(*hubtest.Hub) {}, []string{reads, reviews}},
		"token is rejected": {func(h *hubtest.Hub) { h.RejectTokens(stored) }, []string{reads, reviews, reads, reviews, mints, reviews, drops, deletes}},
		"token is rejected once": {func(h *hubtest.Hub) {
			rejections := 0
			h.RejectTokens(func(string) bool { rejections++; return rejections == 1 })
		}, []string{reads, reviews, reads, reviews}},
		"every token is rejected":               {func(h *hubtest.Hub) { h.RejectTokens(func(string) bool { return true }) }, []string{reads, reviews, reads, reviews, mints, reviews}},
		"token of an earlier account":           {func(h *hubtest.Hub) { h.Put(tokenSecret("u0")); h.Pass(newAccount + time.Second) }, []string{reads}},
		"token does not exist":                  {func(h *hubtest.Hub) { h.Remove(tokenSecret("u1")); h.Pass(newAccount + time.Second) }, []string{reads, deletes}},
		"token of a new account does not exist": {func(h *hubtest.Hub) { h.Remove(tokenSecret("u1")) }, []string{reads, reads}},
		"token of a new account is not filled": {func(h *hubtest.Hub) {
			empty := tokenSecret("u1")
			empty.Data = nil
			h.Put(empty)
		}, []string{reads, reads}},
		"token of an account that was new does not exist": {func(h *hubtest.Hub) {
			h.Remove(tokenSecret("u1"))
			h.Pass(newAccount - again/2)
		}, []string{reads, reads, deletes}},
		"Secret contains another token": {func(h *hubtest.Hub) {
			changed := tokenSecret("u1")
			changed.Data["token"] = []byte(hubtest.Token("u9", time.Time{}))
			h.Put(changed)
		}, []string{reads, drops, deletes}},
		"hub does not answer":     {func(h *hubtest.Hub) { h.Fail(reviews, errServer) }, []string{reads, reviews, reads, reviews}},
		"hub creates no token":    {func(h *hubtest.Hub) { h.RejectTokens(stored); h.Fail(mints, errServer) }, []string{reads, reviews, reads, reviews, mints}},
		"token cannot be deleted": {func(h *hubtest.Hub) { h.RejectTokens(stored); h.Fail(drops, errServer) }, []string{reads, reviews, reads, reviews, mints, reviews, drops}},
		"Secret cannot be read":   {func(h *hubtest.Hub) { h.Fail(reads, errServer) }, []string{reads, reads}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, h := start(t)
			test.prepare(hub)
			h.reviewAll(t.Context())
			got := strings.Join(hub.Requests(), "; ")
			if want := strings.Join(test.want, "; "); got != want {
				t.Errorf("requests\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// The account is deleted after its token Secret. Until then, the hub document contains the revoked token.
func TestRecoveryAccountThatCannotBeDeleted_IsDeletedAfterAMinute(t *testing.T) {
	hub, h := start(t)
	hub.Pass(newAccount + time.Second)
	changed := tokenSecret("u1")
	changed.Data["token"] = []byte(hubtest.Token("u9", time.Time{}))
	hub.Put(changed)
	hub.Fail(deletes, errServer)
	pause := h.pause
	h.pause = func(ctx context.Context) bool {
		hub.Fail(deletes, nil)
		return pause(ctx)
	}
	h.reviewAll(t.Context())
	if got, want := strings.Join(hub.Requests(), "; "), strings.Join([]string{reads, drops, deletes, reads, deletes}, "; "); got != want {
		t.Errorf("requests\n%s\nwant\n%s", got, want)
	}
}

func TestReplacedToken_IsNotRejectedByTheReviewOfItsPredecessor(t *testing.T) {
	hub, h := start(t)
	hub.RejectTokens(func(string) bool { return true })
	pause := h.pause
	h.pause = func(ctx context.Context) bool {
		replaced := tokenSecret("u1")
		replaced.Data["token"] = []byte(hubtest.Token("u1", hub.App.Clock().Add(time.Hour)))
		hub.Put(replaced)
		return pause(ctx)
	}
	h.reviewAll(t.Context())
	if got, want := strings.Join(hub.Requests(), "; "), strings.Join([]string{reads, reviews, reads, reviews}, "; "); got != want {
		t.Errorf("requests\n%s\nwant\n%s", got, want)
	}
}

// unlimited fails if a review is limited in time.
type unlimited struct{ flowcontrol.RateLimiter }

func (unlimited) Wait(ctx context.Context) error {
	if end, limited := ctx.Deadline(); limited {
		return fmt.Errorf("the reviews of many workspaces take longer than until %s", end)
	}
	return nil
}

// At one review a second, the second round of very many workspaces begins after half an hour.
func TestRejectedTokens_AreReplacedHoweverLongARoundTakes(t *testing.T) {
	hub, h := start(t)
	hub.RejectTokens(stored)
	h.pace = unlimited{}
	h.reviewAll(t.Context())
	if got := hub.Requests(); len(got) == 0 || got[len(got)-1] != deletes {
		t.Errorf("requests %q", got)
	}
}

func TestFailedReviews_AreLoggedOnceARound(t *testing.T) {
	hub, h := start(t)
	for _, workspace := range []string{"ws3", "ws4"} {
		set := names.SetHash(recoveries.SetID, names.Owner{GVK: "/v1, Kind=Namespace", Name: workspace})
		hub.Put(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Namespace: workspace, Name: "fleet-recovery", UID: types.UID(workspace), Labels: map[string]string{fleet.LabelManaged: "true", fleet.LabelSetHash: set},
		}})
		secret := tokenSecret(workspace)
		secret.Namespace = workspace
		hub.Put(secret)
	}
	hub.Sync()
	hub.RejectTokens(func(string) bool { return true })
	var log strings.Builder
	hub.App.Log = slog.New(slog.NewTextHandler(&log, nil))
	h.reviewAll(t.Context())
	if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); len(lines) != 2 || !strings.Contains(lines[1], "workspaces=3") || !strings.Contains(lines[1], errNoneAccepted.Error()) {
		t.Errorf("the log is\n%s", log.String())
	}
}
