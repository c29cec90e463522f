package pack

import (
	"context"
	"io"

	"github.com/fleet-hub/fleet/internal/pack/charts"
)

// Charts fetches charts.
type Charts struct {
	// Fetch downloads a chart and unpacks it into a folder.
	Fetch func(ctx context.Context, source charts.Source, to string) error
	// UpdateDependencies fetches the dependencies of the chart in a folder if one is missing.
	UpdateDependencies func(ctx context.Context, folder string, auth charts.Auth, progress io.Writer) error
}
