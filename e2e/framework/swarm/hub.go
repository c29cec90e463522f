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

// requestTimeout bounds a request that is no watch, as the project's agent does.
const requestTimeout = kube.RequestTimeout

// fleetAPI is where the kinds of fleet.cattle.io are.
const fleetAPI = "/apis/fleet.cattle.io/v1alpha1/"

// UserAgent is what all requests of a swarm call themselves.
const UserAgent = "fleet-swarm"

// Identities of an agent.
const (
	importing = "import"
	granted   = "request"
)

// hub is the hub's API as an agent reaches it: JSON over its one connection.
type hub struct {
	url    string
	client *http.Client
	counts *counts
}

// call is one request.
type call struct {
	as, token      string // which identity, and its bearer token
	verb, resource string // as the API server calls them
	path           string // with the query
	mediaType      string // of the body; empty: JSON
	body           []byte
	opened         func() // called when a watch is answered; nil: nobody is told
}

// object is what every object has; only what agents look at.
type object struct {
	Metadata struct {
		Name              string       `json:"name"`
		UID               types.UID    `json:"uid"`
		ResourceVersion   string       `json:"resourceVersion"`
		DeletionTimestamp *metav1.Time `json:"deletionTimestamp"`
	} `json:"metadata"`
}

// version grows with each change of one object; zero where the API server does not count.
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

// do sends a request and decodes its answer into what is given; nil drops it.
func (h hub) do(ctx context.Context, c call, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := h.send(ctx, c)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was read to its end, or is of no use
	if into == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// watch hands events on until the server, ctx or handle ends it: io.EOF of handle is no error. Bookmarks
// are handed on, too.
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

// send returns an answer that is no error; its body is the caller's to close.
func (h hub) send(ctx context.Context, c call) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method(c.verb), h.url+c.path, bytes.NewReader(c.body))
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
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
		return nil, fmt.Errorf("reading an error: %w", err)
	}
	return nil, statusError(text, answer.StatusCode, c)
}

// statusError is what the API server says in an error, or a text with its code where it says nothing.
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
