package hubclient

import (
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// AnswerOf maps an error of the hub to an Answer.
func AnswerOf(err error) registering.Answer {
	switch {
	case err == nil:
		return registering.Accepted
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return registering.Rejected
	case isUntrusted(err), errors.Is(err, kube.ErrNoCA):
		return registering.Untrusted
	}
	return registering.Unanswered
}

// LogRefusal logs an answer to the agent's credential that is not Accepted, with its error.
func LogRefusal(log *slog.Logger, answer registering.Answer, err error) {
	switch answer {
	case registering.Rejected:
		log.Warn("the hub rejects the agent's credential", "answer", answer, "error", err)
	case registering.Untrusted:
		log.Warn("the hub's certificate is not trusted", "answer", answer, "error", err)
	default:
		log.Warn("the hub does not answer whether it accepts the agent's credential", "answer", answer, "error", err)
	}
}

// isUntrusted reports whether the certificate is signed by a CA that the identity does not trust. An expired
// certificate or one for another host does not count: only the hub can fix it, not the agent.
func isUntrusted(err error) bool {
	var authority x509.UnknownAuthorityError
	return errors.As(err, &authority)
}

// SignalRejections returns a copy of cfg whose clients signal responses that may mean that the identity is rejected. It
// does not decide that: the missing right may be one that agents do not need.
func SignalRejections(cfg *rest.Config, rejected chan<- struct{}) *rest.Config {
	return kube.WrapTransport(cfg, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		turnedAway := err == nil && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden)
		if turnedAway || isUntrusted(err) {
			select {
			case rejected <- struct{}{}:
			default: // a signal is already pending
			}
		}
		return response, err
	})
}
