package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// Client sends requests to one machine host. Its methods may be called from any goroutine. They return when the host
// has answered or ctx is done.
type Client struct {
	http *http.Client
}

// NewClient returns a client for the host at a Unix socket. It does not connect yet.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return conn, nil
	}
	// A new connection per request never meets a connection that a restarted host has closed.
	return &Client{http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}}
}

// CreateMachine creates a machine and returns without waiting for its bootstrapping. If the same machine exists, it
// returns its status. The error wraps ErrConflict if the ID exists with other wishes or the endpoint belongs to
// another machine, and ErrNotFound if the endpoint does not exist.
func (c *Client) CreateMachine(ctx context.Context, id string, wanted Machine) (Status, error) {
	var status Status
	err := c.about(ctx, http.MethodPut, "machines", id, "", wanted, &status)
	return status, err
}

// Machine returns a machine's status. The error wraps ErrNotFound if it does not exist.
func (c *Client) Machine(ctx context.Context, id string) (Status, error) {
	var status Status
	err := c.about(ctx, http.MethodGet, "machines", id, "", nil, &status)
	return status, err
}

// Machines returns the status of all machines, sorted by ID.
func (c *Client) Machines(ctx context.Context) ([]Status, error) {
	var all []Status
	err := c.send(ctx, http.MethodGet, "/machines", nil, &all)
	return all, err
}

// DeleteMachine ends a machine's processes and removes its folder. It returns when this is done, usually within
// seconds, and returns nil if the machine does not exist. After an error, repeat it.
func (c *Client) DeleteMachine(ctx context.Context, id string) error {
	return c.about(ctx, http.MethodDelete, "machines", id, "", nil, nil)
}

// Log returns the end of a machine's logs, at most MaxLog bytes: what its commands and services have written.
func (c *Client) Log(ctx context.Context, id string) ([]byte, error) {
	var text []byte
	err := c.about(ctx, http.MethodGet, "machines", id, "/log", nil, &text)
	return text, err
}

// ReserveEndpoint reserves a port of 127.0.0.1 and returns its address. The same ID returns the same address until
// FreeEndpoint.
func (c *Client) ReserveEndpoint(ctx context.Context, id string) (host string, port int, err error) {
	var endpoint Endpoint
	err = c.about(ctx, http.MethodPut, "endpoints", id, "", nil, &endpoint)
	return endpoint.Host, endpoint.Port, err
}

// Endpoints returns all reserved endpoints, sorted by ID.
func (c *Client) Endpoints(ctx context.Context) ([]Endpoint, error) {
	var all []Endpoint
	err := c.send(ctx, http.MethodGet, "/endpoints", nil, &all)
	return all, err
}

// FreeEndpoint frees the port. It returns nil if the endpoint does not exist. The error wraps ErrConflict while a
// machine has the endpoint.
func (c *Client) FreeEndpoint(ctx context.Context, id string) error {
	return c.about(ctx, http.MethodDelete, "endpoints", id, "", nil, nil)
}

// about sends a request about one object. suffix is the rest of the path.
func (c *Client) about(ctx context.Context, method, kind, id, suffix string, body, out any) error {
	if err := CheckID(id); err != nil {
		return err
	}
	return c.send(ctx, method, "/"+kind+"/"+id+suffix, body, out)
}

// send sends a request and decodes the answer into out: JSON, or plain text into a *[]byte. out may be nil.
func (c *Client) send(ctx context.Context, method, path string, body, out any) error {
	if err := c.exchange(ctx, method, path, body, out); err != nil {
		return fmt.Errorf("sending %s %s to the machine host: %w", method, path, err)
	}
	return nil
}

func (c *Client) exchange(ctx context.Context, method, path string, body, out any) error {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://machine-host"+path, content)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, ErrUnavailable) {
			err = fmt.Errorf("%w: %w", ErrUnavailable, err) // it ended while it handled the request
		}
		return err
	}
	defer func() { _ = response.Body.Close() }() // the body is only read
	answer, err := readBounded(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return decodeError(response.StatusCode, answer)
	default:
		return decodeAnswer(answer, out)
	}
}

// readBounded reads an answer. The list of all machines is the longest.
func readBounded(body io.Reader) ([]byte, error) {
	const most = 16 << 20
	content, err := io.ReadAll(io.LimitReader(body, most+1))
	if err == nil && len(content) > most {
		err = fmt.Errorf("the answer has more than %d bytes", most)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return content, nil
}

func decodeAnswer(content []byte, out any) error {
	switch out := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*out = content
		return nil
	default:
		if err := json.Unmarshal(content, out); err != nil {
			return fmt.Errorf("decoding the answer: %w", err)
		}
		return nil
	}
}
