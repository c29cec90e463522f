// Package agentmanagement runs the controllers of the hub that register clusters, and other controllers that share
// their caches.
//
//	Prepare: hub.New ─► every Register ─► Fill the caches ─► Work, when this process leads, until the context ends
package agentmanagement

import (
	"context"
	"fmt"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/globalconfig"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
)

// RegisterFunc adds controllers to those that run.
type RegisterFunc func(context.Context, *hub.App) error

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
	prepared, err := Prepare(ctx, o)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	return prepared.Work(ctx)
}

// Prepared has full caches and controllers that do nothing yet.
type Prepared struct {
	hub     *hub.App
	options Options
}

// Prepare fills the caches and keeps them up to date until ctx ends. It writes nothing.
func Prepare(ctx context.Context, o Options) (*Prepared, error) {
	a, err := hub.New(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	own := RegisterFunc(Register)
	if o.Env.Shard != "" {
		own = globalconfig.Register // only the process without a shard registers clusters
	}
	for _, register := range append([]RegisterFunc{own}, o.Also...) {
		if err := register(ctx, a); err != nil {
			return nil, err
		}
	}
	if err := a.Fill(ctx); err != nil {
		return nil, fmt.Errorf("starting the controllers: %w", err)
	}
	return &Prepared{hub: a, options: o}, nil
}

// TakeOver does the work of a process that was prepared while another one led.
func (p *Prepared) TakeOver(ctx context.Context) error {
	if err := p.hub.TakeOver(ctx); err != nil {
		return unlessEnded(ctx, fmt.Errorf("taking over: %w", err))
	}
	return p.Work(ctx)
}

// Work runs the controllers until ctx ends, which is not an error. The context of Prepare must last as long.
func (p *Prepared) Work(ctx context.Context) error {
	if err := p.hub.Work(ctx); err != nil {
		return unlessEnded(ctx, fmt.Errorf("starting the controllers: %w", err))
	}
	p.options.Log.Info("controllers started", "system", p.hub.Namespaces.System, "version", p.options.Version)
	if p.options.OnStarted != nil {
		p.options.OnStarted()
	}
	<-ctx.Done()
	p.hub.Flush()
	return nil
}

// unlessEnded returns nil if an error was caused by the end of ctx.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // asked to stop
	}
	return err
}
