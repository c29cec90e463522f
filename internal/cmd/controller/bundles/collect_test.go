package bundles_test

import (
	"log/slog"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	collector "github.com/fleet-hub/fleet/internal/cmd/controller/bundles/content"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/version"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A collector whose clock is ahead finds every Content old enough.
func TestUnusedContent_IsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", nil)
	b := w.bundle(t, "web", to("one"))
	w.deployment(t, "web", "one", "its BundleDeployment", exists)
	needed := content.Manifest{Resources: b.Spec.Resources}.ID()
	w.contentThat(t, needed, func(c *fleet.Content) bool { return c.Status.ReferenceCount == 1 })

	held := content.Object(content.Manifest{Resources: []fleet.BundleResource{{Name: t.Name()}}})
	held.Finalizers = []string{"example.com/somebody"}
	must(t, w.Fleet.Post().Resource("contents").Body(held).Do(t.Context()).Error())
	young := content.Object(content.Manifest{Resources: []fleet.BundleResource{{Name: t.Name() + "young"}}})
	must(t, w.Fleet.Post().Resource("contents").Body(young).Do(t.Context()).Error())
	for _, name := range []string{held.Name, young.Name} {
		must(t, w.Fleet.Get().Resource("contents").Name(name).Do(t.Context()).Error())
	}

	cfg, err := account()
	must(t, err)
	a, err := hub.New(t.Context(), hub.Options{
		Own: kube.Own{Config: cfg}, Env: env.Controller{Namespace: system}, Version: version.Version, Log: slog.New(slog.DiscardHandler),
		Clock: func() time.Time { return time.Now().Add(2 * collector.MinimumAge) },
	})
	must(t, err)
	index.Add(a)
	must(t, collector.Register(t.Context(), a))
	must(t, a.Start(t.Context()))
	NewWithT(t).Eventually(func(g Gomega) {
		for _, name := range []string{held.Name, young.Name} {
			err := w.Fleet.Get().Resource("contents").Name(name).Do(t.Context()).Error()
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "content %s: %v", name, err)
		}
	}).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(Succeed())
	must(t, w.Fleet.Get().Resource("contents").Name(needed).Do(t.Context()).Error())
}
