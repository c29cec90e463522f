package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/e2e/bench/profiles"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// profileLength is the duration of a profile. 500 clusters need longer to register.
const profileLength = 15 * time.Second

// profilesAt matches the log line with the address of the controller's profiles.
var profilesAt = regexp.MustCompile(`(?m)^.*msg="serving profiles" .*\bprofiles=(\S+)$`)

// errNoProfiles means that the controller's log contains no address of its profiles.
var errNoProfiles = errors.New("the controller serves no profiles")

// profiled are the profiles of a step of the registration.
type profiled struct {
	// Clusters is the number of registered clusters at the end of the step.
	Clusters int                `json:"clusters"`
	Of       []profiles.Profile `json:"of"`
}

// growProfiled registers n more agents and takes profiles of the controller and of the API server meanwhile.
func (b *bench) growProfiled(ctx context.Context, n int) (batch, profiled, error) {
	processes, err := b.processes(ctx)
	if err != nil {
		return batch{}, profiled{}, err
	}
	p := profiled{Clusters: b.made + n}
	taken := make(chan error, 1)
	go func() {
		var err error
		p.Of, err = profiles.Take(ctx, processes, profileLength, b.profiles, fmt.Sprintf("at-%d-clusters", p.Clusters))
		taken <- err
	}()
	made, err := b.grow(ctx, n)
	if err := errors.Join(err, <-taken); err != nil {
		return batch{}, profiled{}, err
	}
	for _, of := range p.Of {
		b.say("%s", of)
	}
	return made, p, nil
}

// processes returns the processes of the hub that are profiled.
func (b *bench) processes(ctx context.Context) ([]profiles.Process, error) {
	config := b.world.Plane.Hub.Config()
	admin, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the API server: %w", err)
	}
	here, err := b.controller(ctx)
	if err != nil {
		return nil, err
	}
	log, err := b.world.PodLog(framework.HubName, names.SystemNamespace, here.pod)
	if err != nil {
		return nil, err
	}
	said := profilesAt.FindAllSubmatch(log, -1)
	if len(said) == 0 {
		return nil, errNoProfiles
	}
	return []profiles.Process{
		{Name: "apiserver", URL: config.Host, Client: admin},
		{Name: "controller", URL: "http://" + string(said[len(said)-1][1]), Client: http.DefaultClient},
	}, nil
}
