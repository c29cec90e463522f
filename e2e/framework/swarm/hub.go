package swarm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/kube"
)

// requestTimeout limits a request other than a watch, as in the project's agent.
const requestTimeout = kube.RequestTimeout

// fleetAPI is the path of the API group fleet.cattle.io.
const fleetAPI = "/apis/fleet.cattle.io/v1alpha1/"

// UserAgent is the user agent of all requests of a swarm.
const UserAgent = "fleet-swarm"

// Identities of an agent.
const (
	importing = "import"
	granted   = "request"
)

// hub sends JSON requests to the hub over the agent's only connection.
type hub struct {
	url    string
	client *http.Client
	counts *counts
}

// call describes one request.
type call struct {
	as, token      string // the identity and its bearer token
	verb, resource string // the API server's terms
	path           string // with the query
	mediaType      string // of the body; the default is JSON
	body           []byte
	opened         func() // called when a watch is answered; may be nil
}

// object contains the fields of every object that agents use.
type object struct {
	Metadata struct {
		Name              string       `json:"name"`
		UID               types.UID    `json:"uid"`
		ResourceVersion   string       `json:"resourceVersion"`
		DeletionTimestamp *metav1.Time `json:"deletionTimestamp"`
	} `json:"metadata"`
}

// version returns the numeric resource version, or zero if it is not a number.
func (o object) version() uint64 {
	version, err := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// event is one event of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// do sends a request and decodes the response into into, unless that is nil.
func (h hub) do(ctx context.Context, c call, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := h.send(ctx, c)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was read, or is not needed
	if into == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// watch calls handle for each event, including bookmarks, until the server, ctx or handle ends the watch. io.EOF
// from handle is not an error.
func (h hub) watch(ctx context.Context, c call, handle func(event) error) error {
	answer, err := h.send(ctx, c)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // ends the watch
	if c.opened != nil {
		c.opened()
	}
	events := json.NewDecoder(answer.Body)
	for {
		var e event
		if err := events.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) || ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watching %s: %w", c.resource, err)
		}
		if e.Type == "ERROR" {
			return statusError(e.Object, http.StatusInternalServerError, c)
		}
		if err := handle(e); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// send returns a successful response. The caller closes its body.
func (h hub) send(ctx context.Context, c call) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method(c.verb), h.url+c.path, bytes.NewReader(c.body))
	if err != nil {
		return nil, fmt.Errorf("creating a request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", UserAgent)
	if c.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.mediaType != "" {
		request.Header.Set("Content-Type", c.mediaType)
	}
	answer, err := h.client.Do(request)
	if err != nil {
		h.counts.add(c, 0)
		return nil, err
	}
	h.counts.add(c, answer.StatusCode)
	if answer.StatusCode < http.StatusBadRequest {
		return answer, nil
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("reading an error response: %w", err)
	}
	return nil, statusError(text, answer.StatusCode, c)
}

// statusError returns the API server's Status as an error. Without a Status it returns the text with the code.
func statusError(text []byte, code int, c call) error {
	var status metav1.Status
	if json.Unmarshal(text, &status) == nil && status.Kind == "Status" {
		return &apierrors.StatusError{ErrStatus: status}
	}
	return apierrors.NewGenericServerResponse(code, c.verb, schema.GroupResource{Resource: c.resource}, "", string(text), 0, true)
}

func method(verb string) string {
	switch verb {
	case "create":
		return http.MethodPost
	case "update":
		return http.MethodPut
	case "patch":
		return http.MethodPatch
	}
	return http.MethodGet
}
