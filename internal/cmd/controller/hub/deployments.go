package hub

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Limits of shared texts: only short ones are shared, and enough for the clusters and Bundles of a hub.
const (
	longestWord = 256
	mostWords   = 1 << 15
)

// words lets the BundleDeployments in a cache share equal texts: names, labels, deployment IDs and conditions are
// repeated for each cluster and each Bundle.
type words struct {
	mu    sync.Mutex
	known map[string]string
}

func newWords() *words { return &words{known: map[string]string{}} }

func (w *words) share(texts ...*string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range texts {
		*text = w.one(*text)
	}
}

// one returns the shared text. The caller holds the lock.
func (w *words) one(text string) string {
	if text == "" || len(text) > longestWord {
		return text
	}
	if known, ok := w.known[text]; ok {
		return known
	}
	if len(w.known) >= mostWords {
		clear(w.known)
	}
	w.known[text] = text
	return text
}

// slim drops the deployed resources of a BundleDeployment, which no controller reads (so its status must never be
// written completely). It shares the staged options if they equal the current ones. A hub has one BundleDeployment for
// each Cluster and Bundle.
func (w *words) slim(bd *fleet.BundleDeployment) {
	bd.Status.Resources = nil
	spec, status := &bd.Spec, &bd.Status
	if equality.Semantic.DeepEqual(spec.Options, spec.StagedOptions) {
		spec.StagedOptions = spec.Options
	}
	w.share(&bd.Name, &bd.Namespace, &spec.DeploymentID, &spec.StagedDeploymentID, &status.AppliedDeploymentID, &status.Release,
		&status.Display.Deployed, &status.Display.Monitored, &status.Display.State)
	for i := range status.Conditions {
		c := &status.Conditions[i]
		w.share(&c.Type, (*string)(&c.Status), &c.Reason, &c.Message, &c.LastUpdateTime, &c.LastTransitionTime)
	}
	w.share(pointersOf(bd.Finalizers)...)
	if len(bd.Labels) > 0 {
		bd.Labels = w.labels(bd.Labels)
	}
}

// labels returns the same labels with shared texts.
func (w *words) labels(labels map[string]string) map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[string]string, len(labels))
	for key, value := range labels {
		out[w.one(key)] = w.one(value)
	}
	return out
}

func pointersOf(texts []string) (out []*string) {
	for i := range texts {
		out = append(out, &texts[i])
	}
	return out
}
