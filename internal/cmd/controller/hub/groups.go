package hub

import (
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// groups caches the parsed ClusterGroups of each workspace.
type groups struct {
	mu          sync.Mutex
	byWorkspace map[string]targeting.Groups
}

// GroupsIn returns the ClusterGroups of a workspace. It parses only selectors that have changed since the last call.
func (a *App) GroupsIn(workspace string) (targeting.Groups, error) {
	a.groups.mu.Lock()
	defer a.groups.mu.Unlock()
	listed, err := a.ClusterGroups.Cache().List(workspace, labels.Everything())
	if err != nil || len(listed) == 0 {
		delete(a.groups.byWorkspace, workspace)
		return targeting.Groups{}, err
	}
	if a.groups.byWorkspace == nil {
		a.groups.byWorkspace = map[string]targeting.Groups{}
	}
	current := a.groups.byWorkspace[workspace].Update(listed)
	a.groups.byWorkspace[workspace] = current
	return current, nil
}

// GroupSelector is that of targeting. It parses the selector only if GroupsIn has not done so.
func (a *App) GroupSelector(group *fleet.ClusterGroup) (labels.Selector, error) {
	a.groups.mu.Lock()
	known := a.groups.byWorkspace[group.Namespace]
	a.groups.mu.Unlock()
	return known.Selector(group)
}

// DropGroups removes the parsed selectors of a workspace without ClusterGroups, such as a deleted one.
func (a *App) DropGroups(workspace string) {
	a.groups.mu.Lock()
	defer a.groups.mu.Unlock()
	if listed, err := a.ClusterGroups.Cache().List(workspace, labels.Everything()); err == nil && len(listed) == 0 {
		delete(a.groups.byWorkspace, workspace)
	}
}
