package swarm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleet-hub/fleet/internal/protocol"
)

// lastWatchPause is the longest pause before an interrupted watch is opened again.
const lastWatchPause = 30 * time.Second

// errRelist means that all BundleDeployments must be listed again: the known version is too old, or an event was
// not handled.
var errRelist = errors.New("BundleDeployments must be listed again")

// follow watches the BundleDeployments of the agent's namespace and reports on them until ctx ends. It returns an
// error only if the identity is lost.
func (a *Agent) follow(ctx context.Context, c *protocol.Credential) error {
	version := ""
	for failed := 0; ctx.Err() == nil; {
		opened, err := a.followOnce(ctx, c, &version)
		a.update(func(s *State) { s.Watching = false })
		if opened {
			failed, a.doubtedSince = 0, time.Time{}
		}
		if err != nil {
			a.failed(ctx, err)
			failed++
			if lost := a.judge(ctx, c, err); lost != nil {
				return lost
			}
			if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || errors.Is(err, errRelist) {
				version = ""
			}
			wait(ctx, jitter(min(firstPause<<min(failed-1, 10), lastWatchPause)))
		}
	}
	return nil
}

// followOnce opens one watch and handles its events. Without a version it first gets all objects: in the same
// request, or, like Rancher Fleet's agents, with a list.
func (a *Agent) followOnce(ctx context.Context, c *protocol.Credential, version *string) (opened bool, err error) {
	collection := fleetAPI + "namespaces/" + c.DeploymentNamespace + "/bundledeployments?"
	if *version == "" && a.settings.Poll {
		if err := a.list(ctx, c, collection, version); err != nil {
			return false, err
		}
	}
	// The server ends the watch at a random time, so that not all agents reconnect at once.
	query := fmt.Sprintf("watch=true&allowWatchBookmarks=true&timeoutSeconds=%d", 300+rand.IntN(300))
	if *version == "" {
		query += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	}
	query += "&resourceVersion=" + *version
	err = a.hub.watch(ctx, call{
		as: granted, token: c.Token, verb: "watch", resource: "bundledeployments", path: collection + query,
		opened: func() {
			opened = true
			since := a.now()
			a.update(func(s *State) {
				s.Watching, s.WatchingSince, s.Rejected, s.Watches = true, since, false, s.Watches+1
			})
		},
	}, func(e event) error { return a.handle(ctx, c, e, version) })
	return opened, err
}

func (a *Agent) list(ctx context.Context, c *protocol.Credential, collection string, version *string) error {
	var found struct {
		object
		Items []bundleDeployment `json:"items"`
	}
	if err := a.hub.do(ctx, call{
		as: granted, token: c.Token, verb: "list", resource: "bundledeployments", path: collection + "limit=500&resourceVersion=0",
	}, &found); err != nil {
		return fmt.Errorf("listing BundleDeployments: %w", err)
	}
	for _, bd := range found.Items {
		if err := a.deploy(ctx, c, bd); err != nil {
			return err
		}
	}
	*version = found.Metadata.ResourceVersion
	return nil
}

func (a *Agent) handle(ctx context.Context, c *protocol.Credential, e event, version *string) error {
	var bd bundleDeployment
	if err := json.Unmarshal(e.Object, &bd); err != nil {
		return fmt.Errorf("reading a BundleDeployment: %w", err)
	}
	switch e.Type {
	case "ADDED", "MODIFIED":
		if err := a.deploy(ctx, c, bd); err != nil {
			return err
		}
	case "DELETED":
		a.confirmGone(ctx, c, bd.Metadata.Name)
	}
	*version = bd.Metadata.ResourceVersion
	return nil
}

// confirmGone reads a deleted BundleDeployment once, as the project's agent does before it uninstalls. The result
// does not matter here, because nothing is installed.
func (a *Agent) confirmGone(ctx context.Context, c *protocol.Credential, name string) {
	err := a.hub.do(ctx, call{
		as: granted, token: c.Token, verb: "get", resource: "bundledeployments",
		path: fleetAPI + "namespaces/" + c.DeploymentNamespace + "/bundledeployments/" + name,
	}, nil)
	if err != nil && !apierrors.IsNotFound(err) {
		a.failed(ctx, err)
	}
}
