package globalconfig

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const key = "cattle-fleet-system/fleet-controller"

// written is the ConfigMap, by the chart of a version.
func written(version, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "cattle-fleet-system", Name: "fleet-controller", Annotations: map[string]string{fleet.AnnotationVersion: version},
		},
		Data: map[string]string{"config": text},
	}
}

func TestOnChange(t *testing.T) {
	running := config.Default("test")
	running.APIServerURL = "https://before"
	with := func(change func(*config.Config)) config.Config {
		c := config.Default("test")
		change(&c)
		return c
	}
	tests := map[string]struct {
		found  *corev1.ConfigMap
		want   config.Config
		told   int // how often those who asked were told
		events []string
	}{
		"new configuration: in effect at once": {
			found: written("test", "apiServerURL: https://after"), told: 1,
			want:   with(func(c *config.Config) { c.APIServerURL = "https://after" }),
			events: []string{"Normal ConfigurationLoaded the configuration is in effect"},
		},
		"removed key: default again": {
			found: written("test", "{}"), told: 1, want: config.Default("test"),
			events: []string{"Normal ConfigurationLoaded the configuration is in effect"},
		},
		"equal configuration: no change": {
			found: written("test", "apiServerURL: https://before"), want: running,
		},
		"malformed: refused": {
			found: written("test", "- a"), want: running,
			events: []string{"Warning ConfigurationMalformed reading the configuration: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array " +
				"into Go value of type map[string]interface {}; the running configuration is kept"},
		},
		"invalid value: ignored, the rest is in effect": {
			found: written("test", "gitClientTimeout: soon\ngarbageCollectionInterval: 15m"), told: 1,
			want: with(func(c *config.Config) { c.GarbageCollectionInterval = metav1.Duration{Duration: 15 * time.Minute} }),
			events: []string{
				"Warning ConfigurationValueDropped gitClientTimeout: soon is not a duration like 15m or 30s; using the default",
				"Normal ConfigurationLoaded the configuration is in effect",
			},
		},
		"another version: ignored": {
			found: written("next", "apiServerURL: https://after"), want: running,
			events: []string{`Normal ConfigurationIgnored the configuration is for version "next" and this controller has version "test": ` +
				"it is ignored until both are the same; if they stay different, upgrade chart fleet and its image together"},
		},
		"no version: ignored": {
			found: written("", "apiServerURL: https://after"), want: running,
			events: []string{`Normal ConfigurationIgnored the configuration is for version "" and this controller has version "test": ` +
				"it is ignored until both are the same; if they stay different, upgrade chart fleet and its image together"},
		},
		"deleted: no change": {want: running},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := hubtest.New(t)
			if err := Register(context.Background(), hub.App); err != nil {
				t.Fatal(err)
			}
			hub.App.Config.Set(running)
			told := 0
			hub.App.Config.OnChange(func(config.Config, config.Config) { told++ })
			if test.found != nil {
				hub.Put(test.found)
			}
			if err := hub.Handle("ConfigMap", key); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, hub.App.Config.Get()); diff != "" {
				t.Errorf("the configuration (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.events, hub.Told()); diff != "" {
				t.Errorf("the events (-want +got):\n%s", diff)
			}
			if told != test.told {
				t.Errorf("told %d times, want %d", told, test.told)
			}
		})
	}
}

// An image may have another tag than the version of its programs, for example in a mirror.
func TestVersionOfTheStart_IsAcceptedLater(t *testing.T) {
	hub := hubtest.New(t)
	if err := Register(context.Background(), hub.App); err != nil {
		t.Fatal(err)
	}
	running := config.Default("test")
	running.APIServerURL = "https://start"
	hub.App.Config.Set(running)
	for _, step := range []struct{ version, url, want string }{
		{"tag-of-the-image", "https://start", "https://start"},
		{"tag-of-the-image", "https://second", "https://second"},
		{"next", "https://third", "https://second"},
		{"test", "https://fourth", "https://fourth"},
	} {
		hub.Put(written(step.version, "apiServerURL: "+step.url))
		if err := hub.Handle("ConfigMap", key); err != nil {
			t.Fatal(err)
		}
		if got := hub.App.Config.Get().APIServerURL; got != step.want {
			t.Errorf("version %s: %s is in effect, want %s", step.version, got, step.want)
		}
	}
	if diff := cmp.Diff([]string{
		"Normal ConfigurationLoaded the configuration is in effect",
		`Normal ConfigurationIgnored the configuration is for version "next" and this controller has version "test": it is ignored until both are the same; if they stay different, upgrade chart fleet and its image together`,
		"Normal ConfigurationLoaded the configuration is in effect",
	}, hub.Told()); diff != "" {
		t.Errorf("the events (-want +got):\n%s", diff)
	}
}

func TestOtherConfigMaps_AreIgnored(t *testing.T) {
	h := &handler{app: hubtest.New(t).App}
	for _, other := range []*corev1.ConfigMap{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-fleet-system", Name: "other"}, Data: map[string]string{"config": "apiServerURL: https://x"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "fleet-controller"}, Data: map[string]string{"config": "apiServerURL: https://x"}},
	} {
		if _, err := h.onChange(key, other); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.app.Config.Get().APIServerURL; got != "" {
		t.Errorf("it took %s", got)
	}
}
