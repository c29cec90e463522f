package delivery

import (
	"github.com/fleet-hub/fleet/e2e/bench/audit"
)

// Joining counts the writes caused by one more cluster.
type Joining struct {
	Whose audit.Classifier
	// Deployments is the number of its BundleDeployments. Complete is called when all exist.
	Deployments int
	Complete    func()

	// Counts are its writes so far. Before is their number when all its BundleDeployments existed, Ready at the last
	// report or status.
	Counts        audit.Counts
	Before, Ready int
	created       int
}

// Hear counts a request.
func (j *Joining) Hear(e audit.Event) {
	kind := e.Kind(j.Whose.Who(e))
	if !kind.IsCost() || !kind.IsWrite() {
		return
	}
	if j.Counts == nil {
		j.Counts = audit.Counts{}
	}
	j.Counts.Add(kind.Identity, e)
	switch is := stepOf(kind); {
	case kind.Verb == "create" && is == wrote && !e.IsRefused():
		if j.created++; j.created == j.Deployments {
			j.Before = j.Counts.Total().Requests
			j.Complete()
		}
	case is == told || is == toldBundle || is == reported:
		j.Ready = j.Counts.Total().Requests
	}
}
