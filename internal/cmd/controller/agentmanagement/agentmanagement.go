// Package agentmanagement runs the controllers of the hub that register clusters, and other controllers that share
// their caches.
//
//	app.New ─► every Register ─► Start ─► until the context ends
package agentmanagement

import (
	"context"
	"fmt"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/globalconfig"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
)

// RegisterFunc adds controllers to those that run.
type RegisterFunc func(context.Context, *hub.Context) error

// Options of Run.
type Options struct {
	hub.Options
	// Also are further controllers on the same caches, such as those that deliver Bundles.
	Also []RegisterFunc
	// OnStarted is called when the caches are filled and the controllers run. It may be nil.
	OnStarted func()
}

// Run runs the controllers until ctx ends, which is not an error.
func Run(ctx context.Context, o Options) error {
	a, err := hub.New(ctx, o.Options)
	if err != nil {
		return err
	}
	own := RegisterFunc(Register)
	if o.Env.Shard != "" {
		own = globalconfig.Register // only the process without a shard registers clusters
	}
	for _, register := range append([]RegisterFunc{own}, o.Also...) {
		if err := register(ctx, a); err != nil {
			return err
		}
	}
	if err := a.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // asked to stop while starting
		}
		return fmt.Errorf("starting the controllers: %w", err)
	}
	o.Log.Info("controllers started", "system", a.Namespaces.System, "version", o.Version)
	if o.OnStarted != nil {
		o.OnStarted()
	}
	<-ctx.Done()
	a.Flush()
	return nil
}
