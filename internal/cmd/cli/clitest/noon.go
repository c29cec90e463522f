package clitest

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Noon returns the time at which tests run a command.
func Noon() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

// Ago returns the time that was d before Noon.
func Ago(d time.Duration) metav1.Time { return metav1.NewTime(Noon().Add(-d)) }

// AgentMeta returns the metadata of an object that is in the namespace of the agent and a day old.
func AgentMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: name, CreationTimestamp: Ago(24 * time.Hour)}
}
