package delivery

import (
	"errors"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/bench/usage"
	"github.com/fleet-hub/fleet/e2e/framework/client"
)

// Figures are the figures of the delivery of a Bundle, or of a change of it, to all clusters.
type Figures struct {
	Clusters int `json:"clusters"`
	// Written is the time from the request that created or changed the Bundle until the last BundleDeployment is
	// written, Reported until the last agent's report, Bundle until the last status of the Bundle after that, and Final until
	// the last status of a Bundle, Cluster or ClusterGroup. All times are from the API server's audit log.
	Written  float64 `json:"secondsUntilWritten"`
	Reported float64 `json:"secondsUntilReported"`
	Bundle   float64 `json:"secondsUntilBundle"`
	Final    float64 `json:"secondsUntilFinal"`
	// Each is the number of requests per cluster, without the agents' reads for deployments, which AgentReads
	// counts.
	Each       float64       `json:"requestsEach"`
	AgentReads float64       `json:"agentReadsEach"`
	Requests   figures.Costs `json:"requests"`
	// ControllerMillis and SimulatorMillis are processor time per cluster, until there are no more writes.
	ControllerMillis float64         `json:"controllerCPUMillisEach"`
	SimulatorMillis  float64         `json:"simulatorCPUMillisEach"`
	Controller       usage.Footprint `json:"controllerMemory"`
}

// errNoCause means that the audit log does not contain the request that started the delivery.
var errNoCause = errors.New("the audit log does not contain the request that started the delivery")

// Of computes the figures of a delivery to this number of clusters from its requests.
func Of(events []audit.Event, whose audit.Classifier, clusters int) (Figures, error) {
	began, last, counts := time.Time{}, map[step]time.Time{}, audit.Counts{}
	for _, e := range events {
		who := whose.Who(e)
		counts.Add(who, e)
		if e.IsRefused() {
			continue
		}
		is := stepOf(e.Kind(who))
		if is == begun && (began.IsZero() || e.Received.Before(began)) {
			began = e.Received
		}
		if e.Ended.After(last[is]) {
			last[is] = e.Ended
		}
	}
	if began.IsZero() {
		return Figures{}, errNoCause
	}
	until := func(steps ...step) float64 {
		end := began
		for _, s := range steps {
			if last[s].After(end) {
				end = last[s]
			}
		}
		return figures.Seconds(end.Sub(began))
	}
	reads := counts.Only(func(k audit.Kind) bool { return k.Identity == audit.Request && !k.IsWrite() }).Total().Requests
	all := counts.Only(audit.Kind.IsCost).Total().Requests
	return Figures{
		Clusters: clusters, Requests: figures.CostsOf(counts, clusters), AgentReads: figures.Per(float64(reads), clusters), Each: figures.Per(float64(all-reads), clusters),
		Written: until(wrote), Reported: until(reported), Bundle: until(reported, toldBundle), Final: until(reported, toldBundle, told),
	}, nil
}

// step is the role of a request in a delivery.
type step int

const (
	aside step = iota
	begun
	wrote
	reported
	toldBundle
	told
)

// stepOf returns the role of a kind of request in a delivery.
func stepOf(k audit.Kind) step {
	switch {
	case !k.IsWrite():
		return aside
	case k.Identity == audit.Admin && k.Resource == client.Bundles:
		return begun
	case k.Identity == audit.Controller:
		return map[string]step{
			client.BundleDeployments: wrote, client.Bundles + "/status": toldBundle, client.Clusters + "/status": told, client.ClusterGroups + "/status": told,
		}[k.Resource]
	case k.Identity == audit.Request && k.Resource == client.BundleDeployments+"/status":
		return reported
	default:
		return aside
	}
}
