// Package controllers lists the controllers of the registration service. How registration works is told by the
// folders beside this file, one for each, and by the rules in internal/rules.
package controllers

import (
	"context"
	"fmt"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/app"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/controllers/bootstrap"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/controllers/cluster"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/controllers/clusterimport"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/controllers/contentreaders"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/controllers/credentialexpiry"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/controllers/globalconfig"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/controllers/grant"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/controllers/manageagent"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/controllers/orphans"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/controllers/token"
)

// Register registers all of them. Handlers of one kind run in this order for each object, and each sees what the
// one before it left.
func Register(ctx context.Context, a *app.Context) error {
	for _, controller := range []struct {
		name     string
		register func(context.Context, *app.Context) error
	}{
		{"orphans", orphans.Register},
		{"globalconfig", globalconfig.Register},
		{"bootstrap", bootstrap.Register},
		{"cluster", cluster.Register},
		{"token", token.Register},
		{"clusterimport", clusterimport.Register},
		{"manageagent", manageagent.Register},
		{"contentreaders", contentreaders.Register},
		{"grant", grant.Register},
		{"credentialexpiry", credentialexpiry.Register},
	} {
		if err := controller.register(ctx, a); err != nil {
			return fmt.Errorf("registering controller %s: %w", controller.name, err)
		}
	}
	return nil
}
