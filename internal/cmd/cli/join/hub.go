package join

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apimachineryversion "k8s.io/apimachinery/pkg/version"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubclient"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// hubReport is what phase 2 found out.
type hubReport struct {
	// version is that of its Kubernetes. product names who runs there.
	version, product string
	clock            hubclient.Response
	// account is the namespace and the name of the account of the token, and uid its UID.
	namespace, account, uid string
}

// productOurs and productRancher name hubs.
const (
	productOurs    = "this project's CRDs"
	productRancher = "Rancher Fleet's CRDs"
)

// ownField is a field of Clusters that Rancher Fleet's CRDs do not have.
const ownField = `"kubernetesVersion"`

// checkHub proves that the server is the hub of the text, before it sends the token, and that the token lets clusters
// register.
func checkHub(ctx context.Context, text jointext.Text, clock func() time.Time) (hubReport, error) {
	report := hubReport{}
	anonymous, err := hubclient.New(text.URL, []byte(text.CA), "", clock)
	if err != nil {
		return report, exit.Errorf(exit.Preflight, "%w", err)
	}
	var found apimachineryversion.Info
	report.clock, err = anonymous.Send(ctx, http.MethodGet, "version", "", nil, &found)
	if err != nil && !hubclient.HasCode(err, http.StatusUnauthorized, http.StatusForbidden) {
		return report, hubProblem(text, err)
	}
	client, err := hubclient.New(text.URL, []byte(text.CA), text.Token, clock)
	if err != nil {
		return report, exit.Errorf(exit.Preflight, "%w", err)
	}
	if err := report.checkToken(ctx, client, text); err != nil {
		return report, err
	}
	if found.GitVersion == "" {
		if _, err := client.Send(ctx, http.MethodGet, "version", "", nil, &found); err != nil {
			return report, hubProblem(text, err)
		}
	}
	report.version = foreign.Excerpt(found.GitVersion, 64)
	if err := report.checkProduct(ctx, client, text); err != nil {
		return report, err
	}
	return report, checkRight(ctx, client, text)
}

// checkToken asks the hub whom the token belongs to.
func (r *hubReport) checkToken(ctx context.Context, client *hubclient.Client, text jointext.Text) error {
	review := authenticationv1.SelfSubjectReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"}}
	_, err := client.Send(ctx, http.MethodPost, "apis/authentication.k8s.io/v1/selfsubjectreviews", "", &review, &review)
	switch {
	case hubclient.HasCode(err, http.StatusUnauthorized):
		return rejected(text)
	case hubclient.HasCode(err, http.StatusNotFound, http.StatusForbidden): // before Kubernetes 1.28: checkRight tries the token
		return nil
	case err != nil:
		return hubProblem(text, err)
	}
	name, found := strings.CutPrefix(review.Status.UserInfo.Username, "system:serviceaccount:")
	if namespace, account, ok := strings.Cut(name, ":"); found && ok {
		r.namespace, r.account, r.uid = namespace, account, review.Status.UserInfo.UID
	}
	return nil
}

// checkProduct finds out whose CRDs the hub has.
func (r *hubReport) checkProduct(ctx context.Context, client *hubclient.Client, text jointext.Text) error {
	var schema []byte
	_, err := client.Send(ctx, http.MethodGet, "openapi/v3/apis/fleet.cattle.io/v1alpha1", "", nil, &schema)
	switch {
	case hubclient.HasCode(err, http.StatusNotFound):
		return exit.Errorf(exit.Preflight, "%s is not a hub: its API server does not have the API fleet.cattle.io", text.URL).
			With("check apiServerURL of the chart fleet on the hub, then print the text again")
	case err != nil: // not decisive: the right to register is checked next
		r.product = "an unknown version of Fleet"
	case bytes.Contains(schema, []byte(ownField)):
		r.product = productOurs
	default:
		r.product = productRancher
	}
	return nil
}

// checkRight asks whether the token lets a cluster register in the workspace.
func checkRight(ctx context.Context, client *hubclient.Client, text jointext.Text) error {
	review := authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: text.Workspace, Verb: "create", Group: fleet.SchemeGroupVersion.Group, Resource: "clusterregistrations",
		}},
	}
	_, err := client.Send(ctx, http.MethodPost, "apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "", &review, &review)
	switch {
	case hubclient.HasCode(err, http.StatusUnauthorized):
		return rejected(text)
	case err != nil && !hubclient.HasCode(err, http.StatusForbidden):
		return hubProblem(text, err)
	case err == nil && review.Status.Allowed:
		return nil
	}
	return rejected(text) // for some seconds after its account was deleted, the API server still knows a token
}

func rejected(text jointext.Text) error {
	return exit.Errorf(exit.Preflight, "the hub does not accept the token %s/%s: it was revoked or has expired, or its workspace was deleted", text.Workspace, text.TokenName).
		Because(conditions.ReasonTokenRejected).With(text.Renewal())
}

// shown returns the command on the hub that prints the text again.
func shown(text jointext.Text) string {
	return "fleet token show " + text.TokenName + " -n " + text.Workspace + " --with-secret"
}

// hubProblem returns the error for a hub that cannot be used.
func hubProblem(text jointext.Text, err error) error {
	var host x509.HostnameError
	failure := func(format string, args ...any) *exit.Error { return exit.Errorf(exit.Preflight, format, args...) }
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &host):
		return failure("the certificate of %s is for other names than that of the URL: %s", text.URL, foreign.Excerpt(host.Error(), 300)).
			Because(conditions.ReasonTLSUntrusted).With("set apiServerURL of the chart fleet on the hub to a name of the certificate, then print the text again: " + shown(text))
	case errors.Is(err, foreign.ErrExpired):
		return failure("the certificate of %s has expired or is not valid yet, or the clock of this machine is wrong", text.URL).
			Because(conditions.ReasonTLSUntrusted).With("check the clock of this machine: date", "on the hub, renew the certificate of the API server, with kubeadm: kubeadm certs renew apiserver")
	case errors.Is(err, foreign.ErrUntrusted):
		return failure("the server at %s does not have the hub's CA (%s): another server answers there, or the hub's CA was replaced. The token was not sent", text.URL, text.Fingerprint()).
			Because(conditions.ReasonTLSUntrusted).With("compare with the value that the hub prints now: " + shown(text))
	case errors.Is(err, foreign.ErrRedirected):
		return failure("the server at %s redirects, which is not followed. Use the address of the API server itself", text.URL).
			With("set apiServerURL of the chart fleet on the hub, then print the text again: " + shown(text))
	case errors.Is(err, foreign.ErrUnreachable):
		return failure("no server answers at %s: %s", text.URL, foreign.Excerpt(hubclient.Cause(err), 300)).
			With("check that this machine and the cluster's pods reach the address; it is apiServerURL of the chart fleet on the hub")
	}
	return failure("asking the hub at %s: %s", text.URL, foreign.Excerpt(hubclient.Cause(err), 512)).With("run the command again")
}
