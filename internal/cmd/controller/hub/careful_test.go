package hub

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// writes is a controller of Clusters that records its requests.
type writes struct {
	generic.ControllerInterface[*fleet.Cluster, *fleet.ClusterList]

	live     *fleet.Cluster
	requests []string
	handler  generic.ObjectHandler[*fleet.Cluster]
}

func (w *writes) Get(string, string, metav1.GetOptions) (*fleet.Cluster, error) {
	return w.live.DeepCopy(), nil
}

func (w *writes) Update(c *fleet.Cluster) (*fleet.Cluster, error) {
	w.requests = append(w.requests, "update")
	return c, nil
}

func (w *writes) UpdateStatus(c *fleet.Cluster) (*fleet.Cluster, error) {
	w.requests = append(w.requests, "update status")
	return c, nil
}

func (w *writes) Patch(_, _ string, pt types.PatchType, data []byte, subresources ...string) (*fleet.Cluster, error) {
	if pt != types.MergePatchType {
		return nil, fmt.Errorf("a patch of type %s", pt)
	}
	w.requests = append(w.requests, fmt.Sprintf("patch%v %s", subresources, data))
	return w.live, nil
}

func (w *writes) OnChange(_ context.Context, _ string, handler generic.ObjectHandler[*fleet.Cluster]) {
	w.handler = handler
}

// half returns an incompletely decoded Cluster ws/c.
func half() *fleet.Cluster {
	c := versioned("1")
	c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	c.Labels = map[string]string{"a": "b"}
	c.Spec.ClientID = "id"
	c.Spec.AgentTolerations = []corev1.Toleration{{Key: "a"}}
	c.Status.Namespace = names.ClusterNamespace("ws", "c")
	c.Status.Agent.Namespace = "agents"
	c.Status.Conditions = []genericcondition.GenericCondition{{Type: "A", Status: "True"}}
	return c
}

func TestUndecodableFields_AreNotWritten(t *testing.T) {
	status := func(change func(*fleet.ClusterStatus)) func(*fleet.Cluster) {
		return func(c *fleet.Cluster) { change(&c.Status) }
	}
	tests := map[string]struct {
		missing []string
		change  func(*fleet.Cluster)
		spec    bool // Update, not UpdateStatus
		want    []string
	}{
		"what is whole is sent whole":                 {change: func(*fleet.Cluster) {}, want: []string{"update status"}},
		"so it is where something of the spec is not": {missing: []string{"spec.ttl"}, change: func(*fleet.Cluster) {}, want: []string{"update status"}},
		"and the other way round":                     {missing: []string{"status.a"}, change: func(*fleet.Cluster) {}, spec: true, want: []string{"update"}},
		"of a status that is not whole, what differs": {
			missing: []string{"status.agent.lastSeen"},
			change: status(func(s *fleet.ClusterStatus) {
				s.Scheduled = true
				s.Conditions[0].Status = "False"
			}),
			want: []string{`patch[status] {"metadata":{"resourceVersion":"1","uid":"u"},"status":{"conditions":[{"status":"False","type":"A"}],"scheduled":true}}`},
		},
		"of a spec that is not whole, too": {
			missing: []string{"spec.agentResources.limits.memory"},
			change: func(c *fleet.Cluster) {
				c.ManagedFields = []metav1.ManagedFieldsEntry{{}}
				c.Labels = map[string]string{"a": "c"}
				c.Spec.ClientID, c.Status.Namespace = "", "other"
			},
			spec: true,
			want: []string{`patch[] {"metadata":{"labels":{"a":"c"},"resourceVersion":"1","uid":"u"},"spec":{"clientID":null}}`},
		},
		"nothing, where nothing differs": {missing: []string{"status.agent.lastSeen"}, change: func(*fleet.Cluster) {}},
		"a list stays that has something in it": {
			missing: []string{"status.conditions[1].message"},
			change:  status(func(s *fleet.ClusterStatus) { s.Conditions, s.Namespace = nil, "m" }),
			want:    []string{`patch[status] {"metadata":{"resourceVersion":"1","uid":"u"},"status":{"namespace":"m"}}`},
		},
		"nothing is written into what is not there": {
			missing: []string{"status"}, change: status(func(s *fleet.ClusterStatus) { s.Namespace = "m" }),
		},
		"a list that could not be read stays": {
			missing: []string{"status.conditions"}, change: status(func(s *fleet.ClusterStatus) { s.Conditions = append(s.Conditions, s.Conditions...) }),
		},
		"what is beside it with a name that begins alike is written": {
			missing: []string{"status.name"},
			change:  status(func(s *fleet.ClusterStatus) { s.Namespace = "m" }),
			want:    []string{`patch[status] {"metadata":{"resourceVersion":"1","uid":"u"},"status":{"namespace":"m"}}`},
		},
		"a new value heals what could not be read": {
			missing: []string{"status.garbageCollectionInterval"},
			change: status(func(s *fleet.ClusterStatus) {
				s.GarbageCollectionInterval = &metav1.Duration{Duration: time.Minute}
			}),
			want: []string{`patch[status] {"metadata":{"resourceVersion":"1","uid":"u"},"status":{"garbageCollectionInterval":"1m0s"}}`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			told, server := newTelling(), &writes{live: half()}
			var missing []lost
			for _, path := range test.missing {
				missing = append(missing, lost{path, "T"})
			}
			told.note("Cluster", half(), missing)
			clusters := careful[*fleet.Cluster, *fleet.ClusterList]{server, "clusters", told.unread}
			wanted, write := half(), clusters.UpdateStatus
			if test.spec {
				write = clusters.Update
			}
			test.change(wanted)
			if _, err := write(wanted); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, server.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConcurrentWriteOfAnIncompleteObject_IsAConflict(t *testing.T) {
	told, server := newTelling(), &writes{live: versioned("2")}
	told.note("Cluster", half(), []lost{{"status.agent.lastSeen", "Time"}})
	clusters := careful[*fleet.Cluster, *fleet.ClusterList]{server, "clusters", told.unread}
	if _, err := clusters.UpdateStatus(half()); !apierrors.IsConflict(err) || len(server.requests) > 0 {
		t.Errorf("error %v, requests %q", err, server.requests)
	}
}

func TestBlockedObject_CallsNoHandler(t *testing.T) {
	told, server := newTelling(), &writes{}
	clusters := careful[*fleet.Cluster, *fleet.ClusterList]{server, "clusters", told.unread}
	var called []string
	clusters.OnChange(t.Context(), "x", func(key string, c *fleet.Cluster) (*fleet.Cluster, error) {
		called = append(called, key)
		return c, nil
	})
	told.note("Cluster", versioned("1"), []lost{{"spec.paused", "bool"}})
	for _, c := range []*fleet.Cluster{versioned("1"), versioned("2"), nil} {
		version := "gone"
		if c != nil {
			version = c.ResourceVersion
		}
		if got, err := server.handler(version, c); got != c || err != nil {
			t.Errorf("%v, error %v", got, err)
		}
	}
	if diff := cmp.Diff([]string{"2", "gone"}, called); diff != "" {
		t.Errorf("called (-want +got):\n%s", diff)
	}
}
