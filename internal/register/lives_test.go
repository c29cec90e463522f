package register

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

var (
	errGone            = errors.New("connection refused")
	errUntrusted error = x509.UnknownAuthorityError{}
)

// testdata/FILE.golden has the story of each row: what the agent, the hub and the admin do, in order.
func TestFailureStories_MatchTheGoldens(t *testing.T) {
	tests := map[string]struct {
		file  string
		story func(t *testing.T, w *world)
	}{
		"takeover waits, and is granted later": {"takeover-pending", func(_ *testing.T, w *world) {
			w.logs = true
			w.grant = grantPlan{rights: 245 * time.Second, account: 240 * time.Second, credential: 250 * time.Second}
			w.bootstrapSecret("import-1")
			w.run(10 * time.Minute)
			w.expectMissing(names.AgentBootstrap)
		}},
		"token is deleted while its request is pending: reported at once": {"token-ends-told", func(_ *testing.T, w *world) {
			w.logs = true
			w.grant = grantPlan{rights: time.Hour}
			w.later(20050*time.Millisecond, "hub", "deletes the token", func() { delete(w.tokens, "import-1") })
			w.bootstrapSecret("import-1")
			w.run(time.Hour)
		}},
		"busy hub answers with Retry-After": {"too-busy", func(_ *testing.T, w *world) {
			w.refuse = apierrors.NewTooManyRequests("too many requests", 40)
			w.later(2*time.Minute, "hub", "has time", func() { w.refuse = nil })
			w.bootstrapSecret("import-1")
			w.run(10 * time.Minute)
		}},
		"request is refused as invalid: repeated rarely, and at once when the labels are corrected": {"refused-as-invalid", func(_ *testing.T, w *world) {
			w.logs = true
			w.refuse = &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
				Message: "ValidatingAdmissionPolicy denied request: spec.clusterLabels is too large",
			}}
			w.configure(config.Agent{ClientID: "c1", Labels: map[string]string{"env": "too large"}})
			w.bootstrapSecret("import-1")
			w.later(time.Hour, "admin", "upgrades the chart with shorter labels", func() {
				w.refuse = nil
				w.configure(config.Agent{ClientID: "c1", Labels: map[string]string{"env": "dev"}})
			})
			w.run(2 * time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"hub is unreachable for ten minutes while the agent starts": {"gone-for-ten-minutes", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.later(time.Second, "hub", "goes down", func() { w.down = true; w.turnAway(0, errGone) })
			w.later(599*time.Second, "hub", "is back", func() { w.down = false })
			w.run(5 * time.Minute)
			w.run(time.Hour)
		}},
		"hub restored to before the registration, no bootstrap secret": {"restored-hub", func(_ *testing.T, w *world) {
			w.logs = true
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.later(time.Minute, "hub", "is restored from before the registration", func() { delete(w.accounts, "account-0"); w.turnAway(401, nil) })
			w.later(119*time.Second, "hub", "delivers a bootstrap secret", func() { w.bootstrapSecret("import-1") })
			w.run(time.Hour)
			w.expectMissing(names.AgentBootstrap)
		}},
		"credentials never work: requests become rarer": {"broken-grants", func(_ *testing.T, w *world) {
			for n := range 40 {
				w.doomed[fmt.Sprintf("account-%d", n)] = true
			}
			w.bootstrapSecret("import-1")
			w.run(20 * time.Minute)
		}},
		"agent's clock is an hour ahead": {"clock-ahead", func(_ *testing.T, w *world) {
			w.skew = time.Hour
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
		}},
		"agent's clock is an hour behind": {"clock-behind", func(_ *testing.T, w *world) {
			w.skew = -time.Hour
			w.bootstrapSecret("import-1")
			w.run(time.Minute)
		}},
		"work ends with a cancellation: the agent exits": {"work-canceled", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.ending = fmt.Errorf("a part: %w", context.Canceled)
			w.identitySecret("account-0")
			w.run(time.Minute)
		}},
		"work does not stop when the identity is lost: the agent exits": {"work-stuck", func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.deaf = true
			w.later(time.Minute, "hub", "deletes Secret fleet-agent", func() { w.remove(names.Agent) })
			w.run(time.Hour)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { inWorld(t, test.file, test.story) })
	}
}

// A canceled context must not look like a requested end.
func TestOutcome_IsNeverACancellation(t *testing.T) {
	for name, err := range map[string]error{"none": nil, "canceled": context.Canceled, "another": errGone} {
		t.Run(name, func(t *testing.T) {
			got := (&serving{err: err}).outcome()
			if got == nil || errors.Is(got, context.Canceled) {
				t.Errorf("outcome %v", got)
			}
		})
	}
}
