package install

import (
	"context"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// AnotherHubError means that an agent belongs to another hub and is left alone.
type AnotherHubError struct{ namespace, uid string }

func (e *AnotherHubError) Error() string {
	return fmt.Sprintf("the agent in namespace %s belongs to hub %s", e.namespace, e.uid)
}

// uidForm matches valid UIDs. Messages do not repeat anything else, because the value comes from another cluster.
var uidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// Message describes the problem and the remedy.
func (e *AnotherHubError) Message() string {
	uid := e.uid
	if !uidForm.MatchString(uid) {
		uid = "unknown"
	}
	return fmt.Sprintf("the agent in namespace %s of the downstream cluster belongs to another hub (UID of that hub's namespace kube-system: %s). To install a second agent, set spec.agentNamespace of this Cluster. To take this agent over, delete its Cluster on the other hub, then run on the downstream cluster: kubectl annotate configmap -n %s %s %s-",
		e.namespace, uid, e.namespace, names.Agent, annotation.HubUID)
}

// CheckHub returns an AnotherHubError if the agent in a downstream namespace belongs to another hub. An agent without
// a mark may belong to any hub.
func CheckHub(ctx context.Context, downstream hub.Downstream, namespace string, own types.UID) error {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.Agent}}
	if _, err := downstream.Find(ctx, config); err != nil {
		return err
	}
	if mark := config.Annotations[annotation.HubUID]; mark != "" && mark != string(own) {
		return &AnotherHubError{namespace: namespace, uid: mark}
	}
	return nil
}

// WithHub returns the rendered objects with the hub's mark on the agent's ConfigMap.
func WithHub(rendered []runtime.Object, own types.UID) []runtime.Object {
	marked := make([]runtime.Object, 0, len(rendered))
	for _, object := range rendered {
		if config, ok := object.(*corev1.ConfigMap); ok && config.Name == names.Agent {
			config = config.DeepCopy()
			config.Annotations = labels.Merge(config.Annotations, labels.Set{annotation.HubUID: string(own)})
			object = config
		}
		marked = append(marked, object)
	}
	return marked
}
