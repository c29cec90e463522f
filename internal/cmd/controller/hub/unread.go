package hub

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// reasonUnreadable is the reason of the Event that tells what of an object cannot be read.
const reasonUnreadable = "Unreadable"

const (
	// mostVersions is how many versions of an object are remembered as not whole. Only the last one can be written.
	mostVersions = 4
	// mostTold is how many fields of an object are told of; whoever can write one unreadable value can write thousands.
	mostTold = 20
	// tellAgain is how long an object that was corrected is not told of again.
	tellAgain = 10 * time.Minute
)

// unread knows which objects could not be read whole, and what of them is missing. It is asked by whoever is about to
// decide for an object, or to send it. Nil knows of none.
//
//	decoder ─► note ─► log, Event
//	              └─► holds: nothing is decided · of: what is not to be sent
type unread struct {
	log   *slog.Logger
	clock func() time.Time
	// event tells users.
	event func(object runtime.Object, message string)

	mu      sync.RWMutex
	objects map[types.UID]*partly
}

// partly is an object that could not be read whole.
type partly struct {
	// versions are those of which that is known, the last one read at the end.
	versions []partlyVersion
	// told has the paths that were told of, and at is when.
	told map[string]bool
	at   time.Time
}

type partlyVersion struct {
	version string
	missing []lost
}

// note remembers what of an object is missing, and tells of it: of each field once.
func (u *unread) note(kind string, object runtime.Object, missing []lost) {
	item, ok := object.(metav1.Object)
	if u == nil || !ok || len(missing) == 0 {
		return
	}
	if news := u.remember(item, missing); len(news) > 0 {
		u.tell(kind, item, object, news)
	}
}

// remember returns what was not told of before.
func (u *unread) remember(item metav1.Object, missing []lost) (news []lost) {
	u.mu.Lock()
	defer u.mu.Unlock()
	known := u.objects[item.GetUID()]
	if known == nil {
		known = &partly{told: map[string]bool{}}
		if u.objects == nil {
			u.objects = map[types.UID]*partly{}
		}
		u.objects[item.GetUID()] = known
	}
	version := item.GetResourceVersion()
	known.versions = slices.DeleteFunc(known.versions, func(v partlyVersion) bool { return v.version == version })
	known.versions = append(known.versions, partlyVersion{version, missing})
	if len(known.versions) > mostVersions {
		known.versions = slices.Delete(known.versions, 0, 1)
	}
	for _, l := range missing {
		if !known.told[l.path] && len(known.told) < mostTold {
			known.told[l.path], known.at = true, u.clock()
			news = append(news, l)
		}
	}
	return news
}

func (u *unread) tell(kind string, item metav1.Object, object runtime.Object, news []lost) {
	named := make([]string, 0, len(news))
	for _, l := range news {
		named = append(named, l.String())
		u.log.Warn("an object cannot be read whole", "object", kind+" "+cache.MetaObjectToName(item).String(), "error", l.String())
	}
	after := "it stays as it is, and counts as absent"
	if slices.ContainsFunc(news, lost.matters) {
		after = "nothing is done for it until that is corrected"
	}
	u.event(object, fmt.Sprintf("%s: %s", few(named), after))
}

// matters says whether an object is not what its owner wants it to be without what is lost: anything but a part of its
// status.
func (l lost) matters() bool { return !strings.HasPrefix(l.path, "status.") }

// inStatus says where something is lost that would have to be sent with a status, or else with an object.
func (l lost) inStatus() bool { return l.path == "status" || strings.HasPrefix(l.path, "status.") }

// of is what is missing of an object in the version it has.
func (u *unread) of(object metav1.Object) []lost {
	if u == nil {
		return nil
	}
	u.mu.RLock()
	defer u.mu.RUnlock()
	known := u.objects[object.GetUID()]
	if known == nil {
		return nil
	}
	for _, v := range known.versions {
		if v.version == object.GetResourceVersion() {
			return v.missing
		}
	}
	return nil
}

// holds says whether nothing may be decided for an object, because it is not known what its owner wants. One that is
// deleted can go.
func (u *unread) holds(object metav1.Object) bool {
	return object.GetDeletionTimestamp() == nil && slices.ContainsFunc(u.of(object), lost.matters)
}

// follow lets go of what is deleted, and tells anew of what was corrected meanwhile.
func (u *unread) follow(informer cache.SharedIndexInformer) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, current any) {
			if item, ok := current.(metav1.Object); ok && len(u.of(item)) == 0 {
				u.corrected(item.GetUID())
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if item, ok := obj.(metav1.Object); ok {
				u.forget(item.GetUID())
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	return nil
}

// corrected lets an object be told of again. Its versions stay: a later one may have been read already.
func (u *unread) corrected(uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if known := u.objects[uid]; known != nil && u.clock().Sub(known.at) > tellAgain {
		clear(known.told)
	}
}

func (u *unread) forget(uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.objects, uid)
}

// addUnread prepares telling of what cannot be read. Shards see the same, and write no Events.
func (a *Context) addUnread() {
	a.unread = &unread{log: a.Log, clock: a.Clock, event: func(object runtime.Object, message string) {
		if a.Env.Shard == "" {
			a.Recorder.Event(object, corev1.EventTypeWarning, reasonUnreadable, message)
		}
	}}
}

// holds is that of unread for all but Clusters, which are held where their handlers are called: how a Cluster's
// deployments are does not come from its spec, and goes on being told.
func (a *Context) holds(object metav1.Object) bool {
	_, isCluster := object.(*fleet.Cluster)
	return !isCluster && a.unread.holds(object)
}
