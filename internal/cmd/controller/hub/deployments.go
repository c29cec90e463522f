package hub

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// What is shared of texts: short ones, and so many of them that those of a hub's clusters and Bundles fit.
const (
	longestWord = 256
	mostWords   = 1 << 15
)

// words lets the BundleDeployments in a cache share what they say with the same words: names, labels, deployment IDs
// and conditions are repeated for each cluster and each Bundle.
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

// one is to be called with the lock.
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

// slim drops of a BundleDeployment what no controller reads, the list of what was deployed (so its status is never to be
// sent whole), and keeps once what it says twice: what is staged is mostly what is current. A hub has as many of them as it has Clusters, times Bundles.
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

// labels are the same ones in shared words.
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
