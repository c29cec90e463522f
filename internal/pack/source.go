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
	// Complete returns the folder of a chart with all dependencies: the same one, or a copy that the caller removes.
	Complete func(ctx context.Context, folder string, auth charts.Auth, progress io.Writer) (complete string, remove func(), err error)
}
