package reconcile

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	fake "k8s.io/client-go/tools/cache/testing"
)

func TestWatchChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object := func() *corev1.ConfigMap { return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}} }
		source := fake.NewFakeControllerSource()
		source.Add(object())
		informer := cache.NewSharedIndexInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{})
		var told []string
		version := func(c *corev1.ConfigMap) string {
			if c == nil {
				return "-"
			}
			return c.ResourceVersion
		}
		err := WatchChanges(informer, func(c Change[*corev1.ConfigMap]) {
			told = append(told, fmt.Sprint(version(c.Old), " ", version(c.New), " ", c.Initial))
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go informer.Run(ctx.Done())
		<-time.After(time.Second)
		for _, change := range []func(runtime.Object){source.Modify, source.Delete, source.Add} {
			change(object())
			<-time.After(time.Second)
		}
		cancel()
		source.Shutdown()
		synctest.Wait()
		if diff := cmp.Diff([]string{"- 1 true", "1 2 false", "3 - false", "- 4 false"}, told); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	})
}
