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

// reasonUnreadable is the reason of the Event about fields that cannot be decoded.
const reasonUnreadable = "Unreadable"

const (
	// mostVersions limits the remembered versions of an object. Only the latest one can be written.
	mostVersions = 4
	// mostTold limits the reported fields of an object, because a client that can write one invalid value can write
	// thousands.
	mostTold = 20
	// tellAgain is the minimum time before the fields of a corrected object are reported again.
	tellAgain = 10 * time.Minute
)

// unread records which objects could not be decoded completely, and which of their fields are missing. Callers use it
// before they reconcile or write an object. A nil unread is empty.
//
//	decoder ─► note ─► log, Event
//	              └─► holds: object is not reconciled · of: fields that must not be written
type unread struct {
	log   *slog.Logger
	clock func() time.Time
	// event records an Event for users.
	event func(object runtime.Object, message string)

	mu      sync.RWMutex
	objects map[types.UID]*partly
}

// partly is an object that could not be decoded completely.
type partly struct {
	// versions are its known incomplete versions, the last one decoded at the end.
	versions []partlyVersion
	// told contains the reported paths. at is the time of the last report.
	told map[string]bool
	at   time.Time
}

type partlyVersion struct {
	version string
	missing []lost
}

// note records the missing fields of an object, and reports each of them once.
func (u *unread) note(kind string, object runtime.Object, missing []lost) {
	item, ok := object.(metav1.Object)
	if u == nil || !ok || len(missing) == 0 {
		return
	}
	if news := u.remember(item, missing); len(news) > 0 {
		u.tell(kind, item, object, news)
	}
}

// remember records the missing fields and returns those that were not reported before.
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
		u.log.Warn("object cannot be decoded completely", "object", kind+" "+cache.MetaObjectToName(item).String(), "error", l.String())
	}
	after := "the stored value is kept, and treated as absent"
	if slices.ContainsFunc(news, lost.matters) {
		after = "the object is not reconciled until this is corrected"
	}
	u.event(object, fmt.Sprintf("%s: %s", few(named), after))
}

// matters reports whether the object must not be reconciled without the missing field. This is true for all fields
// outside the status, and for the whole status.
func (l lost) matters() bool { return !strings.HasPrefix(l.path, "status.") }

// inStatus reports whether the missing field is written with the status, and not with the object.
func (l lost) inStatus() bool { return l.path == "status" || strings.HasPrefix(l.path, "status.") }

// of returns the missing fields of this version of an object.
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

// holds reports whether an object must not be reconciled, because what its owner wants is unknown. An object that is
// being deleted may be reconciled.
func (u *unread) holds(object metav1.Object) bool {
	return object.GetDeletionTimestamp() == nil && slices.ContainsFunc(u.of(object), lost.matters)
}

// follow forgets deleted objects, and allows corrected ones to be reported again.
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

// corrected allows an object to be reported again. Its versions are kept, because a later one may have been decoded
// already.
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

// addUnread prepares the reports about undecodable fields. Shards see the same objects but write no Events.
func (a *Context) addUnread() {
	a.unread = &unread{log: a.Log, clock: a.Clock, event: func(object runtime.Object, message string) {
		if a.Env.Shard == "" {
			a.Recorder.Event(object, corev1.EventTypeWarning, reasonUnreadable, message)
		}
	}}
}

// holds is unread.holds for all kinds except Clusters. These are blocked where their handlers are called: the state of
// a Cluster's deployments does not depend on its spec and is still reported.
func (a *Context) holds(object metav1.Object) bool {
	_, isCluster := object.(*fleet.Cluster)
	return !isCluster && a.unread.holds(object)
}
