package values

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/delivery"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Grace is how long the values Secret of a Bundle may be missing or not match before that is an error. The Bundle and
// its Secret are written one after the other, in either order.
const Grace = 20 * time.Second

// ErrMissing means that a Bundle has the hash of values, but the Secret with them is missing.
var ErrMissing = errors.New("spec.valuesHash: the Secret of the Bundle's name with its values (type " + fleet.SecretTypeBundleValues +
	") is missing; apply the Bundle again together with its values")

// Source reads the values of Bundles from their Secrets. It is safe for concurrent use.
type Source struct {
	app *hub.App

	mu sync.Mutex
	// awaited are the Bundles whose Secret is missing or does not match.
	awaited map[types.NamespacedName]awaitedValues
}

type awaitedValues struct {
	hash  string
	since time.Time
}

// NewSource returns a Source that awaits no Secret.
func NewSource(a *hub.App) *Source {
	return &Source{app: a, awaited: map[types.NamespacedName]awaitedValues{}}
}

// Inject returns a copy of the Bundle with the values of its Secret, if it has one. failure is set if the Secret is
// missing or invalid.
func (s *Source) Inject(ctx context.Context, bundle *fleet.Bundle) (with *fleet.Bundle, failure, err error) {
	if bundle.Spec.ValuesHash == "" {
		return bundle, nil, nil
	}
	s.await(bundle) // before the Secret is read, so that no later event is missed
	secret, err := reconcile.Optional(s.app.Kube.CoreV1().Secrets(bundle.Namespace).Get(ctx, bundle.Name, metav1.GetOptions{}))
	if err != nil {
		return bundle, nil, fmt.Errorf("reading the values secret: %w", err)
	}
	if secret == nil || secret.Type != fleet.SecretTypeBundleValues {
		return bundle, ErrMissing, nil
	}
	with, failure = delivery.InjectValues(bundle, secret.Data)
	if failure != nil {
		return bundle, failure, nil
	}
	return with, nil, nil
}

func (s *Source) await(bundle *fleet.Bundle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awaited[reconcile.KeyOf(bundle)].hash != bundle.Spec.ValuesHash {
		s.awaited[reconcile.KeyOf(bundle)] = awaitedValues{bundle.Spec.ValuesHash, s.app.OwnClock()}
	}
}

// Wait returns how long a Bundle is left unchanged because its Secret may still arrive. failure is the result of
// Inject. If the Secret is not the reason, Wait ends waiting and returns zero.
func (s *Source) Wait(bundle types.NamespacedName, failure error) time.Duration {
	if !errors.Is(failure, ErrMissing) && !errors.Is(failure, delivery.ErrValuesHash) {
		s.Forget(bundle)
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.awaited[bundle].since.Add(Grace).Sub(s.app.OwnClock()))
}

// Awaits reports whether a Bundle waits for its Secret.
func (s *Source) Awaits(bundle types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.awaited[bundle]
	return found
}

// Forget ends waiting.
func (s *Source) Forget(bundle types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.awaited, bundle)
}
