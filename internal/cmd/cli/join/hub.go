package join

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/version"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// hubTimeout limits each request to the hub.
	hubTimeout = 15 * time.Second
	// answerLimit is how much of an answer is read. The schema of Fleet's kinds has less than half of it.
	answerLimit = 8 << 20
)

// hubClient sends requests to a hub. It trusts only the CA of the join text, follows no redirect, and reads a bounded
// part of the answers.
type hubClient struct {
	base  *url.URL
	http  *http.Client
	clock func() time.Time
}

// newHubClient returns a client. Without a token it is anonymous.
func newHubClient(address string, ca []byte, token string, clock func() time.Time) (*hubClient, error) {
	cfg := &rest.Config{
		Host: address, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: ca}, UserAgent: "fleet/" + version.Version,
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, errors.New("the hub's URL is not valid")
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, errors.New("the hub's CA is not valid")
	}
	return &hubClient{base: base, clock: clock, http: &http.Client{
		Transport: transport, Timeout: hubTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return foreign.ErrRedirected },
	}}, nil
}

// statusError is an answer that is not a success.
type statusError struct {
	code    int
	message string
}

func (e *statusError) Error() string {
	if e.message == "" {
		return fmt.Sprintf("the hub answered with status %d", e.code)
	}
	return fmt.Sprintf("the hub answered with status %d: %s", e.code, e.message)
}

func hasCode(err error, codes ...int) bool {
	var status *statusError
	if !errors.As(err, &status) {
		return false
	}
	for _, code := range codes {
		if status.code == code {
			return true
		}
	}
	return false
}

// response is what an answer contains besides its body.
type response struct {
	// offset is how far the server's clock is ahead of this one. known is false if the server sent no time.
	offset time.Duration
	known  bool
}

// send sends a request and decodes the answer into result: a pointer to a struct, a *[]byte, or nil.
func (c *hubClient) send(ctx context.Context, method, path, query string, body, result any) (response, error) {
	var sent io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return response{}, err
		}
		sent = bytes.NewReader(encoded)
	}
	target := c.base.JoinPath(path)
	target.RawQuery = query
	request, err := http.NewRequestWithContext(ctx, method, target.String(), sent)
	if err != nil {
		return response{}, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return response{}, foreign.Classify(err)
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(io.LimitReader(answer.Body, answerLimit+1))
	switch {
	case err != nil:
		return response{}, foreign.Classify(err)
	case len(read) > answerLimit:
		return response{}, errors.New("the hub's answer is too long")
	}
	info := response{}
	if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		info.offset, info.known = date.Sub(c.clock()), true
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		var status metav1.Status
		_ = json.Unmarshal(read, &status) // an answer of a proxy is not a Status
		return info, &statusError{answer.StatusCode, foreign.Excerpt(status.Message, 512)}
	}
	return info, decode(read, result)
}

func decode(read []byte, result any) error {
	if raw, ok := result.(*[]byte); ok {
		*raw = read
		return nil
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(read, result); err != nil {
		return errors.New("the hub's answer is not JSON")
	}
	return nil
}

// hubReport is what phase 2 found out.
type hubReport struct {
	// version is that of its Kubernetes. product names who runs there.
	version, product string
	clock            response
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
	anonymous, err := newHubClient(text.URL, []byte(text.CA), "", clock)
	if err != nil {
		return report, exit.Errorf(exit.Preflight, "%w", err)
	}
	var found apimachineryversion.Info
	report.clock, err = anonymous.send(ctx, http.MethodGet, "version", "", nil, &found)
	if err != nil && !hasCode(err, http.StatusUnauthorized, http.StatusForbidden) {
		return report, hubProblem(text, err)
	}
	client, err := newHubClient(text.URL, []byte(text.CA), text.Token, clock)
	if err != nil {
		return report, exit.Errorf(exit.Preflight, "%w", err)
	}
	if err := report.checkToken(ctx, client, text); err != nil {
		return report, err
	}
	if found.GitVersion == "" {
		if _, err := client.send(ctx, http.MethodGet, "version", "", nil, &found); err != nil {
			return report, hubProblem(text, err)
		}
	}
	report.version = output.Line(foreign.Excerpt(found.GitVersion, 64))
	if err := report.checkProduct(ctx, client, text); err != nil {
		return report, err
	}
	return report, checkRight(ctx, client, text)
}

// checkToken asks the hub whom the token belongs to.
func (r *hubReport) checkToken(ctx context.Context, client *hubClient, text jointext.Text) error {
	review := authenticationv1.SelfSubjectReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"}}
	_, err := client.send(ctx, http.MethodPost, "apis/authentication.k8s.io/v1/selfsubjectreviews", "", &review, &review)
	switch {
	case hasCode(err, http.StatusUnauthorized):
		return rejected(text)
	case hasCode(err, http.StatusNotFound, http.StatusForbidden): // before Kubernetes 1.28: checkRight tries the token
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

// renew returns the command that creates another token like that of the text.
func renew(text jointext.Text) string {
	return fmt.Sprintf("on the hub: fleet token create NAME --cluster CLUSTER -n %s", text.Workspace)
}

// checkProduct finds out whose CRDs the hub has.
func (r *hubReport) checkProduct(ctx context.Context, client *hubClient, text jointext.Text) error {
	var schema []byte
	_, err := client.send(ctx, http.MethodGet, "openapi/v3/apis/fleet.cattle.io/v1alpha1", "", nil, &schema)
	switch {
	case hasCode(err, http.StatusNotFound):
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
func checkRight(ctx context.Context, client *hubClient, text jointext.Text) error {
	review := authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: text.Workspace, Verb: "create", Group: fleet.SchemeGroupVersion.Group, Resource: "clusterregistrations",
		}},
	}
	_, err := client.send(ctx, http.MethodPost, "apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "", &review, &review)
	switch {
	case hasCode(err, http.StatusUnauthorized):
		return rejected(text)
	case err != nil && !hasCode(err, http.StatusForbidden):
		return hubProblem(text, err)
	case err == nil && review.Status.Allowed:
		return nil
	}
	return rejected(text) // for some seconds after its account was deleted, the API server still knows a token
}

func rejected(text jointext.Text) error {
	return exit.Errorf(exit.Preflight, "the hub does not accept the token %s/%s: it was revoked or has expired, or its workspace was deleted", text.Workspace, text.TokenName).
		Because(fleet.ReasonTokenRejected).With(renew(text))
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
			Because(fleet.ReasonTLSUntrusted).With("set apiServerURL of the chart fleet on the hub to a name of the certificate, then print the text again: fleet token show TOKEN --with-secret")
	case errors.Is(err, foreign.ErrExpired):
		return failure("the certificate of %s has expired or is not valid yet, or the clock of this machine is wrong", text.URL).
			Because(fleet.ReasonTLSUntrusted).With("date, then renew the certificate of the hub's API server")
	case errors.Is(err, foreign.ErrUntrusted):
		return failure("the server at %s does not have the hub's CA (%s): another server answers there, or the hub's CA was replaced. The token was not sent", text.URL, text.Fingerprint()).
			Because(fleet.ReasonTLSUntrusted).With("compare with the value that the hub prints now: fleet token show TOKEN --with-secret")
	case errors.Is(err, foreign.ErrRedirected):
		return failure("the server at %s redirects, which is not followed. Use the address of the API server itself", text.URL).
			With("set apiServerURL of the chart fleet on the hub, then print the text again: fleet token show TOKEN --with-secret")
	case errors.Is(err, foreign.ErrUnreachable):
		return failure("no server answers at %s: %s", text.URL, foreign.Excerpt(cause(err), 300)).
			With("check that this machine and the cluster's pods reach the address; it is apiServerURL of the chart fleet on the hub")
	}
	return failure("asking the hub at %s: %s", text.URL, foreign.Excerpt(cause(err), 512)).With("run the command again")
}

// cause returns the text of an error without the URL of the request.
func cause(err error) string {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	return err.Error()
}

// seen is what the hub knows of an agent.
type seen struct {
	lastSeen time.Time
	// speaker is the UID of the account of the last heartbeat, or empty.
	speaker string
}

// lookAtCluster reads the Cluster of an agent with the agent's own identity. An agent may only write the status of its
// Cluster, so this sends an empty change as a dry run, whose answer contains the Cluster.
func lookAtCluster(ctx context.Context, client *hubClient, identity protocol.Identity) (seen, error) {
	var cluster fleet.Cluster
	path := fmt.Sprintf("apis/fleet.cattle.io/v1alpha1/namespaces/%s/clusters/%s/status", url.PathEscape(identity.ClusterNamespace), url.PathEscape(identity.ClusterName))
	_, err := client.send(ctx, http.MethodPatch, path, "dryRun=All&fieldManager=fleet-join", struct{}{}, &cluster)
	return seen{lastSeen: cluster.Status.Agent.LastSeen.Time, speaker: protocol.Speaker(&cluster)}, err
}
