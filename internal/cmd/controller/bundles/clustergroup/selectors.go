package clustergroup

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// selectors caches the parsed selectors of the groups, because every change of a Cluster evaluates all of them.
type selectors struct {
	mu    sync.Mutex
	known map[types.UID]ofGeneration
}

type ofGeneration struct {
	generation int64
	selector   labels.Selector
	err        error
}

func newSelectors() *selectors { return &selectors{known: map[types.UID]ofGeneration{}} }

// of returns the selector of a group. Errors wrap targeting.ErrSelector.
func (s *selectors) of(group *fleet.ClusterGroup) (labels.Selector, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.known[group.UID]
	if !ok || known.generation != group.Generation {
		known = ofGeneration{generation: group.Generation}
		known.selector, known.err = targeting.GroupSelector(group)
		s.known[group.UID] = known
	}
	return known.selector, known.err
}

// pick reports whether a group's selector matches any of these sets of labels.
func (s *selectors) pick(group *fleet.ClusterGroup, sets ...labels.Set) bool {
	selector, err := s.of(group)
	return err == nil && slices.ContainsFunc(sets, func(set labels.Set) bool { return selector.Matches(set) })
}

func (s *selectors) forget(group types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, group)
}
