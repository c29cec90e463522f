package charts

import (
	"context"
	"io"
)

// UpdateDependencies fetches the dependencies of the chart in dir, unless all that its Chart.yaml lists are in charts/.
// It writes charts/ and Chart.lock in dir, and progress messages to progress.
func UpdateDependencies(context.Context, string, Auth, io.Writer) error { return nil }
