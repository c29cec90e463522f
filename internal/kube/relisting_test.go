package kube

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// store is what an API server does with the ConfigMaps of one namespace as far as resource versions go: a list from
// the future is refused, and a watch from there accepted and silent.
type store struct {
	mu       sync.Mutex
	version  int
	objects  map[string]*corev1.ConfigMap
	watchers map[*watch.RaceFreeFakeWatcher]int // and what they know already
	down     error                              // what clients hear instead of an answer
	asked    []string
}

func newStore() *store {
	return &store{version: 100, objects: map[string]*corev1.ConfigMap{}, watchers: map[*watch.RaceFreeFakeWatcher]int{}}
}

func (s *store) put(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: strconv.Itoa(s.version)}, Data: map[string]string{"value": value},
	}
	_, there := s.objects[name]
	s.objects[name] = object
	for watcher, known := range s.watchers {
		switch {
		case s.version <= known: // which a server takes for old news
		case there:
			watcher.Modify(object.DeepCopy())
		default:
			watcher.Add(object.DeepCopy())
		}
	}
}

// cut ends all watches.
func (s *store) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for watcher := range s.watchers {
		watcher.Stop()
	}
	clear(s.watchers)
}

// restore takes back what was written after the snapshot.
func (s *store) restore(snapshot *store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.objects = snapshot.version, snapshot.objects
}

func (s *store) snapshot() *store {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := &store{version: s.version, objects: map[string]*corev1.ConfigMap{}}
	for name, object := range s.objects {
		kept.objects[name] = object.DeepCopy()
	}
	return kept
}

func (s *store) goDown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

func (s *store) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.asked...)
}

func (s *store) listerWatcher() cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.down != nil {
				return nil, s.down
			}
			if from, err := strconv.Atoi(options.ResourceVersion); err == nil && from > s.version {
				err := apierrors.NewTimeoutError("Too large resource version", 1)
				err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
				return nil, err
			}
			s.asked = append(s.asked, "list")
			list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
			for _, object := range s.objects {
				list.Items = append(list.Items, *object)
			}
			return list, nil
		},
		WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.down != nil {
				return nil, s.down
			}
			from, err := strconv.Atoi(options.ResourceVersion)
			if err != nil {
				return nil, apierrors.NewBadRequest("this server does not stream lists")
			}
			s.asked = append(s.asked, "watch")
			watcher := watch.NewRaceFreeFake()
			s.watchers[watcher] = from
			for _, object := range s.objects {
				if version, err := strconv.Atoi(object.ResourceVersion); err == nil && version > from {
					watcher.Modify(object.DeepCopy())
				}
			}
			return watcher, nil
		},
	}
}

// unstreamed says of the lists that they cannot be streamed, as client-go's fakes do.
type unstreamed struct{ cache.ListerWatcher }

func (unstreamed) IsWatchListSemanticsUnSupported() bool { return true }

// values are what an informer knows.
func values(informer cache.SharedIndexInformer) map[string]string {
	known := map[string]string{}
	for _, object := range informer.GetStore().List() {
		if configMap, ok := object.(*corev1.ConfigMap); ok {
			known[configMap.Name] = configMap.Data["value"]
		}
	}
	return known
}

func TestRelisting(t *testing.T) {
	refused := fmt.Errorf("dial tcp: %w", syscall.ECONNREFUSED)
	tests := map[string]struct {
		// happens between "first" and the object "second".
		happens func(s *store)
		want    map[string]string
		asked   []string
	}{
		"a watch that ends goes on where it was": {
			happens: func(s *store) { s.cut() },
			want:    map[string]string{"first": "2", "second": "1"},
			asked:   []string{"list", "watch", "watch"},
		},
		"a server that was away is listed anew": {
			happens: func(s *store) {
				s.goDown(refused)
				s.cut()
				<-time.After(10 * time.Minute)
				s.goDown(nil)
			},
			want:  map[string]string{"first": "2", "second": "1"},
			asked: []string{"list", "watch", "list", "watch"},
		},
		"one that was restored meanwhile, too, though its versions are behind": {
			happens: func(s *store) {
				before := s.snapshot()
				for n := range 10 {
					s.put("later", strconv.Itoa(n))
				}
				s.put("first", "3")
				<-time.After(time.Minute)
				s.goDown(errors.New("no route to host"))
				s.cut()
				<-time.After(time.Minute)
				s.restore(before)
				s.goDown(nil)
			},
			want:  map[string]string{"first": "2", "second": "1"},
			asked: []string{"list", "watch", "list", "watch"},
		},
		"a server that is only busy is not": {
			happens: func(s *store) {
				s.goDown(apierrors.NewTooManyRequests("busy", 1))
				s.cut()
				<-time.After(time.Minute)
				s.goDown(nil)
			},
			want:  map[string]string{"first": "2", "second": "1"},
			asked: []string{"list", "watch", "watch"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				s.put("first", "1")
				informer := cache.NewSharedIndexInformer(Relisting(unstreamed{s.listerWatcher()}), &corev1.ConfigMap{}, 0, nil)
				// The default one makes pauses by the time of the last error outside of the bubble.
				if err := informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { informer.RunWithContext(ctx) })
				<-time.After(time.Second)
				s.put("first", "2")
				<-time.After(time.Second)
				test.happens(s)
				s.put("second", "1")
				<-time.After(2 * time.Minute)
				if diff := cmp.Diff(test.want, values(informer)); diff != "" {
					t.Errorf("objects (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(test.asked, s.said()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				cancel()
				running.Wait()
			})
		})
	}
}

// Callers without a context get the same.
func TestRelistingWithoutContext(t *testing.T) {
	s := newStore()
	s.put("first", "1")
	objects := Relisting(s.listerWatcher())
	watchOnce := func() error {
		_, err := objects.Watch(metav1.ListOptions{ResourceVersion: "101"}) //nolint:staticcheck // some call it
		return err
	}
	list, err := objects.List(metav1.ListOptions{}) //nolint:staticcheck // some call it
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := list.(*corev1.ConfigMapList); !ok {
		t.Errorf("listed %T", list)
	}
	s.goDown(errors.New("no route to host"))
	if err := watchOnce(); err == nil || apierrors.IsResourceExpired(err) {
		t.Errorf("a server that is away: %v", err)
	}
	s.goDown(nil)
	if err := watchOnce(); !apierrors.IsResourceExpired(err) {
		t.Errorf("the first watch after that: %v", err)
	}
	if err := watchOnce(); err != nil {
		t.Errorf("the second: %v", err)
	}
}
