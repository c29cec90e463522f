package hub

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/remote"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/metrics"
)

// Options of New.
type Options struct {
	// Own is the API server of the hub.
	Own kube.Own
	// Env is the configuration of the process.
	Env env.Controller
	// Config is the configuration that Check has returned. If it is nil, New reads it.
	Config *config.Config
	// Version is the version of the binary, for the default agent image and the configuration's version gate.
	Version string
	// Log must not be nil.
	Log *slog.Logger
	// Clock tells the time of the hub's API server, OwnClock that of this process. Nil selects the real ones; without
	// OwnClock, Clock is used for both.
	Clock, OwnClock func() time.Time
	// Dial replaces the connection to downstream clusters in tests. If it is nil, Dialer and Reacher are used.
	Dial remote.DialFunc
	// Guard wraps the client configuration for downstream clusters. If it is nil, nothing is wrapped.
	Guard func(*rest.Config) *rest.Config
	// Metrics record what the controllers do. May be nil.
	Metrics *metrics.Hub
	// Registry gets the metrics that are computed from the caches, once they are synced. May be nil.
	Registry prometheus.Registerer
}

// keepTime sets the clocks. The process's own one counts until the API server shows another time.
func (o *Options) keepTime(own func() time.Time) {
	if o.Clock != nil {
		if o.OwnClock == nil {
			o.OwnClock = o.Clock
		}
		return
	}
	warn := sync.OnceFunc(func() { // several API servers may disagree with each answer
		o.Log.Warn("the clock of this node differs from the API server's by more than 30 seconds, and the latter is used; set the node's clock: timedatectl set-ntp true")
	})
	clock := kube.NewServerClock(own, func(time.Duration) { warn() })
	o.Own.Config, o.Clock, o.OwnClock = clock.Watch(o.Own.Config), clock.Now, own
}

// Downstream is the API server of another cluster.
type Downstream = remote.Downstream
