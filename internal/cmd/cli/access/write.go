package access

import (
	"context"
	"time"
)

// writeTimeout limits a write that is not interrupted.
const writeTimeout = 30 * time.Second

// Write sends a request that creates something. It is not interrupted: a command that removes what it has created must know
// whether it has. The caller looks at ctx afterwards.
func Write(ctx context.Context, send func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	return send(ctx)
}
