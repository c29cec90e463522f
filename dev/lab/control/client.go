//go:build linux

package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// Client sends requests to the lab of one directory.
type Client struct{ dir string }

// Of returns a client for the lab in a directory.
func Of(dir string) Client { return Client{dir: dir} }

// Status returns the state of the lab. The error wraps ErrNone if no lab is running.
func (c Client) Status(ctx context.Context) (Status, error) {
	return c.ask(ctx, http.MethodGet, "status")
}

// Restart kills a node and starts it again.
func (c Client) Restart(ctx context.Context, node string) (Status, error) {
	return c.ask(ctx, http.MethodPost, "nodes", node, "restart")
}

// Import imports the images of an archive on a node.
func (c Client) Import(ctx context.Context, node, archive string) (Status, error) {
	return c.ask(ctx, http.MethodPost, "nodes", node, "import?archive="+url.QueryEscape(archive))
}

// Cut cuts the network between two nodes. Heal restores it.
func (c Client) Cut(ctx context.Context, node, other string) (Status, error) {
	return c.ask(ctx, http.MethodPost, "nodes", node, "cut", other)
}

// Heal undoes Cut.
func (c Client) Heal(ctx context.Context, node, other string) (Status, error) {
	return c.ask(ctx, http.MethodPost, "nodes", node, "heal", other)
}

// Down stops the lab and returns when all its parts are removed.
func (c Client) Down(ctx context.Context) error {
	_, err := c.ask(ctx, http.MethodPost, "down")
	return err
}

func (c Client) ask(ctx context.Context, method string, path ...string) (Status, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://lab/"+strings.Join(path, "/"), nil)
	if err != nil {
		return Status{}, fmt.Errorf("sending a request to the lab: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", socketIn(c.dir))
		},
	}}
	response, err := client.Do(request)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return Status{}, ErrNone
	}
	if err != nil {
		return Status{}, fmt.Errorf("sending a request to the lab: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // the body is only read
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return Status{}, fmt.Errorf("reading the lab's response: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return Status{}, errors.New(strings.TrimSpace(string(content)))
	}
	var status Status
	if err := json.Unmarshal(content, &status); err != nil {
		return Status{}, fmt.Errorf("reading the lab's response: %w", err)
	}
	return status, nil
}
