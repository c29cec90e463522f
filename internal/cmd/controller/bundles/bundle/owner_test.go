package bundle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var one = types.NamespacedName{Namespace: "c-one", Name: "web"}

// valued is a BundleDeployment with values, of this cluster.
func valued(cluster string) *fleet.BundleDeployment {
	return existing(cluster, func(bd *fleet.BundleDeployment) { bd.Spec.ValuesHash = "h" })
}

// ownerless is the Secret with the values of cluster one; its owner was not named.
func ownerless(modifiers ...func(*corev1.Secret)) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "c-one", Name: "web", UID: "s"}, Type: fleet.SecretTypeBundleDeployment}
	for _, modify := range modifiers {
		modify(secret)
	}
	return secret
}

func ownedByOne(s *corev1.Secret) {
	s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(valued("one"), fleet.SchemeGroupVersion.WithKind("BundleDeployment"))}
}

func ofAnotherType(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }

// owner says who owns the Secret of cluster one.
func owner(hub *hubtest.Hub) string {
	secret := hubtest.Get[*corev1.Secret](hub, "c-one", "web")
	switch {
	case secret == nil:
		return "no secret"
	case len(secret.OwnerReferences) == 0:
		return "nobody"
	default:
		return string(secret.OwnerReferences[0].UID)
	}
}

// What is asked of the API server, in the order in which it is.
const (
	readSecret   = "get Secret c-one/web"
	nameOwner    = "patch Secret c-one/web"
	deleteSecret = "delete Secret c-one/web"
	readOwner    = "get BundleDeployment c-one/web"
)

func TestTheOwnerOfASecret(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "web")
	tests := map[string]struct {
		server, cache []hubtest.Object
		fail          map[string]error
		before        map[string]func(*hubtest.Hub)
		requests      []string
		owner         string
		fails         bool
	}{
		"is named in one request": {
			server: []hubtest.Object{valued("one"), ownerless()}, cache: []hubtest.Object{valued("one")},
			requests: []string{nameOwner}, owner: "u-one",
		},
		"without values: no owner is set": {
			server: []hubtest.Object{existing("one")}, cache: []hubtest.Object{existing("one")}, owner: "no secret",
		},
		"Secret deleted by another client: no owner is set, the agent reports it": {
			server: []hubtest.Object{valued("one")}, cache: []hubtest.Object{valued("one")}, requests: []string{nameOwner}, owner: "no secret",
		},
		"is named later where that fails": {
			server: []hubtest.Object{valued("one"), ownerless()}, cache: []hubtest.Object{valued("one")},
			fail: map[string]error{nameOwner: errDown}, requests: []string{nameOwner}, owner: "nobody", fails: true,
		},
		"owner deleted before it was set: the Secret is deleted": {
			server: []hubtest.Object{ownerless()}, requests: []string{readSecret, readOwner, deleteSecret}, owner: "no secret",
		},
		"went with the Secret": {requests: []string{readSecret}, owner: "no secret"},
		"went, and what has its name now is no Secret of ours": {
			server: []hubtest.Object{ownerless(ofAnotherType)}, requests: []string{readSecret}, owner: "nobody",
		},
		"owner deleted, Secret has an owner reference: left to the garbage collector": {
			server: []hubtest.Object{ownerless(ownedByOne)}, requests: []string{readSecret}, owner: "u-one",
		},
		"is there, though the cache has it not": {
			server: []hubtest.Object{valued("one"), ownerless()}, requests: []string{readSecret, readOwner, nameOwner}, owner: "u-one",
		},
		"owner deleted, Secret written again in the meantime: it stays": {
			server: []hubtest.Object{ownerless()}, requests: []string{readSecret, readOwner, deleteSecret}, owner: "nobody",
			before: map[string]func(*hubtest.Hub){deleteSecret: func(hub *hubtest.Hub) { hub.Have(ownerless()) }},
		},
		"went, and the Secret is another one meanwhile": {
			server: []hubtest.Object{ownerless()}, requests: []string{readSecret, readOwner, deleteSecret}, owner: "nobody",
			before: map[string]func(*hubtest.Hub){deleteSecret: func(hub *hubtest.Hub) {
				hub.Have(ownerless(func(s *corev1.Secret) { s.UID = "another" }))
			}},
		},
		"owner deleted, Secret deleted by another client: no error": {
			server: []hubtest.Object{ownerless()}, fail: map[string]error{deleteSecret: gone},
			requests: []string{readSecret, readOwner, deleteSecret}, owner: "nobody",
		},
		"went, and the Secret cannot be read": {
			server: []hubtest.Object{ownerless()}, fail: map[string]error{readSecret: errDown}, requests: []string{readSecret}, owner: "nobody", fails: true,
		},
		"may have gone": {
			server: []hubtest.Object{ownerless()}, fail: map[string]error{readOwner: errDown},
			requests: []string{readSecret, readOwner}, owner: "nobody", fails: true,
		},
		"went, and the Secret cannot be deleted": {
			server: []hubtest.Object{ownerless()}, fail: map[string]error{deleteSecret: errDown},
			requests: []string{readSecret, readOwner, deleteSecret}, owner: "nobody", fails: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := hubtest.New(t)
			hub.Have(test.server...)
			hub.See(test.cache...)
			for request, err := range test.fail {
				hub.Fail(request, err)
			}
			for request, do := range test.before {
				hub.Before(request, func() { do(hub) })
			}
			o := ownersOf(hub.App, &atomic.Int32{}, never)
			o.later(one)
			if err := o.handle(t.Context(), one); (err != nil) != test.fails || err != nil && !errors.Is(err, errDown) {
				t.Errorf("error = %v, want one: %v", err, test.fails)
			}
			if diff := cmp.Diff(test.requests, hub.Requests()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if got := owner(hub); got != test.owner {
				t.Errorf("the owner is %s, want %s", got, test.owner)
			}
			if _, waits := o.unnamed[one]; waits != test.fails {
				t.Errorf("still to be named: %v, want %v", waits, test.fails)
			}
		})
	}
}

func TestCacheError_DeletesNothing(t *testing.T) {
	hub := hubtest.New(t)
	hub.Put(valued("one"), ownerless())
	hub.Spoil(valued("one"))
	o := ownersOf(hub.App, &atomic.Int32{}, never)
	o.later(one)
	err := o.handle(t.Context(), one)
	if _, waits := o.unnamed[one]; err == nil || !waits {
		t.Errorf("error = %v, still to be named: %v", err, waits)
	}
	hubtest.ExpectRequests(t, hub)
}

// never is nothing to tell.
func never() bool { return false }

// working runs owners in a bubble of time, with the values Secrets that a sweep finds.
func working(t *testing.T, hub *hubtest.Hub, secrets metadata.Getter, synced ...cache.InformerSynced) *owners {
	t.Helper()
	o := ownersOf(hub.App, &atomic.Int32{}, never)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.run(ctx, secrets, synced...)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return o
}

// inTime runs a test in a synctest bubble. Its API server is outside the bubble.
func inTime(t *testing.T, story func(*testing.T, *hubtest.Hub)) {
	t.Helper()
	hub := hubtest.New(t)
	synctest.Test(t, func(t *testing.T) { story(t, hub) })
}

// after lets time pass, and what is to be done by then be done.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestOwner_IsSetLater(t *testing.T) {
	inTime(t, func(t *testing.T, hub *hubtest.Hub) {
		hub.Put(valued("one"), ownerless())
		o := working(t, hub, &pages{})
		o.later(one)
		after(ownersAfter - time.Millisecond)
		hubtest.ExpectRequests(t, hub)
		o.later(one)
		after(time.Millisecond)
		hubtest.ExpectRequests(t, hub, nameOwner)
		after(time.Hour) // once is enough
		hubtest.ExpectRequests(t, hub)
	})
}

func TestOwners_WaitForRunningWrites(t *testing.T) {
	inTime(t, func(t *testing.T, hub *hubtest.Hub) {
		hub.Put(valued("one"), ownerless())
		o := working(t, hub, &pages{})
		o.writing.Add(2)
		o.later(one)
		after(time.Minute)
		o.writing.Add(-1)
		after(time.Minute)
		hubtest.ExpectRequests(t, hub)
		o.writing.Add(-1)
		after(ownersAgain)
		hubtest.ExpectRequests(t, hub, nameOwner)
	})
}

func TestOwners_WaitForStatusUpdates(t *testing.T) {
	inTime(t, func(t *testing.T, hub *hubtest.Hub) {
		hub.Put(valued("one"), ownerless())
		o := working(t, hub, &pages{})
		var telling atomic.Bool
		telling.Store(true)
		o.telling = telling.Load
		o.later(one)
		after(ownersAfter + 10*time.Second)
		hubtest.ExpectRequests(t, hub)
		telling.Store(false)
		after(ownersAgain)
		hubtest.ExpectRequests(t, hub, nameOwner)
	})
}

func TestOwners_DoNotWaitForever(t *testing.T) {
	inTime(t, func(t *testing.T, hub *hubtest.Hub) {
		hub.Put(valued("one"), ownerless())
		o := working(t, hub, &pages{})
		o.writing.Add(1)
		o.telling = func() bool { return true }
		o.later(one)
		hub.Pass(ownersMost)
		after(time.Hour)
		hubtest.ExpectRequests(t, hub)
		hub.Pass(time.Second)
		after(ownersAgain)
		hubtest.ExpectRequests(t, hub, nameOwner)
	})
}

func TestWhatFailsIsTriedAgain(t *testing.T) {
	inTime(t, func(t *testing.T, hub *hubtest.Hub) {
		hub.Put(valued("one"), ownerless())
		hub.Fail(nameOwner, errDown)
		o := working(t, hub, &pages{})
		o.later(one)
		after(ownersAfter + time.Minute)
		if tries := hub.Requests(); len(tries) < 3 {
			t.Errorf("tried %d times in a minute", len(tries))
		}
		hub.Fail(nameOwner, nil)
		after(2 * time.Minute)
		hubtest.ExpectRequests(t, hub, nameOwner)
		if got := owner(hub); got != "u-one" {
			t.Errorf("the owner is %s", got)
		}
	})
}

// If a BundleDeployment is deleted before its Secret has an owner, the Secret is deleted at once. Other Secrets stay.
func TestAnOwnerThatGoes(t *testing.T) {
	inTime(t, func(t *testing.T, hub *hubtest.Hub) {
		o := working(t, hub, &pages{})
		o.later(one)
		hub.Have(ownerless())
		o.gone(types.NamespacedName{Namespace: "c-two", Name: "web"})
		synctest.Wait()
		hubtest.ExpectRequests(t, hub)
		o.gone(one)
		synctest.Wait()
		hubtest.ExpectRequests(t, hub, readSecret, readOwner, deleteSecret)
		o.gone(one)
		synctest.Wait()
		hubtest.ExpectRequests(t, hub) // no Secret waits for its owner
	})
}

// pages are the values Secrets of a hub, as lists without data show them.
type pages struct {
	metadata.Getter

	of []metav1.PartialObjectMetadataList
	// fail are the answers to the first requests.
	fail  []error
	began time.Time

	mu sync.Mutex
	// requests are those that came, and when.
	requests []string
}

func (p *pages) asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

func (p *pages) List(_ context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	request := strings.Join([]string{time.Since(p.began).String(), options.FieldSelector, options.Continue}, " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, strings.TrimSpace(request))
	if len(p.fail) > 0 {
		err := p.fail[0]
		p.fail = p.fail[1:]
		if err != nil {
			return nil, err
		}
	}
	if options.Limit != ownersPage {
		return nil, errors.New("nobody wants all of them at once")
	}
	if len(p.of) == 0 {
		return &metav1.PartialObjectMetadataList{}, nil
	}
	at := 0
	if options.Continue != "" {
		at = int(options.Continue[0] - '0')
	}
	page := p.of[at]
	if at+1 < len(p.of) {
		page.Continue = string(rune('0' + at + 1))
	}
	return &page, nil
}

// page has Secrets of these clusters; those that begin with "owned-" have an owner.
func page(clusters ...string) (list metav1.PartialObjectMetadataList) {
	for _, name := range clusters {
		meta := metav1.ObjectMeta{Namespace: "c-" + name, Name: "web"}
		if strings.HasPrefix(name, "owned-") {
			meta.OwnerReferences = []metav1.OwnerReference{{UID: "u"}}
		}
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: meta})
	}
	return list
}

func TestSweep_FindsSecretsOfAnEarlierProcess(t *testing.T) {
	ofType := "type=" + fleet.SecretTypeBundleDeployment
	unnamed := []metav1.PartialObjectMetadataList{page("a", "owned-b"), page(), page("owned-c", "d", "e")}
	tests := map[string]struct {
		pages *pages
		asked []string
		named []string
	}{
		"nothing is left": {&pages{}, []string{"30s " + ofType}, nil},
		"some, on several pages": {
			&pages{of: unnamed}, []string{"30s " + ofType, "30s " + ofType + " 1", "30s " + ofType + " 2"}, []string{"a", "d", "e"},
		},
		"after an error, again from the beginning, soon and not as soon": {
			&pages{of: unnamed, fail: []error{errDown, nil, errDown}},
			[]string{"30s " + ofType, "30.01s " + ofType, "30.01s " + ofType + " 1", "30.03s " + ofType, "30.03s " + ofType + " 1", "30.03s " + ofType + " 2"},
			[]string{"a", "d", "e"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, hub *hubtest.Hub) {
				var want []string
				for _, cluster := range test.named {
					hub.Put(valued(cluster), ownerless(func(s *corev1.Secret) { s.Namespace = "c-" + cluster }))
					want = append(want, "patch Secret c-"+cluster+"/web")
				}
				test.pages.began = time.Now()
				working(t, hub, test.pages)
				after(ownersSweep - time.Millisecond)
				if len(test.pages.asked()) > 0 {
					t.Errorf("it looks already: %v", test.pages.asked())
				}
				after(time.Second)
				hubtest.ExpectRequests(t, hub) // there is time
				after(ownersAfter)
				got := slices.Compact(slices.Sorted(slices.Values(hub.Requests())))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				after(24 * time.Hour) // it looks once
				if diff := cmp.Diff(test.asked, test.pages.asked()); diff != "" {
					t.Errorf("asked for (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestOwners_WaitForSyncedCaches(t *testing.T) {
	inTime(t, func(t *testing.T, hub *hubtest.Hub) {
		hub.Have(valued("one"), ownerless())
		var full atomic.Bool
		secrets := &pages{began: time.Now()}
		o := working(t, hub, secrets, full.Load)
		o.later(one)
		after(time.Minute)
		if requests := hub.Requests(); len(requests)+len(secrets.asked()) > 0 {
			t.Errorf("asked for %v, %v", requests, secrets.asked())
		}
		hub.Sync()
		full.Store(true)
		after(time.Second)
		hubtest.ExpectRequests(t, hub, nameOwner)
		if len(secrets.asked()) != 1 {
			t.Errorf("looked for what is left: %v", secrets.asked())
		}
	})
}
