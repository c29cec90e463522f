package figures

import (
	"github.com/fleet-hub/fleet/e2e/bench/audit"
)

// Row is one kind of request.
type Row struct {
	Identity audit.Identity `json:"identity"`
	Verb     string         `json:"verb"`
	Resource string         `json:"resource"`
	Requests int            `json:"requests"`
	Refused  int            `json:"refused,omitempty"`
	// Each is the number of requests per cluster.
	Each float64 `json:"each"`
}

// Costs are the requests caused by an event of a number of clusters.
type Costs struct {
	// Each is the number of requests per cluster, without leases, the agents' polling for their credential, and
	// requests of the measurement.
	Each float64 `json:"each"`
	// Refused is the number of these requests that failed. Polling is the number of requests of agents that wait
	// for their credential. Leases is the number of lease renewals.
	Refused int   `json:"refused"`
	Polling int   `json:"polling"`
	Leases  int   `json:"leases"`
	Rows    []Row `json:"rows"`
}

// CostsOf returns the costs of this number of clusters.
func CostsOf(counts audit.Counts, clusters int) Costs {
	counted := counts.Only(audit.Kind.IsCost)
	total := counted.Total()
	c := Costs{
		Each: Per(float64(total.Requests), clusters), Refused: total.Refused,
		Polling: counts.Only(audit.Kind.IsPolling).Total().Requests,
		Leases:  counts.Only(audit.Kind.IsLease).Total().Requests,
		Rows:    []Row{},
	}
	for _, kind := range counted.Kinds() {
		count := counted[kind]
		c.Rows = append(c.Rows, Row{
			Identity: kind.Identity, Verb: kind.Verb, Resource: kind.Resource,
			Requests: count.Requests, Refused: count.Refused, Each: Per(float64(count.Requests), clusters),
		})
	}
	return c
}

// Merged returns the sum of two counts.
func Merged(a, b audit.Counts) audit.Counts {
	sum := audit.Counts{}
	for _, counts := range []audit.Counts{a, b} {
		for kind, count := range counts {
			before := sum[kind]
			sum[kind] = audit.Count{Requests: before.Requests + count.Requests, Refused: before.Refused + count.Refused}
		}
	}
	return sum
}
