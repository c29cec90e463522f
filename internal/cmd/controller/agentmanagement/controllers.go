package agentmanagement

import (
	"context"
	"fmt"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/bootstrap"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/capi"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/cluster"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/clusterimport"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/contentreaders"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/credentialexpiry"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/globalconfig"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/grant"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/hubdocument"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/manageagent"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/orphans"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/recovery"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/recoverytokens"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/revocation"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/token"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
)

// Register registers all controllers. Handlers of one kind run in this order for each object, and each handler gets
// the result of the one before it.
func Register(ctx context.Context, a *hub.App) error {
	for _, controller := range []struct {
		name     string
		register func(context.Context, *hub.App) error
	}{
		{"orphans", orphans.Register},
		{"globalconfig", globalconfig.Register},
		{"hubdocument", hubdocument.Register},
		{"bootstrap", bootstrap.Register},
		{"cluster", cluster.Register},
		{"token", token.Register},
		{"clusterimport", clusterimport.Register},
		{"manageagent", manageagent.Register},
		{"contentreaders", contentreaders.Register},
		{"grant", grant.Register},
		{"revocation", revocation.Register},
		{"recovery", recovery.Register},
		{"capi", capi.Register},
		{"credentialexpiry", credentialexpiry.Register},
		{"recoverytokens", recoverytokens.Register},
	} {
		if err := controller.register(ctx, a); err != nil {
			return fmt.Errorf("registering controller %s: %w", controller.name, err)
		}
	}
	return nil
}
