// Package hubclient sends requests to a hub that a join text or a Secret names, and returns the hub's answer and time.
//
//	address, CA, token ─► New ─► Send ─► answer, or StatusError
//
// The token is sent only to a server whose certificate the CA has signed. No redirect is followed, and the part of an
// answer that is read is limited.
package hubclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/version"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// timeout limits each request.
	timeout = 15 * time.Second
	// AnswerLimit is how much of an answer is read. The schema of Fleet's kinds has less than half of it.
	AnswerLimit = 8 << 20
)

// Client sends requests to one hub.
type Client struct {
	base  *url.URL
	http  *http.Client
	clock func() time.Time
}

// New returns a client. An empty ca means the roots of this machine. Without a token the client is anonymous.
func New(address string, ca []byte, token string, clock func() time.Time) (*Client, error) {
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
	return &Client{base: base, clock: clock, http: &http.Client{
		Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return foreign.ErrRedirected },
	}}, nil
}

// StatusError is an answer that is not a success.
type StatusError struct {
	// Code is the HTTP status.
	Code int
	// Message is the text of the API server, bounded and in one line.
	Message string
	// isStatus means that the answer is a Status of Kubernetes.
	isStatus bool
}

// Error returns the status and the message.
func (e *StatusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the hub answered with status %d", e.Code)
	}
	return fmt.Sprintf("the hub answered with status %d: %s", e.Code, e.Message)
}

// HasCode reports whether an error is an answer with one of these HTTP statuses.
func HasCode(err error, codes ...int) bool {
	var status *StatusError
	return errors.As(err, &status) && slices.Contains(codes, status.Code)
}

// IsOfAPIServer reports whether an error is an answer of an API server, and not of a proxy in front of it.
func IsOfAPIServer(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && status.isStatus
}

// Response is what an answer contains besides its body.
type Response struct {
	// Offset is how far the server's clock is ahead of this one. Known is false if the server sent no time.
	Offset time.Duration
	Known  bool
	// Expires is when the server's certificate expires. It is zero if the connection is not encrypted.
	Expires time.Time
}

// ClockOf returns how far a server's clock is ahead of now, from the header of its answer.
func ClockOf(header http.Header, now time.Time) Response {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return Response{}
	}
	return Response{Offset: date.Sub(now), Known: true}
}

// ClockAt asks the API server of a configuration for its time. It returns the zero Response if there is no answer.
func ClockAt(ctx context.Context, cfg *rest.Config, clock func() time.Time) Response {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return Response{}
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return Response{}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), nil)
	if err != nil {
		return Response{}
	}
	answer, err := client.Do(request)
	if err != nil {
		return Response{}
	}
	_ = answer.Body.Close() // only the header counts
	return ClockOf(answer.Header, clock())
}

// Send sends a request and decodes the answer into result: a pointer to a struct, a *[]byte, or nil.
func (c *Client) Send(ctx context.Context, method, path, query string, body, result any) (Response, error) {
	request, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return Response{}, err
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return Response{}, foreign.Classify(err)
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(io.LimitReader(answer.Body, AnswerLimit+1))
	switch {
	case err != nil:
		return Response{}, foreign.Classify(err)
	case len(read) > AnswerLimit:
		return Response{}, errors.New("the hub's answer is too long")
	}
	info := ClockOf(answer.Header, c.clock())
	if answer.TLS != nil && len(answer.TLS.PeerCertificates) > 0 {
		info.Expires = answer.TLS.PeerCertificates[0].NotAfter
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		var status metav1.Status
		_ = json.Unmarshal(read, &status) // an answer of a proxy is not a Status
		return info, &StatusError{Code: answer.StatusCode, Message: foreign.Excerpt(status.Message, 512), isStatus: status.Kind == "Status"}
	}
	return info, decode(read, result)
}

func (c *Client) request(ctx context.Context, method, path, query string, body any) (*http.Request, error) {
	var sent io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(encoded)
	}
	target := c.base.JoinPath(path)
	target.RawQuery = query
	request, err := http.NewRequestWithContext(ctx, method, target.String(), sent)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	return request, nil
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

// Cause returns the text of an error without the URL of the request.
func Cause(err error) string {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	return err.Error()
}

// Seen is what the hub knows of an agent.
type Seen struct {
	// LastSeen is the time of the last heartbeat.
	LastSeen time.Time
	// Account is the UID of the account that sent it, or empty if that is unknown.
	Account string
}

// ReadOwnCluster reads the Cluster of an agent with the agent's own identity. An agent may only write the status of its
// Cluster, so this sends an empty change as a dry run, whose answer contains the Cluster.
func (c *Client) ReadOwnCluster(ctx context.Context, namespace, name string) (Seen, error) {
	var cluster fleet.Cluster
	path := fmt.Sprintf("apis/fleet.cattle.io/v1alpha1/namespaces/%s/clusters/%s/status", url.PathEscape(namespace), url.PathEscape(name))
	_, err := c.Send(ctx, http.MethodPatch, path, "dryRun=All&fieldManager=fleet", struct{}{}, &cluster)
	return Seen{LastSeen: cluster.Status.Agent.LastSeen.Time, Account: protocol.HeartbeatAccount(&cluster)}, err
}
